//! Who waits for whom: every wait of a handler for another object, and the refusal of one that would close a
//! cycle (REENT-5). The rule is [`turnkeep_machines::cycle`]; this file has the knowledge it looks at.
//!
//! # Where a wait stands
//!
//! The first call of a handler stands in its activation (`berth`), where it costs no lock. Every other wait is
//! an `Entry` in the box (`rare`) of the object whose handler waits and, if that handler keeps the
//! gate of another object (a member its Spot's), in that one's too. It goes in before anything is submitted and
//! comes out when the `Waiting` is dropped, or with the handler's end.
//!
//! # The race that must not happen
//!
//! Two handlers begin to wait for each other, each looks before the other's entry is in, and both wait for ever;
//! or each finds the other's, and both are refused although one refusal would do.
//!
//! * *Missed*: an asker first puts its entry in and raises the `Signpost` of the gate and the claim that it holds,
//!   passes a full fence, then reads that of its target and of its target's gate. Of the askers of a cycle, the one
//!   whose fence comes last reads all the others' as raised, and finds the entries under the boxes' locks (Dekker
//!   1965, with the fences that C11 needs). A move of the target in between is an asker itself: it looks again.
//! * A pending Join is an asker, too: what it will wait for is announced by the handler that leaves it behind, and
//!   looked at there.
//! * *Both refused*: who finds a cycle takes one lock of the process, searches again, and if the cycle is still
//!   there takes its own entry out before it gives the lock back. Whoever comes next finds the cycle broken.
//!
//! The common wait, for an object whose gate and claim nobody keeps while waiting, costs the entry and one look.
//!
//! A wait that is over is no wait, although whoever waited has not noticed yet: the object that answered may be the
//! next to ask. So an entry can be asked whether its wait is over (`Over`), and one that is counts as gone.
//!
//! # Who keeps the pointers alive
//!
//! An entry's pointers are read only under the lock of the box it is in. The `Waiting` (or the activation) that
//! put it there has counts of all of them and takes it out, under that lock, before it gives them back. The slot
//! that an entry of an `Awaited` looks into lives as long as that one's end of it, which goes after the entry.

use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use turnkeep_machines::cycle::{self, Look, Need, Waiter};

pub(crate) use self::berth::{Berth, Bond};
use crate::activation::Act;
use crate::ambient::with_act;
use crate::completion::{Outcome, Probe, Wait};
use crate::numbers::fresh;
use crate::owner::Owner;
use crate::sight;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

mod berth;

/// Held while a cycle that was found is looked for again.
static ONE_REFUSAL: parking_lot::Mutex<()> = parking_lot::const_mutex(());

/// One wait of one handler.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The handler, as a number.
    pub(crate) handler: usize,
    /// The call it serves; 0 for none.
    serves: u64,
    /// Whether it keeps the gate.
    keeps: bool,
    /// Whether its object starts nothing before it has ended.
    claims: bool,
    /// The owner of the gate that its turn holds.
    gate: NonNull<Owner>,
    /// Whose turn it waits for.
    target: NonNull<Owner>,
    /// For which call.
    call: u64,
    over: Over,
}

/// How it is known that a wait is over.
#[derive(Clone, Debug)]
enum Over {
    /// Not before it is taken out.
    Unknown,
    /// Whoever answers says so.
    Told(Answered),
    /// The completion of the answer says so.
    Slot(Probe),
}

/// Said by whoever answers, just before the answer is given: the wait for it hangs on nobody any more.
#[derive(Clone, Debug, Default)]
pub struct Answered(Arc<AtomicBool>);

impl Answered {
    /// The answer is there.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

// SAFETY: the pointers are read under the lock of the box the entry is in, or with the reader's mark of its berth; see
// the head of this file.
unsafe impl Send for Entry {}

impl Entry {
    fn need(&self) -> Need<Who> {
        // SAFETY: called under the lock of the box the entry is in, so its `Waiting` has a count of the target.
        let target = unsafe {
            Arc::increment_strong_count(self.target.as_ptr());
            Arc::from_raw(self.target.as_ptr())
        };
        Need { owner: Who(target), call: self.call }
    }

    fn is_over(&self) -> bool {
        match &self.over {
            Over::Unknown => false,
            Over::Told(answered) => answered.0.load(Ordering::Acquire),
            // SAFETY: called under the lock of the box, so the `Awaited` that has an end of the slot still has it.
            Over::Slot(probe) => unsafe { probe.is_over() },
        }
    }

