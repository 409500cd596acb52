//! Turns: one at a time under a gate, in the order of its queue, with claims and yields.

use super::world::{Live, Place, Stand};
use super::{Checker, Seen};
use crate::event::Event;
use crate::field::{How, Kind, Lane, ObjectId, RecordId, Stage};

/// Lifecycle turns in a row that put an object in debt.
const STREAK_MAX: u8 = 8;

impl Checker {
    pub(super) fn on_turn(&mut self, event: Event) {
        match event {
            Event::Begun { gate, grant, object, record, .. } => self.on_begun(gate, grant, object, record),
            Event::Resumed { gate, grant, object, record } => self.on_resumed(gate, grant, object, record),
            Event::WentOn { gate, grant, record } => self.on_went_on(gate, grant, record),
            Event::Stopped { gate, grant, record, how } => self.on_stopped(gate, grant, record, how),
            Event::ResumeQueued { record, .. } => self.on_resume_queued(record),
            Event::ResumePlaced { gate, record } => self.push_place(gate, Place::Resume(record)),
            Event::ResumeGone { gate, record } => {
                self.take_place(gate, Place::Resume(record), "YIELD-6");
                self.world.forget_if_over(gate);
            }
            Event::MemberPlaced { gate, object } => self.on_member_placed(gate, object),
            Event::MemberPassed { gate, object } => {
                self.take_place(gate, Place::Member(object), "LANE-12");
                self.world.forget_if_over(gate);
            }
            Event::Cancelled { object, record } => self.on_cancelled(object, record),
            Event::ClaimTaken { object, .. } => {
                if let Some(object) = self.world.objects.get_mut(&object) {
                    object.claim = self.now.clone();
                }
            }
            Event::ClaimReleased { object } => self.on_claim_released(object),
            Event::Moved { object, .. } => {
                if let Some(object) = self.world.objects.get_mut(&object) {
                    (object.streak, object.debt) = (0, false);
                }
            }
            _ => {}
        }
    }

    /// A grant: nobody else has the gate, and the number is new.
    fn grant(&mut self, gate: ObjectId, grant: u64, object: ObjectId, record: RecordId) {
        self.report.turns += 1;
        let Some(now) = self.now.clone() else { return };
        let elsewhere = self.world.objects.get(&object).and_then(|object| object.in_turn.clone());
        let live = Live { begun: now.clone(), object, record, grant, kept: None };
        let (before, last) = match self.world.objects.get_mut(&gate) {
            Some(gate) => {
                let last = gate.grant;
                gate.grant = last.max(grant);
                (gate.live.replace(live), last)
            }
            None => (None, 0),
        };
        let name = self.world.name(gate);
        match &before {
            Some(Live { begun, record: other, kept: Some(kept), .. }) => {
                let text =
                    format!("record {record} begins under the gate of {name}, which record {other} keeps");
                self.broken("GATE-7", text, [Some(begun), Some(kept)]);
            }
            Some(Live { begun, record: other, .. }) => {
                let text =
                    format!("record {record} begins under the gate of {name} while record {other} runs");
                self.broken("GATE-1", text, [Some(begun)]);
            }
            None if elsewhere.is_some() => {
                let text = format!("{} runs in two turns at once", self.world.name(object));
                self.broken("GATE-1", text, [elsewhere.as_ref()]);
            }
            None => {}
        }
        if grant <= last {
            let text = format!("grant {grant} of the gate of {name} comes after grant {last}");
            self.broken("GATE-9", text, []);
        }
        if let Some(object) = self.world.objects.get_mut(&object) {
            object.in_turn = Some(now);
        }
    }

    fn on_begun(&mut self, gate: ObjectId, grant: u64, id: ObjectId, record: RecordId) {
        self.grant(gate, grant, id, record);
        let Some(found) = self.world.records.get(&record) else {
            let text = format_args!("record {record} begins and was never accepted");
            return self.broken("LANE-11", text, []);
        };
        let (lane, last, during_move) = (found.lane, found.last.clone(), found.during_move);
        if found.given_back.is_some() {
            self.broken("LANE-3", format_args!("the reservation of record {record} went back before"), []);
        }
        self.check_object(id, record);
        let staged = self.world.objects.get(&id).map_or([None; 2], |object| object.staged);
        match staged {
            [Some(arrival), _] if arrival == record => self.begin_staged(id, Stage::Arrival),
            [_, Some(last)] if last == record => self.begin_staged(id, Stage::Last),
            _ => self.begin_queued(id, record, lane, &last),
        }
        if gate != id {
            self.take_place(gate, Place::Member(id), "LANE-12");
        }
        if lane == Lane::Application {
            self.check_hold(id, record, during_move, &last);
            self.check_gate(gate, id, record);
        }
        self.count_turn(id, lane);
        self.set_stand(record, Stand::Running);
    }

