//! A pool without threads: one thread runs whatever is ready, in an order that a seed repeats.
//!
//! The order is [`turnkeep_machines::order`]; this file has what it orders, the time, and the transcript. Nothing
//! here looks at a clock, an address or a hash, so the same program with the same seed runs the same way in every
//! process. Only one thread may run a driver, and nothing of a driven node may be woken by another: that is the
//! program's to see to, and costs it the repetition, not the safety.
//!
//! * `transcript.rs`: what ran.
//! * `work.rs`: CPU and I/O work, on the same thread.

mod transcript;
pub mod work;

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests;

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::Mutex;
use turnkeep_machines::budget::Slice;
use turnkeep_machines::order::Order;

pub use self::transcript::{Event, TRANSCRIPT_MAX, Transcript, What};
use super::Run;
use super::worker::guarded;
use crate::virtual_time::VirtualTime;

thread_local! {
    /// How many drivers were claimed by this thread.
    static CLAIMED: Cell<usize> = const { Cell::new(0) };
    /// The driver that this thread is in the midst of a step of, by address.
    static STEPPING: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread drives any pool.
#[must_use]
pub fn is_any_here() -> bool {
    CLAIMED.try_with(Cell::get).unwrap_or(0) > 0
}

/// While it lives, the thread counts as one that drives: blocking on it is refused.
#[derive(Debug)]
pub struct Claim(std::marker::PhantomData<*const ()>);

impl Claim {
    /// Claims the calling thread.
    #[must_use]
    pub fn new() -> Self {
        CLAIMED.set(CLAIMED.get() + 1);
        Self(std::marker::PhantomData)
    }
}

impl Default for Claim {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = CLAIMED.try_with(|claimed| claimed.set(claimed.get() - 1));
    }
}

/// Something that is ready.
enum Ready {
    Task(Arc<dyn Run>),
    /// The future that the driving code itself waits for.
    Root,
}

/// What a step ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A gate, or a piece of work.
    Task,
    /// It is the turn of the future that the driving code waits for: that code polls it.
    Root,
    /// Nothing is ready.
    Idle,
}

struct Inner {
    order: Order<Ready>,
    transcript: Transcript,
    /// Whether the root is among what is ready.
    root_is_ready: bool,
    stopped: bool,
    names: u64,
}

/// The ready gates of driven nodes, and the order in which they run.
pub struct Driver {
    time: VirtualTime,
    inner: Mutex<Inner>,
}

impl Driver {
    /// Nothing ready, the order by `seed`, the time at its origin.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Self> {
        let inner = Inner {
            order: Order::new(seed),
            transcript: Transcript::new(),
            root_is_ready: false,
            stopped: false,
            names: 0,
        };
        Arc::new(Self { time: VirtualTime::new(), inner: Mutex::new(inner) })
    }

    /// The time that the driven nodes go by.
    #[must_use]
    pub fn time(&self) -> &VirtualTime {
        &self.time
    }

    /// Runs the next ready thing on this thread. A panic in it is reported and costs that slice only.
    pub fn step(&self) -> Step {
        let ready = self.inner.lock().take_next();
        match ready {
            None => Step::Idle,
            Some(Ready::Root) => Step::Root,
            Some(Ready::Task(task)) => {
                let before = STEPPING.replace(std::ptr::from_ref(self).addr());
                guarded("a slice", || _ = task.run());
                STEPPING.set(before);
                Step::Task
            }
        }
    }

    /// Moves the time on to `at_ns` and wakes whoever waited for it. Noted in the transcript.
    pub fn advance_to(&self, at_ns: u64) {
        self.time.advance_to(at_ns);
        self.inner.lock().transcript.on_time(self.time.elapsed_ns());
    }

    /// The future that the driving code waits for is to be polled when its turn comes.
    pub fn wake_root(&self) {
        let mut inner = self.inner.lock();
        if !std::mem::replace(&mut inner.root_is_ready, true) {
            inner.order.add(Ready::Root);
        }
    }

    /// Whether nothing is ready.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inner.lock().order.is_empty()
    }

    /// Whether this thread is in the midst of a step.
    #[must_use]
    pub fn is_here(&self) -> bool {
        STEPPING.try_with(Cell::get).is_ok_and(|driver| driver == std::ptr::from_ref(self).addr())
    }

    /// How many things ran so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.inner.lock().transcript.steps()
    }

    /// What ran so far.
    #[must_use]
    pub fn transcript(&self) -> Transcript {
        self.inner.lock().transcript.clone()
    }

    /// A number for a name, so that names do not depend on what else the process did.
    pub fn next_name(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.names += 1;
        inner.names
    }

    /// Notes something beside the turns.
    pub fn note(&self, what: What, who: &str, about: &str) {
        self.inner.lock().transcript.on_event(what, who, about);
    }

    /// Nothing runs any more: what is ready is dropped, and what becomes ready later, too.
    pub fn stop(&self) {
        self.inner.lock().stopped = true;
        while let Some(left) = self.take_left() {
            guarded("dropping a task", || drop(left));
        }
        self.time.clear();
    }

    fn take_left(&self) -> Option<Ready> {
        self.inner.lock().order.take_next()
    }

    pub(super) fn schedule(&self, task: Arc<dyn Run>) {
        self.put(task, Order::add);
    }

    pub(super) fn schedule_behind(&self, task: Arc<dyn Run>) {
        self.put(task, Order::add_behind);
    }

    fn put(&self, task: Arc<dyn Run>, add: fn(&mut Order<Ready>, Ready)) {
        let mut inner = self.inner.lock();
        if inner.stopped {
            drop(inner);
            return guarded("dropping a task", || drop(task));
        }
        add(&mut inner.order, Ready::Task(task));
    }

    /// Whether a slice ends at this boundary although there is more to do. Its time stands still here, so a seed
    /// says it (LANE-10); a budget of nothing ends at each.
    pub(crate) fn ends_slice(&self, slice: Slice, now_ns: u64) -> bool {
        slice.is_over(now_ns) || self.inner.lock().order.ends_slice()
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("steps", &self.steps()).finish_non_exhaustive()
    }
}

impl Inner {
    fn take_next(&mut self) -> Option<Ready> {
        let ready = self.order.take_next()?;
        self.transcript.on_step();
        match &ready {
            Ready::Root => {
                self.root_is_ready = false;
                self.transcript.on_event(What::Root, "", "");
            }
            Ready::Task(task) => match task.name() {
                "" => {}
                name => self.transcript.on_event(What::Work, name, ""),
            },
        }
        Some(ready)
    }
}
