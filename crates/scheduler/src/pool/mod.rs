//! The pool: a fixed number of threads that run whatever gates are ready, each with a queue of its own.
//!
//! * `worker.rs`: one thread's loop, where tasks are taken and run.
//! * `sleep.rs`: who sleeps and who is woken; `sleep.md` holds the protocol and its argument.
//! * `estimate.rs`: when queued work is worth another worker's attention.
//! * `driven.rs`: the second form, without threads: one thread that a program gives runs the gates by a seed.

pub mod driven;
mod estimate;
mod sleep;
mod worker;

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_deque::{Injector, Stealer, Worker as Queue};
use crossbeam_utils::CachePadded;
use tokio::runtime::Handle;
use turnkeep_machines::wait::Key;

use self::driven::Driver;
use self::estimate::Meter;
use self::sleep::{Sleep, WORKERS_MAX};
use self::worker::{Worker, drain_shared, with_here};
pub(crate) use self::worker::{note_turn, slice_began_ns};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::ticks;

/// A ready gate, as the pool sees it.
pub(crate) trait Run: Send + Sync + 'static {
    /// Runs one slice and tells how many turns it had. Should not panic; a panic is reported as a `tracing` error
    /// and costs the slice only.
    fn run(self: Arc<Self>) -> u64;

    /// What a driver's transcript calls it; nothing for a gate, whose turns are noted one by one.
    fn name(&self) -> &'static str {
        ""
    }
}

type Task = Arc<dyn Run>;

/// How a pool is laid out.
#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// The number of threads, from 1 to 32,767; by default one a core (DOM-3).
    pub workers: usize,
    /// The threads are called this, with their number behind it.
    pub name: String,
    /// How often an idle worker looks for work that nobody announced while others are busy; 100 µs by
    /// default. It grows up to 400 µs while there is nothing to see; a longer period than that is kept as it
    /// is, and then LANE-14 does not hold.
    pub watch: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            workers: thread::available_parallelism().map_or(1, usize::from),
            name: "turnkeep".to_owned(),
            watch: Duration::from_micros(100),
        }
    }
}

/// What the workers and the handles of one pool share.
struct Shared {
    queue: Injector<Task>,
    stealers: Box<[Stealer<Task>]>,
    meters: Box<[CachePadded<Meter>]>,
    sleep: Sleep,
    /// Set once, by `stop`.
    stopped: AtomicBool,
    watch: Duration,
    /// Filled by `start`, emptied by the first `stop`.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Shared {
    fn new(queues: &[Queue<Task>], watch: Duration) -> Self {
        Self {
            queue: Injector::new(),
            stealers: queues.iter().map(Queue::stealer).collect(),
            meters: queues.iter().map(|_| CachePadded::new(Meter::new())).collect(),
            sleep: Sleep::new(queues.len()),
            stopped: AtomicBool::new(false),
            watch,
            threads: Mutex::new(Vec::with_capacity(queues.len())),
        }
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Pushes to the shared queue, and wakes a sleeper for it or just has someone keep watch.
    fn push(&self, task: Task, wake: bool) {
        self.queue.push(task);
        if wake {
            self.sleep.announce();
        } else {
            fence(Ordering::SeqCst);
            self.sleep.fill_post();
        }
        // Both ways there was a full fence, against the one of `stop`: either this load sees the mark, or the
        // drain over there sees the push.
        if self.is_stopped() {
            drain_shared(self);
        }
    }
}

/// A pool of worker threads; clones are handles to the same pool.
///
/// Dropping the handles does not end the threads, which may still hold ready tasks; [`Pool::stop`] does.
#[derive(Clone)]
pub struct Pool(Form);

#[derive(Clone)]
enum Form {
    Threads(Arc<Shared>),
    Driven(Arc<Driver>),
}

impl Pool {
    /// Starts the threads. Each of them enters `enter` for as long as it lives, so that user code may use
    /// that runtime's I/O and timers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the number of workers is out of range; what the system says if it gives no thread
    /// (those already started are ended again).
    pub fn start(config: PoolConfig, enter: Handle) -> io::Result<Pool> {
        if config.workers == 0 || config.workers > WORKERS_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a pool has from 1 to 32767 workers"));
        }
        // The clock's first reading measures it: better here than in a slice.
        ticks::now();
        let queues: Vec<_> = (0..config.workers).map(|_| Queue::new_fifo()).collect();
        let shared = Arc::new(Shared::new(&queues, config.watch));
        let pool = Pool(Form::Threads(shared.clone()));
        for (me, queue) in queues.into_iter().enumerate() {
            let spawned = spawn_worker(&shared, format!("{}-{me}", config.name), me, queue, enter.clone());
            match spawned {
                Ok(thread) => shared.threads.lock().push(thread),
                Err(refused) => {
                    pool.stop();
                    return Err(refused);
                }
            }
        }
        Ok(pool)
    }

