//! Counts turns that run at once under one gate, without asking the runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The counter of one gate. Every turn under the gate goes in when it starts and out when it ends or yields.
#[derive(Default)]
pub(super) struct Overlap {
    inside: AtomicU32,
    found: AtomicU64,
}

impl Overlap {
    /// A turn begins, or goes on after a yield; it is over when the result is dropped.
    pub(super) fn enter(self: &Arc<Self>) -> Inside {
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.found.fetch_add(1, Ordering::SeqCst);
        }
        Inside(Arc::clone(self))
    }

    /// Turns that found another one inside.
    pub(super) fn found(&self) -> u64 {
        self.found.load(Ordering::SeqCst)
    }
}

/// A turn under way.
#[must_use = "the turn counts as ended when this is dropped"]
pub(super) struct Inside(Arc<Overlap>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_one_after_the_other_do_not_overlap() {
        let overlap = Arc::<Overlap>::default();
        (0..3).for_each(|_| drop(overlap.enter()));
        assert_eq!(overlap.found(), 0);
    }

    #[test]
    fn every_turn_that_finds_another_one_is_counted() {
        let overlap = Arc::<Overlap>::default();
        let first = overlap.enter();
        drop(overlap.enter());
        drop(overlap.enter());
        drop(first);
        drop(overlap.enter());
        assert_eq!(overlap.found(), 2);
    }
}
