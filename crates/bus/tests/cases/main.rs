//! Faults that event engines have had, as scenarios that this bus has to get right.
#![allow(clippy::unwrap_used, reason = "tests end by it")]

mod clock_jump;
mod ordering;
mod reentrancy;
mod runaway;
mod slow_subscriber;
#[path = "../rules/support.rs"]
mod support;
mod timer_after_close;
mod unsubscribe;
