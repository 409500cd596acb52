//! Probes: what a test waits for in place of sleeping, and what it looks at afterwards.
//!
//! All of them are handles to something shared: a clone is the same probe. None belongs to the runtime under test, so
//! what they say does not depend on what they watch.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::pool::driven::is_any_here;
use turnkeep_scheduler::ticks;

/// A generous outer limit for a whole test: only a hang should reach it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits for `future`, so that a hang ends as a failure. The limit is one of real time, and in a
/// [`Sim`](super::Sim) of its virtual time.
///
/// Needs no runtime: it may be awaited anywhere. Dropping it drops the future.
///
/// # Panics
///
/// When the limit has passed first.
pub async fn within<F: Future>(limit: Duration, future: F) -> F::Output {
    let mut future = pin!(future);
    let mut late = pin!(sleep_until(ticks::after_duration(limit)));
    let ended = poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => late.as_mut().poll(cx).map(|()| None),
    });
    match ended.await {
        Some(output) => output,
        None => panic!("it has not ended within {limit:?}; it hangs, or the limit is too tight"),
    }
}

/// Waits for so long: in real time, and in a [`Sim`](super::Sim) in its virtual time. For handlers under test that
/// have to wait for something; a test itself has no need to sleep.
pub async fn sleep(time: Duration) {
    sleep_until(ticks::after_duration(time)).await;
}

/// Waits until `is_so`, which may change whenever `told` is notified.
async fn until(told: &Notify, is_so: impl Fn() -> bool) {
    loop {
        let mut again = pin!(told.notified());
        again.as_mut().enable();
        if is_so() {
            return;
        }
        again.await;
    }
}

/// Something that happens once: awaited by handlers, or by threads that block.
#[derive(Clone, Default)]
pub struct Signal(Arc<SignalInner>);

#[derive(Default)]
struct SignalInner {
    happened: Mutex<bool>,
    told: Condvar,
    notify: Notify,
}

impl Signal {
    /// It has not happened yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// It happens; again is no more than once.
    pub fn set(&self) {
        *self.0.happened.lock() = true;
        self.0.told.notify_all();
        self.0.notify.notify_waiters();
    }

    /// Whether it has happened.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.0.happened.lock()
    }

    /// Waits for it. Dropping the wait changes nothing.
    pub async fn wait(&self) {
        until(&self.0.notify, || self.is_set()).await;
    }

    /// Blocks the thread until it has happened: for a test's own thread, or to occupy a worker on purpose.
    ///
    /// # Panics
    ///
    /// After [`LIMIT`]; at once on the thread of a [`Sim`](super::Sim), where nobody else could set it.
    pub fn wait_blocking(&self) {
        let mut happened = self.0.happened.lock();
        let blocks_all = !*happened && is_any_here();
        assert!(!blocks_all, "a signal was waited for by blocking the only thread of a Sim; use `wait`");
        while !*happened {
            let late = self.0.told.wait_for(&mut happened, LIMIT).timed_out();
            assert!(!late || *happened, "nobody set the signal within {LIMIT:?}");
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("is_set", &self.is_set()).finish()
    }
}

/// A door that is opened and closed: whoever passes waits while it is closed.
#[derive(Clone, Default)]
pub struct Door(Arc<DoorInner>);

#[derive(Default)]
struct DoorInner {
    /// Whether it is open, and how many wait before it.
    state: Mutex<(bool, usize)>,
    told: Notify,
}

impl Door {
    /// A closed door.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody pass, those who wait and those who come.
    pub fn open(&self) {
        self.0.state.lock().0 = true;
        self.0.told.notify_waiters();
    }

    /// Whoever comes from now on waits.
    pub fn close(&self) {
        self.0.state.lock().0 = false;
    }

    /// Waits until it is open.
    pub async fn pass(&self) {
        if self.0.state.lock().0 {
            return;
        }
        let _waiting = Before::the(&self.0);
        until(&self.0.told, || self.0.state.lock().0).await;
    }

