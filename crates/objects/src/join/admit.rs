//! The target's and the source's side of a Join: admission, `on_joined_actor`, `on_leave_actor`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use turnkeep_machines::join::Kind;
use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::completion::Completer;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};
use turnkeep_scheduler::waits::Answered;
use turnkeep_trace::field::JoinId;

use crate::caught::caught;
use crate::envelope::{after_panic, panicked};
use crate::error::Failure;
use crate::lifecycle::Lifecycle;
use crate::object::{Departing, object_of};
use crate::report::{Often, brief, report_often};
use crate::spot::{Admission, Joining, Member, Payload, Spot};
use crate::trace;

const OPEN: u8 = 0;
const TAKEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The request, to be decided by whoever takes it first: the target, or the asker that withdraws.
#[derive(Clone)]
pub(super) struct Ticket(Arc<AtomicU8>);

impl Ticket {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU8::new(OPEN)))
    }

    /// The target decides now.
    fn take(&self) -> bool {
        self.0.compare_exchange(OPEN, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The asker takes it back; `false` if the target has decided.
    pub(super) fn withdraw(&self) -> bool {
        self.0.compare_exchange(OPEN, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }
}

/// What the target decided.
pub(super) enum Decision {
    Committed,
    Rejected(Option<Payload>),
    Refused(Kind),
}

/// A request for admission.
pub(crate) struct Admit {
    pub(super) actor: Arc<Owner>,
    pub(super) joining: Joining,
    pub(super) bytes: u64,
    pub(super) number: JoinId,
    pub(super) ticket: Ticket,
    /// The number of the request, for those who look for cycles of waits.
    pub(super) call: u64,
    /// Told when the target's part is over.
    pub(super) heard: Answered,
    pub(super) decided: Completer<Decision>,
    pub(super) joined: Completer<Result<(), Kind>>,
}

/// The record that asks a Spot of type `S`.
pub(super) fn record<S: Spot>(admit: Admit) -> Record {
    Record::lifecycle(admit.bytes, AdmitWork::<S>(admit, PhantomData))
}

struct AdmitWork<S>(Admit, PhantomData<fn() -> S>);

impl<S: Spot> Work for AdmitWork<S> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        let this = work.into_inner();
        if this.0.ticket.is_withdrawn() {
            return start.done(Ending::done());
        }
        start.answer(this.0.call);
        start.run::<S, _>(this.0)
    }

    fn refuse(self, _: &Owner, _: Refusal) {
        let _ = self.0.decided.complete(Decision::Refused(Kind::NoTarget));
    }
}

impl<S: Spot> Job<S> for Admit {
    async fn run(self, access: Access<'_, S>) -> Ending {
        let spot = access.owner_arc();
        let mut turn = Lifecycle::new(access);
        let Self { actor, joining, ticket, heard, decided, joined, number, .. } = self;
        let decision = match caught(S::on_actor_join(&mut turn, &joining)).await {
            Ok(Ok(Admission::Accept)) if spot.is_sealed() => Decision::Refused(Kind::ShuttingDown),
            Ok(Ok(Admission::Accept)) => Decision::Committed,
            Ok(Ok(Admission::Reject(reply))) => Decision::Rejected(reply),
            Ok(Err(failure)) => {
                callback_failed(&spot, "on_actor_join", &failure);
                Decision::Refused(Kind::CallbackFailed)
            }
            Err(panic) => {
                heard.set();
                let _ = decided.complete(Decision::Refused(Kind::CallbackPanicked));
                panicked(&spot, "on_actor_join", &panic);
                return after_panic(&spot);
            }
        };
        let committed = matches!(decision, Decision::Committed);
        // Decision and commit are one step: no look-up comes between, and an Actor that ends finds either its
        // request still its own or itself moved (JOIN-6).
        let in_time = if committed {
            let entered = object_of(&spot).node.membership.enter_if(&actor, &spot, || ticket.take());
            if entered {
                trace::join_committed(&actor, number, &spot);
            }
            entered
        } else {
            ticket.take()
        };
        if !in_time {
            return Ending::done();
        }
        if !committed {
            heard.set();
        }
        let _ = decided.complete(decision);
        if !committed {
            return Ending::done();
        }
        trace::joined_called(&spot, number);
        let ended = caught(S::on_joined_actor(&mut turn, &joining.member)).await;
        heard.set();
        match ended {
            Ok(Ok(())) => {
                let _ = joined.complete(Ok(()));
            }
            Ok(Err(failure)) => {
                callback_failed(&spot, "on_joined_actor", &failure);
                let _ = joined.complete(Err(Kind::CallbackFailed));
            }
            Err(panic) => {
                let _ = joined.complete(Err(Kind::CallbackPanicked));
                panicked(&spot, "on_joined_actor", &panic);
                return after_panic(&spot);
            }
        }
        Ending::done()
    }
}

/// An Actor has left a Spot.
pub(crate) struct Leave {
    pub(crate) member: Member,
    /// Who waits for the callback's end.
    pub(crate) told: Option<(Completer<Result<(), Kind>>, Answered)>,
    /// The number of the Join in a trace; 0 for none.
    pub(crate) number: JoinId,
    /// Dropped when the Spot has been told.
    pub(crate) departing: Option<Departing>,
}

impl Leave {
    /// A member that has ended.
    pub(crate) fn of_the_dead(member: Member) -> Self {
        Self { member, told: None, number: JoinId(0), departing: None }
    }
}

/// The record that tells a Spot of type `S`.
pub(crate) fn leave_record<S: Spot>(leave: Leave) -> Record {
    Record::unmetered(LeaveWork::<S>(leave, PhantomData))
}

struct LeaveWork<S>(Leave, PhantomData<fn() -> S>);

impl<S: Spot> Work for LeaveWork<S> {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<S, _>(this.0)
    }

    /// The Spot is gone; whoever waits learns it from the drop.
    fn refuse(self, _: &Owner, _: Refusal) {}
}

impl<S: Spot> Job<S> for Leave {
    async fn run(self, access: Access<'_, S>) -> Ending {
        let spot = access.owner_arc();
        let mut turn = Lifecycle::new(access);
        let Self { member, told: waiting, number, departing } = self;
        trace::leave_called(&spot, number);
        let (told, ending) = match caught(S::on_leave_actor(&mut turn, &member)).await {
            Ok(Ok(())) => (Ok(()), Ending::done()),
            Ok(Err(failure)) => {
                callback_failed(&spot, "on_leave_actor", &failure);
                (Err(Kind::CallbackFailed), Ending::done())
            }
            Err(panic) => {
                panicked(&spot, "on_leave_actor", &panic);
                (Err(Kind::CallbackPanicked), after_panic(&spot))
            }
        };
        drop(departing);
        if let Some((waiting, heard)) = waiting {
            heard.set();
            let _ = waiting.complete(told);
        }
        ending
    }
}

/// Reports a lifecycle callback that returned an error.
pub(super) fn callback_failed(owner: &Owner, callback: &str, failure: &Failure) {
    let object = object_of(owner);
    report_often(&object.node, Often::FailedCallback, |left_out| {
        let failure = &*brief(failure);
        tracing::error!(%object, callback, failure, left_out, "a lifecycle callback failed");
    });
}
