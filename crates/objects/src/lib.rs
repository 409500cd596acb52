//! Spots, Actors, turns and the node that runs them: the object API of Turnkeep.
//!
//! | file | what is in it |
//! |---|---|
//! | `spot`, `actor`, `envelope` | what a program implements: `Spot`, `Actor`, `Handler`, `Handles` |
//! | `turn`, `lifecycle` | what a handler and a lifecycle callback get |
//! | `refs`, `ask`, `send`, `work`, `create`, `close` | what a program calls |
//! | `join` | deferred Joins: registration, the Actor's side, the Spots' side |
//! | `node`, `builder`, `quiesce`, `shutdown`, `spawn` | the node and its life |
//! | `object`, `directory`, `membership`, `destination`, `locate` | who is who, and where |

mod actor;
mod ask;
mod block;
mod builder;
mod call;
mod caught;
mod close;
mod context;
mod create;
mod destination;
mod directory;
mod envelope;
mod error;
mod flow;
mod heap_size;
mod id;
mod join;
mod lifecycle;
mod locate;
mod membership;
mod message;
mod node;
mod object;
mod quiesce;
mod refs;
mod send;
mod shutdown;
mod spawn;
mod spot;
mod trace;
mod turn;
mod work;

pub use actor::{Actor, Handler, JoinCompleted, JoinOutcome};
pub use ask::Ask;
pub use builder::{Builder, Hall, Lane, Options, WORKERS_MAX};
pub use call::{Call, TIMEOUT_MAX};
pub use create::Create;
pub use envelope::Handles;
pub use error::{AskError, Error, ErrorKind, Failure, SendError};
pub use heap_size::HeapSize;
pub use id::{Generation, ID_BYTES_MAX, Id, ObjectKind};
pub use join::{DeferError, JOIN_TIMEOUT, Join, JoinTarget, defer};
pub use lifecycle::Lifecycle;
pub use locate::Locate;
pub use message::{BadReply, Message, Never};
pub use node::{Metrics, Node};
pub use refs::{ActorAddress, ActorRef, HandlerAddress, HandlerRef, SpotAddress, SpotRef};
pub use send::Send;
pub use shutdown::ShutdownReport;
pub use spawn::Task;
pub use spot::{
    Admission, Admits, Closing, Entry, Instance, Joining, Member, Mode, Payload, PerActor, SharesGate, Spot,
    SpotWide,
};
pub use trace::recorder;
pub use turn::{Turn, Yielding, Yields};
pub use turnkeep_scheduler::room::WAITERS_MAX;
pub use work::Work;
