//! A handler's turn: the state of its object while the gate is held, and what can be done from there.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use turnkeep_scheduler::access::{Access, Released};
use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::ticks;

use crate::actor::Actor;
use crate::call::{Call, may_yield};
use crate::id::{Generation, ObjectKind};
use crate::join::{DeferError, Join, JoinTarget};
use crate::node::{Node, NodeInner, Tally};
use crate::object::{Object, object_of};
use crate::refs::{ActorAddress, ActorRef, HandlerAddress, SpotAddress, SpotRef};
use crate::spot::{Admits, SharesGate, Spot};
use crate::work::{Work, cpu_work, io_work};

/// The turn of a handler of `T`; with `P`, of a member of a Spot of type `P` whose state it reaches too.
///
/// It derefs to the state. References into the state last as long as nothing yields: a program that keeps one
/// over a [`yielding`](Self::yielding) call does not compile (YIELD-7).
///
/// ```compile_fail,E0499
/// # use turnkeep_objects::*;
/// # struct Room { names: Vec<String> }
/// # impl Spot for Room { type Mode = SpotWide; }
/// # struct Hear;
/// # impl HeapSize for Hear { fn heap_bytes(&self) -> u64 { 0 } }
/// # impl Message for Hear { type Reply = (); type Error = Never; }
/// # impl Handles<Hear> for Room {
/// # async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
/// let names = &mut turn.names;
/// let asked = turn.spot::<Room>("other").ask(Hear);
/// let _ = turn.yielding(asked).await; // the gate is given up here
/// names.push("stale".into());         // so this does not compile
/// # Ok(()) } }
/// ```
pub struct Turn<'t, T, P = ()> {
    access: Access<'t, T>,
    _place: PhantomData<fn() -> P>,
}

/// Turns that can give their gate up while they wait (YIELD-1).
#[diagnostic::on_unimplemented(
    message = "this turn cannot yield: its gate is not shared",
    label = "handlers of `SpotWide` and `Instance` Spots can yield, and members of `SpotWide` ones inside `turn.within::<S>()`",
    note = "await the call itself: an ordinary wait keeps the gate and lets every other object run"
)]
pub trait Yields {}
impl<S: Spot<Mode: SharesGate>> Yields for Turn<'_, S, ()> {}
impl<A: Actor, S: Spot<Mode: SharesGate>> Yields for Turn<'_, A, S> {}

impl<'t, T: Any + Send> Turn<'t, T> {
    pub(crate) fn new(access: Access<'t, T>) -> Self {
        Self { access, _place: PhantomData }
    }

    pub(crate) fn into_access(self) -> Access<'t, T> {
        self.access
    }
}

impl<T: Any + Send, P> Turn<'_, T, P> {
    /// The state, for borrows of several fields at once.
    pub fn state(&mut self) -> &mut T {
        self.access.state_mut()
    }

    /// Waits for a call with the gate given up: other turns run meanwhile, so read the state again afterwards.
    ///
    /// The end of the wait is queued behind what is in the Spot's queue then and needs no room (YIELD-6). If
    /// the result is dropped before it ends, the handler simply has the gate when it goes on (YIELD-8).
    pub fn yielding<C: Call>(&mut self, call: C) -> Yielding<'_, C>
    where
        Self: Yields,
    {
        self.try_yielding(call)
    }

    /// [`yielding`](Self::yielding) for code that does not know its context: where it is not allowed, the call
    /// ends with `InvalidOperation` before anything is submitted (YIELD-2).
    pub fn try_yielding<C: Call>(&mut self, mut call: C) -> Yielding<'_, C> {
        call.set_yielding();
        Yielding(self.access.released(OneTurnLater { call, is_first: true, output: None }))
    }

    fn object(&self) -> &Object {
        object_of(self.access.owner())
    }

    /// The id of the object.
    #[must_use]
    pub fn id(&self) -> &str {
        self.object().id.as_str()
    }

    /// Which life of that id this is.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.object().generation
    }

    /// The number of this turn's grant; no other turn of the gate ever has it (GATE-9). It changes over a
    /// yield.
    #[must_use]
    pub fn grant(&self) -> u64 {
        self.access.grant().0
    }

    /// When the request that this turn serves is due, if it has a deadline (DONE-7).
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.access.deadline_ns() {
            u64::MAX => None,
            at => Some(ticks::to_instant(at)),
        }
    }

    /// What is left of the time of the request that this turn serves.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        match self.access.deadline_ns() {
            u64::MAX => None,
            at => Some(ticks::until(at)),
        }
    }

    /// The flow this turn belongs to.
    #[must_use]
    pub fn flow(&self) -> u64 {
        self.access.flow()
    }

    fn inner(&self) -> Arc<NodeInner> {
        self.object().node.clone()
    }

    /// The node the object lives on.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::from_inner(self.inner())
    }

    /// Whoever is the Spot of that id.
    #[must_use]
    pub fn spot<S: Spot>(&self, id: &str) -> SpotAddress<S> {
        SpotAddress::new(&self.inner(), id)
    }

    /// Whoever is the Actor of that id.
    #[must_use]
    pub fn actor<A: Actor>(&self, id: &str) -> ActorAddress<A> {
        ActorAddress::new(&self.inner(), id)
    }

    /// The handler of a channel.
    #[must_use]
    pub fn channel<H: crate::actor::Handler>(&self, name: &str) -> HandlerAddress<H> {
        HandlerAddress::new(&self.inner(), ObjectKind::ChannelHandler, name)
    }

    /// A handler of the node.
    #[must_use]
    pub fn handler<H: crate::actor::Handler>(&self, name: &str) -> HandlerAddress<H> {
        HandlerAddress::new(&self.inner(), ObjectKind::NodeHandler, name)
    }

    /// Computing work on the CPU pool, apart from the workers (WORK-1).
    pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        cpu_work(work)
    }

    /// A future to run on the I/O runtime; it holds no slot while it waits (WORK-1).
    pub fn io<F>(&self, future: F) -> Work<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        io_work(future)
    }

    /// Registers a Join that starts when this handler has ended well: an ordinary call, nothing is looked up
    /// (JOIN-1).
    ///
    /// # Errors
    ///
    /// Over the limits of one handler: 64 Joins, 1 MiB each, 8 MiB together (JOIN-5). The Join comes back.
    pub fn defer(&mut self, join: Join) -> Result<(), DeferError> {
        crate::join::defer(join)
    }
}

