//! Deferred Joins (JOIN): registration, outcome, order, traffic during a move, failures, all pairs of places.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

#[path = "join/failures.rs"]
mod failures;
#[path = "join/moves.rs"]
mod moves;
#[path = "join/order.rs"]
mod order;
#[path = "join/places.rs"]
mod places;
#[path = "join/registration.rs"]
mod registration;
#[path = "join/scope.rs"]
mod scope;
#[path = "join/stress.rs"]
mod stress;
#[path = "join/traffic.rs"]
mod traffic;
#[path = "join/world.rs"]
mod world;
