//! Faults of a whole bus: the first one is latched, and nothing takes it back but a teardown.
//!
//! # States
//!
//! ```text
//!  Sound ──latch(first)──► Latched(first) ──later ones are counted──► Latched(first)
//! ```
//!
//! # Invariants
//!
//! * **A1** the first fault stays (FAULT-2).

/// What has gone wrong with a bus.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A limit on retained units or known bytes was passed.
    Overflow,
    /// A chain of deliveries, of commands, or of timer firings at one instant, has no end.
    Runaway,
    /// The head is busy and nothing on this thread can free it.
    Stalled,
    /// A callback, a raw callable or a destructor panicked.
    Panicked,
    /// A publication was left by a panic that is not a callback's own.
    Unwound,
    /// A component's error, where errors are set to halt the bus.
    Failed,
}

/// The latch of one bus; `F` is what is known of a fault.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Latch<F> {
    first: Option<F>,
    /// Faults told so far, the first one included.
    count: u64,
}

impl<F> Default for Latch<F> {
    fn default() -> Self {
        Self { first: None, count: 0 }
    }
}

impl<F> Latch<F> {
    /// Notes a fault; true if it is the first.
    pub fn latch(&mut self, fault: F) -> bool {
        self.count += 1;
        let first = self.first.is_none();
        if first {
            self.first = Some(fault);
        }
        first
    }

    /// The first fault.
    #[must_use]
    #[inline]
    pub const fn first(&self) -> Option<&F> {
        self.first.as_ref()
    }

    /// Whether a fault is latched.
    #[must_use]
    #[inline]
    pub const fn is_set(&self) -> bool {
        self.first.is_some()
    }

    /// Faults told so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Forgets the fault, after a teardown.
    pub fn clear(&mut self) {
        self.first = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_2_the_first_fault_wins() {
        let mut latch = Latch::default();
        assert!(latch.latch(Kind::Overflow));
        assert!(!latch.latch(Kind::Runaway));
        assert_eq!((latch.first(), latch.count()), (Some(&Kind::Overflow), 2));
    }
}
