//! The replay: a run loop on a virtual clock that settles everything before time moves.

use std::io;

use crate::boundary::{Access, Boundary};
use crate::bus::Bus;
use crate::component::{Component, ComponentId};
use crate::context::{AccessError, Context};
use crate::pump::{Halt, Handles};

/// Runs a bus on recorded data (DRAIN-6, TIME-1).
#[derive(Debug)]
pub struct Replay {
    bus: Bus,
}

impl Replay {
    /// Takes a bus over.
    #[must_use]
    pub fn new(bus: Bus) -> Self {
        Self { bus }
    }

    /// What the host can do with the bus.
    pub fn context(&mut self) -> Context<'_> {
        self.bus.context()
    }

    /// Settles data commands and callbacks, but no trading commands: those wait for the first step.
    ///
    /// # Errors
    ///
    /// A fault of the bus, or something that keeps it from delivering.
    pub fn start(&mut self) -> Result<(), Halt> {
        self.bus.core.settle(Handles::Data, &mut || {})
    }

    /// Comes to an instant, and has `feed` publish one item there: first the timers before it fire one by one, the
    /// clock at the time of each, everything settled after each; then `feed` runs; then everything is settled. Timers
    /// at the instant itself fire after all its items: when a later step begins, or at the end.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or an instant before the clock's.
    pub fn step(&mut self, time_ns: u64, feed: impl FnOnce(&mut Context<'_>)) -> Result<(), Halt> {
        self.bus.core.advance(time_ns, &mut || {})?;
        feed(&mut self.bus.context());
        self.bus.core.settle(Handles::All, &mut || {})
    }

    /// Ends the run at an instant: its timers, and those before it, fire, each settled.
    ///
    /// # Errors
    ///
    /// As [`step`](Self::step).
    pub fn finish(&mut self, end_ns: u64) -> Result<(), Halt> {
        let core = &mut self.bus.core;
        core.advance(end_ns, &mut || {})?;
        while core.fire_timer(end_ns)? {
            core.settle(Handles::All, &mut || {})?;
        }
        core.settle(Handles::All, &mut || {})
    }

    /// Access to a component between two steps.
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

    /// Gives the bus back.
    #[must_use]
    pub fn into_bus(self) -> Bus {
        self.bus
    }
}
