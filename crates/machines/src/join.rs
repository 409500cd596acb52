//! The steps of one Actor's move from the place where it is to a target.
//!
//! # States
//!
//! ```text
//!  Ready ──Started──► Asking ───────────┬──Committed──► Joining ──► Leaving ──┐
//!    │                  │               │                  │                  │
//!    │       Deadline,  │               │                  └──source gone──┐  │
//!    │       Cancelled  ▼               │                                  ▼  ▼
//!    │              Withdrawing ────────┼──Rejected, Refused, ─────────► Completing ──► Finished
//!    │                  │               │  WithdrawWon                     ▲
//!    │     WithdrawLost ▼               │                                  │
//!    │                Bound ────────────┘                                  │
//!    └──Started, and the target is here, or the deadline has passed────────┘
//! ```
//!
//! Once it is cancelled, an arrow that leads to Completing leads to Finished.
//!
//! # Transitions
//!
//! | state | news | effect | next |
//! |---|---|---|---|
//! | Ready | Started, target ≠ source | AskAdmission | Asking |
//! | Ready | Started, target = source | Complete(Accepted) | Completing |
//! | Ready | Started, the deadline has passed | Complete(Failed(Deadline)) | Completing |
//! | Asking | Deadline or Cancelled | Withdraw | Withdrawing |
//! | Withdrawing | WithdrawWon | Complete(Failed(Deadline or NoRoom)) | Completing |
//! | Withdrawing | WithdrawLost | | Bound |
//! | Asking, Withdrawing, Bound | Committed | | Joining |
//! | Asking, Withdrawing, Bound | Rejected, Refused | Complete(Rejected, Failed) in the source | Completing |
//! | Joining | JoinedEnded | AskLeave | Leaving |
//! | Joining | JoinedEnded, the source is gone | Complete in the target | Completing |
//! | Leaving | LeaveEnded or SourceGone | Complete in the target | Completing |
//! | Completing | CompletionEnded or Cancelled | ReleaseClaim | Finished |
//! | Ready | Cancelled | ReleaseClaim | Finished |
//! | any | Deadline, Cancelled, SourceGone otherwise | | the same, remembered |
//! | any | an answer that comes too late to matter | | the same |
//! | any | an answer to nothing that was asked | | Broken |
//!
//! Once Cancelled is remembered, ReleaseClaim takes the place of Complete.
//!
//! # The race between the commit and the deadline
//!
//! The target switches the membership in the turn in which it decides, and the asker hears of it later. So
//! the asker may not decide alone that its Join has failed: the target could commit in the meantime, and the
//! Actor would complete in the source and live in the target. Both sides take the request from one place, and
//! whoever takes it first decides. The asker's attempt is the effect Withdraw. If it wins, the target will
//! never decide. If it loses, the target has decided or is deciding, and the asker waits for that. News of
//! the decision and of the lost withdrawal may arrive in either order. A cancellation withdraws as well, for
//! the same reason.
//!
//! A commit that won against the deadline is kept. The Join as a whole was late all the same, as it is when
//! the deadline passes during `on_joined` or `on_leave`: its outcome is Failed(Deadline), in the target.
//!
//! # Invariants
//!
//! * **J1** each callback is asked at most once, in the order commit, `on_joined`, `on_leave`, completion
//!   (JOIN-6). `on_joined` is not an effect: the target runs it next after its commit.
//! * **J2** the completion callback is asked once, unless the Join is cancelled before it; then never (JOIN-4).
//! * **J3** it runs in the place where the Actor is: the target after a commit, else the source (JOIN-13).
//! * **J4** the claim is released once, and nothing is asked after it (JOIN-11).
//! * **J5** a commit is never undone; a later failure is the outcome, in the new place (JOIN-12).
//! * **J6** the claim is not released while the target may still commit (JOIN-6).
//! * **J7** a broken machine says why, stays broken and asks nothing.
//!
//! # Not here
//!
//! The row of Joins of one handler (`defer` numbers them; the driver starts the next one before it acts on
//! the release of the one before), the payload and the reply, the clock, where places are and how they are
//! asked. How a completion callback ended is reported where it ran: it changes no membership.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
mod words;

