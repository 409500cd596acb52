//! What is known without a context: the root that this thread works under, and what was dropped elsewhere.
//!
//! Destructors and channel ends have no [`Context`](crate::Context). They find the active root in a cell of their
//! thread, which the bus sets around each piece of work, and leave a note of what they owe for the bus to settle
//! at its next step.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use turnkeep_machines::bus::line::SlotId;
use turnkeep_machines::bus::root::Root;

thread_local! {
    /// The bus whose code runs on this thread, and the root it runs under.
    static ACTIVE: Cell<Option<(u64, Option<Root>)>> = const { Cell::new(None) };
}

/// Names of buses; nothing is ordered by them.
static BUSES: AtomicU64 = AtomicU64::new(1);

/// What somebody without a context has left for the bus.
pub(crate) enum Owed {
    /// A reservation was dropped.
    Abandon(SlotId),
    /// A retained value was dropped: its root, units and bytes.
    LetGo(Root, u32, u64),
    /// Units and bytes of a batch come back.
    GiveBack(u32, u64),
    /// An item in a channel holds the root, since that epoch.
    Hold(Root, u64),
    /// It no longer does.
    Release(Root, u64),
}

/// What a bus shares with the values that it has given out.
pub(crate) struct Shared {
    pub(crate) bus: u64,
    owed: Mutex<Vec<Owed>>,
    any: AtomicBool,
    /// Rises with each teardown: roots of before are void.
    epoch: AtomicU64,
    /// Set while the bus is torn down.
    tearing_down: AtomicBool,
}

impl Shared {
    pub(crate) fn new() -> Self {
        let bus = BUSES.fetch_add(1, Ordering::Relaxed);
        Self {
            bus,
            owed: Mutex::default(),
            any: AtomicBool::default(),
            epoch: AtomicU64::default(),
            tearing_down: AtomicBool::default(),
        }
    }

    pub(crate) fn owe(&self, owed: Owed) {
        // A panic elsewhere does not make the list wrong: it is pushed to and taken whole.
        self.owed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(owed);
        self.any.store(true, Ordering::Release);
    }

    /// Whether something is owed; one load on the way that has nothing to do.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Vec<Owed> {
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut *self.owed.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The root that this thread works under, if it works for this bus.
    pub(crate) fn active(&self) -> Option<Root> {
        ACTIVE.get().filter(|(bus, _)| *bus == self.bus).and_then(|(_, root)| root)
    }

    /// How many teardowns there were.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// A teardown begins: destructors send nothing any more.
    pub(crate) fn begin_teardown(&self) {
        self.tearing_down.store(true, Ordering::Release);
    }

    /// It has ended: roots of before are void.
    pub(crate) fn end_teardown(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.tearing_down.store(false, Ordering::Release);
    }

    /// Whether this is a destructor of a teardown.
    pub(crate) fn is_tearing_down(&self) -> bool {
        self.tearing_down.load(Ordering::Acquire) && self.is_here()
    }

    /// Whether this thread is in the middle of this bus's work.
    pub(crate) fn is_here(&self) -> bool {
        ACTIVE.get().is_some_and(|(bus, _)| bus == self.bus)
    }
}

/// Puts back what was active when it was made.
pub(crate) struct Around(Option<(u64, Option<Root>)>);

impl Drop for Around {
    fn drop(&mut self) {
        ACTIVE.set(self.0);
    }
}

/// From now until the value is dropped, this thread works for the bus under the root.
#[inline]
pub(crate) fn enter(bus: u64, root: Option<Root>) -> Around {
    Around(ACTIVE.replace(Some((bus, root))))
}
