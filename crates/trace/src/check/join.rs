//! Joins: when they start, the order of their steps, and where the Actor is meanwhile.

use super::Checker;
use super::world::Join;
use crate::event::Event;
use crate::field::{JoinId, ObjectId, Outcome, RecordId, Scope};

const ASKED: u8 = 1;
const COMMITTED: u8 = 2;
const JOINED: u8 = 3;
const LEFT: u8 = 4;
const COMPLETED: u8 = 5;

impl Checker {
    pub(super) fn on_join(&mut self, event: Event) {
        match event {
            Event::Entered { object, from, spot } => self.on_place(object, from, spot),
            Event::Left { object, spot } => self.on_place(object, spot, ObjectId(0)),
            Event::JoinRegistered { join, object, by } => self.on_registered(join, object, by),
            Event::ScopeEnded { record, scope } => {
                for join in self.world.rows.get(&record).into_iter().flatten() {
                    if let Some(join) = self.world.joins.get_mut(join) {
                        join.scope = Some(scope);
                    }
                }
            }
            Event::HoldTaken { object, gate, .. } => self.on_hold_taken(object, gate),
            Event::HoldReleased { object, join } => self.on_hold_released(object, join),
            Event::JoinBegan { join, object } => self.on_join_began(join, object),
            Event::JoinAsked { join, target } => self.on_asked(join, target),
            Event::JoinCommitted { join, .. } => self.step(join, COMMITTED, "the commit"),
            Event::JoinedCalled { join } => self.step(join, JOINED, "on_joined_actor"),
            Event::LeaveCalled { join } => self.step(join, LEFT, "on_leave_actor"),
            Event::JoinCompleted { join, outcome } => self.on_completed(join, outcome),
            _ => {}
        }
    }

    fn on_place(&mut self, id: ObjectId, from: ObjectId, to: ObjectId) {
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        let was = std::mem::replace(&mut object.spot, to);
        if was != from {
            let [name, was, from] = [id, was, from].map(|id| self.world.name(id));
            let text = format!("{name} leaves {from} and is in {was}");
            self.broken("JOIN-6", text, []);
        }
    }

    fn on_registered(&mut self, id: JoinId, object: ObjectId, by: RecordId) {
        let Some(last) = self.now.clone() else { return };
        let join = Join { object, by, scope: None, target: ObjectId(0), began: false, step: 0, last };
        self.world.joins.insert(id, join);
        if !by.is_none() {
            self.world.rows.entry(by).or_default().push_back(id);
        }
    }

    /// A handler is over: its Joins that were dropped are nothing any more.
    pub(super) fn forget_dropped_joins(&mut self, by: RecordId) {
        let Some(row) = self.world.rows.get_mut(&by) else { return };
        let joins = &mut self.world.joins;
        row.retain(|id| {
            let started = joins.get(id).is_some_and(|join| join.scope == Some(Scope::Well));
            if !started {
                joins.remove(id);
            }
            started
        });
        if row.is_empty() {
            self.world.rows.remove(&by);
        }
    }

    fn on_hold_taken(&mut self, id: ObjectId, taker: ObjectId) {
        let under = self.world.gate_of(id);
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        object.holds += 1;
        object.hold_changed = true;
        object.moving = true;
        // Taken in a turn under its own gate: its holder knows. Else it knows when the move is under way.
        object.hold_seen |= taker == under;
    }

    fn on_hold_released(&mut self, id: ObjectId, join: JoinId) {
        let over = self.world.joins.remove(&join);
        if let Some(by) = over.as_ref().map(|over| over.by)
            && let Some(row) = self.world.rows.get_mut(&by)
        {
            row.retain(|other| *other != join);
            if row.is_empty() {
                self.world.rows.remove(&by);
            }
        }
        let owed = over.filter(|join| join.began && join.step < COMPLETED).map(|join| join.last);
        let Some(object) = self.world.objects.get_mut(&id) else { return };
        object.holds = object.holds.saturating_sub(1);
        object.hold_changed = true;
        object.hold_seen &= object.holds > 0;
        object.moving = object.holds > 0;
        if object.ended.is_none() {
            object.owed_completion = object.owed_completion.take().or(owed);
        }
    }

