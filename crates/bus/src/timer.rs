//! Timers as events: what a component gets when one of its timers fires.

use std::sync::Arc;

use crate::event::Event;

pub use turnkeep_machines::bus::timer::Schedule;

/// A timer that has fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// Its name.
    pub name: Arc<str>,
    /// The instant it was due, in nanoseconds of the bus's clock.
    pub due_ns: u64,
    /// Whether it has fired for the last time.
    pub last: bool,
}

impl Event for Timer {
    const NAME: &'static str = "timer";

    fn heap_bytes(&self) -> usize {
        self.name.len()
    }

    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&self.due_ns.to_le_bytes());
    }
}

/// Why a timer was not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// Only components have timers.
    #[error("timer {name:?} has no owner; set it in a callback of a component, or for one")]
    NoOwner {
        /// Its name.
        name: String,
    },
    /// The component has a timer of that name.
    #[error("timer {name:?} is set already; cancel it first or use another name")]
    NameTaken {
        /// Its name.
        name: String,
    },
    /// An interval of zero.
    #[error("timer {name:?} has an interval of zero; give it at least a nanosecond")]
    NoInterval {
        /// Its name.
        name: String,
    },
    /// Its first firing lies behind the clock.
    #[error("timer {name:?} is due at {due_ns} ns and it is {now_ns} ns already; set it for now or later")]
    Past {
        /// Its name.
        name: String,
        /// When it was to fire first.
        due_ns: u64,
        /// What the clock says.
        now_ns: u64,
    },
    /// The bus keeps no more timers.
    #[error("timer {name:?} would be one too many; cancel some")]
    TooMany {
        /// Its name.
        name: String,
    },
}
