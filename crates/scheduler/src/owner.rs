//! An owner: one object's cell, with its lanes, its place and its state.
//!
//! Every Spot, Actor and handler has one. Senders reach its admission words and its inbox; everything else
//! belongs to the holder: whoever runs the gate the owner is under.
//!
//! # Place
//!
//! An owner either has a gate of its own (`host` is null) and is run by the pool, or it is a member of
//! another owner's gate and stands in that owner's queue when it is ready. Whoever finds the inbox idle gets
//! the *right* to the owner and puts it where it is run; the right travels with the ready entry, and only
//! who has the right, at a turn boundary, changes the place. So a reader with the right reads `host` in
//! peace.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use turnkeep_machines::lane::{Limits, Refused, Use};
use turnkeep_machines::pair::Lane;
use turnkeep_machines::wait::Key;
use turnkeep_trace::Recorder;

use crate::access::Ending;
use crate::activation::Act;
use crate::admission::{Back, Front};
use crate::completion::Wait;
use crate::core::Core;
use crate::counters::Counters;
use crate::deadline::shielded;
use crate::drive;
use crate::inbox::{Inbox, Pushed};
use crate::link::{Kind, Link};
use crate::pool::{Pool, Run};
use crate::rare::{Rare, Rares};
use crate::record::{Record, Refusal};
use crate::room::{Answer, RoomWait};
use crate::standing::Standing;
use crate::state::State;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use crate::trace;
use crate::waits::{Entry, Signpost};
use crate::wake_word::WakeWord;

/// What the driver counts, by place in [`Class::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Records admitted.
    Accepted,
    /// Records whose handler, with all that followed it, is over.
    Finished,
    /// Turns: grants of a gate.
    Turns,
    /// Admissions refused, whatever the reason.
    Refused,
    /// Panics that reached the driver.
    Panics,
}

/// How many kinds of [`Count`] there are.
pub const COUNTS: usize = 5;

/// The counters of one node.
pub type NodeCounters = Counters<COUNTS>;

/// What all owners of one kind have in common.
#[derive(Debug)]
pub struct Class {
    /// The limits of the application and the lifecycle lane.
    pub limits: [Limits; 2],
    /// How long a holder runs records in a row, in nanoseconds (LANE-10).
    pub budget_ns: u64,
    /// Whether handlers under the gate of such an owner may yield (YIELD-1).
    pub shares_gate: bool,
    /// Whether an owner keeps its own queue closed while one of its handlers is unfinished (YIELD-5).
    pub claims: bool,
    /// Whether others can wait for such an owner: nobody can for a task of the program's own.
    pub is_asked: bool,
    /// The workers.
    pub pool: Pool,
    /// The node's counters.
    pub counters: Arc<NodeCounters>,
    /// Where what happens to these owners is recorded.
    pub recorder: Option<Arc<Recorder>>,
}

/// What the layer above knows about an owner.
pub trait Identity: Any + Send + Sync {
    /// The number of this life of the object in a trace, never used again; 0 for none.
    fn number(&self) -> u64 {
        0
    }

    /// The object has ended: its state is gone. Called once, under its gate; must not block or panic.
    fn ended(&self, why: Refusal);

    /// What a transcript calls it: the same in every run, so no address.
    fn name(&self) -> String {
        String::new()
    }

    /// A panic reached the driver although the layer above catches those of handlers: a destructor's, mostly.
    fn panicked(&self, panic: &(dyn Any + Send));

    /// What becomes of the object whose turn ended in such a panic.
    fn after_panic(&self, owner: &Arc<Owner>) -> Ending {
        let _ = owner;
        Ending::end(Refusal::Panicked)
    }
}

