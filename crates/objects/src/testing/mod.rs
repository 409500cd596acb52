//! A kit for testing one's own objects: probes in place of sleeps, and a driver that a seed repeats.
//!
//! # Two ways to test
//!
//! On a node as in production, with several workers, [`Signal`], [`Door`], [`Rendezvous`], [`Log`] and [`Overlap`]
//! say when something has happened and what was seen; [`within`] ends a hang as a failure, and
//! [`Node::quiesce`](crate::Node::quiesce) waits until no accepted work is left. No test needs a sleep.
//!
//! On a [`Sim`], one thread runs everything in an order chosen by a seed, so a test that fails fails again:
//!
//! ```
//! use turnkeep_objects::testing::{Sim, explore};
//! # use turnkeep_objects::{Handles, HeapSize, Message, Never, Node, Spot, SpotWide, Turn};
//! # #[derive(Default)]
//! # struct Counter(u64);
//! # impl Spot for Counter { type Mode = SpotWide; }
//! # struct Add;
//! # impl HeapSize for Add { fn heap_bytes(&self) -> u64 { 0 } }
//! # impl Message for Add { type Reply = u64; type Error = Never; }
//! # impl Handles<Add> for Counter {
//! #     async fn handle(turn: &mut Turn<'_, Self>, _: Add) -> Result<u64, Never> { turn.0 += 1; Ok(turn.0) }
//! # }
//! explore(0..100, |sim: &Sim| {
//!     let node = sim.node(Node::builder().spot::<Counter>("counter"));
//!     let counter = sim.run(async { node.spot::<Counter>("c").get_or_create().await }).unwrap();
//!     assert_eq!(sim.run(counter.ask(Add)).unwrap(), 1);
//! });
//! ```
//!
//! The kit costs nothing where it is not used, so there is no feature to switch it on: a node that runs on workers
//! pays one comparison a turn.

mod explore;
mod probes;
mod sim;
mod stuck;

pub use turnkeep_machines::order::Random;
pub use turnkeep_scheduler::pool::driven::{Event, TRANSCRIPT_MAX, Transcript, What};

pub use self::explore::{Found, SEED_VARIABLE, explore, find};
pub use self::probes::{Door, Inside, LIMIT, Log, Overlap, Rendezvous, Signal, sleep, within};
pub use self::sim::Sim;
pub use self::stuck::{Stuck, Why};
