//! Faults that runtimes of this kind have had elsewhere, where something ends: panics, closes, shutdowns.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "../support/mod.rs"]
mod support;
#[macro_use]
#[path = "../yields/world.rs"]
mod world;

mod double_completion;
mod memory_leak_on_teardown;
mod message_loss;
mod panic_poisons_object;
mod reentrancy_panic;
mod shutdown_hang;
