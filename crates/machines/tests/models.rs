//! Every interleaving, within bounds, of small worlds around the machines as they are shipped.
#![allow(clippy::unwrap_used, reason = "a test may unwrap what it likes")]

mod models {
    mod bus;
    mod cycle;
    mod explore;
    mod gate;
}
