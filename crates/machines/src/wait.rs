//! Which waits are allowed where: self-calls, own gates, yields.
//!
//! Every rule is decided before anything is submitted. Cycles of several waits are `cycle`'s. Keys are opaque numbers that the driver gives to
//! owners and gates; two are equal when they mean the same one.

/// The identity of an owner or of a gate, as the driver numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key(pub usize);

/// How the caller would wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Manner {
    /// Keeping the gate.
    Ordinary,
    /// Giving the gate up meanwhile.
    Yield,
}

/// The turn that wants to wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Asker {
    /// The object whose handler runs.
    pub owner: Key,
    /// The gate it holds.
    pub gate: Key,
    /// Whether handlers of this context may yield (a shared gate, and no lifecycle callback).
    pub may_yield: bool,
}

/// What it wants to wait for, when that is an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// The object asked.
    pub owner: Key,
    /// The gate it runs under now.
    pub gate: Key,
    /// Whether this very handler has registered a Join of it.
    pub join_registered: bool,
}

/// Why a wait is refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The object would wait for itself (REENT-1).
    SelfCall,
    /// The target runs under the gate this turn holds (REENT-2).
    OwnGate,
    /// This handler has registered a Join of the target, which starts only after it (JOIN-10).
    JoinRegistered,
    /// This context does not yield (YIELD-2).
    NoYield,
}

/// Whether `asker` may wait for `target` (`None`: work that needs no gate).
///
/// # Errors
///
/// The first rule that forbids it.
pub fn may_wait(asker: Asker, manner: Manner, target: Option<Target>) -> Result<(), Refused> {
    if manner == Manner::Yield && !asker.may_yield {
        return Err(Refused::NoYield);
    }
    let Some(target) = target else { return Ok(()) };
    if target.join_registered {
        return Err(Refused::JoinRegistered);
    }
    // A Spot that yields may ask itself: its gate is free meanwhile. An Actor keeps its claim, so it may not.
    let own_spot = asker.owner == asker.gate;
    if target.owner == asker.owner && !(own_spot && manner == Manner::Yield) {
        return Err(Refused::SelfCall);
    }
    if manner == Manner::Ordinary && target.gate == asker.gate {
        return Err(Refused::OwnGate);
    }
    Ok(())
}

/// Whether a turn that holds `gate` may wait for room in a lane of an owner under `target_gate`.
///
/// Only the end of this turn could make that room, so waiting would be for ever (REENT-4).
#[must_use]
pub fn may_wait_for_room(gate: Key, target_gate: Key) -> bool {
    gate != target_gate
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOT: Key = Key(1);
    const MEMBER: Key = Key(2);
    const OTHER_MEMBER: Key = Key(3);
    const ELSEWHERE: Key = Key(9);

    fn member() -> Asker {
        Asker { owner: MEMBER, gate: SPOT, may_yield: true }
    }

    fn spot() -> Asker {
        Asker { owner: SPOT, gate: SPOT, may_yield: true }
    }

    fn own_gate_actor() -> Asker {
        Asker { owner: MEMBER, gate: MEMBER, may_yield: false }
    }

    fn target(owner: Key, gate: Key) -> Option<Target> {
        Some(Target { owner, gate, join_registered: false })
    }

    #[test]
    fn reent_1_an_actor_never_waits_for_itself() {
        for manner in [Manner::Ordinary, Manner::Yield] {
            assert_eq!(may_wait(member(), manner, target(MEMBER, SPOT)), Err(Refused::SelfCall));
        }
        assert_eq!(
            may_wait(own_gate_actor(), Manner::Ordinary, target(MEMBER, MEMBER)),
            Err(Refused::SelfCall)
        );
    }

    #[test]
    fn reent_2_no_ordinary_wait_on_the_gate_one_holds() {
        assert_eq!(may_wait(member(), Manner::Ordinary, target(SPOT, SPOT)), Err(Refused::OwnGate));
        assert_eq!(may_wait(member(), Manner::Ordinary, target(OTHER_MEMBER, SPOT)), Err(Refused::OwnGate));
        assert_eq!(may_wait(spot(), Manner::Ordinary, target(SPOT, SPOT)), Err(Refused::SelfCall));
        assert_eq!(may_wait(own_gate_actor(), Manner::Ordinary, target(SPOT, SPOT)), Ok(()));
        assert_eq!(may_wait(member(), Manner::Ordinary, target(ELSEWHERE, ELSEWHERE)), Ok(()));
    }

    #[test]
    fn reent_3_a_yielding_ask_to_the_own_spot_is_allowed() {
        assert_eq!(may_wait(spot(), Manner::Yield, target(SPOT, SPOT)), Ok(()));
        assert_eq!(may_wait(member(), Manner::Yield, target(SPOT, SPOT)), Ok(()));
        assert_eq!(may_wait(member(), Manner::Yield, target(OTHER_MEMBER, SPOT)), Ok(()));
    }

    #[test]
    fn reent_4_room_under_the_own_gate_is_not_waited_for() {
        assert!(!may_wait_for_room(SPOT, SPOT));
        assert!(may_wait_for_room(SPOT, ELSEWHERE));
    }

    #[test]
    fn yield_2_a_context_that_cannot_yield_is_refused_first() {
        assert_eq!(
            may_wait(own_gate_actor(), Manner::Yield, target(ELSEWHERE, ELSEWHERE)),
            Err(Refused::NoYield)
        );
        assert_eq!(may_wait(own_gate_actor(), Manner::Yield, None), Err(Refused::NoYield));
        assert_eq!(may_wait(member(), Manner::Yield, None), Ok(()));
    }

    #[test]
    fn join_10_no_wait_on_an_actor_that_this_handler_sends_away() {
        let leaving = Some(Target { owner: OTHER_MEMBER, gate: ELSEWHERE, join_registered: true });
        for manner in [Manner::Ordinary, Manner::Yield] {
            assert_eq!(may_wait(spot(), manner, leaving), Err(Refused::JoinRegistered));
        }
    }
}