    /// Whether the object may begin anything at all.
    fn check_object(&mut self, id: ObjectId, record: RecordId) {
        let name = self.world.name(id);
        let Some(object) = self.world.objects.get_mut(&id) else {
            let text = format!("record {record} of {name} begins, which is gone");
            return self.broken("LANE-7", text, []);
        };
        let (ended, owed) = (object.ended.clone(), object.owed_completion.take());
        let claiming = object.yielded.first().copied().filter(|_| object.claims);
        if ended.is_some() {
            self.broken(
                "LANE-7",
                format!("record {record} of {name} begins after its end"),
                [ended.as_ref()],
            );
        }
        if let Some(other) = claiming {
            let before = self.seen_first(Some(other));
            let text = format!("record {record} of {name} begins while its record {other} has yielded");
            self.broken("YIELD-5", text, [before.as_ref()]);
        }
        if owed.is_some() {
            let text = format!("a Join of {name} is over without its completion callback");
            self.broken("JOIN-4", text, [owed.as_ref()]);
        }
    }

    fn begin_staged(&mut self, id: ObjectId, stage: Stage) {
        let now = self.now.clone();
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        object.staged[stage as usize] = None;
        if stage != Stage::Last {
            return;
        }
        object.last_begun = now;
        let left: u64 = object.lanes.iter().map(|lane| lane.records.max(lane.queue.len() as u64)).sum();
        if left > 0 {
            let text = format!("the last record of {} begins and {left} are not over", self.world.name(id));
            self.broken("LANE-7", text, []);
        }
    }

    fn begin_queued(&mut self, id: ObjectId, record: RecordId, lane: Lane, last: &Seen) {
        self.check_lanes(id, record, lane);
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let queue = &mut object.lane(lane).queue;
        let first = queue.front().copied();
        if first == Some(record) {
            queue.pop_front();
        } else if let Some(at) = queue.iter().position(|other| *other == record) {
            queue.remove(at);
            if let Some(at) = object.places.iter().position(|place| *place == Place::Own(record)) {
                object.places.remove(at);
            }
            let before = self.seen_first(first);
            let text = format!("record {record} begins before record {}", first.unwrap_or_default());
            return self.broken("GATE-8", text, [before.as_ref(), Some(last)]);
        } else {
            let text = format_args!("record {record} begins and stands in no lane");
            self.take_out(id, record);
            return self.broken("LANE-11", text, [Some(last)]);
        }
        if lane == Lane::Application {
            self.take_place(id, Place::Own(record), "LANE-11");
        }
    }

    /// Priority and debt, before the record leaves its lane.
    fn check_lanes(&mut self, id: ObjectId, record: RecordId, lane: Lane) {
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        if std::mem::take(&mut object.hold_changed) {
            // The holder may have looked before the change.
            return;
        }
        let application = !object.lanes[0].queue.is_empty() && object.holds == 0;
        let lifecycle = !object.lanes[1].queue.is_empty();
        let debt = object.debt;
        match lane {
            Lane::Lifecycle if application && debt => {
                let waiting = object.lanes[0].queue.front().copied();
                let before = self.seen_first(waiting);
                let text = format!("lifecycle record {record} begins though a turn is owed to the messages");
                self.broken("LANE-9", text, [before.as_ref()]);
            }
            Lane::Application if lifecycle && !debt => {
                let waiting = object.lanes[1].queue.front().copied();
                let before = self.seen_first(waiting);
                let text = format!("application record {record} begins before the lifecycle records");
                self.broken("LANE-8", text, [before.as_ref()]);
            }
            _ => {}
        }
    }

    fn count_turn(&mut self, id: ObjectId, lane: Lane) {
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        match lane {
            Lane::Application => (object.streak, object.debt) = (0, false),
            Lane::Lifecycle => {
                object.streak = (object.streak + 1).min(STREAK_MAX);
                object.debt |= object.streak == STREAK_MAX;
            }
        }
    }

    fn check_hold(&mut self, id: ObjectId, record: RecordId, during_move: bool, last: &Seen) {
        let held = self.world.objects.get(&id).is_some_and(|object| object.holds > 0 && object.hold_seen);
        if held {
            let clause = if during_move { "JOIN-7" } else { "JOIN-11" };
            let text = format!("record {record} of {} begins while it is being moved", self.world.name(id));
            self.broken(clause, text, [Some(last)]);
        }
    }