    /// A pool without threads: what is ready waits until `driver` is told to run it.
    #[must_use]
    pub fn driven(driver: Arc<Driver>) -> Pool {
        Pool(Form::Driven(driver))
    }

    /// The driver, if the pool has one in place of threads.
    #[must_use]
    #[inline]
    pub fn driver(&self) -> Option<&Arc<Driver>> {
        match &self.0 {
            Form::Threads(_) => None,
            Form::Driven(driver) => Some(driver),
        }
    }

    /// Makes a task ready. From a worker of this pool it goes behind that worker's own tasks, which costs
    /// nothing but the push; from anywhere else it goes behind the shared ones, and a sleeper is woken unless
    /// one is already on the way. It starts within 1 ms if a worker is idle (LANE-14). Once the pool has
    /// stopped, the task is dropped.
    #[inline]
    pub(crate) fn schedule(&self, task: Arc<dyn Run>) {
        let shared = match &self.0 {
            Form::Threads(shared) => shared,
            Form::Driven(driver) => return driver.schedule(task),
        };
        with_here(shared, |here| match here {
            Some(worker) => worker.push(task),
            None => shared.push(task, true),
        });
    }

    /// Makes a task ready behind all the others: for a gate whose budget is used up (LANE-10, LANE-13). Any
    /// worker may take it. A sleeper is woken, unless the caller is a worker that has nothing else to do: it
    /// takes the task itself at the end of its slice, or a watching sibling does if that slice lasts. Once
    /// the pool has stopped, the task is dropped.
    pub(crate) fn schedule_behind(&self, task: Arc<dyn Run>) {
        let shared = match &self.0 {
            Form::Threads(shared) => shared,
            Form::Driven(driver) => return driver.schedule_behind(task),
        };
        let alone = with_here(shared, |here| here.is_some_and(Worker::is_drained));
        let wake = !(alone && shared.queue.is_empty());
        shared.push(task, wake);
    }

    /// The number of worker threads; 1 for the one that drives.
    pub fn workers(&self) -> usize {
        match &self.0 {
            Form::Threads(shared) => shared.stealers.len(),
            Form::Driven(_) => 1,
        }
    }

    /// How many workers sleep or keep watch right now; may be out of date at once.
    pub fn idle(&self) -> usize {
        match &self.0 {
            Form::Threads(shared) => shared.sleep.down(),
            Form::Driven(driver) => usize::from(driver.is_idle()),
        }
    }

    /// The objects whose turns its workers run now, with when that slice began; out of date at once. A pool that is
    /// driven runs nothing that another thread could see.
    pub(crate) fn running(&self) -> Vec<(Key, u64)> {
        match &self.0 {
            Form::Threads(shared) => shared.meters.iter().filter_map(|meter| meter.running()).collect(),
            Form::Driven(_) => Vec::new(),
        }
    }

    /// Whether the calling thread is a worker of this pool.
    pub fn on_worker(&self) -> bool {
        match &self.0 {
            Form::Threads(shared) => with_here(shared, |here| here.is_some()),
            Form::Driven(driver) => driver.is_here(),
        }
    }

    /// Ends the pool: no further slice is started, running ones are let finish, and the tasks left in the
    /// queues are dropped. Joins the threads, except from one of them: then they end by themselves. A further
    /// call does nothing, and does not wait for a first one that is still joining.
    ///
    /// Waits for as long as a running slice lasts, so it must not be called by a thread that a slice waits
    /// for.
    pub fn stop(&self) {
        let shared = match &self.0 {
            Form::Threads(shared) => shared,
            Form::Driven(driver) => return driver.stop(),
        };
        shared.stopped.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        shared.sleep.rouse_all();
        drain_shared(shared);
        let threads = std::mem::take(&mut *shared.threads.lock());
        if !self.on_worker() {
            threads.into_iter().for_each(join);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers()).field("idle", &self.idle()).finish()
    }
}

/// Whether the calling thread is a worker of any pool, or drives one.
pub fn on_any_worker() -> bool {
    worker::is_here() || driven::is_any_here()
}

fn spawn_worker(
    shared: &Arc<Shared>,
    name: String,
    me: usize,
    queue: Queue<Task>,
    enter: Handle,
) -> io::Result<JoinHandle<()>> {
    let worker = Worker::new(Arc::clone(shared), me, queue);
    thread::Builder::new().name(name).spawn(move || {
        let _entered = enter.enter();
        worker.work();
    })
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a worker thread of the pool ended with a panic");
    }
}
