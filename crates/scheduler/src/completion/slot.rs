//! The slot of a completion: the word that decides, and the two cells that it guards.
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

use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::blocks;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::waits::Bond;

/// The waker cell holds the waker to wake.
const WAKER: usize = 1;
/// The value is there, or was there and the wait has it.
pub(super) const DONE: usize = 1 << 1;
/// The deadline passed first.
pub(super) const EXPIRED: usize = 1 << 2;
/// The completer was dropped first.
pub(super) const ABANDONED: usize = 1 << 3;
/// The wait was dropped first.
const CLOSED: usize = 1 << 4;
/// Any decision.
const DECIDED: usize = DONE | EXPIRED | ABANDONED | CLOSED;
/// One reference.
const REFERENCE: usize = 1 << 5;

/// Whether a word carries a decision.
#[inline(always)]
pub(super) fn is_decided(word: usize) -> bool {
    word & DECIDED != 0
}

/// The part of a slot that does not depend on its value.
struct Head {
    /// The state; see the top of the file.
    word: AtomicUsize,
    /// No part of the protocol here; see [`crate::waits`].
    bond: Bond,
}

/// What the two ends and the deadline share.
struct Slot<T> {
    head: Head,
    /// DONE-b says whose it is.
    value: UnsafeCell<Option<T>>,
    /// DONE-c says whose it is.
    waker: UnsafeCell<Option<Waker>>,
}

/// The one step out of OPEN. `Ok` is the word before it, `Err` the word that another decided.
///
/// It takes the word alone, not the slot: with the step the slot may be freed by another thread.
#[inline]
fn try_decide(state: &AtomicUsize, change: impl Fn(usize) -> usize) -> Result<usize, usize> {
    let mut word = state.load(Ordering::Acquire);
    while !is_decided(word) {
        match state.compare_exchange_weak(word, change(word), Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) => return Ok(before),
            Err(newer) => word = newer,
        }
    }
    Err(word)
}

/// A look at a slot's word without a reference, for who knows by other means that the slot lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe(NonNull<Head>);

impl Probe {
    /// Whether the wait is over.
    ///
    /// # Safety
    ///
    /// An end of the slot that the probe was made from is there, and stays there during the call.
    pub(crate) unsafe fn is_over(self) -> bool {
        // SAFETY: that end's reference keeps the slot.
        is_decided(unsafe { self.0.as_ref() }.word.load(Ordering::Acquire))
    }

    /// The bond of the call whose answer the slot is.
    ///
    /// # Safety
    ///
    /// As for [`Probe::is_over`], for as long as the result is used.
    pub(crate) unsafe fn bond<'a>(self) -> &'a Bond {
        // SAFETY: that end's reference keeps the slot.
        &unsafe { self.0.as_ref() }.bond
    }
}

