//! An activation: one handler under way, its future, and the waker that puts it back in its place.
//!
//! One block of memory holds the header and the future. A worker keeps a spare block, builds the future of
//! each turn in it and polls it there; a handler that ends on its first poll gives the block straight back,
//! so it allocates nothing. A handler that waits keeps the block and the worker gets another.
//!
//! # States
//!
//! ```text
//!              wake                      take_notified
//!   ATTACHED ─────────► NOTIFIED ─────────────────────► ATTACHED
//!      │  release (pending Yield)        │ release
//!      ▼               wake              ▼
//!   RELEASED ─────────────────────────► QUEUED ─────── begin ──────► ATTACHED
//!
//!   any ── finish ──► DONE
//! ```
//!
//! * `ATTACHED`: the handler's turn holds the gate: it is polled, or it waits and keeps the gate.
//! * `NOTIFIED`: as before, and it is worth a poll.
//! * `RELEASED`: it yielded; nobody polls it, the gate is free for others.
//! * `QUEUED`: its resume link is in the gate's inbox or queue (or on its way there).
//! * `DONE`: the handler has ended or was cancelled. A block whose link was still queued stays until the link
//!   comes out.
//!
//! # The race that must not happen
//!
//! A wake-up that comes while the poll still runs is lost, or polls the handler without the gate. A wake
//! never polls: in `ATTACHED` it leaves a mark that the holder looks at before it suspends, in `RELEASED` it
//! queues a link. The holder's step from `ATTACHED` to `RELEASED` is a compare-exchange, so a mark made in
//! between turns into a link (YIELD-8, GATE-9).
//!
//! # Who may touch what
//!
//! The plain cells of the header belong to the holder of the gate. Everybody else has the state byte, the
//! count, and, once anchored, the two owners.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use turnkeep_machines::gate::Grant;
use turnkeep_machines::pair::Lane;

use crate::access::Ending;
use crate::ambient;
use crate::deadline::shielded;
use crate::link::{Kind, Link};
use crate::owner::Owner;
use crate::standing::Cut;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::trace;
use crate::waits::Berth;

const ATTACHED: u8 = 0;
const NOTIFIED: u8 = 1;
const RELEASED: u8 = 2;
const QUEUED: u8 = 3;
const DONE: u8 = 4;

/// The state byte: every change of it is one of these verbs.
#[derive(Debug)]
struct Word(AtomicU8);

/// What a wake leaves to be done.
#[derive(PartialEq, Eq)]
#[must_use]
enum Woken {
    /// The gate is held by this activation: tell the gate.
    TellGate,
    /// The activation had yielded: queue its resume link.
    QueueLink,
    /// It was awake already, or is over.
    Nothing,
}

impl Word {
    fn wake(&self) -> Woken {
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let (next, owed) = match now {
                ATTACHED => (NOTIFIED, Woken::TellGate),
                RELEASED => (QUEUED, Woken::QueueLink),
                _ => return Woken::Nothing,
            };
            match self.0.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return owed,
                Err(other) => now = other,
            }
        }
    }

    fn step(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is(&self, state: u8) -> bool {
        self.0.load(Ordering::Acquire) == state
    }
}

