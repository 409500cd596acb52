//! The ordered bus of Turnkeep: callbacks in publication order, one at a time, bounded, with clean failure.
//!
//! A *publication* calls raw callables at once and puts a slot into the queue for each component that subscribes.
//! Slots are delivered in the order of their publications, never while a publication is open: what a callback
//! publishes comes after everything that was published before it. Components belong to the bus and are reached
//! through it alone, so a callback has its component to itself.
//!
//! ```
//! use turnkeep_bus::{Bus, Component, Context, Failure, Hosted, On};
//!
//! #[derive(Default)]
//! struct Sum(u64);
//!
//! impl Component for Sum {}
//!
//! impl On<u64> for Sum {
//!     fn on(&mut self, _: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
//!         self.0 += number;
//!         Ok(())
//!     }
//! }
//!
//! # fn main() -> Result<(), Failure> {
//! let mut bus = Hosted::new(Bus::default());
//! let sum = bus.context().register("sum", Sum::default())?;
//! bus.context().subscribe::<Sum, u64>(sum, "numbers.*", 0)?;
//! bus.context().start(sum)?;
//! bus.context().publish_to("numbers.even", 2_u64)?;
//! bus.context().publish_to("numbers.odd", 3_u64)?;
//! assert_eq!(bus.access(sum)?.0, 0, "nothing is delivered before the host lets the bus work");
//! bus.settle()?;
//! assert_eq!(bus.access(sum)?.0, 5);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to look
//!
//! * What a program implements: [`Component`], [`On`], [`Event`], [`Handle`] for commands, [`Foreign`] for code that
//!   lives elsewhere.
//! * What all code on a bus has: [`Context`].
//! * What drives a bus: [`Replay`] for recorded data, [`Live`] for messages from other threads, [`Hosted`] for a host
//!   with a loop of its own. Each makes the [`Boundary`] that delivers.
//! * What goes wrong: a failed callback faults its component ([`OnFailure`]); a panic, a limit or a stall faults the
//!   bus ([`FaultReport`]), which then finishes its effects and commands, admits and delivers nothing more, and can be
//!   torn down and used again.

mod ambient;
mod boundary;
mod bus;
mod channel;
pub mod check;
mod command;
mod component;
mod context;
mod core;
mod deliver;
mod endpoint;
mod event;
mod fault;
mod hosted;
mod lifecycle;
mod live;
pub mod log;
mod metrics;
mod payload;
mod publish;
mod pump;
mod replay;
mod reserve;
mod retain;
mod subscription;
mod timer;
mod topic;

pub use boundary::{Access, Boundary, TeardownError};
pub use bus::{Builder, Bus, Limits};
pub use channel::{ChannelError, Sender};
pub use command::{COMMANDS_MAX, CommandError, CommandQueue, Commanding, Handle, QueueKind};
pub use component::{
    Component, ComponentId, ComponentKey, Failure, Foreign, Lifecycle, Maintenance, On, OnFailure,
};
pub use context::{AccessError, Context, SubscribeError};
pub use deliver::{Drained, Ended};
pub use endpoint::{Correlation, REQUESTS_MAX, SendError};
pub use event::{Arrived, Event};
pub use fault::{FailureReport, FaultKind, FaultReport};
pub use hosted::Hosted;
pub use lifecycle::{LifeError, RegisterError};
pub use live::{Clock, Live};
pub use metrics::{CHAINS, Metrics};
pub use pump::{BATCH, Halt, Progress};
pub use replay::Replay;
pub use reserve::{Refused, Reservation};
pub use retain::{Batch, Retained};
pub use subscription::SubscriptionId;
pub use timer::{Schedule, Timer, TimerError};
pub use topic::{TOPICS_MAX, Topic, TopicError, matches};
pub use turnkeep_machines::bus::drain::{Busy, Hindrance};
pub use turnkeep_machines::bus::life::{State, Trigger};