/// One reference to a slot; given back when dropped, and the last one frees the slot.
pub(super) struct Held<T: Send + 'static>(NonNull<Slot<T>>);

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

    /// A new, open slot and its two ends.
    #[inline]
    pub(super) fn pair() -> (Held<T>, Held<T>) {
        let slot = blocks::leak(Slot {
            head: Head { word: AtomicUsize::new(2 * REFERENCE), bond: Bond::new() },
            value: UnsafeCell::new(None),
            waker: UnsafeCell::new(None),
        });
        (Held(slot), Held(slot))
    }

    /// A probe of this slot.
    pub(super) fn probe(&self) -> Probe {
        Probe(NonNull::from(&self.slot().head))
    }

    /// The word as it is, with Acquire.
    #[inline(always)]
    pub(super) fn word(&self) -> usize {
        self.slot().head.word.load(Ordering::Acquire)
    }

    /// The completer's verb: decides `DONE`, or gives the value back because another decided.
    ///
    /// # Safety
    ///
    /// The caller is the completer and has not decided.
    #[inline]
    pub(super) unsafe fn complete(self, value: T) -> Result<(), T> {
        if is_decided(self.word()) {
            return Err(value);
        }
        // SAFETY: DONE-b, the completer has not decided: the cell is its own, and it is empty.
        self.slot().value.with_mut(|cell| unsafe { cell.write(Some(value)) });
        self.decide(DONE).map_err(|held| {
            // SAFETY: DONE-b, somebody else decided, so the cell never came to belong to the wait.
            let value = held.slot().value.with_mut(|cell| unsafe { (*cell).take() });
            value.expect("DONE-b: a value that lost is still in its slot")
        })
    }

    /// The value of a slot that is DONE; none when it was taken.
    ///
    /// # Safety
    ///
    /// The caller is the wait and has read DONE with Acquire.
    #[inline]
    pub(super) unsafe fn take_value(&self) -> Option<T> {
        // SAFETY: DONE-b, from DONE on the cell belongs to the wait.
        self.slot().value.with_mut(|cell| unsafe { (*cell).take() })
    }

    /// The wait's verb: lets the next decider wake `waker`. Returns the word as it is then; when that is
    /// decided, nobody will wake and the caller must end.
    ///
    /// # Safety
    ///
    /// The caller is the wait and has not ended.
    pub(super) unsafe fn announce(&self, word: usize, waker: &Waker) -> usize {
        if word & WAKER != 0 {
            // SAFETY: DONE-c, the wait wrote the cell and everybody else only reads it.
            let same = self
                .slot()
                .waker
                .with(|cell| unsafe { (*cell).as_ref().is_some_and(|old| old.will_wake(waker)) });
            if same {
                return word;
            }
            let before = self.slot().head.word.fetch_and(!WAKER, Ordering::AcqRel);
            if before & DECIDED != 0 {
                return before;
            }
        }
        let new = Some(waker.clone());
        // SAFETY: DONE-c, `WAKER` is clear and the slot was open after that: whoever decides from now on
        // finds `WAKER` clear and leaves the cell alone.
        let old = self.slot().waker.with_mut(|cell| unsafe { std::mem::replace(&mut *cell, new) });
        let word = self.slot().head.word.fetch_or(WAKER, Ordering::AcqRel);
        drop(old);
        word
    }

    /// The wait's last verb: decides `CLOSED`, or takes the value that was quicker.
    ///
    /// # Safety
    ///
    /// The caller is the wait, has not ended, and ends with this.
    pub(super) unsafe fn close(&self) -> Option<T> {
        match try_decide(&self.slot().head.word, |word| word | CLOSED) {
            Ok(_) => {
                // SAFETY: DONE-c, the wait itself decided, so no decider reads the cell.
                drop(self.slot().waker.with_mut(|cell| unsafe { (*cell).take() }));
                None
            }
            // SAFETY: DONE-b, from DONE on the cell belongs to the wait.
            Err(word) if word & DONE != 0 => self.slot().value.with_mut(|cell| unsafe { (*cell).take() }),
            Err(_) => None,
        }
    }

    /// Decides, wakes if anybody is to be woken, and gives the reference back; `Err` gives it to a loser.
    #[inline]
    pub(super) fn decide(self, decision: usize) -> Result<(), Held<T>> {
        debug_assert!((decision & DECIDED).is_power_of_two(), "DONE-a: one decision");
        let change = |word: usize| {
            let reference = if word & WAKER == 0 { REFERENCE } else { 0 };
            (word | decision) - reference
        };
        let Ok(before) = try_decide(&self.slot().head.word, change) else { return Err(self) };
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
    pub(super) fn into_waker(self) -> Waker {
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
        self.slot().head.word.fetch_add(REFERENCE, Ordering::Relaxed);
        Held(self.0)
    }
}

impl<T: Send + 'static> Drop for Held<T> {
    #[inline]
    fn drop(&mut self) {
        let word = &self.slot().head.word;
        // A sole reference cannot be copied by another, so a read is enough to know that it is the last; Acquire
        // takes in what the others did before they gave theirs back.
        let last = word.load(Ordering::Acquire) < 2 * REFERENCE
            || word.fetch_sub(REFERENCE, Ordering::AcqRel) < 2 * REFERENCE;
        if last {
            // SAFETY: no reference is left, and the slot came from `leak`.
            unsafe { blocks::discard(self.0) };
        }
    }
}
