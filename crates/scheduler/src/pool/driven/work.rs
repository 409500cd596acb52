//! CPU and I/O work of a driven node: on the driving thread, in the driver's order.
//!
//! CPU work runs when it is chosen. I/O work is polled when it is chosen, first and after each wake. What waits for
//! something outside of the driver (a socket, another runtime's timer) is not repeated by a seed and may never end
//! here; to wait for time, a future uses the clock of this crate.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

use super::Driver;
use crate::completion::{Outcome, completion};
use crate::cpu::{self, CpuOutcome};
use crate::io::{self, IoOutcome};
use crate::pool::Run;
use crate::ticks;

type Job = Box<dyn FnOnce() + Send>;
type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `work` when the driver chooses it; otherwise as [`crate::cpu::CpuPool::submit`].
pub async fn cpu<T, W>(driver: Arc<Driver>, deadline_ns: u64, work: W) -> CpuOutcome<T>
where
    T: Send + 'static,
    W: FnOnce() -> T + Send + 'static,
{
    if deadline_ns <= ticks::now() {
        return CpuOutcome::Expired;
    }
    let (completer, wait) = completion();
    let job: Job = Box::new(move || cpu::run_one(completer, deadline_ns, work));
    driver.schedule(Arc::new(Computing(Mutex::new(Some(job)))));
    drop(driver);
    cpu::outcome(wait.with_deadline(deadline_ns).await)
}

/// Polls `work` when the driver chooses it; otherwise as [`crate::io::spawn_work`].
pub async fn io<F>(driver: Arc<Driver>, deadline_ns: u64, work: F) -> IoOutcome<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    if deadline_ns <= ticks::now() {
        return IoOutcome::Expired;
    }
    let (completer, wait) = completion();
    let task = Polling::start(&driver, Box::pin(io::run_one(completer, deadline_ns, work)));
    drop(driver);
    let _abort = AbortOnDrop(task);
    io::outcome(wait.with_deadline(deadline_ns).await)
}

/// Polls `future` to its end, whether or not anybody waits for that. `None` if it panicked, or the driver stopped.
pub fn spawn<F>(driver: &Arc<Driver>, future: F) -> impl Future<Output = Option<F::Output>> + Send + use<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (completer, wait) = completion();
    Polling::start(driver, Box::pin(io::run_one(completer, u64::MAX, future)));
    async move {
        match wait.await {
            Outcome::Done(Ok(value)) => Some(value),
            _ => None,
        }
    }
}

/// CPU work that was not chosen yet.
struct Computing(Mutex<Option<Job>>);

impl Run for Computing {
    fn run(self: Arc<Self>) -> u64 {
        let job = self.0.lock().take();
        if let Some(job) = job {
            job();
        }
        1
    }

    fn name(&self) -> &'static str {
        "cpu work"
    }
}

/// A future that the driver polls.
struct Polling {
    driver: Arc<Driver>,
    /// Empty while it is polled, and for good when it has ended.
    future: Mutex<Option<Boxed>>,
    /// Whether it is among what is ready.
    is_ready: AtomicBool,
    /// Set when nobody waits for it any more.
    is_aborted: AtomicBool,
}

impl Polling {
    fn start(driver: &Arc<Driver>, future: Boxed) -> Arc<Self> {
        let task = Arc::new(Self {
            driver: driver.clone(),
            future: Mutex::new(Some(future)),
            is_ready: AtomicBool::new(false),
            is_aborted: AtomicBool::new(false),
        });
        task.wake_by_ref();
        task
    }
}

impl Wake for Polling {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::AcqRel) {
            self.driver.schedule(self.clone());
        }
    }
}

impl Run for Polling {
    fn run(self: Arc<Self>) -> u64 {
        self.is_ready.store(false, Ordering::Release);
        let Some(mut future) = self.future.lock().take() else { return 1 };
        if self.is_aborted.load(Ordering::Acquire) {
            return 1;
        }
        let waker = Waker::from(self.clone());
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            *self.future.lock() = Some(future);
        }
        1
    }

    fn name(&self) -> &'static str {
        "io work"
    }
}

/// Has a future dropped, when it is chosen next, that nobody waits for.
struct AbortOnDrop(Arc<Polling>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.is_aborted.store(true, Ordering::Release);
        self.0.wake_by_ref();
    }
}
