//! What work in a queue is worth: mean slices, the age of a running slice, and a watcher's patience.

use std::time::Duration;

use crate::sync::atomic::{AtomicU64, Ordering};

/// Queued work below this is not worth another worker's attention, in nanoseconds: waking one costs as much.
pub(super) const WORTH_NS: u64 = 20_000;

/// The most tasks that change hands at once.
const BATCH_MAX: u64 = 256;

/// The longest watch period; with the period of one look, the kernel's slack and a wake-up on top it must
/// stay below the millisecond of LANE-14.
const WATCH_MAX: Duration = Duration::from_micros(400);

/// What one worker shows of itself to the others. Only that worker writes, so nothing here is exchanged.
pub(super) struct Meter {
    /// When the running slice began; changes at each slice.
    since_ns: AtomicU64,
    /// The running mean of slice times (an eighth of each new one); changes at each slice.
    mean_ns: AtomicU64,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { since_ns: AtomicU64::new(0), mean_ns: AtomicU64::new(0) }
    }

    /// A slice begins that does not follow right behind another.
    pub(super) fn begin(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// A slice ends here, and the next begins.
    #[inline]
    pub(super) fn lap(&self, now_ns: u64) {
        let took = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        let mean = self.mean_ns.load(Ordering::Relaxed);
        self.mean_ns.store(mean - mean / 8 + took / 8, Ordering::Relaxed);
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Whether `queued` tasks would keep their worker busy for long enough to share them.
    #[inline]
    pub(super) fn is_backlog(&self, queued: usize) -> bool {
        self.mean_ns.load(Ordering::Relaxed).saturating_mul(queued as u64) > WORTH_NS
    }

    /// Whether another worker should take some of the `queued` tasks: there is a backlog, or the running
    /// slice has lasted so long that its worker may be blocked (LANE-14).
    pub(super) fn is_worth_stealing(&self, queued: usize, now_ns: u64) -> bool {
        let lasts = now_ns.saturating_sub(self.since_ns.load(Ordering::Relaxed));
        queued > 0 && (lasts > WORTH_NS || self.is_backlog(queued))
    }

    /// How many tasks one look may take: about `WORTH_NS` of them, so that what lasts long is not hoarded.
    pub(super) fn batch(&self) -> usize {
        let mean = self.mean_ns.load(Ordering::Relaxed).max(1);
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
        assert!(!meter.is_worth_stealing(1, 1_000 + WORTH_NS));
        assert!(meter.is_worth_stealing(1, 1_001 + WORTH_NS));
        assert!(!meter.is_worth_stealing(1, 0), "a clock that runs behind is no age");
    }

    #[test]
    fn lane_14_meter_many_short_slices_are_a_backlog() {
        let meter = Meter::new();
        (0..1_000).for_each(|lap| meter.lap(lap * 100));
        assert!(!meter.is_backlog(100));
        assert!(meter.is_backlog(500));
        assert!((100..=256).contains(&meter.batch()));
    }

    #[test]
    fn lane_14_meter_long_slices_change_hands_one_by_one() {
        let meter = Meter::new();
        (0..100).for_each(|lap| meter.lap(lap * 10_000_000));
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