/// The header of a block.
#[repr(C)]
pub(crate) struct Activation {
    link: Link,
    word: Word,
    /// One for the driver (later for the queue its link is in), one for each waker.
    refs: AtomicUsize,
    /// The wish to give the gate up: set by a pending Yield, cleared by any touch of the state, by the
    /// Yield's end and at the start. See [`crate::access`].
    wish: AtomicBool,
    /// Whether `owner` and, if it is another, `gate` are strong counts of this block.
    anchored: AtomicBool,
    /// The object whose handler this is. Fixed at the start.
    owner: NonNull<Owner>,
    /// The owner whose gate its turns hold. Fixed at the start.
    gate: NonNull<Owner>,
    /// The future's functions; `None` before it is put in and after it was dropped.
    table: Cell<Option<&'static FutureTable>>,
    /// What its record has reserved and not yet given back.
    reserved: Cell<u64>,
    /// The lane of its record.
    lane: Lane,
    /// The number of its record in a trace; 0 without one.
    record: u64,
    /// The grant of its newest turn.
    grant: Cell<Grant>,
    /// Whether it stands in its owner's list of suspended handlers.
    listed: Cell<bool>,
    /// The deadline of the request it serves, in ticks; `u64::MAX` for none.
    deadline_ns: Cell<u64>,
    /// The flow it belongs to.
    flow: Cell<u64>,
    /// The call it answers; 0 for none.
    serves: Cell<u64>,
    /// Its first call, while it waits for the answer.
    berth: Berth,
    /// Whether it has raised its owner's signpost for that call.
    raised: Cell<bool>,
    /// Whether the layer above has declared the handler over, though its turn goes on.
    closed: Cell<bool>,
    /// Whether it was woken because its yields may go on no longer.
    told_cut: Cell<bool>,
    /// When it began to wait, in ticks, to the length of a slice; for who looks from outside.
    since_ns: AtomicU64,
    /// What the layer above keeps for this handler.
    local: Cell<Option<Box<dyn Any + Send>>>,
    /// The size of the block.
    size: usize,
}

struct FutureTable {
    poll: unsafe fn(NonNull<u8>, &mut Context<'_>) -> Poll<Ending>,
    drop: unsafe fn(NonNull<u8>),
}

struct TableOf<F>(F);

impl<F: Future<Output = Ending>> TableOf<F> {
    const TABLE: FutureTable = FutureTable { poll: Self::poll, drop: Self::drop };

    unsafe fn poll(future: NonNull<u8>, cx: &mut Context<'_>) -> Poll<Ending> {
        // SAFETY: the storage holds an `F` (the table is F's) that never moves until it is dropped in place;
        // the caller has it to itself.
        unsafe { Pin::new_unchecked(future.cast::<F>().as_mut()) }.poll(cx)
    }

    unsafe fn drop(future: NonNull<u8>) {
        // SAFETY: as for `poll`; called once, the table is taken away with it.
        unsafe { std::ptr::drop_in_place(future.cast::<F>().as_ptr()) };
    }
}

/// What one poll of a handler came to.
pub(crate) enum Polled {
    /// It ended.
    Ended(Ending),
    /// It waits and keeps the gate.
    Kept,
    /// It waits and gives the gate up.
    Released,
    /// It panicked past everything that should have caught it. Boxed twice, so that a `Polled` is two words.
    Panicked(Box<Box<dyn Any + Send>>),
}

const ALIGN: usize = 64;
const BODY: usize = size_of::<Activation>().next_multiple_of(ALIGN);
/// The size of the blocks that workers keep.
const BLOCK: usize = 2048;

/// What a new turn is about.
pub(crate) struct About<'a> {
    pub(crate) owner: &'a Arc<Owner>,
    pub(crate) gate: &'a Arc<Owner>,
    pub(crate) lane: Lane,
    pub(crate) reserved: u64,
    pub(crate) record: u64,
    pub(crate) grant: Grant,
}

thread_local! {
    /// A block nobody uses, for this thread's next turn. It belongs to no turn.
    static SPARE: Spare = const { Spare(Cell::new(None)) };
}

struct Spare(Cell<Option<NonNull<Activation>>>);

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            // SAFETY: a spare block is ours alone and of standard size.
            unsafe { dealloc(block.as_ptr().cast(), layout(BLOCK)) };
        }
    }
}

fn layout(size: usize) -> Layout {
    match Layout::from_size_align(size, ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!("a future's size is far below isize::MAX"),
    }
}

