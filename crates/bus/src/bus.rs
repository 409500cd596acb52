//! The bus as the host has it, and how it is made.

use std::fmt;
use std::io::{self, Write};

use crate::component::OnFailure;
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::log::Journal;

pub use turnkeep_machines::bus::charge::Limits;

/// An ordered bus. It is filled through its [`context`](Self::context), and driven by one of the run loops:
/// [`Replay`](crate::Replay), [`Live`](crate::Live), [`Hosted`](crate::Hosted). Only they deliver.
pub struct Bus {
    pub(crate) core: Core,
}

impl Default for Bus {
    fn default() -> Self {
        Self::builder().build()
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus").field("metrics", &self.core.metrics()).finish_non_exhaustive()
    }
}

impl Bus {
    /// What a bus can be told before it is made.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What the host can do with the bus.
    pub fn context(&mut self) -> Context<'_> {
        Context::new(&mut self.core, NONE, NONE)
    }

    /// Writes out what the log still buffers.
    ///
    /// # Errors
    ///
    /// The first error of the log. Nothing has been written after it.
    pub fn flush_log(&mut self) -> io::Result<()> {
        self.core.journal.as_mut().map_or(Ok(()), Journal::flush)
    }
}

/// What a bus is told before it is made.
#[derive(Default)]
pub struct Builder {
    limits: Limits,
    on_failure: OnFailure,
    log: Option<Box<dyn Write + Send>>,
    digest: bool,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Builder {
    /// The limits (FAULT-1, ROOT-4, CMD-6, DRAIN-5, TIME-4).
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What a failed callback leads to, for components that are not told otherwise (COMP-7).
    #[must_use]
    pub fn on_failure(mut self, reaction: OnFailure) -> Self {
        self.on_failure = reaction;
        self
    }

    /// Where the log goes. Without it no log is written.
    #[must_use]
    pub fn log(mut self, log: impl Write + Send + 'static) -> Self {
        self.log = Some(Box::new(log));
        self
    }

    /// Has the bus keep a digest of its callbacks.
    #[must_use]
    pub fn digest(mut self) -> Self {
        self.digest = true;
        self
    }

    /// Makes the bus.
    #[must_use]
    pub fn build(self) -> Bus {
        Bus { core: Core::new(self.limits, self.on_failure, Journal::new(self.log, self.digest)) }
    }
}
