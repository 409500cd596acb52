//! What a handler gets: access to the state of its object for exactly as long as it holds the gate.
//!
//! # Why releasing the gate is sound
//!
//! A handler is polled and dropped only by the holder of its gate, so a reference into the state can do harm
//! only if it is alive while the gate is given up. The gate is given up when a poll returns pending while the
//! *wish* is set, and nowhere else. So it is enough that a set wish implies that no such reference is alive:
//!
//! 1. The wish is set only by a pending poll of a [`Released`] future, which borrows the [`Access`] mutably;
//!    any reference into the state borrows the same `Access`, so none is alive at that moment.
//! 2. A reference made later can only come from the `Access`, once the `Released` is gone (finished, dropped,
//!    or forgotten), and every way to make one clears the wish first.
//! 3. So at any later point: wish still set, no reference made since.
//!
//! The wish is also cleared when the `Released` ends or is dropped (a Yield raced and dropped leaves its
//! handler with the gate kept, YIELD-8) and at the start of a handler (a forgotten one leaves nothing to its
//! successor in the same block). A rule that cleared it at the start of every poll would be simpler and wrong:
//! combinators need not poll the Yield again when a sibling wakes, and the gate that the callee needs would
//! stay closed.
//!
//! An `Access` cannot outlive its handler: handlers are generic over its lifetime ([`Job::run`]), so it can be
//! stored nowhere, and the state is dropped only after every handler of the object has been dropped.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use turnkeep_machines::gate::Grant;

use crate::activation::{Act, Activation, Polled};
use crate::ambient;
use crate::drive;
use crate::owner::Owner;
use crate::record::{Record, Refusal};
use crate::state::State;

/// What becomes of the object when a turn's work has ended: nothing, mostly, so that is one word.
#[derive(Debug)]
#[must_use]
pub struct Ending(Option<Box<Fate>>);

/// What becomes of it otherwise.
#[derive(Debug)]
pub(crate) enum Fate {
    Seal { last: Record },
    End { why: Refusal },
    Restart { first: Record },
    Arrive { host: Option<Arc<Owner>>, first: Record },
}

impl Ending {
    /// Nothing: the object goes on.
    pub const fn done() -> Self {
        Self(None)
    }

    fn fate(fate: Fate) -> Self {
        Self(Some(Box::new(fate)))
    }

    /// The object takes no more records; when all it has accepted are handled, `last` runs.
    pub fn seal(last: Record) -> Self {
        Self::fate(Fate::Seal { last })
    }

    /// The object ends now. Its waiting handlers are dropped, its state after them, and what is queued is
    /// refused with the reason, which is what its callers are told.
    pub fn end(why: Refusal) -> Self {
        Self::fate(Fate::End { why })
    }

    /// The object loses its state and goes on with another one, which `first` makes before anything else
    /// runs. Its waiting handlers are dropped; what is queued stays.
    pub fn restart(first: Record) -> Self {
        Self::fate(Fate::Restart { first })
    }

    /// The object moves under `host`'s gate (`None`: one of its own) and runs `first` there before anything else.
    pub fn arrive(host: Option<Arc<Owner>>, first: Record) -> Self {
        Self::fate(Fate::Arrive { host, first })
    }

    pub(crate) fn into_fate(self) -> Option<Fate> {
        self.0.map(|fate| *fate)
    }
}

/// The body of a handler, generic over how long it has access.
pub trait Job<T>: Send + 'static {
    /// Runs the handler to its end.
    fn run(self, access: Access<'_, T>) -> impl Future<Output = Ending> + Send;
}

/// Proof that a turn was begun in the way the driver offers.
pub struct Started {
    pub(crate) polled: Polled,
}

