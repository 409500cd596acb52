//! Lanes (LANE): limits, reservations, refusals, waiters, seals, priority, budgets and fairness.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "lane/fairness.rs"]
mod fairness;
#[path = "lane/limits.rs"]
mod limits;
#[path = "gate/play.rs"]
mod play;
#[path = "lane/priority.rs"]
mod priority;
#[path = "lane/refusal.rs"]
mod refusal;
#[path = "lane/reservation.rs"]
mod reservation;
#[path = "lane/seal.rs"]
mod seal;
mod support;
#[path = "lane/waiters.rs"]
mod waiters;
