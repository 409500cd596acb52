//! Which code runs: the turn, or the domain, that the current poll belongs to.
//!
//! The mark is set around each poll and put back after it, so it follows the code, not the thread: nested
//! polls are restored, and nothing is kept here while a handler waits (GATE-10, DOM-2).

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use turnkeep_machines::gate::Grant;
use turnkeep_machines::pair::Lane;

use crate::activation::Act;
use crate::owner::Owner;
use crate::standing::Cut;

#[derive(Clone, Copy)]
enum Mark {
    Nothing,
    Turn(Act),
    Infrastructure,
}

thread_local! {
    static MARK: Cell<Mark> = const { Cell::new(Mark::Nothing) };
}

/// Puts the mark that was there before back, also when the poll unwinds.
struct Restore(Mark);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = MARK.try_with(|mark| mark.set(self.0));
    }
}

fn marked<R>(mark: Mark, run: impl FnOnce() -> R) -> R {
    let before = MARK.try_with(|slot| slot.replace(mark)).unwrap_or(Mark::Nothing);
    let _restore = Restore(before);
    run()
}

/// Runs one poll of a turn.
pub(crate) fn in_turn<R>(act: Act, run: impl FnOnce() -> R) -> R {
    marked(Mark::Turn(act), run)
}

/// The running turn's block was exchanged for a larger one.
pub(crate) fn moved(act: Act) {
    let _ = MARK.try_with(|mark| mark.set(Mark::Turn(act)));
}

/// What the running code belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// Plain code: no turn, no infrastructure task.
    Plain,
    /// A turn of an object.
    Application,
    /// A task of the infrastructure domain.
    Infrastructure,
}

/// The domain of the running code.
#[must_use]
pub fn domain() -> Domain {
    match MARK.try_with(Cell::get).unwrap_or(Mark::Nothing) {
        Mark::Nothing => Domain::Plain,
        Mark::Turn(_) => Domain::Application,
        Mark::Infrastructure => Domain::Infrastructure,
    }
}

/// A look at the turn that the running code belongs to.
pub struct Current<'a>(&'a Act);

impl Current<'_> {
    /// The object whose handler runs.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.0.owner()
    }

    /// A strong count of it.
    #[must_use]
    pub fn owner_arc(&self) -> Arc<Owner> {
        self.0.owner_arc()
    }

    /// The owner whose gate the turn holds.
    #[must_use]
    pub fn gate(&self) -> &Owner {
        self.0.gate()
    }

    /// Whether the turn runs a lifecycle record.
    #[must_use]
    pub fn is_lifecycle(&self) -> bool {
        self.0.lane() == Lane::Lifecycle
    }

    /// The deadline of the request the turn serves, in ticks; `u64::MAX` for none.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        self.0.deadline_ns().get()
    }

    /// The flow the turn belongs to; 0 for none.
    #[must_use]
    pub fn flow(&self) -> u64 {
        self.0.flow().get()
    }

    /// How yields in this turn end, if they may go on no longer (YIELD-9).
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        self.0.cut()
    }

    /// The number of the turn's grant.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.0.grant().get()
    }

    /// The number of the turn's record in a trace; 0 without one.
    #[must_use]
    pub fn record(&self) -> u64 {
        self.0.record()
    }

    /// The handler is over: what its turn still does is no longer the handler.
    pub fn close(&self) {
        self.0.closed().set(true);
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed().get()
    }

    /// What the layer above keeps for this handler. `use_it` must not run user code.
    pub fn with_local<R>(&self, use_it: impl FnOnce(&mut Option<Box<dyn Any + Send>>) -> R) -> R {
        // Only the thread that polls the handler gets here, and `use_it` runs no user code that could again.
        let mut local = self.0.local().take();
        let result = use_it(&mut local);
        self.0.local().set(local);
        result
    }
}

/// Calls `look` with the activation of the turn the running code belongs to, if it belongs to one.
pub(crate) fn with_act<R>(look: impl FnOnce(Option<Act>) -> R) -> R {
    match MARK.try_with(Cell::get).unwrap_or(Mark::Nothing) {
        Mark::Turn(act) => look(Some(act)),
        _ => look(None),
    }
}

/// Calls `look` with the turn the running code belongs to, if it belongs to one.
pub fn with_turn<R>(look: impl FnOnce(Option<Current<'_>>) -> R) -> R {
    match MARK.try_with(Cell::get).unwrap_or(Mark::Nothing) {
        Mark::Turn(act) => look(Some(Current(&act))),
        _ => look(None),
    }
}

/// A future that runs as part of the infrastructure domain.
pub struct Infrastructure<F>(Pin<Box<F>>);

impl<F: Future> Infrastructure<F> {
    /// Marks `future`'s code, wherever it is polled.
    pub fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Infrastructure<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        marked(Mark::Infrastructure, || self.0.as_mut().poll(cx))
    }
}

/// Runs `code` as part of the infrastructure domain.
pub fn as_infrastructure<R>(code: impl FnOnce() -> R) -> R {
    marked(Mark::Infrastructure, code)
}