/// The beginning of a turn: where a record's work puts its handler.
pub struct Start<'a> {
    /// The block of the turn; exchanged for a larger one when the future needs it.
    block: &'a Cell<Act>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(block: &'a Cell<Act>) -> Self {
        Self { block }
    }

    /// The object whose turn it is.
    #[must_use]
    pub fn owner(&self) -> Arc<Owner> {
        self.block.get().owner_arc()
    }

    /// The number of this turn's grant.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.block.get().grant().get()
    }

    /// Says which request the turn serves: until when (ticks; `u64::MAX` for no deadline) and in which flow.
    pub fn serve(&mut self, deadline_ns: u64, flow: u64) {
        let act = self.block.get();
        act.deadline_ns().set(deadline_ns);
        act.flow().set(flow);
    }

    /// Says which call the turn answers, for those who look for cycles of waits; 0 for none.
    pub fn answer(&mut self, call: u64) {
        self.block.get().serves().set(call);
    }

    /// Gives the object its state. It must have none yet.
    pub fn install<T: Any + Send>(&mut self, state: T) {
        let made = State::new(state);
        // SAFETY: this turn holds the gate, and with no state there is no reference into it.
        self.block.get().owner().state().with_mut(|slot| unsafe {
            assert!((*slot).is_none(), "an object is made once");
            *slot = Some(made);
        });
    }

    /// Runs a handler on the object's state and polls it for the first time.
    ///
    /// # Panics
    ///
    /// If the object's state is not a `T`: the layer above checks types when it resolves a name.
    #[must_use]
    pub fn run<T: Any + Send, J: Job<T>>(self, job: J) -> Started {
        let act = self.block.get();
        // SAFETY: reading which state there is, under the gate.
        let state = act.owner().state().with(|slot| unsafe { (*slot).as_ref().and_then(State::pointer) });
        let state: NonNull<T> = match state {
            Some(state) => state,
            None => panic!("a handler was given an object of another type, or one that is not made"),
        };
        let make = |act| job.run(Access { act, state, _turn: PhantomData });
        let act = self.fit(&make);
        act.put(make(act));
        Started { polled: act.poll() }
    }

    /// The block, enlarged if the future that `make` would return does not fit. `make` is not called.
    fn fit<F>(&self, _make: &impl FnOnce(Act) -> F) -> Act {
        let act = self.block.get().fit::<F>();
        self.block.set(act);
        ambient::moved(act);
        act
    }

    /// Runs a future that needs no state.
    #[must_use]
    pub fn detached<F: Future<Output = Ending> + Send + 'static>(self, future: F) -> Started {
        let make = |_| future;
        let act = self.fit(&make);
        act.put(make(act));
        Started { polled: act.poll() }
    }

    /// The turn needed no handler.
    #[must_use]
    pub fn done(self, ending: Ending) -> Started {
        Started { polled: Polled::Ended(ending) }
    }
}

/// Access to the state of an object, for one handler.
pub struct Access<'t, T> {
    act: Act,
    state: NonNull<T>,
    _turn: PhantomData<fn(&'t mut T) -> &'t mut T>,
}

// SAFETY: an `Access` is a unique borrow of the `T` and of a header whose shared parts are atomics and whose
// cells only the holder's thread touches, which is the thread that polls the handler.
unsafe impl<T: Send> Send for Access<'_, T> {}
// SAFETY: a shared `Access` gives out `&T`, and otherwise reads what does not change during a turn.
unsafe impl<T: Sync> Sync for Access<'_, T> {}

