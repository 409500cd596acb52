//! Handing over: a unit that takes nothing, runs nothing, and hands out what it has, until that is undone.
//!
//! A unit is what takes turns under one gate: a `SpotWide` Spot with its members, an Instance Spot, an Actor with a
//! gate of its own, the shell of a `PerActor` Spot.
//!
//! # How
//!
//! The seal is a lifecycle record of the unit, so it starts when the running turn has ended.
//!
//! 1. In its turn each owner of the unit is handed over: admission ends (waiters are refused, their messages back),
//!    application records stay queued, yields are woken with an error.
//! 2. It gives the gate up until the unit is settled: no admission under way, no handler suspended, no move under
//!    way or registered, no member that left and has not told yet. Lifecycle records accepted before still run
//!    meanwhile: a half-done Join or leave needs them, and can be handed to nobody. Who comes or goes by such a Join belongs to the unit or does no more.
//! 3. Then it keeps the gate, as any handler that waits, takes the records out, by owner in order, into a box that
//!    it shares with whoever sealed, and waits for the undo. They stay admitted all the time: nothing is given back.
//!
//! So a parked unit needs no state of its own: it is a handler that holds its gate. A cancellation ends it like any
//! other, and dropping it, however that comes about, drops the [`Unit`], which puts the records back where they were
//! and opens admission again. Handlers are dropped by the holder of their gate only, so it may.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;
use turnkeep_machines::pair::Lane;
use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::completion::{Completer, Outcome, Wait, completion};
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};
use turnkeep_scheduler::ticks;

use crate::call::{check_domain, check_open, check_wait, deadline_ns, too_late};
use crate::create::submit_lifecycle;
use crate::error::{Error, ErrorKind, handed_over, not_accepted};
use crate::id::{Generation, ObjectKind};
use crate::object::object_of;

const SEAL: &str = "seal";
/// How often the seal looks whether the unit is settled.
const LOOK_EVERY_NS: u64 = 1_000_000;

type Told = Result<Sealed, Error>;

/// Records that wait in one lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queued {
    /// How many.
    pub records: u32,
    /// What they reserve, in bytes, 256 a record included.
    pub bytes: u64,
}

/// What one object of a sealed unit has queued.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SealedPart {
    /// What it is.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// Which life of that id.
    pub generation: Generation,
    /// Messages.
    pub application: Queued,
    /// Lifecycle records.
    pub lifecycle: Queued,
    /// The messages, in the order in which they were accepted.
    pub records: Vec<SealedRecord>,
}

/// A message that a sealed object has accepted and not begun.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SealedRecord {
    /// The name of its type.
    pub message: &'static str,
    /// What it reserves, in bytes, 256 of its own included.
    pub bytes: u64,
}

/// A sealed unit: it takes no records (`Unavailable`), and none of its handlers runs. Dropping it undoes the seal.
///
/// While it lasts, closing or destroying a member waits for the undo; destroying the unit itself ends it, and so does
/// a shutdown of the node when its time is up.
#[must_use = "dropping it undoes the seal"]
pub struct Sealed {
    parts: Vec<SealedPart>,
    records: HandedOut,
    /// Dropped: undone.
    undo: Completer<()>,
    opened: Wait<()>,
}

impl Sealed {
    /// What is queued, the unit's own object first, then its members by id.
    #[must_use]
    pub fn parts(&self) -> &[SealedPart] {
        &self.parts
    }

    /// Looks at a message: the `record`th of the `part`th object, as in [`Self::parts`]. `None` if there is none
    /// there, if it is of another type, or if the unit has ended meanwhile.
    ///
    /// `look` should be short: an end of the unit waits for it.
    pub fn look<M: Any, R>(&self, part: usize, record: usize, look: impl FnOnce(&M) -> R) -> Option<R> {
        let mut all = self.records.lock();
        let message = all.get_mut(part)?.iter_mut().filter(|record| is_message(record)).nth(record)?;
        message.payload()?.downcast_ref().map(look)
    }

    /// Opens the unit again and waits until it takes records: nothing is lost, doubled or reordered.
    pub async fn undo(self) {
        let Self { undo, opened, .. } = self;
        drop(undo);
        // However it ends, the unit is not sealed any more.
        let _ = opened.await;
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealed").field("parts", &self.parts).finish_non_exhaustive()
    }
}

/// The records of a sealed unit by part, as long as it is sealed.
type HandedOut = Arc<Mutex<Vec<Vec<Record>>>>;

/// Ticks travel with their timers.
fn is_message(record: &Record) -> bool {
    record.reserved() > 0
}

struct SealWork<T> {
    told: Completer<Told>,
    object: Arc<Owner>,
    _type: PhantomData<fn() -> T>,
}

impl<T: Any + Send> Work for SealWork<T> {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        if this.told.is_over() {
            return start.done(Ending::done());
        }
        if let Some(error) = objection(&this.object) {
            let _ = this.told.complete(Err(error));
            return start.done(Ending::done());
        }
        start.run::<T, _>(SealTurn { told: this.told })
    }

    fn refuse(self, _: &Owner, why: Refusal) {
        let _ = self.told.complete(Err(not_accepted(object_of(&self.object), SEAL, why)));
    }
}

