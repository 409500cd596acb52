//! The hosted bus: a run loop whose host decides when each bounded piece of work is done.

use std::io;

use crate::boundary::{Access, Boundary};
use crate::bus::Bus;
use crate::component::{Component, ComponentId};
use crate::context::{AccessError, Context};
use crate::pump::{Halt, Handles, Progress};

/// Runs a bus inside something else: a Spot whose turns are the batches, a loop of the program's own.
#[derive(Debug)]
pub struct Hosted {
    bus: Bus,
    /// How far timers may fire; rises with `set_time`.
    until_ns: u64,
}

impl Hosted {
    /// Takes a bus over.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus, until_ns: 0 }
    }

    /// What the host can do with the bus.
    pub fn context(&mut self) -> Context<'_> {
        self.bus.context()
    }

    /// It is that late now: timers that are due fire in the batches that follow, before the clock shows the time.
    pub fn set_time(&mut self, now_ns: u64) {
        self.until_ns = self.until_ns.max(now_ns);
    }

    /// One bounded piece of work: up to [`BATCH`](crate::BATCH) callbacks, or a batch of commands, or a timer.
    ///
    /// # Errors
    ///
    /// A fault of the bus, or something that keeps it from delivering.
    pub fn batch(&mut self) -> Result<Progress, Halt> {
        if self.bus.core.work(Handles::All)? || self.bus.core.fire_timer(self.until_ns)? {
            return Ok(Progress::More);
        }
        self.bus.core.set_clock(self.until_ns);
        Ok(Progress::Idle)
    }

    /// Batches until nothing is left.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    pub fn settle(&mut self) -> Result<(), Halt> {
        while self.batch()? == Progress::More {}
        Ok(())
    }

    /// Access to a component between two batches.
    ///
    /// # Errors
    ///
    /// It is gone, or of another type.
    pub fn access<C: Component>(&mut self, component: ComponentId<C>) -> Result<Access<'_, C>, AccessError> {
        Access::new(&mut self.bus.core, component)
    }

    /// A safe boundary, for a host that delivers, discards or tears down by itself.
    pub fn boundary(&mut self) -> Boundary<'_> {
        Boundary::new(&mut self.bus.core)
    }

    /// Writes out what the log still buffers.
    ///
    /// # Errors
    ///
    /// As [`Bus::flush_log`].
    pub fn flush_log(&mut self) -> io::Result<()> {
        self.bus.flush_log()
    }
}
