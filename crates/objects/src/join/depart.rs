//! The Actor's side of a Join: the machine's effects carried out, step by step, with no gate held while
//! others decide (JOIN-13).

use std::any::Any;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use turnkeep_machines::join::{Effect, Join as Machine, Kind, News, Outcome, Place, State};
use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::completion::{Completer, Outcome as Ended, Wait, completion};
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Record, Refusal, Work};
use turnkeep_scheduler::ticks;
use turnkeep_trace::field::JoinId;

use super::admit::{Admit, Decision, Leave, Ticket, callback_failed};
use super::{Join, Row, Told};
use crate::actor::{Actor, JoinCompleted, JoinOutcome};
use crate::caught::caught;
use crate::create::submit_lifecycle;
use crate::destination::Resolved;
use crate::envelope::{after_panic, panicked};
use crate::error::{Error, ErrorKind};
use crate::lifecycle::Lifecycle;
use crate::node::{NodeInner, Tally};
use crate::object::object_of;
use crate::spot::{Joining, Payload};
use crate::trace;

/// A Join whose turn has come.
pub(crate) struct Move {
    join: Join,
    told: Told,
    /// Given up with the claim, at the end.
    _hold: Hold,
    /// Starts when this move is over. After the hold: the next Join of the same Actor has a hold of its own.
    _rest: Row,
}

/// Says where the Actor is moving to, for the rules of waiting, until it is there (REENT-2).
struct Announced(Arc<Owner>);

impl Announced {
    fn new(actor: &Arc<Owner>, to: &Owner) -> Self {
        actor.announce_move(Some(to));
        Self(actor.clone())
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.0.announce_move(None);
    }
}

/// Keeps the Actor's application lane closed (JOIN-11).
struct Hold(Arc<Owner>, JoinId);

impl Drop for Hold {
    fn drop(&mut self) {
        let own_turn = with_turn(|turn| turn.is_some_and(|turn| std::ptr::eq(turn.owner(), &*self.0)));
        trace::hold_released(&self.0, self.1);
        self.0.release_hold(own_turn);
    }
}

impl Move {
    pub(super) fn new(join: Join, told: Told, rest: Row) -> Self {
        let hold = Hold(join.actor.clone(), join.number);
        Self { join, told, _hold: hold, _rest: rest }
    }
}

/// The record that begins a move of an Actor of type `A`.
pub(super) fn record<A: Actor>(of: Move) -> Record {
    Record::unmetered(DepartWork::<A>(of, PhantomData))
}

struct DepartWork<A>(Move, PhantomData<fn() -> A>);

impl<A: Actor> Work for DepartWork<A> {
    fn start(self, start: Start<'_>) -> Started {
        start.run::<A, _>(self.0)
    }

    /// The Actor has ended: so has its move.
    fn refuse(self, _: &Owner, _: Refusal) {}
}

impl Move {
    /// The Spot to go to: of the Actor's own node, whatever reference was given.
    fn target(&self, node: &Arc<NodeInner>) -> Result<Arc<Owner>, Kind> {
        let resolved = self.join.target.destination.resolve("join").map(Resolved::into_owner);
        match resolved {
            Ok(spot) if Arc::ptr_eq(&object_of(&spot).node, node) => Ok(spot),
            Ok(_) => Err(Kind::InvalidTarget),
            Err(error) => Err(match error.kind() {
                ErrorKind::TypeMismatch => Kind::InvalidTarget,
                ErrorKind::ShuttingDown => Kind::ShuttingDown,
                _ => Kind::NoTarget,
            }),
        }
    }
}

impl<A: Actor> Job<A> for Move {
    async fn run(self, mut access: Access<'_, A>) -> Ending {
        let actor = access.owner_arc();
        let node = &object_of(&actor).node;
        let Some(source) = node.membership.place(actor.key()) else { return Ending::Done };
        trace::join_began(&actor, self.join.number);
        let target = self.target(node);
        let mut departure = Departure::new(&self.join, actor.clone(), source, target);
        let outcome = departure.run(&mut access, &self.join).await;
        let announced = departure.announced.take();
        let arrival = Arrival { of: self, machine: departure.finish(), outcome, _announced: announced };
        let host = node.membership.place(actor.key()).filter(|place| object_of(place).shares_gate);
        let gate = host.as_ref().map_or(actor.key(), |host| host.key());
        if gate == actor.gate_key() {
            return arrival.complete(access).await;
        }
        Ending::Arrive { host, first: Record::unmetered(ArriveWork::<A>(arrival, PhantomData)) }
    }
}