    /// Whether a message starts under the gate of the place where its object is.
    fn check_gate(&mut self, gate: ObjectId, id: ObjectId, record: RecordId) {
        let Some(object) = self.world.objects.get(&id) else { return };
        let (want, clause) = match self.world.objects.get(&object.spot) {
            _ if object.kind != Kind::Actor => (id, "GATE-3"),
            Some(spot) if spot.shares_gate => (object.spot, "GATE-3"),
            Some(_) => (id, "GATE-5"),
            None => return,
        };
        if gate != want {
            let [name, is, should] = [id, gate, want].map(|id| self.world.name(id));
            let text = format!("record {record} of {name} begins under the gate of {is}, not of {should}");
            self.broken(clause, text, []);
        }
    }

    fn on_resumed(&mut self, gate: ObjectId, grant: u64, id: ObjectId, record: RecordId) {
        self.grant(gate, grant, id, record);
        let found = self.world.records.get(&record).map(|found| (found.stand, found.last.clone()));
        match &found {
            Some((Stand::ResumeQueued, _)) => {}
            Some((Stand::Yielded, last)) => {
                let text = format_args!("record {record} is resumed and its resume was never queued");
                self.broken("YIELD-6", text, [Some(last)]);
            }
            Some((_, last)) => {
                self.broken(
                    "YIELD-8",
                    format_args!("record {record} is resumed and has not yielded"),
                    [Some(last)],
                );
            }
            None => self.broken("YIELD-9", format_args!("record {record} is resumed and is over"), []),
        }
        let object = self.world.objects.get_mut(&id);
        let ended = object.and_then(|object| {
            object.yielded.retain(|other| *other != record);
            object.hold_changed = false;
            object.ended.clone()
        });
        if ended.is_some() && found.is_some() {
            let text = format!("record {record} of {} is resumed after its end", self.world.name(id));
            self.broken("YIELD-9", text, [ended.as_ref()]);
        }
        if self.world.objects.get(&gate).is_some_and(|gate| !gate.claims) {
            self.take_place(gate, Place::Resume(record), "YIELD-6");
        }
        self.world.leave_guests(record);
        self.check_early_return(record);
        self.count_turn(id, Lane::Application);
        self.set_stand(record, Stand::Running);
    }

    fn check_early_return(&mut self, id: RecordId) {
        let Some(record) = self.world.records.get(&id).filter(|record| record.returned_early) else { return };
        let before = record.given_back.clone();
        let text = format_args!("the reservation of record {id} went back while it waited");
        self.broken("LANE-3", text, [before.as_ref()]);
    }

    fn on_went_on(&mut self, gate: ObjectId, grant: u64, record: RecordId) {
        let Some(found) = self.world.objects.get_mut(&gate) else { return };
        match &mut found.live {
            Some(live) if live.record == record && live.grant == grant => live.kept = None,
            Some(live) if live.record == record => {
                let (begun, has) = (live.begun.clone(), live.grant);
                let text = format!("record {record} goes on under grant {grant} and has grant {has}");
                self.broken("GATE-9", text, [Some(&begun)]);
            }
            other => {
                let before = other.as_ref().map(|live| live.begun.clone());
                let last = self.seen_first(Some(record));
                let text = format_args!("record {record} goes on without the gate");
                self.broken("YIELD-8", text, [last.as_ref(), before.as_ref()]);
            }
        }
        self.check_early_return(record);
        self.set_stand(record, Stand::Running);
    }

    fn on_stopped(&mut self, gate: ObjectId, grant: u64, record: RecordId, how: How) {
        let Some(found) = self.world.objects.get(&gate) else {
            // Never named: such a gate has no rules that could be looked at.
            return self.record_is_over(record);
        };
        let live = found.live.clone();
        match &live {
            Some(live) if live.record == record && live.grant == grant => {}
            Some(live) => {
                let text =
                    format!("record {record} stops under grant {grant}, the gate is at grant {}", live.grant);
                self.broken("GATE-9", text, [Some(&live.begun)]);
            }
            None => self.broken("GATE-9", format_args!("record {record} stops and nobody has the gate"), []),
        }
        let mine = live.is_none_or(|live| live.record == record);
        match how {
            How::Kept => {
                let now = self.now.clone();
                if let Some(live) = self.world.objects.get_mut(&gate).and_then(|gate| gate.live.as_mut()) {
                    live.kept = now;
                }
                self.set_stand(record, Stand::Kept);
            }
            How::Yielded => {
                self.check_may_yield(gate, record);
                self.leave_turn(gate, record, mine);
                self.set_stand(record, Stand::Yielded);
                self.world.be_guest(record, gate);
                let id = self.world.records.get(&record).map(|found| found.object);
                if let Some(object) = id.and_then(|id| self.world.objects.get_mut(&id)) {
                    object.yielded.push(record);
                }
            }
            How::Ended | How::Panicked => {
                self.leave_turn(gate, record, mine);
                self.must_be_given_back(record);
                self.record_is_over(record);
                self.world.forget_if_over(gate);
            }
        }
    }

