//! Admission, order and reservations of the lanes.

use super::world::{Place, Record, Stand};
use super::{Checker, Seen};
use crate::event::Event;
use crate::field::{Lane, ObjectId, RecordId, Stage};

/// What a record costs beside its payload.
const OVERHEAD: u64 = 256;

impl Checker {
    pub(super) fn on_lane(&mut self, event: Event) {
        match event {
            Event::Accepted { object, lane, record, reserved, from_line, .. } => {
                self.on_accepted(object, lane, record, reserved, from_line);
            }
            Event::Refused { record, .. } => self.on_refused(record),
            Event::Waiting { object, lane, record, .. } => {
                if let Some(object) = self.world.objects.get_mut(&object) {
                    object.lane(lane).line.push_back(record);
                }
                self.remember(object, lane, record, 0, Stand::InLine);
            }
            Event::LeftLine { object, lane, record } => {
                if let Some(object) = self.world.objects.get_mut(&object) {
                    object.lane(lane).line.retain(|other| *other != record);
                }
                self.world.forget_record(record);
            }
            Event::Appended { object, record } => self.on_appended(object, record),
            Event::Staged { object, record, stage } => self.on_staged(object, record, stage),
            Event::Discarded { object, record, .. } => self.on_discarded(object, record),
            Event::GivenBack { record, bytes, .. } => self.on_given_back(record, bytes),
            Event::Sealed { object } => self.set_sealed(object, true),
            Event::Unsealed { object } => self.set_sealed(object, false),
            Event::HandedOver { object, record } => self.on_handed_over(object, record),
            _ => {}
        }
    }

    fn remember(&mut self, object: ObjectId, lane: Lane, id: RecordId, reserved: u64, stand: Stand) {
        let Some(now) = self.now.clone() else { return };
        let during_move = self.world.objects.get(&object).is_some_and(|object| object.moving);
        let record = Record {
            object,
            lane,
            reserved,
            given_back: None,
            returned_early: false,
            stand,
            guest_of: None,
            during_move,
            accepted: now.clone(),
            last: now,
        };
        if self.world.records.insert(id, record).is_none()
            && let Some(object) = self.world.objects.get_mut(&object)
        {
            object.alive += 1;
        }
    }

    fn on_accepted(&mut self, id: ObjectId, lane: Lane, record: RecordId, reserved: u64, from_line: bool) {
        if from_line {
            self.serve(id, lane, record);
        }
        let is_tick = self.world.ticks.remove(&record);
        if reserved < OVERHEAD && (reserved != 0 || (lane == Lane::Application && !is_tick)) {
            self.broken(
                "LANE-2",
                format_args!("record {record} reserves {reserved} bytes, less than 256"),
                [],
            );
        }
        self.remember(id, lane, record, reserved, Stand::Accepted);
        let Some(now) = self.now.clone() else { return };
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let last_begun = object.last_begun.clone();
        let lane_state = object.lane(lane);
        lane_state.under_way.entry(now.thread).or_default().push_back(record);
        if reserved == 0 {
            return;
        }
        lane_state.records += 1;
        lane_state.bytes = lane_state.bytes.saturating_add(reserved);
        let (records, bytes) = (lane_state.records, lane_state.bytes);
        let (records_max, bytes_max) = (lane_state.records_max, lane_state.bytes_max);
        if records > records_max || bytes > bytes_max {
            let name = self.world.name(id);
            let text = format!(
                "the {lane} lane of {name} has {records} of {records_max} records and {bytes} of {bytes_max} bytes"
            );
            self.broken("LANE-1", text, []);
        }
        if last_begun.is_some() {
            let text =
                format!("{} accepts record {record} after its last one has begun", self.world.name(id));
            self.broken("LANE-7", text, [last_begun.as_ref()]);
        }
    }

    fn serve(&mut self, id: ObjectId, lane: Lane, record: RecordId) {
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let line = &mut object.lane(lane).line;
        let first = line.front().copied();
        line.retain(|other| *other != record);
        if first != Some(record) {
            let before =
                first.and_then(|first| self.world.records.get(&first)).map(|first| first.last.clone());
            let text = format!("record {record} is served before record {}", first.unwrap_or_default());
            self.broken("LANE-6", text, [before.as_ref()]);
        }
    }

    fn on_refused(&mut self, id: RecordId) {
        let Some(record) = self.world.records.get(&id) else { return };
        let before = record.last.clone();
        self.broken(
            "LANE-5",
            format_args!("record {id} is refused and yet it was accepted"),
            [Some(&before)],
        );
    }

    fn on_appended(&mut self, id: ObjectId, record: RecordId) {
        let Some(found) = self.world.records.get_mut(&record) else {
            let text = format_args!("record {record} is appended and was never accepted");
            return self.broken("LANE-5", text, []);
        };
        let (lane, stand, accepted, last) =
            (found.lane, found.stand, found.accepted.clone(), found.last.clone());
        found.stand = Stand::Appended;
        found.last = self.now.clone().unwrap_or(last.clone());
        if stand != Stand::Accepted {
            return self.broken("LANE-5", format_args!("record {record} is appended twice"), [Some(&last)]);
        }
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let late = object.last_begun.clone();
        let state = object.lane(lane);
        let first = take_under_way(&mut state.under_way, accepted.thread, record);
        state.queue.push_back(record);
        if lane == Lane::Application {
            object.places.push_back(Place::Own(record));
        }
        if let Some(first) = first {
            let before = self.world.records.get(&first).map(|first| first.accepted.clone());
            let text =
                format!("record {record} is appended before record {first}, which one thread sent first");
            self.broken("GATE-8", text, [before.as_ref(), Some(&accepted)]);
        }
        if late.is_some() {
            let text = format!("record {record} is appended to {} after its last", self.world.name(id));
            self.broken("LANE-7", text, [late.as_ref()]);
        }
    }

