//! Building a node: workers, limits, timeouts, and the types it may make.

use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use turnkeep_machines::budget;
use turnkeep_machines::lane::{BYTES_MAX, Limits, RECORD_OVERHEAD, RECORDS_MAX};
use turnkeep_scheduler::counters::Counters;
use turnkeep_scheduler::io;
use turnkeep_scheduler::owner::{Class, NodeCounters};
use turnkeep_scheduler::pool::driven::Driver;
use turnkeep_scheduler::pool::{Pool, PoolConfig};
use turnkeep_scheduler::timeline::Clock;
use turnkeep_trace::{Event, Recorder};

use crate::actor::{Actor, Handler};
use crate::call::{TIMEOUT_MAX, check_timeout};
use crate::create::{AsHandler, AsSpot, LifeOf, Make, begin};
use crate::error::{Error, ErrorKind, Failure};
use crate::id::{Id, ObjectKind};
use crate::locate::{InProcess, Locate};
use crate::node::{Config, Node, NodeInner, Parts};
use crate::policy::{PanicPolicy, TypeInfo};
use crate::send::SEND_TIMEOUT;
use crate::spot::{Entry, Mode, Spot};
use crate::trace::Sink;

/// How long an ask, a creation or a close may take when nothing else is said.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a shutdown may take when nothing else is said.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// The most workers a node can have.
pub const WORKERS_MAX: usize = 1024;

/// Makes an object of a type from its id.
pub(crate) type Factory<T> = Arc<dyn Fn(&str) -> Result<T, Failure> + Send + Sync>;

/// A registered type.
pub(crate) struct TypeEntry {
    pub(crate) info: Arc<TypeInfo>,
    pub(crate) class: Arc<Class>,
    /// A `Factory<T>`, if there is one.
    pub(crate) factory: Option<Box<dyn Any + Send + Sync>>,
}

/// The limits of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane {
    /// Records that may be accepted and not finished: 1 to 2,097,151.
    pub records: u32,
    /// Bytes they may reserve together, 256 a record beside its payload: 256 to about 549 billion.
    pub bytes: u64,
}

impl Lane {
    /// The application lane's default: 1,024 records, 64 MiB (LANE-1).
    pub const APPLICATION: Self =
        Self { records: Limits::APPLICATION.records(), bytes: Limits::APPLICATION.bytes() };
    /// The lifecycle lane's default: 128 records, 4 MiB (LANE-1).
    pub const LIFECYCLE: Self =
        Self { records: Limits::LIFECYCLE.records(), bytes: Limits::LIFECYCLE.bytes() };

    fn limits(self) -> Result<Limits, Error> {
        Limits::new(self.records, self.bytes).map_err(|_| {
            let text = format!(
                "{} records and {} bytes: give it 1 to {RECORDS_MAX} records and {RECORD_OVERHEAD} to {BYTES_MAX} bytes",
                self.records, self.bytes
            );
            Error::new(ErrorKind::InvalidOperation, "lane", "build", &text)
        })
    }
}

/// How a type is registered: factory, lanes, budget, what a panic does, when an idle object closes.
pub struct Options<T> {
    factory: Option<Factory<T>>,
    application: Option<Lane>,
    lifecycle: Option<Lane>,
    budget: Option<Duration>,
    on_panic: PanicPolicy,
    idle: Option<Duration>,
    /// Whether objects of the type may have an idle time.
    may_idle: bool,
    _type: PhantomData<fn() -> T>,
}

impl<T> Default for Options<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Options<T> {
    /// No factory, the node's lanes and budget.
    #[must_use]
    pub fn new() -> Self {
        Self {
            factory: None,
            application: None,
            lifecycle: None,
            budget: None,
            on_panic: PanicPolicy::default(),
            idle: None,
            may_idle: false,
            _type: PhantomData,
        }
    }

    /// Makes objects of the type from their ids. It runs in the object's first turn; an error or a panic undoes
    /// the creation.
    #[must_use]
    pub fn factory(mut self, factory: impl Fn(&str) -> Result<T, Failure> + Send + Sync + 'static) -> Self {
        self.factory = Some(Arc::new(factory));
        self
    }

