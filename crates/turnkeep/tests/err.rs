//! Errors (ERR): one kind each, panics stop one object only, texts that help.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

#[path = "err/kinds.rs"]
mod kinds;
#[path = "err/panics.rs"]
mod panics;
#[path = "err/stage.rs"]
mod stage;
