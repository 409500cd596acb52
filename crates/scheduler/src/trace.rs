//! What the drivers tell the recorder: one line a hook, one branch when nobody records.
//!
//! Which clause needs which order of event and deed is written at each event (`turnkeep_trace::event`).

use std::ptr::NonNull;

use turnkeep_machines::gate::Grant;
use turnkeep_machines::pair;
use turnkeep_trace::field::{How, Lane, ObjectId, RecordId, Stage, Why};
use turnkeep_trace::{Event, Recorder};

use crate::activation::Act;
use crate::ambient::with_turn;
use crate::link::{Kind, Link};
use crate::owner::Owner;
use crate::record::{Record, Refusal};

/// The number of an owner in a trace.
#[must_use]
pub fn id(owner: &Owner) -> ObjectId {
    ObjectId(owner.identity().number())
}

/// The number of the running turn's record; 0 outside of turns.
#[must_use]
pub fn running_record() -> RecordId {
    RecordId(with_turn(|turn| turn.map_or(0, |turn| turn.record())))
}

/// A reason as traces name it.
#[must_use]
pub fn why(why: Refusal) -> Why {
    match why {
        Refusal::Ended => Why::Ended,
        Refusal::Panicked => Why::Panicked,
        Refusal::NotMade => Why::NotMade,
        Refusal::Full => Why::Full,
        Refusal::TooLarge => Why::TooLarge,
        Refusal::TooManyWaiters => Why::TooManyWaiters,
        Refusal::HandedOver => Why::HandedOver,
    }
}

fn lane(lane: pair::Lane) -> Lane {
    match lane {
        pair::Lane::Application => Lane::Application,
        pair::Lane::Lifecycle => Lane::Lifecycle,
    }
}

/// Calls `tell` if somebody records what happens to `owner`. The event is made in there, out of the way.
#[inline]
pub fn told(owner: &Owner, tell: impl FnOnce(&Recorder)) {
    if let Some(recorder) = owner.class().recorder.as_deref() {
        tell(recorder);
    }
}

#[inline]
fn record(owner: &Owner, event: impl FnOnce(ObjectId) -> Event) {
    told(owner, |recorder| recorder.record(&event(id(owner))));
}

/// Gives a record its number, once, when somebody records what happens to `owner`.
#[inline]
pub fn number(owner: &Owner, record: &mut Record) {
    told(owner, |recorder| {
        if record.number() == 0 {
            record.set_number(recorder.next_record().0);
        }
    });
}

pub(crate) fn accepted(owner: &Owner, of: &Record, from_line: bool) {
    record(owner, |object| Event::Accepted {
        object,
        lane: lane(of.lane()),
        record: RecordId(of.number()),
        reserved: of.reserved(),
        by: running_record(),
        from_line,
    });
}

pub(crate) fn refused(owner: &Owner, of: &Record, reason: Refusal) {
    record(owner, |object| Event::Refused {
        object,
        lane: lane(of.lane()),
        record: RecordId(of.number()),
        why: why(reason),
    });
}

pub(crate) fn waiting(owner: &Owner, of: pair::Lane, number: u64) {
    record(owner, |object| Event::Waiting {
        object,
        lane: lane(of),
        record: RecordId(number),
        by: running_record(),
    });
}

pub(crate) fn left_line(owner: &Owner, of: &Record) {
    record(owner, |object| Event::LeftLine { object, lane: lane(of.lane()), record: RecordId(of.number()) });
}

pub(crate) fn discarded(owner: &Owner, of: &Record, reason: Refusal) {
    record(owner, |object| Event::Discarded { object, record: RecordId(of.number()), why: why(reason) });
}

pub(crate) fn given_back(owner: &Owner, number: u64, bytes: u64) {
    record(owner, |object| Event::GivenBack { object, record: RecordId(number), bytes });
}

pub(crate) fn sealed(owner: &Owner) {
    record(owner, |object| Event::Sealed { object });
}

/// The seal of an owner was undone.
pub(crate) fn unsealed(owner: &Owner) {
    record(owner, |object| Event::Unsealed { object });
}

