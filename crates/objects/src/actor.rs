//! What an Actor is, and the callbacks of its life and of its moves.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use crate::error::ErrorKind;
use crate::error::Failure;
use crate::lifecycle::Lifecycle;
use crate::spot::{Closing, Payload};

/// An addressed object with state that is always a member of one Spot: a player, an account, an aircraft.
///
/// It is created in the node's Entry Spot, under a gate of its own, and may join other Spots.
pub trait Actor: Send + Sized + 'static {
    /// The Actor has been made and takes its first turn. An error undoes the creation.
    fn on_create(turn: &mut Lifecycle<'_, Self>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = turn;
        async { Ok(()) }
    }

    /// A deferred Join of this Actor is over; runs where the Actor is then, before any message that was
    /// queued behind the Join (JOIN-4).
    fn on_join_completed(
        turn: &mut Lifecycle<'_, Self>,
        completed: JoinCompleted,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (turn, completed);
        async { Ok(()) }
    }

    /// The Actor closes; everything it had accepted is handled.
    fn on_closing(
        turn: &mut Lifecycle<'_, Self>,
        closing: Closing,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (turn, closing);
        async { Ok(()) }
    }
}

/// A handler of a node or of a channel: an object with a gate of its own and no address beyond its name
/// (GATE-6).
pub trait Handler: Send + Sized + 'static {}

/// How a Join ended (JOIN-4).
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinOutcome {
    /// The Actor is in the target.
    Accepted,
    /// The target said no, with its reply if it gave one.
    Rejected(Option<Payload>),
    /// Something failed: a missing target is `NotFound`, no room `CapacityExceeded`, no decision in time
    /// `DeadlineExceeded`, a failing callback `InternalFailure` (JOIN-12).
    Failed(ErrorKind),
}

/// A completed Join: which it was, and how it ended.
#[derive(Debug)]
pub struct JoinCompleted {
    pub(crate) outcome: JoinOutcome,
    pub(crate) target: String,
    pub(crate) request: Option<Arc<dyn Any + Send + Sync>>,
}

impl JoinCompleted {
    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> &JoinOutcome {
        &self.outcome
    }

    /// How it ended, to keep.
    #[must_use]
    pub fn into_outcome(self) -> JoinOutcome {
        self.outcome
    }

    /// Whether all of it went well. A Join that failed after the target had taken the Actor in leaves it there
    /// (JOIN-12): `turn.place()` says where it is.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        matches!(self.outcome, JoinOutcome::Accepted)
    }

    /// The id of the target Spot.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The request that the Join carried, if it is a `T`.
    #[must_use]
    pub fn request<T: Any>(&self) -> Option<&T> {
        self.request.as_ref()?.downcast_ref()
    }
}
