//! What most owners have none of: those who wait for room, suspended handlers, waits, a pending move.
//!
//! Made when it is needed and gone when it is empty, so that an idle object pays one pointer. A thread keeps one
//! empty box for the next that needs it: a handler that waits costs no allocation here.

use std::cell::Cell;
use std::sync::Arc;

use crate::activation::Act;
use crate::owner::Owner;
use crate::room::Line;
use crate::sync::Mutex;
use crate::waits::Entry;

/// How many places the vectors of a kept box may have.
const PLACES_KEPT: usize = 8;

thread_local! {
    /// An empty box. It belongs to no object.
    static SPARE: Cell<Option<Box<Rare>>> = const { Cell::new(None) };
}

/// The box.
#[derive(Default)]
pub(crate) struct Rare {
    /// Those who wait for room, a line a lane.
    pub(crate) lines: [Line; 2],
    /// Handlers, so that a cancellation finds them. Changed at the first wait and at the end.
    pub(crate) suspended: Vec<Act>,
    /// What handlers wait for: those of this object, and those that keep its gate.
    pub(crate) waits: Vec<Entry>,
    /// The Spots that a pending Join of this object needs turns of, each with the number of the Join.
    pub(crate) joining: Vec<(u64, Arc<Owner>)>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.suspended.is_empty()
            && self.waits.is_empty()
            && self.joining.is_empty()
            && self.lines.iter().all(Line::is_empty)
    }

    fn is_small(&self) -> bool {
        self.suspended.capacity() <= PLACES_KEPT
            && self.waits.capacity() <= PLACES_KEPT
            && self.joining.capacity() <= PLACES_KEPT
    }
}

/// An owner's box, behind its lock.
pub(crate) struct Rares(Mutex<Option<Box<Rare>>>);

impl Rares {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Uses the box, which is made if there is none and goes if it is left empty.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Rare) -> R) -> R {
        let mut slot = self.0.lock();
        let rare = slot.get_or_insert_with(spare);
        let result = change(rare);
        tidy(&mut slot);
        result
    }

    /// Uses the box, if there is one.
    pub(crate) fn if_any<R>(&self, change: impl FnOnce(&mut Rare) -> R) -> Option<R> {
        let mut slot = self.0.lock();
        let result = change(slot.as_mut()?);
        tidy(&mut slot);
        Some(result)
    }

    /// Runs `code` with the lock held, for what readers of the box must find unchanged.
    pub(crate) fn locked<R>(&self, code: impl FnOnce() -> R) -> R {
        let _slot = self.0.lock();
        code()
    }
}

fn spare() -> Box<Rare> {
    SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
}

fn tidy(slot: &mut Option<Box<Rare>>) {
    if !slot.as_ref().is_some_and(|rare| rare.is_empty()) {
        return;
    }
    let emptied = slot.take().filter(|rare| rare.is_small());
    // What was spare before is freed here.
    let _ = SPARE.try_with(|spare| spare.set(emptied.or(spare.take())));
}
