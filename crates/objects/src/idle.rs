//! Instance Spots that close themselves when nothing happens: looked at four times an idle time.
//!
//! A busy Spot must not pay for it, so no turn notes anything. A look is a record of the Spot's own: it compares the
//! number of its grant with that of the look before, and if no turn came between, and nothing is queued, suspended
//! or waiting for room, the Spot has rested a quarter more. After four quarters in a row it is sealed in that very
//! turn: a message accepted before is handled first (so nothing is lost), a later one is refused, and one that may
//! make the Spot waits for its end and makes it again. So a Spot closes between one and one and a quarter idle times
//! after its last turn. There is one registration a Spot, and it is taken back at the end.

use std::sync::{Arc, Weak};

use turnkeep_machines::pair::Lane;
use turnkeep_scheduler::access::{Ending, Start, Started};
use turnkeep_scheduler::deadline::{Deadlines, Expire};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};
use turnkeep_scheduler::ticks;

use crate::object::object_of;
use crate::spot::{Closing, ClosingReason};
use crate::timer::Timers;

/// How many looks in a row make an idle time.
const QUARTERS: u8 = 4;

/// The look that comes next.
struct Look {
    /// Not kept alive by its own clock.
    owner: Weak<Owner>,
    /// The grant of the look before, or of the turn that made the Spot.
    grant: u64,
    /// Quarters of the idle time rested so far.
    rested: u8,
}

impl Look {
    fn arm(self, owner: &Arc<Owner>) {
        let object = object_of(owner);
        let at = ticks::after((object.info.idle_ns / u64::from(QUARTERS)).max(1));
        object.keep_idle_key(Deadlines::global().register(at, Arc::new(self)));
    }
}

impl Expire for Look {
    fn expire(&self) {
        if let Some(owner) = self.owner.upgrade() {
            let look = Look { owner: self.owner.clone(), ..*self };
            // An object that has ended refuses it.
            let _ = owner.try_submit(Record::unmetered(LookWork(look)));
        }
    }
}

struct LookWork(Look);

impl Work for LookWork {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        let owner = start.owner();
        let grant = start.grant().0;
        if owner.is_sealed() {
            return start.done(Ending::done());
        }
        let quiet = grant == this.0.grant + 1 && is_at_rest(&owner);
        let rested = if quiet { this.0.rested + 1 } else { 0 };
        if rested >= QUARTERS {
            let closing = Closing { reason: ClosingReason::Idle, deadline_ns: u64::MAX };
            let last = (object_of(&owner).hooks.last)(&owner, closing);
            return start.done(Ending::seal(last));
        }
        Look { grant, rested, ..this.0 }.arm(&owner);
        start.done(Ending::done())
    }

    fn refuse(self, _: &Owner, _: Refusal) {}
}

/// Whether nothing is accepted and unfinished (a suspended handler's record is), nobody waits, and no timer will tick.
fn is_at_rest(owner: &Owner) -> bool {
    let lanes = [Lane::Application, Lane::Lifecycle];
    !owner.is_handed_over()
        && object_of(owner).any_timers().is_none_or(Timers::is_empty)
        && lanes.iter().all(|lane| owner.in_use(*lane).records == 0 && owner.waiters(*lane) == 0)
}

/// The Spot is made, in the turn of that grant: its idle time begins, if it has one.
pub(crate) fn begin(owner: &Arc<Owner>, grant: u64) {
    let object = object_of(owner);
    if object.info.idle_ns != 0 && !object.has_idle_key() {
        Look { owner: Arc::downgrade(owner), grant, rested: 0 }.arm(owner);
    }
}
