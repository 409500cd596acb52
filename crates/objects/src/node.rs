//! The node: one running Turnkeep runtime, and what it offers to code outside turns.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::RwLock;
use turnkeep_scheduler::ambient::{Infrastructure, as_infrastructure};
use turnkeep_scheduler::counters::Counters;
use turnkeep_scheduler::io;
use turnkeep_scheduler::owner::{Class, Count, NodeCounters, Owner};
use turnkeep_scheduler::pool::{Pool, driven};
use turnkeep_scheduler::timeline::Clock;
use turnkeep_trace::Event;

use crate::actor::{Actor, Handler};
use crate::builder::{Builder, Factory, TypeEntry};
use crate::caught::caught_call;
use crate::destination::Address;
use crate::directory::Directory;
use crate::error::{Error, ErrorKind};
use crate::id::{Generation, Id, ObjectKind};
use crate::join::{Leave, tell_leave};
use crate::locate::Locate;
use crate::membership::Membership;
use crate::message::Message;
use crate::object::{Object, object_of, report};
use crate::policy::TypeInfo;
use crate::publish::{self, Published, Topics};
use crate::quiesce;
use crate::refs::{ActorAddress, HandlerAddress, SpotAddress, SpotRef};
use crate::report::Reports;
use crate::shutdown::{self, ShutdownReport};
use crate::spawn::{Task, Tasks, spawn};
use crate::spot::{Entry, Spot};
use crate::status::{self, MetricsServer, Observer, Observers};
use crate::trace::Traced;
use crate::work::{Work, cpu_work, io_work};

/// What the object layer counts.
#[derive(Clone, Copy)]
pub(crate) enum Tally {
    /// Answers that came after their caller had given up.
    Late,
    /// Sends whose handler failed.
    FailedSends,
    /// Panics of user code.
    Panics,
    /// Waits of handlers with the gate given up.
    Yields,
    JoinsAccepted,
    JoinsRejected,
    JoinsFailed,
}

const TALLIES: usize = 7;

/// What was chosen when the node was built.
pub(crate) struct Config {
    pub(crate) ask_timeout: Duration,
    pub(crate) send_timeout: Duration,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) clock: Clock,
    /// Whether turns have spans.
    pub(crate) spans: bool,
}

const OPEN: u8 = 0;
const DRAINING: u8 = 1;
const CLOSING: u8 = 2;
const STOPPED: u8 = 3;

/// What all handles to a node share.
pub(crate) struct NodeInner {
    pub(crate) directory: Directory,
    pub(crate) membership: Membership,
    pub(crate) topics: Topics,
    pub(crate) observers: Observers,
    pub(crate) reports: Reports,
    pub(crate) began: Instant,
    /// Tasks of the program's own that have not ended.
    pub(crate) tasks: Tasks,
    pub(crate) types: HashMap<(ObjectKind, TypeId), TypeEntry>,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    /// Whether the pool ends with the node.
    pub(crate) own_pool: bool,
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) task_class: Arc<Class>,
    pub(crate) locate: Box<dyn Locate>,
    /// The Entry Spot, from the start of the node to its end. The Spot has a count of the node, so it must go.
    entry: RwLock<Option<Arc<Owner>>>,
    pub(crate) tallies: Counters<TALLIES>,
    pub(crate) traced: Option<Traced>,
    generations: AtomicU64,
    task_info: Arc<TypeInfo>,
    state: AtomicU8,
}

