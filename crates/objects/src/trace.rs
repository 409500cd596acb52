//! What the object layer tells the recorder: one line a hook, one branch when nobody records.

use std::path::PathBuf;
use std::sync::Arc;

use turnkeep_machines::join::Outcome as Decided;
use turnkeep_machines::timer::{self, Schedule};
use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::Record;
use turnkeep_scheduler::ticks;
use turnkeep_scheduler::trace::{id, number, running_record, told};
use turnkeep_trace::field::{JoinId, Kind, Late, ObjectId, Outcome, RecordId, Scope, Text, TimerId, WaitEnd};
use turnkeep_trace::{Event, Recorder};

use crate::error::{Error, ErrorKind};
use crate::id::{Id, ObjectKind};
use crate::object::object_of;

/// Where a node is to record what it does.
pub(crate) enum Sink {
    /// A file of the node's own: it ends with the node.
    File(PathBuf),
    /// A recorder that the program ends.
    Given(Arc<Recorder>),
}

/// A node's recorder.
#[derive(Clone)]
pub(crate) struct Traced {
    pub(crate) recorder: Arc<Recorder>,
    /// Whether the trace ends with the node.
    pub(crate) own: bool,
}

impl Sink {
    pub(crate) fn open(self) -> Result<Traced, Error> {
        match self {
            Self::File(path) => {
                let recorder = Recorder::create(path, ticks::ordered);
                let recorder =
                    recorder.map_err(|error| refused(ErrorKind::Unavailable, &error.to_string()))?;
                Ok(Traced { recorder: Arc::new(recorder), own: true })
            }
            Self::Given(recorder) if recorder.take_for_node() => Ok(Traced { recorder, own: false }),
            Self::Given(_) => {
                let text = "the recorder has recorded a node already; give each node one of its own";
                Err(refused(ErrorKind::InvalidOperation, text))
            }
        }
    }
}

fn refused(kind: ErrorKind, text: &str) -> Error {
    Error::new(kind, "trace", "start", text)
}

/// A recorder into a new file, with the node's clock.
///
/// # Errors
///
/// If the file cannot be made.
pub fn recorder(path: impl AsRef<std::path::Path>) -> Result<Arc<Recorder>, turnkeep_trace::TraceError> {
    Recorder::create(path, ticks::ordered).map(Arc::new)
}

pub(crate) fn named(owner: &Owner) {
    told(owner, |recorder| {
        let (object, class) = (object_of(owner), owner.class());
        let [application, lifecycle] = class.limits;
        recorder.record(&Event::Named {
            object: id(owner),
            kind: kind(object.kind),
            type_name: Text::from(object.info.name.as_str()),
            id: Text::from(object.id.as_str()),
            shares_gate: class.shares_gate,
            claims: class.claims,
            application_records: application.records().into(),
            application_bytes: application.bytes(),
            lifecycle_records: lifecycle.records().into(),
            lifecycle_bytes: lifecycle.bytes(),
            budget_ns: class.budget_ns,
        });
    });
}

fn kind(kind: ObjectKind) -> Kind {
    match kind {
        ObjectKind::Spot => Kind::Spot,
        ObjectKind::Actor => Kind::Actor,
        ObjectKind::NodeHandler => Kind::NodeHandler,
        ObjectKind::ChannelHandler => Kind::ChannelHandler,
        ObjectKind::Timer => Kind::Timer,
        ObjectKind::Task => Kind::Other,
    }
}

pub(crate) fn made(owner: &Owner) {
    told(owner, |recorder| recorder.record(&Event::Made { object: id(owner) }));
}

/// User code of the running turn panicked.
pub(crate) fn panicked(owner: &Owner) {
    told(owner, |recorder| {
        recorder.record(&Event::Panicked { object: id(owner), record: running_record() });
    });
}

/// Nobody waited for the answer of the running turn.
pub(crate) fn answered_late(owner: &Owner) {
    told(owner, |recorder| recorder.record(&Event::Answered { request: running_record(), late: true }));
}

pub(crate) fn entered(actor: &Owner, from: Option<&Owner>, spot: &Owner) {
    told(actor, |recorder| {
        let from = from.map_or(ObjectId(0), id);
        recorder.record(&Event::Entered { object: id(actor), from, spot: id(spot) });
    });
}

pub(crate) fn left(actor: &Owner, spot: &Owner) {
    told(actor, |recorder| recorder.record(&Event::Left { object: id(actor), spot: id(spot) }));
}

/// Gives a Join its number, if somebody records what happens to its Actor.
pub(crate) fn join_registered(actor: &Owner, by: RecordId) -> JoinId {
    let mut join = JoinId(0);
    told(actor, |recorder| {
        join = recorder.next_join();
        recorder.record(&Event::JoinRegistered { join, object: id(actor), by });
    });
    join
}

pub(crate) fn scope_ended(owner: &Owner, scope: Scope) {
    told(owner, |recorder| recorder.record(&Event::ScopeEnded { record: running_record(), scope }));
}

pub(crate) fn hold_taken(actor: &Owner, join: JoinId) {
    told(actor, |recorder| {
        let gate = with_turn(|turn| turn.map_or(ObjectId(0), |turn| id(turn.gate())));
        recorder.record(&Event::HoldTaken { object: id(actor), join, gate });
    });
}

