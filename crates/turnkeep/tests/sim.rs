//! The driver of the test kit: a seed repeats a run, every order it makes is a legal one, a standstill is told.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "sim/circles.rs"]
mod circles;
#[path = "sim/clauses.rs"]
mod clauses;
#[path = "sim/probes.rs"]
mod probes;
#[path = "sim/repeat.rs"]
mod repeat;
#[path = "sim/scenarios.rs"]
mod scenarios;
#[path = "sim/stuck.rs"]
mod stuck;
#[path = "sim/time.rs"]
mod time;
#[path = "sim/work.rs"]
mod work;
#[path = "sim/world.rs"]
mod world;