    /// The limits of the application lane.
    #[must_use]
    pub fn application_lane(mut self, lane: Lane) -> Self {
        self.application = Some(lane);
        self
    }

    /// The limits of the lifecycle lane.
    #[must_use]
    pub fn lifecycle_lane(mut self, lane: Lane) -> Self {
        self.lifecycle = Some(lane);
        self
    }

    /// How long turns may run in a row under a gate of this type before others come first, 10 ms by default
    /// (LANE-10). Zero lets others come first at every turn boundary.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// What becomes of an object whose handler or callback panics, by default [`PanicPolicy::Stop`] (ERR-3).
    /// [`PanicPolicy::Restart`] needs a factory: without one the node does not start (`InvalidOperation`).
    #[must_use]
    pub fn on_panic(mut self, policy: PanicPolicy) -> Self {
        self.on_panic = policy;
        self
    }

    /// How long an Instance Spot may rest before it closes itself: nothing queued, no handler suspended, nobody
    /// waiting for room. It closes between one and one and a quarter such times after its last turn. For other
    /// types, for zero, or for more than a year, the node does not start (`InvalidOperation`).
    #[must_use]
    pub fn idle_after(mut self, idle: Duration) -> Self {
        self.idle = Some(idle);
        self
    }

    /// What objects of the type share.
    fn info(&self, name: Id) -> Result<TypeInfo, Error> {
        let wrong = |text| Err(Error::new(ErrorKind::InvalidOperation, &name, "register", text));
        if self.on_panic == PanicPolicy::Restart && self.factory.is_none() {
            return wrong("it is to be made anew after a panic, and has no factory; register one");
        }
        if self.idle.is_some() && !self.may_idle {
            return wrong("only Instance Spots have an idle time; close other objects yourself");
        }
        if self.idle.is_some_and(|idle| idle.is_zero() || idle > TIMEOUT_MAX) {
            return wrong("its idle time is zero or more than a year; give another, or none");
        }
        let idle_ns = self.idle.map_or(0, |idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
        Ok(TypeInfo { name, on_panic: self.on_panic, idle_ns })
    }
}

impl<T> std::fmt::Debug for Options<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Options({})", std::any::type_name::<T>())
    }
}

/// The Entry Spot of a node that was given none: Actors are made in it, nothing else happens there.
#[derive(Default, Debug)]
pub struct Hall;

impl Spot for Hall {
    type Mode = Entry;
}

/// What is registered, to be built when the limits are known.
type Register = Box<dyn FnOnce(&Building) -> Result<TypeEntry, Error> + Send>;
/// What is made at the start.
type Raise = Box<dyn FnOnce(&Arc<NodeInner>) -> Result<Raised, Error> + Send>;
type Raised = std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// What types are built with.
struct Building {
    pool: Pool,
    counters: Arc<NodeCounters>,
    recorder: Option<Arc<Recorder>>,
    application: Lane,
    lifecycle: Lane,
    budget: Duration,
}

