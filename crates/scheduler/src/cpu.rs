//! A bounded pool of threads for long computations, apart from the application workers (WORK-1).
//!
//! # How
//!
//! A permit is a place in the queue. A submission waits for one, first come first served, until its deadline;
//! the job carries the permit and gives it back when a thread starts it. So at most `queue` jobs wait in the
//! pool and at most `threads` run; everybody else waits in the future that was given to them, which costs no
//! thread.
//!
//! # Invariants
//!
//! * CPU-a: the queue never holds more jobs than there are permits.
//! * CPU-b: a job whose completion is over when a thread takes it is dropped unrun (DONE-4).
//! * CPU-c: work that ends after its deadline, or whose future is gone, completes nothing (WORK-3).
//! * CPU-d: no work, and no drop of a job, runs under the queue's lock.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread::Builder;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::completion::{Completer, Outcome, completion};
use crate::deadline::{shielded, sleep_until};
use crate::ticks;

/// Jobs that the process's pool holds beside the running ones.
const GLOBAL_QUEUE: usize = 1_024;

/// How a submission ended.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuOutcome<T> {
    /// What the work returned.
    Done(T),
    /// The work panicked; the text of the panic.
    Panicked(String),
    /// The deadline passed first: before there was room, in the queue, or during the work.
    Expired,
    /// The pool stopped before the work was started.
    Stopped,
}

/// A fixed number of threads and a bounded queue before them.
///
/// Dropping a pool stops it, as [`CpuPool::stop`] does.
pub struct CpuPool {
    shared: Arc<Shared>,
}

struct Shared {
    /// One permit a place in the queue; closed by `stop`.
    room: Arc<Semaphore>,
    queue: Mutex<Queue>,
    /// Rung for each job, and for all at `stop`.
    news: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// Set once, by `stop`.
    is_stopped: bool,
}

struct Job {
    permit: OwnedSemaphorePermit,
    run: Box<dyn FnOnce() + Send>,
}

impl CpuPool {
    /// The pool of this process: as many threads as the machine runs at once (DOM-3), 1,024 places. The first
    /// call starts it.
    ///
    /// # Panics
    ///
    /// When the operating system refuses a thread.
    pub fn global() -> &'static CpuPool {
        static GLOBAL: OnceLock<CpuPool> = OnceLock::new();
        GLOBAL.get_or_init(|| CpuPool::new(machine_threads(), GLOBAL_QUEUE))
    }

    /// A pool of `threads` threads named `turnkeep-cpu-N`, with `queue` places; at least one of each.
    ///
    /// # Panics
    ///
    /// When the operating system refuses a thread.
    pub fn new(threads: usize, queue: usize) -> CpuPool {
        let places = queue.clamp(1, Semaphore::MAX_PERMITS);
        let jobs = Queue { jobs: VecDeque::new(), is_stopped: false };
        let room = Arc::new(Semaphore::new(places));
        let pool =
            CpuPool { shared: Arc::new(Shared { room, queue: Mutex::new(jobs), news: Condvar::new() }) };
        for number in 0..threads.max(1) {
            let shared = pool.shared.clone();
            Builder::new()
                .name(format!("turnkeep-cpu-{number}"))
                .spawn(move || shared.serve())
                .expect("WORK-1: the threads of the CPU pool start");
        }
        pool
    }

    /// Runs `work` on the pool. Nothing happens before the first poll.
    ///
    /// `deadline_ns` is in the time of [`ticks::now`]; none waits for ever. A full queue makes the future wait
    /// for room, first come first served, until then (WORK-1). Every end is an outcome; a panic in `work` is
    /// caught.
    ///
    /// Dropping the future ends the wait: a job not yet started is skipped, a running one runs to its end and
    /// completes nothing (DONE-4, WORK-3).
    pub fn submit<T, W>(
        &self,
        deadline_ns: Option<u64>,
        work: W,
    ) -> impl Future<Output = CpuOutcome<T>> + Send + 'static + use<T, W>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let shared = self.shared.clone();
        let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
        async move {
            let permit = match shared.room(deadline_ns).await {
                Ok(permit) => permit,
                Err(Refused::Expired) => return CpuOutcome::Expired,
                Err(Refused::Stopped) => return CpuOutcome::Stopped,
            };
            let (completer, wait) = completion();
            let run = Box::new(move || run_one(completer, deadline_ns, work));
            shared.push(Job { permit, run });
            drop(shared);
            outcome(wait.with_deadline(deadline_ns).await)
        }
    }

    /// Stops the pool: what is queued or waits for room ends as [`CpuOutcome::Stopped`], what runs ends by
    /// itself, and then the threads end. Does not wait for them.
    pub fn stop(&self) {
        self.shared.stop();
    }
}

