//! Random scenarios on the real node and on a reference that is slow, single-threaded and obviously right.
//!
//! Each client awaits one call after the other and touches, in what all share, a part of its own, so the contract fixes
//! what it is told whatever the others do (GATE-8, DONE-2, JOIN-11, …): the outcomes must agree to the last one, for any
//! number of workers and any lane.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;

mod reference {
    mod node;
    mod prop;
    mod runtime;
    mod scenario;
}
