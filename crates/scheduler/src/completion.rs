//! A one-shot completion slot: one allocation, two ends, decided exactly once.
//!
//! # States
//!
//! ```text
//!                      complete            DONE       the value is in the slot until the wait takes it
//!                   .------------------->
//!                   |  completer dropped   ABANDONED
//!                   |------------------->
//!   OPEN (± WAKER) -|  deadline            EXPIRED
//!                   |------------------->
//!                   |  wait dropped        CLOSED
//!                   '------------------->
//! ```
//!
//! One word holds it all: the four decided bits, of which at most one is ever set, the bit `WAKER` and, above
//! them, the number of references.
//!
//! # Transitions
//!
//! | who                    | when    | change                                   | owes                           |
//! |------------------------|---------|------------------------------------------|--------------------------------|
//! | completer, deadline    | open    | sets its bit; without `WAKER` its        | with `WAKER`: wake, then give  |
//! |                        |         | reference goes in the same step          | its reference back             |
//! | completer, deadline    | decided | none                                     | take its value back, give the  |
//! |                        |         |                                          | reference back                 |
//! | wait, polled           | open    | clears `WAKER`, writes the cell, sets it | read the word again after each |
//! | wait, polled           | decided | none                                     | take the value, cancel the     |
//! |                        |         |                                          | deadline, give the reference   |
//! | wait, dropped          | open    | `CLOSED`                                 | drop the waker, the same       |
//!
//! # Invariants
//!
//! * DONE-a: the step out of OPEN is one compare-and-swap, so one end wins and every other learns that it lost.
//! * DONE-b: the value cell belongs to the completer until DONE, to the wait from then on. A wait that ends
//!   takes the value with it, so a slot never holds a value when it is freed.
//! * DONE-c: the waker cell belongs to the wait while `WAKER` is clear and the slot open. A decider that found
//!   `WAKER` set reads it, and only reads; from a decision on the wait only reads too, save after its own
//!   `CLOSED`, for then nobody found anything.
//! * DONE-d: while the slot is open both ends hold a reference, so a decider may give its own away in the
//!   deciding step without being the last.
//!
//! # The race that must not happen
//!
//! The wait writes a new waker while a completer decides. If the completer came before `WAKER` was set, it wakes
//! nobody: so the wait, whose set is a read too, must see the decision in that very step and must not
//! return `Pending`. If it came while the old waker was still announced, it reads the cell: so the wait must take
//! the announcement back *and* see the slot open in that one step before it may write.
//!
//! # Not here
//!
//! Who asks and for which generation (DONE-5): the owner of the completer checks it before it completes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread::Thread;

use crate::deadline::{Deadlines, Key};
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::ticks;

/// The waker cell holds the waker to wake.
const WAKER: usize = 1;
/// The value is there, or was there and the wait has it.
const DONE: usize = 1 << 1;
/// The deadline passed first.
const EXPIRED: usize = 1 << 2;
/// The completer was dropped first.
const ABANDONED: usize = 1 << 3;
/// The wait was dropped first.
const CLOSED: usize = 1 << 4;
/// Any decision.
const DECIDED: usize = DONE | EXPIRED | ABANDONED | CLOSED;
/// One reference.
const REFERENCE: usize = 1 << 5;

/// How a wait ended (DONE-1).
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The completer's value.
    Done(T),
    /// The deadline passed before.
    Expired,
    /// The completer was dropped before.
    Dropped,
}

/// A slot and its two ends.
///
/// One allocation; neither end blocks. Both may be moved to any thread.
pub fn completion<T: Send + 'static>() -> (Completer<T>, Wait<T>) {
    let slot = Box::new(Slot {
        word: AtomicUsize::new(2 * REFERENCE),
        value: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    });
    let slot = NonNull::from(Box::leak(slot));
    let wait = Wait { slot: Some(Held(slot)), deadline_ns: u64::MAX, key: None };
    (Completer { slot: Some(Held(slot)) }, wait)
}

/// The end that decides with a value.
///
/// Dropping it undecided ends the wait with [`Outcome::Dropped`] (DONE-1).
pub struct Completer<T: Send + 'static> {
    /// Empty only while it is being consumed.
    slot: Option<Held<T>>,
}

