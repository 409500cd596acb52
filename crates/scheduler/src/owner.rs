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

use crate::activation::Act;
use crate::admission::{Back, Front};
use crate::core::Core;
use crate::counters::Counters;
use crate::deadline::shielded;
use crate::drive;
use crate::inbox::{Inbox, Pushed};
use crate::link::{Kind, Link};
use crate::pool::{Pool, Run};
use crate::record::{Record, Refusal};
use crate::room::{Line, RoomWait};
use crate::state::State;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering, fence};
use crate::sync::{Mutex, UnsafeCell};
use crate::trace;
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

    /// A panic reached the driver although the layer above catches those of handlers: a destructor's, mostly.
    fn panicked(&self, panic: &(dyn Any + Send));
}

/// One object's cell.
#[repr(C)]
pub struct Owner {
    /// Its place in its host's inbox or queue. First, so that the link is the owner.
    link: Link,
    /// What came in, and whether somebody has the right to run it.
    inbox: Inbox,
    /// The senders' side of both lanes.
    front: [Front; 2],
    /// The owner of the gate it is under, as a strong count; null: its own.
    host: AtomicPtr<Owner>,
    /// The owner it is moving to, for comparison only; null: none.
    moving_to: AtomicPtr<Owner>,
    class: Arc<Class>,
    identity: Box<dyn Identity>,
    /// The holder's side of both lanes.
    back: [Back; 2],
    /// How a suspended holder is put back to work.
    wake: WakeWord,
    /// Set for good when the object is to end at once.
    cancelled: AtomicBool,
    /// Whether the control link is on its way.
    control_out: AtomicBool,
    /// Moves registered for this object that have not ended: no application record starts meanwhile (JOIN-11).
    holds: AtomicU32,
    /// News for the holder: a cancellation, or a hold that is gone.
    control: Link,
    /// The stand-in for the lifecycle lane in the queue; the holder's, but no part of `core`, because the queue
    /// points to it while `core` is borrowed.
    marker: Link,
    /// What most owners have none of; made when it is needed, gone when it is empty.
    rare: Mutex<Option<Box<Rare>>>,
    /// The holder's.
    core: UnsafeCell<Core>,
    /// The holder's.
    state: UnsafeCell<Option<State>>,
}

