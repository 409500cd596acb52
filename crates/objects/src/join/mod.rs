//! Deferred Joins: registered inside a handler, started when it has ended well, one after another.

mod admit;
mod depart;

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_machines::defer::{self, Ending, Limits, Refused, Verdict};
use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::ambient::{Current, with_turn};
use turnkeep_scheduler::completion::{Completer, Wait, completion};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::Record;
use turnkeep_trace::field::{JoinId, RecordId, Scope};

pub(crate) use self::admit::{Leave, leave_record};
pub(crate) use self::depart::tell_leave;
use self::depart::{Announced, Move};

use crate::HeapSize;
use crate::actor::Actor;
use crate::call::check_wait;
use crate::destination::{Destination, Resolved};
use crate::error::{Error, ErrorKind};
use crate::id::ObjectKind;
use crate::object::object_of;
use crate::refs::{SpotAddress, SpotRef};
use crate::spot::{Admits, Spot};
use crate::trace;

/// How long a Join may take when nothing else is said.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// What a Join can go to: a [`SpotRef`] or a [`SpotAddress`] of a mode that has members.
pub trait JoinTarget<S: Spot>: sealed::Sealed {
    #[doc(hidden)]
    fn into_destination(self) -> sealed::Destined;
}

mod sealed {
    pub trait Sealed {}
    /// A destination that outside code can pass on and not look into.
    pub struct Destined(pub(crate) crate::destination::Destination);
}

impl<S: Spot> sealed::Sealed for &SpotRef<S> {}
impl<S: Spot<Mode: Admits>> JoinTarget<S> for &SpotRef<S> {
    fn into_destination(self) -> sealed::Destined {
        sealed::Destined(Destination::Owner(self.owner().clone()))
    }
}

impl<S: Spot> sealed::Sealed for SpotAddress<S> {}
impl<S: Spot<Mode: Admits>> JoinTarget<S> for SpotAddress<S> {
    fn into_destination(self) -> sealed::Destined {
        sealed::Destined(self.destination())
    }
}

/// Where a Join goes, and how to talk to an Actor and a Spot of those types.
#[derive(Clone)]
pub(crate) struct Target {
    destination: Destination,
    /// The first record of the move of an Actor of the right type.
    depart: fn(Move) -> Record,
    /// The record that asks a Spot of the right type.
    admit: fn(admit::Admit) -> Record,
}

impl Target {
    pub(crate) fn new<A: Actor, S: Spot>(destined: sealed::Destined) -> Self {
        Self { destination: destined.0, depart: depart::record::<A>, admit: admit::record::<S> }
    }

    /// Whether the running turn may wait for the decision of the target, which takes a turn of it (REENT-2).
    pub(crate) fn check_wait(&self, manner: Manner, operation: &str) -> Result<(), Error> {
        match self.destination.resolve(operation) {
            Ok(target) => check_wait(manner, Some(&target), operation),
            Err(_) => Ok(()),
        }
    }
}

/// An Actor's move to a Spot: to be deferred, and nothing else (JOIN-1).
///
/// What it carries is seen by the target's admission and comes back in the completion callback.
#[must_use = "a Join does nothing unless it is deferred"]
pub struct Join {
    actor: Arc<Owner>,
    target: Target,
    request: Option<Arc<dyn Any + Send + Sync>>,
    bytes: u64,
    timeout: Duration,
    /// Its number in a trace, once it is registered; 0 without one.
    number: JoinId,
}

impl Join {
    pub(crate) fn new<A: Actor, S: Spot>(actor: Arc<Owner>, destined: sealed::Destined) -> Self {
        Self {
            actor,
            target: Target::new::<A, S>(destined),
            request: None,
            bytes: 0,
            timeout: JOIN_TIMEOUT,
            number: JoinId(0),
        }
    }

    /// What the target sees and the completion callback gets back; 1 MiB at most (JOIN-5).
    pub fn with<R: HeapSize + Any + Send + Sync>(mut self, request: R) -> Self {
        self.bytes = (size_of::<R>() as u64).saturating_add(request.heap_bytes());
        self.request = Some(Arc::new(request));
        self
    }