/// One object's cell.
#[repr(C)]
pub struct Owner {
    /// Its place in its host's inbox or queue. First, so that the link is the owner.
    link: Link,
    /// What came in, and whether somebody has the right to run it.
    inbox: Inbox,
    /// Moves registered for this object that have not ended: no application record starts meanwhile (JOIN-11).
    holds: AtomicU32,
    /// How many waits in its box others may hang on, and how many calls of its handlers.
    waits_out: Signpost,
    calls_out: Signpost,
    /// How a suspended holder is put back to work.
    wake: WakeWord,
    /// Set for good when the object is to end at once.
    cancelled: AtomicBool,
    /// What it still takes.
    standing: Standing,
    /// Whether the control link is on its way.
    control_out: AtomicBool,
    /// The senders' side of both lanes.
    front: [Front; 2],
    /// The owner of the gate it is under, as a strong count; null: its own.
    host: AtomicPtr<Owner>,
    class: Arc<Class>,
    identity: Box<dyn Identity>,
    /// The holder's side of both lanes.
    back: [Back; 2],
    /// News for the holder: a cancellation, or a hold that is gone.
    control: Link,
    /// The stand-in for the lifecycle lane in the queue; the holder's, but no part of `core`, because the queue
    /// points to it while `core` is borrowed.
    marker: Link,
    /// What most owners have none of.
    rare: Rares,
    /// The holder's.
    core: UnsafeCell<Core>,
    /// The holder's.
    state: UnsafeCell<Option<State>>,
}

// SAFETY: what is not atomic or locked (`core`, `state`, the links) is reached only by the holder of the gate,
// and holders follow each other through the inbox and the run queues, which carry the necessary ordering.
unsafe impl Send for Owner {}
// SAFETY: as for `Send`.
unsafe impl Sync for Owner {}

