//! The turn of a tick with a gate of its own: a timer of a `PerActor` Spot, which reaches its Spot by messages only.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use turnkeep_scheduler::access::{Ending, Start, Started};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};

use super::Tick;
use super::cell::{Cell, Ticking};
use super::tick::failed;
use crate::actor::{Actor, Handler};
use crate::caught::caught;
use crate::envelope::panicked;
use crate::error::Failure;
use crate::flow::flow;
use crate::id::{Id, ObjectKind};
use crate::node::Node;
use crate::object::{Hooks, Object, object_of};
use crate::refs::{ActorAddress, HandlerAddress, SpotAddress, SpotRef};
use crate::spot::{PerActor, Spot};
use crate::trace;
use crate::work::{Work as Call, cpu_work, io_work};

/// A `PerActor` Spot with timers. Each name has a gate of its own: ticks of different timers, of the Spot and of its
/// members run at the same time, so a tick has no access to the Spot's state and sends to it instead (GATE-5,
/// TIMER-5).
pub trait OnOwnTick: Spot<Mode = PerActor> {
    /// A tick. An error or a panic is logged and counted, and the timer goes on.
    fn on_tick(turn: &mut TimerTurn<Self>, tick: Tick) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The turn of a tick with a gate of its own.
pub struct TimerTurn<S> {
    of: Arc<Owner>,
    _spot: PhantomData<fn() -> S>,
}

impl<S: Spot> TimerTurn<S> {
    /// The Spot that registered the timer.
    #[must_use]
    pub fn this_spot(&self) -> SpotRef<S> {
        SpotRef::from_owner(self.of.clone())
    }

    /// The node it lives on.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::from_inner(object_of(&self.of).node.clone())
    }

    /// Whoever is the Spot of that id.
    #[must_use]
    pub fn spot<O: Spot>(&self, id: &str) -> SpotAddress<O> {
        SpotAddress::new(&object_of(&self.of).node, id)
    }

    /// Whoever is the Actor of that id.
    #[must_use]
    pub fn actor<A: Actor>(&self, id: &str) -> ActorAddress<A> {
        ActorAddress::new(&object_of(&self.of).node, id)
    }

    /// The handler of a channel.
    #[must_use]
    pub fn channel<H: Handler>(&self, name: &str) -> HandlerAddress<H> {
        HandlerAddress::new(&object_of(&self.of).node, ObjectKind::ChannelHandler, name)
    }

    /// Computing work on the CPU pool (WORK-1).
    pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Call<R> {
        cpu_work(&object_of(&self.of).node.pool, work)
    }

    /// A future to run on the I/O runtime (WORK-1).
    pub fn io<F>(&self, future: F) -> Call<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        io_work(&object_of(&self.of).node.pool, future)
    }

    /// Cancels a timer of the Spot; `false` if it has none of that name.
    pub fn cancel_timer(&mut self, name: &str) -> bool {
        object_of(&self.of).timers().cancel(name)
    }
}

impl<S> fmt::Debug for TimerTurn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerTurn({})", object_of(&self.of))
    }
}

static NO_HOOKS: Hooks = Hooks {
    type_id: std::any::TypeId::of::<()>,
    leave: None,
    close: |_, _| unreachable!("timers are in no directory"),
    last: |_, _| unreachable!("timers are not closed"),
    restart: |_| unreachable!("timers are not made anew"),
};

/// The owner whose gate the ticks of one name run under.
pub(super) fn gate(of: &Arc<Owner>, name: &Id) -> Arc<Owner> {
    object_of(of).timers().gate(name, || new_gate(of, name))
}

fn new_gate(of: &Arc<Owner>, name: &Id) -> Arc<Owner> {
    let spot = object_of(of);
    let object = Object::new(
        ObjectKind::Timer,
        name.clone(),
        spot.node.next_generation(),
        spot.info.clone(),
        false,
        spot.node.clone(),
        &NO_HOOKS,
    );
    let gate = Owner::new(of.class().clone(), Box::new(object), None);
    trace::named(&gate);
    gate
}

/// Ticks of a `PerActor` Spot.
pub(super) struct OwnGate<S>(PhantomData<fn() -> S>);

impl<S: OnOwnTick> Ticking for OwnGate<S> {
    fn record(cell: Arc<Cell>) -> Record {
        Record::of_own_room(OwnWork::<S>(cell, PhantomData))
    }
}

struct OwnWork<S>(Arc<Cell>, PhantomData<fn() -> S>);

impl<S: OnOwnTick> Work for OwnWork<S> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        let this = work.into_inner();
        let Some(of) = this.0.of() else { return start.done(Ending::done()) };
        let running = Running::begin(&of);
        let Some(tick) = this.0.on_start() else { return start.done(Ending::done()) };
        start.serve(u64::MAX, flow());
        let (tick, cell) = (Tick { name: this.0.name.clone(), tick }, this.0);
        start.detached(async move {
            let mut turn = TimerTurn::<S> { of, _spot: PhantomData };
            match caught(S::on_tick(&mut turn, tick)).await {
                Ok(Ok(())) => {}
                Ok(Err(failure)) => failed(&turn.of, &cell, &failure),
                Err(panic) => drop(panicked(&turn.of, "a tick", &panic)),
            }
            drop(running);
            cell.on_end();
            Ending::done()
        })
    }

    fn refuse(self, _: &Owner, _: Refusal) {
        self.0.cancel();
    }
}

/// Counted while the tick's handler is under way: the Spot closes after it.
struct Running(Arc<Owner>);

impl Running {
    fn begin(of: &Arc<Owner>) -> Self {
        object_of(of).timers().begin_own();
        Self(of.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        object_of(&self.0).timers().end_own();
    }
}
