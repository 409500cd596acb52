//! One timer: when it is due, what a tick stands for, and that two of its ticks never overlap.
//!
//! # States
//!
//! ```text
//!             on_due, due          on_start            on_end
//!  Waiting ───────────► Queued ───────────► Running ───────────► Waiting, or Over after the last
//!     └───────────────────┴───── cancel ───────┴──► Over
//! ```
//!
//! # Transitions
//!
//! | state | verb | result |
//! |---|---|---|
//! | Waiting | `on_due` at or after the due time | true: queue a tick; Queued |
//! | Waiting | `on_due` before it | false |
//! | Queued | `on_start` | the tick; Running |
//! | Running | `on_end` of a timer that fires once, or has passed its stop | Over |
//! | Running | `on_end` | Waiting for the next |
//! | any | `cancel` | Over |
//! | other | any | nothing, the same |
//!
//! # What a late tick stands for
//!
//! The grid is `first + n * period`. A tick that starts late, because its owner was slow or its predecessor long,
//! stands for: `Skip`, the newest moment of the grid that has passed; `CatchUp(n)`, the oldest of the newest `n` that
//! have passed; `Delay`, the one it was queued for, and the next one is due a period after this one's end.
//!
//! # Invariants
//!
//! * **T1** at most one tick is queued or running (TIMER-1, TIMER-4).
//! * **T2** every moment of the grid up to the newest delivered one was delivered or is counted as skipped, once
//!   (TIMER-2).
//! * **T3** nothing starts after `cancel` (TIMER-3).
//!
//! # Not here
//!
//! The clock, the queue, the name. Times are nanoseconds of whatever clock the driver has.

/// What becomes of ticks that could not start in time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Late {
    /// One tick stands for all of them; then the grid goes on.
    #[default]
    Skip,
    /// So many of the newest are made up for without a pause, the others are skipped. 0 counts as 1.
    CatchUp(u32),
    /// None is skipped: the next is due a period after the end of the one before.
    Delay,
}

/// When a timer fires.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// The first moment.
    pub first_ns: u64,
    /// The distance of the moments; `None`: there is one only. Never 0.
    pub period_ns: Option<u64>,
    /// The last moment at which a tick may be due, itself included.
    pub stop_ns: Option<u64>,
    /// What becomes of late ticks.
    pub late: Late,
}

/// One tick.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tick {
    /// How many ticks of the timer were delivered before.
    pub delivery: u64,
    /// Which moment of the grid it stands for, from 0.
    pub scheduled: u64,
    /// How many moments were skipped since the tick before.
    pub skipped: u64,
    /// The moment it stands for.
    pub due_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    Waiting,
    Queued,
    Running,
    Over,
}

/// The timer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Timer {
    schedule: Schedule,
    state: State,
    /// The next moment of the grid that was neither delivered nor skipped.
    next: u64,
    /// When that one is due; off the grid after a delay.
    due_ns: u64,
    /// Ticks delivered.
    delivered: u64,
}

impl Timer {
    /// A timer that waits for its first moment; over at once if that comes after its stop.
    #[must_use]
    pub fn new(schedule: Schedule) -> Self {
        let mut timer =
            Self { schedule, state: State::Waiting, next: 0, due_ns: schedule.first_ns, delivered: 0 };
        timer.stop_if_past();
        timer
    }

