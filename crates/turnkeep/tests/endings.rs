//! How objects fail, end, rest and are handed over: ERR-3, STOP-1, STOP-2, YIELD-9, DONE-8, DONE-1's races.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

mod endings {
    mod cuts;
    mod handed_out;
    mod idle;
    mod policies;
    mod races;
    mod seals;
    mod shutdown;
    pub mod stage;
    mod watches;
}
