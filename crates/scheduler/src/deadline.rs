//! The process-wide deadline service: one thread that expires what is registered, whatever the workers do.
//!
//! The thread is `turnkeep-clock`. It belongs to the infrastructure domain (DOM-1): all it ever runs is
//! [`Expire::expire`], which wakes somebody. So a deadline fires with every worker busy.
//!
//! # Parts
//!
//! * `wheel`: which entries are due, a pure structure that is told the time;
//! * `slab`: where the entries are stored, in chunks that go back after a wave;
//! * `alarm`: when the thread sleeps, and who must wake it;
//! * this file: the shards, the thread, the front.
//!
//! On a thread that goes by a virtual time, its deadlines are that time's ([`crate::virtual_time`]).
//!
//! # Invariants
//!
//! * CLOCK-a: `expire` runs at most once a registration, and never after a `cancel` that returned true.
//! * CLOCK-b: never early: a moment is rounded up to the tick, the present down.
//! * CLOCK-c: `expire`, and the drop of a target, run outside every lock, and a panic in them ends nothing else.
//! * CLOCK-d: a shard's `next` in the alarm is at most its wheel's next event, always.

mod alarm;
mod slab;
mod wheel;

use std::fmt;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::{Builder, Thread};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use self::alarm::{Alarm, NEVER};
use self::wheel::{Entry, Wheel};
use crate::completion::completion;
use crate::{thread_slot, ticks, virtual_time};

/// Length of a tick in nanoseconds.
const TICK_NS: u64 = 1_000_000;
/// Shards; a thread registers in one of them.
const SHARDS: usize = 8;
/// Bits of an entry's number; the shard is in the bits above.
const ENTRY_BITS: u32 = 29;
/// Entries fired or moved a lock, so that a registration waits microseconds for the thread.
const STEPS_MAX: usize = 256;

/// What a deadline does when it passes.
pub trait Expire: Send + Sync {
    /// Called once, on the clock's thread, at or after the moment; it must be short and must not block, for
    /// all deadlines of the process wait for it. A panic is caught and ignored.
    fn expire(&self);
}

/// A registration, to cancel it. A key of an ended one cancels nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Shard and entry.
    place: u32,
    generation: NonZeroU64,
}

/// What a registration calls.
pub(crate) enum Target {
    Object(Arc<dyn Expire>),
    Waker(Waker),
}

impl Target {
    pub(crate) fn expire(self) {
        match self {
            Target::Object(object) => object.expire(),
            Target::Waker(waker) => waker.wake(),
        }
    }
}

/// The deadlines of the process. O(1) to register and to cancel, 1 ms ticks.
///
/// A deadline is never early and, on a quiet machine, about 2 ms late at most. Any moment that fits the clock
/// works. Memory follows what is registered, up and down.
pub struct Deadlines {
    shards: Box<[CachePadded<Mutex<Wheel<Target>>>]>,
    alarm: Alarm<SHARDS>,
    /// Set once, before the first registration can be made.
    thread: OnceLock<Thread>,
}

