//! CPU and I/O work as calls: the same result whether awaited ordinarily or with a Yield (WORK-2).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::cpu::{CpuOutcome, CpuPool};
use turnkeep_scheduler::io::{IoOutcome, spawn_work};
use turnkeep_scheduler::pool::{Pool, driven};

use crate::call::{Call, check_domain, check_wait, deadline, sealed, too_late};
use crate::error::{Error, ErrorKind};

/// How long work may take when nothing else is said.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);

type Running<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;
type Begin<R> = Box<dyn FnOnce(u64) -> Running<R> + Send>;

/// Work under way apart from the workers; it starts when it is first awaited.
///
/// Dropping it cancels it: CPU work that has not begun is skipped, I/O work is aborted at its next wait.
///
/// # Errors
///
/// `DeadlineExceeded` after the timeout (30 s by default, in a turn never longer than what is left of the
/// request), `InternalFailure` if the work panicked, `ShuttingDown` if the pool was stopped.
#[must_use = "futures do nothing unless awaited"]
pub struct Work<R> {
    what: &'static str,
    timeout: Option<Duration>,
    manner: Manner,
    begin: Option<Begin<R>>,
    running: Option<Running<R>>,
}

impl<R> Unpin for Work<R> {}

impl<R> Work<R> {
    /// How long it may take, waiting for a place included.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Work on the CPU pool, or on the thread that drives the node.
pub(crate) fn cpu_work<R: Send + 'static>(pool: &Pool, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
    const WHAT: &str = "cpu work";
    let driver = pool.driver().cloned();
    let begin: Begin<R> = Box::new(move |deadline_ns| {
        Box::pin(async move {
            let outcome = match driver {
                None => CpuPool::global().submit(Some(deadline_ns), work).await,
                Some(driver) => driven::work::cpu(driver, deadline_ns, work).await,
            };
            match outcome {
                CpuOutcome::Done(result) => Ok(result),
                CpuOutcome::Panicked(text) => Err(panicked(WHAT, &text)),
                CpuOutcome::Expired => Err(too_late(&WHAT, "run", "before it was done")),
                _ => Err(stopped(WHAT)),
            }
        })
    });
    Work { what: WHAT, timeout: None, manner: Manner::Ordinary, begin: Some(begin), running: None }
}

/// A future on the I/O runtime, or on the thread that drives the node.
pub(crate) fn io_work<F>(pool: &Pool, future: F) -> Work<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    const WHAT: &str = "io work";
    let driver = pool.driver().cloned();
    let begin: Begin<F::Output> = Box::new(move |deadline_ns| {
        Box::pin(async move {
            let outcome = match driver {
                None => spawn_work(future, Some(deadline_ns)).await,
                Some(driver) => driven::work::io(driver, deadline_ns, future).await,
            };
            match outcome {
                IoOutcome::Done(result) => Ok(result),
                IoOutcome::Panicked(text) => Err(panicked(WHAT, &text)),
                IoOutcome::Expired => Err(too_late(&WHAT, "run", "before it was done")),
                _ => Err(stopped(WHAT)),
            }
        })
    });
    Work { what: WHAT, timeout: None, manner: Manner::Ordinary, begin: Some(begin), running: None }
}

fn panicked(what: &str, text: &str) -> Error {
    let text = format!("the work panicked ({text}); nothing else was touched, mend it and submit it again");
    Error::new(ErrorKind::InternalFailure, what, "run", &text)
}

fn stopped(what: &str) -> Error {
    let text = "the pool was stopped before it was done; start it from a running process";
    Error::new(ErrorKind::ShuttingDown, what, "run", text)
}

impl<R> Future for Work<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(begin) = self.begin.take() {
            let ready = check_domain(&self.what, "run")
                .and_then(|()| check_wait(self.manner, None, self.what))
                .and_then(|()| deadline(self.timeout, WORK_TIMEOUT, &self.what, "run"));
            match ready {
                Ok(deadline_ns) => self.running = Some(begin(deadline_ns)),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        match &mut self.running {
            Some(running) => {
                let ended = ready!(running.as_mut().poll(cx));
                self.running = None;
                Poll::Ready(ended)
            }
            None => panic!("work was polled after it had ended"),
        }
    }
}

impl<R> sealed::Sealed for Work<R> {
    /// It is cancelled, like work that is dropped.
    fn cut(&mut self, why: Error) -> Self::Output {
        self.begin = None;
        self.running = None;
        Err(why)
    }

    fn set_yielding(&mut self) {
        self.manner = Manner::Yield;
    }
}
impl<R> Call for Work<R> {}

impl<R> fmt::Debug for Work<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({})", self.what)
    }
}