    /// The handler ends before its call: see [`berth`].
    /// `true`: the call is being taken out this very moment.
    fn handler_ends(&self) -> bool {
        match &self.over {
            // SAFETY: called while the entry is in, so the `Awaited` that has an end of the slot still has it.
            Over::Slot(probe) => unsafe { probe.bond() }.handler_ends(),
            Over::Unknown | Over::Told(_) => false,
        }
    }

    /// A count of the owner whose gate it keeps as a guest. Under the lock of the box of its own object.
    pub(crate) fn guest_of(&self, own: &Owner) -> Option<Arc<Owner>> {
        if !self.keeps || std::ptr::eq(self.gate.as_ptr(), own) {
            return None;
        }
        // SAFETY: the entry is still in, so its handler has not ended, and that has a count of its gate.
        Some(unsafe {
            Arc::increment_strong_count(self.gate.as_ptr());
            Arc::from_raw(self.gate.as_ptr())
        })
    }

    /// For who looks from outside. Under the lock of the box the entry is in.
    pub(crate) fn sight(&self) -> sight::Wait {
        sight::Wait { target: self.need().owner.0, call: self.call, is_over: self.is_over() }
    }

    /// Whether somebody else may hang on this wait without having made the call.
    pub(crate) fn is_in_the_way(&self) -> bool {
        self.keeps || self.claims
    }
}

/// How many entries of a box others may hang on, to be read without the box's lock. Changed under that lock.
#[derive(Debug)]
pub(crate) struct Signpost(AtomicU32);

impl Signpost {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// To be followed by a full fence before the raiser looks at others' signposts.
    pub(crate) fn raise(&self, by: u32) {
        self.0.store(self.0.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    pub(crate) fn lower(&self, by: u32) {
        self.0.store(self.0.load(Ordering::Relaxed) - by, Ordering::Relaxed);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// An owner, told apart by where it is.
#[derive(Clone)]
struct Who(Arc<Owner>);

impl PartialEq for Who {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Who {}

/// The owners of a cycle that a wait would have closed: the first is the last, too.
#[derive(Debug)]
pub struct Cycle(pub Vec<Arc<Owner>>);

/// A wait for an object, from before it begins until this is dropped. It derefs to that object.
#[derive(Debug)]
#[must_use = "dropping it says that the wait is over"]
pub struct Waiting {
    target: Arc<Owner>,
    call: u64,
    /// `None` if no handler waits but other code.
    mark: Option<Mark>,
}

/// Where the entry of a wait is.
#[derive(Debug)]
enum Mark {
    /// In the box of the handler's object.
    Boxed { handler: usize, of: Arc<Owner> },
    /// In the handler's activation, which is gone once the bond says so.
    Berthed { act: Act, probe: Probe },
}

// SAFETY: the activation is touched by its own handler's thread, or after the bond has been asked.
unsafe impl Send for Mark {}
// SAFETY: a shared mark is compared only.
unsafe impl Sync for Mark {}

/// Notes that the running handler will wait for a turn of `target`, for the call of that number (0: for none in
/// particular; the wait gets a number of its own), keeping its gate or not.
///
/// Outside of turns, and in tasks of the program's own, which nobody can wait for, nothing is noted.
///
/// # Errors
///
/// The cycle that this wait would close; then nothing is noted.
pub fn begin(target: &Arc<Owner>, call: u64, keeps: bool) -> Result<Waiting, Cycle> {
    look(note(target, call, keeps, &Over::Unknown), keeps)
}

/// As [`begin`] for a wait whose answer is announced.
///
/// # Errors
///
/// As for [`begin`].
pub fn begin_told(target: &Arc<Owner>, call: u64, keeps: bool, told: &Answered) -> Result<Waiting, Cycle> {
    look(note_told(target, call, keeps, told), keeps)
}

/// As [`begin_told`] for a wait that was announced, and not refused, before.
pub fn note_told(target: &Arc<Owner>, call: u64, keeps: bool, told: &Answered) -> Waiting {
    note(target, call, keeps, &Over::Told(told.clone()))
}

/// What the handlers of `owner` wait for, each with whether it keeps its gate meanwhile; out of date at once.
#[must_use]
pub fn of(owner: &Owner) -> Vec<(Arc<Owner>, bool)> {
    let mut waits = Vec::new();
    let mut add = |entry: &Entry| {
        if !entry.is_over() {
            waits.push((entry.need().owner.0, entry.keeps));
        }
    };
    owner.rare().if_any(|rare| {
        let own = |entry: &&Entry| rare.suspended.iter().any(|act| act.number() == entry.handler);
        rare.waits.iter().filter(own).for_each(&mut add);
        for act in &rare.suspended {
            act.berth().with(&mut add);
        }
    });
    waits
}

fn note(target: &Arc<Owner>, call: u64, keeps: bool, over: &Over) -> Waiting {
    // An entry is found again by its number: one handler may wait for several turns that are no calls.
    let call = if call == 0 { fresh() } else { call };
    let mark = with_act(|act| {
        let act = act.filter(|act| act.owner().class().is_asked)?;
        Some(put(act, target, call, keeps, over))
    });
    Waiting { target: target.clone(), call, mark }
}

/// Puts the entry in; the last step makes it visible.
fn put(act: Act, target: &Arc<Owner>, call: u64, keeps: bool, over: &Over) -> Mark {
    let entry = || Entry {
        handler: act.number(),
        serves: act.serves().get(),
        keeps,
        claims: act.owner().class().claims,
        gate: NonNull::from(act.gate()),
        target: NonNull::from(&**target),
        call,
        over: over.clone(),
    };
    let is_guest = keeps && !std::ptr::eq(act.owner(), act.gate());
    let mark = match over {
        Over::Slot(probe) if !is_guest && act.berth().is_empty() => {
            berthed(act, entry());
            Mark::Berthed { act, probe: *probe }
        }
        _ => {
            let of = act.owner_arc();
            of.list_with(act, entry());
            Mark::Boxed { handler: act.number(), of }
        }
    };
    if is_guest {
        act.gate().put_wait(entry());
    }
    fence(Ordering::SeqCst);
    mark
}

/// Puts the entry into the running handler's activation.
fn berthed(act: Act, entry: Entry) {
    act.owner().list(act);
    if entry.is_in_the_way() && !act.raised().replace(true) {
        act.owner().calls_out().raise(1);
    }
    // SAFETY: the running handler's own berth, found empty.
    unsafe { act.berth().put(entry) };
}

fn look(waiting: Waiting, keeps: bool) -> Result<Waiting, Cycle> {
    if waiting.mark.is_none() || !is_anybody_in_the_way(&waiting.target) {
        return Ok(waiting);
    }
    look_closely(waiting, keeps)
}

fn is_anybody_in_the_way(target: &Arc<Owner>) -> bool {
    target.has_waits() || target.is_on_hold() || (target.is_guest() && target.gate_owner().has_waits())
}

#[cold]
fn look_closely(waiting: Waiting, keeps: bool) -> Result<Waiting, Cycle> {
    if search(&waiting, keeps).is_none() {
        return Ok(waiting);
    }
    let _one = ONE_REFUSAL.lock();
    match search(&waiting, keeps) {
        None => Ok(waiting),
        Some(chain) => {
            drop(waiting);
            Err(Cycle(chain.into_iter().map(|who| who.0).collect()))
        }
    }
}

fn search(waiting: &Waiting, keeps: bool) -> Option<Vec<Who>> {
    with_act(|act| {
        let act = act?;
        let asker = cycle::Asker {
            handler: act.number(),
            owner: Who(act.owner_arc()),
            gate: Who(act.gate_arc()),
            keeps,
            claims: act.owner().class().claims,
            serves: act.serves().get(),
            answers: 0,
        };
        cycle::closing(&asker, Need { owner: Who(waiting.target.clone()), call: waiting.call }, &Boxes)
    })
}

/// Announces that a Join of `actor` is pending which needs turns of `spots`: to be called by the handler that leaves
/// it behind, before it gives its answer.
///
/// # Errors
///
/// The cycle that the Join would close; then nothing is announced.
pub fn announce_join(actor: &Arc<Owner>, join: u64, spots: &[Arc<Owner>]) -> Result<(), Cycle> {
    actor.announce_join(join, spots.to_vec());
    fence(Ordering::SeqCst);
    if search_join(actor, spots).is_none() {
        return Ok(());
    }
    let _one = ONE_REFUSAL.lock();
    match search_join(actor, spots) {
        None => Ok(()),
        Some(chain) => {
            actor.announce_join(join, Vec::new());
            Err(Cycle(chain.into_iter().map(|who| who.0).collect()))
        }
    }
}

fn search_join(actor: &Arc<Owner>, spots: &[Arc<Owner>]) -> Option<Vec<Who>> {
    let asker = cycle::Asker {
        // No handler: the Join begins when this one is over.
        handler: 0,
        owner: Who(actor.clone()),
        gate: Who(actor.clone()),
        keeps: false,
        claims: true,
        serves: 0,
        answers: with_act(|act| act.map_or(0, |act| act.serves().get())),
    };
    spots.iter().find_map(|spot| cycle::closing(&asker, Need { owner: Who(spot.clone()), call: 0 }, &Boxes))
}

/// What the boxes say.
struct Boxes;

impl Boxes {
    /// The entries of `who` that `which` picks, by handler.
    ///
    /// A handler keeps its gate if it does so in every wait: one yield gives it up, whatever else it has begun. That
    /// holds of a yield that is over, too: the handler still needs the gate to go on.
    fn waiters(who: &Who, which: impl Fn(&Entry) -> bool) -> Vec<Waiter<Who>> {
        let mut waiters: Vec<Waiter<Who>> = Vec::new();
        let mut add = |entry: &Entry| {
            if !which(entry) {
                return;
            }
            let need = (!entry.is_over()).then(|| entry.need());
            match waiters.iter_mut().find(|waiter| waiter.handler == entry.handler) {
                Some(waiter) => {
                    waiter.keeps &= entry.keeps;
                    waiter.needs.extend(need);
                }
                None => {
                    let (handler, keeps, needs) = (entry.handler, entry.keeps, need.into_iter().collect());
                    waiters.push(Waiter { handler, keeps, needs });
                }
            }
        };
        who.0.rare().if_any(|rare| {
            rare.waits.iter().for_each(&mut add);
            for act in &rare.suspended {
                act.berth().with(&mut add);
            }
        });
        waiters
    }
}

impl Look for Boxes {
    type Owner = Who;

    fn serving(&self, owner: &Who, call: u64) -> Option<Waiter<Who>> {
        Self::waiters(owner, |entry| entry.serves == call).pop()
    }

    fn gate(&self, owner: &Who) -> Who {
        Who(owner.0.gate_owner())
    }

    fn keepers(&self, gate: &Who) -> Vec<Waiter<Who>> {
        Self::waiters(gate, |entry| entry.keeps && std::ptr::eq(entry.gate.as_ptr(), &*gate.0))
    }

    fn claimants(&self, owner: &Who) -> Vec<Waiter<Who>> {
        // An entry of a guest that keeps this owner's gate has a claim of its own object.
        let claims = owner.0.class().claims;
        Self::waiters(owner, |entry| claims && entry.claims)
    }

    fn joining(&self, owner: &Who) -> Vec<Who> {
        let spots = owner.0.rare().if_any(|rare| rare.joining.clone());
        spots.into_iter().flatten().map(|(_, spot)| Who(spot)).collect()
    }
}

impl Waiting {
    /// The object waited for.
    #[must_use]
    pub fn target(&self) -> &Arc<Owner> {
        &self.target
    }

    /// The wait is over.
    fn end(&mut self) {
        match self.mark.take() {
            None => {}
            Some(Mark::Boxed { handler, of }) => {
                let is_it = |entry: &Entry| entry.handler == handler && entry.call == self.call;
                if let Some(gate) = of.take_wait(is_it).flatten() {
                    gate.take_wait(is_it);
                }
            }
            Some(Mark::Berthed { act, probe }) => leave_berth(act, self.call, probe),
        }
    }

    /// Whether the code that runs is not what this wait was noted for: it was handed on to another handler.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        with_act(|act| match (&self.mark, act.filter(|act| act.owner().class().is_asked)) {
            (None, None) => false,
            (Some(mark), Some(act)) => !mark.is_of(act, self.call),
            _ => true,
        })
    }

    /// From now on the running handler waits, or other code that nobody can wait for.
    ///
    /// # Errors
    ///
    /// The cycle that its wait would close.
    pub fn go_on_here(&mut self, keeps: bool) -> Result<(), Cycle> {
        self.end();
        self.go_on(note(&self.target, self.call, keeps, &Over::Unknown), keeps)
    }

    /// The wait is no new one: what it waits for may be in the hands of a handler that has given its gate up, to which
    /// no signpost points.
    fn go_on(&mut self, noted: Self, keeps: bool) -> Result<(), Cycle> {
        *self = if noted.mark.is_some() { look_closely(noted, keeps)? } else { noted };
        Ok(())
    }
}

impl std::ops::Deref for Waiting {
    type Target = Arc<Owner>;

    fn deref(&self) -> &Arc<Owner> {
        &self.target
    }
}

impl Mark {
    /// Whether that handler's wait is noted. Where it stands says too little: it may be in the block of an earlier
    /// one, whose end has taken the entry out.
    fn is_of(&self, act: Act, call: u64) -> bool {
        match self {
            Self::Berthed { act: noted, .. } => *noted == act && act.berth().holds(call),
            Self::Boxed { handler, of } => {
                let is_it = |entry: &Entry| entry.handler == *handler && entry.call == call;
                *handler == act.number()
                    && of.rare().if_any(|rare| rare.waits.iter().any(is_it)) == Some(true)
            }
        }
    }
}

fn leave_berth(act: Act, call: u64, probe: Probe) {
    if with_act(|running| running == Some(act)) {
        // Its own handler, or a later one in the same block: that one's berth has another call.
        if act.berth().take(call).is_some() && act.raised().replace(false) {
            act.owner().calls_out().lower(1);
        }
        return;
    }
    // SAFETY: the `Awaited` that is ending has an end of the slot.
    if unsafe { probe.bond() }.drop_begins() {
        // Its handler cannot have ended without saying so, and does not end before this is done. The signpost stays
        // up until then: it is that handler's.
        drop(act.berth().take(call));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.end();
    }
}

/// A wait for the answer of a call, noted from before the call is submitted.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Awaited<T: Send + 'static> {
    // The order matters: the entry goes before the end of the slot that it looks into.
    waiting: Waiting,
    answer: Wait<T>,
}

impl<T: Send + 'static> Awaited<T> {
    /// Notes that the running handler will wait for `answer`, a turn of `target`, keeping its gate or not.
    ///
    /// # Errors
    ///
    /// The cycle that this wait would close; then nothing is noted.
    pub fn begin(target: &Arc<Owner>, call: u64, keeps: bool, answer: Wait<T>) -> Result<Self, Cycle> {
        let waiting = look(Self::note(target, call, keeps, &answer), keeps)?;
        Ok(Self { waiting, answer })
    }

