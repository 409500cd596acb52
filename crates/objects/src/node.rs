//! The node: one running Turnkeep runtime, and what it offers to code outside turns.

use std::any::TypeId;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::RwLock;
use turnkeep_scheduler::ambient::{Infrastructure, as_infrastructure};
use turnkeep_scheduler::counters::Counters;
use turnkeep_scheduler::io;
use turnkeep_scheduler::owner::{Class, Count, NodeCounters, Owner};
use turnkeep_scheduler::pool::Pool;
use turnkeep_trace::Event;

use crate::actor::{Actor, Handler};
use crate::builder::{Builder, TypeEntry};
use crate::caught::caught_call;
use crate::destination::Address;
use crate::directory::Directory;
use crate::error::{Error, ErrorKind};
use crate::id::{Generation, Id, ObjectKind};
use crate::join::{Leave, tell_leave};
use crate::locate::Locate;
use crate::membership::Membership;
use crate::object::{Object, object_of, report};
use crate::quiesce;
use crate::refs::{ActorAddress, HandlerAddress, SpotAddress, SpotRef};
use crate::shutdown::{self, ShutdownReport};
use crate::spawn::{Task, Tasks, spawn};
use crate::spot::{Entry, Spot};
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
}

const OPEN: u8 = 0;
const DRAINING: u8 = 1;
const STOPPED: u8 = 2;

/// What all handles to a node share.
pub(crate) struct NodeInner {
    pub(crate) directory: Directory,
    pub(crate) membership: Membership,
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
    task_name: Arc<Id>,
    state: AtomicU8,
}

impl NodeInner {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            directory: Directory::new(),
            membership: Membership::default(),
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
            task_name: Arc::new(Id::fixed("task")),
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

    /// The name of tasks.
    pub(crate) fn task_name(&self) -> Arc<Id> {
        self.task_name.clone()
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
        if object.kind == ObjectKind::Task {
            return self.tasks.remove(object);
        }
        let release = || {
            let release = || as_infrastructure(|| self.locate.release(object.kind, object.id.as_str()));
            if let Err(panic) = caught_call(release) {
                report(|| tracing::error!(%object, panic, "the location service panicked"));
            }
        };
        let Some(owner) = self.directory.remove(object, release) else { return };
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

    /// The kind and id of every object of a kind, in no order.
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
        let task = io::infra_handle().spawn(Infrastructure::new(future));
        async move { task.await.ok() }
    }

    /// Computing work on the CPU pool, apart from the workers (WORK-1).
    pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        cpu_work(work)
    }

    /// A future to run on the I/O runtime; it holds no slot while it waits (WORK-1).
    pub fn io<F>(&self, future: F) -> Work<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        io_work(future)
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

    /// How many workers run the node's turns.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.inner.pool.workers()
    }

    /// What the node has counted so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let of = |which: Count| self.inner.counters.sum(which as usize);
        let tally = |which: Tally| self.inner.tallies.sum(which as usize);
        let finished = of(Count::Finished);
        Metrics {
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
