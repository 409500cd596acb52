//! The end of a node: in order and within a time, or at once.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_scheduler::ambient::{Domain, domain, with_turn};
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::io;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::ticks;
use turnkeep_trace::Event;

use crate::ask::either;
use crate::error::{Error, ErrorKind};
use crate::id::ObjectKind;
use crate::node::NodeInner;
use crate::object::object_of;
use crate::quiesce::{is_quiet, quiesce};

/// How a shutdown went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Whether the time was up before all was done, so that the rest was cancelled.
    pub forced: bool,
    /// Objects that were cancelled instead of closed.
    pub cancelled: usize,
}

pub(crate) async fn shutdown(node: Arc<NodeInner>, limit: Duration) -> Result<ShutdownReport, Error> {
    let inside = with_turn(|turn| turn.is_some_and(|turn| Arc::ptr_eq(&object_of(turn.owner()).node, &node)));
    if inside || domain() == Domain::Infrastructure {
        let text = "a turn of the node would wait for its own end; shut it down from outside";
        return Err(Error::new(ErrorKind::InvalidOperation, "node", "shutdown", text));
    }
    if !node.begin_draining() {
        let text = "the node is shutting down or has ended already";
        return Err(Error::new(ErrorKind::ShuttingDown, "node", "shutdown", text));
    }
    let due = ticks::after_duration(limit);
    in_time(due, async { drop(quiesce(node.clone()).await) }).await;
    if is_quiet(&node) {
        close_all(&node, due).await;
    }
    node.set_stopped();
    let cancelled = cancel_all(&node);
    in_time(due, tasks_end(&node)).await;
    if node.own_pool && cancelled == 0 {
        // Nothing is left to run but tasks of the program's own; the threads end before this does.
        let pool = node.pool.clone();
        let _ = io::infra_handle().spawn_blocking(move || pool.stop()).await;
    }
    node.trace(&Event::NodeEnded { forced: cancelled > 0 });
    if let Some(traced) = node.traced.clone().filter(|traced| traced.own) {
        // The writer has logged what went wrong, if anything did.
        let _ = io::infra_handle().spawn_blocking(move || drop(traced.recorder.finish())).await;
    }
    Ok(ShutdownReport { forced: cancelled > 0, cancelled })
}

/// The last handle is gone: everything is cancelled.
pub(crate) fn abandon(node: &Arc<NodeInner>) {
    node.begin_draining();
    node.set_stopped();
    let cancelled = cancel_all(node);
    node.trace(&Event::NodeEnded { forced: cancelled > 0 });
}

async fn in_time(due: u64, work: impl Future<Output = ()>) {
    either(pin!(work), pin!(sleep_until(due))).await;
}

/// Closes Spots first, while their members are valid, then Actors, then what is the node's own.
async fn close_all(node: &Arc<NodeInner>, due: u64) {
    let entry = node.entry();
    let is_entry = |owner: &Arc<Owner>| entry.as_ref().is_some_and(|entry| Arc::ptr_eq(entry, owner));
    let spots = node.directory.all(ObjectKind::Spot).into_iter().filter(|spot| !is_entry(spot)).collect();
    close_these(spots, due).await;
    close_these(node.directory.all(ObjectKind::Actor), due).await;
    let mut rest = node.directory.all(ObjectKind::NodeHandler);
    rest.extend(node.directory.all(ObjectKind::ChannelHandler));
    rest.extend(entry.clone());
    close_these(rest, due).await;
}

async fn close_these(owners: Vec<Arc<Owner>>, due: u64) {
    for owner in &owners {
        let _ = owner.try_submit((object_of(owner).hooks.close)(owner));
    }
    let ends = async {
        for owner in &owners {
            object_of(owner).wait_for_end().await;
        }
    };
    in_time(due, ends).await;
}

/// Waits until the program's own tasks, cancelled, are gone.
async fn tasks_end(node: &NodeInner) {
    for task in node.tasks.all() {
        object_of(&task).wait_for_end().await;
    }
}

/// Cancels what has not ended. Returns how many that were.
fn cancel_all(node: &NodeInner) -> usize {
    let kinds = [ObjectKind::Actor, ObjectKind::Spot, ObjectKind::NodeHandler, ObjectKind::ChannelHandler];
    let left: Vec<Arc<Owner>> = kinds.iter().flat_map(|kind| node.directory.all(*kind)).collect();
    for owner in left.iter().chain(&node.tasks.all()) {
        owner.cancel();
    }
    left.len()
}
