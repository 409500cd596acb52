//! Wait cycles: whether a wait that is about to begin could never end.
//!
//! # The graph
//!
//! A *handler* that waits has *needs*: each is a turn of some owner, for one call. What keeps that turn from
//! running is, in this order of looking:
//!
//! | the call | what it hangs on |
//! |---|---|
//! | is being handled, and that handler waits | that handler's own needs and, if it has given its gate up, the handler that keeps the owner's gate now: it goes on under it |
//! | waits in the owner's queue | the handler that keeps the owner's gate, the handler that has the owner's claim, and, while a Join of the owner is pending, a turn of each Spot that the Join needs |
//!
//! A cycle is closed if the search from the target comes back to something that only the asker's own end could
//! give: the call it serves, the gate it would keep, its claim. This is the wait-for graph of Knapp's survey (ACM
//! Computing Surveys 19, 1987), searched for one new edge at a time.
//!
//! # Invariants
//!
//! * **C1** the search looks at each need once, so it ends. At each need, and not at each handler: what the driver
//!   says of a handler may be a part of what it needs.
//! * **C2** the chain of an answer begins and ends with the asker's owner.
//!
//! # Not here
//!
//! Who knows the needs (what is asked about one owner is asked in the order of `blockers`), and how two askers that find the same cycle agree on one of them: the driver. A handler
//! that waits for the first of several calls counts as waiting for each.

use alloc::vec::Vec;

/// A turn that somebody waits for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Need<O> {
    /// Whose turn.
    pub owner: O,
    /// For which call; 0 for none in particular.
    pub call: u64,
}

/// The handler that is about to wait.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Asker<O> {
    /// The handler.
    pub handler: usize,
    /// Its object.
    pub owner: O,
    /// The owner of the gate it holds.
    pub gate: O,
    /// Whether it would keep that gate.
    pub keeps: bool,
    /// Whether its object starts nothing before it has ended.
    pub claims: bool,
    /// The call it serves; 0 for none.
    pub serves: u64,
    /// The call that is about to be answered, whatever the asker does: who waits for it waits no more. 0 for none.
    pub answers: u64,
}

/// A handler that waits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Waiter<O> {
    /// The handler.
    pub handler: usize,
    /// Whether it keeps its gate meanwhile.
    pub keeps: bool,
    /// What it waits for.
    pub needs: Vec<Need<O>>,
}

/// What the driver knows of who waits.
pub trait Look {
    /// How owners are named.
    type Owner: Clone + Eq;

    /// The handler of `owner` that serves `call` and waits.
    fn serving(&self, owner: &Self::Owner, call: u64) -> Option<Waiter<Self::Owner>>;
    /// The owner of the gate that `owner` takes its turns under.
    fn gate(&self, owner: &Self::Owner) -> Self::Owner;
    /// The handlers that wait and keep the gate of `gate`: one, except for what races.
    fn keepers(&self, gate: &Self::Owner) -> Vec<Waiter<Self::Owner>>;
    /// The handlers of `owner` that wait and have its claim.
    fn claimants(&self, owner: &Self::Owner) -> Vec<Waiter<Self::Owner>>;
    /// The Spots whose turns a pending Join of `owner` needs.
    fn joining(&self, owner: &Self::Owner) -> Vec<Self::Owner>;
}

/// A need that was met on the way, and the one that led to it.
struct Step<O> {
    need: Need<O>,
    from: Option<usize>,
}

/// The cycle that the asker's wait for `target` would close, as the chain of owners in it; `None` if there is none.
#[must_use]
pub fn closing<L: Look>(asker: &Asker<L::Owner>, target: Need<L::Owner>, look: &L) -> Option<Vec<L::Owner>> {
    let mut steps = Vec::from([Step { need: target, from: None }]);
    let mut next = 0;
    while next < steps.len() {
        let Some(blockers) = blockers(asker, &steps[next].need, look) else {
            return Some(chain(asker, &steps, next));
        };
        let mut needs = blockers.needs;
        for waiter in blockers.waiters {
            if waiter.handler != asker.handler {
                needs.extend(waiter.needs);
            }
        }
        for need in needs {
            if steps.iter().all(|step| step.need != need) {
                steps.push(Step { need, from: Some(next) });
            }
        }
        next += 1;
    }
    None
}

/// What a need hangs on.
struct Blockers<O> {
    waiters: Vec<Waiter<O>>,
    needs: Vec<Need<O>>,
}

