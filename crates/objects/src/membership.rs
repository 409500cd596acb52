//! Who is a member of which Spot: one table, so that every look-up shows each Actor in exactly one (JOIN-6).

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use turnkeep_machines::wait::Key;
use turnkeep_scheduler::owner::Owner;

use crate::directory::in_order;
use crate::trace;

#[derive(Default)]
struct Table {
    /// Actor to Spot.
    places: HashMap<usize, Arc<Owner>>,
    /// Spot to its Actors.
    members: HashMap<usize, HashMap<usize, Arc<Owner>>>,
}

/// The memberships of one node.
#[derive(Default)]
pub(crate) struct Membership(RwLock<Table>);

impl Membership {
    /// Puts an Actor into a Spot, out of the one it was in, in one step.
    pub(crate) fn enter(&self, actor: &Arc<Owner>, spot: &Arc<Owner>) {
        self.0.write().enter(actor, spot);
    }

    /// As [`enter`](Self::enter), if `decide` says so. It is called with the table locked, so whoever finds the
    /// decision made finds the membership changed.
    pub(crate) fn enter_if(
        &self,
        actor: &Arc<Owner>,
        spot: &Arc<Owner>,
        decide: impl FnOnce() -> bool,
    ) -> bool {
        let mut table = self.0.write();
        let entered = decide();
        if entered {
            table.enter(actor, spot);
        }
        entered
    }

    /// An Actor has ended. Returns the Spot it was in.
    pub(crate) fn remove(&self, actor: Key) -> Option<Arc<Owner>> {
        let mut table = self.0.write();
        let before = table.places.remove(&actor.0)?;
        if let Some(actor) = table.leave(actor.0, &before) {
            trace::left(&actor, &before);
        }
        Some(before)
    }

    /// A Spot has ended: its members, which are returned, are in `refuge` from now on.
    pub(crate) fn evict(&self, spot: Key, refuge: &Arc<Owner>) -> Vec<Arc<Owner>> {
        let mut table = self.0.write();
        let Some(members) = table.members.remove(&spot.0) else { return Vec::new() };
        for (key, actor) in &members {
            let before = table.places.insert(*key, refuge.clone());
            trace::entered(actor, before.as_deref(), refuge);
        }
        let evicted = in_order(members.values().cloned().collect());
        table.members.entry(refuge.key().0).or_default().extend(members);
        evicted
    }

    /// The Spot an Actor is in.
    pub(crate) fn place(&self, actor: Key) -> Option<Arc<Owner>> {
        self.0.read().places.get(&actor.0).cloned()
    }

    /// The Actors in a Spot.
    pub(crate) fn members(&self, spot: Key) -> Vec<Arc<Owner>> {
        self.0
            .read()
            .members
            .get(&spot.0)
            .map(|members| in_order(members.values().cloned().collect()))
            .unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn count(&self, spot: Key) -> usize {
        self.0.read().members.get(&spot.0).map_or(0, HashMap::len)
    }
}

impl Table {
    fn enter(&mut self, actor: &Arc<Owner>, spot: &Arc<Owner>) {
        let (Key(actor_key), Key(spot_key)) = (actor.key(), spot.key());
        let before = self.places.insert(actor_key, spot.clone());
        trace::entered(actor, before.as_deref(), spot);
        if let Some(before) = before {
            self.leave(actor_key, &before);
        }
        self.members.entry(spot_key).or_default().insert(actor_key, actor.clone());
    }

    fn leave(&mut self, actor: usize, spot: &Owner) -> Option<Arc<Owner>> {
        let key = spot.key().0;
        let members = self.members.get_mut(&key)?;
        let left = members.remove(&actor);
        if members.is_empty() {
            self.members.remove(&key);
        }
        left
    }
}
