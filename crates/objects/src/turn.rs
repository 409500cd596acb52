//! A handler's turn: the state of its object while the gate is held, and what can be done from there.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use turnkeep_machines::gate::Grant;
use turnkeep_scheduler::access::{Access, Released};
use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::ticks;

use crate::actor::{Actor, Handler};
use crate::call::{Call, may_yield};
use crate::context::context;
use crate::cut::cut;
use crate::envelope::Handles;
use crate::error::Error;
use crate::id::{Generation, ObjectKind};
use crate::join::{DeferError, Join, JoinTarget};
use crate::message::Message;
use crate::node::{Node, Tally};
use crate::object::{Object, object_of};
use crate::publish::Published;
use crate::refs::{ActorAddress, ActorRef, HandlerAddress, SpotAddress, SpotRef};
use crate::spot::{Admits, SharesGate, Spot};
use crate::timer::{OnOwnTick, OnTick, Timer};
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

context!(Turn);

impl<'t, T: Any + Send> Turn<'t, T> {
    pub(crate) fn new(access: Access<'t, T>) -> Self {
        Self { access, _place: PhantomData }
    }

    pub(crate) fn owner(&self) -> &Owner {
        self.access.owner()
    }

    pub(crate) fn into_access(self) -> Access<'t, T> {
        self.access
    }
}

impl<T: Any + Send, P> Turn<'_, T, P> {
    /// Waits for a call with the gate given up: other turns run meanwhile, so read the state again afterwards.
    ///
    /// The end of the wait is queued behind what is in the Spot's queue then and needs no room (YIELD-6). If
    /// the result is dropped before it ends, the handler simply has the gate when it goes on (YIELD-8).
    ///
    /// If the Spot closes meanwhile, or the node's time to drain is over, the wait ends with `ShuttingDown` instead, and
    /// with `Unavailable` if the unit is [sealed](crate::SpotRef::seal); the handler goes on with that under the gate. A
    /// yield begun then ends so at once, before anything is submitted (YIELD-9). What was submitted is handled all the
    /// same, its answer is late.
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
        // A call that was begun as an ordinary wait is not refused any more; then the gate is simply kept.
        let releases = self.access.gate().class().shares_gate;
        Yielding(self.access.released_if(releases, OneTurnLater::new(call)))
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
    /// The ids of the Actors in this Spot.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        self.object()
            .node
            .membership
            .members(self.access.owner().key())
            .iter()
            .map(|actor| object_of(actor).id.as_str().to_owned())
            .collect()
    }
}

impl<A: Actor, P> Turn<'_, A, P> {
    /// A Join of this Actor to a Spot, to be registered with [`defer`](Self::defer).
    pub fn join<S: Spot<Mode: Admits>>(&self, target: impl JoinTarget<S>) -> Join {
        Join::new::<A, S>(self.access.owner_arc(), target.into_destination())
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
}

/// A call awaited with the gate given up; see [`Turn::yielding`].
#[must_use = "futures do nothing unless awaited"]
pub struct Yielding<'a, C: Call>(Released<'a, OneTurnLater<C>>);

/// A call whose end is never taken inline: one that has ended before the gate was given up waits for a turn of
/// its own, behind what is queued then (YIELD-6).
struct OneTurnLater<C: Call> {
    call: C,
    /// The grant under which the yield began; `None` before that.
    began: Option<Grant>,
    output: Option<C::Output>,
}

impl<C: Call> Unpin for OneTurnLater<C> {}

impl<C: Call> OneTurnLater<C> {
    fn new(call: C) -> Self {
        Self { call, began: None, output: None }
    }

    /// Whether the turn in which the yield began still goes on.
    fn is_same_turn(&self) -> bool {
        self.began.is_some() && self.began == with_turn(|turn| turn.map(|turn| turn.grant()))
    }
}

impl<C: Call> Future for OneTurnLater<C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        if self.output.is_none()
            && let Some(why) = cut()
        {
            self.output = Some(self.call.cut(why));
        }
        if self.output.is_none() {
            let polled = Pin::new(&mut self.call).poll(cx);
            if self.began.is_none() {
                self.began = begin_yield(&self.call);
            }
            match polled {
                Poll::Ready(output) => self.output = Some(output),
                Poll::Pending => return Poll::Pending,
            }
        }
        if self.is_same_turn() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.output.take() {
            Some(output) => Poll::Ready(output),
            None => Poll::Pending,
        }
    }
}

/// The grant under which a call that was just polled for the first time begins to yield, and a yield more in the
/// count; `None` if nothing was submitted or the context does not yield.
fn begin_yield<C: Call>(call: &C) -> Option<Grant> {
    if !call.was_submitted() {
        return None;
    }
    with_turn(|turn| {
        let turn = turn.filter(may_yield)?;
        object_of(turn.owner()).node.tally(Tally::Yields);
        Some(turn.grant())
    })
}

impl<C: Call> Future for Yielding<'_, C> {
    type Output = C::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}
