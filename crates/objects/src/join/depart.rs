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
use turnkeep_scheduler::numbers::fresh;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};
use turnkeep_scheduler::ticks;
use turnkeep_scheduler::waits::{self, Answered, Cycle, Waiting};
use turnkeep_trace::field::JoinId;

use super::admit::{Admit, Decision, Leave, Ticket, callback_failed};
use super::{Join, Row, Told};
use crate::actor::{Actor, JoinCompleted, JoinOutcome};
use crate::call::would_close;
use crate::caught::caught;
use crate::create::submit_lifecycle;
use crate::destination::Resolved;
use crate::envelope::{after_panic, panicked};
use crate::error::{Error, ErrorKind};
use crate::lifecycle::Lifecycle;
use crate::node::{NodeInner, Tally};
use crate::object::{Departing, object_of};
use crate::report::{Often, brief, report_often};
use crate::spot::{Joining, Payload};
use crate::trace;

/// A Join whose turn has come.
pub(crate) struct Move {
    join: Join,
    told: Told,
    /// Held until the Actor is where it goes, or will not come.
    announced: Announced,
    /// Given up with the claim, at the end.
    _hold: Hold,
    /// Starts when this move is over. After the hold: the next Join of the same Actor has a hold of its own.
    _rest: Row,
}

/// Says which Spots' turns a Join still needs before the Actor can go on, for the rules of waiting (REENT-5).
pub(super) struct Announced {
    actor: Arc<Owner>,
    join: u64,
    /// The Spots that were announced first.
    spots: Vec<Arc<Owner>>,
    /// Whether the Join cannot be: it would have waited for itself.
    is_refused: bool,
}

impl Announced {
    /// A Join that is registered for good needs its target and the Spot that the Actor leaves.
    /// The target, if it is known yet.
    pub(super) fn new(join: &Join, target: Option<Arc<Owner>>) -> Self {
        let (actor, number) = (join.actor.clone(), fresh());
        let source = object_of(&actor).node.membership.place(actor.key());
        // A Join to where the Actor is needs nobody's turn.
        let stays = target.as_ref().zip(source.as_ref()).is_some_and(|(one, other)| Arc::ptr_eq(one, other));
        let spots: Vec<_> = target.into_iter().chain(source).filter(|_| !stays).collect();
        let is_refused = match waits::announce_join(&actor, number, &spots) {
            Ok(()) => false,
            Err(cycle) => {
                refused(&actor, &cycle);
                true
            }
        };
        Self { actor, join: number, spots, is_refused }
    }

    fn now(&self, spots: impl IntoIterator<Item = Arc<Owner>>) {
        self.actor.announce_join(self.join, spots.into_iter().collect());
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.now(None);
    }
}

/// Reports a Join that would have waited for itself.
fn refused(actor: &Owner, cycle: &Cycle) {
    let object = object_of(actor);
    report_often(&object.node, Often::RefusedJoin, |left_out| {
        let error = &*brief(would_close(cycle, "join"));
        tracing::warn!(%object, error, left_out, "a Join was refused");
    });
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
    pub(super) fn new(join: Join, told: Told, announced: Announced, rest: Row) -> Self {
        let hold = Hold(join.actor.clone(), join.number);
        Self { join, told, announced, _hold: hold, _rest: rest }
    }
}

/// The record that begins a move of an Actor of type `A`.
pub(super) fn record<A: Actor>(of: Move) -> Record {
    Record::unmetered(DepartWork::<A>(of, PhantomData))
}

struct DepartWork<A>(Move, PhantomData<fn() -> A>);

impl<A: Actor> Work for DepartWork<A> {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<A, _>(this.0)
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
        let Some(source) = node.membership.place(actor.key()) else { return Ending::done() };
        trace::join_began(&actor, self.join.number);
        let target = self.target(node);
        let mut departure = Departure::new(&self.join, actor.clone(), source, target);
        let outcome = departure.run(&mut access, &self).await;
        let arrival = Arrival { of: self, machine: departure.finish(), outcome };
        let host = node.membership.place(actor.key()).filter(|place| object_of(place).shares_gate);
        let gate = host.as_ref().map_or(actor.key(), |host| host.key());
        if gate == actor.gate_key() {
            return arrival.complete(access).await;
        }
        Ending::arrive(host, Record::unmetered(ArriveWork::<A>(arrival, PhantomData)))
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
    /// The turns it needs of the target, until it has had them.
    of_target: Option<Waiting>,
    /// The turn it needs of the source.
    of_source: Option<Waiting>,
    /// Said by the source when it has had its turn.
    left_heard: Answered,
    /// Whether the source has been told that the Actor has left, or need not be.
    left: bool,
    /// Until the source has been told, or need not be.
    departing: Option<Departing>,
    reply: Option<Payload>,
}

