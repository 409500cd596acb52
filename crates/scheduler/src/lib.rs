//! The drivers of Turnkeep: gates, inboxes, workers, wake-ups and deadlines, around the pure machines.

pub mod completion;
pub mod counters;
pub mod cpu;
pub mod deadline;
pub mod io;
pub mod pool;
mod sync;
pub mod ticks;
