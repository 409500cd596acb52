//! The line: the slots of a bus in the order of their keys, with room in front for late recipients.
//!
//! # States
//!
//! ```text
//!  publications   head ─► 5 ◄──► 7 ◄──► 8 ◄─ tail       one bucket each, linked when it opens
//!                         │      │      │
//!  slots                  6      9      10              linked behind each other as they are admitted
//!                         11                            a late recipient of 5 costs what any slot costs
//!
//!  slot:  Reserved ──fill──► Ready ──take──► (gone)
//!             └────abandon──► Abandoned ──take──► (gone)
//! ```
//!
//! A publication's bucket is linked at the tail when the publication opens: ordinals rise, so that is its place
//! for good, in front of everything that begins later. Admissions of one publication rise too, so each goes to
//! the tail of its bucket. Nothing is ever shifted.
//!
//! # Invariants
//!
//! * **N1** the head is the slot with the smallest key, or nothing (PUB-1, PUB-2, PUB-4).
//! * **N2** a bucket lives while its publication is open or it has a slot.
//! * **N3** an impossible request breaks the machine, and it says why for ever.

use alloc::vec::Vec;

use super::ordinal::{Key, Ordinal};
use super::reservation::{Settlement, Stage};
use super::root::Root;

/// Whom a slot is for, as it was when the event arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The component's place in the registry.
    pub component: u32,
    /// Which registration at that place.
    pub registration: u32,
    /// Which life of the registration.
    pub generation: u32,
    /// The run in which the event arrived; 0 if the component was not running.
    pub run: u32,
}

/// One callback that is due.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// Its place in the order.
    pub key: Key,
    /// Whom it is for.
    pub target: Target,
    /// Who pays for it.
    pub root: Root,
    /// Where the driver keeps the capture.
    pub payload: u32,
    /// Which subscription it came through.
    pub subscription: u32,
    /// Which use of that subscription's place.
    pub serial: u32,
    /// Where it stands in the driver's list of recipients; [`ALONE`] if target and subscription are those above.
    pub at: u32,
    /// How many slots, with rising admission ordinals and places in the list, stand here in one.
    pub count: u32,
}

/// The slot is in no list.
pub const ALONE: u32 = u32::MAX;

/// A slot's place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlotId(pub u32);

/// A bucket's place in the slab.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BucketId(pub u32);

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Node {
    slot: Slot,
    stage: Stage,
    /// The next slot of the bucket, or the next free node.
    next: u32,
    /// The bucket it stands in; `NONE` while the node is free.
    bucket: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Bucket {
    publication: Ordinal,
    first: u32,
    last: u32,
    before: u32,
    /// The next bucket, or the next free one.
    after: u32,
    open: bool,
}

const NONE: u32 = u32::MAX;

/// The slots of one bus.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    nodes: Vec<Node>,
    /// Places of `nodes` that are paid for, used or not: the capacity that was asked for, whatever was given.
    paid: usize,
    free_node: u32,
    buckets: Vec<Bucket>,
    free_bucket: u32,
    head: u32,
    tail: u32,
    /// Slots in the line, whatever their stage.
    len: u32,
    /// Slots still to be filled or abandoned.
    reserved: u32,
    broken: Option<&'static str>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            paid: 0,
            free_node: NONE,
            buckets: Vec::new(),
            free_bucket: NONE,
            head: NONE,
            tail: NONE,
            len: 0,
            reserved: 0,
            broken: None,
        }
    }
}

impl Line {
    /// What one slot costs, in bytes.
    pub const SLOT_BYTES: u64 = size_of::<Node>() as u64;
    /// What one publication costs, in bytes.
    pub const BUCKET_BYTES: u64 = size_of::<Bucket>() as u64;