impl Deadlines {
    /// The service of this process; the first call starts its thread.
    ///
    /// # Panics
    ///
    /// When the operating system refuses that thread.
    #[inline]
    pub fn global() -> &'static Deadlines {
        static GLOBAL: OnceLock<&'static Deadlines> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let service: &'static Deadlines = Box::leak(Box::new(Deadlines::idle(ticks::now())));
            let thread = Builder::new()
                .name("turnkeep-clock".to_owned())
                .spawn(|| service.drive())
                .expect("DOM-1: the deadline thread starts");
            let _first = service.thread.set(thread.thread().clone());
            service
        })
    }

    /// Shards without a thread.
    fn idle(now_ns: u64) -> Deadlines {
        let shard = |_| CachePadded::new(Mutex::new(Wheel::new(now_ns / TICK_NS)));
        Deadlines { shards: (0..SHARDS).map(shard).collect(), alarm: Alarm::new(), thread: OnceLock::new() }
    }

    /// Has `target` expired at `at_ns`, in the time of [`ticks::now`]; a moment that has passed expires
    /// at once. Never blocks but for the shard's lock, which is held for microseconds.
    ///
    /// # Panics
    ///
    /// With more than 2^29 registrations in one shard.
    pub fn register(&self, at_ns: u64, target: Arc<dyn Expire>) -> Key {
        self.insert(ticks::now(), at_ns, Target::Object(target))
    }

    /// As [`Deadlines::register`] by a caller that knows the time; the waker is woken, by value.
    pub(crate) fn register_waker(&self, now_ns: u64, at_ns: u64, target: Waker) -> Key {
        self.insert(now_ns, at_ns, Target::Waker(target))
    }

    /// Ends a registration without expiry: true when it was still there, and then `expire` never runs.
    ///
    /// False when it has expired, is about to, or was cancelled before.
    pub fn cancel(&self, key: Key) -> bool {
        if virtual_time::is_virtual(key.generation) {
            let target = virtual_time::cancel(key.generation);
            let was_there = target.is_some();
            shielded(|| drop(target));
            return was_there;
        }
        let shard = (key.place >> ENTRY_BITS) as usize;
        let entry = Entry { index: key.place & ((1 << ENTRY_BITS) - 1), generation: key.generation };
        let target = self.shards[shard].lock().remove(entry);
        // The next event stays as announced: too early a wake-up costs less than finding the next one.
        let was_there = target.is_some();
        // It may be the last owner of anything.
        shielded(|| drop(target));
        was_there
    }

    /// How many registrations there are, neither expired nor cancelled.
    pub fn pending(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn insert(&self, now_ns: u64, at_ns: u64, target: Target) -> Key {
        let target = match virtual_time::register(at_ns, target) {
            Ok(generation) => return Key { place: 0, generation },
            Err(target) => target,
        };
        let number = thread_slot::slot() % SHARDS;
        let (entry, next, is_earlier) = {
            let mut wheel = self.shards[number].lock();
            let (entry, next) = wheel.insert(now_ns / TICK_NS, at_ns.div_ceil(TICK_NS), target);
            (entry, next, self.alarm.lower(number, next))
        };
        if is_earlier
            && self.alarm.must_ring(next)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        assert!(entry.index >> ENTRY_BITS == 0, "CLOCK: too many deadlines in a shard");
        Key { place: (number as u32) << ENTRY_BITS | entry.index, generation: entry.generation }
    }

    /// The clock's thread: expire what is due, sleep until the next event, for ever.
    fn drive(&self) {
        let mut due = Vec::with_capacity(STEPS_MAX);
        loop {
            self.alarm.wake_up();
            self.expire_due(&mut due);
            let next = self.alarm.settle();
            if next == NEVER {
                std::thread::park();
                continue;
            }
            let left_ns = next.saturating_mul(TICK_NS).saturating_sub(ticks::now());
            if left_ns > 0 {
                std::thread::park_timeout(Duration::from_nanos(left_ns));
            }
        }
    }

    fn expire_due(&self, due: &mut Vec<Target>) {
        // In turns: a shard that is flooded delays the others by one step.
        loop {
            let mut is_done = true;
            for number in 0..SHARDS {
                if self.alarm.next(number) <= ticks::now() / TICK_NS {
                    is_done = false;
                    self.advance(number, due);
                    due.drain(..).for_each(|target| shielded(|| target.expire()));
                }
            }
            if is_done {
                return;
            }
        }
    }

    /// One bounded step of one shard.
    fn advance(&self, number: usize, due: &mut Vec<Target>) {
        let mut wheel = self.shards[number].lock();
        wheel.advance(ticks::now() / TICK_NS, STEPS_MAX, due);
        self.alarm.set(number, wheel.next_event().unwrap_or(NEVER));
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

/// Ends at `at_ns`, in the time of [`ticks::now`]; at once when that has passed.
///
/// Never early, about 2 ms late on a quiet machine. Dropping it cancels the registration.
pub async fn sleep_until(at_ns: u64) {
    let (undecided, wait) = completion::<()>();
    let _expired = wait.with_deadline(at_ns).await;
    drop(undecided);
}

/// Runs foreign code on a thread that must go on: a panic in it, and in the drop of what it panicked with,
/// ends here.
pub(crate) fn shielded(run: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(run)) else { return };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        // Dropping that could go on for ever: let it leak.
        std::mem::forget(second);
    }
}

#[cfg(test)]
mod tests;