pub use words::{Effect, Kind, News, Outcome, Place, State};

/// What is known of the target's decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Decision {
    NotAsked,
    Awaited,
    Made,
    /// The withdrawal won; a refusal that is told all the same changes nothing.
    Withdrawn,
}

/// The news that are still to come. One that the machine no longer waits for is late, not impossible.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Owed {
    start: bool,
    withdrawal: bool,
    leave: bool,
    completion: bool,
}

/// One Actor's move.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Join {
    source: Place,
    target: Place,
    /// Changes with the transitions above.
    state: State,
    /// Changes with the request, the decision and a won withdrawal.
    decision: Decision,
    /// Set by the effects (`start` from the beginning), cleared by their answers.
    owed: Owed,
    /// Set by the commit, never cleared.
    committed: bool,
    /// The first failure other than a refusal; set at most once.
    failure: Option<Kind>,
    /// Set when the source has gone, never cleared.
    source_gone: bool,
    /// Set by a cancellation, never cleared.
    cancelled: bool,
}

impl Join {
    /// The move of an Actor that is in `source`, not started.
    #[must_use]
    pub const fn new(source: Place, target: Place) -> Self {
        Self {
            source,
            target,
            state: State::Ready,
            decision: Decision::NotAsked,
            owed: Owed { start: true, withdrawal: false, leave: false, completion: false },
            committed: false,
            failure: None,
            source_gone: false,
            cancelled: false,
        }
    }

    /// Where the Join is on its way.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Where the Actor is a member, as far as the Join has been told.
    #[must_use]
    pub const fn place(&self) -> Place {
        if self.committed { self.target } else { self.source }
    }

    /// Tells the Join what has happened; what is to be done about it is the answer.
    #[must_use]
    pub fn on(&mut self, news: News) -> Option<Effect> {
        match (self.state, news) {
            (State::Broken(_), _) => return None,
            (State::Completing(_), News::Deadline | News::SourceGone) => return None,
            (State::Finished, News::Deadline | News::SourceGone | News::Cancelled) => return None,
            _ => {}
        }
        match news {
            News::Started => self.on_started(),
            News::Committed => self.on_committed(),
            News::Rejected { reply } => self.on_no(Outcome::Rejected { reply }),
            News::Refused(kind) => self.on_no(Outcome::Failed(kind)),
            News::Deadline => self.on_deadline(),
            News::WithdrawWon { had_room } => self.on_withdraw_won(had_room),
            News::WithdrawLost => self.on_withdraw_lost(),
            News::JoinedEnded(end) => self.on_joined_ended(end),
            News::LeaveEnded(end) => self.on_leave_ended(end),
            News::SourceGone => self.on_source_gone(),
            News::CompletionEnded => self.on_completion_ended(),
            News::Cancelled => self.on_cancelled(),
        }
    }

    fn on_started(&mut self) -> Option<Effect> {
        if !core::mem::take(&mut self.owed.start) {
            return self.break_down("started twice");
        }
        match self.failure {
            _ if self.state != State::Ready => None,
            _ if self.target == self.source => self.complete(Outcome::Accepted),
            Some(kind) => self.complete(Outcome::Failed(kind)),
            None => {
                self.decision = Decision::Awaited;
                self.step(State::Asking, Effect::AskAdmission(self.target))
            }
        }
    }

    fn on_committed(&mut self) -> Option<Effect> {
        if self.decision != Decision::Awaited {
            return self.break_down("a commit without a request, or after another decision");
        }
        self.decision = Decision::Made;
        self.committed = true;
        self.state = State::Joining;
        None
    }

