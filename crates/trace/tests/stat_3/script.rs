//! Traces by hand: a node in a few words, each of which may be said wrongly.

use std::collections::HashMap;

use turnkeep_trace::field::{
    How, JoinId, Kind, Lane, ObjectId, Outcome, RecordId, Scope, Stage, TimerId, WaitEnd, Why,
};
use turnkeep_trace::{Checker, Entry, Event, Report};

/// Objects: a Spot that shares its gate, two members of it, a Spot that does not, and an Actor in that.
pub(crate) const SPOT: ObjectId = ObjectId(1);
pub(crate) const ANN: ObjectId = ObjectId(2);
pub(crate) const BOB: ObjectId = ObjectId(3);
pub(crate) const HALL: ObjectId = ObjectId(4);
pub(crate) const LONE: ObjectId = ObjectId(5);

const BYTES: u64 = 300;

#[derive(Default)]
pub(crate) struct Script {
    entries: Vec<Entry>,
    thread: u64,
    grants: HashMap<ObjectId, u64>,
    gates: HashMap<RecordId, ObjectId>,
    objects: HashMap<RecordId, ObjectId>,
    pub(crate) forced: bool,
}

impl Script {
    /// A node with the five objects.
    pub(crate) fn new() -> Self {
        let mut script = Self { thread: 1, ..Self::default() };
        script.say(Event::NodeBegan { workers: 2 });
        script.named(SPOT, Kind::Spot, "jfk", true);
        script.named(HALL, Kind::Spot, "hall", false);
        for (actor, id, spot) in [(ANN, "ann", SPOT), (BOB, "bob", SPOT), (LONE, "lone", HALL)] {
            script.named(actor, Kind::Actor, id, false);
            script.say(Event::Entered { object: actor, from: ObjectId(0), spot });
        }
        script
    }

    fn named(&mut self, object: ObjectId, kind: Kind, id: &str, shares_gate: bool) {
        self.say(Event::Named {
            object,
            kind,
            type_name: "type".into(),
            id: id.into(),
            shares_gate,
            claims: kind == Kind::Actor,
            application_records: 4,
            application_bytes: 4 * BYTES,
            lifecycle_records: 16,
            lifecycle_bytes: 16 * BYTES,
            budget_ns: 10_000_000,
        });
        self.say(Event::Made { object });
    }

    pub(crate) fn say(&mut self, event: Event) {
        let time_ns = 1000 + 10 * self.entries.len() as u64;
        self.entries.push(Entry { time_ns, thread: self.thread, event });
    }

    fn gate_of(object: ObjectId) -> ObjectId {
        if object == ANN || object == BOB { SPOT } else { object }
    }

    pub(crate) fn accept(&mut self, object: ObjectId, lane: Lane, record: u64) {
        self.accept_with(object, lane, record, BYTES, false);
    }

    pub(crate) fn accept_with(
        &mut self,
        object: ObjectId,
        lane: Lane,
        record: u64,
        reserved: u64,
        from_line: bool,
    ) {
        let record = RecordId(record);
        self.objects.insert(record, object);
        self.say(Event::Accepted { object, lane, record, reserved, by: RecordId(0), from_line });
    }

    pub(crate) fn append(&mut self, record: u64) {
        let record = RecordId(record);
        self.say(Event::Appended { object: self.objects[&record], record });
    }

    /// A message on its way into its lane.
    pub(crate) fn send(&mut self, object: ObjectId, record: u64) {
        self.accept(object, Lane::Application, record);
        self.append(record);
    }

    pub(crate) fn lifecycle(&mut self, object: ObjectId, record: u64) {
        self.accept(object, Lane::Lifecycle, record);
        self.append(record);
    }

    pub(crate) fn place(&mut self, member: ObjectId) {
        self.say(Event::MemberPlaced { gate: SPOT, object: member });
    }

    pub(crate) fn begin(&mut self, object: ObjectId, record: u64) {
        self.begin_under(Self::gate_of(object), object, record);
    }

    pub(crate) fn begin_under(&mut self, gate: ObjectId, object: ObjectId, record: u64) {
        let grant = self.next_grant(gate);
        let record = RecordId(record);
        self.gates.insert(record, gate);
        self.say(Event::Begun { gate, grant, object, record, lane: Lane::Application });
    }

    fn next_grant(&mut self, gate: ObjectId) -> u64 {
        let grant = self.grants.entry(gate).or_default();
        *grant += 1;
        *grant
    }

    pub(crate) fn set_grant(&mut self, gate: ObjectId, grant: u64) {
        self.grants.insert(gate, grant);
    }

    fn stopped(&mut self, record: u64, how: How) {
        let record = RecordId(record);
        let gate = self.gates[&record];
        self.say(Event::Stopped { gate, grant: self.grants[&gate], record, how });
    }

    pub(crate) fn give_back(&mut self, record: u64) {
        self.give_back_bytes(record, BYTES);
    }

    pub(crate) fn give_back_bytes(&mut self, record: u64, bytes: u64) {
        let record = RecordId(record);
        self.say(Event::GivenBack { object: self.objects[&record], record, bytes });
    }

