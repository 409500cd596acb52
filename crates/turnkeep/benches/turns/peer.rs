//! What a peer must offer so that the scenarios can drive it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The workers of every peer.
pub(crate) const WORKERS: usize = 2;
/// How many messages an object takes before it is full.
pub(crate) const BOUND: usize = 1_024;

/// A runtime with objects that add up numbers, and objects that pass one on.
pub(crate) trait Peer: Send + Sync + 'static {
    const NAME: &'static str;
    /// Reaches a counter.
    type Counter: Clone + Send + Sync + 'static;
    /// Reaches a relay.
    type Relay: Clone + Send + Sync + 'static;

    /// Its workers and nothing else.
    fn start() -> Self;

    /// Runs a task on the peer's workers.
    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F);

    /// Makes so many counters, each of which works `work` a turn and reports to `goal`.
    fn counters(&self, count: usize, work: Duration, goal: &Arc<Goal>) -> Vec<Self::Counter>;

    /// Makes so many relays in a circle.
    fn relays(&self, count: usize, goal: &Arc<Goal>) -> Vec<Self::Relay>;

    /// Adds `number`; waits while the object is full.
    fn send(counter: &Self::Counter, number: u64) -> impl Future<Output = ()> + Send;

    /// Adds `number` and tells the sum.
    fn ask(counter: &Self::Counter, number: u64) -> impl Future<Output = u64> + Send;

    /// Lets a relay pass `hops` on, one less each time.
    fn hop(relay: &Self::Relay, hops: u64) -> impl Future<Output = ()> + Send;
}

/// Where objects report what they have reached; the measuring thread waits for it.
pub(crate) struct Goal {
    /// Messages or hops reported.
    messages: AtomicU64,
    sum: AtomicU64,
    /// How many messages make a round; set before each.
    wanted: AtomicU64,
    waiter: Thread,
}

impl Goal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            messages: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            waiter: std::thread::current(),
        })
    }

    /// Runs a round that begins with `begin` and ends when `messages` are reported; gives its time and sum.
    pub(crate) fn round(&self, messages: u64, begin: impl FnOnce()) -> (Duration, u64) {
        self.messages.store(0, Ordering::SeqCst);
        self.sum.store(0, Ordering::SeqCst);
        self.wanted.store(messages, Ordering::SeqCst);
        let start = Instant::now();
        begin();
        while self.messages.load(Ordering::SeqCst) < messages {
            std::thread::park();
        }
        (start.elapsed(), self.sum.load(Ordering::SeqCst))
    }

    /// So many messages are handled, and came to `sum`.
    pub(crate) fn report(&self, messages: u64, sum: u64) {
        self.sum.fetch_add(sum, Ordering::SeqCst);
        let before = self.messages.fetch_add(messages, Ordering::SeqCst);
        if before + messages >= self.wanted.load(Ordering::SeqCst) {
            self.waiter.unpark();
        }
    }
}

/// The state of a counter: 48 bytes for every peer.
pub(crate) struct Count {
    /// Messages since the last report.
    messages: u64,
    /// Their sum.
    sum: u64,
    /// After how many messages it reports; a sender says so with the first message of a round.
    report_at: u64,
    /// The sum of all messages ever.
    total: u64,
    work: u64,
    goal: Arc<Goal>,
}

const _: () = assert!(size_of::<Count>() == 48);

impl Count {
    pub(crate) fn new(work: Duration, goal: Arc<Goal>) -> Self {
        Self { messages: 0, sum: 0, report_at: 0, total: 0, work: work.as_nanos() as u64, goal }
    }

    /// One message: an order to report after so many, or a number to add.
    pub(crate) fn take(&mut self, number: u64) -> u64 {
        if number & ORDER != 0 {
            self.report_at = number & !ORDER;
            return self.total;
        }
        if self.work != 0 {
            let start = Instant::now();
            while start.elapsed() < Duration::from_nanos(self.work) {
                std::hint::spin_loop();
            }
        }
        self.messages += 1;
        self.sum += number;
        self.total = self.total.wrapping_add(number);
        if self.messages == self.report_at {
            self.goal.report(self.messages, self.sum);
            (self.messages, self.sum) = (0, 0);
        }
        self.total
    }
}

/// The bit of a message that is an order: report after so many messages.
pub(crate) const ORDER: u64 = 1 << 63;

/// Lets the others on this worker go first, once.
pub(crate) async fn step_back() {
    struct StepBack(bool);
    impl Future for StepBack {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    StepBack(false).await;
}