    fn note(target: &Arc<Owner>, call: u64, keeps: bool, answer: &Wait<T>) -> Waiting {
        let over = answer.probe().map_or(Over::Unknown, Over::Slot);
        note(target, call, keeps, &over)
    }

    /// The object asked.
    #[must_use]
    pub fn target(&self) -> &Arc<Owner> {
        &self.waiting.target
    }

    /// Whether the code that runs is not what this wait was noted for.
    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        self.waiting.is_elsewhere()
    }

    /// From now on the running handler waits.
    ///
    /// # Errors
    ///
    /// The cycle that its wait would close.
    pub fn go_on_here(&mut self, keeps: bool) -> Result<(), Cycle> {
        self.waiting.end();
        if let Some(probe) = self.answer.probe() {
            // SAFETY: this has an end of the slot.
            unsafe { probe.bond() }.renew();
        }
        let noted = Self::note(&self.waiting.target, self.waiting.call, keeps, &self.answer);
        self.waiting.go_on(noted, keeps)
    }

    /// Nobody waits until this is polled again: how it is waited for is about to change.
    pub fn let_go(&mut self) {
        self.waiting.end();
    }
}

impl<T: Send + 'static> Future for Awaited<T> {
    type Output = Outcome<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        ready!(self.answer.poll_over(cx));
        self.waiting.end();
        Poll::Ready(self.answer.try_take().unwrap_or(Outcome::Dropped))
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::sync::Mutex;

    /// A gate whose keeper may wait for the other one.
    struct Gate {
        post: Signpost,
        waits: Mutex<bool>,
    }

    impl Gate {
        fn new() -> Self {
            Self { post: Signpost::new(), waits: Mutex::new(false) }
        }

        fn put(&self) {
            let mut waits = self.waits.lock();
            self.post.raise(1);
            *waits = true;
        }

        fn take(&self) {
            let mut waits = self.waits.lock();
            self.post.lower(1);
            *waits = false;
        }
    }

    /// Begins to wait for the keeper of `other`, as `put`, `look` and `look_closely` do. Whether it may.
    fn begin(mine: &Gate, other: &Gate, one: &Mutex<()>) -> bool {
        mine.put();
        fence(Ordering::SeqCst);
        if !other.post.is_up() || !*other.waits.lock() {
            return true;
        }
        let _one = one.lock();
        let closes = *other.waits.lock();
        if closes {
            mine.take();
        }
        !closes
    }

    #[test]
    fn loom_reent_5_of_two_that_begin_to_wait_for_each_other_one_is_refused() {
        loom::model(|| {
            let shared = Arc::new((Gate::new(), Gate::new(), Mutex::new(())));
            let refused = Arc::new(AtomicUsize::new(0));
            let thread = {
                let (shared, refused) = (shared.clone(), refused.clone());
                loom::thread::spawn(move || {
                    let (one, other, lock) = &*shared;
                    refused.fetch_add(usize::from(!begin(one, other, lock)), SeqCst);
                })
            };
            let (one, other, lock) = &*shared;
            refused.fetch_add(usize::from(!begin(other, one, lock)), SeqCst);
            thread.join().unwrap();
            assert_eq!(refused.load(SeqCst), 1, "both wait for ever, or both were refused");
        });
    }
}