/// What a need hangs on; `None` if that is the asker itself.
fn blockers<L: Look>(asker: &Asker<L::Owner>, need: &Need<L::Owner>, look: &L) -> Option<Blockers<L::Owner>> {
    if need.call != 0 {
        if need.call == asker.serves {
            return None;
        }
        if let Some(handler) = look.serving(&need.owner, need.call) {
            return served(asker, need, handler, look);
        }
        if need.call == asker.answers {
            return Some(Blockers { waiters: Vec::new(), needs: Vec::new() });
        }
    }
    if asker.claims && need.owner == asker.owner {
        return None;
    }
    // Before the claimants: a Join that begins says what it waits for first and takes its announcement back then.
    let needs = look.joining(&need.owner).into_iter().map(|owner| Need { owner, call: 0 }).collect();
    let gate = look.gate(&need.owner);
    if asker.keeps && gate == asker.gate {
        return None;
    }
    let mut waiters = look.claimants(&need.owner);
    waiters.extend(look.keepers(&gate));
    Some(Blockers { waiters, needs })
}

/// What a need hangs on whose call is being handled by a handler that waits.
fn served<L: Look>(
    asker: &Asker<L::Owner>,
    need: &Need<L::Owner>,
    handler: Waiter<L::Owner>,
    look: &L,
) -> Option<Blockers<L::Owner>> {
    if handler.handler == asker.handler {
        return None;
    }
    let mut waiters = Vec::new();
    if !handler.keeps {
        let gate = look.gate(&need.owner);
        if asker.keeps && gate == asker.gate {
            return None;
        }
        waiters = look.keepers(&gate);
    }
    waiters.push(handler);
    Some(Blockers { waiters, needs: Vec::new() })
}

