//! What lives at this moment of the trace.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};

use super::Seen;
use crate::field::{JoinId, Kind, Lane, ObjectId, RecordId, TimerId};
use crate::why::name;

/// Everything the checker remembers.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) objects: HashMap<ObjectId, Object>,
    pub(crate) records: HashMap<RecordId, Record>,
    pub(crate) joins: HashMap<JoinId, Join>,
    /// Joins of a handler that are not over, in the order they were registered.
    pub(crate) rows: HashMap<RecordId, VecDeque<JoinId>>,
    pub(crate) timers: HashMap<TimerId, Timer>,
    /// Records of ticks that were made and are not offered yet.
    pub(crate) ticks: HashSet<RecordId>,
    /// Requests that somebody waits for, and who.
    pub(crate) waits: HashMap<RecordId, Wait>,
    /// The requests that a handler waits for.
    pub(crate) asks: HashMap<RecordId, Vec<RecordId>>,
    /// How the node ended: forced or not.
    pub(crate) ended: Option<bool>,
}

impl World {
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
            + self.records.len()
            + self.joins.len()
            + self.rows.len()
            + self.timers.len()
            + self.ticks.len()
            + self.waits.len()
            + self.asks.len()
    }

    /// The name of an object, for people.
    pub(crate) fn name(&self, id: ObjectId) -> String {
        match self.objects.get(&id) {
            Some(object) => object.name.clone(),
            None => format!("object #{id}"),
        }
    }

    /// An object that has ended and of which nothing is left is forgotten.
    pub(crate) fn forget_if_over(&mut self, id: ObjectId) {
        if self.objects.get(&id).is_some_and(Object::is_over) {
            self.objects.remove(&id);
        }
    }

    /// A handler has yielded a gate, which must be remembered for it.
    pub(crate) fn be_guest(&mut self, id: RecordId, gate: ObjectId) {
        if let (Some(record), Some(found)) = (self.records.get_mut(&id), self.objects.get_mut(&gate)) {
            found.guests += 1;
            record.guest_of = Some(gate);
        }
    }

    /// It is back, or over.
    pub(crate) fn leave_guests(&mut self, id: RecordId) {
        let Some(gate) = self.records.get_mut(&id).and_then(|record| record.guest_of.take()) else { return };
        if let Some(found) = self.objects.get_mut(&gate) {
            found.guests = found.guests.saturating_sub(1);
        }
        self.forget_if_over(gate);
    }

    /// A record is over: nothing of it can be seen any more.
    pub(crate) fn forget_record(&mut self, id: RecordId) {
        self.leave_guests(id);
        let Some(record) = self.records.remove(&id) else { return };
        if let Some(object) = self.objects.get_mut(&record.object) {
            // Saturating: a hostile trace may name an object again.
            object.alive = object.alive.saturating_sub(1);
        }
        self.forget_if_over(record.object);
    }
}

/// One life of an object, and the gate that bears its number.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) id: Box<str>,
    pub(crate) name: String,
    pub(crate) shares_gate: bool,
    pub(crate) claims: bool,
    pub(crate) lanes: [LaneState; 2],
    pub(crate) made: bool,
    pub(crate) sealed: bool,
    pub(crate) ended: Option<Seen>,
    /// The last record has begun.
    pub(crate) last_begun: Option<Seen>,
    /// The records that wait in a place of their own, by [`Stage`].
    pub(crate) staged: [Option<RecordId>; 2],
    /// Records of it that are remembered.
    pub(crate) alive: usize,
    /// Handlers that have yielded its gate, of whatever object: they come back here.
    pub(crate) guests: usize,
    /// Lifecycle turns in a row, and whether a debt is owed.
    pub(crate) streak: u8,
    pub(crate) debt: bool,
    /// The Spot it is in.
    pub(crate) spot: ObjectId,
    /// Joins that keep its application lane closed.
    pub(crate) holds: usize,
    /// The hold is certain: its holder has seen it.
    pub(crate) hold_seen: bool,
    /// The hold has changed since the last turn of the object, so what its holder saw is not known.
    pub(crate) hold_changed: bool,
    /// Its handlers that have yielded and are not over.
    pub(crate) yielded: Vec<RecordId>,
    pub(crate) claim: Option<Seen>,
    /// The turn of it that runs, or waits and keeps a gate.
    pub(crate) in_turn: Option<Seen>,
    /// The gate in whose queue it stands as a member.
    pub(crate) placed: Option<ObjectId>,
    /// It is being moved.
    pub(crate) moving: bool,
    /// A Join of it ended without its completion; fine only if the object ends now.
    pub(crate) owed_completion: Option<Seen>,

    // The gate.
    pub(crate) grant: u64,
    pub(crate) live: Option<Live>,
    pub(crate) places: VecDeque<Place>,
}

