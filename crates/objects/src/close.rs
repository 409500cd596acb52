//! Endings on request: close, which lets everything accepted be handled, and destroy, which does not.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::completion::{Completer, Outcome, completion};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};

use crate::call::{begin_wait, check_domain, deadline_ns, noted, too_late};
use crate::caught::caught;
use crate::create::{LifeOf, submit_lifecycle};
use crate::envelope::panicked_for_good;
use crate::error::{Error, ErrorKind, handed_over, not_accepted};
use crate::id::ObjectKind;
use crate::lifecycle::Lifecycle;
use crate::object::object_of;
use crate::report::{Often, brief, report_often};
use crate::spot::{Closing, ClosingReason};

const CLOSE: &str = "close";

type Told = Result<(), Error>;

/// The lifecycle record that asks for the end.
pub(crate) struct CloseWork<K, T> {
    pub(crate) closing: Closing,
    pub(crate) told: Completer<Told>,
    pub(crate) object: Arc<Owner>,
    pub(crate) _kind: PhantomData<fn() -> (K, T)>,
}

impl<K: LifeOf<T>, T: Any + Send> Work for CloseWork<K, T> {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        if let Some(error) = this.objection() {
            let _ = this.told.complete(Err(error));
            return start.done(Ending::done());
        }
        if let Some(timers) = object_of(&this.object).any_timers() {
            // No tick starts from the seal on (TIMER-3).
            timers.cancel_all();
        }
        // Handlers of members that yield under its gate are told, too (YIELD-9).
        let object = object_of(&this.object);
        object.node.membership.members(this.object.key()).iter().for_each(|member| member.wake_yields());
        let last = LastWork::<K, T> {
            closing: this.closing,
            told: this.told,
            object: this.object,
            _kind: PhantomData,
        };
        start.done(Ending::seal(Record::unmetered(last)))
    }

    fn refuse(self, _: &Owner, why: Refusal) {
        let _ = self.told.complete(Err(not_accepted(object_of(&self.object), CLOSE, why)));
    }
}

impl<K, T> CloseWork<K, T> {
    fn objection(&self) -> Option<Error> {
        let object = object_of(&self.object);
        if self.object.is_sealed() {
            let text = "it is closing already; wait for its end, or find it again by its id";
            return Some(Error::new(ErrorKind::NotFound, object, CLOSE, text));
        }
        if self.object.is_handed_over() {
            return Some(handed_over(object, CLOSE));
        }
        if self.closing.reason == ClosingReason::Requested
            && let Some(error) = never_ends(&self.object, CLOSE)
        {
            return Some(error);
        }
        let members = object.node.membership.count(self.object.key());
        if object.kind == ObjectKind::Spot && members > 0 && self.closing.reason == ClosingReason::Requested {
            let text = format!("{members} Actors are in it; move or close them first");
            return Some(Error::new(ErrorKind::InvalidOperation, object, CLOSE, &text));
        }
        None
    }
}

/// The Entry Spot ends with its node and not before.
fn never_ends(owner: &Arc<Owner>, operation: &str) -> Option<Error> {
    let object = object_of(owner);
    object.node.entry().filter(|entry| Arc::ptr_eq(entry, owner)).map(|_| {
        let text = "it is the node's Entry Spot, which ends with the node; shut the node down instead";
        Error::new(ErrorKind::InvalidOperation, object, operation, text)
    })
}

/// The last record of an object: `on_closing`, then the end.
struct LastWork<K, T> {
    closing: Closing,
    told: Completer<Told>,
    object: Arc<Owner>,
    _kind: PhantomData<fn() -> (K, T)>,
}

impl<K: LifeOf<T>, T: Any + Send> Work for LastWork<K, T> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        let this = work.into_inner();
        if this.closing.reason == ClosingReason::Shutdown {
            start.serve(this.closing.deadline_ns, 0);
        }
        start.run::<T, _>(LastTurn::<K> { closing: this.closing, told: this.told, _kind: PhantomData })
    }

    fn refuse(self, _: &Owner, _: Refusal) {
        // Ended in another way meanwhile: it is gone, which is what was asked for.
        let _ = self.told.complete(Ok(()));
        drop(self.object);
    }
}

struct LastTurn<K> {
    closing: Closing,
    told: Completer<Told>,
    _kind: PhantomData<fn() -> K>,
}