    /// Opens the bucket of a publication, behind all others.
    #[inline]
    pub fn open(&mut self, publication: Ordinal) -> BucketId {
        if self.tail != NONE && self.buckets[self.tail as usize].publication >= publication {
            self.broken = Some("PUB-3: a publication began with an old ordinal");
        }
        let bucket =
            Bucket { publication, first: NONE, last: NONE, before: self.tail, after: NONE, open: true };
        let at = self.place_bucket(bucket);
        match self.tail {
            NONE => self.head = at,
            tail => self.buckets[tail as usize].after = at,
        }
        self.tail = at;
        BucketId(at)
    }

    #[inline]
    fn place_bucket(&mut self, bucket: Bucket) -> u32 {
        if self.free_bucket == NONE {
            self.buckets.push(bucket);
            return (self.buckets.len() - 1) as u32;
        }
        let at = self.free_bucket;
        self.free_bucket = self.buckets[at as usize].after;
        self.buckets[at as usize] = bucket;
        at
    }

    /// The publication has ended; its bucket goes once it is empty.
    #[inline]
    pub fn close(&mut self, bucket: BucketId) {
        let entry = &mut self.buckets[bucket.0 as usize];
        if !entry.open {
            self.broken = Some("PUB-3: a publication ended twice");
            return;
        }
        entry.open = false;
        if entry.first == NONE {
            self.unlink(bucket.0);
        }
    }

    #[inline]
    fn unlink(&mut self, at: u32) {
        let Bucket { before, after, .. } = self.buckets[at as usize];
        match before {
            NONE => self.head = after,
            before => self.buckets[before as usize].after = after,
        }
        match after {
            NONE => self.tail = before,
            after => self.buckets[after as usize].before = before,
        }
        self.buckets[at as usize].after = self.free_bucket;
        self.free_bucket = at;
    }

    /// Puts a slot behind the others of its publication.
    #[inline(always)]
    pub fn admit(&mut self, bucket: BucketId, slot: Slot, stage: Stage) -> SlotId {
        let node = Node { slot, stage, next: NONE, bucket: bucket.0 };
        let at = if self.free_node == NONE {
            if self.nodes.len() == self.paid {
                let step = self.step();
                self.paid += step;
                self.nodes.reserve_exact(step);
            }
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let at = self.free_node;
            let place = &mut self.nodes[at as usize];
            self.free_node = place.next;
            // Word by word: copied as a block, it would go through memory and wait for it.
            place.slot.key.publication = node.slot.key.publication;
            place.slot.key.admission = node.slot.key.admission;
            place.slot.target.component = node.slot.target.component;
            place.slot.target.registration = node.slot.target.registration;
            place.slot.target.generation = node.slot.target.generation;
            place.slot.target.run = node.slot.target.run;
            place.slot.root = node.slot.root;
            place.slot.payload = node.slot.payload;
            place.slot.subscription = node.slot.subscription;
            place.slot.serial = node.slot.serial;
            place.slot.at = node.slot.at;
            place.slot.count = node.slot.count;
            place.stage = node.stage;
            place.next = node.next;
            place.bucket = node.bucket;
            at
        };
        let entry = &mut self.buckets[bucket.0 as usize];
        if !entry.open || entry.publication != slot.key.publication {
            self.broken = Some("PUB-4: a slot was admitted to another publication's bucket");
        }
        match entry.last {
            NONE => entry.first = at,
            last => self.nodes[last as usize].next = at,
        }
        entry.last = at;
        self.len += slot.count;
        self.reserved += u32::from(matches!(stage, Stage::Reserved));
        SlotId(at)
    }

    /// The slot with the smallest key.
    #[inline(always)]
    #[must_use]
    pub fn head(&self) -> Option<(SlotId, &Slot, Stage)> {
        let mut at = self.head;
        // A bucket at the front is empty only while its publication is open, and then nobody drains.
        while at != NONE {
            let bucket = &self.buckets[at as usize];
            if bucket.first != NONE {
                let node = &self.nodes[bucket.first as usize];
                return Some((SlotId(bucket.first), &node.slot, node.stage));
            }
            at = bucket.after;
        }
        None
    }

