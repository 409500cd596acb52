//! The drivers of Turnkeep: gates, inboxes, workers, wake-ups and deadlines, around the pure machines.
//!
//! This crate has all the atomics and all the unsafe code of the product, each protocol in a file of its own
//! whose head says what must not happen and why it cannot. What it offers to the layers above is safe.
//!
//! ```text
//! senders ──► admission (admission.rs) ──► inbox (inbox.rs) ──► ready: pool (pool/) or the host's inbox
//! worker  ──► slice (drive.rs): sort the inbox (core.rs), ask the machines, run the handler
//!             (activation.rs, access.rs), give the gate up
//! ```

pub mod access;
mod activation;
mod admission;
pub mod ambient;
mod blocks;
pub mod completion;
mod core;
pub mod counters;
pub mod cpu;
pub mod deadline;
mod drive;
mod inbox;
pub mod io;
mod link;
pub mod numbers;
pub mod owner;
pub mod pool;
mod rare;
pub mod record;
pub mod room;
pub mod sight;
pub mod standing;
mod state;
mod sync;
mod thread_slot;
pub mod ticks;
pub mod timeline;
pub mod trace;
pub mod virtual_time;
pub mod waits;
mod wake_word;