fn objection(owner: &Arc<Owner>) -> Option<Error> {
    let object = object_of(owner);
    if owner.is_handed_over() {
        // Another seal settles; its lifecycle records still run, and this is one of them.
        return Some(handed_over(object, SEAL));
    }
    let (kind, text) = if owner.is_sealed() {
        (ErrorKind::NotFound, "it is closing already; find it again by its id")
    } else if object.node.is_entry(owner) {
        (ErrorKind::InvalidOperation, "it is the node's Entry Spot, which stays with its node")
    } else if owner.gate_key() != owner.key() {
        (ErrorKind::InvalidOperation, "it takes its turns under the gate of its Spot; seal the Spot")
    } else {
        return None;
    };
    Some(Error::new(kind, object, SEAL, text))
}

struct SealTurn {
    told: Completer<Told>,
}

impl<T: Any + Send> Job<T> for SealTurn {
    async fn run(self, mut access: Access<'_, T>) -> Ending {
        // Its own record is none of those that are left.
        access.handler_ended();
        let mut unit = Unit::new(access);
        loop {
            unit.follow();
            if unit.is_settled() {
                break;
            }
            if self.told.is_over() {
                return Ending::done();
            }
            unit.access.released(Box::pin(sleep_until(ticks::after(LOOK_EVERY_NS)))).await;
        }
        let (undo, undone) = completion();
        let (open, opened) = completion();
        // If nobody waits any more, the value comes back, and its drop is the undo.
        let parts = unit.hand_out();
        let _ = self.told.complete(Ok(Sealed { parts, records: unit.out.clone(), undo, opened }));
        let _ = undone.await;
        drop(unit);
        let _ = open.complete(());
        Ending::done()
    }
}

/// The owners that are handed over; dropped, they are taken back, with their records.
struct Unit<'t, T: Any + Send> {
    access: Access<'t, T>,
    own: Arc<Owner>,
    /// By id, once the unit is settled.
    members: Vec<Arc<Owner>>,
    out: HandedOut,
}

impl<'t, T: Any + Send> Unit<'t, T> {
    fn new(access: Access<'t, T>) -> Self {
        let own = access.owner_arc();
        own.hand_over();
        Self { access, own, members: Vec::new(), out: HandedOut::default() }
    }

    /// Members may still come and go, by Joins that were under way.
    fn follow(&mut self) {
        let object = object_of(&self.own);
        if object.kind != ObjectKind::Spot || !object.shares_gate {
            return;
        }
        let now = object.node.membership.members(self.own.key());
        let (stay, gone) = self
            .members
            .drain(..)
            .partition::<Vec<_>, _>(|member| now.iter().any(|other| Arc::ptr_eq(other, member)));
        gone.iter().for_each(Owner::take_back);
        self.members = stay;
        for member in now {
            if !self.members.iter().any(|other| Arc::ptr_eq(other, &member)) {
                member.hand_over();
                self.members.push(member);
            }
        }
    }

    fn is_settled(&self) -> bool {
        let here = self.own.key();
        // The seal's own handler is suspended, too.
        self.own.is_settled(true)
            && !object_of(&self.own).has_departures()
            && self.members.iter().all(|member| member.gate_key() == here && member.is_settled(false))
    }

    /// Takes the records out.
    fn hand_out(&mut self) -> Vec<SealedPart> {
        self.members.sort_by(|one, other| object_of(one).id.as_str().cmp(object_of(other).id.as_str()));
        let mut out = self.out.lock();
        let mut parts = Vec::with_capacity(1 + self.members.len());
        for owner in std::iter::once(&self.own).chain(&self.members) {
            let records = self.access.take_records(owner);
            parts.push(part(owner, &records));
            out.push(records);
        }
        parts
    }
}

impl<T: Any + Send> Drop for Unit<'_, T> {
    fn drop(&mut self) {
        let mut out = std::mem::take(&mut *self.out.lock()).into_iter();
        for owner in std::iter::once(&self.own).chain(&self.members) {
            if let Some(records) = out.next() {
                self.access.put_records(owner, records);
            }
        }
        self.members.iter().chain([&self.own]).for_each(Owner::take_back);
    }
}

fn part(owner: &Owner, records: &[Record]) -> SealedPart {
    let object = object_of(owner);
    let queued = |lane| {
        let used = owner.in_use(lane);
        Queued { records: used.records, bytes: used.bytes }
    };
    let messages = records.iter().filter(|record| is_message(record));
    SealedPart {
        kind: object.kind,
        id: object.id.as_str().to_owned(),
        generation: object.generation,
        application: queued(Lane::Application),
        lifecycle: queued(Lane::Lifecycle),
        records: messages
            .map(|record| SealedRecord { message: record.name(), bytes: record.reserved() })
            .collect(),
    }
}

/// Seals the unit of an owner.
pub(crate) async fn seal<T: Any + Send>(owner: Arc<Owner>) -> Result<Sealed, Error> {
    let object = object_of(&owner);
    check_domain(object, SEAL)?;
    check_open(&object.node, object, SEAL)?;
    check_wait(Manner::Ordinary, Some(&owner), SEAL)?;
    let due = deadline_ns(object.node.config.ask_timeout);
    let (told, wait) = completion();
    let work = SealWork::<T> { told, object: owner.clone(), _type: PhantomData };
    submit_lifecycle(&owner, Record::lifecycle(0, work), due, Manner::Ordinary, SEAL).await?;
    match wait.with_deadline(due).await {
        Outcome::Done(told) => told,
        Outcome::Expired => Err(too_late(object, SEAL, "before its handlers had ended; nothing is sealed")),
        Outcome::Dropped => {
            let text =
                "it ended, or was made anew after a panic, before it was sealed; find it again by its id";
            Err(Error::new(ErrorKind::Unavailable, object, SEAL, text))
        }
    }
}