impl Object {
    fn is_over(&self) -> bool {
        self.ended.is_some() && self.alive + self.guests == 0 && self.live.is_none() && self.places.is_empty()
    }

    pub(crate) fn lane(&mut self, lane: Lane) -> &mut LaneState {
        &mut self.lanes[lane as usize]
    }

    pub(crate) fn new(kind: Kind, id: &str, type_name: &str, limits: [(u64, u64); 2]) -> Self {
        let lane = |(records_max, bytes_max)| LaneState { records_max, bytes_max, ..LaneState::default() };
        Self {
            kind,
            id: id.into(),
            name: name(kind, id.escape_debug(), type_name.escape_debug()),
            shares_gate: false,
            claims: false,
            lanes: limits.map(lane),
            made: false,
            sealed: false,
            ended: None,
            last_begun: None,
            staged: [None; 2],
            alive: 0,
            guests: 0,
            streak: 0,
            debt: false,
            spot: ObjectId(0),
            holds: 0,
            hold_seen: false,
            hold_changed: false,
            yielded: Vec::new(),
            claim: None,
            in_turn: None,
            placed: None,
            moving: false,
            owed_completion: None,
            grant: 0,
            live: None,
            places: VecDeque::new(),
        }
    }
}

/// One lane.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneState {
    pub(crate) records_max: u64,
    pub(crate) bytes_max: u64,
    /// Accepted and not given back.
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    /// Accepted and not appended, by the thread that accepted them, in its order.
    pub(crate) under_way: HashMap<u64, VecDeque<RecordId>>,
    /// Appended and not begun.
    pub(crate) queue: VecDeque<RecordId>,
    /// Those who wait for room, in their order.
    pub(crate) line: VecDeque<RecordId>,
}

/// The turn that has a gate.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) begun: Seen,
    pub(crate) object: ObjectId,
    pub(crate) record: RecordId,
    pub(crate) grant: u64,
    /// It waits and keeps the gate, since then.
    pub(crate) kept: Option<Seen>,
}

/// A place in the queue of a gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    Own(RecordId),
    Member(ObjectId),
    Resume(RecordId),
}

/// How far a record has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stand {
    InLine,
    Accepted,
    Appended,
    Running,
    Kept,
    Yielded,
    /// Its wait has ended.
    ResumeQueued,
}

/// A record that is not over.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) object: ObjectId,
    pub(crate) lane: Lane,
    pub(crate) reserved: u64,
    pub(crate) given_back: Option<Seen>,
    /// It went back while the handler waited, which only a handler that is dropped may do.
    pub(crate) returned_early: bool,
    pub(crate) stand: Stand,
    /// The gate it has yielded.
    pub(crate) guest_of: Option<ObjectId>,
    /// It was accepted while its object was being moved.
    pub(crate) during_move: bool,
    pub(crate) accepted: Seen,
    /// The last thing it did.
    pub(crate) last: Seen,
}

/// A Join that is not over.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) object: ObjectId,
    pub(crate) by: RecordId,
    pub(crate) scope: Option<crate::field::Scope>,
    pub(crate) target: ObjectId,
    pub(crate) began: bool,
    pub(crate) step: u8,
    pub(crate) last: Seen,
}

/// A timer that is registered.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) object: ObjectId,
    /// The record of its tick that was queued last, and of the one that began last.
    pub(crate) tick: Option<RecordId>,
    pub(crate) running: Option<RecordId>,
    pub(crate) delivery: Option<u64>,
    pub(crate) scheduled: Option<u64>,
    pub(crate) last: Seen,
}

/// A turn that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) record: RecordId,
    pub(crate) target: ObjectId,
    pub(crate) since: Seen,
    /// The request is over, and the asker has not looked yet.
    pub(crate) over: bool,
}
