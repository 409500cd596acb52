//! Everything that a trace can say, as one closed list.
//!
//! The codes and the order of the fields are the format: a change of either is a new version. Each event says in
//! which order it stands to what it reports, because the checker relies on that: *before* means that the event is
//! recorded before others can see the change, *after* that it is recorded by whoever has just made it.

use std::fmt;

use crate::field::{
    Field, Fields, How, JoinId, Kind, Lane, Late, Malformed, ObjectId, Outcome, RecordId, Scope, Stage, Text,
    TimerId, WaitEnd, Why,
};

macro_rules! events {
    ($($(#[$meta:meta])* $code:literal $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        /// One thing that happened. The fields are what their names say; times are in nanoseconds.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum Event {
            $(
                $(#[$meta])*
                #[allow(missing_docs, reason = "the fields are named after what they hold")]
                $name { $($field: $type),* },
            )*
        }

        impl Event {
            /// The number of the event in the format.
            #[must_use]
            pub const fn code(&self) -> u64 {
                match self { $(Self::$name { .. } => $code,)* }
            }

            pub(crate) const fn parts(&self) -> u8 {
                match self { $(Self::$name { .. } => <[&str]>::len(&[$(stringify!($field)),*]) as u8,)* }
            }

            #[inline]
            pub(crate) fn put(&self, into: &mut Vec<u8>) {
                match self { $(Self::$name { $($field),* } => { $($field.put(into);)* })* }
            }

            pub(crate) fn take(code: u64, from: &mut Fields<'_>) -> Result<Self, Malformed> {
                match code {
                    $($code => Ok(Self::$name { $($field: <$type as Field>::take(from)?),* }),)*
                    _ => Err(Malformed("no such event")),
                }
            }
        }

        impl fmt::Display for Event {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name { $($field),* } => {
                        f.write_str(stringify!($name))?;
                        $(write!(f, " {}={}", stringify!($field), $field)?;)*
                        Ok(())
                    })*
                }
            }
        }

        /// Code, name, and the fields of every event in their order, as `docs/trace.md` lists them.
        pub const LAYOUT: &[(u64, &str, &[(&str, &str)])] = &[
            $(($code, stringify!($name), &[$((stringify!($field), <$type as Field>::TYPE)),*]),)*
        ];
    };
}

