//! Waits for answers: allowed where they begin, ended once, and closing no ring.

use super::world::{Place, Stand, Wait, World};
use super::{Checker, Seen};
use crate::event::Event;
use crate::field::{Kind, ObjectId, RecordId};

/// How many records a search for a ring looks at.
const SEARCH_MAX: usize = 100_000;

impl Checker {
    pub(super) fn on_wait(&mut self, event: Event) {
        match event {
            Event::WaitBegan { record, object, gate, request, target, target_gate, yields } => {
                let fine = self.check_self(object, gate, target, target_gate, yields);
                let Some(since) = self.now.clone() else { return };
                self.world.asks.entry(record).or_default().push(request);
                self.world.waits.insert(request, Wait { record, target, since, over: false });
                let ring = self.world.ring(record, yields, request);
                if let Some(ring) = ring.filter(|_| fine) {
                    let names: Vec<String> = ring.iter().map(|(id, _)| self.world.name(*id)).collect();
                    let text = format!("a ring of waits closes: {}", names.join(" → "));
                    let events: Vec<Option<&Seen>> = ring.iter().map(|(_, seen)| seen.as_ref()).collect();
                    self.broken("REENT-5", text, events);
                }
            }
            Event::WaitEnded { request, .. } => self.on_wait_ended(request),
            _ => {}
        }
    }

    /// Whether the wait is none for what this very turn holds.
    fn check_self(
        &mut self,
        object: ObjectId,
        gate: ObjectId,
        target: ObjectId,
        target_gate: ObjectId,
        yields: bool,
    ) -> bool {
        let is_actor = self.world.objects.get(&object).is_some_and(|object| object.kind == Kind::Actor);
        if target == object && is_actor {
            let text = format!("{} waits for itself", self.world.name(object));
            self.broken("REENT-1", text, []);
        } else if !yields && (target_gate == gate || target == object) {
            let [asker, target] = [object, target].map(|id| self.world.name(id));
            let text = format!("{asker} waits for {target} and holds its gate");
            self.broken("REENT-2", text, []);
        } else {
            return true;
        }
        false
    }

    fn on_wait_ended(&mut self, request: RecordId) {
        let Some(wait) = self.world.waits.remove(&request) else {
            let text = format_args!("the wait for record {request} ends and is over");
            return self.broken("DONE-1", text, []);
        };
        if let Some(asks) = self.world.asks.get_mut(&wait.record) {
            asks.retain(|other| *other != request);
            if asks.is_empty() {
                self.world.asks.remove(&wait.record);
            }
        }
    }

    /// A handler is over, and what it still waited for with it.
    pub(super) fn drop_waits_of(&mut self, record: RecordId) {
        for request in self.world.asks.remove(&record).unwrap_or_default() {
            self.world.waits.remove(&request);
        }
    }
}

impl World {
    /// The gate under which an object takes its turns.
    pub(crate) fn gate_of(&self, id: ObjectId) -> ObjectId {
        let spot = self.objects.get(&id).map_or(ObjectId(0), |object| object.spot);
        match self.objects.get(&spot) {
            Some(found) if found.shares_gate => spot,
            _ => id,
        }
    }

    /// The ring that the wait of `record` for `request` closes: each object with its wait.
    pub(crate) fn ring(
        &self,
        record: RecordId,
        yields: bool,
        request: RecordId,
    ) -> Option<Vec<(ObjectId, Option<Seen>)>> {
        let mut search = Search { world: self, from: record, yields, seen: 0, path: Vec::new() };
        search.waits_for_itself(request).then_some(search.path)
    }

    /// The handlers that must end before a request can go on: the one that runs it, or those in its way.
    fn in_the_way(&self, request: RecordId, wait: &Wait, from: RecordId, yields: bool) -> Vec<RecordId> {
        let stand = self.records.get(&request).map(|found| found.stand);
        if matches!(stand, Some(Stand::Running | Stand::Kept | Stand::Yielded | Stand::ResumeQueued)) {
            return vec![request];
        }
        let mut found = Vec::new();
        if let Some(live) = self.objects.get(&self.gate_of(wait.target)).and_then(|gate| gate.live.as_ref())
            && (live.kept.is_some() || (live.record == from && !yields))
        {
            found.push(live.record);
        }
        if let Some(target) = self.objects.get(&wait.target).filter(|target| target.claims) {
            found.extend(&target.yielded);
            // The asker keeps its claim, though it has not yielded yet.
            let asker = self.records.get(&from).map(|from| from.object);
            if yields && asker == Some(wait.target) {
                found.push(from);
            }
        }
        found
    }

    /// How many places stand before an object in the queue of the gate it is under.
    pub(crate) fn places_before(&self, id: ObjectId) -> Option<usize> {
        let gate = self.objects.get(&self.gate_of(id))?;
        let is_its = |place: &Place| match place {
            Place::Member(member) => *member == id,
            Place::Own(record) | Place::Resume(record) => {
                self.records.get(record).is_some_and(|record| record.object == id)
            }
        };
        gate.places.iter().position(is_its)
    }
}

struct Search<'a> {
    world: &'a World,
    from: RecordId,
    yields: bool,
    seen: usize,
    path: Vec<(ObjectId, Option<Seen>)>,
}

impl Search<'_> {
    fn waits_for_itself(&mut self, request: RecordId) -> bool {
        self.seen += 1;
        if self.seen > SEARCH_MAX || self.path.len() > 256 {
            return false;
        }
        let Some(wait) = self.world.waits.get(&request).filter(|wait| !wait.over) else { return false };
        self.path.push((wait.target, Some(wait.since.clone())));
        for blocker in self.world.in_the_way(request, wait, self.from, self.yields) {
            if blocker == self.from {
                return true;
            }
            for next in self.world.asks.get(&blocker).into_iter().flatten() {
                if self.waits_for_itself(*next) {
                    return true;
                }
            }
        }
        self.path.pop();
        false
    }
}