    fn check_may_yield(&mut self, gate: ObjectId, record: RecordId) {
        let is_message = self.world.records.get(&record).is_some_and(|found| found.lane == Lane::Application);
        let shared = self.world.objects.get(&gate).is_none_or(|gate| gate.shares_gate);
        if is_message && !shared {
            let text = format!("record {record} yields under the gate of {}", self.world.name(gate));
            self.broken("YIELD-1", text, []);
        }
    }

    /// The gate is free again.
    fn leave_turn(&mut self, gate: ObjectId, record: RecordId, mine: bool) {
        if let Some(gate) = self.world.objects.get_mut(&gate).filter(|_| mine) {
            gate.live = None;
        }
        let id = self.world.records.get(&record).map(|found| found.object);
        if let Some(object) = id.and_then(|id| self.world.objects.get_mut(&id)) {
            object.in_turn = None;
        }
    }

    /// Nothing more will come of a record.
    pub(super) fn record_is_over(&mut self, record: RecordId) {
        self.drop_waits_of(record);
        self.forget_dropped_joins(record);
        if let Some(wait) = self.world.waits.get_mut(&record) {
            wait.over = true;
        }
        self.world.forget_record(record);
    }

    fn on_resume_queued(&mut self, record: RecordId) {
        let Some(found) = self.world.records.get(&record) else { return };
        if found.stand != Stand::Yielded {
            let last = found.last.clone();
            let text = format_args!("the resume of record {record} is queued and it is not waiting for one");
            self.broken("YIELD-6", text, [Some(&last)]);
        }
        self.set_stand(record, Stand::ResumeQueued);
    }

    fn on_member_placed(&mut self, gate: ObjectId, object: ObjectId) {
        let before = self.world.objects.get_mut(&object).and_then(|object| object.placed.replace(gate));
        if before.is_some() {
            let text = format!("{} stands in the queue of its Spot twice", self.world.name(object));
            self.broken("LANE-12", text, []);
        }
        self.push_place(gate, Place::Member(object));
    }

    fn push_place(&mut self, gate: ObjectId, place: Place) {
        if let Some(gate) = self.world.objects.get_mut(&gate) {
            gate.places.push_back(place);
        }
    }

    /// A place comes up; it must be the first.
    fn take_place(&mut self, gate: ObjectId, place: Place, clause: &'static str) {
        if let Place::Member(object) = place
            && let Some(object) = self.world.objects.get_mut(&object)
        {
            object.placed = None;
        }
        let Some(found) = self.world.objects.get_mut(&gate) else { return };
        let first = found.places.front().copied();
        if first == Some(place) {
            found.places.pop_front();
            return;
        }
        let at = found.places.iter().position(|other| *other == place);
        if let Some(at) = at {
            found.places.remove(at);
        }
        let what = self.place_in_words(place);
        let text = match (at, first) {
            (Some(_), Some(first)) => format!("{what} comes up before {}", self.place_in_words(first)),
            _ => format!("{what} comes up and has no place in the queue of {}", self.world.name(gate)),
        };
        let before = match first {
            Some(Place::Own(record) | Place::Resume(record)) => self.seen_first(Some(record)),
            _ => None,
        };
        self.broken(clause, text, [before.as_ref()]);
    }

    fn place_in_words(&self, place: Place) -> String {
        match place {
            Place::Own(record) => format!("record {record}"),
            Place::Member(object) => self.world.name(object),
            Place::Resume(record) => format!("the resume of record {record}"),
        }
    }

    fn on_cancelled(&mut self, id: ObjectId, record: RecordId) {
        self.must_be_given_back(record);
        if let Some(object) = self.world.objects.get_mut(&id) {
            object.yielded.retain(|other| *other != record);
        }
        self.record_is_over(record);
    }

    fn on_claim_released(&mut self, id: ObjectId) {
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let (taken, left) = (object.claim.take(), object.yielded.first().copied());
        if let Some(left) = left {
            let text =
                format!("the claim of {} is released and record {left} is not over", self.world.name(id));
            self.broken("YIELD-5", text, [taken.as_ref()]);
        }
    }

    fn set_stand(&mut self, record: RecordId, stand: Stand) {
        let now = self.now.clone();
        if let (Some(record), Some(now)) = (self.world.records.get_mut(&record), now) {
            record.stand = stand;
            record.last = now;
        }
    }
}