/// The part of a move before the completion callback. Dropped half-way (the Actor was cancelled), it takes
/// back what can be taken back and tells the source what cannot.
struct Departure {
    machine: Machine,
    actor: Arc<Owner>,
    source: Arc<Owner>,
    target: Result<Arc<Owner>, Kind>,
    due: u64,
    /// The number of the Join in a trace.
    number: JoinId,
    ticket: Ticket,
    /// Held until the Actor is where it was announced, or will not come.
    announced: Option<Announced>,
    /// Whether the source has been told that the Actor has left, or need not be.
    left: bool,
    reply: Option<Payload>,
}

impl Departure {
    fn new(join: &Join, actor: Arc<Owner>, source: Arc<Owner>, target: Result<Arc<Owner>, Kind>) -> Self {
        let place = |owner: &Arc<Owner>| Place(owner.key().0 as u64);
        let to = target.as_ref().map_or(Place(0), place);
        Self {
            machine: Machine::new(place(&source), to),
            actor,
            source,
            target,
            due: ticks::after_duration(join.timeout),
            number: join.number,
            ticket: Ticket::new(),
            announced: None,
            left: false,
            reply: None,
        }
    }

    /// Carries out effects until the machine asks for the completion callback.
    async fn run<A: Actor>(&mut self, access: &mut Access<'_, A>, join: &Join) -> Outcome {
        let mut effect = self.machine.on(News::Started);
        loop {
            effect = match effect {
                Some(Effect::AskAdmission(_)) => self.ask_admission(access, join).await,
                Some(Effect::AskLeave(_)) => self.ask_leave(access).await,
                Some(Effect::Complete(_, outcome)) => return outcome,
                other => unreachable!("JOIN-6: {other:?} in {:?}", self.machine.state()),
            };
        }
    }

    async fn ask_admission<A: Actor>(&mut self, access: &mut Access<'_, A>, join: &Join) -> Option<Effect> {
        let spot = match &self.target {
            Ok(spot) => spot.clone(),
            Err(kind) => return self.machine.on(News::Refused(*kind)),
        };
        if object_of(&spot).shares_gate {
            self.announced = Some(Announced::new(&self.actor, &spot));
        }
        trace::join_asked(&self.actor, self.number, &spot);
        let (decided, mut decision) = completion();
        let (joined_told, joined) = completion();
        let admit = Admit {
            actor: self.actor.clone(),
            joining: Joining { member: object_of(&self.actor).member(), request: join.request.clone() },
            bytes: join.bytes,
            number: self.number,
            ticket: self.ticket.clone(),
            decided,
            joined: joined_told,
        };
        let record = (join.target.admit)(admit);
        let offered = submit_lifecycle(&spot, record, self.due, Manner::Yield, "join");
        if let Err(error) = access.released(pin!(offered)).await {
            return self.not_offered(&error);
        }
        let due = self.due;
        let in_time = access.released(Box::pin(until(&mut decision, due))).await;
        let effect = match in_time {
            Some(ended) => self.on_decision(ended),
            None => match self.machine.on(News::Deadline) {
                Some(Effect::Withdraw(_)) => self.withdraw(access, &mut decision).await,
                other => other,
            },
        };
        if self.machine.state() == State::Joining { self.await_joined(access, joined).await } else { effect }
    }

    /// The target's lane had no room, or takes nothing any more.
    fn not_offered(&mut self, error: &Error) -> Option<Effect> {
        match error.kind() {
            ErrorKind::DeadlineExceeded => {
                let asked = self.machine.on(News::Deadline);
                debug_assert!(matches!(asked, Some(Effect::Withdraw(_))));
                self.ticket.withdraw();
                self.machine.on(News::WithdrawWon { had_room: false })
            }
            ErrorKind::CapacityExceeded => self.machine.on(News::Refused(Kind::NoRoom)),
            _ => self.machine.on(News::Refused(Kind::NoTarget)),
        }
    }

