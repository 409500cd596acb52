//! The process's runtimes for I/O: one for the user's, one for the infrastructure's own.
//!
//! Both are started at their first use and live as long as the process; their threads depend on the machine
//! alone (DOM-3). The user's never runs infrastructure tasks, nor the other way round, so that no user future,
//! however badly it behaves, keeps a heartbeat or a renewal waiting (DOM-1).

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::Poll;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;

use crate::completion::{Completer, Outcome, completion};
use crate::cpu::{machine_threads, panic_text};
use crate::ticks;

/// Threads for the infrastructure's blocking calls, such as name look-ups.
const INFRA_BLOCKING_THREADS: usize = 4;

/// How a piece of I/O work ended.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoOutcome<T> {
    /// What the future returned.
    Done(T),
    /// The future panicked; the text of the panic.
    Panicked(String),
    /// The deadline passed first; the future is dropped.
    Expired,
    /// The runtime stopped first, which only the end of the process does.
    Stopped,
}

/// The runtime of the user's I/O: as many workers as the machine runs threads at once, named `turnkeep-io`. The
/// first call starts it.
///
/// # Panics
///
/// When the operating system refuses a thread or the event queue.
pub fn handle() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| start("turnkeep-io", machine_threads(), machine_threads())).handle().clone()
}

/// The runtime of infrastructure tasks: one worker, named `turnkeep-infra`. The first call starts it. User code
/// must not run here (DOM-4).
///
/// # Panics
///
/// As [`handle`].
pub fn infra_handle() -> Handle {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| start("turnkeep-infra", 1, INFRA_BLOCKING_THREADS)).handle().clone()
}

/// Runs `work` on the user's I/O runtime. Nothing happens before the first poll.
///
/// `deadline_ns` is in the time of [`ticks::now`]; none waits for ever. While `work` waits it holds neither a
/// slot nor a thread (WORK-1). Every end is an outcome; a panic in `work` is caught.
///
/// The deadline, and dropping the future, end the wait and abort the task: it is dropped, on the runtime,
/// at its next `await`, and completes nothing (DONE-4, WORK-3).
pub async fn spawn_work<F>(work: F, deadline_ns: Option<u64>) -> IoOutcome<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let deadline_ns = deadline_ns.unwrap_or(u64::MAX);
    if deadline_ns <= ticks::now() {
        return IoOutcome::Expired;
    }
    let (completer, wait) = completion();
    let task = handle().spawn(run_one(completer, deadline_ns, work));
    let _abort = AbortOnDrop(task.abort_handle());
    outcome(wait.with_deadline(deadline_ns).await)
}

/// How a piece of work ended, from how its task's completion did.
pub(crate) fn outcome<T>(ended: Outcome<Result<T, String>>) -> IoOutcome<T> {
    match ended {
        Outcome::Done(Ok(value)) => IoOutcome::Done(value),
        Outcome::Done(Err(text)) => IoOutcome::Panicked(text),
        Outcome::Expired => IoOutcome::Expired,
        Outcome::Dropped => IoOutcome::Stopped,
    }
}

/// Aborts a task that nobody waits for; does nothing to one that has ended.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The task: the work with its panics caught, then the completion, unless it is too late.
pub(crate) async fn run_one<F: Future>(
    completer: Completer<Result<F::Output, String>>,
    deadline_ns: u64,
    work: F,
) where
    F::Output: Send + 'static,
{
    let mut work = pin!(Some(work));
    let polled = poll_fn(|context| {
        let Some(work) = work.as_mut().as_pin_mut() else {
            unreachable!("the work is there until it has ended")
        };
        // After a panic the work is never polled again.
        match catch_unwind(AssertUnwindSafe(|| work.poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(panic_text(payload))),
        }
    });
    let mut result = polled.await;
    // What the work holds goes before the completion, and its drop is the user's code too.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work.set(None))) {
        result = Err(panic_text(payload));
    }
    if deadline_ns <= ticks::now() {
        completer.expire();
    } else {
        let _late = completer.complete(result);
    }
}

fn start(name: &'static str, workers: usize, blocking: usize) -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(blocking)
        .thread_name(name)
        .enable_all()
        .build()
        .expect("DOM-3: the threads of the I/O runtimes start")
}

#[cfg(test)]
mod tests;