fn allocate(size: usize) -> NonNull<Activation> {
    let layout = layout(size);
    // SAFETY: the size is never zero, a header is in it.
    let block = unsafe { alloc(layout) };
    NonNull::new(block.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}

/// The driver's pointer to an activation. Copies are fine; the driver's one count is given back by `finish`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Act(NonNull<Activation>);

impl std::ops::Deref for Act {
    type Target = Activation;

    fn deref(&self) -> &Activation {
        // SAFETY: an `Act` is used only while the driver's count, the queue's count or a waker's count keeps
        // the block alive.
        unsafe { self.0.as_ref() }
    }
}

impl Act {
    /// A block for a new turn: the thread's spare one, or a new one.
    pub(crate) fn acquire(about: &About<'_>) -> Self {
        let block = SPARE.try_with(|spare| spare.0.take()).ok().flatten().unwrap_or_else(|| allocate(BLOCK));
        Self::init(block, BLOCK, about);
        Self(block)
    }

    fn init(block: NonNull<Activation>, size: usize, about: &About<'_>) {
        let header = Activation {
            link: Link::new(Kind::Resume),
            word: Word(AtomicU8::new(ATTACHED)),
            refs: AtomicUsize::new(1),
            wish: AtomicBool::new(false),
            anchored: AtomicBool::new(false),
            owner: owner_pointer(about.owner),
            gate: owner_pointer(about.gate),
            table: Cell::new(None),
            reserved: Cell::new(about.reserved),
            lane: about.lane,
            record: about.record,
            grant: Cell::new(about.grant),
            listed: Cell::new(false),
            deadline_ns: Cell::new(u64::MAX),
            flow: Cell::new(0),
            serves: Cell::new(0),
            berth: Berth::new(),
            raised: Cell::new(false),
            closed: Cell::new(false),
            told_cut: Cell::new(false),
            since_ns: AtomicU64::new(0),
            local: Cell::new(None),
            size,
        };
        // SAFETY: the block is ours alone and large enough for a header.
        unsafe { block.as_ptr().write(header) };
    }

    /// A block large enough for `F`: this one, or a larger one in its place. To be called before anything
    /// points to it.
    pub(crate) fn fit<F>(self) -> Self {
        let (size, align) = storage_of::<F>();
        debug_assert!(align <= ALIGN);
        if BODY + size <= self.size {
            return self;
        }
        let block = allocate(BODY + size);
        // SAFETY: the old header is moved, not copied: its block is set aside without dropping it, and no
        // waker or access points to it yet. Only the size differs.
        unsafe {
            std::ptr::copy_nonoverlapping(self.0.as_ptr(), block.as_ptr(), 1);
            (*block.as_ptr()).size = BODY + size;
        }
        set_aside(self.0);
        Self(block)
    }

    /// Puts the handler's future in. It must be the first one, and fit.
    pub(crate) fn put<F: Future<Output = Ending> + Send + 'static>(self, future: F) {
        if align_of::<F>() > ALIGN {
            return self.put_here(Box::pin(future));
        }
        self.put_here(future);
    }

    fn put_here<F: Future<Output = Ending> + Send + 'static>(self, future: F) {
        assert!(self.table.get().is_none() && BODY + size_of::<F>() <= self.size);
        // SAFETY: `fit` made room behind the header, aligned by `ALIGN`; the storage is empty.
        unsafe { self.storage().cast::<F>().as_ptr().write(future) };
        self.table.set(Some(&TableOf::<F>::TABLE));
    }

    fn storage(self) -> NonNull<u8> {
        // SAFETY: every block is at least `BODY` long.
        unsafe { self.0.cast::<u8>().add(BODY) }
    }

    /// Polls the handler. Only the holder of its gate may.
    pub(crate) fn poll(self) -> Polled {
        let Some(table) = self.table.get() else {
            return Polled::Ended(Ending::done());
        };
        // SAFETY: the vtable below keeps the waker contract; the borrowed waker takes no count because it
        // lives no longer than this call, during which the driver's count stands.
        let waker = unsafe { std::mem::ManuallyDrop::new(Waker::from_raw(raw(self.0))) };
        let mut cx = Context::from_waker(&waker);
        // SAFETY: the storage holds the future of `table`, and the holder has it to itself.
        let poll = AssertUnwindSafe(|| unsafe { (table.poll)(self.storage(), &mut cx) });
        match ambient::in_turn(self, || catch_unwind(poll)) {
            Ok(Poll::Ready(ending)) => Polled::Ended(ending),
            Ok(Poll::Pending) if self.wish.load(Ordering::Relaxed) => Polled::Released,
            Ok(Poll::Pending) => Polled::Kept,
            Err(panic) => Polled::Panicked(Box::new(panic)),
        }
    }

    /// Drops the future, if it is still there, and what is kept for it. Under the gate.
    ///
    /// Returns the panic of a destructor, if there was one.
    pub(crate) fn drop_future(self) -> Option<Box<dyn Any + Send>> {
        let mut panic = None;
        if let Some(table) = self.table.take() {
            // SAFETY: the storage holds the future of `table`; the table is gone, so this is done once.
            let drop = AssertUnwindSafe(|| unsafe { (table.drop)(self.storage()) });
            panic = ambient::in_turn(self, || catch_unwind(drop)).err();
        }
        let local = self.local.take();
        shielded(|| drop(local));
        panic
    }

    /// The handler is over. Gives the driver's count back, or leaves it to the queue the link is still in.
    pub(crate) fn finish(self) {
        debug_assert!(self.table.get().is_none(), "the future is dropped first");
        if !self.anchored.load(Ordering::Relaxed) {
            // Never suspended, and no waker was ever cloned: nobody else knows the block.
            // SAFETY: the driver's count is the only one, and ends here.
            unsafe { free(self.0, true) };
            return;
        }
        let before = self.word.0.swap(DONE, Ordering::AcqRel);
        if before != QUEUED {
            // SAFETY: the driver's one count, given back once: the state is `DONE` from now on.
            unsafe { release(self.0, true) };
        }
    }

    /// Its resume link came out of a queue: `true` if it may be polled, `false` if it was over already.
    pub(crate) fn begin_resume(self) -> bool {
        if self.word.step(QUEUED, ATTACHED) {
            return true;
        }
        // SAFETY: `finish` left the driver's count to the link that has just come out.
        unsafe { release(self.0, true) };
        false
    }

    /// Whether a wake-up came since the last poll; it is taken note of.
    pub(crate) fn take_notified(self) -> bool {
        self.word.step(NOTIFIED, ATTACHED)
    }

    pub(crate) fn is_over(self) -> bool {
        self.word.is(DONE)
    }

    pub(crate) fn is_notified(self) -> bool {
        self.word.is(NOTIFIED)
    }

    /// The handler yielded. `false`: a wake-up came during the poll; the caller queues the resume link now.
    #[must_use]
    pub(crate) fn release_gate(self) -> bool {
        if self.word.step(ATTACHED, RELEASED) {
            return true;
        }
        let noted = self.word.step(NOTIFIED, QUEUED);
        debug_assert!(noted, "only a wake-up changes an attached activation");
        false
    }

    pub(crate) fn wake(self) {
        wake(self.0);
    }

    pub(crate) fn link(self) -> NonNull<Link> {
        self.0.cast()
    }

    /// The activation behind a resume link.
    ///
    /// # Safety
    ///
    /// The link came from `link`, was popped, and its block is alive.
    pub(crate) unsafe fn from_link(link: NonNull<Link>) -> Self {
        Self(link.cast())
    }

    /// A number for this handler, while it is under way.
    pub(crate) fn number(self) -> usize {
        self.0.addr().get()
    }

    /// Whether it has given its gate up.
    pub(crate) fn has_yielded(self) -> bool {
        self.word.is(RELEASED) || self.word.is(QUEUED)
    }

    /// Makes the two owners strong counts of this block, so that it may outlive the slice.
    pub(crate) fn anchor(self) {
        anchor(&self);
    }
}

