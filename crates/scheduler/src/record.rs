//! A record: one accepted piece of work, with the link by which it stands in lanes.
//!
//! The header is the same for every record, so that queues and the driver know nothing of message types. What
//! the work is stays behind a table of four functions.

use std::any::{Any, TypeId};
use std::ptr::NonNull;

use turnkeep_machines::lane::RECORD_OVERHEAD;
use turnkeep_machines::pair::Lane;

use crate::access::{Start, Started};
use crate::blocks;
use crate::link::{Kind, Link};
use crate::owner::Owner;

/// Why a record that was accepted, or offered, is not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Refusal {
    /// The object has ended or is ending.
    Ended,
    /// The object was stopped by a panic of one of its handlers.
    Panicked,
    /// The object could not be made.
    NotMade,
    /// The object is being handed over and takes nothing meanwhile.
    HandedOver,
    /// The lane is full, or others wait for its room already.
    Full,
    /// The record alone is larger than the lane's byte limit.
    TooLarge,
    /// The list of those who wait for room is at its bound.
    TooManyWaiters,
}

/// What a record does when its turn comes.
pub trait Work: Any + Send + Sized {
    /// Begins the turn: makes the handler and hands it to `start`.
    fn start(work: Owned<Self>, start: Start<'_>) -> Started;

    /// What it is, in the words of whoever wrote it: the name of a Rust type.
    fn name() -> &'static str {
        std::any::type_name::<Self>()
    }

    /// The record was meant for `owner` and will never run; whoever waits for it is told why.
    fn refuse(self, owner: &Owner, why: Refusal);

    /// What it carries for its object, for those who look at it before it runs.
    fn payload(&mut self) -> Option<&mut dyn Any> {
        None
    }
}

#[repr(C)]
pub(crate) struct Header {
    link: Link,
    table: &'static Table,
    /// What it has reserved in its lane; 0 for records that need no room.
    reserved: u64,
    /// The lane in the lowest bit, and above it the record's number in a trace; 0 without one.
    lane_and_number: u64,
}

impl Header {
    fn lane(&self) -> Lane {
        if self.lane_and_number & 1 == 0 { Lane::Application } else { Lane::Lifecycle }
    }
}

struct Table {
    type_id: fn() -> TypeId,
    name: fn() -> &'static str,
    start: unsafe fn(NonNull<Header>, Start<'_>) -> Started,
    refuse: unsafe fn(NonNull<Header>, &Owner, Refusal),
    payload: unsafe fn(&mut Record) -> Option<&mut dyn Any>,
    drop: unsafe fn(NonNull<Header>),
}

#[repr(C)]
struct Whole<W> {
    header: Header,
    work: W,
}

/// The work of a record whose turn has come, where it came in.
#[derive(Debug)]
pub struct Owned<W>(NonNull<Whole<W>>);

// SAFETY: an `Owned` is the only owner of the work.
unsafe impl<W: Send> Send for Owned<W> {}
// SAFETY: a shared `Owned` gives out `&W` only.
unsafe impl<W: Sync> Sync for Owned<W> {}

impl<W> Owned<W> {
    /// The work, out of its record.
    #[must_use]
    pub fn into_inner(self) -> W {
        let whole = self.0;
        std::mem::forget(self);
        // SAFETY: from `Record::new`, ours alone, given up once: `self` is forgotten.
        unsafe { blocks::take(whole) }.work
    }
}

impl<W> std::ops::Deref for Owned<W> {
    type Target = W;

    fn deref(&self) -> &W {
        // SAFETY: alive and ours.
        &unsafe { self.0.as_ref() }.work
    }
}

impl<W> std::ops::DerefMut for Owned<W> {
    fn deref_mut(&mut self) -> &mut W {
        // SAFETY: alive and ours alone.
        &mut unsafe { self.0.as_mut() }.work
    }
}

impl<W> Drop for Owned<W> {
    fn drop(&mut self) {
        // SAFETY: `into_inner` forgets `self`, so this runs only for work never taken.
        unsafe { blocks::discard(self.0) };
    }
}

struct TableOf<W>(W);

impl<W: Work> TableOf<W> {
    const TABLE: Table = Table {
        type_id: TypeId::of::<W>,
        name: W::name,
        start: Self::start,
        refuse: Self::refuse,
        payload: Self::payload,
        drop: Self::drop,
    };

    unsafe fn take(header: NonNull<Header>) -> W {
        // SAFETY: `header` came from `Record::new::<W>` (the table is W's) and is consumed here, once.
        unsafe { blocks::take(header.cast::<Whole<W>>()) }.work
    }

    unsafe fn start(header: NonNull<Header>, start: Start<'_>) -> Started {
        // `header` came from `Record::new::<W>` (the table is W's) and belongs to the `Owned` from here on.
        W::start(Owned(header.cast::<Whole<W>>()), start)
    }

    unsafe fn refuse(header: NonNull<Header>, owner: &Owner, why: Refusal) {
        // SAFETY: passed on.
        unsafe { Self::take(header) }.refuse(owner, why);
    }