fn chain<O: Clone + Eq>(asker: &Asker<O>, steps: &[Step<O>], last: usize) -> Vec<O> {
    let mut owners = Vec::from([asker.owner.clone()]);
    let mut at = Some(last);
    while let Some(step) = at.map(|at| &steps[at]) {
        owners.push(step.need.owner.clone());
        at = step.from;
    }
    owners.push(asker.owner.clone());
    owners.reverse();
    owners.dedup();
    owners
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// A handler that waits, in a world where owner and gate are small numbers.
    struct Handler {
        number: usize,
        owner: u32,
        serves: u64,
        keeps: bool,
        needs: Vec<(u32, u64)>,
    }

    #[derive(Default)]
    struct World {
        /// Member and its Spot, whose gate it is under.
        members: Vec<(u32, u32)>,
        joins: Vec<(u32, Vec<u32>)>,
        handlers: Vec<Handler>,
    }

    impl World {
        fn handler(mut self, owner: u32, serves: u64, keeps: bool, needs: &[(u32, u64)]) -> Self {
            let number = self.handlers.len() + 1;
            self.handlers.push(Handler { number, owner, serves, keeps, needs: needs.to_vec() });
            self
        }

        fn member(mut self, actor: u32, spot: u32) -> Self {
            self.members.push((actor, spot));
            self
        }

        fn waiters(&self, which: impl Fn(&&Handler) -> bool) -> Vec<Waiter<u32>> {
            let waiter = |handler: &Handler| Waiter {
                handler: handler.number,
                keeps: handler.keeps,
                needs: handler.needs.iter().map(|&(owner, call)| Need { owner, call }).collect(),
            };
            self.handlers.iter().filter(which).map(waiter).collect()
        }

        fn asks(&self, asker: &Asker<u32>, owner: u32) -> Option<Vec<u32>> {
            closing(asker, Need { owner, call: 99 }, self)
        }
    }

    impl Look for World {
        type Owner = u32;

        fn serving(&self, owner: &u32, call: u64) -> Option<Waiter<u32>> {
            self.waiters(|handler| handler.owner == *owner && handler.serves == call).pop()
        }
        fn gate(&self, owner: &u32) -> u32 {
            self.members.iter().find(|(actor, _)| actor == owner).map_or(*owner, |(_, spot)| *spot)
        }
        fn keepers(&self, gate: &u32) -> Vec<Waiter<u32>> {
            self.waiters(|handler| handler.keeps && self.gate(&handler.owner) == *gate)
        }
        fn claimants(&self, owner: &u32) -> Vec<Waiter<u32>> {
            let is_member = self.members.iter().any(|(actor, _)| actor == owner);
            self.waiters(|handler| is_member && handler.owner == *owner)
        }
        fn joining(&self, owner: &u32) -> Vec<u32> {
            self.joins
                .iter()
                .filter(|(actor, _)| actor == owner)
                .flat_map(|(_, spots)| spots.clone())
                .collect()
        }
    }

    /// A handler of `owner` under its own gate that would keep it.
    fn asker(owner: u32, serves: u64) -> Asker<u32> {
        Asker { handler: 1000, owner, gate: owner, keeps: true, claims: false, serves, answers: 0 }
    }

    /// A handler of a member of `spot` that yields.
    fn yielding_member(owner: u32, spot: u32, serves: u64) -> Asker<u32> {
        Asker { handler: 1000, owner, gate: spot, keeps: false, claims: true, serves, answers: 0 }
    }

    #[test]
    fn reent_5_a_chain_that_comes_back_is_a_cycle_of_its_owners() {
        for length in 2..6_u32 {
            let mut world = World::default();
            for owner in 1..length {
                world = world.handler(owner, u64::from(owner), true, &[(owner + 1, u64::from(owner) + 1)]);
            }
            let found = world.asks(&asker(length, u64::from(length)), 1);
            let wanted: Vec<u32> = core::iter::once(length).chain(1..=length).collect();
            assert_eq!(found, Some(wanted));
            assert_eq!(world.asks(&asker(length, u64::from(length)), 77), None, "another target is free");
        }
    }

    #[test]
    fn reent_5_two_chains_that_cross_are_a_cycle() {
        let world = World::default().handler(1, 0, true, &[(2, 7)]);
        assert_eq!(world.asks(&asker(2, 0), 1), Some(vec![2, 1, 2]));
        assert_eq!(world.asks(&asker(3, 0), 1), None, "who waits behind a cycle is not in it");
    }

    #[test]
    fn reent_5_a_yielded_handler_of_a_spot_is_in_nobodys_way() {
        // 1 has yielded for 2; a new call to 1 runs at once.
        let world = World::default().handler(1, 0, false, &[(2, 7)]);
        assert_eq!(world.asks(&asker(2, 0), 1), None);
    }

    #[test]
    fn reent_5_a_yielded_handler_hands_its_caller_on() {
        // 3 keeps its gate for call 5 at 1, which has yielded for call 7 at 2, which asks 3.
        let world = World::default().handler(3, 0, true, &[(1, 5)]).handler(1, 5, false, &[(2, 7)]);
        assert_eq!(world.asks(&asker(2, 7), 3), Some(vec![2, 3, 1, 2]));
        assert_eq!(world.asks(&asker(2, 8), 3), Some(vec![2, 3, 1, 2]), "call 7 is queued behind the asker");
        assert_eq!(world.asks(&asker(4, 8), 3), None, "who is not in it may wait behind it");
    }

    #[test]
    fn reent_5_a_yielded_handler_needs_its_gate_again() {
        // 1 is a member of 10 and has yielded for call 7 at 2, in call 5 of 3, which keeps its own gate.
        let world =
            World::default().member(1, 10).handler(3, 6, true, &[(1, 5)]).handler(1, 5, false, &[(2, 7)]);
        assert_eq!(world.asks(&asker(10, 0), 3), Some(vec![10, 3, 1, 10]), "it could not go on");
        assert_eq!(world.asks(&Asker { keeps: false, ..asker(10, 0) }, 3), None);
        assert_eq!(world.asks(&asker(4, 0), 3), None);
        // The gate is kept by one that waits for 4.
        let world = world.handler(10, 0, true, &[(4, 8)]);
        assert_eq!(world.asks(&asker(4, 8), 3), Some(vec![4, 3, 1, 4]));
    }

    #[test]
    fn reent_5_a_ring_of_yielding_members_hangs_on_their_claims() {
        let world = World::default()
            .member(1, 10)
            .member(2, 10)
            .member(3, 10)
            .handler(1, 0, false, &[(2, 5)])
            .handler(2, 5, false, &[(3, 6)]);
        assert_eq!(world.asks(&yielding_member(3, 10, 6), 1), Some(vec![3, 1, 2, 3]));
        assert_eq!(world.asks(&yielding_member(3, 10, 6), 10), None, "the Spot itself is free");
    }

    #[test]
    fn reent_5_a_pending_join_needs_a_turn_of_its_spots() {
        // 1 is about to join 10; 10 would wait for it with the gate kept.
        let mut world = World { joins: vec![(1, vec![10, 20])], ..World::default() };
        assert_eq!(world.asks(&asker(10, 0), 1), Some(vec![10, 1, 10]));
        let yields = Asker { keeps: false, ..asker(10, 0) };
        assert_eq!(world.asks(&yields, 1), None, "with the gate free the Join goes on");
        // 20, the source, waits for 2, which asks 1.
        world = world.handler(20, 0, true, &[(2, 5)]);
        assert_eq!(world.asks(&asker(2, 5), 1), Some(vec![2, 1, 20, 2]));
    }

    #[test]
    fn reent_5_who_is_about_to_be_answered_is_in_nobodys_way() {
        // 10 keeps its gate for call 5 at 1, whose handler ends and leaves a Join to 10 behind.
        let world = World::default().handler(10, 0, true, &[(1, 5)]);
        let join = Asker { keeps: false, claims: true, answers: 5, ..asker(1, 0) };
        assert_eq!(world.asks(&join, 10), None);
        let world = world.handler(10, 0, true, &[(1, 6)]);
        assert_eq!(world.asks(&join, 10), Some(vec![1, 10, 1]), "another call is queued behind the Join");
    }

    #[test]
    fn reent_5_a_graph_with_a_cycle_of_others_is_searched_to_its_end() {
        let world = World::default().handler(1, 0, true, &[(2, 0)]).handler(2, 0, true, &[(1, 0)]);
        assert_eq!(world.asks(&asker(3, 0), 1), None);
    }
}
