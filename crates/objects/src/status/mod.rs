//! What a node and its objects say about themselves, at any time and without asking anybody.
//!
//! | file | what is in it |
//! |---|---|
//! | `mod` | [`Status`], [`ObjectStatus`]: read from counters and words that are there anyway |
//! | `observe` | [`Observer`]: the newest status of each source, for readers that are slow or fast |
//! | `text` | the metrics as Prometheus text |
//! | `serve` | a small server for that text |

mod observe;
mod serve;
mod text;

use std::time::Duration;

use turnkeep_machines::pair::Lane;
use turnkeep_scheduler::owner::Owner;

pub use self::observe::{OBSERVED_MAX, OBSERVERS_MAX, Observer, Source, Update};
pub(crate) use self::observe::{Observers, observe};
pub use self::serve::MetricsServer;
pub(crate) use self::serve::serve;
pub(crate) use self::text::text;

use crate::id::ObjectKind;
use crate::node::{Metrics, Node, NodeInner};
use crate::object::object_of;

/// The part of its life a node is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeState {
    /// It takes work.
    Open,
    /// It shuts down: accepted work is finished.
    Draining,
    /// It has ended.
    Stopped,
}

/// A node at one moment (STAT-1). The figures are read one after another, so two that change together may differ by
/// what happened in between.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The part of its life.
    pub state: NodeState,
    /// The version of this library.
    pub version: &'static str,
    /// Since it was started.
    pub uptime: Duration,
    /// Workers that run its turns.
    pub workers: usize,
    /// How many of them have nothing to do.
    pub idle_workers: usize,
    /// Spots, the Entry Spot included.
    pub spots: usize,
    /// Actors.
    pub actors: usize,
    /// Handlers of the node and of channels.
    pub handlers: usize,
    /// Records accepted and not finished.
    pub under_way: u64,
    /// What it has counted since its start.
    pub metrics: Metrics,
}

impl Status {
    pub(crate) fn of(node: &NodeInner) -> Self {
        let metrics = Metrics::of(node);
        let count = |kind| node.directory.count(kind);
        Self {
            state: match (node.is_open(), node.is_stopped()) {
                (true, _) => NodeState::Open,
                (_, true) => NodeState::Stopped,
                _ => NodeState::Draining,
            },
            version: env!("CARGO_PKG_VERSION"),
            uptime: node.began.elapsed(),
            workers: node.pool.workers(),
            idle_workers: node.pool.idle(),
            spots: count(ObjectKind::Spot),
            actors: count(ObjectKind::Actor),
            handlers: count(ObjectKind::NodeHandler) + count(ObjectKind::ChannelHandler),
            under_way: metrics.accepted.saturating_sub(metrics.finished),
            metrics,
        }
    }

    /// Whether it says anything else than another, the time aside.
    fn differs_from(&self, other: &Self) -> bool {
        Self { uptime: other.uptime, idle_workers: other.idle_workers, ..self.clone() } != *other
    }
}

/// An object at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ObjectStatus {
    /// Whether it is made and takes messages.
    pub is_ready: bool,
    /// Whether it closes: it takes nothing more.
    pub is_closing: bool,
    /// Whether it is gone.
    pub has_ended: bool,
    /// Records accepted and not finished, in the application and in the lifecycle lane.
    pub queued: (u32, u32),
    /// Bytes reserved, in both lanes.
    pub reserved_bytes: (u64, u64),
    /// Senders that wait for room, in both lanes.
    pub waiting: (usize, usize),
    /// Handlers that wait for something, with the gate kept or given up.
    pub suspended: usize,
    /// Actors in it, if it is a Spot.
    pub members: usize,
}

impl ObjectStatus {
    pub(crate) fn of(owner: &Owner) -> Self {
        let object = object_of(owner);
        let [application, lifecycle] = [Lane::Application, Lane::Lifecycle].map(|lane| owner.in_use(lane));
        Self {
            is_ready: object.is_ready() && object.end().is_none(),
            is_closing: owner.is_sealed() && object.end().is_none(),
            has_ended: object.end().is_some(),
            queued: (application.records, lifecycle.records),
            reserved_bytes: (application.bytes, lifecycle.bytes),
            waiting: (owner.waiters(Lane::Application), owner.waiters(Lane::Lifecycle)),
            suspended: owner.suspended(),
            members: object.node.membership.count(owner.key()),
        }
    }
}

impl Node {
    /// The node now (STAT-1).
    #[must_use]
    pub fn status(&self) -> Status {
        Status::of(self.inner())
    }
}