impl<T: Send + 'static> Completer<T> {
    /// Ends the wait with `value` and wakes whoever polls it.
    ///
    /// # Errors
    ///
    /// The value comes back when the wait is already over: expired or dropped (DONE-1: late).
    #[inline]
    pub fn complete(mut self, value: T) -> Result<(), T> {
        let Some(held) = self.slot.take() else { return Err(value) };
        if held.slot().is_decided() {
            return Err(value);
        }
        // SAFETY: DONE-b, this is the only completer and it has not decided: the cell is its own.
        held.slot().value.with_mut(|cell| unsafe { *cell = Some(value) });
        held.decide(DONE).map_err(|held| {
            // SAFETY: DONE-b, somebody else decided, so the cell never came to belong to the wait.
            let value = held.slot().value.with_mut(|cell| unsafe { (*cell).take() });
            value.expect("DONE-b: a value that lost is still in its slot")
        })
    }

    /// Ends the wait as expired, for work that ends after its deadline (WORK-3); false when it is over already.
    pub fn expire(mut self) -> bool {
        self.slot.take().is_some_and(|held| held.decide(EXPIRED).is_ok())
    }

    /// Whether the wait has ended, so that completing it would be late.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.slot.as_ref().is_none_or(|held| held.slot().is_decided())
    }
}

impl<T: Send + 'static> Drop for Completer<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.slot.take() {
            let _late = held.decide(ABANDONED);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").field("is_over", &self.is_over()).finish()
    }
}

/// The end that waits: a future of the [`Outcome`].
///
/// Dropping it ends the wait and nothing else (DONE-4): the completer finds out when it completes. It may be
/// polled with different wakers; the last one counts.
///
/// # Panics
///
/// A poll after the outcome was given out, by a poll or by [`Wait::try_take`], panics.
#[must_use = "a wait that is dropped is over"]
pub struct Wait<T: Send + 'static> {
    /// Empty from the moment the outcome was given out.
    slot: Option<Held<T>>,
    /// In the time of `ticks::now`; `u64::MAX` is never.
    deadline_ns: u64,
    /// Set at the first poll that stays pending, cleared when the wait ends.
    key: Option<Key>,
}

impl<T: Send + 'static> Wait<T> {
    /// Lets the wait end as [`Outcome::Expired`] at `at_ns`, in the time of [`ticks::now`]; `u64::MAX` is
    /// never. Replaces an earlier deadline.
    ///
    /// Never early, and on a quiet machine about 2 ms late at most. The deadline costs nothing before the
    /// first poll that stays pending; until then nothing expires.
    pub fn with_deadline(mut self, at_ns: u64) -> Wait<T> {
        self.unregister();
        self.deadline_ns = at_ns;
        self
    }

    /// The outcome, if there is one and it was not given out yet. Registers nothing.
    pub fn try_take(&mut self) -> Option<Outcome<T>> {
        let word = self.slot.as_ref()?.slot().word.load(Ordering::Acquire);
        (word & DECIDED != 0).then(|| self.end(word))
    }

    /// Parks this thread until the outcome is there. For threads outside the runtime: it blocks a worker.
    ///
    /// # Panics
    ///
    /// When the outcome was given out already.
    pub fn wait_blocking(mut self) -> Outcome<T> {
        let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Gives the outcome out; `word` is a decided one, read with Acquire.
    #[inline]
    fn end(&mut self, word: usize) -> Outcome<T> {
        self.unregister();
        let held = self.slot.take().expect("DONE-1: a wait ends once");
        if word & DONE != 0 {
            // SAFETY: DONE-b, from DONE on the cell belongs to the wait, and this is the wait.
            let value = held.slot().value.with_mut(|cell| unsafe { (*cell).take() });
            return Outcome::Done(value.expect("DONE-b: DONE carries a value"));
        }
        if word & EXPIRED != 0 { Outcome::Expired } else { Outcome::Dropped }
    }

    /// Hands the deadline to the service, once; true when it had passed already and decided the wait here.
    fn register(&mut self) -> bool {
        if self.deadline_ns == u64::MAX || self.key.is_some() {
            return false;
        }
        let Some(held) = &self.slot else { return false };
        let now_ns = ticks::now();
        if self.deadline_ns <= now_ns {
            // Whoever decided, it is decided now.
            let _late = held.clone().decide(EXPIRED);
            return true;
        }
        let target = held.clone().into_waker();
        self.key = Some(Deadlines::global().register_waker(now_ns, self.deadline_ns, target));
        false
    }

    #[inline]
    fn unregister(&mut self) {
        if let Some(key) = self.key.take() {
            Deadlines::global().cancel(key);
        }
    }
}

