//! One worker thread: takes ready tasks from its own queue, the shared one and its siblings', and runs them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;

use crossbeam_deque::{Steal, Worker as Queue};
use turnkeep_machines::wait::Key;

use super::estimate::Patience;
use super::sleep::Owed;
use super::{Shared, Task};
use crate::ticks;

/// At the latest this long after the last look, a busy worker looks at the shared queue, in nanoseconds.
const SHARED_LOOK_NS: u64 = 50_000;

/// How long a worker that has run out of work looks around before it sleeps, in nanoseconds: about what a wake-up
/// costs, so that it never costs more than twice the better of the two (Karlin et al. 1991).
const LINGER_NS: u64 = 20_000;

/// Pauses of the processor between two of those looks.
const LINGER_PAUSES: u32 = 20;

thread_local! {
    /// The worker that this thread is, set for as long as the thread's loop runs. It tells about the thread
    /// and never about the task that happens to run on it.
    static HERE: Cell<*const Worker> = const { Cell::new(ptr::null()) };
}

/// Whether this thread is a worker of any pool.
pub(super) fn is_here() -> bool {
    !HERE.get().is_null()
}

/// When the slice that runs on this thread began: the end of the one before, or of the worker's rest. On a thread
/// that is no worker, now.
#[inline]
pub(crate) fn slice_began_ns() -> u64 {
    // SAFETY: as in `with_here`; the borrow ends with this line.
    let began_ns = unsafe { HERE.get().as_ref() }.map(|worker| worker.now_ns.get());
    began_ns.unwrap_or_else(ticks::now)
}

/// A turn of that object begins on this thread.
#[inline]
pub(crate) fn note_turn(object: Key) {
    // SAFETY: as in `with_here`; the borrow ends with this function.
    if let Some(worker) = unsafe { HERE.get().as_ref() } {
        worker.shared.meters[worker.me].on_turn(object);
    }
}

/// Gives `f` this thread's worker, if it is one and works for `shared`.
#[inline]
pub(super) fn with_here<R>(shared: &Arc<Shared>, f: impl FnOnce(Option<&Worker>) -> R) -> R {
    // SAFETY: the pointer is null, or `Seat` has set it to a worker on this thread's own stack; `Seat` clears
    // it before that worker goes away, and the borrow given to `f` ends before this frame does, which lies
    // above the worker's on the same stack. Only shared borrows of the worker exist while it is set.
    let here = unsafe { HERE.get().as_ref() };
    f(here.filter(|worker| Arc::ptr_eq(&worker.shared, shared)))
}

/// The thread's claim to be a worker; dropping it gives the claim up.
struct Seat;

impl Seat {
    fn take(worker: &Worker) -> Self {
        HERE.set(worker);
        Self
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        HERE.set(ptr::null());
    }
}

