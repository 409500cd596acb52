//! Gates and turns (GATE): exclusive, parallel where promised, in order, and waiting in every context.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "gate/after.rs"]
mod after;
#[path = "gate/exclusive.rs"]
mod exclusive;
#[path = "gate/grants.rs"]
mod grants;
#[path = "gate/order.rs"]
mod order;
#[path = "gate/parallel.rs"]
mod parallel;
#[path = "gate/play.rs"]
mod play;
mod support;
#[path = "gate/threads.rs"]
mod threads;
#[path = "gate/waits.rs"]
mod waits;
