//! Spots, Actors, turns and the node that runs them: the object API of Turnkeep.
//!
//! | file | what is in it |
//! |---|---|
//! | `spot`, `actor`, `envelope` | what a program implements: `Spot`, `Actor`, `Handler`, `Handles` |
//! | `turn`, `lifecycle` | what a handler and a lifecycle callback get |
//! | `refs`, `ask`, `send`, `work`, `create`, `close` | what a program calls |
//! | `publish` | multicast to the subscribers of a topic |
//! | `status`, `span` | what can be seen from outside |
//! | `timer` | turns by the clock |
//! | `join` | deferred Joins: registration, the Actor's side, the Spots' side |
//! | `node`, `builder`, `quiesce`, `shutdown`, `spawn` | the node and its life |
//! | `testing` | probes, and the driver that a seed repeats |
//! | `policy`, `watch`, `idle`, `seal` | how objects end, fail, rest and are handed over |
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
mod cut;
mod destination;
mod directory;
mod envelope;
mod error;
mod flow;
mod heap_size;
mod id;
mod idle;
mod join;
mod lifecycle;
mod locate;
mod membership;
mod message;
mod node;
mod object;
mod policy;
mod publish;
mod quiesce;
mod refs;
mod report;
mod seal;
mod send;
mod shutdown;
mod span;
mod spawn;
mod spot;
mod status;
pub mod testing;
mod timer;
mod trace;
mod turn;
mod watch;
mod why;
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
pub use policy::PanicPolicy;
pub use publish::{MISSED_NAMED_MAX, Missed, Published, SUBSCRIPTIONS_MAX};
pub use refs::{ActorAddress, ActorRef, HandlerAddress, HandlerRef, SpotAddress, SpotRef};
pub use seal::{Queued, Sealed, SealedPart, SealedRecord};
pub use send::Send;
pub use shutdown::{ShutdownReport, Unfinished};
pub use spawn::Task;
pub use spot::{
    Admission, Admits, Closing, ClosingReason, Entry, Instance, Joining, Member, Mode, Payload, PerActor,
    SharesGate, Spot, SpotWide,
};
pub use status::{
    MetricsServer, NodeState, OBSERVED_MAX, OBSERVERS_MAX, ObjectStatus, Observer, Source, Status, Update,
};
pub use timer::{Late, OnOwnTick, OnTick, PERIOD_MIN, TIMERS_MAX, Tick, Timer, TimerTurn};
pub use trace::recorder;
pub use turn::{Turn, Yielding, Yields};
pub use turnkeep_scheduler::room::WAITERS_MAX;
pub use turnkeep_scheduler::timeline::Clock;
pub use watch::{End, Watch};
pub use work::Work;
