//! What the tests share: signals instead of sleeps, logs, overlap counters, one outer time limit.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its own part")]

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The outer limit of a test: generous, because only a hang should reach it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test's body; a hang ends as a failure.
pub async fn within<F: Future>(body: F) -> F::Output {
    match tokio::time::timeout(LIMIT, body).await {
        Ok(output) => output,
        Err(_) => panic!("the test hangs"),
    }
}

/// Something that happens once: awaited by handlers, or by threads that block.
#[derive(Clone, Default)]
pub struct Signal(Arc<SignalInner>);

#[derive(Default)]
struct SignalInner {
    happened: Mutex<bool>,
    told: Condvar,
    notify: tokio::sync::Notify,
}

impl Signal {
    pub fn new() -> Self {
        Self::default()
    }

    /// It happens.
    pub fn set(&self) {
        *self.0.happened.lock().unwrap() = true;
        self.0.told.notify_all();
        self.0.notify.notify_waiters();
    }

    pub fn is_set(&self) -> bool {
        *self.0.happened.lock().unwrap()
    }

    /// Waits in an async context.
    pub async fn wait(&self) {
        loop {
            let told = self.0.notify.notified();
            let mut told = std::pin::pin!(told);
            told.as_mut().enable();
            if self.is_set() {
                return;
            }
            told.await;
        }
    }

    /// Blocks the thread: for occupying a worker on purpose.
    pub fn wait_blocking(&self) {
        let mut happened = self.0.happened.lock().unwrap();
        while !*happened {
            let (guard, timeout) = self.0.told.wait_timeout(happened, LIMIT).unwrap();
            happened = guard;
            assert!(!timeout.timed_out(), "nobody set the signal");
        }
    }
}

/// A shared list of what happened, in order.
pub struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Log<T> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Counts how many are inside at once, independent of the runtime.
#[derive(Clone, Default)]
pub struct Overlap(Arc<(AtomicUsize, AtomicUsize)>);

impl Overlap {
    pub fn new() -> Self {
        Self::default()
    }

    /// In, until the guard is dropped.
    pub fn enter(&self) -> Inside {
        let inside = self.0.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.1.fetch_max(inside, Ordering::SeqCst);
        Inside(self.clone())
    }

    /// The most that were ever inside at once.
    pub fn most(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

pub struct Inside(Overlap);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the trace of a node that was shut down in order, and requires that the checker finds nothing (STAT-3).
pub fn expect_clean(recorder: &turnkeep::trace::Recorder, path: &str) {
    recorder.finish().unwrap();
    let (report, _) = turnkeep::trace::check(std::fs::File::open(path).unwrap()).unwrap();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty() && report.to_the_end,
        "{path}, {} turns:\n{}",
        report.turns,
        findings.join("\n")
    );
    assert!(report.turns > 0);
    std::fs::remove_file(path).unwrap();
}