impl NodeInner {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            directory: Directory::new(),
            membership: Membership::default(),
            topics: Topics::default(),
            observers: Observers::default(),
            reports: Reports::default(),
            began: Instant::now(),
            tasks: Tasks::default(),
            types: parts.types,
            config: parts.config,
            pool: parts.pool,
            own_pool: parts.own_pool,
            counters: parts.counters,
            task_class: parts.task_class,
            locate: parts.locate,
            entry: RwLock::new(None),
            tallies: Counters::new(),
            traced: parts.traced,
            generations: AtomicU64::new(1),
            task_info: Arc::new(TypeInfo::plain(Id::fixed("task"))),
            state: AtomicU8::new(OPEN),
        }
    }

    /// Records something of the node as a whole.
    pub(crate) fn trace(&self, event: &Event) {
        if let Some(traced) = &self.traced {
            traced.recorder.record(event);
        }
    }

    pub(crate) fn tally(&self, which: Tally) {
        self.tallies.add(which as usize, 1);
    }

    pub(crate) fn next_generation(&self) -> Generation {
        Generation(self.generations.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Acquire) == OPEN
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.load(Ordering::Acquire) == STOPPED
    }

    /// No new work from outside. Returns whether it was open before.
    pub(crate) fn begin_draining(&self) -> bool {
        self.state.compare_exchange(OPEN, DRAINING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The time to drain is over: yields end in an error from now on.
    pub(crate) fn set_closing(&self) {
        self.state.fetch_max(CLOSING, Ordering::AcqRel);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state.load(Ordering::Acquire) >= CLOSING
    }

    pub(crate) fn set_stopped(&self) {
        self.state.store(STOPPED, Ordering::Release);
    }

    /// The Entry Spot, while there is one.
    pub(crate) fn entry(&self) -> Option<Arc<Owner>> {
        self.entry.read().clone()
    }

    /// Whether an owner is the Entry Spot.
    pub(crate) fn is_entry(&self, owner: &Owner) -> bool {
        self.entry.read().as_ref().is_some_and(|entry| std::ptr::eq(&**entry, owner))
    }

    pub(crate) fn set_entry(&self, entry: Arc<Owner>) {
        *self.entry.write() = Some(entry);
    }

    /// What tasks share.
    pub(crate) fn task_info(&self) -> Arc<TypeInfo> {
        self.task_info.clone()
    }

    /// The factory that was registered for a type, if there is one.
    pub(crate) fn factory<T: 'static>(&self, kind: ObjectKind) -> Option<Factory<T>> {
        let entry = self.types.get(&(kind, TypeId::of::<T>()))?;
        entry.factory.as_ref()?.downcast_ref::<Factory<T>>().cloned()
    }

    /// What was registered for a type.
    pub(crate) fn entry_of<T: 'static>(
        &self,
        kind: ObjectKind,
        address: &Address,
    ) -> Result<&TypeEntry, Error> {
        self.types.get(&(kind, TypeId::of::<T>())).ok_or_else(|| {
            let text = format!(
                "its type {} is not registered with the node; register it with the builder before the start",
                address.rust_type
            );
            Error::new(ErrorKind::NotConfigured, address, "create", &text)
        })
    }

    /// Puts a new object in, if its id is free and the location service confirms it. The error is the object
    /// that has the id, or none if the service said no.
    pub(crate) fn insert(
        &self,
        kind: ObjectKind,
        id: &Id,
        make: impl FnOnce() -> Arc<Owner>,
        born: impl FnOnce(&Arc<Owner>),
    ) -> Result<Arc<Owner>, Option<Arc<Owner>>> {
        let claim = || {
            // Under the lock of the id's shard: whoever sweeps the directory after the stop finds what got in.
            if self.is_stopped() {
                return false;
            }
            match as_infrastructure(|| self.locate.claim(kind, id.as_str())) {
                Ok(()) => true,
                Err(reason) => {
                    report(|| tracing::warn!(%kind, %id, reason, "the location service refused an id"));
                    false
                }
            }
        };
        self.directory.insert(kind, id, claim, make, |owner| {
            if let (ObjectKind::Actor, Some(entry)) = (kind, self.entry()) {
                self.membership.enter(owner, &entry);
            }
            born(owner);
        })
    }

    /// An object has ended.
    pub(crate) fn forget(&self, object: &Object) {
        match object.kind {
            ObjectKind::Task => return self.tasks.remove(object),
            ObjectKind::Timer => return,
            _ => {}
        }
        let release = || {
            let release = || as_infrastructure(|| self.locate.release(object.kind, object.id.as_str()));
            if let Err(panic) = caught_call(release) {
                report(|| tracing::error!(%object, panic, "the location service panicked"));
            }
        };
        let Some(owner) = self.directory.remove(object, release) else { return };
        if object.is_subscribed() {
            self.topics.forget(&owner);
        }
        match object.kind {
            ObjectKind::Actor => {
                if let Some(spot) = self.membership.remove(owner.key()) {
                    tell_leave(&spot, Leave::of_the_dead(object.member()));
                }
            }
            ObjectKind::Spot => match self.entry() {
                Some(entry) if Arc::ptr_eq(&entry, &owner) => *self.entry.write() = None,
                Some(entry) => {
                    for actor in self.membership.evict(owner.key(), &entry) {
                        // It gets a gate of its own when it next comes up under the old one: now.
                        actor.nudge();
                    }
                }
                None => {}
            },
            _ => {}
        }
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        if self.own_pool {
            self.pool.stop();
        }
    }
}

