//! What a Join is told, what it asks for and where it can be: values only.

/// A Spot, by the number that the driver knows it by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place(pub u64);

/// Why a Join failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// There is no such target.
    NoTarget,
    /// The target's lifecycle lane had no room until the deadline.
    NoRoom,
    /// The deadline passed first.
    Deadline,
    /// A policy forbids it, the target was not asked.
    Policy,
    /// A callback returned an error.
    CallbackFailed,
    /// A callback panicked.
    CallbackPanicked,
    /// The target shuts down.
    ShuttingDown,
    /// The target is nothing that an Actor of this type can join.
    InvalidTarget,
    /// It would have to wait for a turn that waits for the Actor itself (REENT-5).
    WaitCycle,
}

/// What the moved Actor is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    /// It is in the target.
    Accepted,
    /// The target said no.
    Rejected {
        /// Whether the refusal carries a reply.
        reply: bool,
    },
    /// Something failed; where the Actor is then, [`Join::place`](super::Join::place) says.
    Failed(Kind),
}

/// Everything a Join can be told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum News {
    /// It is this Join's turn.
    Started,
    /// The target admitted the Actor and has switched the membership.
    Committed,
    /// The target's admission callback said no.
    Rejected {
        /// Whether with a reply.
        reply: bool,
    },
    /// There was no decision and there will be none.
    Refused(Kind),
    /// The deadline has passed.
    Deadline,
    /// The request was taken back: the target will never decide.
    WithdrawWon {
        /// Whether it had found room in the target's lane.
        had_room: bool,
    },
    /// The target has taken the request: its decision is on the way.
    WithdrawLost,
    /// The target's `on_joined` callback has ended, or cannot run any more.
    JoinedEnded(Result<(), Kind>),
    /// The source's `on_leave` callback has ended.
    LeaveEnded(Result<(), Kind>),
    /// The source is gone: it has no callback to run, now or later.
    SourceGone,
    /// The completion callback has ended.
    CompletionEnded,
    /// The Actor was destroyed or shutdown was forced. Its own callbacks, a running one included, are gone.
    Cancelled,
}

/// What the driver has to do, and to answer with news.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "the driver carries an effect out"]
pub enum Effect {
    /// Ask the place to admit the Actor. Answer: `Committed`, `Rejected` or `Refused`.
    AskAdmission(Place),
    /// Take the request back from the place. Answer, always: `WithdrawWon` or `WithdrawLost`.
    Withdraw(Place),
    /// Run `on_leave` in the place. Answer: `LeaveEnded` or `SourceGone`.
    AskLeave(Place),
    /// Run the Actor's completion callback under the gate of the place. Answer: `CompletionEnded`.
    Complete(Place, Outcome),
    /// Give the Actor's claim up. It is over.
    ReleaseClaim,
}

/// Where a Join is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Registered; its turn has not come.
    Ready,
    /// The request is out.
    Asking,
    /// The request is out and a withdrawal after it.
    Withdrawing,
    /// The withdrawal lost; the decision is on the way.
    Bound,
    /// The Actor is in the target, where `on_joined` runs.
    Joining,
    /// `on_leave` runs in the source.
    Leaving,
    /// The completion callback runs.
    Completing(Outcome),
    /// Nothing is asked any more.
    Finished,
    /// The driver told something that cannot be.
    Broken(&'static str),
}