impl std::fmt::Debug for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owner").field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Owner {
    /// A new owner without a state, idle, with a gate of its own or under `host`'s.
    #[must_use]
    pub fn new(class: Arc<Class>, identity: Box<dyn Identity>, host: Option<Arc<Owner>>) -> Arc<Self> {
        let owner = Arc::new(Self {
            link: Link::new(Kind::Member),
            inbox: Inbox::idle(),
            front: [Front::new(), Front::new()],
            host: AtomicPtr::new(host_pointer(host)),
            class,
            identity,
            back: [Back::new(), Back::new()],
            wake: WakeWord::new(),
            cancelled: AtomicBool::new(false),
            standing: Standing::new(),
            control_out: AtomicBool::new(false),
            holds: AtomicU32::new(0),
            waits_out: Signpost::new(),
            calls_out: Signpost::new(),
            control: Link::new(Kind::Control),
            marker: Link::new(Kind::Marker),
            rare: Rares::new(),
            core: UnsafeCell::new(Core::new()),
            state: UnsafeCell::new(None),
        });
        // SAFETY: nobody else has the new owner yet; the marker stays where it is as long as the owner does.
        owner.core.with_mut(|core| unsafe { (*core).set_marker(&owner.marker) });
        owner
    }

    /// Offers a record: admitted and appended, or refused at once with nothing changed.
    ///
    /// # Errors
    ///
    /// Why not, with the record.
    pub fn try_submit(self: &Arc<Self>, mut record: Record) -> Result<(), (Refusal, Record)> {
        trace::number(self, &mut record);
        let lane = record.lane() as usize;
        let (front, back) = (&self.front[lane], &self.back[lane]);
        let decided = match record.reserved() {
            // An object that has ended refuses it in a turn of its own.
            0 => Ok(()),
            bytes => front.admit(back, self.class.limits[lane], bytes),
        };
        match decided {
            Ok(()) => {
                self.accept(record, false);
                Ok(())
            }
            Err(why) => Err(self.refuse(self.refusal(why), record)),
        }
    }

    /// Offers a record and, if the lane is full, puts it in line for room.
    ///
    /// # Errors
    ///
    /// Why waiting would not help, with the record.
    pub fn submit_or_wait(
        self: &Arc<Self>,
        mut record: Record,
    ) -> Result<Option<RoomWait>, (Refusal, Record)> {
        trace::number(self, &mut record);
        let lane = record.lane();
        let at = lane as usize;
        let (front, back) = (&self.front[at], &self.back[at]);
        if record.reserved() == 0 {
            return self.try_submit(record).map(|()| None);
        }
        match front.admit(back, self.class.limits[at], record.reserved()) {
            Ok(()) => {
                self.accept(record, false);
                Ok(None)
            }
            Err(why @ (Refused::Sealed | Refused::TooLarge)) => Err(self.refuse(self.refusal(why), record)),
            Err(Refused::Records | Refused::Bytes | Refused::Behind) => self.wait_in_line(lane, record),
        }
    }

    fn wait_in_line(
        self: &Arc<Self>,
        lane: Lane,
        record: Record,
    ) -> Result<Option<RoomWait>, (Refusal, Record)> {
        let at = lane as usize;
        let lined_up = self.rare.with(|rare| {
            let line = &mut rare.lines[at];
            let first = line.is_empty();
            self.front[at].announce_waiter();
            // A seal that came first has emptied the line; one that comes later will find this waiter.
            if self.front[at].is_sealed() {
                return Err((self.refusal(Refused::Sealed), record));
            }
            let bytes = record.reserved();
            if first && self.front[at].admit_waiter(&self.back[at], self.class.limits[at], bytes).is_ok() {
                self.front[at].withdraw_waiters();
                return Ok(LinedUp::Admitted(record));
            }
            let in_trace = record.number();
            let (number, wait) = line.queue(record)?;
            trace::waiting(self, lane, in_trace);
            Ok(LinedUp::Waits(number, wait))
        });
        match lined_up.map_err(|(why, record)| self.refuse(why, record))? {
            LinedUp::Admitted(record) => {
                self.accept(record, false);
                Ok(None)
            }
            LinedUp::Waits(number, wait) => Ok(Some(RoomWait::new(self.clone(), lane, number, wait))),
        }
    }

    fn refusal(&self, why: Refused) -> Refusal {
        match why {
            Refused::Sealed if self.standing.is_ending() => Refusal::Ended,
            Refused::Sealed => Refusal::HandedOver,
            Refused::TooLarge => Refusal::TooLarge,
            Refused::Behind | Refused::Records | Refused::Bytes => Refusal::Full,
        }
    }

    /// Counts an attempt that came to nothing.
    pub(crate) fn refuse(&self, why: Refusal, record: Record) -> (Refusal, Record) {
        self.class.counters.add(Count::Refused as usize, 1);
        trace::refused(self, &record, why);
        (why, record)
    }

    /// Takes a record out of line; `None` if it was admitted meanwhile. Those behind it get what room there is:
    /// it may have been the one that did not fit.
    pub(crate) fn leave_line(self: &Arc<Self>, lane: Lane, number: u64) -> Option<Record> {
        let at = lane as usize;
        let left = self.rare.if_any(|rare| {
            let line = &mut rare.lines[at];
            let record = line.leave(number)?;
            trace::left_line(self, &record);
            if line.is_empty() {
                self.front[at].withdraw_waiters();
            }
            Some((record, !line.is_empty()))
        });
        let (record, others_wait) = left.flatten()?;
        if others_wait {
            self.serve_line(at);
        }
        Some(record)
    }

    /// Serves those who wait for room in either lane, as far as there is room. The holder calls it.
    ///
    /// Without a reservation that came back since the last time there is nothing to serve: each wait began with a look
    /// of its own.
    pub(crate) fn serve_lines(self: &Arc<Self>) {
        // SAFETY: the caller is the holder.
        let returned = self.core.with_mut(|core| unsafe { std::mem::take(&mut (*core).returned) });
        if returned == 0 {
            return;
        }
        fence(Ordering::SeqCst);
        for at in 0..2 {
            if self.front[at].has_waiters() {
                self.serve_line(at);
            }
        }
    }

    #[cold]
    fn serve_line(self: &Arc<Self>, at: usize) {
        let served = self.rare.if_any(|rare| {
            let line = &mut rare.lines[at];
            let limits = self.class.limits[at];
            let served =
                line.serve(&self.front[at], &self.back[at], limits, |record| self.accept(record, true));
            if line.is_empty() {
                self.front[at].withdraw_waiters();
            }
            served
        });
        for answer in served.into_iter().flatten() {
            // Late: the sender gave up at the same moment. It will find its record gone from the line, and
            // reports it as accepted, which it is.
            // The waker behind it may be anybody's.
            shielded(|| _ = answer.complete(Ok(())));
        }
    }

    /// The decision of an admission without its append, for tests of what lies between.
    #[cfg(all(test, not(turnkeep_loom)))]
    pub(crate) fn admit_only(&self, record: &Record) -> Result<(), Refused> {
        let at = record.lane() as usize;
        self.front[at].admit(&self.back[at], self.class.limits[at], record.reserved())
    }

    pub(crate) fn accept(self: &Arc<Self>, record: Record, from_line: bool) {
        self.class.counters.add(Count::Accepted as usize, 1);
        trace::accepted(self, &record, from_line);
        // SAFETY: the record gives itself up to the link.
        unsafe { self.push_link(record.into_link()) };
    }

    /// Appends a link and, if the owner was idle, puts it where it is run.
    ///
    /// # Safety
    ///
    /// The link is alive until it comes out of the inbox, and in no list.
    pub(crate) unsafe fn push_link(self: &Arc<Self>, link: NonNull<Link>) {
        // SAFETY: passed on.
        if unsafe { self.inbox.push(link) } == Pushed::MakeReady {
            self.make_ready();
        }
    }

    /// Puts the owner where it is run. The caller has the right to it and gives it away.
    pub(crate) fn make_ready(self: &Arc<Self>) {
        match NonNull::new(self.host.load(Ordering::Acquire)) {
            None => self.schedule(),
            Some(host) => {
                // SAFETY: the owner holds a strong count of its host until its place changes, which only who
                // has the right can do, and that is the caller.
                let host = std::mem::ManuallyDrop::new(unsafe { Arc::from_raw(host.as_ptr()) });
                let link = self.clone().into_link();
                // SAFETY: the link holds a strong count, and with the right to the owner it is in no list.
                unsafe { host.push_link(link) };
            }
        }
    }

    /// Puts a gate on a worker. The caller has the right to it and gives it away.
    pub(crate) fn schedule(self: &Arc<Self>) {
        self.class.pool.schedule(self.clone());
    }

    pub(crate) fn into_link(self: Arc<Self>) -> NonNull<Link> {
        match NonNull::new(Arc::into_raw(self).cast_mut()) {
            Some(pointer) => pointer.cast(),
            None => unreachable!("an Arc points to something"),
        }
    }

    /// The owner behind a member link.
    ///
    /// # Safety
    ///
    /// The link came from `into_link`, was popped, and is used once.
    pub(crate) unsafe fn from_link(link: NonNull<Link>) -> Arc<Self> {
        // SAFETY: the link is the first field, and its pointer holds a strong count.
        unsafe { Arc::from_raw(link.cast::<Self>().as_ptr()) }
    }

    /// Ends the object at the next turn boundary: its waiting handlers are dropped, what is queued is refused.
    pub fn cancel(self: &Arc<Self>) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.nudge();
        self.rare.if_any(|rare| rare.suspended.iter().for_each(|act| act.wake()));
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Seals both lanes for good; those who wait for room are refused.
    pub(crate) fn seal(&self, why: Refusal) {
        self.standing.end();
        trace::sealed(self);
        self.seal_lanes(why);
    }

    fn seal_lanes(&self, why: Refusal) {
        for front in &self.front {
            front.seal();
        }
        let mut told = Vec::new();
        self.rare.if_any(|rare| rare.lines.iter_mut().for_each(|line| line.take_answers(&mut told)));
        // With the lock gone: the wakers may be anybody's. Each sender fetches its record itself.
        for answer in told {
            shielded(|| _ = answer.complete(Err(why)));
        }
    }

    /// Whether the object takes no more records, for good.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.standing.is_ending()
    }

    /// Ends the yields of its handlers in an error, and those begun under its gate (YIELD-9). Members whose handlers
    /// wait already are told with [`Self::wake_yields`].
    pub fn close_yields(self: &Arc<Self>) {
        self.standing.close();
        self.wake_yields();
    }

    /// Stops admission for a time: those who wait for room are refused with [`Refusal::HandedOver`], no
    /// application record starts, and yields end in an error. [`Self::take_back`] undoes it.
    pub fn hand_over(self: &Arc<Self>) {
        self.hold();
        self.standing.hand_over();
        trace::sealed(self);
        self.seal_lanes(Refusal::HandedOver);
        self.wake_yields();
        self.nudge();
    }

    /// Undoes [`Self::hand_over`], once. What is queued is where it was.
    pub fn take_back(self: &Arc<Self>) {
        self.standing.take_back();
        if !self.standing.is_ending() {
            trace::unsealed(self);
        }
        self.front.iter().for_each(Front::open);
        if self.standing.is_ending() {
            self.front.iter().for_each(|front| _ = front.seal());
        }
        self.release_hold(false);
    }

    /// Whether it is handed over, or about to be.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.standing.is_handing()
    }

    /// Whether what it has accepted before it was handed over is all queued, with no handler suspended (but one,
    /// if `but_one`) and no move under way or registered.
    #[must_use]
    pub fn is_settled(&self, but_one: bool) -> bool {
        self.standing.is_settled()
            && self.suspended() <= usize::from(but_one)
            && self.holds.load(Ordering::Acquire) == 1
    }

    /// How many handlers wait, with or without the gate.
    #[must_use]
    pub fn suspended(&self) -> usize {
        self.rare.if_any(|rare| rare.suspended.len()).unwrap_or(0)
    }

    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Wakes its handlers that wait, so that those whose yields may go on no longer find that out. One that is just
    /// about to wait finds it out itself (see [`crate::standing`]).
    pub fn wake_yields(&self) {
        fence(Ordering::SeqCst);
        self.rare.if_any(|rare| {
            let handlers = rare.suspended.iter().filter(|act| act.lane() == Lane::Application);
            handlers.for_each(|act| act.wake());
        });
    }

    /// Puts a handler in the list of those that wait. Returns whether the object is cancelled: then nobody
    /// else will wake it.
    pub(crate) fn list(&self, act: Act) -> bool {
        if !act.listed().replace(true) {
            act.anchor();
            self.rare.with(|rare| rare.suspended.push(act));
        }
        self.is_cancelled()
    }

    /// The same with a wait of that handler.
    pub(crate) fn list_with(&self, act: Act, wait: Entry) {
        let is_new = !act.listed().replace(true);
        if is_new {
            act.anchor();
        }
        self.rare.with(|rare| {
            if is_new {
                rare.suspended.push(act);
            }
            self.waits_out.raise(u32::from(wait.is_in_the_way()));
            rare.waits.push(wait);
        });
    }

    /// Puts in the wait of a guest that keeps this owner's gate.
    pub(crate) fn put_wait(&self, wait: Entry) {
        self.rare.with(|rare| {
            self.waits_out.raise(1);
            rare.waits.push(wait);
        });
    }

    /// Takes a handler that ends out of the list, with what it still waits for.
    pub(crate) fn delist(&self, act: Act) {
        if !act.listed().replace(false) {
            return;
        }
        act.berth().forget();
        if act.raised().replace(false) {
            self.calls_out.lower(1);
        }
        let forgot = self.rare.if_any(|rare| {
            if let Some(at) = rare.suspended.iter().position(|other| *other == act) {
                rare.suspended.swap_remove(at);
            }
            self.forget_waits(rare, act)
        });
        if forgot == Some(true) && !std::ptr::eq(self, act.gate()) {
            act.gate().rare.if_any(|rare| act.gate().forget_waits(rare, act));
        }
    }

    /// Takes out what an ended handler still waits for, in calls that were handed on. Whether there was any.
    fn forget_waits(&self, rare: &mut Rare, act: Act) -> bool {
        let before = rare.waits.len();
        rare.waits.retain(|wait| {
            let stays = wait.handler != act.number();
            self.waits_out.lower(u32::from(!stays && wait.is_in_the_way()));
            stays
        });
        rare.waits.len() != before
    }

    /// One of those that wait.
    pub(crate) fn any_suspended(&self) -> Option<Act> {
        self.rare.if_any(|rare| rare.suspended.last().copied()).flatten()
    }

    /// Takes a wait out, if it is still there. Returns whose gate it keeps, if another's: it stands there, too.
    pub(crate) fn take_wait(&self, is_it: impl Fn(&Entry) -> bool) -> Option<Option<Arc<Owner>>> {
        self.rare.if_any(|rare| {
            let at = rare.waits.iter().position(is_it)?;
            let gate = rare.waits[at].guest_of(self);
            let taken = rare.waits.swap_remove(at);
            self.waits_out.lower(u32::from(taken.is_in_the_way()));
            gate
        })
    }

    /// Whether somebody's wait stands here that others may hang on.
    pub(crate) fn has_waits(&self) -> bool {
        self.waits_out.is_up() || self.calls_out.is_up()
    }

    /// Of the calls of its handlers. Changed under its gate.
    pub(crate) fn calls_out(&self) -> &Signpost {
        &self.calls_out
    }

    pub(crate) fn rare(&self) -> &Rares {
        &self.rare
    }

    /// Gives a reservation back. Only the holder may.
    pub(crate) fn give_back(&self, lane: Lane, bytes: u64, record: u64) {
        if bytes != 0 {
            trace::given_back(self, record, bytes);
            self.back[lane as usize].give_back(bytes);
            // SAFETY: the caller is the holder.
            self.core.with_mut(|core| unsafe { (*core).returned += 1 });
        }
    }

    /// Admissions that are reserved and not yet appended.
    pub(crate) fn under_way(&self, lane: Lane, appended: u32) -> u32 {
        self.front[lane as usize].under_way(appended)
    }

    /// What is outstanding in a lane.
    #[must_use]
    pub fn in_use(&self, lane: Lane) -> Use {
        let at = lane as usize;
        let seen = self.front[at].outstanding(&self.back[at]);
        let limits = self.class.limits[at];
        // A look at a busy lane may count what has come back meanwhile; there is never more than the lane holds.
        Use { records: seen.records.min(limits.records()), bytes: seen.bytes.min(limits.bytes()) }
    }

    /// How many wait for room in a lane.
    #[must_use]
    pub fn waiters(&self, lane: Lane) -> usize {
        self.rare.if_any(|rare| rare.lines[lane as usize].len()).unwrap_or(0)
    }

    /// The object is about to be moved: no application record starts until [`Self::release_hold`].
    pub fn hold(&self) {
        self.holds.fetch_add(1, Ordering::AcqRel);
    }

    /// One move less. Outside a turn of the object (`own_turn` is false) its holder is told to look again.
    pub fn release_hold(self: &Arc<Self>, own_turn: bool) {
        let before = self.holds.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "JOIN-11: a hold is released once");
        if !own_turn {
            self.nudge();
        }
    }

    /// Lets whoever has the right to the owner, or gets it now, look at it again.
    pub fn nudge(self: &Arc<Self>) {
        if !self.control_out.swap(true, Ordering::AcqRel) {
            let strong = std::mem::ManuallyDrop::new(self.clone());
            // SAFETY: the control link is part of the owner, which the count just taken keeps alive until the
            // holder has seen the link; the flag says that it is in no list.
            unsafe { self.push_link(NonNull::from(&strong.control)) };
        }
    }

    /// The control link has come out, and with it the count that `nudge` took.
    pub(crate) fn control_seen(self: &Arc<Self>) {
        // An exchange: whoever found the link on its way is seen with what it had to say.
        self.control_out.swap(false, Ordering::AcqRel);
        // SAFETY: `nudge` left a strong count with the link, which has come out.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(self)) });
    }

    /// Whether a move of it is registered or under way.
    #[must_use]
    pub fn is_on_hold(&self) -> bool {
        self.holds.load(Ordering::Acquire) != 0
    }

    /// Announces the Spots whose turns the pending Join of that number needs (none: it is over), in place of what
    /// was announced for it before. For the rules of waiting.
    pub fn announce_join(&self, join: u64, spots: Vec<Arc<Owner>>) {
        let before = self.rare.with(|rare| {
            let before: Vec<_> = rare.joining.extract_if(.., |(number, _)| *number == join).collect();
            rare.joining.extend(spots.into_iter().map(|spot| (join, spot)));
            before
        });
        // With the lock gone: they may be the last counts.
        drop(before);
    }

    /// Whether it is under another owner's gate.
    pub(crate) fn is_guest(&self) -> bool {
        !self.host.load(Ordering::Acquire).is_null()
    }

    /// The owner of the gate it is under now.
    pub(crate) fn gate_owner(self: &Arc<Self>) -> Arc<Owner> {
        // The place changes under the same lock, so the count behind the pointer stands while it is copied.
        self.rare.locked(|| match NonNull::new(self.host.load(Ordering::Acquire)) {
            None => self.clone(),
            // SAFETY: a strong count of this owner's, which nobody gives back before the lock is free.
            Some(host) => unsafe {
                Arc::increment_strong_count(host.as_ptr());
                Arc::from_raw(host.as_ptr())
            },
        })
    }

    /// The identity of the object.
    #[must_use]
    pub fn key(&self) -> Key {
        Key(std::ptr::from_ref(self).addr())
    }

    /// The identity of the gate it is under now.
    #[must_use]
    pub fn gate_key(&self) -> Key {
        let host = self.host.load(Ordering::Acquire);
        if host.is_null() { self.key() } else { Key(host.addr()) }
    }

    /// What it has in common with others.
    #[must_use]
    pub fn class(&self) -> &Arc<Class> {
        &self.class
    }

    /// What the layer above knows about it.
    #[must_use]
    pub fn identity(&self) -> &dyn Identity {
        &*self.identity
    }

    /// Changes the place. The caller has the right to the owner, at a turn boundary.
    pub(crate) fn set_host(&self, host: Option<Arc<Owner>>) {
        let before = self.rare.locked(|| self.host.swap(host_pointer(host), Ordering::AcqRel));
        drop_host(before);
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) fn wake_word(&self) -> &WakeWord {
        &self.wake
    }

    pub(crate) fn state(&self) -> &UnsafeCell<Option<State>> {
        &self.state
    }

    pub(crate) fn core(&self) -> &UnsafeCell<Core> {
        &self.core
    }
}

impl Run for Owner {
    fn run(self: Arc<Self>) -> u64 {
        drive::slice(self)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Nobody has a count, so nobody has the right either: what is left belongs to nobody (a pool that was
        // stopped). Dropping a record tells whoever waits for it.
        let left = self.inbox.take().in_order();
        // SAFETY: `&mut self`.
        self.core.with_mut(|core| unsafe { (*core).abandon(left) });
        drop_host(self.host.load(Ordering::Relaxed));
    }
}

/// What became of a record that found its lane full.
enum LinedUp {
    /// There was room after all.
    Admitted(Record),
    Waits(u64, Wait<Answer>),
}

fn host_pointer(host: Option<Arc<Owner>>) -> *mut Owner {
    host.map_or(std::ptr::null_mut(), |host| Arc::into_raw(host).cast_mut())
}

fn drop_host(host: *mut Owner) {
    if !host.is_null() {
        // SAFETY: `host` came from `host_pointer`, a strong count of this owner's, given up here.
        drop(unsafe { Arc::from_raw(host) });
    }
}
