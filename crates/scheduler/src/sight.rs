//! A look at an owner from outside: what its handlers wait for and who has its gate, without a turn of its own.
//!
//! Everything is read under the lock of the owner's box or from words that are there anyway, so a look takes no gate
//! and delays no turn. It is out of date at once.

use std::sync::Arc;

use turnkeep_machines::pair::Lane;

use crate::activation::Act;
use crate::ambient::with_act;
use crate::owner::Owner;
use crate::waits::Entry;

/// A handler that has begun and waits.
#[derive(Debug)]
pub struct Handler {
    /// The number of its record in a trace; 0 without one.
    pub record: u64,
    /// The call it answers; 0 for none.
    pub serves: u64,
    /// Since when it waits, in ticks, to the length of a slice.
    pub since_ns: u64,
    /// Whether it serves a message, or a step of the object's life.
    pub lane: Lane,
    /// Whether it has given its gate up, or keeps it.
    pub has_yielded: bool,
    /// The answers it waits for. It may wait for other things, too.
    pub waits: Vec<Wait>,
}

/// A wait for the answer of an object.
#[derive(Debug)]
pub struct Wait {
    /// The object asked.
    pub target: Arc<Owner>,
    /// The number of the call; 0 for none in particular.
    pub call: u64,
    /// Whether the answer is there, and the handler has not looked yet.
    pub is_over: bool,
}

/// Whose turn runs under a gate.
#[derive(Debug)]
pub struct Running {
    /// The object.
    pub object: Arc<Owner>,
    /// Since when, in ticks, to the length of a slice.
    pub since_ns: u64,
}

impl Owner {
    /// Its handlers that wait, with or without the gate.
    #[must_use]
    pub fn handlers(&self) -> Vec<Handler> {
        let seen = self.rare().if_any(|rare| {
            let of = |act: &Act| handler(*act, &rare.waits);
            rare.suspended.iter().map(of).collect()
        });
        seen.unwrap_or_default()
    }

    /// The owner of the gate it is under now.
    #[must_use]
    pub fn under(self: &Arc<Self>) -> Arc<Owner> {
        self.gate_owner()
    }

    /// Which of the objects under one gate has a turn that runs at this moment, if any has.
    #[must_use]
    pub fn running_of(under_gate: &[Arc<Owner>]) -> Option<Running> {
        let own = with_act(|act| {
            let act = act?;
            let object = under_gate.iter().find(|object| std::ptr::eq(&raw const ***object, act.owner()))?;
            Some(Running { object: object.clone(), since_ns: crate::pool::slice_began_ns() })
        });
        own.or_else(|| {
            let pool = &under_gate.first()?.class().pool;
            pool.running().into_iter().find_map(|(key, since_ns)| {
                let object = under_gate.iter().find(|object| object.key() == key)?;
                Some(Running { object: object.clone(), since_ns })
            })
        })
    }

    /// The Spots whose turns its pending Joins need.
    #[must_use]
    pub fn joining(&self) -> Vec<Arc<Owner>> {
        let spots = self.rare().if_any(|rare| rare.joining.iter().map(|(_, spot)| spot.clone()).collect());
        spots.unwrap_or_default()
    }
}

/// Under the lock of the box that lists it: so it has not ended.
fn handler(act: Act, boxed: &[Entry]) -> Handler {
    let mut waits: Vec<Wait> =
        boxed.iter().filter(|entry| entry.handler == act.number()).map(Entry::sight).collect();
    waits.extend(act.berth().with(Entry::sight));
    Handler {
        record: act.record(),
        // Set before the handler was first polled, and so before it was listed.
        serves: act.serves().get(),
        lane: act.lane(),
        since_ns: act.since_ns(),
        has_yielded: act.has_yielded(),
        waits,
    }
}