    /// Takes the head out, whatever its stage.
    #[inline]
    pub fn take_head(&mut self) -> Option<Slot> {
        let (id, &slot, _) = self.head()?;
        self.take(id);
        Some(slot)
    }

    /// Takes the slot out that [`head`](Self::head) has just shown.
    #[inline(always)]
    pub fn take(&mut self, SlotId(at): SlotId) {
        let node = &mut self.nodes[at as usize];
        let (next, bucket, stage) = (node.next, node.bucket, node.stage);
        if node.slot.count > 1 {
            // The next one of the row has come to the head.
            node.slot.count -= 1;
            node.slot.key.admission.0 += 1;
            node.slot.at += 1;
            self.len -= 1;
            return;
        }
        let first = self.buckets.get(bucket as usize).map(|bucket| bucket.first);
        if first != Some(at) {
            self.broken = Some("PUB-1: a slot was taken out that is not the head of its publication");
            return;
        }
        node.bucket = NONE;
        node.next = self.free_node;
        self.free_node = at;
        self.len -= 1;
        self.reserved -= u32::from(matches!(stage, Stage::Reserved));
        let entry = &mut self.buckets[bucket as usize];
        entry.first = next;
        if next == NONE {
            entry.last = NONE;
            if !entry.open {
                self.unlink(bucket);
            }
        }
    }

    /// A slot that is in the line.
    #[must_use]
    pub fn slot(&self, id: SlotId) -> Option<(&Slot, Stage)> {
        let node = self.nodes.get(id.0 as usize).filter(|node| node.bucket != NONE)?;
        Some((&node.slot, node.stage))
    }

    /// The reserved slot has its capture.
    pub fn fill(&mut self, id: SlotId, payload: u32) {
        if self.settle(id, Settlement::Fill) {
            self.nodes[id.0 as usize].slot.payload = payload;
        }
    }

    /// The reserved slot will never have a capture.
    pub fn abandon(&mut self, id: SlotId) {
        self.settle(id, Settlement::Abandon);
    }

    fn settle(&mut self, id: SlotId, how: Settlement) -> bool {
        let node = self.nodes.get_mut(id.0 as usize).filter(|node| node.bucket != NONE);
        let Some((node, stage)) = node.and_then(|node| node.stage.settle(how).map(|stage| (node, stage)))
        else {
            self.broken = Some("ADM-3: a reservation was settled twice");
            return false;
        };
        node.stage = stage;
        self.reserved -= 1;
        true
    }

    /// Slots in the line.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is in the line.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reservations that are neither filled nor abandoned.
    #[must_use]
    #[inline]
    pub const fn reserved(&self) -> u32 {
        self.reserved
    }

    /// Bytes that one more slot needs beyond those that the slab has.
    #[must_use]
    #[inline]
    pub fn growth(&self) -> u64 {
        let room = self.free_node != NONE || self.nodes.len() < self.paid;
        if room { 0 } else { self.step() as u64 * Self::SLOT_BYTES }
    }

    fn step(&self) -> usize {
        self.paid.clamp(64, 4096)
    }

    /// Gives the storage up if no slot is in it; the bytes of slots that came free.
    pub fn shrink(&mut self) -> u64 {
        if self.len > 0 || self.head != NONE {
            return 0;
        }
        let bytes = self.paid as u64 * Self::SLOT_BYTES;
        *self = Self { broken: self.broken, ..Self::default() };
        bytes
    }

    /// Why the machine is broken, if it is.
    #[must_use]
    pub const fn broken(&self) -> Option<&'static str> {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::super::root::Roots;
    use super::*;

