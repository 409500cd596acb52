//! Why an object is stuck, asked of the living node: facts that stand in words and boxes anyway, for the words of
//! [`Situation`] (STAT-4).

use std::sync::Arc;

use turnkeep_machines::pair::Lane;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::sight::Handler;
use turnkeep_scheduler::ticks;
use turnkeep_trace::{Hold, LaneUse, Phase, Situation, Wait, Waited};

use crate::error::{Error, ErrorKind};
use crate::id::{Id, ObjectKind};
use crate::node::Node;
use crate::object::object_of;
use crate::refs::{ActorRef, SpotRef};

/// How many objects a chain of waits is followed over.
const CHAIN_MAX: usize = 32;

impl Node {
    /// How the objects of that id stand, and what keeps them: who has the gate, since when, what that handler waits
    /// for, claims, lanes, senders that wait for room, and the ring of waits if there is one (STAT-4). Printed, each is
    /// a few sentences. A Spot and an Actor may have the same id; then there are several.
    ///
    /// It asks nobody and takes no gate, so it answers whatever the objects do, from any thread and from their own
    /// handlers; what is read one after another may not fit together while turns run. Times are exact to the length of a
    /// slice. Takes time in proportion to the members of the Spot.
    ///
    /// # Errors
    ///
    /// `NotFound` if no living object has that id, `InvalidOperation` if it cannot be one.
    pub fn why(&self, id: &str) -> Result<Vec<Situation>, Error> {
        let id = Id::new(id)?;
        let kinds =
            [ObjectKind::Spot, ObjectKind::Actor, ObjectKind::NodeHandler, ObjectKind::ChannelHandler];
        let found: Vec<_> = kinds
            .iter()
            .filter_map(|kind| self.inner().directory.find(*kind, &id))
            .map(|owner| situation(&owner))
            .collect();
        if found.is_empty() {
            let text =
                "no living object has that id; a reference to one that has ended tells of it, or its trace";
            return Err(Error::new(ErrorKind::NotFound, id.as_str(), "why", text));
        }
        Ok(found)
    }
}

impl<S: crate::Spot> SpotRef<S> {
    /// How this life of the Spot stands, and what keeps it; see [`Node::why`].
    #[must_use]
    pub fn why(&self) -> Situation {
        situation(self.owner())
    }
}

impl<A: crate::Actor> ActorRef<A> {
    /// How this life of the Actor stands, and what keeps it; see [`Node::why`].
    #[must_use]
    pub fn why(&self) -> Situation {
        situation(self.owner())
    }
}

fn is_message(handler: &Handler) -> bool {
    handler.lane == Lane::Application
}

/// Who has the gate of an object.
struct Holder {
    object: Arc<Owner>,
    since_ns: u64,
    /// The handler, if it waits.
    handler: Option<Handler>,
}

fn situation(owner: &Arc<Owner>) -> Situation {
    let now_ns = ticks::now();
    let (object, gate) = (object_of(owner), owner.under());
    let holder = holder(&gate);
    let moving = moving(owner);
    // A move is a handler, too, and told as what it is.
    let is_told = |handler: &Handler| handler.has_yielded && (is_message(handler) || moving.is_none());
    let yields = owner.handlers().into_iter().filter(is_told);
    let mut yields = yields.map(|handler| hold(owner, Some(&handler), handler.since_ns, now_ns));
    let claim = if owner.class().claims { yields.next() } else { None };
    let (chain, cycle) = chain(owner);
    let mut situation = Situation::default();
    situation.name = name(owner);
    situation.phase = match object.end() {
        Some(_) => Phase::Ended(object.how_it_ended().to_string()),
        None if owner.is_sealed() || owner.is_handed_over() => Phase::Sealed,
        None if !object.is_ready() => Phase::Making,
        None => Phase::Open,
    };
    situation.gate = (!Arc::ptr_eq(&gate, owner)).then(|| name(&gate));
    situation.holder = holder.map(|it| hold(&it.object, it.handler.as_ref(), it.since_ns, now_ns));
    situation.claim = claim;
    situation.yielded = yields.collect();
    situation.moving = moving;
    situation.lanes = [Lane::Application, Lane::Lifecycle].map(|lane| lane_use(owner, lane));
    situation.cycle = cycle.iter().map(name).collect();
    situation.chain = chain.iter().map(name).collect();
    situation
}

fn name(owner: &Arc<Owner>) -> String {
    let object = object_of(owner);
    format!("{} {} ({})", object.kind, object.id, object.info.name)
}