impl<K: LifeOf<T>, T: Any + Send> Job<T> for LastTurn<K> {
    async fn run(self, access: Access<'_, T>) -> Ending {
        let owner = access.owner_arc();
        let reason = self.closing.reason;
        let mut turn = Lifecycle::new(access);
        if let Some(timers) = object_of(&owner).any_timers() {
            timers.own_ticks_end().await;
        }
        let told = match caught(K::on_closing(&mut turn, self.closing)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                let object = object_of(&owner);
                report_often(&object.node, Often::FailedCallback, |left_out| {
                    let failure = &*brief(&failure);
                    tracing::error!(%object, failure, left_out, "on_closing failed; the object is gone all the same");
                });
                let text = format!("on_closing failed: {failure}; the object is gone all the same");
                Err(Error::new(ErrorKind::InternalFailure, object, CLOSE, &text))
            }
            Err(panic) => Err(panicked_for_good(&owner, "on_closing", &panic)),
        };
        object_of(&owner).set_closed(reason);
        let _ = self.told.complete(told);
        Ending::end(Refusal::Ended)
    }
}

/// Closes an object and waits until it is gone.
pub(crate) async fn close<K: LifeOf<T>, T: Any + Send>(owner: Arc<Owner>) -> Result<(), Error> {
    let object = object_of(&owner);
    check_domain(object, CLOSE)?;
    let mut waiting = begin_wait(Manner::Ordinary, &owner, 0, CLOSE)?;
    noted(&mut waiting, Manner::Ordinary, CLOSE, closed::<K, T>(&owner)).await?
}

async fn closed<K: LifeOf<T>, T: Any + Send>(owner: &Arc<Owner>) -> Result<(), Error> {
    let object = object_of(owner);
    let due = deadline_ns(object.node.config.ask_timeout);
    let (told, wait) = completion();
    let work = CloseWork::<K, T> { closing: requested(due), told, object: owner.clone(), _kind: PhantomData };
    submit_lifecycle(owner, Record::lifecycle(0, work), due, Manner::Ordinary, CLOSE).await?;
    match wait.with_deadline(due).await {
        Outcome::Done(told) => {
            if object.end().is_some() || owner.is_sealed() {
                object.wait_for_end().await;
            }
            told
        }
        Outcome::Expired => {
            Err(too_late(object, CLOSE, "before what it had accepted was handled; it closes later"))
        }
        Outcome::Dropped => {
            object.wait_for_end().await;
            Ok(())
        }
    }
}

fn requested(deadline_ns: u64) -> Closing {
    Closing { reason: ClosingReason::Requested, deadline_ns }
}

/// The record that closes an object with its node, which ends at `deadline_ns`.
pub(crate) fn shutdown_record<K: LifeOf<T>, T: Any + Send>(owner: &Arc<Owner>, deadline_ns: u64) -> Record {
    let (told, _) = completion();
    let closing = Closing { reason: ClosingReason::Shutdown, deadline_ns };
    Record::unmetered(CloseWork::<K, T> { closing, told, object: owner.clone(), _kind: PhantomData })
}

/// The record that runs `on_closing` of an object that is sealed without having been asked.
pub(crate) fn last_record<K: LifeOf<T>, T: Any + Send>(owner: &Arc<Owner>, closing: Closing) -> Record {
    let (told, _) = completion();
    Record::unmetered(LastWork::<K, T> { closing, told, object: owner.clone(), _kind: PhantomData })
}

/// Asks for a close and does not wait.
pub(crate) fn request_close<K: LifeOf<T>, T: Any + Send>(owner: &Arc<Owner>) -> Result<(), Error> {
    let object = object_of(owner);
    check_domain(object, CLOSE)?;
    let (told, _) = completion();
    let work =
        CloseWork::<K, T> { closing: requested(u64::MAX), told, object: owner.clone(), _kind: PhantomData };
    owner.try_submit(Record::lifecycle(0, work)).map_err(|(why, _)| not_accepted(object, CLOSE, why))
}

/// Ends an object at its next turn boundary and waits until it is gone.
pub(crate) async fn destroy(owner: Arc<Owner>) -> Result<(), Error> {
    const DESTROY: &str = "destroy";
    let object = object_of(&owner);
    check_domain(object, DESTROY)?;
    let mut waiting = begin_wait(Manner::Ordinary, &owner, 0, DESTROY)?;
    if object.end().is_some() {
        return Err(object.gone(DESTROY));
    }
    if let Some(error) = never_ends(&owner, DESTROY) {
        return Err(error);
    }
    owner.cancel();
    noted(&mut waiting, Manner::Ordinary, DESTROY, object.wait_for_end()).await.map(drop)
}