    fn slot(publication: u64, admission: u64) -> Slot {
        let key = Key { publication: Ordinal(publication), admission: Ordinal(admission) };
        let target = Target { component: 0, registration: 0, generation: 0, run: 1 };
        Slot {
            key,
            target,
            root: Roots::default().make(0),
            payload: 0,
            subscription: 0,
            serial: 0,
            at: ALONE,
            count: 1,
        }
    }

    fn keys(mut line: Line) -> Vec<(u64, u64)> {
        core::iter::from_fn(|| line.take_head())
            .map(|slot| (slot.key.publication.0, slot.key.admission.0))
            .collect()
    }

    #[test]
    fn pub_2_a_late_recipient_of_the_outer_publication_stands_in_front_of_nested_work() {
        let mut line = Line::default();
        let outer = line.open(Ordinal(1));
        line.admit(outer, slot(1, 2), Stage::Ready);
        let nested = line.open(Ordinal(3));
        line.admit(nested, slot(3, 4), Stage::Ready);
        line.close(nested);
        line.admit(outer, slot(1, 5), Stage::Ready);
        line.close(outer);
        assert_eq!(keys(line), [(1, 2), (1, 5), (3, 4)]);
    }

    #[test]
    fn pub_3_an_empty_publication_leaves_nothing() {
        let mut line = Line::default();
        let empty = line.open(Ordinal(1));
        line.close(empty);
        assert_eq!(line.head(), None);
        assert_eq!(line.open(Ordinal(2)), empty, "its place is used again");
    }

    #[test]
    fn adm_3_a_settled_reservation_cannot_be_settled_again() {
        let mut line = Line::default();
        let bucket = line.open(Ordinal(1));
        let id = line.admit(bucket, slot(1, 2), Stage::Reserved);
        assert_eq!(line.reserved(), 1);
        line.abandon(id);
        assert_eq!((line.reserved(), line.len()), (0, 1), "the slot stays");
        line.fill(id, 0);
        assert!(line.broken().is_some());
    }

    #[test]
    fn pub_4_a_row_of_slots_is_so_many_slots() {
        let mut line = Line::default();
        let outer = line.open(Ordinal(1));
        line.admit(outer, Slot { at: 0, count: 3, ..slot(1, 2) }, Stage::Ready);
        let nested = line.open(Ordinal(5));
        line.admit(nested, slot(5, 6), Stage::Ready);
        line.admit(outer, slot(1, 7), Stage::Ready);
        assert_eq!(line.len(), 5);
        line.close(nested);
        line.close(outer);
        assert_eq!(keys(line), [(1, 2), (1, 3), (1, 4), (1, 7), (5, 6)]);
    }

    /// Every sequence of six requests over two nested publications, beside a set of keys.
    #[test]
    fn model_pub_4_the_line_is_the_set_of_its_keys_in_order() {
        for script in 0..6_u32.pow(6) {
            let mut line = Line::default();
            let mut keys = BTreeSet::new();
            let mut open: Vec<(Ordinal, BucketId)> = Vec::new();
            let mut last = 0;
            let mut rest = script;
            for _ in 0..6 {
                let step = rest % 6;
                rest /= 6;
                match step {
                    0 if open.len() < 3 => {
                        last += 1;
                        open.push((Ordinal(last), line.open(Ordinal(last))));
                    }
                    1 => {
                        if let Some((_, bucket)) = open.pop() {
                            line.close(bucket);
                        }
                    }
                    2..=4 => {
                        if let Some(&(publication, bucket)) = open.get(step as usize - 2) {
                            last += 1;
                            let slot = slot(publication.0, last);
                            keys.insert(slot.key);
                            line.admit(bucket, slot, Stage::Ready);
                        }
                    }
                    5 => assert_eq!(line.take_head().map(|slot| slot.key), keys.pop_first()),
                    _ => {}
                }
                assert_eq!(line.head().map(|(_, slot, _)| slot.key), keys.first().copied());
                assert_eq!(line.len() as usize, keys.len());
                assert_eq!(line.broken(), None);
            }
        }
    }
}
