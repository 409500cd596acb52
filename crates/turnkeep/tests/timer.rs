//! Timers on a clock that the test moves: turns under the right gate, exact ticks, nothing after the end.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "timer/ends.rs"]
mod ends;
#[path = "timer/gates.rs"]
mod gates;
#[path = "timer/seals.rs"]
mod seals;
mod support;
#[path = "timer/ticks.rs"]
mod ticks;
#[path = "timer/world.rs"]
mod world;