/// What a node is built from.
pub(crate) struct Parts {
    pub(crate) types: HashMap<(ObjectKind, TypeId), TypeEntry>,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) own_pool: bool,
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) task_class: Arc<Class>,
    pub(crate) locate: Box<dyn Locate>,
    pub(crate) traced: Option<Traced>,
}

/// Ends the node when the last of the program's handles is gone.
struct Guard(Arc<NodeInner>);

impl Drop for Guard {
    fn drop(&mut self) {
        shutdown::abandon(&self.0);
    }
}

/// A handle to a running node. Clones mean the same node; when the last one outside of turns is dropped, the
/// node ends at once. Call [`shutdown`](Self::shutdown) to end it in order.
#[derive(Clone)]
pub struct Node {
    inner: Arc<NodeInner>,
    _guard: Option<Arc<Guard>>,
}

impl Node {
    /// Begins a node.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A handle that keeps the node no longer than the program's own handles do.
    pub(crate) fn from_inner(inner: Arc<NodeInner>) -> Self {
        Self { inner, _guard: None }
    }

    pub(crate) fn inner(&self) -> &Arc<NodeInner> {
        &self.inner
    }

    pub(crate) fn guarded(inner: Arc<NodeInner>) -> Self {
        let guard = Arc::new(Guard(inner.clone()));
        Self { inner, _guard: Some(guard) }
    }

    /// Whoever is the Spot of that id.
    #[must_use]
    pub fn spot<S: Spot>(&self, id: &str) -> SpotAddress<S> {
        SpotAddress::new(&self.inner, id)
    }

    /// Whoever is the Actor of that id.
    #[must_use]
    pub fn actor<A: Actor>(&self, id: &str) -> ActorAddress<A> {
        ActorAddress::new(&self.inner, id)
    }

    /// A handler of the node.
    #[must_use]
    pub fn handler<H: Handler>(&self, name: &str) -> HandlerAddress<H> {
        HandlerAddress::new(&self.inner, ObjectKind::NodeHandler, name)
    }

    /// The handler of a channel.
    #[must_use]
    pub fn channel<H: Handler>(&self, name: &str) -> HandlerAddress<H> {
        HandlerAddress::new(&self.inner, ObjectKind::ChannelHandler, name)
    }

    /// The id of the Entry Spot, issued by the runtime.
    #[must_use]
    pub fn entry_id(&self) -> String {
        self.inner.entry().map_or_else(String::new, |entry| object_of(&entry).id.as_str().to_owned())
    }

    /// The Entry Spot, if it was built with that type.
    ///
    /// # Errors
    ///
    /// `TypeMismatch` otherwise.
    pub fn entry<S: Spot<Mode = Entry>>(&self) -> Result<SpotRef<S>, Error> {
        self.spot::<S>(&self.entry_id()).find()
    }

