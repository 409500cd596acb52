//! The place of a handler's first call in its own activation: noted and taken out without a lock.
//!
//! # States of the word
//!
//! ```text
//!   0 ──put──► call·2 ──with──► call·2 + 1 ──► call·2
//!                 └──take──► 0
//! ```
//!
//! * `0`: empty; the entry is the running handler's to write.
//! * `call·2`: the entry of that call is there.
//! * `call·2 + 1`: somebody reads it, who found the activation in its owner's box and holds that box's lock.
//!
//! # The races that must not happen
//!
//! * An entry is taken while somebody reads it, and its pointers end under the reader. Taking is a compare-exchange
//!   from the state without a reader; it is tried again until the reader, who does a few loads, is done.
//! * A call that was handed on to other code is dropped there after its handler has ended, and looks for its entry in
//!   a block that is gone. The two agree over a byte in the slot of the call's answer, the [`Bond`]: who drops the
//!   call marks it `DROPPING` before it looks into the activation; a handler that ends with an entry left marks it
//!   `GONE` under the reader's mark, which it keeps until the entry is out. If `GONE` came first the dropper touches nothing. If `DROPPING` came first the
//!   handler's end waits until the entry is out. Only calls that left their handler pay for this.

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::Entry;

/// The mark of a reader in the word.
const READ: u64 = 1;

const DROPPING: u8 = 1;
const GONE: u8 = 2;

/// What a call that left its handler and the end of that handler agree over.
#[derive(Debug)]
pub(crate) struct Bond(AtomicU8);

impl Bond {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    /// The call is about to be taken out by other code. `false`: the handler has ended and took it out.
    pub(super) fn drop_begins(&self) -> bool {
        self.0.fetch_or(DROPPING, Ordering::AcqRel) & GONE == 0
    }

    /// The handler ends. `true`: the call is being taken out this very moment.
    pub(super) fn handler_ends(&self) -> bool {
        self.0.fetch_or(GONE, Ordering::AcqRel) & DROPPING != 0
    }

