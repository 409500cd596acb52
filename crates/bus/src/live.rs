//! The live run loop: messages from other threads, bounded batches, a clock that is told or read.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ambient::Owed;
use crate::boundary::{Access, Boundary};
use crate::bus::Bus;
use crate::channel::{Channel, Incoming, Sender};
use crate::component::{Component, ComponentId};
use crate::context::{AccessError, Context};
use crate::pump::{Halt, Handles, Progress};

/// Where a live bus has its time from. In every case the clock never goes back.
pub enum Clock {
    /// From the events: a message without a time has the time of the one before it.
    Events,
    /// From the machine's monotonic clock, in nanoseconds since the bus became live.
    Machine,
    /// From whatever the program reads, in nanoseconds.
    Told(Box<dyn FnMut() -> u64 + Send>),
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Events => "Events",
            Self::Machine => "Machine",
            Self::Told(_) => "Told",
        })
    }
}

/// How long an idle loop sleeps at most before it looks at a clock that it is told.
const LOOK: Duration = Duration::from_millis(1);
/// How long it sleeps at most otherwise.
const SLEEP: Duration = Duration::from_millis(200);

/// What a message does on the bus.
type Feed<M> = Box<dyn FnMut(&mut Context<'_>, M) + Send>;

/// Runs a bus on messages from other threads.
///
/// A message is taken when everything before it is settled, so that a live run and a replay of the same messages have
/// the same order (TIME-3). What is pending goes on without a new message, in batches, and other work has its turn
/// between two of them (DRAIN-6).
pub struct Live<M> {
    bus: Bus,
    channel: Arc<Channel<M>>,
    feed: Feed<M>,
    clock: Clock,
    /// When the bus became live.
    began: Instant,
    /// The message that waits for the timers before it.
    next: Option<Incoming<M>>,
}

impl<M> fmt::Debug for Live<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("bus", &self.bus).field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl<M: Send + 'static> Live<M> {
    /// Takes a bus over, with a channel for `capacity` messages. `feed` says what a message does.
    ///
    /// # Panics
    ///
    /// If the capacity is zero.
    #[must_use]
    pub fn new(
        bus: Bus,
        capacity: usize,
        clock: Clock,
        feed: impl FnMut(&mut Context<'_>, M) + Send + 'static,
    ) -> Self {
        assert!(capacity > 0, "a channel without room takes nothing; give it at least 1");
        let channel = Channel::new(capacity, bus.core.shared.clone());
        Self { bus, channel, feed: Box::new(feed), clock, began: Instant::now(), next: None }
    }

    /// An end of the channel.
    #[must_use]
    pub fn sender(&self) -> Sender<M> {
        self.channel.sender()
    }

    /// What the host can do with the bus.
    pub fn context(&mut self) -> Context<'_> {
        self.bus.context()
    }

    /// Settles what the host has set up: data commands and callbacks, but no trading commands.
    ///
    /// # Errors
    ///
    /// A fault of the bus, or something that keeps it from delivering.
    pub fn start(&mut self) -> Result<(), Halt> {
        self.bus.core.settle(Handles::Data, &mut || {})
    }

    /// One bounded piece of work: a batch of callbacks or commands; else a timer that is due; else one message.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), or a message with a time before the clock's, which is dropped.
    pub fn batch(&mut self) -> Result<Progress, Halt> {
        if self.bus.core.work(Handles::All)? {
            return Ok(Progress::More);
        }
        if self.next.is_none() {
            self.next = self.channel.take();
        }
        let now_ns = self.read_clock();
        let Some(next) = &self.next else { return self.idle(now_ns) };
        let time_ns = next.time_ns.or(now_ns).unwrap_or(self.bus.core.now_ns);
        if let Some(before_ns) = time_ns.checked_sub(1)
            && self.bus.core.fire_timer(before_ns)?
        {
            return Ok(Progress::More);
        }
        if let Some(incoming) = self.next.take() {
            self.take(time_ns, incoming)?;
        }
        Ok(Progress::More)
    }

    /// The clock now, where it does not come from the events.
    fn read_clock(&mut self) -> Option<u64> {
        match &mut self.clock {
            Clock::Events => None,
            Clock::Machine => Some(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Clock::Told(read) => Some(read()),
        }
    }

    fn idle(&mut self, now_ns: Option<u64>) -> Result<Progress, Halt> {
        let over = self.channel.is_over();
        // With a clock of its own the bus fires what is due; without one, the last instant has come at the end.
        let until_ns = now_ns.or_else(|| over.then_some(self.bus.core.now_ns));
        if let Some(until_ns) = until_ns {
            if self.bus.core.fire_timer(until_ns)? {
                return Ok(Progress::More);
            }
            self.bus.core.set_clock(until_ns);
        }
        Ok(if over { Progress::Closed } else { Progress::Idle })
    }

    fn take(&mut self, time_ns: u64, incoming: Incoming<M>) -> Result<(), Halt> {
        let core = &mut self.bus.core;
        let Incoming { root, message, time_ns: stated } = incoming;
        if time_ns < core.now_ns && stated.is_some() {
            drop(message);
            if let Some((root, epoch)) = root {
                core.shared.owe(Owed::Release(root, epoch));
            }
            return Err(Halt::OutOfOrder { time_ns, now_ns: core.now_ns });
        }
        core.set_clock(time_ns);
        match root.filter(|(_, epoch)| *epoch == core.shared.epoch()) {
            None => (self.feed)(&mut self.bus.context(), message),
            Some((root, epoch)) => {
                core.in_chain_of(root, |ctx| (self.feed)(ctx, message));
                core.shared.owe(Owed::Release(root, epoch));
            }
        }
        Ok(())
    }

    /// Works until every sender is gone and everything is settled. `between` has its turn after each piece of work.
    ///
    /// # Errors
    ///
    /// As [`batch`](Self::batch).
    pub fn run(&mut self, mut between: impl FnMut()) -> Result<(), Halt> {
        loop {
            match self.batch()? {
                Progress::More => between(),
                Progress::Closed => return Ok(()),
                Progress::Idle => self.sleep(),
            }
        }
    }

    fn sleep(&mut self) {
        let now_ns = self.read_clock();
        let due = self.bus.core.timers.next_due();
        let at_most = match (&self.clock, now_ns, due) {
            (Clock::Told(_), ..) => LOOK,
            (Clock::Machine, Some(now_ns), Some(due_ns)) => {
                Duration::from_nanos(due_ns.saturating_sub(now_ns)).min(SLEEP)
            }
            _ => SLEEP,
        };
        self.channel.wait(at_most);
    }

    /// Access to a component between two pieces of work.
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

impl<M> Drop for Live<M> {
    fn drop(&mut self) {
        for incoming in self.channel.close().into_iter().chain(self.next.take()) {
            if let Some((root, epoch)) = incoming.root {
                self.bus.core.shared.owe(Owed::Release(root, epoch));
            }
        }
    }
}
