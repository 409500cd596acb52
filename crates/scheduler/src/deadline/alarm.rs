//! The sleep of the clock's thread: when it wakes, and who must wake it earlier.
//!
//! # The protocol
//!
//! Each shard announces its next event in `next`; the thread announces in `asleep_until` when it will look
//! again. `AWAKE` there means that it will look at every shard before it sleeps.
//!
//! * a registration: lower `next`; *fence*; read `asleep_until`; ring when it is later than the event;
//! * the thread: write `asleep_until`; *fence*; read every `next`; when one is earlier, write and read again.
//!
//! # The race that must not happen
//!
//! The registration reads an `asleep_until` older than the thread's last, and the thread reads a `next` older
//! than the registration: nobody rings, the thread sleeps past the event. The two fences are ordered, one
//! before the other: if the registration's is first, the thread's read of `next` sees it; if the thread's is
//! first, the registration's read of `asleep_until` sees the last value. (Dekker's argument; the ring is an
//! `unpark`, whose token outlives the moment between `settle` and `park`.)

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// No event, or asleep without end.
pub(super) const NEVER: u64 = u64::MAX;
/// The thread looks at every shard before it sleeps.
const AWAKE: u64 = 0;

/// Of `N` shards, in ticks.
#[derive(Debug)]
pub(super) struct Alarm<const N: usize> {
    /// The tick at which the thread looks again. Written by the thread alone.
    asleep_until: AtomicU64,
    /// At most the tick of the shard's next event. Written under the shard's lock.
    next: [AtomicU64; N],
}

impl<const N: usize> Alarm<N> {
    pub(super) fn new() -> Self {
        let next = std::array::from_fn(|_| AtomicU64::new(NEVER));
        Alarm { asleep_until: AtomicU64::new(AWAKE), next }
    }

    pub(super) fn next(&self, shard: usize) -> u64 {
        self.next[shard].load(Ordering::Relaxed)
    }

    /// Under the shard's lock, by the thread: the next event after all that was due.
    pub(super) fn set(&self, shard: usize, tick: u64) {
        self.next[shard].store(tick, Ordering::Relaxed);
    }

    /// Under the shard's lock, by a registration. `false`: the shard had announced as early an event before, and
    /// whoever did that has seen to it that the thread looks in time.
    #[must_use]
    pub(super) fn lower(&self, shard: usize, tick: u64) -> bool {
        let is_earlier = tick < self.next(shard);
        if is_earlier {
            self.set(shard, tick);
        }
        is_earlier
    }

    /// By a registration that has lowered, without the lock: whether the thread must be woken.
    #[must_use]
    pub(super) fn must_ring(&self, tick: u64) -> bool {
        fence(Ordering::SeqCst);
        tick < self.asleep_until.load(Ordering::Relaxed)
    }

    /// By the thread, before it looks at the shards: nobody needs to ring.
    pub(super) fn wake_up(&self) {
        self.asleep_until.store(AWAKE, Ordering::Relaxed);
    }

    /// By the thread, before it sleeps: until when, or [`NEVER`].
    #[must_use]
    pub(super) fn settle(&self) -> u64 {
        let mut until = self.earliest();
        loop {
            self.asleep_until.store(until, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let earliest = self.earliest();
            if earliest >= until {
                return until;
            }
            until = earliest;
        }
    }

    fn earliest(&self) -> u64 {
        (0..N).map(|shard| self.next(shard)).min().unwrap_or(NEVER)
    }
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use super::*;

    #[test]
    fn dom_1_alarm_rings_only_for_an_earlier_event() {
        let alarm = Alarm::<2>::new();
        assert!(alarm.lower(0, 50));
        assert!(!alarm.lower(0, 50), "announced before");
        assert!(!alarm.must_ring(50), "awake");
        assert_eq!(alarm.settle(), 50);
        assert!(alarm.lower(1, 60));
        assert!(!alarm.must_ring(60));
        assert!(alarm.lower(1, 40));
        assert!(alarm.must_ring(40));
        alarm.wake_up();
        alarm.set(0, NEVER);
        alarm.set(1, NEVER);
        assert_eq!(alarm.settle(), NEVER);
        assert!(alarm.must_ring(1_000));
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use super::*;
    use crate::sync::Arc;

    /// A thread that sleeps without end unless it is rung: a lost wake-up is a deadlock, which loom reports.
    fn sleeper_sees(events: &'static [(usize, u64)]) {
        loom::model(move || {
            let alarm = Arc::new(Alarm::<2>::new());
            let clock = {
                let alarm = alarm.clone();
                loom::thread::spawn(move || {
                    let goal = events.iter().map(|(_, tick)| *tick).min();
                    loop {
                        alarm.wake_up();
                        if Some(alarm.settle()) == goal {
                            return;
                        }
                        loom::thread::park();
                    }
                })
            };
            for &(shard, tick) in events {
                if alarm.lower(shard, tick) && alarm.must_ring(tick) {
                    clock.thread().unpark();
                }
            }
            clock.join().expect("the clock ends");
        });
    }

    #[test]
    fn loom_dom_1_an_event_in_an_empty_wheel_wakes_the_clock() {
        sleeper_sees(&[(0, 7)]);
    }

    #[test]
    fn loom_dom_1_an_earlier_event_wakes_the_clock() {
        sleeper_sees(&[(0, 9), (1, 7)]);
    }
}
