//! What a Spot is: its mode, and the callbacks of its life and of its members' coming and going.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::time::{Duration, Instant};

use turnkeep_scheduler::ticks;

use crate::error::Failure;
use crate::id::{Generation, Id};
use crate::lifecycle::Lifecycle;

/// How a Spot shares its gate.
pub trait Mode: sealed::Sealed + 'static {
    /// Whether the Spot, its members and its timers take turns under one gate.
    #[doc(hidden)]
    const SHARES_GATE: bool;
    /// Whether Actors can be members.
    #[doc(hidden)]
    const ADMITS: bool;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident: shares $shares:literal, admits $admits:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl sealed::Sealed for $name {}
        impl Mode for $name {
            const SHARES_GATE: bool = $shares;
            const ADMITS: bool = $admits;
        }
    )*};
}

modes! {
    /// A User Spot whose handlers, members and timers share one gate (GATE-3).
    SpotWide: shares true, admits true;
    /// A User Spot where the Spot and each member has a gate of its own (GATE-5).
    PerActor: shares false, admits true;
    /// A Spot without members that its first message may create (GATE-3).
    Instance: shares true, admits false;
    /// The one Spot of a node where Actors are created; each has a gate of its own (GATE-4).
    Entry: shares false, admits true;
}

/// Modes under whose gate a handler may yield.
#[diagnostic::on_unimplemented(
    message = "a Spot of mode `{Self}` has no shared gate to give up",
    label = "only `SpotWide` and `Instance` Spots, and members of `SpotWide` ones, can yield",
    note = "await the call itself: an ordinary wait keeps the gate"
)]
pub trait SharesGate: Mode {}
impl SharesGate for SpotWide {}
impl SharesGate for Instance {}

/// Modes of Spots that Actors can join.
#[diagnostic::on_unimplemented(
    message = "a Spot of mode `{Self}` has no members",
    label = "Actors join `SpotWide`, `PerActor` and `Entry` Spots"
)]
pub trait Admits: Mode {}
impl Admits for SpotWide {}
impl Admits for PerActor {}
impl Admits for Entry {}

/// An addressed object with state: a room, an order book, an airport.
///
/// All its callbacks are lifecycle turns: they have the gate to themselves, may wait for other objects, and
/// neither yield nor defer.
pub trait Spot: Send + Sized + 'static {
    /// How it shares its gate: [`SpotWide`], [`PerActor`], [`Instance`] or [`Entry`].
    type Mode: Mode;

    /// The Spot has been made and takes its first turn. An error undoes the creation.
    fn on_create(turn: &mut Lifecycle<'_, Self>) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = turn;
        async { Ok(()) }
    }

    /// An Actor asks to join: the Spot decides (JOIN-6). By default everybody is admitted.
    fn on_actor_join(
        turn: &mut Lifecycle<'_, Self>,
        joining: &Joining,
    ) -> impl Future<Output = Result<Admission, Failure>> + Send {
        let _ = (turn, joining);
        async { Ok(Admission::Accept) }
    }

    /// An Actor has become a member.
    fn on_joined_actor(
        turn: &mut Lifecycle<'_, Self>,
        actor: &Member,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (turn, actor);
        async { Ok(()) }
    }

    /// An Actor has left: to another Spot, or because it has ended.
    fn on_leave_actor(
        turn: &mut Lifecycle<'_, Self>,
        actor: &Member,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (turn, actor);
        async { Ok(()) }
    }

    /// The Spot closes; everything it had accepted is handled. Not called for one that is destroyed or stopped
    /// by a panic.
    fn on_closing(
        turn: &mut Lifecycle<'_, Self>,
        closing: Closing,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        let _ = (turn, closing);
        async { Ok(()) }
    }
}

/// Why an object closes, and how long `on_closing` has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Closing {
    pub(crate) reason: ClosingReason,
    /// In ticks; `u64::MAX` for no deadline.
    pub(crate) deadline_ns: u64,
}

impl Closing {
    /// Why.
    #[must_use]
    pub fn reason(&self) -> ClosingReason {
        self.reason
    }

    /// When it must be over; `None` if nobody waits for it. A shutdown cuts `on_closing` off then, and calls made in
    /// it inherit that time. For a requested close it is when the caller of `close` gives up waiting; the callback
    /// goes on.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        (self.deadline_ns != u64::MAX).then(|| ticks::to_instant(self.deadline_ns))
    }

    /// What is left until then.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        (self.deadline_ns != u64::MAX).then(|| ticks::until(self.deadline_ns))
    }
}

/// Why an object closes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ClosingReason {
    /// Somebody asked for it.
    Requested,
    /// Nothing has happened for the idle time of its type.
    Idle,
    /// The node shuts down.
    Shutdown,
}

/// A Spot's answer to an Actor that asks to join.
#[derive(Debug)]
pub enum Admission {
    /// The Actor becomes a member.
    Accept,
    /// It does not, with what it may want to know.
    Reject(Option<Payload>),
}

impl Admission {
    /// A refusal without a reply.
    #[must_use]
    pub fn reject() -> Self {
        Self::Reject(None)
    }

    /// A refusal with a reply that the Actor's completion callback gets.
    #[must_use]
    pub fn reject_with(reply: impl Any + Send) -> Self {
        Self::Reject(Some(Payload(Box::new(reply))))
    }
}

/// A value whose type sender and receiver agree on.
pub struct Payload(pub(crate) Box<dyn Any + Send>);

impl Payload {
    /// The value, if it is a `T`.
    #[must_use]
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }

    /// The value, if it is a `T`.
    ///
    /// # Errors
    ///
    /// The payload itself, if it is something else.
    pub fn take<T: Any>(self) -> Result<T, Self> {
        self.0.downcast().map(|value| *value).map_err(Self)
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Payload")
    }
}

/// Who a member is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    pub(crate) id: Id,
    pub(crate) generation: Generation,
    pub(crate) type_name: Id,
}

impl Member {
    /// The Actor's id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    /// The generation of the Actor.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// The name its type was registered under.
    #[must_use]
    pub fn type_name(&self) -> &str {
        self.type_name.as_str()
    }
}

/// An Actor that asks to join, with what its Join carries.
#[derive(Debug)]
pub struct Joining {
    pub(crate) member: Member,
    pub(crate) request: Option<std::sync::Arc<dyn Any + Send + Sync>>,
}

impl Joining {
    /// The Actor.
    #[must_use]
    pub fn actor(&self) -> &Member {
        &self.member
    }

    /// The request its Join carries, if it is a `T`.
    #[must_use]
    pub fn request<T: Any>(&self) -> Option<&T> {
        self.request.as_ref()?.downcast_ref()
    }
}