    /// How long it may take from the end of the handler, 5 s by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The id of the target.
    fn target_id(&self) -> String {
        match &self.target.destination {
            Destination::Owner(owner) => object_of(owner).id.as_str().to_owned(),
            Destination::Address(address) => {
                address.id.as_ref().map_or_else(|_| String::new(), |id| id.as_str().to_owned())
            }
        }
    }

    fn target_name(&self) -> String {
        self.target.destination.to_string()
    }
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Join({} to {})", object_of(&self.actor), self.target_name())
    }
}

/// Why a Join was not registered; it comes back.
#[derive(Debug)]
pub struct DeferError {
    /// The Join.
    pub join: Box<Join>,
    /// Why not.
    pub error: Error,
}

impl fmt::Display for DeferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for DeferError {}

impl From<DeferError> for Error {
    fn from(refused: DeferError) -> Self {
        refused.error
    }
}

/// What a handler has registered, kept with its activation.
struct Deferrals {
    scope: defer::Scope,
    joins: Vec<Join>,
}

/// A registered Join whose handler has ended well.
pub(crate) struct Registered(Join);

/// Registers a Join with the handler that runs; the dynamic form of [`Turn::defer`](crate::Turn::defer).
///
/// # Errors
///
/// `InvalidOperation` where no handler runs: after its end, in lifecycle callbacks, factories and plain tasks;
/// `CapacityExceeded` over 64 Joins, 1 MiB each or 8 MiB together; `InvalidOperation` or `DeadlineExceeded` for
/// a timeout that is none (JOIN-5). The Join comes back.
pub fn defer(join: Join) -> Result<(), DeferError> {
    if let Err(error) = crate::call::check_timeout(Some(join.timeout), &join.target.destination, "defer") {
        return Err(DeferError { join: Box::new(join), error });
    }
    if let Some(error) = join.target.destination.bad_id() {
        return Err(DeferError { join: Box::new(join), error });
    }
    let mut join = Some(join);
    let refused = with_turn(|turn| {
        let turn = turn.filter(is_registration_scope).ok_or(Refused::Closed)?;
        turn.with_local(|local| {
            let deferrals = deferrals_in(local);
            let bytes = join.as_ref().map_or(0, |join| join.bytes);
            deferrals.scope.register(bytes)?;
            if let Some(join) = &mut join {
                join.number = trace::join_registered(&join.actor, RecordId(turn.record()));
            }
            deferrals.joins.extend(join.take());
            Ok(())
        })
    });
    match (refused, join) {
        (Err(why), Some(join)) => {
            let error = explain(why, &join);
            Err(DeferError { join: Box::new(join), error })
        }
        _ => Ok(()),
    }
}

fn is_registration_scope(turn: &Current<'_>) -> bool {
    let is_handler = !matches!(object_of(turn.owner()).kind, ObjectKind::Task | ObjectKind::Timer);
    is_handler && !turn.is_closed() && !turn.is_lifecycle()
}

fn deferrals_in(local: &mut Option<Box<dyn Any + Send>>) -> &mut Deferrals {
    let boxed = local.get_or_insert_with(|| {
        Box::new(Deferrals { scope: defer::Scope::new(Limits::STANDARD), joins: Vec::new() })
    });
    match boxed.downcast_mut() {
        Some(deferrals) => deferrals,
        None => unreachable!("nothing else is kept with an activation"),
    }
}

fn explain(why: Refused, join: &Join) -> Error {
    let (kind, text) = match why {
        Refused::Closed => (
            ErrorKind::InvalidOperation,
            "no handler runs here that could register it; defer inside a message handler, before it ends",
        ),
        Refused::TooMany => (
            ErrorKind::CapacityExceeded,
            "the handler has registered 64 Joins already; send the rest to yourself",
        ),
        Refused::TooLarge => {
            (ErrorKind::CapacityExceeded, "its request is over 1 MiB; send what is large after the Join")
        }
        Refused::TooLargeTogether => (
            ErrorKind::CapacityExceeded,
            "the handler's requests are over 8 MiB together; send what is large after the Join",
        ),
    };
    Error::new(kind, &join.target.destination, "defer", text)
}

