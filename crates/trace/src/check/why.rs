//! How an object stands at this moment of the trace, for [`Situation`]'s words.

use super::world::{Object, Stand, World};
use crate::field::{ObjectId, RecordId};
use crate::why::{Hold, LaneUse, Phase, Situation, Wait, Waited};

impl World {
    pub(crate) fn situations(&self, id: &str, now_ns: u64) -> Vec<Situation> {
        let number = id.strip_prefix('#').and_then(|number| number.parse().ok()).map(ObjectId);
        let mut found: Vec<ObjectId> = self
            .objects
            .iter()
            .filter(|(key, object)| &*object.id == id || Some(**key) == number)
            .map(|(key, _)| *key)
            .collect();
        found.sort_unstable();
        found.into_iter().filter_map(|key| self.situation(key, now_ns)).collect()
    }

    fn situation(&self, id: ObjectId, now_ns: u64) -> Option<Situation> {
        let object = self.objects.get(&id)?;
        let gate = self.gate_of(id);
        let live = self.objects.get(&gate).and_then(|gate| gate.live.as_ref());
        let holder = live.map(|live| {
            let mut hold = self.hold(live.record, live.begun.time_ns, now_ns);
            (hold.name, hold.running) = (self.name(live.object), live.kept.is_none());
            hold
        });
        let yields: Vec<Hold> = object.yielded.iter().map(|record| self.yielded(*record, now_ns)).collect();
        let (claim, yielded) =
            if object.claims { (yields.into_iter().next(), Vec::new()) } else { (None, yields) };
        let mut lanes = [0, 1].map(|at| lane_use(object, at));
        lanes[1].queued += object.staged.iter().flatten().count() as u64;
        Some(Situation {
            name: object.name.clone(),
            phase: phase(object),
            gate: (gate != id).then(|| self.name(gate)),
            holder,
            claim,
            yielded,
            lanes,
            places_before: self.places_before(id),
            moving: object.moving.then(|| self.moving_to(id)),
            cycle: self.cycle_through(id),
            chain: Vec::new(),
        })
    }

    fn yielded(&self, record: RecordId, now_ns: u64) -> Hold {
        let since = self.records.get(&record).map_or(now_ns, |record| record.last.time_ns);
        self.hold(record, since, now_ns)
    }

    fn hold(&self, id: RecordId, since_ns: u64, now_ns: u64) -> Hold {
        let wait = |request: &RecordId| {
            let wait = self.waits.get(request)?;
            let waited = match self.records.get(request).map(|record| record.stand) {
                _ if wait.over => Waited::Over,
                Some(Stand::InLine) => Waited::InLine,
                None | Some(Stand::Accepted | Stand::Appended) => Waited::Queued,
                Some(_) => Waited::Handled,
            };
            let for_ns = now_ns.saturating_sub(wait.since.time_ns);
            Some(Wait { target: self.name(wait.target), waited, for_ns })
        };
        Hold {
            name: self.records.get(&id).map_or_else(String::new, |record| self.name(record.object)),
            record: id.0,
            for_ns: now_ns.saturating_sub(since_ns),
            running: false,
            waits: self.asks.get(&id).into_iter().flatten().filter_map(wait).collect(),
        }
    }

    fn moving_to(&self, id: ObjectId) -> String {
        let target = self.joins.values().find(|join| join.object == id && !join.target.is_none());
        target.map_or_else(|| "another Spot".to_owned(), |join| self.name(join.target))
    }

    /// The ring in which a handler of the object, or one in its way, waits for itself.
    fn cycle_through(&self, id: ObjectId) -> Vec<String> {
        let live = self.objects.get(&self.gate_of(id)).and_then(|gate| gate.live.as_ref());
        let own = self.objects.get(&id).into_iter().flat_map(|object| object.yielded.iter().copied());
        let starts = live.filter(|live| live.kept.is_some()).map(|live| live.record).into_iter().chain(own);
        for record in starts {
            let yields = self.records.get(&record).is_some_and(|record| record.stand == Stand::Yielded);
            for request in self.asks.get(&record).into_iter().flatten() {
                if let Some(ring) = self.ring(record, yields, *request) {
                    return self.named_from(id, ring.iter().map(|(id, _)| *id).collect());
                }
            }
        }
        Vec::new()
    }

    /// The ring, turned so that it begins with the object that was asked about, if that is in it.
    fn named_from(&self, id: ObjectId, mut ring: Vec<ObjectId>) -> Vec<String> {
        if let Some(at) = ring.iter().position(|other| *other == id) {
            ring.rotate_left(at);
        }
        ring.into_iter().map(|id| self.name(id)).collect()
    }
}

fn phase(object: &Object) -> Phase {
    match &object.ended {
        Some(_) => Phase::Ended("see the last events of the trace".to_owned()),
        None if object.sealed => Phase::Sealed,
        None if !object.made => Phase::Making,
        None => Phase::Open,
    }
}

fn lane_use(object: &Object, at: usize) -> LaneUse {
    let lane = &object.lanes[at];
    let under_way: usize = lane.under_way.values().map(std::collections::VecDeque::len).sum();
    LaneUse {
        records: lane.records,
        records_max: lane.records_max,
        bytes: lane.bytes,
        bytes_max: lane.bytes_max,
        queued: (lane.queue.len() + under_way) as u64,
        waiters: lane.line.len() as u64,
    }
}