    /// How many wait before it now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.state.lock().1
    }

    /// Waits until at least so many wait before it.
    pub async fn wait_for_waiting(&self, count: usize) {
        until(&self.0.told, || self.waiting() >= count).await;
    }
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (is_open, waiting) = *self.0.state.lock();
        f.debug_struct("Door").field("is_open", &is_open).field("waiting", &waiting).finish()
    }
}

/// One that waits before a door.
struct Before<'a>(&'a DoorInner);

impl<'a> Before<'a> {
    fn the(door: &'a DoorInner) -> Self {
        door.state.lock().1 += 1;
        door.told.notify_waiters();
        Self(door)
    }
}

impl Drop for Before<'_> {
    fn drop(&mut self) {
        self.0.state.lock().1 -= 1;
    }
}

/// A place where a number of parties wait for each other, again and again.
#[derive(Clone)]
pub struct Rendezvous(Arc<RendezvousInner>);

struct RendezvousInner {
    parties: usize,
    /// How many have come, ever.
    arrived: Mutex<usize>,
    told: Notify,
}

impl Rendezvous {
    /// For so many parties; for none or one nobody ever waits.
    #[must_use]
    pub fn new(parties: usize) -> Self {
        let parties = parties.max(1);
        Self(Arc::new(RendezvousInner { parties, arrived: Mutex::new(0), told: Notify::new() }))
    }

    /// Comes, and waits until as many have come as there are parties. One that gives up has come all the same.
    pub async fn meet(&self) {
        let goal = {
            let mut arrived = self.0.arrived.lock();
            *arrived += 1;
            arrived.div_ceil(self.0.parties) * self.0.parties
        };
        self.0.told.notify_waiters();
        until(&self.0.told, || self.arrived() >= goal).await;
    }

    /// How many have come, ever.
    #[must_use]
    pub fn arrived(&self) -> usize {
        *self.0.arrived.lock()
    }
}

impl fmt::Debug for Rendezvous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parties, arrived) = (self.0.parties, self.arrived());
        f.debug_struct("Rendezvous").field("parties", &parties).field("arrived", &arrived).finish()
    }
}

/// A shared list of what happened, in order. It grows with what a test pushes.
pub struct Log<T>(Arc<LogInner<T>>);

struct LogInner<T> {
    entries: Mutex<Vec<T>>,
    told: Notify,
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Self(Arc::new(LogInner { entries: Mutex::new(Vec::new()), told: Notify::new() }))
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Log<T> {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This happened.
    pub fn push(&self, entry: T) {
        self.0.entries.lock().push(entry);
        self.0.told.notify_waiters();
    }

    /// Takes everything out.
    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.entries.lock())
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.entries.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until there are at least so many.
    pub async fn wait_for_len(&self, count: usize) {
        until(&self.0.told, || self.len() >= count).await;
    }
}

impl<T: Clone> Log<T> {
    /// A copy of everything.
    #[must_use]
    pub fn entries(&self) -> Vec<T> {
        self.0.entries.lock().clone()
    }
}

impl<T: fmt::Debug> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.entries.lock().iter()).finish()
    }
}

/// Counts how many are inside at once.
#[derive(Clone, Default)]
pub struct Overlap(Arc<Counts>);

#[derive(Default)]
struct Counts {
    now: AtomicUsize,
    most: AtomicUsize,
    entries: AtomicUsize,
}

impl Overlap {
    /// Nobody is inside.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// In, until the guard is dropped.
    #[must_use = "dropping the guard is leaving"]
    pub fn enter(&self) -> Inside {
        let now = self.0.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(now, Ordering::SeqCst);
        self.0.entries.fetch_add(1, Ordering::SeqCst);
        Inside(self.clone())
    }

    /// How many are inside now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::SeqCst)
    }

    /// The most that were ever inside at once.
    #[must_use]
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    /// How many have come in, ever.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.0.entries.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlap").field("now", &self.now()).field("most", &self.most()).finish()
    }
}

/// One that is inside.
#[derive(Debug)]
pub struct Inside(Overlap);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