/// Whether the running handler has registered a Join of that Actor (JOIN-10).
pub(crate) fn joins_registered_for(turn: &Current<'_>, actor: &Arc<Owner>) -> bool {
    turn.with_local(|local| {
        let deferrals = local.as_ref().and_then(|local| local.downcast_ref::<Deferrals>());
        deferrals.is_some_and(|deferrals| deferrals.joins.iter().any(|join| Arc::ptr_eq(&join.actor, actor)))
    })
}

/// The running handler has ended: what it registered is handed out, or dropped (JOIN-2, JOIN-3).
pub(crate) fn end_of_scope(ending: Ending) -> Vec<Registered> {
    let taken = with_turn(|turn| {
        turn.and_then(|turn| {
            turn.close();
            turn.with_local(|local| {
                let deferrals = local.as_mut()?.downcast_mut::<Deferrals>()?;
                let verdict = deferrals.scope.seal(ending);
                trace::scope_ended(turn.owner(), scope_of(&verdict));
                Some((verdict, std::mem::take(&mut deferrals.joins)))
            })
        })
    });
    match taken {
        Some((Verdict::Start(_), joins)) => joins.into_iter().map(Registered).collect(),
        // Dropping user requests may run user code: it is done here, with no lock held.
        Some((Verdict::Drop(_), joins)) => {
            drop(joins);
            Vec::new()
        }
        None => Vec::new(),
    }
}

fn scope_of(verdict: &Verdict) -> Scope {
    match verdict {
        Verdict::Start(_) => Scope::Well,
        Verdict::Drop(_) => Scope::Badly,
    }
}

/// Starts what a handler registered, in its order. Called in the handler's turn, before the gate is given up.
pub(crate) fn start(joins: Vec<Registered>) {
    if joins.is_empty() {
        return;
    }
    let held = joins.into_iter().map(|Registered(join)| {
        trace::hold_taken(&join.actor, join.number);
        join.actor.hold();
        let target = join.target.destination.resolve("join").map(Resolved::into_owner).ok();
        (Announced::new(&join, target), join, None)
    });
    Row(held.collect()).next();
}

/// A new Actor goes straight to a Spot; to be called right behind its first record.
pub(crate) fn arrive_at_creation(actor: &Arc<Owner>, target: &Target) -> Wait<Result<(), Error>> {
    let (told, wait) = completion();
    let number = trace::join_registered(actor, RecordId(0));
    trace::hold_taken(actor, number);
    actor.hold();
    let (by, to) = (actor.clone(), target.clone());
    let join = Join { actor: by, target: to, request: None, bytes: 0, timeout: JOIN_TIMEOUT, number };
    // Without a look-up: the caller holds a part of the directory.
    let known = match &join.target.destination {
        Destination::Owner(spot) => Some(spot.clone()),
        Destination::Address(_) => None,
    };
    Row(VecDeque::from([(Announced::new(&join, known), join, Some(told))])).next();
    wait
}

/// The Joins of one handler that have not started yet. Each starts when the one before it is over, in
/// whatever way that comes about: dropping the row starts the next.
struct Row(VecDeque<(Announced, Join, Told)>);

/// Who waits for the result of a Join: the creator of an Actor that goes straight to a Spot.
type Told = Option<Completer<Result<(), Error>>>;

impl Row {
    fn next(mut self) {
        self.start_next();
    }

    fn start_next(&mut self) {
        let Some((announced, join, told)) = self.0.pop_front() else { return };
        let rest = Row(std::mem::take(&mut self.0));
        let actor = join.actor.clone();
        let depart = join.target.depart;
        // An ended Actor refuses the record, which drops the move and with it the row.
        let _ = actor.try_submit(depart(Move::new(join, told, announced, rest)));
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.start_next();
    }
}