/// Builds a [`Node`].
#[must_use = "a builder does nothing until `start`"]
pub struct Builder {
    workers: Option<usize>,
    application: Lane,
    lifecycle: Lane,
    budget: Duration,
    ask_timeout: Duration,
    send_timeout: Duration,
    shutdown_timeout: Duration,
    clock: Clock,
    spans: bool,
    locate: Box<dyn Locate>,
    trace: Option<Sink>,
    types: Vec<((ObjectKind, TypeId), Register)>,
    entry: Raise,
    entry_type: ((ObjectKind, TypeId), Register),
    raise: Vec<Raise>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            workers: None,
            application: Lane::APPLICATION,
            lifecycle: Lane::LIFECYCLE,
            budget: Duration::from_nanos(budget::DEFAULT_NS),
            ask_timeout: ASK_TIMEOUT,
            send_timeout: SEND_TIMEOUT,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            clock: Clock::real(),
            spans: false,
            locate: Box::new(InProcess),
            trace: None,
            types: Vec::new(),
            entry: raise_entry(Hall),
            entry_type: registration::<Hall>(ObjectKind::Spot, "hall", Options::new(), false, false),
            raise: Vec::new(),
        }
    }

    /// A pool of so many workers for this node alone, 1 to 1,024. Without it the node shares the process's
    /// pool, one worker a core, with other nodes (DOM-3).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// The application lane of types registered without one.
    pub fn application_lane(mut self, lane: Lane) -> Self {
        self.application = lane;
        self
    }

    /// The lifecycle lane of types registered without one.
    pub fn lifecycle_lane(mut self, lane: Lane) -> Self {
        self.lifecycle = lane;
        self
    }

    /// The time budget of types registered without one, 10 ms by default (LANE-10). Zero lets others come first
    /// at every turn boundary.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How long asks, creations and closes may take when nothing else is said, 30 s by default.
    pub fn ask_timeout(mut self, timeout: Duration) -> Self {
        self.ask_timeout = timeout;
        self
    }

    /// How long sends wait for room when nothing else is said, 5 s by default.
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.send_timeout = timeout;
        self
    }

    /// How long a shutdown may take when nothing else is said, 30 s by default.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Self {
        self.shutdown_timeout = timeout;
        self
    }

    /// The clock that timers follow; by default the process's. Deadlines of calls stay with the process's clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Whether each turn of a message or a tick has a `tracing` span named `turn`, with the types of object and message
    /// and the flow it belongs to, and no ids. Off by default; then it costs one branch (STAT-2).
    pub fn turn_spans(mut self, spans: bool) -> Self {
        self.spans = spans;
        self
    }

    /// The service that confirms which ids this node may own; by default it may own all.
    pub fn locate(mut self, locate: impl Locate) -> Self {
        self.locate = Box::new(locate);
        self
    }

    /// Records what the node does in a new file, for `turnkeep check` (STAT-3). The file is whole when the node
    /// has been shut down, and up to the last moments before a crash. An error of writing is logged; who wants
    /// it as a result gives a [`recorder`](Self::recorder) instead.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(Sink::File(path.into()));
        self
    }

    /// As [`trace`](Self::trace), with a recorder of the program's own (see [`recorder`](crate::recorder)), which
    /// ends the trace itself, after the node. A recorder is for one node.
    pub fn recorder(mut self, recorder: Arc<Recorder>) -> Self {
        self.trace = Some(Sink::Given(recorder));
        self
    }

    /// Registers a type of Spots under a name, made with `Default`.
    pub fn spot<S: Spot + Default>(self, name: &str) -> Self {
        self.spot_with(name, Options::<S>::new().factory(|_| Ok(S::default())))
    }

    /// Registers a type of Spots under a name.
    pub fn spot_with<S: Spot>(mut self, name: &str, mut options: Options<S>) -> Self {
        let shares = S::Mode::SHARES_GATE;
        options.may_idle = shares && !S::Mode::ADMITS;
        self.types.push(registration::<S>(ObjectKind::Spot, name, options, shares, false));
        self
    }

    /// Registers a type of Actors under a name, made with `Default`.
    pub fn actor<A: Actor + Default>(self, name: &str) -> Self {
        self.actor_with(name, Options::<A>::new().factory(|_| Ok(A::default())))
    }

    /// Registers a type of Actors under a name.
    pub fn actor_with<A: Actor>(mut self, name: &str, options: Options<A>) -> Self {
        self.types.push(registration::<A>(ObjectKind::Actor, name, options, false, true));
        self
    }

    /// The Entry Spot, in place of an empty one.
    pub fn entry<S: Spot<Mode = Entry>>(self, entry: S) -> Self {
        self.entry_with(entry, Options::new())
    }

    /// The Entry Spot, with its lanes.
    pub fn entry_with<S: Spot<Mode = Entry>>(mut self, entry: S, options: Options<S>) -> Self {
        self.entry_type = registration::<S>(ObjectKind::Spot, "entry", options, false, false);
        self.entry = raise_entry(entry);
        self
    }

    /// A handler of the node under a name (GATE-6).
    pub fn handler<H: Handler>(self, name: &str, handler: H) -> Self {
        self.handler_of(ObjectKind::NodeHandler, name, handler)
    }

    /// The handler of a channel (GATE-6).
    pub fn channel<H: Handler>(self, name: &str, handler: H) -> Self {
        self.handler_of(ObjectKind::ChannelHandler, name, handler)
    }

    fn handler_of<H: Handler>(mut self, kind: ObjectKind, name: &str, handler: H) -> Self {
        let key = (kind, TypeId::of::<H>());
        if !self.types.iter().any(|(other, _)| *other == key) {
            self.types.push(registration::<H>(
                kind,
                std::any::type_name::<H>(),
                Options::new(),
                false,
                false,
            ));
        }
        self.raise.push(raise::<AsHandler, H>(kind, name.to_owned(), handler));
        self
    }

    /// Starts the node: its workers, the Entry Spot and the handlers.
    ///
    /// # Errors
    ///
    /// `InvalidOperation` for numbers out of range, empty or long names; `AlreadyExists` for a type or a name
    /// registered twice; `Unavailable` if threads cannot be started.
    pub async fn start(self) -> Result<Node, Error> {
        self.check()?;
        let own_pool = self.workers.is_some();
        let pool = match self.workers {
            Some(workers) => own(workers)?,
            None => shared()?,
        };
        let started = self.start_on(pool.clone(), own_pool).await;
        if started.is_err() && own_pool {
            pool.stop();
        }
        started
    }

    /// Starts the node on a driver, in place of workers.
    pub(crate) async fn start_driven(mut self, driver: Arc<Driver>) -> Result<Node, Error> {
        self.check()?;
        if !self.clock.is_manual() {
            // Begun on the driver's time, which this thread goes by now.
            self.clock = Clock::real();
        }
        self.start_on(Pool::driven(driver), false).await
    }

    /// Whether the numbers make sense, before anything is started.
    fn check(&self) -> Result<(), Error> {
        check_timeout(Some(self.ask_timeout), &"ask_timeout", "build")?;
        check_timeout(Some(self.send_timeout), &"send_timeout", "build")?;
        check_timeout(Some(self.shutdown_timeout), &"shutdown_timeout", "build")?;
        self.application.limits()?;
        self.lifecycle.limits().map(drop)
    }

    async fn start_on(self, pool: Pool, own_pool: bool) -> Result<Node, Error> {
        let counters = Arc::new(Counters::new());
        let traced = self.trace.map(Sink::open).transpose()?;
        let building = Building {
            pool: pool.clone(),
            counters: counters.clone(),
            recorder: traced.as_ref().map(|traced| traced.recorder.clone()),
            application: self.application,
            lifecycle: self.lifecycle,
            budget: self.budget,
        };
        let types = register_all(self.types.into_iter().chain([self.entry_type]), &building)?;
        let parts = Parts {
            types,
            config: Config {
                ask_timeout: self.ask_timeout,
                send_timeout: self.send_timeout,
                shutdown_timeout: self.shutdown_timeout,
                clock: self.clock,
                spans: self.spans,
            },
            task_class: building.task_class()?,
            pool,
            own_pool,
            counters,
            locate: self.locate,
            traced,
        };
        let node = Node::guarded(Arc::new(NodeInner::new(parts)));
        let inner = node.inner();
        inner.trace(&Event::NodeBegan { workers: inner.pool.workers() as u64 });
        for raise in std::iter::once(self.entry).chain(self.raise) {
            raise(inner)?.await?;
        }
        Ok(node)
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("workers", &self.workers).finish_non_exhaustive()
    }
}

