//! Roots: the origins of chains of work, who keeps each alive, and what each has paid for.
//!
//! # States
//!
//! ```text
//!          make                   release, by the last holder
//!  (none) ──────► alive, n ≥ 1 holders ──────────────────────► freed, its place used again
//! ```
//!
//! # Invariants
//!
//! * **R1** a root lives while it has a holder: slots, open frames, retained values, commands, items in local
//!   channels (ROOT-5).
//! * **R2** its counts start at zero and die with it; an empty queue changes neither (ROOT-5).
//! * **R3** a number names one root for ever; a place may be used again.
//! * **R4** releasing a root that has no holder breaks the machine, and it says why for ever.

use alloc::vec::Vec;

/// The place of a root in the table. Whoever has one must be counted as a holder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Root(u32);

impl Root {
    /// The place as a bare number, for storage that is told apart by other means.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// What the last holder of a root leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Freed {
    /// The root's number.
    pub number: u64,
    /// Deliveries it has paid for.
    pub deliveries: u64,
    /// Commands it has paid for.
    pub commands: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Entry {
    /// Names the root; 0 while the place is free.
    number: u64,
    /// Rises with each new holder, falls with each release.
    holders: u32,
    /// Where the chain began: whatever the driver wants to remember of it.
    origin: u32,
    /// Rises with each completed delivery.
    deliveries: u64,
    /// Rises with each command that starts.
    commands: u64,
    /// The next free place while this one is free.
    next_free: u32,
}

const NONE: u32 = u32::MAX;

/// The roots of one bus.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Roots {
    entries: Vec<Entry>,
    /// Places of `entries` that are paid for, used or not.
    paid: usize,
    /// The first free place.
    free: u32,
    /// How many roots are alive.
    alive: u32,
    /// The number of the newest root.
    last: u64,
    broken: Option<&'static str>,
}

impl Default for Roots {
    fn default() -> Self {
        Self { entries: Vec::new(), paid: 0, free: NONE, alive: 0, last: 0, broken: None }
    }
}

impl Roots {
    /// What one place costs, in bytes.
    pub const ENTRY_BYTES: u64 = size_of::<Entry>() as u64;

    /// Bytes that the next [`make`](Self::make) needs beyond those that the table has.
    #[must_use]
    #[inline]
    pub fn growth(&self) -> u64 {
        if self.free != NONE || self.entries.len() < self.paid {
            0
        } else {
            self.step() as u64 * Self::ENTRY_BYTES
        }
    }

    fn step(&self) -> usize {
        self.paid.max(16)
    }

    /// Makes a root with one holder.
    #[must_use]
    #[inline]
    pub fn make(&mut self, origin: u32) -> Root {
        self.last += 1;
        self.alive += 1;
        let entry =
            Entry { number: self.last, holders: 1, origin, deliveries: 0, commands: 0, next_free: NONE };
        if self.free != NONE {
            let at = self.free;
            self.free = self.entries[at as usize].next_free;
            self.entries[at as usize] = entry;
            return Root(at);
        }
        if self.entries.len() == self.paid {
            let step = self.step();
            self.paid += step;
            self.entries.reserve_exact(step);
        }
        self.entries.push(entry);
        Root((self.entries.len() - 1) as u32)
    }

    /// One more holder.
    #[inline]
    pub fn hold(&mut self, root: Root) {
        self.entries[root.0 as usize].holders += 1;
    }

    /// So many more holders.
    #[inline]
    pub fn hold_for(&mut self, root: Root, holders: u32) {
        self.entries[root.0 as usize].holders += holders;
    }

    /// One holder less; the last one frees the root and its counts.
    #[must_use]
    #[inline]
    pub fn release(&mut self, root: Root) -> Option<Freed> {
        let entry = &mut self.entries[root.0 as usize];
        if entry.holders == 0 {
            self.broken = Some("ROOT-5: a root was released by nobody");
            return None;
        }
        entry.holders -= 1;
        if entry.holders > 0 {
            return None;
        }
        let freed = Freed { number: entry.number, deliveries: entry.deliveries, commands: entry.commands };
        entry.number = 0;
        entry.next_free = self.free;
        self.free = root.0;
        self.alive -= 1;
        Some(freed)
    }