impl<S: Spot> Turn<'_, S, ()> {
    /// A reference to this Spot.
    #[must_use]
    pub fn me(&self) -> SpotRef<S> {
        SpotRef::from_owner(self.access.owner_arc())
    }

    /// The ids of the Actors in this Spot.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        self.inner()
            .membership
            .members(self.access.owner().key())
            .iter()
            .map(|actor| object_of(actor).id.as_str().to_owned())
            .collect()
    }
}

impl<A: Actor, P> Turn<'_, A, P> {
    /// A reference to this Actor.
    #[must_use]
    pub fn itself(&self) -> ActorRef<A> {
        ActorRef::from_owner(self.access.owner_arc())
    }

    /// The id of the Spot the Actor is in.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let spot = self.inner().membership.place(self.access.owner().key())?;
        Some(object_of(&spot).id.as_str().to_owned())
    }

    /// A Join of this Actor to a Spot, to be registered with [`defer`](Self::defer).
    pub fn join<S: Spot<Mode: Admits>>(&self, target: impl JoinTarget<S>) -> Join {
        Join::new::<A, S>(self.access.owner_arc(), target.into_destination())
    }

    /// The turn as that of a member of a Spot of type `S`, if the Actor is in one: then the Spot's state is
    /// reachable too, and the turn can yield.
    pub fn within<S: Spot<Mode: SharesGate>>(&mut self) -> Option<Turn<'_, A, S>> {
        if !self.access.is_within::<S>() {
            return None;
        }
        Some(Turn { access: self.access.reborrow(), _place: PhantomData })
    }
}

impl<A: Actor, S: Spot> Turn<'_, A, S> {
    /// The state of the Spot.
    pub fn spot_state(&mut self) -> &mut S {
        self.both().1
    }

    /// The states of the Actor and of the Spot.
    ///
    /// # Panics
    ///
    /// If the Spot was stopped while this handler yielded in it: its state is gone, so this handler cannot go
    /// on with it and stops, too. Use [`try_both`](Self::try_both) to go on without.
    pub fn both(&mut self) -> (&mut A, &mut S) {
        match self.try_both() {
            Some(both) => both,
            None => panic!("the Spot this handler was in was stopped while the handler waited"),
        }
    }

    /// The states of the Actor and of the Spot; `None` if the Spot was stopped while this handler yielded.
    pub fn try_both(&mut self) -> Option<(&mut A, &mut S)> {
        self.access.both::<S>()
    }
}

impl<T: Any + Send, P> Deref for Turn<'_, T, P> {
    type Target = T;

    fn deref(&self) -> &T {
        self.access.state()
    }
}

impl<T: Any + Send, P> DerefMut for Turn<'_, T, P> {
    fn deref_mut(&mut self) -> &mut T {
        self.access.state_mut()
    }
}

impl<T: Any + Send, P> fmt::Debug for Turn<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turn({})", self.object())
    }
}

/// A call awaited with the gate given up; see [`Turn::yielding`].
#[must_use = "futures do nothing unless awaited"]
pub struct Yielding<'a, C: Call>(Released<'a, OneTurnLater<C>>);

/// A call whose end is never taken inline: one that was submitted and has ended at once still gives the gate up
/// and goes on in a turn of its own, behind what is queued then (YIELD-6).
struct OneTurnLater<C: Call> {
    call: C,
    is_first: bool,
    output: Option<C::Output>,
}

impl<C: Call> Unpin for OneTurnLater<C> {}

impl<C: Call> Future for OneTurnLater<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        if let Some(output) = self.output.take() {
            return Poll::Ready(output);
        }
        let polled = Pin::new(&mut self.call).poll(cx);
        if !std::mem::take(&mut self.is_first) || !begins_yield(&self.call) {
            return polled;
        }
        if let Poll::Ready(output) = polled {
            self.output = Some(output);
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// Whether a call that was just polled for the first time gives the gate up; if so the yield is counted.
fn begins_yield<C: Call>(call: &C) -> bool {
    call.was_submitted()
        && with_turn(|turn| {
            let Some(turn) = turn.filter(may_yield) else { return false };
            object_of(turn.owner()).node.tally(Tally::Yields);
            true
        })
}

impl<C: Call> Future for Yielding<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