events! {
    /// The node runs from here on.
    10 NodeBegan { workers: u64 }
    /// The node has ended; `forced`: with work left that was cancelled.
    11 NodeEnded { forced: bool }
    /// An object exists. Before anybody can find it.
    12 Named { object: ObjectId, kind: Kind, type_name: Text, id: Text, shares_gate: bool, claims: bool,
        application_records: u64, application_bytes: u64, lifecycle_records: u64, lifecycle_bytes: u64,
        budget_ns: u64 }
    /// The object takes messages.
    13 Made { object: ObjectId }
    /// The object has ended. After its waiting handlers were dropped, before its queued records are refused.
    14 Ended { object: ObjectId, why: Why }

    /// A record is admitted to a lane; `by`: the activation that sent it. After the admission, before the append.
    /// `from_line`: on behalf of the first who waited. `reserved` is 0 for a record that needs no room.
    20 Accepted { object: ObjectId, lane: Lane, record: RecordId, reserved: u64, by: RecordId, from_line: bool }
    /// A record was not admitted.
    21 Refused { object: ObjectId, lane: Lane, record: RecordId, why: Why }
    /// A record stands in line for room. With the line locked.
    22 Waiting { object: ObjectId, lane: Lane, record: RecordId, by: RecordId }
    /// A record left the line without room. With the line locked.
    23 LeftLine { object: ObjectId, lane: Lane, record: RecordId }
    /// The holder has put an accepted record into its lane: the lane's order.
    24 Appended { object: ObjectId, record: RecordId }
    /// A record waits in a place of its own: no lane.
    25 Staged { object: ObjectId, record: RecordId, stage: Stage }
    /// An accepted record will not run; whoever waits for it is told.
    26 Discarded { object: ObjectId, record: RecordId, why: Why }
    /// A reservation goes back. Before others can use the room.
    27 GivenBack { object: ObjectId, record: RecordId, bytes: u64 }
    /// The object takes no more records.
    28 Sealed { object: ObjectId }
    /// The seal was undone.
    29 Unsealed { object: ObjectId }
    /// An accepted record leaves a sealed object unrun, to be run elsewhere.
    30 HandedOver { object: ObjectId, record: RecordId }

    /// A turn begins: the first one of its record.
    40 Begun { gate: ObjectId, grant: u64, object: ObjectId, record: RecordId, lane: Lane }
    /// A turn begins: a yielded handler goes on.
    41 Resumed { gate: ObjectId, grant: u64, object: ObjectId, record: RecordId }
    /// A handler that kept the gate goes on.
    42 WentOn { gate: ObjectId, grant: u64, record: RecordId }
    /// A poll is over.
    43 Stopped { gate: ObjectId, grant: u64, record: RecordId, how: How }
    /// The wait of a yielded handler has ended. Before its resume can come up.
    44 ResumeQueued { gate: ObjectId, record: RecordId }
    /// A resume has its place at the back of the gate's queue.
    45 ResumePlaced { gate: ObjectId, record: RecordId }
    /// A resume came up whose handler was dropped.
    46 ResumeGone { gate: ObjectId, record: RecordId }
    /// A ready member has its place at the back of the gate's queue.
    47 MemberPlaced { gate: ObjectId, object: ObjectId }
    /// A member's place came up and it had nothing to run.
    48 MemberPassed { gate: ObjectId, object: ObjectId }
    /// A waiting handler was dropped: its object ends.
    49 Cancelled { object: ObjectId, record: RecordId }
    /// An object keeps its queue closed: one of its handlers yielded.
    50 ClaimTaken { object: ObjectId, record: RecordId }
    /// The queue is open again.
    51 ClaimReleased { object: ObjectId }
    /// The budget is used up: the gate stands behind the others.
    52 StoodBehind { gate: ObjectId }
    /// The object takes its turns under another gate from now on.
    53 Moved { object: ObjectId, gate: ObjectId }
    /// User code of the running turn panicked.
    54 Panicked { object: ObjectId, record: RecordId }

    /// A turn waits for the answer to a request. Before the request is offered.
    60 WaitBegan { record: RecordId, object: ObjectId, gate: ObjectId, request: RecordId, target: ObjectId,
        target_gate: ObjectId, yields: bool }
    /// It waits no longer.
    61 WaitEnded { request: RecordId, end: WaitEnd }
    /// An answer came that nobody waited for.
    62 Answered { request: RecordId, late: bool }

    /// An Actor is in a Spot, out of the one it was in (0: it is new). With the memberships locked.
    70 Entered { object: ObjectId, from: ObjectId, spot: ObjectId }
    /// An Actor that has ended is in no Spot. With the memberships locked.
    71 Left { object: ObjectId, spot: ObjectId }
    /// A handler registered a Join of an Actor (`by` 0: the creation of an Actor in a Spot).
    72 JoinRegistered { join: JoinId, object: ObjectId, by: RecordId }
    /// The handler that registered Joins is over.
    73 ScopeEnded { record: RecordId, scope: Scope }
    /// No application record of the Actor may start. Before it counts.
    74 HoldTaken { object: ObjectId, join: JoinId, gate: ObjectId }
    /// One reason less. Before it counts.
    75 HoldReleased { object: ObjectId, join: JoinId }
    /// The move is under way, in a turn of the Actor.
    76 JoinBegan { join: JoinId, object: ObjectId }
    /// The target is about to be asked.
    77 JoinAsked { join: JoinId, target: ObjectId }
    /// The membership has changed.
    78 JoinCommitted { join: JoinId, object: ObjectId, spot: ObjectId }
    /// The target's `on_joined_actor` begins.
    79 JoinedCalled { join: JoinId }
    /// The source's `on_leave_actor` begins.
    80 LeaveCalled { join: JoinId }
    /// The Actor's completion callback begins.
    81 JoinCompleted { join: JoinId, outcome: Outcome }

    /// A timer is registered.
    90 TimerRegistered { timer: TimerId, object: ObjectId, name: Text, first_ns: u64, period_ns: u64, late: Late }
    /// A timer was replaced by another of its name.
    91 TimerReplaced { timer: TimerId, by: TimerId }
    /// A tick is due, and this record is made for it, which needs no room. Before it is offered.
    93 TickQueued { timer: TimerId, record: RecordId }
    /// The turn of a tick, with its numbers.
    94 TickBegan { timer: TimerId, record: RecordId, delivery: u64, scheduled: u64, skipped: u64 }
    /// A timer is over: cancelled, or it has ticked for the last time. May be told twice.
    95 TimerCancelled { timer: TimerId }
}
