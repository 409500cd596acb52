//! Sharded counters that only grow, for hot paths: adding touches a cache line of this thread, mostly.
//!
//! # Quiescence
//!
//! Let every item be counted in `accepted` before it can be worked on, and in `finished` after its work. Then
//!
//! ```text
//! let finished = counters.sum(FINISHED);      // first
//! let accepted = counters.sum(ACCEPTED);      // second
//! if finished == accepted { /* between the two sums nothing was unfinished */ }
//! ```
//!
//! Why. Let *m* be the moment between the sums. Counters only grow, shards too. So `finished` is at most what
//! was finished at *m*, though its shards were read one after the other; `accepted` is at least what was accepted at
//! *m*. Finished at *m* is at most accepted at *m*. With both ends equal, all four are equal: at *m* nothing was
//! accepted and unfinished.
//!
//! What the orderings do. "At least what was accepted at *m*" holds of the items that matter because each
//! `finished` increment that the first sum read (Acquire) was a Release that came after that item's `accepted`
//! increment; so the second sum, later in program order, cannot miss that increment. An item whose
//! acceptance the reader has no order with may be missed, as if it were accepted after *m*: who needs "and nobody
//! accepts any more" closes the door first, as with any other check. The other order of the sums proves nothing.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::thread_slot::{OWN_SLOTS, slot};

/// Shards that threads without a slot of their own share.
#[cfg(not(turnkeep_loom))]
const SHARED: usize = 4;
#[cfg(turnkeep_loom)]
const SHARED: usize = 1;

/// `N` counters, addressed by number.
///
/// A thread that has a slot has a shard to itself, which it alone writes: adding there exchanges nothing. The others
/// share some more shards.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    shards: Box<[CachePadded<[AtomicU64; N]>]>,
}

impl<const N: usize> Counters<N> {
    /// All zero. One allocation of 36 times `N` words, padded.
    pub fn new() -> Self {
        let shard = |_| CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters { shards: (0..OWN_SLOTS + SHARED).map(shard).collect() }
    }

    /// Adds `n` to counter `which`; wraps after 2^64. Never blocks.
    ///
    /// Release: who reads this increment in [`Counters::sum`] sees all that came before it.
    ///
    /// # Panics
    ///
    /// When `which` is not below `N`.
    #[inline]
    pub fn add(&self, which: usize, n: u64) {
        self.add_at(slot(), which, n);
    }

    #[inline]
    fn add_at(&self, slot: usize, which: usize, n: u64) {
        if slot < OWN_SLOTS {
            // This thread's alone; the one that had the slot before gave it back under a lock.
            let counter = &self.shards[slot][which];
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Release);
        } else {
            self.shards[OWN_SLOTS + slot % SHARED][which].fetch_add(n, Ordering::Release);
        }
    }

    /// What was added to `which` up to a moment during this call. Acquire; see the top of the file.
    ///
    /// # Panics
    ///
    /// When `which` is not below `N`.
    pub fn sum(&self, which: usize) -> u64 {
        self.shards.iter().fold(0, |sum: u64, shard| sum.wrapping_add(shard[which].load(Ordering::Acquire)))
    }
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    const ACCEPTED: usize = 0;
    const FINISHED: usize = 1;

    #[test]
    fn counters_sum_over_all_threads() {
        let counters = Counters::<3>::new();
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| (0..1_000).for_each(|_| counters.add(2, 3)));
            }
        });
        assert_eq!((counters.sum(0), counters.sum(2)), (0, 300_000));
    }

    #[test]
    fn counters_equal_sums_never_hide_an_unfinished_item() {
        let counters = Counters::<2>::new();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // One item is open throughout, so the sums must never be equal; others come and go.
            counters.add(ACCEPTED, 1);
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        counters.add(ACCEPTED, 1);
                        counters.add(FINISHED, 1);
                    }
                });
            }
            for _ in 0..20_000 {
                let finished = counters.sum(FINISHED);
                let accepted = counters.sum(ACCEPTED);
                assert!(finished < accepted);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        counters.add(FINISHED, 1);
        assert_eq!(counters.sum(FINISHED), counters.sum(ACCEPTED));
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use super::*;
    use crate::sync::Arc;

    /// An item is accepted in one slot and finished in another, by a thread that has got it from the first.
    fn passed_on(from: usize, to: usize) {
        loom::model(move || {
            let counters = Arc::new(Counters::<2>::new());
            let item = Arc::new(AtomicU64::new(0));
            let worker = {
                let (counters, item) = (counters.clone(), item.clone());
                loom::thread::spawn(move || {
                    if item.load(Ordering::Acquire) == 1 {
                        counters.add_at(to, 1, 1);
                    }
                })
            };
            let reader = {
                let counters = counters.clone();
                loom::thread::spawn(move || {
                    let finished = counters.sum(1);
                    let accepted = counters.sum(0);
                    assert!(finished <= accepted);
                })
            };
            counters.add_at(from, 0, 1);
            item.store(1, Ordering::Release);
            worker.join().unwrap();
            reader.join().unwrap();
        });
    }

    #[test]
    fn loom_counters_finished_is_never_more_than_accepted_in_slots_of_their_own() {
        passed_on(0, 1);
    }

    #[test]
    fn loom_counters_finished_is_never_more_than_accepted_in_shared_shards() {
        passed_on(OWN_SLOTS, OWN_SLOTS);
    }
}
