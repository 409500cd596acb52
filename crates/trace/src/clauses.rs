//! The clauses of the contract that the checker looks at, and what of each it can see.

/// A clause and what is checked of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clause {
    /// Its number in the contract.
    pub id: &'static str,
    /// What of it a trace shows.
    pub checked: &'static str,
}

macro_rules! clauses {
    ($($id:literal $checked:literal)*) => {
        /// Every clause that the checker can name.
        pub const CLAUSES: &[Clause] = &[$(Clause { id: $id, checked: $checked }),*];
    };
}

clauses! {
    "GATE-1" "no turn begins under a gate while another runs there, nor of an object that runs elsewhere"
    "GATE-3" "a message of a member starts under the gate of the Spot that shares it"
    "GATE-5" "a message of an Actor elsewhere starts under its own gate"
    "GATE-7" "nothing begins under a gate that a waiting handler keeps"
    "GATE-8" "records of a lane start in the order they were appended, and one sender's are appended as accepted"
    "GATE-9" "grants of a gate rise; what goes on or stops has the live one"
    "LANE-1" "accepted and unreturned records and bytes never exceed the limits"
    "LANE-2" "a metered record reserves 256 bytes at least, an application record always"
    "LANE-3" "a reservation goes back once, whole, while its handler runs or is dropped, and before it is over"
    "LANE-5" "a refused record is never appended, begun or given back"
    "LANE-6" "those who wait for room are served first come, first served"
    "LANE-7" "nothing is appended or run after the last record or the end; all that was accepted is run or told"
    "LANE-8" "with both lanes ready and no debt, lifecycle starts"
    "LANE-9" "with both lanes ready and a debt, application starts; the exact table, an object at a time"
    "LANE-11" "nothing passes what stood before it in the queue of a gate; nothing runs that stood nowhere"
    "LANE-12" "a member has one place in its Spot's queue and runs one record for it, in its order"
    "YIELD-1" "a message yields only under a gate that is shared"
    "YIELD-5" "nothing of a member starts while its yielded handler is unfinished"
    "YIELD-6" "a resume is queued once, placed at the back, and runs in its order as a turn of its own"
    "YIELD-8" "a handler goes on only under the gate: kept and not given up, or resumed"
    "YIELD-9" "no handler of an ended object is resumed"
    "YIELD-10" "no claim is left when the handler has ended"
    "REENT-1" "no Actor waits for itself"
    "REENT-2" "no ordinary wait for an object under the gate that the turn holds"
    "REENT-5" "no wait closes a ring through kept gates and claims"
    "JOIN-2" "no Join starts before its handler has ended"
    "JOIN-3" "no Join starts whose handler ended badly"
    "JOIN-4" "each Join that began has one completion, unless the Actor ended"
    "JOIN-6" "commit, on_joined_actor, on_leave_actor, completion: in this order, each at most once; one Spot at a time"
    "JOIN-7" "no message accepted during the move starts before the completion callback"
    "JOIN-8" "a Join of the Spot one is in asks nobody"
    "JOIN-11" "no message of the moved Actor starts during the hold; a handler's Joins run in their order"
    "TIMER-1" "two ticks of one timer never overlap"
    "TIMER-2" "delivery indexes rise by one, scheduled indexes by one and what was skipped"
    "TIMER-3" "no tick of a timer that was replaced or cancelled starts"
    "TIMER-4" "a timer has at most one tick pending"
    "DONE-1" "each wait ends once"
}

/// Whether the checker can name a clause.
#[must_use]
pub fn is_checked(id: &str) -> bool {
    CLAUSES.iter().any(|clause| clause.id == id)
}