/// The turn under a gate: one that waits and keeps it, or one that runs.
fn holder(gate: &Arc<Owner>) -> Option<Holder> {
    let mut under: Vec<Arc<Owner>> = vec![gate.clone()];
    under.extend(object_of(gate).node.membership.members(gate.key()));
    under.retain(|object| Arc::ptr_eq(&object.under(), gate));
    if let Some(running) = Owner::running_of(&under) {
        return Some(Holder { object: running.object, since_ns: running.since_ns, handler: None });
    }
    under.into_iter().find_map(|object| {
        let handler = object.handlers().into_iter().find(|handler| !handler.has_yielded)?;
        Some(Holder { since_ns: handler.since_ns, handler: Some(handler), object })
    })
}

fn hold(of: &Arc<Owner>, handler: Option<&Handler>, since_ns: u64, now_ns: u64) -> Hold {
    let for_ns = now_ns.saturating_sub(since_ns);
    let waits = handler.map_or(&[][..], |handler| &handler.waits);
    let wait = |wait: &turnkeep_scheduler::sight::Wait| {
        let waited = match () {
            () if wait.is_over => Waited::Over,
            () if is_handled(&wait.target, wait.call) => Waited::Handled,
            () => Waited::There,
        };
        Wait { target: name(&wait.target), waited, for_ns }
    };
    Hold {
        name: name(of),
        record: handler.map_or(0, |handler| handler.record),
        for_ns,
        running: handler.is_none(),
        waits: waits.iter().map(wait).collect(),
    }
}

fn is_handled(target: &Owner, call: u64) -> bool {
    call != 0 && target.handlers().iter().any(|handler| handler.serves == call)
}

fn lane_use(owner: &Owner, lane: Lane) -> LaneUse {
    let (used, limits) = (owner.in_use(lane), owner.class().limits[lane as usize]);
    let begun = owner.handlers().iter().filter(|handler| handler.lane == lane).count() as u64;
    LaneUse {
        records: u64::from(used.records),
        records_max: u64::from(limits.records()),
        bytes: used.bytes,
        bytes_max: limits.bytes(),
        queued: u64::from(used.records).saturating_sub(begun),
        waiters: owner.waiters(lane) as u64,
    }
}

fn moving(owner: &Owner) -> Option<String> {
    if !owner.is_on_hold() {
        return None;
    }
    let moves = owner.handlers().into_iter().filter(|handler| !is_message(handler));
    let asked = moves.flat_map(|handler| handler.waits).find(|wait| !wait.is_over).map(|wait| wait.target);
    let target = asked.or_else(|| owner.joining().pop());
    Some(target.as_ref().map_or_else(|| "another Spot".to_owned(), name))
}

/// What an object hangs on, one after another, and the ring that this comes back to, if it does.
fn chain(first: &Arc<Owner>) -> (Vec<Arc<Owner>>, Vec<Arc<Owner>>) {
    let mut chain = vec![first.clone()];
    let mut at = (first.clone(), 0);
    while chain.len() < CHAIN_MAX {
        let Some((next, call)) = hangs_on(&at.0, at.1) else { break };
        if let Some(seen) = chain.iter().position(|object| Arc::ptr_eq(object, &next)) {
            // The ring begins with the object that was asked about, if that is in it.
            return (Vec::new(), chain.split_off(seen));
        }
        chain.push(next.clone());
        at = (next, call);
    }
    (chain, Vec::new())
}

/// What keeps a call of an object from its answer: what the handler that serves it waits for, else what the handler
/// waits for that has the object's claim or gate.
fn hangs_on(object: &Arc<Owner>, call: u64) -> Option<(Arc<Owner>, u64)> {
    let own = object.handlers();
    let serving = own.iter().find(|handler| call != 0 && handler.serves == call);
    let claiming = own.iter().find(|handler| handler.has_yielded && object.class().claims);
    if let Some(next) = serving.or(claiming).and_then(first_wait) {
        return Some(next);
    }
    let holder = holder(&object.under())?;
    if !Arc::ptr_eq(&holder.object, object) {
        return Some((holder.object, 0));
    }
    holder.handler.as_ref().and_then(first_wait)
}

fn first_wait(handler: &Handler) -> Option<(Arc<Owner>, u64)> {
    let wait = handler.waits.iter().find(|wait| !wait.is_over)?;
    Some((wait.target.clone(), wait.call))
}
