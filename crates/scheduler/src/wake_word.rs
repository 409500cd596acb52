//! The wake word of a gate: how a holder that waits is put back to work exactly once.
//!
//! # States
//!
//! ```text
//!   RUNNING ──suspend──► SUSPENDED ──notify──► NOTIFIED ──begin──► RUNNING
//!      └──────notify──────────────────────────────▲
//! ```
//!
//! * `RUNNING`: a worker runs the gate, or the gate is not held at all.
//! * `SUSPENDED`: the gate is held by a handler that waits; no worker has it.
//! * `NOTIFIED`: somebody wants the holder to look again.
//!
//! # The race that must not happen
//!
//! A wait ends between the holder's last poll and its suspension, and the wake-up is lost. It cannot: the
//! suspension is a compare-exchange from `RUNNING`, so an earlier notice makes it fail and the holder looks
//! again; a later one finds `SUSPENDED` and its sender puts the gate on a worker. Only one notice finds
//! `SUSPENDED`, so the gate is put there once. A notice too many is harmless: the holder looks and finds
//! nothing.

use crate::sync::atomic::{AtomicU8, Ordering};

const RUNNING: u8 = 0;
const NOTIFIED: u8 = 1;
const SUSPENDED: u8 = 2;

/// The word.
#[derive(Debug)]
pub(crate) struct WakeWord(AtomicU8);

impl WakeWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(RUNNING))
    }

    /// A worker has the gate: earlier notices are taken note of.
    pub(crate) fn begin(&self) {
        self.0.swap(RUNNING, Ordering::AcqRel);
    }

    /// The holder waits. After `true` the gate may be run by another thread at once; after `false` a notice
    /// came first and the holder must look again.
    #[must_use]
    pub(crate) fn suspend(&self) -> bool {
        self.0.compare_exchange(RUNNING, SUSPENDED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Something changed for the holder. After `true` the caller must put the gate on a worker.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == SUSPENDED
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

    use super::*;

    #[test]
    fn loom_gate_7_a_wait_that_ends_while_the_holder_suspends_is_seen_once() {
        loom::model(|| {
            let word = Arc::new(WakeWord::new());
            let ready = Arc::new(AtomicBool::new(false));
            let scheduled = Arc::new(AtomicUsize::new(0));
            let notifiers: Vec<_> = (0..2)
                .map(|_| {
                    let (word, ready, scheduled) = (word.clone(), ready.clone(), scheduled.clone());
                    loom::thread::spawn(move || {
                        ready.store(true, Release);
                        if word.notify() {
                            scheduled.fetch_add(1, SeqCst);
                        }
                    })
                })
                .collect();
            word.begin();
            let mut seen = ready.load(Acquire);
            let mut suspended = false;
            while !seen && !suspended {
                suspended = word.suspend();
                if !suspended {
                    word.begin();
                    seen = ready.load(Acquire);
                }
            }
            for notifier in notifiers {
                notifier.join().unwrap();
            }
            if suspended {
                assert_eq!(scheduled.load(SeqCst), 1, "a suspended holder is put to work exactly once");
            } else {
                assert_eq!(scheduled.load(SeqCst), 0, "a running holder is never put to work twice");
            }
        });
    }
}