    /// The id of every object of a kind, in the order in which they were made.
    #[must_use]
    pub fn ids(&self, kind: ObjectKind) -> Vec<String> {
        let all = self.inner.directory.all(kind);
        all.iter().map(|owner| object_of(owner).id.as_str().to_owned()).collect()
    }

    /// How many objects of a kind there are, being made and ending ones included.
    #[must_use]
    pub fn count(&self, kind: ObjectKind) -> usize {
        self.inner.directory.count(kind)
    }

    /// Gives a message to every Spot that has subscribed to the topic of the channel when this starts, each once, in the
    /// order of subscription, and in the order of one publisher's publications (CHAN-2). Nobody's handler is waited
    /// for; a full lane is, until the deadline (5 s by default), while the others have the message already.
    ///
    /// # Errors
    ///
    /// `NotFound` if the node has no such channel, `InvalidOperation` if the topic is none, `ShuttingDown`. Targets that
    /// were missed are no error: [`Published`] names them.
    pub fn publish<M: Message + Clone>(
        &self,
        channel: &str,
        topic: &str,
        message: M,
    ) -> impl Future<Output = Result<Published, Error>> + Send + 'static {
        publish::publish(self.inner.clone(), channel.to_owned(), topic.to_owned(), message, None)
    }

    /// [`publish`](Self::publish) that waits for room until a deadline of its own.
    ///
    /// # Errors
    ///
    /// As for `publish`.
    pub fn publish_within<M: Message + Clone>(
        &self,
        channel: &str,
        topic: &str,
        message: M,
        timeout: Duration,
    ) -> impl Future<Output = Result<Published, Error>> + Send + 'static {
        publish::publish(self.inner.clone(), channel.to_owned(), topic.to_owned(), message, Some(timeout))
    }

    /// [`publish`](Self::publish) that waits for nothing: a target whose lane is full is missed.
    ///
    /// # Errors
    ///
    /// As for `publish`.
    pub fn try_publish<M: Message + Clone>(
        &self,
        channel: &str,
        topic: &str,
        message: M,
    ) -> Result<Published, Error> {
        publish::try_publish(&self.inner, channel, topic, &message)
    }

    /// Runs a task of the program's own on the node's workers, by turns with the objects. Inside it calls are
    /// made as from outside; it must not block. It is no accepted work that a shutdown waits for: a node that ends
    /// ends it.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        spawn(&self.inner, future)
    }

    /// Runs a task in the infrastructure domain: on threads that no handler can occupy. It cannot call objects
    /// (`InvalidOperation`, DOM-2) and must not block.
    pub fn spawn_infrastructure<F>(
        &self,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send + use<F>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let future = Infrastructure::new(future);
        let (driven, task) = match self.inner.pool.driver() {
            Some(driver) => (Some(driven::work::spawn(driver, future)), None),
            None => (None, Some(io::infra_handle().spawn(future))),
        };
        async move {
            match (driven, task) {
                (Some(driven), _) => driven.await,
                (None, Some(task)) => task.await.ok(),
                (None, None) => None,
            }
        }
    }

    /// Computing work on the CPU pool, apart from the workers (WORK-1).
    pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        cpu_work(&self.inner.pool, work)
    }

    /// A future to run on the I/O runtime; it holds no slot while it waits (WORK-1).
    pub fn io<F>(&self, future: F) -> Work<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        io_work(&self.inner.pool, future)
    }

    /// Waits until no accepted work is left anywhere on the node: nothing queued, running, waiting or being
    /// moved. Senders that still wait for room are not accepted work; new work makes it wait on. It has no
    /// deadline of its own.
    ///
    /// # Errors
    ///
    /// `InvalidOperation` in a turn of this node, which would wait for its own end.
    pub fn quiesce(&self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        quiesce::quiesce(self.inner.clone())
    }

    /// Ends the node within the time it was built with (30 s by default): new work is refused, accepted work is
    /// finished, `on_closing` runs, and what is not done by then is cancelled.
    ///
    /// Three quarters of the time are for finishing. Then handlers that wait with the gate given up go on with
    /// `ShuttingDown` (YIELD-9), and from seven eighths on objects are closed though others still work. The report
    /// says whether anything was cut off, and names some of it (STOP-1).
    ///
    /// # Errors
    ///
    /// `ShuttingDown` if it is under way already; `InvalidOperation` in a turn of this node, which would wait
    /// for itself.
    pub fn shutdown(&self) -> impl Future<Output = Result<ShutdownReport, Error>> + Send + 'static {
        self.shutdown_within(self.inner.config.shutdown_timeout)
    }

    /// [`shutdown`](Self::shutdown) within another time.
    ///
    /// # Errors
    ///
    /// As for `shutdown`.
    pub fn shutdown_within(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<ShutdownReport, Error>> + Send + 'static {
        shutdown::shutdown(self.inner.clone(), limit)
    }

    /// The clock that its timers follow.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.config.clock
    }

    /// How many workers run the node's turns.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.pool.workers()
    }

    /// What the node has counted so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.inner)
    }

    /// A stream of what changes: the node's status, and that of objects that are added to it. It is looked for ten times
    /// a second, in the infrastructure domain; no turn pays for it (STAT-1).
    ///
    /// # Errors
    ///
    /// `CapacityExceeded` if the node has 64 observers.
    pub fn observe(&self) -> Result<Observer, Error> {
        self.observe_every(Duration::from_millis(100))
    }

    /// [`observe`](Self::observe), looking every `period`: 1 ms at least.
    ///
    /// # Errors
    ///
    /// As for `observe`; `InvalidOperation` for a shorter period.
    pub fn observe_every(&self, period: Duration) -> Result<Observer, Error> {
        status::observe(&self.inner, period)
    }

    /// The metrics as Prometheus text.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        status::text(&self.status())
    }

    /// Serves the metrics at `http://ADDRESS/metrics` until the result is dropped. It runs in the infrastructure domain
    /// and serves 16 clients at once; a slow one delays nobody else.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the address cannot be had.
    pub async fn serve_metrics(&self, address: SocketAddr) -> Result<MetricsServer, Error> {
        status::serve(&self.inner, address).await
    }
}