impl<T: Send + 'static> Future for Wait<T> {
    type Output = Outcome<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        let held = self.slot.as_ref().expect("a completion's wait was polled after it had ended");
        let mut word = held.slot().word.load(Ordering::Acquire);
        if word & DECIDED == 0 {
            word = held.slot().announce(word, context.waker());
        }
        if word & DECIDED == 0 && self.register() {
            // The decision may be another's, with a value: read with Acquire.
            word = self.slot.as_ref().map_or(word, |held| held.slot().word.load(Ordering::Acquire));
        }
        if word & DECIDED == 0 { Poll::Pending } else { Poll::Ready(self.end(word)) }
    }
}

impl<T: Send + 'static> Drop for Wait<T> {
    #[inline]
    fn drop(&mut self) {
        self.unregister();
        let Some(held) = self.slot.take() else { return };
        let value = held.slot().close();
        // First the reference, then the value, whose drop may be anybody's code.
        drop(held);
        drop(value);
    }
}

impl<T: Send + 'static> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("deadline_ns", &self.deadline_ns).finish_non_exhaustive()
    }
}

/// What the two ends and the deadline share.
struct Slot<T> {
    /// The state; see the top of the file.
    word: AtomicUsize,
    /// DONE-b says whose it is.
    value: UnsafeCell<Option<T>>,
    /// DONE-c says whose it is.
    waker: UnsafeCell<Option<Waker>>,
}

impl<T: Send + 'static> Slot<T> {
    #[inline]
    fn is_decided(&self) -> bool {
        self.word.load(Ordering::Acquire) & DECIDED != 0
    }

    /// The wait's verb: lets the next decider wake `waker`. Returns the word as it is then; when that is
    /// decided, nobody will wake and the caller must end.
    fn announce(&self, word: usize, waker: &Waker) -> usize {
        if word & WAKER != 0 {
            // SAFETY: DONE-c, the wait wrote the cell and everybody else only reads it.
            let same =
                self.waker.with(|cell| unsafe { (*cell).as_ref().is_some_and(|old| old.will_wake(waker)) });
            if same {
                return word;
            }
            let before = self.word.fetch_and(!WAKER, Ordering::AcqRel);
            if before & DECIDED != 0 {
                return before;
            }
        }
        let new = Some(waker.clone());
        // SAFETY: DONE-c, `WAKER` is clear and the slot was open after that: whoever decides from now on
        // finds `WAKER` clear and leaves the cell alone.
        let old = self.waker.with_mut(|cell| unsafe { std::mem::replace(&mut *cell, new) });
        let word = self.word.fetch_or(WAKER, Ordering::AcqRel);
        drop(old);
        word
    }

    /// The wait's last verb: decides `CLOSED`, or takes the value that was quicker.
    fn close(&self) -> Option<T> {
        match self.try_decide(CLOSED, |word| word | CLOSED) {
            Ok(_) => {
                // SAFETY: DONE-c, the wait itself decided, so no decider reads the cell.
                drop(self.waker.with_mut(|cell| unsafe { (*cell).take() }));
                None
            }
            // SAFETY: DONE-b, from DONE on the cell belongs to the wait.
            Err(word) if word & DONE != 0 => self.value.with_mut(|cell| unsafe { (*cell).take() }),
            Err(_) => None,
        }
    }

    /// The one step out of OPEN. `Ok` is the word before it, `Err` the word that another decided.
    #[inline]
    fn try_decide(&self, decision: usize, change: impl Fn(usize) -> usize) -> Result<usize, usize> {
        debug_assert!((decision & DECIDED).is_power_of_two(), "DONE-a: one decision");
        let mut word = self.word.load(Ordering::Acquire);
        while word & DECIDED == 0 {
            match self.word.compare_exchange_weak(word, change(word), Ordering::AcqRel, Ordering::Acquire) {
                Ok(before) => return Ok(before),
                Err(newer) => word = newer,
            }
        }
        Err(word)
    }
}

/// One reference to a slot; given back when dropped, and the last one frees the slot.
struct Held<T: Send + 'static>(NonNull<Slot<T>>);

