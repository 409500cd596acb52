//! What the tests share: the probes of the test kit, under one outer time limit.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its own part")]

use std::future::Future;

pub use turnkeep::testing::{Inside, LIMIT, Log, Overlap, Signal};

/// Runs a test's body; a hang ends as a failure.
pub async fn within<F: Future>(body: F) -> F::Output {
    turnkeep::testing::within(LIMIT, body).await
}

/// Ends the trace of a node that was shut down in order, and requires that the checker finds nothing (STAT-3).
pub fn expect_clean(recorder: &turnkeep::trace::Recorder, path: &str) {
    recorder.finish().unwrap();
    let (report, _) = turnkeep::trace::check(std::fs::File::open(path).unwrap()).unwrap();
    let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        findings.is_empty() && report.to_the_end,
        "{path}, {} turns:\n{}",
        report.turns,
        findings.join("\n")
    );
    assert!(report.turns > 0);
    std::fs::remove_file(path).unwrap();
}