    async fn withdraw<A: Actor>(
        &mut self,
        access: &mut Access<'_, A>,
        decision: &mut Wait<Decision>,
    ) -> Option<Effect> {
        if self.ticket.withdraw() {
            return self.machine.on(News::WithdrawWon { had_room: true });
        }
        let nothing = self.machine.on(News::WithdrawLost);
        debug_assert!(nothing.is_none());
        let ended = access.released(decision).await;
        self.on_decision(ended)
    }

    fn on_decision(&mut self, ended: Ended<Decision>) -> Option<Effect> {
        match ended {
            Ended::Done(Decision::Committed) => self.machine.on(News::Committed),
            Ended::Done(Decision::Rejected(reply)) => {
                let has_reply = reply.is_some();
                self.reply = reply;
                self.machine.on(News::Rejected { reply: has_reply })
            }
            Ended::Done(Decision::Refused(kind)) => self.machine.on(News::Refused(kind)),
            Ended::Expired | Ended::Dropped => self.machine.on(News::Refused(Kind::NoTarget)),
        }
    }

    async fn await_joined<A: Actor>(
        &mut self,
        access: &mut Access<'_, A>,
        joined: Wait<Result<(), Kind>>,
    ) -> Option<Effect> {
        let ended = self.await_callback(access, joined).await;
        self.machine.on(News::JoinedEnded(ended.unwrap_or(Err(Kind::CallbackPanicked))))
    }

    async fn ask_leave<A: Actor>(&mut self, access: &mut Access<'_, A>) -> Option<Effect> {
        self.left = true;
        let (told, left) = completion();
        if !tell_leave(&self.source, self.leave(Some(told))) {
            return self.machine.on(News::SourceGone);
        }
        match self.await_callback(access, left).await {
            Some(ended) => self.machine.on(News::LeaveEnded(ended)),
            None => self.machine.on(News::SourceGone),
        }
    }

    /// Waits for a callback after the commit: a passed deadline is remembered and waited over. `None`: the Spot
    /// is gone.
    async fn await_callback<A: Actor>(
        &mut self,
        access: &mut Access<'_, A>,
        mut told: Wait<Result<(), Kind>>,
    ) -> Option<Result<(), Kind>> {
        let due = self.due;
        let in_time = access.released(Box::pin(until(&mut told, due))).await;
        let ended = match in_time {
            Some(ended) => ended,
            None => {
                let nothing = self.machine.on(News::Deadline);
                debug_assert!(nothing.is_none());
                access.released(&mut told).await
            }
        };
        match ended {
            Ended::Done(result) => Some(result),
            Ended::Expired | Ended::Dropped => None,
        }
    }

    fn leave(&self, told: Option<Completer<Result<(), Kind>>>) -> Leave {
        Leave { member: object_of(&self.actor).member(), told, number: self.number }
    }

    /// Whether the membership has changed. Once the request was withdrawn, or is found decided, that is final.
    fn has_moved(&self) -> bool {
        let place = object_of(&self.actor).node.membership.place(self.actor.key());
        place.is_some_and(|place| !Arc::ptr_eq(&place, &self.source))
    }

    /// The machine, with nothing left to take back.
    fn finish(self) -> (Machine, Option<Payload>) {
        let mut this = self;
        this.left = true;
        (this.machine.clone(), this.reply.take())
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        self.ticket.withdraw();
        if !self.left && self.has_moved() {
            tell_leave(&self.source, self.leave(None));
        }
    }
}

/// Tells a Spot that an Actor has left; `false` if the Spot has no such callback.
pub(crate) fn tell_leave(spot: &Arc<Owner>, leave: Leave) -> bool {
    match object_of(spot).hooks.leave {
        Some(record) => spot.try_submit(record(leave)).is_ok(),
        None => false,
    }
}

