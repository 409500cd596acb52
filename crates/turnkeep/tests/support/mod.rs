//! What the tests share: the probes of the test kit, under one outer time limit.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its own part")]

use std::future::Future;

pub use turnkeep::testing::{Inside, LIMIT, Log, Overlap, Signal};

/// Runs a test's body; a hang ends as a failure.
pub async fn within<F: Future>(body: F) -> F::Output {
    turnkeep::testing::within(LIMIT, body).await
}
