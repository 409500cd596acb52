//! Lives of objects: creation, finding, closing, destroying, generations, the end of the node.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

#[path = "life/create.rs"]
mod create;
#[path = "life/end.rs"]
mod end;
#[path = "life/races.rs"]
mod races;
#[path = "life/shutdown.rs"]
mod shutdown;
#[path = "life/stage.rs"]
mod stage;