impl Drop for CpuPool {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl fmt::Debug for CpuPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CpuPool").field("room", &self.shared.room.available_permits()).finish_non_exhaustive()
    }
}

/// Why there is no room.
enum Refused {
    Expired,
    Stopped,
}

impl Shared {
    /// A place in the queue, or the reason why not.
    async fn room(&self, deadline_ns: u64) -> Result<OwnedSemaphorePermit, Refused> {
        if deadline_ns <= ticks::now() {
            return Err(Refused::Expired);
        }
        let mut permit = pin!(self.room.clone().acquire_owned());
        let mut expired = pin!(sleep_until(deadline_ns));
        poll_fn(|context| {
            if let Poll::Ready(permit) = permit.as_mut().poll(context) {
                return Poll::Ready(permit.map_err(|_closed| Refused::Stopped));
            }
            expired.as_mut().poll(context).map(|()| Err(Refused::Expired))
        })
        .await
    }

    /// Queues a job; a stopped pool drops it, which ends its wait.
    fn push(&self, job: Job) {
        let mut queue = self.queue.lock();
        if queue.is_stopped {
            drop(queue);
            discard(job);
            return;
        }
        queue.jobs.push_back(job);
        drop(queue);
        self.news.notify_one();
    }

    /// A thread of the pool: one job after the other until the stop.
    fn serve(&self) {
        while let Some(job) = self.next() {
            // `run_one` catches the work's panic; this shield is for the drops and wakers beside it.
            shielded(|| {
                // The job left the queue: its place is free, before the work begins.
                drop(job.permit);
                (job.run)();
            });
        }
    }

    fn next(&self) -> Option<Job> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.is_stopped {
                return None;
            }
            self.news.wait(&mut queue);
        }
    }

    fn stop(&self) {
        self.room.close();
        let jobs = {
            let mut queue = self.queue.lock();
            queue.is_stopped = true;
            std::mem::take(&mut queue.jobs)
        };
        self.news.notify_all();
        jobs.into_iter().for_each(discard);
    }
}

/// Drops a job unrun; its captures are the user's, so their drop may panic.
fn discard(job: Job) {
    shielded(|| drop(job));
}

/// How a submission ended, from how its job's completion did.
pub(crate) fn outcome<T>(ended: Outcome<Result<T, String>>) -> CpuOutcome<T> {
    match ended {
        Outcome::Done(Ok(value)) => CpuOutcome::Done(value),
        Outcome::Done(Err(text)) => CpuOutcome::Panicked(text),
        Outcome::Expired => CpuOutcome::Expired,
        Outcome::Dropped => CpuOutcome::Stopped,
    }
}

/// Runs the work of a job, unless nobody waits, and completes it, unless it is too late.
pub(crate) fn run_one<T: Send + 'static>(
    completer: Completer<Result<T, String>>,
    deadline_ns: u64,
    work: impl FnOnce() -> T,
) {
    if completer.is_over() {
        return;
    }
    if deadline_ns <= ticks::now() {
        completer.expire();
        return;
    }
    let result = catch_unwind(AssertUnwindSafe(work)).map_err(panic_text);
    if deadline_ns <= ticks::now() {
        completer.expire();
    } else {
        let _late = completer.complete(result);
    }
}

/// The text of a panic, as the standard hook would print it.
pub(crate) fn panic_text(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => "panic without a text".to_owned(),
    };
    shielded(|| drop(payload));
    text
}

/// How many threads the machine runs at once.
pub(crate) fn machine_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests;
