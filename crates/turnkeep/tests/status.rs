//! What can be seen from outside: status, its stream, the metrics, spans.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "status/metrics.rs"]
mod metrics;
#[path = "status/stream.rs"]
mod stream;
mod support;
