//! Traces: what a node did, written as it happens, read back, checked against the contract, and explained.
//!
//! ```text
//! runtime ──► Recorder (record.rs) ──► file ──► Reader (read.rs) ──► Checker (check/) ──► Report
//!                                                                        └──► Situation ──► words (why.rs)
//! ```
//!
//! * [`event`] is the closed list of what a trace can say; [`field`] is how each part of it is written.
//! * [`Recorder`] gathers events in a buffer a thread and writes them with a thread of its own.
//! * [`Reader`] takes any file for hostile and merges the threads into one order by time.
//! * [`Checker`] is a machine: it is told one event after the other and says which clauses are broken.
//! * [`Situation`] is what holds one object up, and its words, for a trace and a living node alike.
//!
//! The format is in `docs/trace.md`.

mod check;
pub mod clauses;
pub mod event;
pub mod field;
mod read;
mod record;
mod why;

pub use check::{Checker, Finding, Report, Seen, check};
pub use event::Event;
pub use read::{Entry, ReadError, Reader, is_trace};
pub use record::{Clock, Recorder, Summary, TraceError};
pub use why::{Hold, LaneUse, Phase, Situation, Wait, Waited};

/// The first eight bytes of a trace.
pub const MAGIC: [u8; 8] = *b"TKTRACE\n";
/// The version that this crate writes, and the only one it reads.
pub const VERSION: u16 = 1;