impl Departure {
    fn new(join: &Join, actor: Arc<Owner>, source: Arc<Owner>, target: Result<Arc<Owner>, Kind>) -> Self {
        let place = |owner: &Arc<Owner>| Place(owner.key().0 as u64);
        let to = target.as_ref().map_or(Place(0), place);
        Self {
            machine: Machine::new(place(&source), to),
            departing: Some(Departing::of(source.clone())),
            actor,
            source,
            target,
            due: ticks::after_duration(join.timeout),
            number: join.number,
            ticket: Ticket::new(),
            of_target: None,
            of_source: None,
            left_heard: Answered::default(),
            left: false,
            reply: None,
        }
    }

    /// Carries out effects until the machine asks for the completion callback.
    async fn run<A: Actor>(&mut self, access: &mut Access<'_, A>, of: &Move) -> Outcome {
        let mut effect = self.machine.on(News::Started);
        loop {
            effect = match effect {
                Some(Effect::AskAdmission(_)) => self.ask_admission(access, of).await,
                Some(Effect::AskLeave(_)) => self.ask_leave(access).await,
                Some(Effect::Complete(_, outcome)) => return outcome,
                other => unreachable!("JOIN-6: {other:?} in {:?}", self.machine.state()),
            };
        }
    }

    async fn ask_admission<A: Actor>(&mut self, access: &mut Access<'_, A>, of: &Move) -> Option<Effect> {
        let join = &of.join;
        let spot = match &self.target {
            Ok(spot) => spot.clone(),
            Err(kind) => return self.machine.on(News::Refused(*kind)),
        };
        if of.announced.is_refused {
            return self.machine.on(News::Refused(Kind::WaitCycle));
        }
        let (call, heard) = (fresh(), Answered::default());
        if let Err(cycle) = self.begin_waiting(&spot, call, &heard, &of.announced) {
            refused(&self.actor, &cycle);
            return self.machine.on(News::Refused(Kind::WaitCycle));
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
            call,
            heard,
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

    /// Notes which turns the Join needs. Those that were announced are not looked at again; the others may close a
    /// cycle: of a target that was not there then, or a source that an earlier Join has changed.
    fn begin_waiting(
        &mut self,
        spot: &Arc<Owner>,
        call: u64,
        heard: &Answered,
        announced: &Announced,
    ) -> Result<(), Cycle> {
        let begin = |spot: &Arc<Owner>, call, heard: &Answered| {
            if announced.spots.iter().any(|other| Arc::ptr_eq(other, spot)) {
                return Ok(waits::note_told(spot, call, false, heard));
            }
            waits::begin_told(spot, call, false, heard)
        };
        let of_target = begin(spot, call, heard)?;
        self.of_source = Some(begin(&self.source, fresh(), &self.left_heard)?);
        self.of_target = Some(of_target);
        // What is left to say is that it will come under the target's gate.
        announced.now(Some(spot.clone()).filter(|spot| object_of(spot).shares_gate));
        Ok(())
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
        self.of_target = None;
        self.machine.on(News::JoinedEnded(ended.unwrap_or(Err(Kind::CallbackPanicked))))
    }

    async fn ask_leave<A: Actor>(&mut self, access: &mut Access<'_, A>) -> Option<Effect> {
        self.left = true;
        let (told, left) = completion();
        let told = Some((told, self.left_heard.clone()));
        if !self.tell_leave(told) {
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

    fn tell_leave(&mut self, told: Option<(Completer<Result<(), Kind>>, Answered)>) -> bool {
        let member = object_of(&self.actor).member();
        tell_leave(
            &self.source,
            Leave { member, told, number: self.number, departing: self.departing.take() },
        )
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
            self.tell_leave(None);
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
}

impl Arrival {
    async fn complete<A: Actor>(self, access: Access<'_, A>) -> Ending {
        let Self { of, machine: (mut machine, reply), outcome } = self;
        of.announced.now(None);
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
            Ok(Ok(())) => Ending::done(),
            Ok(Err(failure)) => {
                callback_failed(&actor, "on_join_completed", &failure);
                Ending::done()
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
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<A, _>(this.0)
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
        Kind::WaitCycle => ErrorKind::InvalidOperation,
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
