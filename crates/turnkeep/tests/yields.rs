//! Yields: where they are offered, who runs meanwhile, how they end, and what no program may do with them.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

#[path = "yields/given_up.rs"]
mod given_up;
#[path = "yields/offered.rs"]
mod offered;
#[path = "yields/order.rs"]
mod order;
#[path = "yields/release.rs"]
mod release;
#[path = "yields/storage.rs"]
mod storage;
#[path = "yields/wakers.rs"]
mod wakers;
