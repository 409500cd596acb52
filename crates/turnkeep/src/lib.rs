//! Turnkeep: a runtime for programs made of many stateful objects in which every piece of work takes its turn.
//!
//! *Spots* (rooms, order books, airports) and their member *Actors* (players, accounts, aircraft) run handlers one
//! turn at a time under a gate that a whole Spot shares or each Actor owns. Handlers have their state to
//! themselves, without a lock; a wait either keeps the gate or yields it; every queue is bounded; a deadlock that
//! the runtime can see is an error.
//!
//! ```
//! use turnkeep::prelude::*;
//!
//! #[derive(Default)]
//! struct Airport { landed: u64 }
//!
//! #[derive(Message)]
//! #[message(reply = u64)]
//! struct Land;
//!
//! impl Spot for Airport { type Mode = SpotWide; }
//!
//! impl Handles<Land> for Airport {
//!     async fn handle(turn: &mut Turn<'_, Self>, _: Land) -> Result<u64, Never> {
//!         turn.landed += 1; // the gate is held
//!         Ok(turn.landed)
//!     }
//! }
//!
//! # async fn run() -> Result<(), Failure> {
//! let node = Node::builder().spot::<Airport>("airport").start().await?;
//! let jfk = node.spot::<Airport>("JFK").get_or_create().await?;
//! assert_eq!(jfk.ask(Land).await?, 1);
//! node.shutdown().await?;
//! # Ok(())
//! # }
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(run()).unwrap();
//! ```
//!
//! # Where to look
//!
//! * What a program implements: [`Spot`], [`Actor`], [`Handler`], [`Message`] (derived), [`Handles`].
//! * What a handler gets: [`Turn`]; what a lifecycle callback gets: [`Lifecycle`].
//! * What a program holds: references to one life of an object ([`SpotRef`], [`ActorRef`]) and addresses of
//!   whoever has an id ([`SpotAddress`], [`ActorAddress`]).
//! * Moving an Actor: [`Turn::join`] and [`Turn::defer`].
//! * Slow work: [`Turn::cpu`], [`Turn::io`]; waiting for it with the gate open: [`Turn::yielding`].
//! * The node: [`Node`], [`Builder`].
//! * Callbacks in a fixed order on one thread: [`bus`]; a trading kit on it: [`market`].
//!
//! # What goes wrong, and how it is told
//!
//! A runtime error has a [kind](ErrorKind) and a text that says what to do; a refused message comes back with it. A
//! handler's own error is its own type. A panic in a handler answers its caller and stops that object
//! and nothing else; a type may be [made anew](PanicPolicy) instead. (A destructor that panics while a panic is unwinding aborts the process; that is Rust's rule.)

pub use turnkeep_macros::{HeapSize, Message};
pub use turnkeep_objects::*;

/// The ordered bus: callbacks in publication order, one at a time, for engines that live on one thread.
pub mod bus {
    pub use turnkeep_bus::*;
}

/// A small trading kit on the ordered bus.
pub mod market {
    pub use turnkeep_market::*;
}

/// Traces of a node ([`Builder::trace`]): how they are written, read, checked and explained (STAT-3, STAT-4).
pub mod trace {
    pub use turnkeep_trace::*;
}

/// What most programs need: `use turnkeep::prelude::*`.
pub mod prelude {
    pub use turnkeep_macros::Message;
    pub use turnkeep_objects::{
        Actor, ActorRef, Admission, AskError, Call, Closing, ClosingReason, Entry, Error, ErrorKind, Failure,
        Handler, Handles, Instance, JoinCompleted, JoinOutcome, Joining, Lane, Lifecycle, Member, Message,
        Never, Node, Options, PanicPolicy, PerActor, Spot, SpotRef, SpotWide, Turn,
    };
}