    /// When it wants to be looked at again; `None` while a tick is queued or running, and when it is over.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        (self.state == State::Waiting).then_some(self.due_ns)
    }

    /// Whether no tick will ever start again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// The time is `now_ns`. `true`: queue a tick.
    #[must_use]
    pub fn on_due(&mut self, now_ns: u64) -> bool {
        let queue = self.state == State::Waiting && self.due_ns <= now_ns;
        if queue {
            self.state = State::Queued;
        }
        queue
    }

    /// The queued tick's turn begins. `None`: it was cancelled meanwhile.
    pub fn on_start(&mut self, now_ns: u64) -> Option<Tick> {
        if self.state != State::Queued {
            return None;
        }
        self.state = State::Running;
        let passed = self.newest(now_ns).saturating_sub(self.next);
        let skipped = match self.schedule.late {
            Late::Skip => passed,
            Late::CatchUp(bound) => passed.saturating_sub(u64::from(bound.max(1)) - 1),
            Late::Delay => 0,
        };
        let scheduled = self.next.saturating_add(skipped);
        let due_ns = if skipped == 0 { self.due_ns } else { self.moment(scheduled) };
        let tick = Tick { delivery: self.delivered, scheduled, skipped, due_ns };
        self.delivered += 1;
        self.next = scheduled.saturating_add(1);
        Some(tick)
    }

    /// The tick's handler has ended.
    pub fn on_end(&mut self, now_ns: u64) {
        if self.state != State::Running {
            return;
        }
        let Some(period_ns) = self.schedule.period_ns else {
            self.state = State::Over;
            return;
        };
        self.state = State::Waiting;
        self.due_ns = match self.schedule.late {
            Late::Delay => now_ns.saturating_add(period_ns),
            Late::Skip | Late::CatchUp(_) => self.moment(self.next),
        };
        self.stop_if_past();
    }

    /// No tick starts any more.
    pub fn cancel(&mut self) {
        self.state = State::Over;
    }

    fn stop_if_past(&mut self) {
        if self.schedule.stop_ns.is_some_and(|stop_ns| self.due_ns > stop_ns) {
            self.state = State::Over;
        }
    }

    /// A moment of the grid.
    fn moment(&self, index: u64) -> u64 {
        let period_ns = self.schedule.period_ns.unwrap_or(0);
        self.schedule.first_ns.saturating_add(index.saturating_mul(period_ns))
    }

    /// The newest moment of the grid that has passed and is not past the stop; at least the next.
    fn newest(&self, now_ns: u64) -> u64 {
        let until_ns = self.schedule.stop_ns.map_or(now_ns, |stop_ns| stop_ns.min(now_ns));
        match self.schedule.period_ns {
            Some(period_ns) => {
                (until_ns.saturating_sub(self.schedule.first_ns) / period_ns.max(1)).max(self.next)
            }
            None => self.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    fn every(first_ns: u64, period_ns: u64, late: Late) -> Schedule {
        Schedule { first_ns, period_ns: Some(period_ns), stop_ns: None, late }
    }

    /// Runs a timer whose ticks take what `takes` says, until `end_ns`: when each started, what it stood for, and how
    /// many were skipped.
    fn run(schedule: Schedule, takes: impl Fn(u64) -> u64, end_ns: u64) -> Vec<(u64, u64, u64)> {
        let mut timer = Timer::new(schedule);
        let (mut now_ns, mut ticks) = (0, Vec::new());
        while let Some(due_ns) = timer.due_ns() {
            now_ns = due_ns.max(now_ns);
            if now_ns > end_ns {
                break;
            }
            assert!(timer.on_due(now_ns));
            assert_eq!(timer.due_ns(), None, "one at a time");
            assert!(!timer.on_due(now_ns), "one at a time");
            let tick = timer.on_start(now_ns).unwrap();
            assert_eq!(tick.delivery, ticks.len() as u64);
            ticks.push((now_ns, tick.due_ns, tick.skipped));
            assert_eq!(timer.on_start(now_ns), None, "one at a time");
            now_ns += takes(tick.delivery);
            timer.on_end(now_ns);
        }
        ticks
    }

    /// The first takes 95, the others 1.
    fn long_first(delivery: u64) -> u64 {
        if delivery == 0 { 95 } else { 1 }
    }

    #[test]
    fn timer_2_a_late_tick_that_skips_stands_for_the_newest_moment() {
        let ticks = run(every(10, 10, Late::Skip), long_first, 125);
        assert_eq!(ticks, vec![(10, 10, 0), (105, 100, 8), (110, 110, 0), (120, 120, 0)]);
    }

    #[test]
    fn timer_2_late_ticks_are_made_up_for_up_to_the_bound() {
        let ticks = run(every(10, 10, Late::CatchUp(3)), long_first, 115);
        assert_eq!(ticks, vec![(10, 10, 0), (105, 80, 6), (106, 90, 0), (107, 100, 0), (110, 110, 0)]);
        let none = run(every(10, 10, Late::CatchUp(0)), long_first, 109);
        assert_eq!(none, vec![(10, 10, 0), (105, 100, 8)], "a bound of none is one");
    }

    #[test]
    fn timer_2_a_delayed_tick_is_due_a_period_after_the_end_of_the_one_before() {
        let ticks = run(every(10, 10, Late::Delay), long_first, 140);
        assert_eq!(ticks, vec![(10, 10, 0), (115, 115, 0), (126, 126, 0), (137, 137, 0)]);
    }

    #[test]
    fn timer_2_a_tick_that_waited_in_a_queue_stands_for_the_moment_of_its_start() {
        let mut timer = Timer::new(every(10, 10, Late::Skip));
        assert!(!timer.on_due(9));
        assert!(timer.on_due(10));
        let tick = timer.on_start(47).unwrap();
        assert_eq!(tick, Tick { delivery: 0, scheduled: 3, skipped: 3, due_ns: 40 });
        timer.on_end(47);
        assert_eq!(timer.due_ns(), Some(50));
    }

    #[test]
    fn timer_2_every_moment_is_delivered_or_skipped_once() {
        for late in [Late::Skip, Late::CatchUp(1), Late::CatchUp(4), Late::Delay] {
            for takes in [0, 3, 10, 11, 95, 1000] {
                let mut timer = Timer::new(every(10, 10, late));
                let (mut now_ns, mut seen) = (0, 0);
                for _ in 0..50 {
                    now_ns = timer.due_ns().unwrap().max(now_ns);
                    assert!(timer.on_due(now_ns));
                    let tick = timer.on_start(now_ns).unwrap();
                    assert_eq!(tick.scheduled, seen + tick.skipped, "{late:?}, {takes}");
                    seen = tick.scheduled + 1;
                    now_ns += takes;
                    timer.on_end(now_ns);
                }
            }
        }
    }

    #[test]
    fn timer_2_the_stop_is_the_last_moment_itself_included() {
        let until = |stop_ns, late| {
            let schedule = Schedule { stop_ns: Some(stop_ns), ..every(10, 10, late) };
            run(schedule, |_| 0, 1000).iter().map(|tick| tick.1).collect::<Vec<_>>()
        };
        for late in [Late::Skip, Late::CatchUp(2), Late::Delay] {
            assert_eq!(until(30, late), vec![10, 20, 30]);
            assert_eq!(until(5, late), Vec::<u64>::new());
            assert_eq!(until(35, late), vec![10, 20, 30]);
        }
        // A tick that starts after the stop stands for nothing beyond it.
        let schedule = Schedule { stop_ns: Some(35), ..every(10, 10, Late::Skip) };
        assert_eq!(run(schedule, long_first, 1000), vec![(10, 10, 0), (105, 30, 1)]);
    }

    #[test]
    fn timer_2_one_that_fires_once_is_over_then() {
        let once = Schedule { period_ns: None, ..every(7, 1, Late::Skip) };
        assert_eq!(run(once, |_| 100, 1000), vec![(7, 7, 0)]);
    }

    #[test]
    fn timer_3_nothing_starts_after_a_cancellation() {
        let fresh = || Timer::new(every(10, 10, Late::Skip));
        let mut waiting = fresh();
        waiting.cancel();
        assert!(!waiting.on_due(100) && waiting.is_over());
        let mut queued = fresh();
        assert!(queued.on_due(10));
        queued.cancel();
        assert_eq!(queued.on_start(10), None);
        let mut running = fresh();
        assert!(running.on_due(10));
        assert!(running.on_start(10).is_some());
        running.cancel();
        running.on_end(20);
        assert!(running.is_over() && running.due_ns().is_none());
    }

    #[test]
    fn timer_2_the_end_of_time_is_no_overflow() {
        let mut timer = Timer::new(every(u64::MAX - 5, u64::MAX, Late::CatchUp(u32::MAX)));
        assert!(timer.on_due(u64::MAX));
        assert_eq!(timer.on_start(u64::MAX).map(|tick| tick.due_ns), Some(u64::MAX - 5));
        timer.on_end(u64::MAX);
        assert_eq!(timer.due_ns(), Some(u64::MAX));
    }
}
