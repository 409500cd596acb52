//! Timers: turns that come by the clock, registered under a name by the object whose turns they are.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | what a program says: [`Timer`], [`Tick`], [`OnTick`], [`OnOwnTick`] |
//! | `cell` | one registered timer: clock, machine and queue together |
//! | `tick` | the turn of a tick under the gate of its object |
//! | `own` | the turn of a tick under a gate of its own |

mod cell;
mod own;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use turnkeep_machines::timer::{self, Schedule};
use turnkeep_scheduler::owner::Owner;

pub use self::own::{OnOwnTick, TimerTurn};
pub use self::tick::OnTick;
pub use turnkeep_machines::timer::Late;

pub(crate) use self::cell::{Cell, Timers};
use self::own::OwnGate;
use self::tick::UnderGate;
use crate::call::TIMEOUT_MAX;
use crate::error::{Error, ErrorKind};
use crate::id::{Id, ObjectKind};
use crate::object::object_of;
use crate::trace;

/// How many timers one object may have.
pub const TIMERS_MAX: usize = 1024;
/// The shortest period of a timer.
pub const PERIOD_MIN: Duration = Duration::from_millis(1);

/// When a timer fires, by the node's [`Clock`](crate::Clock).
///
/// ```
/// # use turnkeep_objects::{Late, Timer};
/// # use std::time::Duration;
/// let once = Timer::after(Duration::from_secs(5));
/// let hourly = Timer::every(Duration::from_secs(3600)).late(Late::CatchUp(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a timer does nothing until a turn registers it"]
pub struct Timer {
    first: Duration,
    period: Option<Duration>,
    stop: Option<Duration>,
    late: Late,
}

impl Timer {
    /// Fires once, so long after its registration. Zero is allowed: the tick goes to the back of the queue at once.
    pub fn after(delay: Duration) -> Self {
        Self { first: delay, period: None, stop: None, late: Late::Skip }
    }

    /// Fires again and again, the first time one period after its registration. From 1 ms to a year.
    pub fn every(period: Duration) -> Self {
        Self { first: period, period: Some(period), stop: None, late: Late::Skip }
    }

    /// When the first tick is due, counted from the registration.
    pub fn first_after(mut self, delay: Duration) -> Self {
        self.first = delay;
        self
    }

    /// No tick is due later than this after the registration; one that is due just then still comes.
    pub fn stop_after(mut self, end: Duration) -> Self {
        self.stop = Some(end);
        self
    }

    /// What becomes of ticks that could not start in time: by default one stands for all of them (TIMER-2).
    pub fn late(mut self, late: Late) -> Self {
        self.late = late;
        self
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.period.is_some_and(|period| period < PERIOD_MIN) {
            return Err("its period is under 1 ms; give it a longer one");
        }
        if [Some(self.first), self.period, self.stop].into_iter().flatten().any(|time| time > TIMEOUT_MAX) {
            return Err("it has a time of over a year; give it a shorter one, and register it again then");
        }
        Ok(())
    }

    fn schedule(&self, now_ns: u64) -> Schedule {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Schedule {
            first_ns: now_ns.saturating_add(ns(self.first)),
            period_ns: self.period.map(ns),
            stop_ns: self.stop.map(|stop| now_ns.saturating_add(ns(stop))),
            late: self.late,
        }
    }
}

/// One tick of a timer.
#[derive(Clone, Debug)]
pub struct Tick {
    name: Id,
    tick: timer::Tick,
}

impl Tick {
    /// The name that the timer was registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// How many ticks of this timer were delivered before this one.
    #[must_use]
    pub fn delivery(&self) -> u64 {
        self.tick.delivery
    }

    /// Which of the timer's moments it stands for, from 0.
    #[must_use]
    pub fn scheduled(&self) -> u64 {
        self.tick.scheduled
    }

    /// How many moments were skipped since the tick before.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.tick.skipped
    }

    /// The moment it stands for, as time since the start of the node's clock.
    #[must_use]
    pub fn due(&self) -> Duration {
        Duration::from_nanos(self.tick.due_ns)
    }
}

const REGISTER: &str = "register a timer";

/// Registers a timer whose ticks are turns under the gate of `owner`.
pub(crate) fn register<T: OnTick>(owner: &Arc<Owner>, name: &str, timer: Timer) -> Result<(), Error> {
    let object = object_of(owner);
    let is_apart = object.kind == ObjectKind::Spot && !object.shares_gate && !object.node.is_entry(owner);
    if is_apart {
        let text =
            "a timer of a PerActor Spot has a gate of its own; implement `OnOwnTick` and use `own_timer`";
        return Err(Error::new(ErrorKind::InvalidOperation, object, REGISTER, text));
    }
    start::<UnderGate<T>>(owner, owner, name, timer)
}

/// Registers a timer with a gate of its own.
pub(crate) fn register_own<S: OnOwnTick>(owner: &Arc<Owner>, name: &str, timer: Timer) -> Result<(), Error> {
    let gate = own::gate(owner, &Id::new(name)?);
    start::<OwnGate<S>>(owner, &gate, name, timer)
}

fn start<W: cell::Ticking>(
    owner: &Arc<Owner>,
    runs_in: &Arc<Owner>,
    name: &str,
    timer: Timer,
) -> Result<(), Error> {
    let object = object_of(owner);
    let name = Id::new(name)?;
    let refused = |kind, text: &str| Err(Error::new(kind, object, REGISTER, text));
    if let Err(text) = timer.check() {
        return refused(ErrorKind::InvalidOperation, text);
    }
    if owner.is_sealed() {
        return refused(ErrorKind::InvalidOperation, "it is closing, so no tick would come; do without");
    }
    let clock = object.node.config.clock.clone();
    let schedule = timer.schedule(clock.now_ns());
    let cell = Cell::new::<W>(name, clock, schedule, owner, runs_in);
    match object.timers().put(cell.clone()) {
        Ok(replaced) => {
            if let Some(replaced) = replaced {
                trace::timer_replaced(owner, replaced.in_trace, cell.in_trace);
                replaced.cancel();
            }
            cell.arm();
            Ok(())
        }
        Err(()) => refused(ErrorKind::CapacityExceeded, "it has 1,024 timers already; cancel one first"),
    }
}
