//! The standing of an owner: what it still takes, and what becomes of handlers of it that yield.
//!
//! # Bits
//!
//! * `ENDING`: takes no more records, for good. Set before its lanes are sealed, never cleared.
//! * `CLOSING`: yields under its gate, or of its own handlers, end in an error (YIELD-9). Never cleared.
//! * `HANDING`: takes no records while it is handed over; yields end in an error. Cleared by the undo.
//! * `SETTLED`: handed over, and every admission that was under way has been appended. Set by whoever has the
//!   right to the owner, cleared with `HANDING`.
//!
//! # The race that must not happen
//!
//! An undo opens the lanes of an owner that was sealed for good meanwhile. Who seals sets `ENDING` and then
//! the lanes; who opens, opens the lanes and then looks at `ENDING`, and seals again if it is there. Both
//! change a lane's word by an exchange. If the opening comes second, it has read what the seal wrote, and with it
//! sees `ENDING`; if it comes first, the seal is the last word anyway.
//!
//! # The other race
//!
//! A handler begins to wait and does not see that yields end; who ends them does not see that it waits. Who ends
//! them sets the bit, passes a full fence, and wakes every listed handler. The holder lists the handler, passes a
//! full fence (in `Holder::release`) and looks at the bit; so one sees the other. A wake that found the handler awake
//! still (its resume queued, or noted) is no loss: what it found was written before the holder's fence, too.

use crate::sync::atomic::{AtomicU8, Ordering::SeqCst};

const ENDING: u8 = 1;
const CLOSING: u8 = 2;
const HANDING: u8 = 4;
const SETTLED: u8 = 8;

/// Why a yield ends in an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// The Spot closes, or the node's time to drain is over.
    Closing,
    /// The object is being handed over.
    HandedOver,
}

/// The byte.
#[derive(Debug)]
pub(crate) struct Standing(AtomicU8);

impl Standing {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// Nothing more is taken, for good.
    pub(crate) fn end(&self) {
        self.0.fetch_or(ENDING, SeqCst);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.0.load(SeqCst) & ENDING != 0
    }

    /// Yields end in an error from now on.
    pub(crate) fn close(&self) {
        self.0.fetch_or(CLOSING, SeqCst);
    }

    /// Handed over from now on, and not settled: a mark that came after an undo is not of this time.
    pub(crate) fn hand_over(&self) {
        self.change(|bits| (bits | HANDING) & !SETTLED);
    }

    /// Not handed over any more.
    pub(crate) fn take_back(&self) {
        self.0.fetch_and(!(HANDING | SETTLED), SeqCst);
    }

    pub(crate) fn is_handing(&self) -> bool {
        self.0.load(SeqCst) & HANDING != 0
    }

    /// No admission is under way any more.
    pub(crate) fn settle(&self) {
        self.change(|bits| if bits & HANDING == 0 { bits } else { bits | SETTLED });
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.0.load(SeqCst) & SETTLED != 0
    }

    fn change(&self, to: impl Fn(u8) -> u8) {
        let mut bits = self.0.load(SeqCst);
        while let Err(now) = self.0.compare_exchange(bits, to(bits), SeqCst, SeqCst) {
            bits = now;
        }
    }

    /// How a yield ends that may go on no longer.
    pub(crate) fn cut(&self) -> Option<Cut> {
        match self.0.load(SeqCst) {
            bits if bits & CLOSING != 0 => Some(Cut::Closing),
            bits if bits & HANDING != 0 => Some(Cut::HandedOver),
            _ => None,
        }
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::{AcqRel, Acquire};
    use loom::sync::atomic::{AtomicBool, AtomicU8, fence};

    use super::*;

    /// An undo against a seal for good: the lanes end sealed.
    #[test]
    fn loom_lane_7_an_undo_that_meets_a_seal_for_good_leaves_it_sealed() {
        loom::model(|| {
            let both = Arc::new((Standing::new(), AtomicBool::new(true)));
            both.0.hand_over();
            let other = both.clone();
            let ends = loom::thread::spawn(move || {
                other.0.end();
                other.1.swap(true, AcqRel);
            });
            both.0.take_back();
            both.1.swap(false, AcqRel);
            if both.0.is_ending() {
                both.1.swap(true, AcqRel);
            }
            ends.join().unwrap();
            assert!(both.1.load(SeqCst), "open although it has ended");
        });
    }

    /// Who ends yields against a handler that begins to wait: one of them sees the other.
    #[test]
    fn loom_yield_9_a_wait_that_begins_while_yields_end_is_woken() {
        const AWAKE: u8 = 0;
        const WAITS: u8 = 1;
        const WOKEN: u8 = 2;
        loom::model(|| {
            let both = Arc::new((Standing::new(), AtomicU8::new(AWAKE)));
            let other = both.clone();
            let ends = loom::thread::spawn(move || {
                other.0.close();
                fence(SeqCst);
                // A wake of a handler that is awake does nothing, as for one whose resume is queued.
                let _ = other.1.compare_exchange(WAITS, WOKEN, AcqRel, Acquire);
            });
            both.1.swap(WAITS, AcqRel);
            fence(SeqCst);
            let seen = both.0.cut().is_some();
            ends.join().unwrap();
            let woken = both.1.load(SeqCst) == WOKEN;
            assert!(seen || woken, "it waits on");
        });
    }
}