impl Metrics {
    pub(crate) fn of(node: &NodeInner) -> Self {
        let of = |which: Count| node.counters.sum(which as usize);
        let tally = |which: Tally| node.tallies.sum(which as usize);
        let finished = of(Count::Finished);
        Self {
            accepted: of(Count::Accepted),
            finished,
            turns: of(Count::Turns),
            yields: tally(Tally::Yields),
            refused: of(Count::Refused),
            panics: of(Count::Panics) + tally(Tally::Panics),
            late: tally(Tally::Late),
            failed_sends: tally(Tally::FailedSends),
            joins_accepted: tally(Tally::JoinsAccepted),
            joins_rejected: tally(Tally::JoinsRejected),
            joins_failed: tally(Tally::JoinsFailed),
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// What a node has counted since its start. Turns and finished records are added at the end of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// Records admitted.
    pub accepted: u64,
    /// Records whose handler, with all that followed it, is over.
    pub finished: u64,
    /// Turns.
    pub turns: u64,
    /// Waits of handlers with the gate given up, one for each `yielding` that submitted something.
    pub yields: u64,
    /// Admissions refused, at once or after a wait for room.
    pub refused: u64,
    /// Panics of user code.
    pub panics: u64,
    /// Answers that came after their caller had given up.
    pub late: u64,
    /// Sends whose handler failed.
    pub failed_sends: u64,
    /// Joins that ended in the target.
    pub joins_accepted: u64,
    /// Joins that the target refused.
    pub joins_rejected: u64,
    /// Joins that failed.
    pub joins_failed: u64,
}