    unsafe fn payload(record: &mut Record) -> Option<&mut dyn Any> {
        // SAFETY: the table is W's, so the record is one of a `W`, alive and borrowed by nobody else.
        unsafe { record.0.cast::<Whole<W>>().as_mut() }.work.payload()
    }

    unsafe fn drop(header: NonNull<Header>) {
        // SAFETY: passed on.
        drop(unsafe { Self::take(header) });
    }
}

/// An owned record. Dropping it drops its work unrun: whoever waits for it must learn that from the drop.
#[derive(Debug)]
pub struct Record(NonNull<Header>);

// SAFETY: the work inside is `Send`, and a `Record` is the only owner of its allocation.
unsafe impl Send for Record {}
// SAFETY: a shared record gives out plain numbers only.
unsafe impl Sync for Record {}

impl Record {
    /// A record for the application lane whose payload owns or is `payload` bytes (LANE-2).
    #[inline]
    pub fn application<W: Work>(payload: u64, work: W) -> Self {
        Self::new(Lane::Application, payload.saturating_add(RECORD_OVERHEAD), work)
    }

    /// A record for the lifecycle lane.
    pub fn lifecycle<W: Work>(payload: u64, work: W) -> Self {
        Self::new(Lane::Lifecycle, payload.saturating_add(RECORD_OVERHEAD), work)
    }

    /// A lifecycle record whose room somebody else answers for: it is appended without admission.
    pub fn unmetered<W: Work>(work: W) -> Self {
        Self::new(Lane::Lifecycle, 0, work)
    }

    /// An application record that has room of its own, so that a full lane neither refuses nor delays it: a tick.
    pub fn of_own_room<W: Work>(work: W) -> Self {
        Self::new(Lane::Application, 0, work)
    }

    #[inline]
    fn new<W: Work>(lane: Lane, reserved: u64, work: W) -> Self {
        let header = Header {
            link: Link::new(Kind::Record),
            table: &TableOf::<W>::TABLE,
            reserved,
            lane_and_number: lane as u64,
        };
        Self(blocks::leak(Whole { header, work }).cast())
    }

    fn header(&self) -> &Header {
        // SAFETY: we own the allocation.
        unsafe { self.0.as_ref() }
    }

    /// The lane it is meant for.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.header().lane()
    }

    /// Its number in a trace; 0 without one.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.header().lane_and_number >> 1
    }

    /// Gives it a number, below 2^63.
    pub(crate) fn set_number(&mut self, number: u64) {
        // SAFETY: we own the allocation, and `&mut self` says that nobody looks.
        let header = unsafe { self.0.as_mut() };
        header.lane_and_number = number << 1 | header.lane_and_number & 1;
    }

    /// What it reserves of the lane's bytes: payload and overhead; 0 for an unmetered one.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.header().reserved
    }

    /// What it carries for its object. Exclusive, since what a record carries need not be shareable.
    pub fn payload(&mut self) -> Option<&mut dyn Any> {
        let table = self.header().table;
        // SAFETY: the record's own table.
        unsafe { (table.payload)(self) }
    }

    /// What its work is.
    #[must_use]
    pub fn name(&self) -> &'static str {
        (self.header().table.name)()
    }

    /// The work, if it is a `W`.
    ///
    /// # Errors
    ///
    /// The record itself, if it is something else.
    pub fn into_work<W: Work>(self) -> Result<W, Self> {
        if (self.header().table.type_id)() != TypeId::of::<W>() {
            return Err(self);
        }
        // SAFETY: the table is that of a `W`, and `self` is given up.
        Ok(unsafe { TableOf::<W>::take(self.into_raw()) })
    }

    /// Tells whoever waits for it that `owner` will not run it.
    pub fn refuse(self, owner: &Owner, why: Refusal) {
        let header = self.into_raw();
        // SAFETY: ours, consumed here.
        unsafe { (header.as_ref().table.refuse)(header, owner, why) };
    }

    pub(crate) fn start(self, start: Start<'_>) -> Started {
        let header = self.into_raw();
        // SAFETY: ours, consumed here.
        unsafe { (header.as_ref().table.start)(header, start) }
    }

    fn into_raw(self) -> NonNull<Header> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// The link to push; the record lives on in it.
    pub(crate) fn into_link(self) -> NonNull<Link> {
        self.into_raw().cast()
    }

    /// The record behind a popped link.
    ///
    /// # Safety
    ///
    /// The link came from `into_link`, was popped, and is used once.
    pub(crate) unsafe fn from_link(link: NonNull<Link>) -> Self {
        Self(link.cast())
    }

    /// The lane, reservation and number of the record behind a link that is still queued.
    ///
    /// # Safety
    ///
    /// The link came from `into_link` and is alive.
    pub(crate) unsafe fn peek(link: NonNull<Link>) -> (Lane, u64, u64) {
        // SAFETY: the link is the first field of a live header.
        let header = unsafe { link.cast::<Header>().as_ref() };
        (header.lane(), header.reserved, header.lane_and_number >> 1)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: ours; `into_raw` forgets `self`, so this runs only for records never consumed.
        unsafe { (self.0.as_ref().table.drop)(self.0) };
    }
}