    /// Counts one completed delivery.
    #[inline]
    pub fn charge_delivery(&mut self, root: Root) {
        self.entries[root.0 as usize].deliveries += 1;
    }

    /// Lets go of a root that somebody else holds as well, and counts a delivery if there was one.
    #[inline(always)]
    pub fn settle(&mut self, root: Root, delivered: bool) {
        let entry = &mut self.entries[root.0 as usize];
        entry.deliveries += u64::from(delivered);
        if entry.holders < 2 {
            self.broken = Some("ROOT-5: the last holder of a root let go of it in passing");
            return;
        }
        entry.holders -= 1;
    }

    /// Counts one command.
    pub fn charge_command(&mut self, root: Root) {
        self.entries[root.0 as usize].commands += 1;
    }

    /// Deliveries that the root has paid for.
    #[must_use]
    #[inline]
    pub fn deliveries(&self, root: Root) -> u64 {
        self.entries[root.0 as usize].deliveries
    }

    /// Commands that the root has paid for.
    #[must_use]
    pub fn commands(&self, root: Root) -> u64 {
        self.entries[root.0 as usize].commands
    }

    /// The number that names the root for ever.
    #[must_use]
    pub fn number(&self, root: Root) -> u64 {
        self.entries[root.0 as usize].number
    }

    /// What the driver wanted to remember of the root's beginning.
    #[must_use]
    pub fn origin(&self, root: Root) -> u32 {
        self.entries[root.0 as usize].origin
    }

    /// How many hold the root.
    #[must_use]
    pub fn holders(&self, root: Root) -> u32 {
        self.entries[root.0 as usize].holders
    }

    /// Roots alive now.
    #[must_use]
    pub const fn alive(&self) -> u32 {
        self.alive
    }

    /// Roots made so far.
    #[must_use]
    pub const fn made(&self) -> u64 {
        self.last
    }

    /// Gives the table's storage up if no root is alive; the bytes that came free.
    pub fn shrink(&mut self) -> u64 {
        if self.alive > 0 {
            return 0;
        }
        let bytes = self.paid as u64 * Self::ENTRY_BYTES;
        self.entries = Vec::new();
        self.paid = 0;
        self.free = NONE;
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
    use super::*;

    #[test]
    fn root_5_the_last_holder_frees_root_and_charge() {
        let mut roots = Roots::default();
        let root = roots.make(7);
        roots.hold(root);
        roots.charge_delivery(root);
        assert_eq!(roots.release(root), None);
        assert_eq!((roots.deliveries(root), roots.origin(root), roots.alive()), (1, 7, 1));
        assert_eq!(roots.release(root), Some(Freed { number: 1, deliveries: 1, commands: 0 }));
        assert_eq!(roots.alive(), 0);
        let next = roots.make(0);
        assert_eq!(
            (next, roots.number(next), roots.deliveries(next)),
            (root, 2, 0),
            "a new root starts at zero"
        );
    }

    #[test]
    fn root_5_a_release_by_nobody_breaks_the_machine_for_ever() {
        let mut roots = Roots::default();
        let root = roots.make(0);
        let _ = roots.release(root);
        assert_eq!(roots.release(root), None);
        assert!(roots.broken().is_some());
    }

    #[test]
    fn fault_5_growth_is_told_before_it_happens() {
        let mut roots = Roots::default();
        assert_eq!(roots.growth(), 16 * Roots::ENTRY_BYTES);
        let made: Vec<Root> = (0..16).map(|_| roots.make(0)).collect();
        assert_eq!(roots.growth(), 16 * Roots::ENTRY_BYTES);
        let _ = roots.release(made[3]);
        assert_eq!(roots.growth(), 0, "a free place needs no growth");
        assert_eq!(roots.shrink(), 0, "living roots keep the table");
    }
}