    fn on_staged(&mut self, id: ObjectId, record: RecordId, stage: Stage) {
        self.remember(id, Lane::Lifecycle, record, 0, Stand::Appended);
        if let Some(object) = self.world.objects.get_mut(&id) {
            object.staged[stage as usize] = Some(record);
        }
    }

    /// Takes a record out of wherever it stands.
    pub(super) fn take_out(&mut self, id: ObjectId, record: RecordId) {
        let Some(found) = self.world.records.get(&record) else { return };
        let (lane, thread) = (found.lane, found.accepted.thread);
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        for staged in &mut object.staged {
            *staged = staged.filter(|staged| *staged != record);
        }
        let state = object.lane(lane);
        if let Some(at) = state.queue.iter().position(|other| *other == record) {
            state.queue.remove(at);
        } else if let Some(waiting) = state.under_way.get_mut(&thread) {
            waiting.retain(|other| *other != record);
        }
        if let Some(at) = object.places.iter().position(|place| *place == Place::Own(record)) {
            object.places.remove(at);
        }
    }

    fn on_discarded(&mut self, id: ObjectId, record: RecordId) {
        self.must_be_given_back(record);
        self.take_out(id, record);
        self.world.forget_record(record);
    }

    /// A record is over: what it reserved must have gone back.
    pub(super) fn must_be_given_back(&mut self, id: RecordId) {
        let Some(record) = self.world.records.get(&id) else { return };
        if record.reserved != 0 && record.given_back.is_none() {
            let (reserved, accepted) = (record.reserved, record.accepted.clone());
            let text = format!("record {id} is over and its {reserved} bytes have not gone back");
            self.broken("LANE-3", text, [Some(&accepted)]);
            self.return_room(id);
        }
    }

    fn return_room(&mut self, id: RecordId) {
        let Some(record) = self.world.records.get(&id) else { return };
        let (lane, reserved) = (record.lane, record.reserved);
        if let Some(object) = self.world.objects.get_mut(&record.object) {
            let lane = object.lane(lane);
            lane.records = lane.records.saturating_sub(1);
            lane.bytes = lane.bytes.saturating_sub(reserved);
        }
    }

    fn on_given_back(&mut self, id: RecordId, bytes: u64) {
        let Some(record) = self.world.records.get_mut(&id) else {
            let text = format_args!("the reservation of record {id} goes back and it has none");
            return self.broken("LANE-3", text, []);
        };
        if let Some(before) = record.given_back.clone() {
            let text = format_args!("the reservation of record {id} goes back twice");
            return self.broken("LANE-3", text, [Some(&before)]);
        }
        let (reserved, accepted) = (record.reserved, record.accepted.clone());
        record.given_back = self.now.clone();
        record.returned_early = matches!(record.stand, Stand::Yielded | Stand::ResumeQueued | Stand::Kept);
        if bytes != reserved {
            let text = format!("record {id} has reserved {reserved} bytes and {bytes} go back");
            self.broken("LANE-3", text, [Some(&accepted)]);
        }
        self.return_room(id);
    }

    fn set_sealed(&mut self, id: ObjectId, sealed: bool) {
        if let Some(object) = self.world.objects.get_mut(&id) {
            object.sealed = sealed;
            if !sealed {
                object.last_begun = None;
            }
        }
    }

    fn on_handed_over(&mut self, id: ObjectId, record: RecordId) {
        let lane = self.world.records.get(&record).map(|found| found.lane);
        let Some(object) = self.world.objects.get(&id) else { return };
        let sealed = object.sealed;
        let first = lane.and_then(|lane| object.lanes[lane as usize].queue.front().copied());
        if !sealed {
            let text = format_args!("record {record} is handed over and its object is not sealed");
            self.broken("LANE-7", text, []);
        } else if first != Some(record) {
            let before = self.seen_first(first);
            let text = format!("record {record} is handed over before record {}", first.unwrap_or_default());
            self.broken("GATE-8", text, [before.as_ref()]);
        }
        if self.world.records.get(&record).is_some_and(|found| found.given_back.is_none()) {
            self.return_room(record);
        }
        self.take_out(id, record);
        self.world.forget_record(record);
    }

    pub(super) fn seen_first(&self, first: Option<RecordId>) -> Option<Seen> {
        Some(self.world.records.get(&first?)?.last.clone())
    }
}

/// Takes a record from among those that its thread has accepted. The result is the one that should have come first.
fn take_under_way(
    under_way: &mut hashbrown::HashMap<u64, std::collections::VecDeque<RecordId>>,
    thread: u64,
    record: RecordId,
) -> Option<RecordId> {
    let waiting = under_way.get_mut(&thread)?;
    let first = waiting.front().copied();
    match first == Some(record) {
        true => drop(waiting.pop_front()),
        false => waiting.retain(|other| *other != record),
    }
    if waiting.is_empty() {
        under_way.remove(&thread);
    }
    first.filter(|first| *first != record)
}