/// What a worker thread owns. All cells are its own; the others see only its stealer and its meter.
pub(super) struct Worker {
    shared: Arc<Shared>,
    me: usize,
    queue: Queue<Task>,
    /// The end of the last slice, or of the last rest.
    now_ns: Cell<u64>,
    /// When the shared queue was last looked at.
    looked_ns: Cell<u64>,
    /// The last task came from the shared queue although there were own ones: the next is an own one.
    owes_own: Cell<bool>,
    /// The last search saw queued tasks, worth taking or not.
    glimpsed: Cell<bool>,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, me: usize, queue: Queue<Task>) -> Self {
        Self {
            shared,
            me,
            queue,
            now_ns: Cell::new(0),
            looked_ns: Cell::new(0),
            owes_own: Cell::new(false),
            glimpsed: Cell::new(false),
        }
    }

    /// The life of the thread: runs slices until the pool stops, then drops what is left in the own queue.
    pub(super) fn work(self) {
        let seat = Seat::take(&self);
        while let Some(task) = self.next() {
            self.run(task);
        }
        // From here on, what a dropped task schedules goes to the shared queue and is dropped there.
        drop(seat);
        while let Some(task) = self.queue.pop() {
            guarded("dropping a task", || drop(task));
        }
    }

    /// Puts a task behind the worker's own, and wakes nobody (but someone must keep watch).
    #[inline]
    pub(super) fn push(&self, task: Task) {
        self.queue.push(task);
        self.shared.sleep.fill_post();
    }

    /// Whether the worker has nothing queued for itself.
    pub(super) fn is_drained(&self) -> bool {
        self.queue.is_empty()
    }

    fn run(&self, task: Task) {
        if self.shared.is_stopped() {
            return guarded("dropping a task", || drop(task));
        }
        let mut turns = 0;
        guarded("a slice", || turns = task.run());
        let now = ticks::now();
        self.now_ns.set(now);
        let meter = &self.shared.meters[self.me];
        meter.lap(now, turns);
        if meter.is_backlog(self.queue.len()) && self.shared.sleep.can_call() {
            self.shared.sleep.call();
        }
    }

    /// The next task to run, after any length of sleep; `None` once the pool has stopped.
    fn next(&self) -> Option<Task> {
        while !self.shared.is_stopped() {
            if let Some(task) = self.own_or_due() {
                return Some(task);
            }
            if let Some(task) = self.search().or_else(|| self.linger()).or_else(|| self.sleep()) {
                return Some(self.start_afresh(task));
            }
        }
        None
    }

    /// An own task, or one of the shared queue if it was not looked at for a while. The two alternate when
    /// each slice is longer than that while, so neither queue starves the other.
    #[inline]
    fn own_or_due(&self) -> Option<Task> {
        let due = self.now_ns.get().wrapping_sub(self.looked_ns.get()) >= SHARED_LOOK_NS;
        if due
            && !self.owes_own.replace(false)
            && let Some(task) = self.take_shared()
        {
            self.owes_own.set(true);
            self.watch_over_queue();
            return Some(task);
        }
        self.queue.pop()
    }

    /// Work that is not the worker's own: from the shared queue, else from a sibling that has too much.
    fn search(&self) -> Option<Task> {
        self.glimpsed.set(false);
        self.take_shared().or_else(|| self.steal())
    }

    fn take_shared(&self) -> Option<Task> {
        self.looked_ns.set(self.now_ns.get());
        let batch = self.shared.meters[self.me].batch();
        insist(|| self.shared.queue.steal_batch_with_limit_and_pop(&self.queue, batch))
    }

    fn steal(&self) -> Option<Task> {
        let now = ticks::now();
        let workers = self.shared.stealers.len();
        (1..workers).map(|step| (self.me + step) % workers).find_map(|other| self.steal_from(other, now))
    }

    fn steal_from(&self, other: usize, now_ns: u64) -> Option<Task> {
        let (stealer, meter) = (&self.shared.stealers[other], &self.shared.meters[other]);
        let queued = stealer.len();
        if queued > 0 {
            self.glimpsed.set(true);
        }
        if !meter.is_worth_stealing(queued, now_ns) {
            return None;
        }
        insist(|| stealer.steal_batch_with_limit_and_pop(&self.queue, meter.batch()))
    }

    /// Looks around for a while before it sleeps: a thread that sleeps is woken at the price of many turns.
    fn linger(&self) -> Option<Task> {
        if !self.shared.sleep.linger(self.me) {
            return None;
        }
        let until_ns = ticks::now() + LINGER_NS;
        let found = loop {
            let found = self.search();
            if found.is_some() || self.shared.is_stopped() || ticks::now() >= until_ns {
                break found;
            }
            (0..LINGER_PAUSES).for_each(|_| std::hint::spin_loop());
        };
        if found.is_some() {
            self.settle(self.shared.sleep.get_up(self.me));
        }
        found
    }

    /// Sleeps until there is work, looking around whenever this worker keeps watch. `None` if the pool has
    /// stopped or the shared queue has something: then `next` looks again.
    fn sleep(&self) -> Option<Task> {
        let sleep = &self.shared.sleep;
        let mut patience = Patience::new(self.shared.watch);
        loop {
            let rest = sleep.lie_down(self.me);
            if self.shared.is_stopped() || !self.shared.queue.is_empty() {
                self.settle(sleep.get_up(self.me));
                return None;
            }
            let news = sleep.rest(self.me, rest, patience.period());
            let found = self.search();
            if found.is_some() || self.shared.is_stopped() {
                self.settle(sleep.get_up(self.me));
                return found;
            }
            if news || self.glimpsed.get() { patience.on_something() } else { patience.on_nothing() }
        }
    }

    fn settle(&self, owed: Owed) {
        if owed == Owed::SecondLook && !self.shared.queue.is_empty() {
            self.shared.sleep.call();
        }
    }

    fn start_afresh(&self, task: Task) -> Task {
        self.watch_over_queue();
        let now = ticks::now();
        self.now_ns.set(now);
        self.looked_ns.set(now);
        self.shared.meters[self.me].begin(now);
        task
    }

    /// What came along with a taken task must not be left alone if that task blocks (LANE-14).
    fn watch_over_queue(&self) {
        if !self.queue.is_empty() {
            self.shared.sleep.fill_post();
        }
    }
}

/// Steals until the answer is clear: each retry means that another thread has just got something.
fn insist(steal: impl Fn() -> Steal<Task>) -> Option<Task> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

/// Runs user code; a panic is reported and goes no further.
#[inline]
pub(super) fn guarded(what: &'static str, f: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(f)) {
        report(what, panic);
    }
}

#[cold]
fn report(what: &'static str, panic: Box<dyn Any + Send>) {
    let message = panic
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(what, message, "a panic reached the pool");
    // A payload may panic in its own drop; that second payload is given up instead of dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Drops everything in the pool's shared queue.
pub(super) fn drain_shared(shared: &Shared) {
    while let Some(task) = insist(|| shared.queue.steal()) {
        guarded("dropping a task", || drop(task));
    }
}