    /// The call goes on in another handler.
    pub(crate) fn renew(&self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The place.
pub(crate) struct Berth {
    word: AtomicU64,
    entry: UnsafeCell<Option<Entry>>,
}

impl Berth {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0), entry: UnsafeCell::new(None) }
    }

    /// Whether the running handler may put an entry in.
    pub(crate) fn is_empty(&self) -> bool {
        self.word.load(Ordering::Acquire) == 0
    }

    /// Puts an entry in.
    ///
    /// # Safety
    ///
    /// The caller is the running handler and has found the place empty.
    pub(crate) unsafe fn put(&self, entry: Entry) {
        let word = entry.call << 1;
        // SAFETY: empty, and only the running handler fills it.
        self.entry.with_mut(|slot| unsafe { *slot = Some(entry) });
        self.word.store(word, Ordering::Release);
    }

    /// Takes the entry of a call out, if it is there.
    pub(crate) fn take(&self, call: u64) -> Option<Entry> {
        let word = call << 1;
        while let Err(found) = self.mark(word) {
            if found & !READ != word {
                return None;
            }
            crate::sync::pause();
        }
        self.clear()
    }

    /// Whether the entry of that call is there. For the running handler, whose berth it is.
    pub(crate) fn holds(&self, call: u64) -> bool {
        self.word.load(Ordering::Relaxed) & !READ == call << 1
    }

    /// Reads the entry, if there is one.
    ///
    /// The activation that the place is in must stay meanwhile: the caller holds the lock of the box that lists it.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&Entry) -> R) -> Option<R> {
        let word = self.mark_any()?;
        // SAFETY: with the reader's mark nobody else touches the entry.
        let result = self.entry.with(|slot| unsafe { (*slot).as_ref().map(read) });
        self.word.store(word, Ordering::Release);
        result
    }

    /// The handler ends: what is still here belongs to a call that left it.
    pub(crate) fn forget(&self) {
        if self.is_empty() {
            return;
        }
        let Some(word) = self.mark_any() else { return };
        // SAFETY: as in `with`.
        let is_dropped = self.entry.with(|slot| unsafe { (*slot).as_ref().is_some_and(Entry::handler_ends) });
        if !is_dropped {
            drop(self.clear());
            return;
        }
        self.word.store(word, Ordering::Release);
        while !self.is_empty() {
            crate::sync::pause();
        }
    }

    /// Sets the reader's mark on an entry; the error is the word that is there instead.
    fn mark(&self, word: u64) -> Result<u64, u64> {
        self.word.compare_exchange(word, word | READ, Ordering::AcqRel, Ordering::Relaxed)
    }

    /// Sets the reader's mark on whatever is there.
    fn mark_any(&self) -> Option<u64> {
        let mut word = self.word.load(Ordering::Relaxed) & !READ;
        while word != 0 {
            match self.mark(word) {
                Ok(word) => return Some(word),
                Err(found) => word = found & !READ,
            }
            crate::sync::pause();
        }
        None
    }

    /// Empties the place; the caller has the reader's mark.
    fn clear(&self) -> Option<Entry> {
        // SAFETY: with the reader's mark nobody else touches the entry; the place is free after that.
        let entry = self.entry.with_mut(|slot| unsafe { (*slot).take() });
        self.word.store(0, Ordering::Release);
        entry
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use std::ptr::NonNull;

    use loom::sync::Arc;

    use super::super::Over;
    use super::*;
    use crate::completion::completion;

    const CALL: u64 = 7;

    /// A handler's block and the answer of a call that it made.
    struct World {
        berth: Berth,
        is_alive: loom::sync::atomic::AtomicBool,
    }

    fn world() -> (Arc<World>, crate::completion::Wait<u8>, crate::completion::Completer<u8>) {
        let (completer, wait) = completion::<u8>();
        let world = Arc::new(World { berth: Berth::new(), is_alive: true.into() });
        let over = Over::Slot(wait.probe().unwrap());
        let nobody = NonNull::dangling();
        let entry = Entry {
            handler: 1,
            serves: 0,
            keeps: true,
            claims: false,
            gate: nobody,
            target: nobody,
            call: CALL,
            over,
        };
        // SAFETY: nobody else knows the berth yet.
        unsafe { world.berth.put(entry) };
        (world, wait, completer)
    }

    #[test]
    fn loom_reent_5_a_call_dropped_elsewhere_never_looks_into_a_block_that_is_gone() {
        loom::model(|| {
            let (world, wait, _completer) = world();
            let handler = {
                let world = world.clone();
                loom::thread::spawn(move || {
                    world.berth.forget();
                    world.is_alive.store(false, Ordering::Release);
                })
            };
            // SAFETY: `wait` is an end of the slot.
            let probe = wait.probe().unwrap();
            if unsafe { probe.bond() }.drop_begins() {
                assert!(world.is_alive.load(Ordering::Acquire), "the block is gone");
                let taken = world.berth.take(CALL);
                assert!(taken.is_some(), "the handler waits for it");
            }
            drop(wait);
            handler.join().unwrap();
            assert!(world.berth.is_empty());
        });
    }

    #[test]
    fn loom_reent_5_an_entry_stays_while_it_is_read() {
        loom::model(|| {
            let (world, wait, _completer) = world();
            let reader = {
                let world = world.clone();
                loom::thread::spawn(move || {
                    // What the entry points to ends with `wait`: loom sees it if this reads afterwards.
                    world.berth.with(Entry::is_over)
                })
            };
            assert!(world.berth.take(CALL).is_some());
            drop(wait);
            let read = reader.join().unwrap();
            assert_ne!(read, Some(true), "read after the end");
        });
    }

    #[test]
    fn loom_reent_5_a_handler_that_ends_waits_for_who_reads_before_it_lets_the_call_go() {
        loom::model(|| {
            let (world, wait, _completer) = world();
            let reader = {
                let world = world.clone();
                loom::thread::spawn(move || world.berth.with(Entry::is_over))
            };
            world.berth.forget();
            // SAFETY: `wait` is an end of the slot.
            assert!(!unsafe { wait.probe().unwrap().bond() }.drop_begins(), "the call knows that it is out");
            drop(wait);
            assert_ne!(reader.join().unwrap(), Some(true), "read after the end");
        });
    }
}