impl Activation {
    pub(crate) fn owner(&self) -> &Owner {
        // SAFETY: a strong count of the block once anchored, else of the worker that runs the slice; whoever
        // can call this has one of the two.
        unsafe { self.owner.as_ref() }
    }

    pub(crate) fn gate(&self) -> &Owner {
        // SAFETY: as for `owner`.
        unsafe { self.gate.as_ref() }
    }

    /// A strong count of the object.
    pub(crate) fn owner_arc(&self) -> Arc<Owner> {
        arc_from(self.owner)
    }

    /// A strong count of the owner whose gate its turns hold.
    pub(crate) fn gate_arc(&self) -> Arc<Owner> {
        arc_from(self.gate)
    }

    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns.load(Ordering::Relaxed)
    }

    /// It begins to wait.
    pub(crate) fn set_since(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn wish(&self) -> &AtomicBool {
        &self.wish
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    pub(crate) fn record(&self) -> u64 {
        self.record
    }

    pub(crate) fn reserved(&self) -> &Cell<u64> {
        &self.reserved
    }

    pub(crate) fn grant(&self) -> &Cell<Grant> {
        &self.grant
    }

    pub(crate) fn listed(&self) -> &Cell<bool> {
        &self.listed
    }

    pub(crate) fn deadline_ns(&self) -> &Cell<u64> {
        &self.deadline_ns
    }

    pub(crate) fn flow(&self) -> &Cell<u64> {
        &self.flow
    }

    pub(crate) fn serves(&self) -> &Cell<u64> {
        &self.serves
    }

    pub(crate) fn berth(&self) -> &Berth {
        &self.berth
    }

    pub(crate) fn raised(&self) -> &Cell<bool> {
        &self.raised
    }

    /// How its yields end, if they may go on no longer.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.gate().standing().cut().or_else(|| self.owner().standing().cut())
    }

    /// Whether this handler's yields may go on no longer and it has not been woken for that: `true` once.
    pub(crate) fn is_newly_cut(&self) -> bool {
        self.lane == Lane::Application && self.cut().is_some() && !self.told_cut.replace(true)
    }

    pub(crate) fn closed(&self) -> &Cell<bool> {
        &self.closed
    }

    pub(crate) fn local(&self) -> &Cell<Option<Box<dyn Any + Send>>> {
        &self.local
    }
}