    fn on_join_began(&mut self, id: JoinId, actor: ObjectId) {
        if let Some(object) = self.world.objects.get_mut(&actor) {
            object.hold_seen = object.holds > 0;
        }
        let Some(now) = self.now.clone() else { return };
        let Some(join) = self.world.joins.get_mut(&id) else {
            self.broken("JOIN-3", format_args!("Join {id} begins and was dropped"), []);
            let (target, by) = (ObjectId(0), RecordId(0));
            let join = Join { object: actor, by, scope: None, target, began: true, step: 0, last: now };
            self.world.joins.insert(id, join);
            return;
        };
        let (scope, by, registered) = (join.scope, join.by, std::mem::replace(&mut join.last, now));
        join.began = true;
        match scope {
            _ if by.is_none() => {}
            None => {
                let text = format_args!("Join {id} begins before the handler of record {by} is over");
                self.broken("JOIN-2", text, [Some(&registered)]);
            }
            Some(Scope::Badly) => {
                let text = format_args!("Join {id} begins though the handler of record {by} ended badly");
                self.broken("JOIN-3", text, [Some(&registered)]);
            }
            Some(Scope::Well) => {}
        }
        let first =
            self.world.rows.get(&by).and_then(|row| row.front().copied()).filter(|first| *first != id);
        if let Some(first) = first {
            let before = self.world.joins.get(&first).map(|join| join.last.clone());
            let text = format_args!("Join {id} begins before Join {first}, which was registered first");
            self.broken("JOIN-11", text, [before.as_ref()]);
        }
    }

    fn on_asked(&mut self, id: JoinId, target: ObjectId) {
        self.step(id, ASKED, "the request");
        let Some(join) = self.world.joins.get_mut(&id) else { return };
        join.target = target;
        let object = join.object;
        if self.world.objects.get(&object).is_some_and(|object| object.spot == target) {
            let name = self.world.name(object);
            self.broken("JOIN-8", format!("{name} asks for admission to the Spot that it is in"), []);
        }
    }

    /// A step must come after those that belong before it, once.
    fn step(&mut self, id: JoinId, step: u8, what: &str) {
        let Some(now) = self.now.clone() else { return };
        // An Actor that ended in the midst leaves callbacks that are nobody's any more.
        let Some(join) = self.world.joins.get_mut(&id) else { return };
        let (before, last) = (join.step, std::mem::replace(&mut join.last, now));
        join.step = step.max(before);
        let committed = before >= COMMITTED || step <= COMMITTED;
        if before >= step || !committed {
            self.broken("JOIN-6", format_args!("{what} of Join {id} comes out of order"), [Some(&last)]);
        }
    }

    fn on_completed(&mut self, id: JoinId, outcome: Outcome) {
        let Some(now) = self.now.clone() else { return };
        let Some(join) = self.world.joins.get_mut(&id) else {
            return self.broken("JOIN-4", format_args!("Join {id} completes and is over"), []);
        };
        let (before, last) = (join.step, std::mem::replace(&mut join.last, now));
        join.step = COMPLETED;
        if before >= COMPLETED {
            self.broken("JOIN-4", format_args!("Join {id} completes twice"), [Some(&last)]);
        } else if outcome == Outcome::Accepted && before == ASKED {
            let text = format_args!("Join {id} is accepted and was not committed");
            self.broken("JOIN-6", text, [Some(&last)]);
        } else if outcome == Outcome::Rejected && before >= COMMITTED {
            let text = format_args!("Join {id} is rejected and was committed");
            self.broken("JOIN-6", text, [Some(&last)]);
        }
    }
}
