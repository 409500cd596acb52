//! The end of a node: in order and within a time, or at once.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use turnkeep_machines::pair::Lane;
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

/// How many of what did not end in time a report names.
const NAMED_MAX: usize = 16;

/// How a shutdown went.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Whether the time was up before all was done, so that the rest was cancelled.
    pub forced: bool,
    /// Objects that were cancelled instead of closed.
    pub cancelled: usize,
    /// Some of what did not end in time: at most 16, those with a handler under way first.
    pub unfinished: Vec<Unfinished>,
}

/// An object or a task that did not end in time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// Which object.
    pub object: String,
    /// What it had still to do.
    pub doing: String,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.doing)
    }
}

/// The moments of a shutdown, in ticks.
struct Times {
    /// Yields end in an error: three quarters.
    drain: u64,
    /// Objects are closed even if others still work: seven eighths.
    close: u64,
    /// The end.
    due: u64,
}

impl Times {
    fn new(limit: Duration) -> Self {
        let now = ticks::now();
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let at = |eighths: u64| now.saturating_add(limit_ns / 8 * eighths);
        Self { drain: at(6), close: at(7), due: now.saturating_add(limit_ns) }
    }
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
    let times = Times::new(limit);
    drain(&node, &times).await;
    close_all(&node, times.due).await;
    node.set_stopped();
    let (cancelled, mut unfinished) = cancel_all(&node);
    in_time(times.due, tasks_end(&node)).await;
    let tasks = node.tasks.all();
    unfinished.extend(tasks.iter().map(|task| of_task(task)));
    unfinished.truncate(NAMED_MAX);
    let forced = cancelled > 0 || !tasks.is_empty();
    if node.own_pool && !forced {
        // Nothing is left to run but tasks of the program's own; the threads end before this does.
        let pool = node.pool.clone();
        let _ = io::infra_handle().spawn_blocking(move || pool.stop()).await;
    }
    node.trace(&Event::NodeEnded { forced: cancelled > 0 });
    if let Some(traced) = node.traced.clone().filter(|traced| traced.own) {
        // The writer has logged what went wrong, if anything did.
        let _ = io::infra_handle().spawn_blocking(move || drop(traced.recorder.finish())).await;
    }
    Ok(ShutdownReport { forced, cancelled, unfinished })
}

/// Waits until what was accepted is done. Towards the end of the time the yields that still wait are ended, so that
/// their handlers end too (YIELD-9).
async fn drain(node: &Arc<NodeInner>, times: &Times) {
    in_time(times.drain, async { drop(quiesce(node.clone()).await) }).await;
    if is_quiet(node) {
        return;
    }
    node.set_closing();
    for owner in objects(node) {
        owner.close_yields();
    }
    in_time(times.close, async { drop(quiesce(node.clone()).await) }).await;
}

/// The last handle is gone: everything is cancelled.
pub(crate) fn abandon(node: &Arc<NodeInner>) {
    node.begin_draining();
    node.set_stopped();
    let (cancelled, _) = cancel_all(node);
    node.trace(&Event::NodeEnded { forced: cancelled > 0 });
}

async fn in_time(due: u64, work: impl Future<Output = ()>) {
    either(pin!(work), pin!(sleep_until(due))).await;
}

/// Closes Spots first, while their members are valid, then Actors, then what is the node's own. What does not end
/// keeps no other from its `on_closing`: each of the three has its part of the time that is left.
async fn close_all(node: &Arc<NodeInner>, due: u64) {
    let entry = node.entry();
    let is_entry = |owner: &Arc<Owner>| entry.as_ref().is_some_and(|entry| Arc::ptr_eq(entry, owner));
    let spots = node.directory.all(ObjectKind::Spot).into_iter().filter(|spot| !is_entry(spot)).collect();
    close_these(spots, due, part_of(due, 3)).await;
    close_these(node.directory.all(ObjectKind::Actor), due, part_of(due, 2)).await;
    let mut rest = node.directory.all(ObjectKind::NodeHandler);
    rest.extend(node.directory.all(ObjectKind::ChannelHandler));
    rest.extend(entry.clone());
    close_these(rest, due, due).await;
}

/// The end of the first of so many equal parts of the time that is left.
fn part_of(due: u64, parts: u64) -> u64 {
    let now = ticks::now();
    now + due.saturating_sub(now) / parts
}

async fn close_these(owners: Vec<Arc<Owner>>, due: u64, until: u64) {
    for owner in &owners {
        let _ = owner.try_submit((object_of(owner).hooks.close)(owner, due));
    }
    let ends = async {
        for owner in &owners {
            object_of(owner).wait_for_end().await;
        }
    };
    in_time(until, ends).await;
}

/// Waits until the program's own tasks, cancelled, are gone.
async fn tasks_end(node: &NodeInner) {
    for task in node.tasks.all() {
        object_of(&task).wait_for_end().await;
    }
}

fn objects(node: &NodeInner) -> Vec<Arc<Owner>> {
    let kinds = [ObjectKind::Actor, ObjectKind::Spot, ObjectKind::NodeHandler, ObjectKind::ChannelHandler];
    kinds.iter().flat_map(|kind| node.directory.all(*kind)).collect()
}

/// Cancels what has not ended. Returns how many that were, and what some of them did.
fn cancel_all(node: &NodeInner) -> (usize, Vec<Unfinished>) {
    let left = objects(node);
    let (busy, idle): (Vec<_>, Vec<_>) = left.iter().partition(|owner| is_busy(owner));
    let named = busy.into_iter().chain(idle).take(NAMED_MAX).map(|owner| of_object(owner)).collect();
    for owner in left.iter().chain(&node.tasks.all()) {
        object_of(owner).set_cancelled();
        owner.cancel();
    }
    (left.len(), named)
}

fn is_busy(owner: &Owner) -> bool {
    owner.suspended() > 0
        || [Lane::Application, Lane::Lifecycle].iter().any(|lane| owner.in_use(*lane).records > 0)
}

fn of_object(owner: &Owner) -> Unfinished {
    let [messages, lifecycle] = [Lane::Application, Lane::Lifecycle].map(|lane| owner.in_use(lane).records);
    let doing = format!(
        "{messages} messages and {lifecycle} lifecycle records accepted and not finished, {} handlers waiting{}",
        owner.suspended(),
        if owner.is_sealed() { ", closing" } else { "" },
    );
    Unfinished { object: object_of(owner).to_string(), doing }
}

fn of_task(task: &Owner) -> Unfinished {
    let doing = "a task that was cancelled and has not come to a wait since".to_owned();
    Unfinished { object: object_of(task).to_string(), doing }
}