/// A wait, or `None` when `due` comes first.
async fn until<T: Send + 'static>(wait: &mut Wait<T>, due: u64) -> Option<Ended<T>> {
    let mut late = pin!(sleep_until(due));
    poll_fn(|cx| {
        if let Poll::Ready(ended) = Pin::new(&mut *wait).poll(cx) {
            return Poll::Ready(Some(ended));
        }
        late.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// A move whose outcome is known: what is left is the completion callback, where the Actor is now.
struct Arrival {
    of: Move,
    machine: (Machine, Option<Payload>),
    outcome: Outcome,
    /// Given up where the Actor arrives.
    _announced: Option<Announced>,
}

impl Arrival {
    async fn complete<A: Actor>(self, access: Access<'_, A>) -> Ending {
        let Self { of, machine: (mut machine, reply), outcome, _announced: announced } = self;
        drop(announced);
        let actor = access.owner_arc();
        object_of(&actor).node.tally(match outcome {
            Outcome::Accepted => Tally::JoinsAccepted,
            Outcome::Rejected { .. } => Tally::JoinsRejected,
            Outcome::Failed(_) => Tally::JoinsFailed,
        });
        trace::join_completed(&actor, of.join.number, outcome);
        let told = result_of(outcome, &of.join);
        let request: Option<Arc<dyn Any + Send + Sync>> = of.join.request.clone();
        let completed =
            JoinCompleted { outcome: outcome_of(outcome, reply), target: of.join.target_id(), request };
        let mut turn = Lifecycle::new(access);
        let ended = caught(A::on_join_completed(&mut turn, completed)).await;
        let released = machine.on(News::CompletionEnded);
        debug_assert_eq!(
            released,
            Some(Effect::ReleaseClaim),
            "JOIN-11: the claim is released once, at the end"
        );
        let ending = match ended {
            Ok(Ok(())) => Ending::Done,
            Ok(Err(failure)) => {
                callback_failed(&actor, "on_join_completed", &failure);
                Ending::Done
            }
            Err(panic) => {
                panicked(&actor, "on_join_completed", &panic);
                after_panic(&actor)
            }
        };
        let Move { told: waiting, .. } = of;
        if let Some(waiting) = waiting {
            let _ = waiting.complete(told);
        }
        ending
    }
}

struct ArriveWork<A>(Arrival, PhantomData<fn() -> A>);

impl<A: Actor> Work for ArriveWork<A> {
    fn start(self, start: Start<'_>) -> Started {
        start.run::<A, _>(self.0)
    }

    /// The Actor has ended on its way.
    fn refuse(self, _: &Owner, _: Refusal) {}
}

impl<A: Actor> Job<A> for Arrival {
    async fn run(self, access: Access<'_, A>) -> Ending {
        self.complete(access).await
    }
}

fn outcome_of(outcome: Outcome, reply: Option<Payload>) -> JoinOutcome {
    match outcome {
        Outcome::Accepted => JoinOutcome::Accepted,
        Outcome::Rejected { .. } => JoinOutcome::Rejected(reply),
        Outcome::Failed(kind) => JoinOutcome::Failed(kind_of(kind)),
    }
}

fn kind_of(kind: Kind) -> ErrorKind {
    match kind {
        Kind::NoTarget => ErrorKind::NotFound,
        Kind::NoRoom => ErrorKind::CapacityExceeded,
        Kind::Deadline => ErrorKind::DeadlineExceeded,
        Kind::Policy => ErrorKind::Rejected,
        Kind::CallbackFailed | Kind::CallbackPanicked => ErrorKind::InternalFailure,
        Kind::ShuttingDown => ErrorKind::ShuttingDown,
        Kind::InvalidTarget => ErrorKind::TypeMismatch,
    }
}

/// The outcome as the creator of the Actor is told.
fn result_of(outcome: Outcome, join: &Join) -> Result<(), Error> {
    let (kind, text) = match outcome {
        Outcome::Accepted => return Ok(()),
        Outcome::Rejected { .. } => (ErrorKind::Rejected, "the Spot does not admit it"),
        Outcome::Failed(kind) => (kind_of(kind), "it could not join the Spot"),
    };
    Err(Error::new(kind, &join.target.destination, "create_in", text))
}
