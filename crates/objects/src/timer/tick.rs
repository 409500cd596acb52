//! The turn of a tick under the gate of its object: a handler like that of a message.

use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};

use super::Tick;
use super::cell::{Cell, Ticking};
use crate::caught::caught;
use crate::envelope::{after_panic, panicked};
use crate::error::Failure;
use crate::flow::flow;
use crate::join;
use crate::node::Tally;
use crate::object::object_of;
use crate::report::{Often, brief, report_often};
use crate::span::{self, in_span};
use crate::turn::Turn;

/// A type whose timers are turns of its own: a Spot that shares its gate, the Entry Spot, an Actor.
///
/// The tick runs under the gate the object is under then: an Actor's travels with it (TIMER-1, TIMER-5).
pub trait OnTick: Send + Sized + 'static {
    /// A tick. An error is logged and counted, and the timer goes on; a panic follows the type's panic policy.
    fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Ticks of a `T`.
pub(super) struct UnderGate<T>(PhantomData<fn() -> T>);

impl<T: OnTick> Ticking for UnderGate<T> {
    fn record(cell: Arc<Cell>) -> Record {
        Record::of_own_room(TickWork::<T>(cell, PhantomData))
    }
}

struct TickWork<T>(Arc<Cell>, PhantomData<fn() -> T>);

impl<T: OnTick> Work for TickWork<T> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        let this = work.into_inner();
        let Some(tick) = this.0.on_start() else { return start.done(Ending::done()) };
        start.serve(u64::MAX, flow());
        let tick = Tick { name: this.0.name.clone(), tick };
        start.run::<T, _>(TickTurn { cell: this.0, tick })
    }

    /// The object has ended, and its timers with it.
    fn refuse(self, _: &Owner, _: Refusal) {
        self.0.cancel();
    }
}

struct TickTurn {
    cell: Arc<Cell>,
    tick: Tick,
}

impl<T: OnTick> Job<T> for TickTurn {
    async fn run(self, access: Access<'_, T>) -> Ending {
        use turnkeep_machines::defer::Ending as Handled;
        let owner = access.owner_arc();
        let mut turn = Turn::new(access);
        let span = span::of(turn.owner(), "a tick", turn.flow());
        let ended = in_span(span, pin!(caught(T::on_tick(&mut turn, self.tick)))).await;
        let (handled, ending) = match ended {
            Ok(Ok(())) => (Handled::Succeeded, Ending::done()),
            Ok(Err(failure)) => {
                failed(&owner, &self.cell, &failure);
                (Handled::Failed, Ending::done())
            }
            Err(panic) => {
                panicked(&owner, "a tick", &panic);
                (Handled::Panicked, after_panic(&owner))
            }
        };
        join::start(join::end_of_scope(handled));
        self.cell.on_end();
        ending
    }
}

/// A tick that failed is logged and counted like a send that did (ERR-2).
pub(super) fn failed(owner: &Owner, cell: &Cell, failure: &Failure) {
    let object = object_of(owner);
    object.node.tally(Tally::FailedSends);
    report_often(&object.node, Often::FailedTick, |left_out| {
        let failure = &*brief(failure);
        tracing::error!(%object, timer = %cell.name, failure, left_out, "a tick failed");
    });
}