// SAFETY: the word decides who may touch which cell, whatever the thread (DONE-b, DONE-c); the value is `Send`,
// a `Waker` is `Send` and `Sync`.
unsafe impl<T: Send + 'static> Send for Held<T> {}
// SAFETY: as above; a shared `Held` gives access to the word only.
unsafe impl<T: Send + 'static> Sync for Held<T> {}

impl<T: Send + 'static> Held<T> {
    #[inline(always)]
    fn slot(&self) -> &Slot<T> {
        // SAFETY: this reference is counted in the word, so the slot lives.
        unsafe { self.0.as_ref() }
    }

    /// Decides, wakes if anybody is to be woken, and gives the reference back; `Err` gives it to a loser.
    #[inline]
    fn decide(self, decision: usize) -> Result<(), Held<T>> {
        let change = |word: usize| {
            let reference = if word & WAKER == 0 { REFERENCE } else { 0 };
            (word | decision) - reference
        };
        let Ok(before) = self.slot().try_decide(decision, change) else { return Err(self) };
        if before & WAKER == 0 {
            // Given away in the deciding step; DONE-d: the wait, at least, held another then. The slot may
            // be freed by now.
            std::mem::forget(self);
        } else {
            self.wake();
        }
        Ok(())
    }

    /// Wakes the announced waker; only for the decider that found `WAKER` set.
    fn wake(&self) {
        // SAFETY: DONE-c, the wait leaves the cell as it is from the decision on, and the reference in
        // `self` keeps it allocated.
        self.slot().waker.with(|cell| unsafe {
            if let Some(waker) = &*cell {
                waker.wake_by_ref();
            }
        });
    }

    /// The deadline's view of the slot: waking it expires the wait, dropping it gives the reference back.
    fn into_waker(self) -> Waker {
        let raw = RawWaker::new(self.0.as_ptr().cast(), Self::VTABLE);
        std::mem::forget(self);
        // SAFETY: the table below keeps the contract: `clone` counts, `wake` and `drop` give back, all of it
        // thread-safe as `Held` is `Send` and `Sync`.
        unsafe { Waker::from_raw(raw) }
    }

    /// The reference inside such a waker.
    ///
    /// # Safety
    ///
    /// `data` comes from [`Held::into_waker`] of the same `T`, and the caller owns that reference.
    unsafe fn from_data(data: *const ()) -> Held<T> {
        // SAFETY: `into_waker` made it from a `NonNull` of this type.
        Held(unsafe { NonNull::new_unchecked(data.cast::<Slot<T>>().cast_mut()) })
    }

    const VTABLE: &'static RawWakerVTable = &RawWakerVTable::new(
        |data| {
            // SAFETY: the waker being cloned owns the reference; `ManuallyDrop` leaves it there.
            let held = std::mem::ManuallyDrop::new(unsafe { Self::from_data(data) });
            let copy = std::mem::ManuallyDrop::new((*held).clone());
            RawWaker::new(copy.0.as_ptr().cast(), Self::VTABLE)
        },
        |data| {
            // SAFETY: the waker is consumed and with it its reference.
            let _late = unsafe { Self::from_data(data) }.decide(EXPIRED);
        },
        |data| {
            // SAFETY: the waker keeps its reference: `ManuallyDrop` leaves it there.
            let held = std::mem::ManuallyDrop::new(unsafe { Self::from_data(data) });
            let _late = (*held).clone().decide(EXPIRED);
        },
        |data| {
            // SAFETY: the waker is dropped and with it its reference.
            drop(unsafe { Self::from_data(data) });
        },
    );
}

impl<T: Send + 'static> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        // Relaxed: the new reference is made from one that exists.
        self.slot().word.fetch_add(REFERENCE, Ordering::Relaxed);
        Held(self.0)
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.slot().word;
        // A sole reference cannot be copied by another, so a read is enough to know that it is the last; Acquire
        // takes in what the others did before they gave theirs back.
        let last = word.load(Ordering::Acquire) < 2 * REFERENCE
            || word.fetch_sub(REFERENCE, Ordering::AcqRel) < 2 * REFERENCE;
        if last {
            // SAFETY: no reference is left, and the slot came from a `Box`.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

/// Wakes a thread that waits blocking.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests;
