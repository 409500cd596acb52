//! STAT-3: the checker names the clause that is broken, and no other; the recorder and the reader lose nothing.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "stat_3/cases.rs"]
mod cases;
#[path = "stat_3/files.rs"]
mod files;
#[path = "stat_3/script.rs"]
mod script;
#[path = "stat_3/situations.rs"]
mod situations;