impl Building {
    /// The class of the program's own tasks: their records are no accepted work of objects, so they are counted
    /// apart.
    fn task_class(&self) -> Result<Arc<Class>, Error> {
        let class = self.class(None, None, None, false, false)?;
        Ok(Arc::new(Class {
            limits: class.limits,
            budget_ns: class.budget_ns,
            shares_gate: false,
            claims: false,
            is_asked: false,
            pool: class.pool.clone(),
            counters: Arc::new(Counters::new()),
            // What tasks do is no business of objects; what they send is recorded there.
            recorder: None,
        }))
    }

    fn class(
        &self,
        application: Option<Lane>,
        lifecycle: Option<Lane>,
        budget: Option<Duration>,
        shares_gate: bool,
        claims: bool,
    ) -> Result<Arc<Class>, Error> {
        Ok(Arc::new(Class {
            limits: [
                application.unwrap_or(self.application).limits()?,
                lifecycle.unwrap_or(self.lifecycle).limits()?,
            ],
            budget_ns: u64::try_from(budget.unwrap_or(self.budget).as_nanos()).unwrap_or(u64::MAX),
            shares_gate,
            claims,
            is_asked: true,
            pool: self.pool.clone(),
            counters: self.counters.clone(),
            recorder: self.recorder.clone(),
        }))
    }
}

