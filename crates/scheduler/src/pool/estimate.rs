//! What work in a queue is worth: mean slices and turns, the age of a running slice, and a watcher's patience.
//!
//! A worker's backlog is its queue's length times its mean slice. Another worker takes part of it when that is worth
//! what it costs: the wake-up of a thread (5 to 20 µs), and a cold object for every gate that moves (three to four
//! cache lines, each 100 ns and more from the other core). Where turns are shorter than such a move, two workers on one
//! group of objects are slower than one; then only a backlog that would last long is shared.

use std::time::Duration;

use turnkeep_machines::wait::Key;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Queued work below this is not worth another worker's attention, in nanoseconds: waking one costs as much.
pub(super) const WORTH_NS: u64 = 20_000;

/// The same where turns are cheap.
pub(super) const CHEAP_WORTH_NS: u64 = 150_000;

/// Turns shorter than this cost less than taking their object to another core.
const CHEAP_TURN_NS: u64 = 500;

/// A slice that lasts longer than this may be blocked, in nanoseconds: more than a gate's usual budget, and with the
/// watch well below the millisecond of LANE-14.
pub(super) const LONG_NS: u64 = 250_000;

/// The most tasks that change hands at once.
const BATCH_MAX: u64 = 256;

/// The longest watch period; with `LONG_NS`, the period of one look, the kernel's slack and a wake-up on top it must
/// stay below the millisecond of LANE-14.
const WATCH_MAX: Duration = Duration::from_micros(400);

/// What one worker shows of itself to the others. Only that worker writes, so nothing here is exchanged.
///
/// The means are those of about the last 32 slices: of each sum a 32nd is forgotten as a slice comes in.
pub(super) struct Meter {
    /// When the running slice began; changes at each slice.
    since_ns: AtomicU64,
    /// The decayed time of slices; changes at each slice.
    time_ns: AtomicU64,
    /// The decayed number of turns, in 32nds; changes at each slice.
    turns: AtomicU64,
    /// The object whose turn runs; 0 between slices. Changes at each turn.
    object: AtomicUsize,
}

/// How many slices the means are about.
const MEMORY: u64 = 32;

impl Meter {
    pub(super) fn new() -> Self {
        Self {
            since_ns: AtomicU64::new(0),
            time_ns: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            object: AtomicUsize::new(0),
        }
    }

    /// A slice begins that does not follow right behind another.
    pub(super) fn begin(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// A slice of so many turns ends here, and the next begins.
    #[inline]
    pub(super) fn lap(&self, now_ns: u64, turns: u64) {
        let took = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        let (time, before) = (self.time_ns.load(Ordering::Relaxed), self.turns.load(Ordering::Relaxed));
        self.time_ns.store(time - time / MEMORY + took, Ordering::Relaxed);
        self.turns.store(before - before / MEMORY + turns * MEMORY, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.object.store(0, Ordering::Relaxed);
    }

    /// A turn of that object begins.
    #[inline]
    pub(super) fn on_turn(&self, object: Key) {
        self.object.store(object.0, Ordering::Relaxed);
    }

    /// The object whose turn runs, and when that slice began.
    pub(super) fn running(&self) -> Option<(Key, u64)> {
        let object = self.object.load(Ordering::Relaxed);
        (object != 0).then(|| (Key(object), self.since_ns.load(Ordering::Relaxed)))
    }

    /// Whether `queued` tasks would keep their worker busy for long enough to share them.
    #[inline]
    pub(super) fn is_backlog(&self, queued: usize) -> bool {
        let time = self.time_ns.load(Ordering::Relaxed);
        // The sums stand for `MEMORY` slices; the turns are in as many parts.
        let is_cheap = time < CHEAP_TURN_NS.saturating_mul(self.turns.load(Ordering::Relaxed) / MEMORY);
        let worth = if is_cheap { CHEAP_WORTH_NS } else { WORTH_NS };
        time.saturating_mul(queued as u64) > worth * MEMORY
    }

    /// Whether another worker should take some of the `queued` tasks: there is a backlog, or the running
    /// slice has lasted so long that its worker may be blocked (LANE-14).
    pub(super) fn is_worth_stealing(&self, queued: usize, now_ns: u64) -> bool {
        let lasts = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        queued > 0 && (lasts > LONG_NS || self.is_backlog(queued))
    }

    /// How many tasks one look may take: about `WORTH_NS` of them, so that what lasts long is not hoarded.
    pub(super) fn batch(&self) -> usize {
        let mean = (self.time_ns.load(Ordering::Relaxed) / MEMORY).max(1);
        (WORTH_NS / mean).clamp(1, BATCH_MAX) as usize
    }
}

/// How long a watcher sleeps between two looks: longer while there is nothing to see at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    base: Duration,
    /// Doubles at each look that saw nothing.
    period: Duration,
}

impl Patience {
    pub(super) fn new(base: Duration) -> Self {
        Self { base, period: base }
    }