pub(crate) fn hold_released(actor: &Owner, join: JoinId) {
    told(actor, |recorder| recorder.record(&Event::HoldReleased { object: id(actor), join }));
}

pub(crate) fn join_began(actor: &Owner, join: JoinId) {
    told(actor, |recorder| recorder.record(&Event::JoinBegan { join, object: id(actor) }));
}

pub(crate) fn join_asked(actor: &Owner, join: JoinId, target: &Owner) {
    told(actor, |recorder| recorder.record(&Event::JoinAsked { join, target: id(target) }));
}

pub(crate) fn join_committed(actor: &Owner, join: JoinId, spot: &Owner) {
    told(actor, |recorder| {
        recorder.record(&Event::JoinCommitted { join, object: id(actor), spot: id(spot) });
    });
}

pub(crate) fn joined_called(spot: &Owner, join: JoinId) {
    told(spot, |recorder| recorder.record(&Event::JoinedCalled { join }));
}

/// `join` 0: the Actor has ended, which is no Join.
pub(crate) fn leave_called(spot: &Owner, join: JoinId) {
    if !join.is_none() {
        told(spot, |recorder| recorder.record(&Event::LeaveCalled { join }));
    }
}

pub(crate) fn join_completed(actor: &Owner, join: JoinId, outcome: Decided) {
    told(actor, |recorder| {
        let outcome = match outcome {
            Decided::Accepted => Outcome::Accepted,
            Decided::Rejected { .. } => Outcome::Rejected,
            Decided::Failed(_) => Outcome::Failed,
        };
        recorder.record(&Event::JoinCompleted { join, outcome });
    });
}

/// Gives a timer its number, if somebody records what happens to its object.
pub(crate) fn timer_registered(of: &Owner, name: &Id, schedule: &Schedule) -> TimerId {
    let mut timer = TimerId(0);
    told(of, |recorder| {
        timer = recorder.next_timer();
        recorder.record(&Event::TimerRegistered {
            timer,
            object: id(of),
            name: Text::from(name.as_str()),
            first_ns: schedule.first_ns,
            period_ns: schedule.period_ns.unwrap_or(0),
            late: match schedule.late {
                timer::Late::Skip => Late::Skip,
                timer::Late::CatchUp(_) => Late::CatchUp,
                timer::Late::Delay => Late::Delay,
            },
        });
    });
    timer
}

pub(crate) fn timer_replaced(of: &Owner, timer: TimerId, by: TimerId) {
    told(of, |recorder| recorder.record(&Event::TimerReplaced { timer, by }));
}

/// The record of a tick is about to be queued.
pub(crate) fn tick_queued(owner: &Owner, timer: TimerId, record: &mut Record) {
    told(owner, |recorder| {
        number(owner, record);
        recorder.record(&Event::TickQueued { timer, record: RecordId(record.number()) });
    });
}

/// The running turn is that tick's.
pub(crate) fn tick_began(of: &Owner, timer: TimerId, tick: &timer::Tick) {
    told(of, |recorder| {
        let timer::Tick { delivery, scheduled, skipped, .. } = *tick;
        let record = running_record();
        recorder.record(&Event::TickBegan { timer, record, delivery, scheduled, skipped });
    });
}

pub(crate) fn timer_cancelled(of: &Owner, timer: TimerId) {
    told(of, |recorder| recorder.record(&Event::TimerCancelled { timer }));
}

/// A wait of a turn for an answer. Dropped, it ends.
pub(crate) struct Told {
    target: Option<Arc<Owner>>,
    request: RecordId,
}

impl Told {
    /// The running turn is about to ask `target`.
    pub(crate) fn begin(target: &Arc<Owner>, request: &mut Record, manner: Manner) -> Self {
        let mut waiting = Self { target: None, request: RecordId(0) };
        if target.class().recorder.is_some() {
            number(target, request);
            waiting.request = RecordId(request.number());
            waiting.go_on_here(target, manner);
        }
        waiting
    }

    /// The running turn waits from now on.
    pub(crate) fn go_on_here(&mut self, target: &Arc<Owner>, manner: Manner) {
        told(target, |recorder| {
            with_turn(|turn| {
                // A task of the program's own has no number.
                let Some(turn) = turn.filter(|turn| turn.record() != 0) else { return };
                recorder.record(&Event::WaitBegan {
                    record: RecordId(turn.record()),
                    object: id(turn.owner()),
                    gate: id(turn.gate()),
                    request: self.request,
                    target: id(target),
                    target_gate: gate_of(target),
                    yields: manner == Manner::Yield,
                });
                self.target = Some(target.clone());
            });
        });
    }

    /// It has ended like this.
    pub(crate) fn end(&mut self, end: WaitEnd) {
        if let Some(target) = self.target.take() {
            let request = self.request;
            told(&target, |recorder| recorder.record(&Event::WaitEnded { request, end }));
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.end(WaitEnd::Dropped);
    }
}

/// The gate that an object is under, as the memberships have it.
fn gate_of(owner: &Arc<Owner>) -> ObjectId {
    if owner.gate_key() == owner.key() {
        return id(owner);
    }
    let place = object_of(owner).node.membership.place(owner.key());
    place.filter(|place| place.key() == owner.gate_key()).map_or(ObjectId(0), |place| id(&place))
}