/// A sealed owner gives a record away unrun.
pub fn handed_over(owner: &Owner, of: &Record) {
    record(owner, |object| Event::HandedOver { object, record: RecordId(of.number()) });
}

pub(crate) fn staged(owner: &Owner, of: &mut Record, stage: Stage) {
    number(owner, of);
    record(owner, |object| Event::Staged { object, record: RecordId(of.number()), stage });
}

pub(crate) fn ended(owner: &Owner, reason: Refusal) {
    record(owner, |object| Event::Ended { object, why: why(reason) });
}

pub(crate) fn cancelled(owner: &Owner, number: u64) {
    record(owner, |object| Event::Cancelled { object, record: RecordId(number) });
}

pub(crate) fn claim_taken(owner: &Owner, number: u64) {
    record(owner, |object| Event::ClaimTaken { object, record: RecordId(number) });
}

pub(crate) fn claim_released(owner: &Owner) {
    record(owner, |object| Event::ClaimReleased { object });
}

pub(crate) fn moved(owner: &Owner, host: Option<&Owner>) {
    record(owner, |object| Event::Moved { object, gate: host.map_or(object, id) });
}

pub(crate) fn turn_begun(gate: &Owner, grant: Grant, owner: &Owner, number: u64, of: pair::Lane) {
    record(gate, |gate| Event::Begun {
        gate,
        grant: grant.0,
        object: id(owner),
        record: RecordId(number),
        lane: lane(of),
    });
}

pub(crate) fn turn_resumed(gate: &Owner, grant: Grant, owner: &Owner, number: u64) {
    let record_id = RecordId(number);
    record(gate, |gate| Event::Resumed { gate, grant: grant.0, object: id(owner), record: record_id });
}

pub(crate) fn turn_went_on(gate: &Owner, grant: Grant, number: u64) {
    record(gate, |gate| Event::WentOn { gate, grant: grant.0, record: RecordId(number) });
}

pub(crate) fn turn_stopped(gate: &Owner, grant: Grant, number: u64, how: How) {
    record(gate, |gate| Event::Stopped { gate, grant: grant.0, record: RecordId(number), how });
}

pub(crate) fn resume_queued(gate: &Owner, number: u64) {
    record(gate, |gate| Event::ResumeQueued { gate, record: RecordId(number) });
}

pub(crate) fn resume_gone(gate: &Owner, number: u64) {
    record(gate, |gate| Event::ResumeGone { gate, record: RecordId(number) });
}

pub(crate) fn member_placed(gate: &Owner, member: &Owner) {
    record(gate, |gate| Event::MemberPlaced { gate, object: id(member) });
}

pub(crate) fn member_passed(gate: &Owner, member: &Owner) {
    record(gate, |gate| Event::MemberPassed { gate, object: id(member) });
}

pub(crate) fn stood_behind(gate: &Owner) {
    record(gate, |gate| Event::StoodBehind { gate });
}

/// What the sorting of an inbox needs to tell: the owner, if somebody records what happens to it.
#[derive(Clone, Copy)]
pub(crate) struct Trace<'a>(Option<&'a Owner>);

impl<'a> Trace<'a> {
    /// Nobody records.
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn of(owner: &'a Owner) -> Self {
        Self(owner.class().recorder.is_some().then_some(owner))
    }

    pub(crate) fn appended(self, number: u64) {
        if let Some(owner) = self.0 {
            record(owner, |object| Event::Appended { object, record: RecordId(number) });
        }
    }

    /// A member's or a resume's link gets its place.
    ///
    /// # Safety
    ///
    /// The link is of that kind, alive, and the caller's.
    pub(crate) unsafe fn placed(self, kind: Kind, link: NonNull<Link>) {
        let Some(gate) = self.0 else { return };
        if kind == Kind::Member {
            // SAFETY: the link is the first field of an owner that its count keeps alive.
            member_placed(gate, unsafe { link.cast::<Owner>().as_ref() });
        } else {
            // SAFETY: a resume link, whose block lives until `begin_resume`.
            let number = unsafe { Act::from_link(link) }.record();
            record(gate, |gate| Event::ResumePlaced { gate, record: RecordId(number) });
        }
    }
}