/// Those who wait.
#[derive(Default)]
struct Rare {
    /// For room, a line a lane.
    lines: [Line; 2],
    /// Handlers, so that a cancellation finds them. Changed at the first suspension and at the end.
    suspended: Vec<Act>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.suspended.is_empty() && self.lines.iter().all(Line::is_empty)
    }
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
            moving_to: AtomicPtr::new(std::ptr::null_mut()),
            class,
            identity,
            back: [Back::new(), Back::new()],
            wake: WakeWord::new(),
            cancelled: AtomicBool::new(false),
            control_out: AtomicBool::new(false),
            holds: AtomicU32::new(0),
            control: Link::new(Kind::Control),
            marker: Link::new(Kind::Marker),
            rare: Mutex::new(None),
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
            Err(why) => Err(self.refuse(refusal(why), record)),
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
            Err(why @ (Refused::Sealed | Refused::TooLarge)) => Err(self.refuse(refusal(why), record)),
            Err(Refused::Records | Refused::Bytes | Refused::Behind) => self.wait_in_line(lane, record),
        }
    }

    fn wait_in_line(
        self: &Arc<Self>,
        lane: Lane,
        record: Record,
    ) -> Result<Option<RoomWait>, (Refusal, Record)> {
        let at = lane as usize;
        let mut rare = self.rare.lock();
        let line = &mut rare.get_or_insert_default().lines[at];
        let first = line.is_empty();
        self.front[at].announce_waiter();
        // A seal that came first has emptied the line; one that comes later will find this waiter.
        if self.front[at].is_sealed() {
            return Err(self.refuse(Refusal::Ended, record));
        }
        if first {
            let bytes = record.reserved();
            if self.front[at].admit_waiter(&self.back[at], self.class.limits[at], bytes).is_ok() {
                self.front[at].withdraw_waiters();
                drop(rare);
                self.accept(record, false);
                return Ok(None);
            }
        }
        let in_trace = record.number();
        let (number, wait) = line.queue(record).map_err(|(why, record)| self.refuse(why, record))?;
        trace::waiting(self, lane, in_trace);
        drop(rare);
        Ok(Some(RoomWait::new(self.clone(), lane, number, wait)))
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
        let mut rare = self.rare.lock();
        let line = &mut rare.as_mut()?.lines[at];
        let record = line.leave(number)?;
        trace::left_line(self, &record);
        let others_wait = !line.is_empty();
        if !others_wait {
            self.front[at].withdraw_waiters();
        }
        tidy(&mut rare);
        drop(rare);
        if others_wait {
            self.serve_line(at);
        }
        Some(record)
    }

    /// Serves those who wait for room in either lane, as far as there is room. The holder calls it.
    pub(crate) fn serve_lines(self: &Arc<Self>) {
        fence(Ordering::SeqCst);
        for at in 0..2 {
            if self.front[at].has_waiters() {
                self.serve_line(at);
            }
        }
    }

    #[cold]
    fn serve_line(self: &Arc<Self>, at: usize) {
        let mut rare = self.rare.lock();
        let Some(line) = rare.as_mut().map(|rare| &mut rare.lines[at]) else { return };
        let served = line.serve(&self.front[at], &self.back[at], self.class.limits[at], |record| {
            self.accept(record, true)
        });
        if line.is_empty() {
            self.front[at].withdraw_waiters();
        }
        tidy(&mut rare);
        drop(rare);
        for answer in served {
            // Late: the sender gave up at the same moment. It will find its record gone from the line, and
            // reports it as accepted, which it is.
            // The waker behind it may be anybody's.
            shielded(|| _ = answer.complete(Ok(())));
        }
    }

    fn accept(self: &Arc<Self>, record: Record, from_line: bool) {
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
        for act in self.rare.lock().iter().flat_map(|rare| rare.suspended.iter()) {
            act.wake();
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Seals both lanes; those who wait for room are refused.
    pub(crate) fn seal(&self, why: Refusal) {
        trace::sealed(self);
        for front in &self.front {
            front.seal();
        }
        let mut told = Vec::new();
        for line in self.rare.lock().iter_mut().flat_map(|rare| rare.lines.iter_mut()) {
            line.take_answers(&mut told);
        }
        // With the lock gone: the wakers may be anybody's. Each sender fetches its record itself.
        for answer in told {
            shielded(|| _ = answer.complete(Err(why)));
        }
    }

    /// Whether the object takes no more records.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.front[Lane::Application as usize].is_sealed()
    }

    /// Puts a handler in the list of those that wait. Returns whether the object is cancelled: then nobody
    /// else will wake it.
    pub(crate) fn list(&self, act: Act) -> bool {
        if !act.listed().replace(true) {
            act.anchor();
            self.rare.lock().get_or_insert_default().suspended.push(act);
        }
        self.is_cancelled()
    }

    /// Takes a handler that ends out of the list.
    pub(crate) fn delist(&self, act: Act) {
        if act.listed().replace(false) {
            let mut rare = self.rare.lock();
            let Some(acts) = rare.as_mut().map(|rare| &mut rare.suspended) else { return };
            if let Some(at) = acts.iter().position(|other| *other == act) {
                acts.swap_remove(at);
            }
            tidy(&mut rare);
        }
    }

    /// One of those that wait.
    pub(crate) fn any_suspended(&self) -> Option<Act> {
        self.rare.lock().as_ref()?.suspended.last().copied()
    }

    /// Gives a reservation back. Only the holder may.
    pub(crate) fn give_back(&self, lane: Lane, bytes: u64, record: u64) {
        if bytes != 0 {
            trace::given_back(self, record, bytes);
            self.back[lane as usize].give_back(bytes);
        }
    }

    /// Admissions that are reserved and not yet appended.
    pub(crate) fn under_way(&self, lane: Lane, appended: u32) -> u32 {
        self.front[lane as usize].under_way(appended)
    }

    /// What is outstanding in a lane.
    #[must_use]
    pub fn in_use(&self, lane: Lane) -> Use {
        self.front[lane as usize].outstanding(&self.back[lane as usize])
    }

    /// How many wait for room in a lane.
    #[must_use]
    pub fn waiters(&self, lane: Lane) -> usize {
        self.rare.lock().as_ref().map_or(0, |rare| rare.lines[lane as usize].len())
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

    pub(crate) fn is_on_hold(&self) -> bool {
        self.holds.load(Ordering::Acquire) != 0
    }

    /// Announces where the object is moving to (`None`: nowhere any more), for the rules of waiting.
    pub fn announce_move(&self, to: Option<&Owner>) {
        self.moving_to.store(to.map_or(std::ptr::null(), std::ptr::from_ref).cast_mut(), Ordering::Release);
    }

    /// Where it is moving to.
    #[must_use]
    pub fn moving_to(&self) -> Option<Key> {
        let to = self.moving_to.load(Ordering::Acquire);
        (!to.is_null()).then(|| Key(to.addr()))
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
        let before = self.host.swap(host_pointer(host), Ordering::AcqRel);
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
    fn run(self: Arc<Self>) {
        drive::slice(self);
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

fn refusal(why: Refused) -> Refusal {
    match why {
        Refused::Sealed => Refusal::Ended,
        Refused::TooLarge => Refusal::TooLarge,
        Refused::Behind | Refused::Records | Refused::Bytes => Refusal::Full,
    }
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

/// Gives the memory back when nobody waits.
fn tidy(rare: &mut Option<Box<Rare>>) {
    if rare.as_ref().is_some_and(|rare| rare.is_empty()) {
        *rare = None;
    }
}
