//! Faults that runtimes of this kind have had elsewhere, each played against this one and found absent.
//!
//! One file a kind of fault. A test bears the number of its case (`cb_03_a_…`); the head of each file says which
//! cases of its kind cannot happen to objects within one process, and why.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "../support/mod.rs"]
mod support;
#[macro_use]
mod world;

mod call_chain_deadlock;
mod cancellation_leak;
mod late_reply;
mod lost_wakeup;
mod ordering_inversion;
mod self_call_deadlock;
mod shutdown_hang;
mod start_up_race;
mod starvation;
mod thread_local_lost;
mod timer_after_close;
mod timer_overlap;
mod unbounded_memory;
mod worker_offload_stall;