fn storage_of<F>() -> (usize, usize) {
    if align_of::<F>() > ALIGN {
        (size_of::<Pin<Box<F>>>(), align_of::<Pin<Box<F>>>())
    } else {
        (size_of::<F>(), align_of::<F>())
    }
}

fn owner_pointer(owner: &Arc<Owner>) -> NonNull<Owner> {
    // An `Arc`'s pointer is never null; a fallback would be dead code.
    match NonNull::new(Arc::as_ptr(owner).cast_mut()) {
        Some(pointer) => pointer,
        None => unreachable!("an Arc points to something"),
    }
}

fn arc_from(owner: NonNull<Owner>) -> Arc<Owner> {
    // SAFETY: the pointer came from `Arc::as_ptr` and somebody (see `Activation::owner`) holds a count.
    unsafe {
        Arc::increment_strong_count(owner.as_ptr());
        Arc::from_raw(owner.as_ptr())
    }
}

fn anchor(act: &Activation) {
    // Read first: the swap is an exchange, and all but the first find it set.
    if !act.anchored.load(Ordering::Acquire) && !act.anchored.swap(true, Ordering::AcqRel) {
        // SAFETY: whoever anchors first has a count of both (see `Activation::owner`).
        unsafe {
            Arc::increment_strong_count(act.owner.as_ptr());
            if act.gate != act.owner {
                Arc::increment_strong_count(act.gate.as_ptr());
            }
        }
    }
}

/// Gives one count back; the last one sets the block aside, or frees it.
///
/// # Safety
///
/// The count is the caller's, and it does not use the block afterwards.
unsafe fn release(block: NonNull<Activation>, keep: bool) {
    // SAFETY: alive through the caller's count.
    let act = unsafe { block.as_ref() };
    if act.refs.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    // SAFETY: the last count is gone.
    unsafe { free(block, keep) };
}

/// Takes the header apart and sets the block aside, or frees it.
///
/// # Safety
///
/// Nobody else can reach the block, and the caller does not use it afterwards.
unsafe fn free(block: NonNull<Activation>, keep: bool) {
    // SAFETY: ours alone by this function's contract.
    let act = unsafe { block.as_ref() };
    let anchors = act.anchored.load(Ordering::Relaxed).then(|| {
        let gate = (act.gate != act.owner).then_some(act.gate);
        // SAFETY: `anchor` left these counts to the block, which is ours alone now.
        unsafe { (Arc::from_raw(act.owner.as_ptr()), gate.map(|gate| Arc::from_raw(gate.as_ptr()))) }
    });
    let size = act.size;
    // SAFETY: the last count is gone; nobody else can reach the header.
    unsafe { std::ptr::drop_in_place(block.as_ptr()) };
    if keep && size == BLOCK {
        set_aside(block);
    } else {
        // SAFETY: allocated with this layout; nothing lives in it any more.
        unsafe { dealloc(block.as_ptr().cast(), layout(size)) };
    }
    drop(anchors);
}

