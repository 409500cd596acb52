//! A number for each thread, small and its own while there are few, to give it shards that it shares with nobody.

use std::cell::Cell;

use parking_lot::Mutex;

/// How many threads at a time have a slot of their own, the first ones that ask.
#[cfg(not(turnkeep_loom))]
pub(crate) const OWN_SLOTS: usize = 32;
#[cfg(turnkeep_loom)]
pub(crate) const OWN_SLOTS: usize = 2;

const UNKNOWN: usize = usize::MAX;

/// Which slots are free, one bit each; and how many threads came when none was.
struct Slots {
    free: u64,
    late: usize,
}

static SLOTS: Mutex<Slots> = parking_lot::const_mutex(Slots { free: (1 << OWN_SLOTS) - 1, late: 0 });

thread_local! {
    /// About the thread, never about what runs on it.
    static SLOT: Cell<usize> = const { Cell::new(UNKNOWN) };
    static RETURN: Return = const { Return };
}

/// Gives the thread's slot back when the thread ends. What runs on it later still gets a shared one.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        let mut slots = SLOTS.lock();
        let slot = SLOT.replace(OWN_SLOTS);
        if slot < OWN_SLOTS {
            slots.free |= 1 << slot;
        }
    }
}

/// This thread's number: below [`OWN_SLOTS`] it is no other living thread's; above, others may have it.
#[inline]
pub(crate) fn slot() -> usize {
    let slot = SLOT.get();
    if slot == UNKNOWN { claim() } else { slot }
}

#[cold]
fn claim() -> usize {
    // On a thread that is ending already there is nothing left that would give a slot back.
    let is_returned = RETURN.try_with(|_| ()).is_ok();
    let mut slots = SLOTS.lock();
    let slot = if is_returned && slots.free != 0 {
        let slot = slots.free.trailing_zeros() as usize;
        slots.free &= slots.free - 1;
        slot
    } else {
        slots.late = slots.late.wrapping_add(1);
        OWN_SLOTS + slots.late % 1024
    };
    SLOT.set(slot);
    slot
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn thread_slot_living_threads_share_no_own_slot_and_ended_ones_give_theirs_back() {
        for _round in 0..3 {
            let all = Barrier::new(OWN_SLOTS + 20);
            let slots: Vec<usize> = std::thread::scope(|scope| {
                let ask = || {
                    let slot = slot();
                    assert_eq!(slot, super::slot());
                    all.wait();
                    slot
                };
                let threads: Vec<_> = (0..OWN_SLOTS + 20).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let own: Vec<_> = slots.iter().filter(|slot| **slot < OWN_SLOTS).collect();
            // The test's own thread may have one, and other tests' threads.
            assert!(!own.is_empty(), "slots come back");
            assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len());
        }
    }
}