/// Registers types; each once, and under a name of its own.
fn register_all(
    types: impl Iterator<Item = ((ObjectKind, TypeId), Register)>,
    building: &Building,
) -> Result<HashMap<(ObjectKind, TypeId), TypeEntry>, Error> {
    let mut entries: HashMap<(ObjectKind, TypeId), TypeEntry> = HashMap::new();
    for (key, register) in types {
        let entry = register(building)?;
        let same_name =
            entries.iter().any(|((kind, _), other)| *kind == key.0 && other.info.name == entry.info.name);
        if same_name || entries.contains_key(&key) {
            let text = "a type or a name is registered twice; give each type one name of its own";
            return Err(Error::new(ErrorKind::AlreadyExists, &entry.info.name, "register", text));
        }
        entries.insert(key, entry);
    }
    Ok(entries)
}

fn registration<T: Any + Send>(
    kind: ObjectKind,
    name: &str,
    options: Options<T>,
    shares_gate: bool,
    claims: bool,
) -> ((ObjectKind, TypeId), Register) {
    let name = Id::new(name);
    let register: Register = Box::new(move |building| {
        Ok(TypeEntry {
            info: Arc::new(options.info(name?)?),
            class: building.class(
                options.application,
                options.lifecycle,
                options.budget,
                shares_gate,
                claims,
            )?,
            factory: options.factory.map(|factory| Box::new(factory) as Box<dyn Any + Send + Sync>),
        })
    });
    ((kind, TypeId::of::<T>()), register)
}

fn raise<K: LifeOf<T>, T: Any + Send>(kind: ObjectKind, name: String, state: T) -> Raise {
    Box::new(move |node| {
        let begun = begin::<K, T>(node, kind, &Id::new(&name)?, Make::State(state))?;
        Ok(Box::pin(async move { begun.await.map(drop) }))
    })
}

fn raise_entry<S: Spot<Mode = Entry>>(entry: S) -> Raise {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    Box::new(move |node| {
        let number = match node.pool.driver() {
            None => NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            Some(driver) => driver.next_name(),
        };
        let id = Id::new(&format!("entry-{number}"))?;
        let begun = begin::<AsSpot, S>(node, ObjectKind::Spot, &id, Make::State(entry))?;
        let node = node.clone();
        Ok(Box::pin(async move {
            let owner = begun.await?;
            node.set_entry(owner);
            Ok(())
        }))
    })
}

fn own(workers: usize) -> Result<Pool, Error> {
    if workers == 0 || workers > WORKERS_MAX {
        let text = format!("{workers} workers: give it 1 to {WORKERS_MAX}");
        return Err(Error::new(ErrorKind::InvalidOperation, "node", "start", &text));
    }
    pool(workers)
}

/// The process's own pool, one worker a core, for all nodes that ask for none of their own.
fn shared() -> Result<Pool, Error> {
    static SHARED: Mutex<Option<Pool>> = Mutex::new(None);
    let mut shared = SHARED.lock();
    if let Some(pool) = &*shared {
        return Ok(pool.clone());
    }
    let made = pool(std::thread::available_parallelism().map_or(1, usize::from))?;
    *shared = Some(made.clone());
    Ok(made)
}

fn pool(workers: usize) -> Result<Pool, Error> {
    let config = PoolConfig { workers, name: "turnkeep".to_owned(), ..PoolConfig::default() };
    Pool::start(config, io::handle()).map_err(|error| {
        let text =
            format!("its threads cannot be started: {error}; allow more threads, or ask for fewer workers");
        Error::new(ErrorKind::Unavailable, "node", "start", &text)
    })
}