/// Keeps a standard block, whose header is gone, as the thread's spare, or frees it.
fn set_aside(block: NonNull<Activation>) {
    let left = SPARE.try_with(|spare| match spare.0.take() {
        None => {
            spare.0.set(Some(block));
            None
        }
        Some(other) => {
            spare.0.set(Some(other));
            Some(block)
        }
    });
    if let Some(block) = left.unwrap_or(Some(block)) {
        // SAFETY: a standard block with nothing in it, ours alone.
        unsafe { dealloc(block.as_ptr().cast(), layout(BLOCK)) };
    }
}

fn wake(block: NonNull<Activation>) {
    // SAFETY: the caller's waker or the driver's count keeps the block.
    let act = unsafe { block.as_ref() };
    match act.word.wake() {
        Woken::Nothing => {}
        Woken::TellGate => {
            if act.gate().wake_word().notify() {
                act.gate_arc().schedule();
            }
        }
        Woken::QueueLink => {
            let gate = act.gate_arc();
            trace::resume_queued(&gate, act.record);
            // SAFETY: the state says `QUEUED` and this thread made it so: the link is in no list, and the
            // block stays until the link has come out.
            unsafe { gate.push_link(block.cast()) };
        }
    }
}

const VTABLE: RawWakerVTable = RawWakerVTable::new(clone_waker, wake_waker, wake_by_ref, drop_waker);

fn raw(block: NonNull<Activation>) -> RawWaker {
    RawWaker::new(block.as_ptr().cast_const().cast(), &VTABLE)
}

fn block_of(data: *const ()) -> NonNull<Activation> {
    match NonNull::new(data.cast_mut().cast()) {
        Some(block) => block,
        None => unreachable!("the waker was made from a block"),
    }
}

unsafe fn clone_waker(data: *const ()) -> RawWaker {
    let block = block_of(data);
    // SAFETY: the waker being cloned keeps the block.
    let act = unsafe { block.as_ref() };
    anchor(act);
    act.refs.fetch_add(1, Ordering::Relaxed);
    raw(block)
}

unsafe fn wake_waker(data: *const ()) {
    // SAFETY: passed on; the waker is consumed.
    unsafe {
        wake_by_ref(data);
        drop_waker(data);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    wake(block_of(data));
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker's own count.
    unsafe { release(block_of(data), false) };
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// Two wakes against a holder whose handler yields: the resume link is queued once, whoever queues it.
    #[test]
    fn loom_yield_8_a_wake_during_the_release_queues_the_handler_once() {
        loom::model(|| {
            let word = Arc::new(Word(AtomicU8::new(ATTACHED)));
            let queued = Arc::new(AtomicUsize::new(0));
            let wakers: Vec<_> = (0..2)
                .map(|_| {
                    let (word, queued) = (word.clone(), queued.clone());
                    loom::thread::spawn(move || match word.wake() {
                        Woken::QueueLink => {
                            queued.fetch_add(1, SeqCst);
                        }
                        Woken::TellGate | Woken::Nothing => {}
                    })
                })
                .collect();
            if !word.step(ATTACHED, RELEASED) {
                assert!(word.step(NOTIFIED, QUEUED));
                queued.fetch_add(1, SeqCst);
            }
            for waker in wakers {
                waker.join().unwrap();
            }
            assert_eq!(queued.load(SeqCst), 1, "queued exactly once");
            assert!(word.is(QUEUED));
        });
    }

    /// A wake against the holder that polls again after a resume: the mark is not lost.
    #[test]
    fn loom_gate_9_a_wake_of_a_handler_that_is_over_changes_nothing() {
        loom::model(|| {
            let word = Arc::new(Word(AtomicU8::new(RELEASED)));
            let other = word.clone();
            let waker = loom::thread::spawn(move || other.wake() == Woken::QueueLink);
            let before = word.0.swap(DONE, Ordering::AcqRel);
            let queued = waker.join().unwrap();
            assert_eq!(before == QUEUED, queued, "the block is left to the link exactly if there is one");
            assert!(word.wake() == Woken::Nothing);
            assert!(word.is(DONE));
        });
    }
}