    pub(crate) fn end(&mut self, record: u64) {
        self.give_back(record);
        self.stopped(record, How::Ended);
    }

    pub(crate) fn end_unreturned(&mut self, record: u64) {
        self.stopped(record, How::Ended);
    }

    /// A message from its sending to its end.
    pub(crate) fn run(&mut self, object: ObjectId, record: u64) {
        self.send(object, record);
        self.turn(object, record);
    }

    /// The whole turn of a record that is appended.
    pub(crate) fn turn(&mut self, object: ObjectId, record: u64) {
        if object == ANN || object == BOB {
            self.place(object);
        }
        self.begin(object, record);
        self.end(record);
    }

    pub(crate) fn keep(&mut self, record: u64) {
        self.stopped(record, How::Kept);
    }

    pub(crate) fn go_on(&mut self, record: u64) {
        let record = RecordId(record);
        let gate = self.gates[&record];
        self.say(Event::WentOn { gate, grant: self.grants[&gate], record });
    }

    pub(crate) fn yields(&mut self, record: u64) {
        self.stopped(record, How::Yielded);
    }

    pub(crate) fn wake(&mut self, record: u64) {
        let record = RecordId(record);
        self.say(Event::ResumeQueued { gate: self.gates[&record], record });
    }

    pub(crate) fn place_resume(&mut self, record: u64) {
        let record = RecordId(record);
        self.say(Event::ResumePlaced { gate: self.gates[&record], record });
    }

    pub(crate) fn resume(&mut self, record: u64) {
        let record = RecordId(record);
        let gate = self.gates[&record];
        let grant = self.next_grant(gate);
        self.say(Event::Resumed { gate, grant, object: self.objects[&record], record });
    }

    pub(crate) fn stage(&mut self, object: ObjectId, record: u64, stage: Stage) {
        self.objects.insert(RecordId(record), object);
        self.say(Event::Staged { object, record: RecordId(record), stage });
    }

    /// The last record of an object and its end.
    pub(crate) fn close(&mut self, object: ObjectId, record: u64) {
        self.say(Event::Sealed { object });
        self.stage(object, record, Stage::Last);
        self.begin(object, record);
        self.stopped(record, How::Ended);
        self.ended(object);
    }

    pub(crate) fn ended(&mut self, object: ObjectId) {
        self.say(Event::Ended { object, why: Why::Ended });
    }

    pub(crate) fn wait(&mut self, record: u64, request: u64, target: ObjectId, yields: bool) {
        let object = self.objects[&RecordId(record)];
        self.say(Event::WaitBegan {
            record: RecordId(record),
            object,
            gate: Self::gate_of(object),
            request: RecordId(request),
            target,
            target_gate: Self::gate_of(target),
            yields,
        });
    }

    pub(crate) fn wait_ended(&mut self, request: u64) {
        self.say(Event::WaitEnded { request: RecordId(request), end: WaitEnd::Answered });
    }

    /// A handler of LONE registers Joins of LONE, and its scope ends.
    pub(crate) fn register(&mut self, by: u64, joins: &[u64], scope: Option<Scope>) {
        for join in joins {
            self.say(Event::JoinRegistered { join: JoinId(*join), object: LONE, by: RecordId(by) });
        }
        if let Some(scope) = scope {
            self.say(Event::ScopeEnded { record: RecordId(by), scope });
        }
    }

    pub(crate) fn hold(&mut self, join: u64) {
        self.say(Event::HoldTaken { object: LONE, join: JoinId(join), gate: LONE });
    }

    pub(crate) fn release(&mut self, join: u64) {
        self.say(Event::HoldReleased { object: LONE, join: JoinId(join) });
    }

    pub(crate) fn join_began(&mut self, join: u64) {
        self.say(Event::JoinBegan { join: JoinId(join), object: LONE });
    }

    pub(crate) fn join_asked(&mut self, join: u64, target: ObjectId) {
        self.say(Event::JoinAsked { join: JoinId(join), target });
    }

    pub(crate) fn committed(&mut self, join: u64, from: ObjectId, spot: ObjectId) {
        self.say(Event::Entered { object: LONE, from, spot });
        self.say(Event::JoinCommitted { join: JoinId(join), object: LONE, spot });
    }

    pub(crate) fn joined(&mut self, join: u64) {
        self.say(Event::JoinedCalled { join: JoinId(join) });
    }

    pub(crate) fn left(&mut self, join: u64) {
        self.say(Event::LeaveCalled { join: JoinId(join) });
    }

    pub(crate) fn completed(&mut self, join: u64, outcome: Outcome) {
        self.say(Event::JoinCompleted { join: JoinId(join), outcome });
    }

    pub(crate) fn tick(&mut self, record: u64, delivery: u64, scheduled: u64, skipped: u64) {
        let (timer, record) = (TimerId(1), RecordId(record));
        self.say(Event::TickBegan { timer, record, delivery, scheduled, skipped });
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What the checker says of it, once the node has ended.
    pub(crate) fn check(mut self) -> Report {
        self.say(Event::NodeEnded { forced: self.forced });
        let mut checker = Checker::new();
        self.entries.into_iter().for_each(|entry| checker.on(entry));
        checker.finish(true)
    }
}