impl<T: Any + Send> Access<'_, T> {
    fn touch(&self) {
        self.act.wish().store(false, Ordering::Relaxed);
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &T {
        self.touch();
        // SAFETY: see the head of this file: the gate is held, and stays held while the result is alive.
        unsafe { self.state.as_ref() }
    }

    /// The state, to change.
    #[must_use]
    pub fn state_mut(&mut self) -> &mut T {
        self.touch();
        // SAFETY: as for `state`, and this borrow is unique.
        unsafe { self.state.as_mut() }
    }

    /// The own state together with the state of the object whose gate this turn holds, if that is another
    /// object and its state is an `S`.
    #[must_use]
    pub fn both<S: Any + Send>(&mut self) -> Option<(&mut T, &mut S)> {
        self.touch();
        let mut host = host_state::<S>(&self.act)?;
        // SAFETY: as for `state_mut`; the two states are different allocations, because the owners differ.
        Some(unsafe { (self.state.as_mut(), host.as_mut()) })
    }

    /// Whether `both` would find an `S`.
    #[must_use]
    pub fn is_within<S: Any + Send>(&self) -> bool {
        host_state::<S>(&self.act).is_some()
    }

    /// A borrow of this access as an access.
    pub fn reborrow(&mut self) -> Access<'_, T> {
        Access { act: self.act, state: self.state, _turn: PhantomData }
    }

    /// The object.
    #[must_use]
    pub fn owner(&self) -> &Owner {
        self.act.owner()
    }

    /// A strong count of the object.
    #[must_use]
    pub fn owner_arc(&self) -> Arc<Owner> {
        self.act.owner_arc()
    }

    /// The flow this turn belongs to; 0 for none.
    #[must_use]
    pub fn flow(&self) -> u64 {
        self.act.flow().get()
    }

    /// The owner whose gate this turn holds.
    #[must_use]
    pub fn gate(&self) -> &Owner {
        self.act.gate()
    }

    /// The number of this turn's grant.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.act.grant().get()
    }

    /// The deadline of the request this turn serves, in ticks; `u64::MAX` for none.
    #[must_use]
    pub fn deadline_ns(&self) -> u64 {
        self.act.deadline_ns().get()
    }

    /// The handler has ended, though work of its turn goes on: its record's reservation goes back now, once
    /// (LANE-3).
    pub fn handler_ended(&mut self) {
        self.act.owner().give_back(self.act.lane(), self.act.reserved().replace(0), self.act.record());
    }

    /// Takes the application records of `of`, in order, out of its lane; they stay admitted. For an owner that is
    /// handed over and settled: its records must not run meanwhile.
    ///
    /// # Panics
    ///
    /// If `of` does not take its turns under the gate that this turn holds.
    pub fn take_records(&mut self, of: &Arc<Owner>) -> Vec<Record> {
        drive::take_records(of, self.gate())
    }

    /// Puts back what [`Self::take_records`] took, in front of what came since. To be followed by
    /// [`Owner::take_back`], which lets the holder look at the queue again.
    ///
    /// # Panics
    ///
    /// As [`Self::take_records`].
    pub fn put_records(&mut self, of: &Arc<Owner>, records: Vec<Record>) {
        drive::put_records(of, self.gate(), records);
    }

    /// Waits for `future` with the gate given up. Whether the context allows that is decided by the caller.
    pub fn released<F: Future>(&mut self, future: F) -> Released<'_, F> {
        self.released_if(true, future)
    }

    /// The same only if `releases`; otherwise the wait keeps the gate like any other.
    pub fn released_if<F: Future>(&mut self, releases: bool, future: F) -> Released<'_, F> {
        Released { act: self.act, releases, future, _access: PhantomData }
    }
}

/// The state of the gate's own object, as seen from a member's turn.
fn host_state<S: Any + Send>(act: &Activation) -> Option<NonNull<S>> {
    if std::ptr::eq(act.owner(), act.gate()) {
        return None;
    }
    // SAFETY: this turn holds the gate, under which that state lives.
    act.gate().state().with(|slot| unsafe { (*slot).as_ref().and_then(State::pointer) })
}

/// A wait with the gate given up.
#[must_use = "futures do nothing unless awaited"]
pub struct Released<'a, F> {
    act: Act,
    /// Whether the gate is given up at all. Fixed at the start.
    releases: bool,
    future: F,
    _access: PhantomData<&'a mut ()>,
}

// SAFETY: the header is touched through an atomic only; the borrow of the access is a marker.
unsafe impl<F: Send> Send for Released<'_, F> {}

impl<F: Future> Future for Released<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is pinned with `self` and never moved out; the drop below does not move it either.
        let (act, releases, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.act, this.releases, Pin::new_unchecked(&mut this.future))
        };
        let polled = future.poll(cx);
        act.wish().store(releases && polled.is_pending(), Ordering::Relaxed);
        polled
    }
}

impl<F> Drop for Released<'_, F> {
    fn drop(&mut self) {
        self.act.wish().store(false, Ordering::Relaxed);
    }
}
