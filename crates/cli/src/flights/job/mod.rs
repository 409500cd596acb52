//! The flights job with objects: airports are Spots, aircraft are Actors.

use std::collections::BTreeMap;
use std::time::Duration;

use super::input::{InputError, Reader};
use super::latency::Quantiles;
use super::live::Live;
use super::options::Options;
use super::reference::Totals;

/// What one run of the job found, read from the objects, and how it went.
#[derive(Debug)]
pub(crate) struct JobResult {
    /// The totals, in the same terms as the plain loop's.
    pub(crate) totals: Totals,
    /// Turns that the node ran.
    pub(crate) turns: u64,
    /// Turns that found another one running under their gate, by the objects' own count.
    pub(crate) overlaps: u64,
    /// Refused admissions of any kind.
    pub(crate) refused: u64,
    /// Joins that failed, by the kind of the failure.
    pub(crate) joins_failed: BTreeMap<String, u64>,
    /// Application workers of the node.
    pub(crate) workers: usize,
    /// From the first row to the last turn.
    pub(crate) wall: Duration,
    /// From accepted to started, over all turns.
    pub(crate) start_latency: Quantiles,
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The rows cannot be read to the end.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The node refused or failed; the text says what was tried and why it did not work.
    #[error("the node cannot {doing}: {reason}")]
    Node {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        reason: String,
    },
}

/// Runs the job once, on a node of its own, over all rows; `live` may watch it meanwhile.
pub(crate) fn run(options: &Options, rows: Reader, live: &Live) -> Result<JobResult, JobError> {
    let _ = (options, rows, live);
    Err(JobError::Node { doing: "start", reason: "this build has no objects yet".into() })
}