    pub(super) fn period(&self) -> Duration {
        self.period
    }

    /// News came, or queued work was in sight: look again soon.
    pub(super) fn on_something(&mut self) {
        self.period = self.base;
    }

    /// All queues were empty.
    pub(super) fn on_nothing(&mut self) {
        let max = WATCH_MAX.max(self.base);
        self.period = self.period.saturating_mul(2).min(max);
    }
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use super::*;

    #[test]
    fn lane_14_meter_a_long_slice_makes_one_queued_task_worth_stealing() {
        let meter = Meter::new();
        meter.begin(1_000);
        assert!(!meter.is_worth_stealing(0, 1_000_000));
        assert!(!meter.is_worth_stealing(1, 1_000 + LONG_NS));
        assert!(meter.is_worth_stealing(1, 1_001 + LONG_NS));
        assert!(!meter.is_worth_stealing(1, 0), "a clock that runs behind is no age");
    }

    /// A meter after a thousand slices of so many turns, each turn so long.
    fn after(turns: u64, turn_ns: u64) -> Meter {
        let meter = Meter::new();
        (0..1_000).for_each(|lap| meter.lap(lap * turns * turn_ns, turns));
        meter
    }

    #[test]
    fn lane_14_meter_many_short_slices_are_a_backlog_once_they_last() {
        let meter = after(1, 100);
        assert!(!meter.is_backlog(1_000));
        assert!(meter.is_backlog(2_000), "200 µs of them");
        assert!((100..=256).contains(&meter.batch()));
    }

    #[test]
    fn lane_14_meter_slices_of_costly_turns_are_a_backlog_early() {
        let meter = after(1, 2_000);
        assert!(!meter.is_backlog(9));
        assert!(meter.is_backlog(12));
    }

    #[test]
    fn lane_14_meter_a_long_slice_of_cheap_turns_stays_where_it_is() {
        let meter = after(400, 100);
        assert!(!meter.is_backlog(3), "who feeds a hot object stays beside it");
        assert!(meter.is_backlog(5));
    }

    #[test]
    fn lane_14_meter_long_slices_change_hands_one_by_one() {
        let meter = after(1, 10_000_000);
        assert!(meter.is_backlog(1));
        assert_eq!(meter.batch(), 1);
    }

    #[test]
    fn lane_14_patience_backs_off_below_the_bound_and_comes_back() {
        let base = Duration::from_micros(100);
        let mut patience = Patience::new(base);
        (0..10).for_each(|_| patience.on_nothing());
        assert_eq!(patience.period(), WATCH_MAX);
        patience.on_something();
        assert_eq!(patience.period(), base);
    }

    #[test]
    fn lane_14_patience_a_long_watch_is_kept_as_it_is() {
        let base = Duration::from_millis(3);
        let mut patience = Patience::new(base);
        patience.on_nothing();
        assert_eq!(patience.period(), base);
    }
}
