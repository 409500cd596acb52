//! What every run loop is made of: one bounded piece of work, settling, and the timers on the way to an instant.

use std::time::Duration;

use turnkeep_machines::bus::drain::Hindrance;

use crate::command::QueueKind;
use crate::component;
use crate::core::{Core, NONE};
use crate::deliver::Ended;
use crate::fault::{FaultKind, FaultReport};
use crate::log::Entry;
use crate::subscription::Call;
use crate::timer::Timer;

/// Slots that are delivered before other work has its turn (DRAIN-6).
pub const BATCH: u32 = 64;
/// How long a component that is held elsewhere is left alone between two attempts.
const RETRY: Duration = Duration::from_micros(100);

/// Why a run loop has stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// The bus has a fault.
    #[error("{0}")]
    Fault(Box<FaultReport>),
    /// The head of the queue is a reservation that nobody fills.
    #[error("the head of the queue is reserved and its capture never came; fill or drop every reservation")]
    Reserved,
    /// Something that was given out is still alive.
    #[error("the bus cannot deliver: {0:?} is still alive; end it first")]
    Hindered(Hindrance),
    /// Data of the past.
    #[error("data at {time_ns} ns come when it is {now_ns} ns already; sort them by time")]
    OutOfOrder {
        /// The time of the data.
        time_ns: u64,
        /// What the clock says.
        now_ns: u64,
    },
}

/// What one piece of work was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something was done, and there may be more.
    More,
    /// There is nothing to do until something comes in, or time moves.
    Idle,
    /// There will never be anything to do again.
    Closed,
}

/// Which commands a run loop handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handles {
    Data,
    All,
}

impl Core {
    /// One bounded piece of work: up to [`BATCH`] slots, or, when none is left, one batch of commands. False if
    /// nothing was there.
    pub(crate) fn work(&mut self, handles: Handles) -> Result<bool, Halt> {
        let drained = self.drain(BATCH);
        match drained.ended {
            Ended::Empty if drained.delivered + drained.cancelled > 0 => return Ok(true),
            Ended::Empty => {}
            Ended::More => return Ok(true),
            Ended::Reserved => return Err(Halt::Reserved),
            Ended::Busy(_) => {
                std::thread::sleep(RETRY);
                return Ok(true);
            }
            Ended::Hindered(hindrance) => return Err(Halt::Hindered(hindrance)),
            Ended::Faulted => return Err(self.halt()),
        }
        if self.commands_wait(QueueKind::Data) {
            self.drain_commands(QueueKind::Data);
        } else if handles == Handles::All && self.commands_wait(QueueKind::Trading) {
            self.drain_commands(QueueKind::Trading);
        } else {
            return Ok(false);
        }
        if self.machine.fault().is_some() { Err(self.halt()) } else { Ok(true) }
    }

    /// The fault is there: commands still finish, then the report is given (FAULT-2).
    #[cold]
    fn halt(&mut self) -> Halt {
        let mut left = self.machine.limits().commands;
        loop {
            let handled = self.drain_commands(QueueKind::Data) + self.drain_commands(QueueKind::Trading);
            left = left.saturating_sub(handled);
            if handled == 0 || left == 0 {
                break;
            }
        }
        match self.machine.fault() {
            Some(report) => Halt::Fault(Box::new(report.clone())),
            None => Halt::Hindered(Hindrance::Drain),
        }
    }

    /// Works until nothing is left; other work has its turn after each piece.
    pub(crate) fn settle(&mut self, handles: Handles, between: &mut dyn FnMut()) -> Result<(), Halt> {
        while self.work(handles)? {
            between();
        }
        Ok(())
    }

    /// Moves the clock, never back.
    pub(crate) fn set_clock(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.now_ns = now_ns;
            self.note(|| Entry::Clock { now_ns });
        }
    }

    /// Fires the next timer that is due at `until_ns` or before, with the clock at its time; whether there was one.
    pub(crate) fn fire_timer(&mut self, until_ns: u64) -> Result<bool, Halt> {
        if self.timers.next_due().is_none_or(|due_ns| due_ns > until_ns) {
            return Ok(false);
        }
        let limit = self.machine.limits().firings;
        if self.timers.is_runaway(limit) {
            let detail = format!(
                "timers fired {limit} times at one instant, the limit; one of them keeps setting itself"
            );
            self.fault(FaultKind::Runaway, None, NONE, None, None, detail);
            return Err(self.halt());
        }
        let Some(firing) = self.timers.fire(until_ns) else { return Ok(false) };
        self.set_clock(firing.due_ns);
        self.counts.timers += 1;
        let (component, due_ns) = (firing.owner, firing.due_ns);
        self.note(|| Entry::TimerFired {
            component,
            name: firing.name.to_string(),
            registration: firing.registration,
            due_ns,
        });
        let call = if self.cells[component as usize].foreign {
            Call::Foreign(component)
        } else {
            Call::Method(component, component::timer)
        };
        self.post(component, call, Timer { name: firing.name, due_ns, last: firing.last });
        Ok(true)
    }

    /// The timers before `time_ns`, one by one, each settled; then the clock is set (TIME-1).
    pub(crate) fn advance(&mut self, time_ns: u64, between: &mut dyn FnMut()) -> Result<(), Halt> {
        if time_ns < self.now_ns {
            return Err(Halt::OutOfOrder { time_ns, now_ns: self.now_ns });
        }
        if let Some(before_ns) = time_ns.checked_sub(1) {
            while self.fire_timer(before_ns)? {
                self.settle(Handles::All, between)?;
            }
        }
        self.set_clock(time_ns);
        Ok(())
    }
}