    fn on_no(&mut self, outcome: Outcome) -> Option<Effect> {
        match self.decision {
            Decision::Awaited => {
                self.decision = Decision::Made;
                self.complete(outcome)
            }
            Decision::Withdrawn => None,
            Decision::NotAsked | Decision::Made => {
                self.break_down("a refusal without a request, or after another decision")
            }
        }
    }

    fn on_deadline(&mut self) -> Option<Effect> {
        self.fail(Kind::Deadline);
        self.withdraw()
    }

    fn on_cancelled(&mut self) -> Option<Effect> {
        self.cancelled = true;
        match self.state {
            State::Ready | State::Completing(_) => self.release(),
            _ => self.withdraw(),
        }
    }

    /// Takes the request back if it is out and has not been taken back yet.
    fn withdraw(&mut self) -> Option<Effect> {
        if self.state != State::Asking {
            return None;
        }
        self.owed.withdrawal = true;
        self.step(State::Withdrawing, Effect::Withdraw(self.target))
    }

    fn on_withdraw_won(&mut self, had_room: bool) -> Option<Effect> {
        if !core::mem::take(&mut self.owed.withdrawal) {
            return self.break_down("a withdrawal won that was not asked for");
        }
        if self.decision != Decision::Awaited {
            return self.break_down("a withdrawal won after the decision");
        }
        self.decision = Decision::Withdrawn;
        self.complete(Outcome::Failed(if had_room { Kind::Deadline } else { Kind::NoRoom }))
    }

    fn on_withdraw_lost(&mut self) -> Option<Effect> {
        if !core::mem::take(&mut self.owed.withdrawal) {
            return self.break_down("a withdrawal lost that was not asked for");
        }
        if self.decision == Decision::Awaited {
            self.state = State::Bound;
        }
        None
    }

    fn on_joined_ended(&mut self, end: Result<(), Kind>) -> Option<Effect> {
        if self.state != State::Joining {
            return self.break_down("`on_joined` ended and was not running");
        }
        self.note(end);
        if self.source_gone {
            return self.complete_moved();
        }
        self.owed.leave = true;
        self.step(State::Leaving, Effect::AskLeave(self.source))
    }

    fn on_leave_ended(&mut self, end: Result<(), Kind>) -> Option<Effect> {
        if !core::mem::take(&mut self.owed.leave) {
            return self.break_down("`on_leave` ended and was not running");
        }
        if self.state != State::Leaving {
            return None;
        }
        self.note(end);
        self.complete_moved()
    }

    fn on_source_gone(&mut self) -> Option<Effect> {
        self.source_gone = true;
        if self.state == State::Leaving { self.complete_moved() } else { None }
    }

    fn on_completion_ended(&mut self) -> Option<Effect> {
        if !core::mem::take(&mut self.owed.completion) {
            return self.break_down("the completion callback ended and was not running");
        }
        if matches!(self.state, State::Completing(_)) { self.release() } else { None }
    }

    /// The last step of an Actor that is in the target.
    fn complete_moved(&mut self) -> Option<Effect> {
        self.complete(self.failure.map_or(Outcome::Accepted, Outcome::Failed))
    }

    fn complete(&mut self, outcome: Outcome) -> Option<Effect> {
        if self.cancelled {
            return self.release();
        }
        self.owed.completion = true;
        self.step(State::Completing(outcome), Effect::Complete(self.place(), outcome))
    }

    fn release(&mut self) -> Option<Effect> {
        self.step(State::Finished, Effect::ReleaseClaim)
    }

    fn step(&mut self, state: State, effect: Effect) -> Option<Effect> {
        self.state = state;
        Some(effect)
    }

    fn note(&mut self, end: Result<(), Kind>) {
        if let Err(kind) = end {
            self.fail(kind);
        }
    }

    /// Keeps the first failure.
    fn fail(&mut self, kind: Kind) {
        self.failure.get_or_insert(kind);
    }

    fn break_down(&mut self, why: &'static str) -> Option<Effect> {
        self.state = State::Broken(why);
        None
    }
}
