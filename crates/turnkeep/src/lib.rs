//! Turnkeep: a runtime for programs made of many stateful objects in which every piece of work takes its turn.
//!
//! Start with the [`prelude`].

pub use turnkeep_macros::{HeapSize, Message};
pub use turnkeep_objects::*;

/// What most programs need: `use turnkeep::prelude::*`.
pub mod prelude {
    pub use turnkeep_macros::Message;
    pub use turnkeep_objects::{
        Actor, ActorRef, Admission, AskError, Call, Closing, Entry, Error, ErrorKind, Failure, Handler,
        Handles, Instance, JoinCompleted, JoinOutcome, Joining, Lane, Lifecycle, Member, Message, Never,
        Node, Options, PerActor, Spot, SpotRef, SpotWide, Turn,
    };
}
