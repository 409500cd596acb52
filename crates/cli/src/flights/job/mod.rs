//! The flights job with objects: airports are Spots, aircraft are Actors.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use turnkeep::trace::Recorder;
use turnkeep::{Clock, Error, Lane, Node, PerActor, ShutdownReport, SpotWide};

use super::input::{InputError, Reader};
use super::latency::Quantiles;
use super::live::Live;
use super::options::{Mode, Options};
use super::reference::Totals;
use super::stop::Stop;
use super::tell;

mod aircraft;
mod airport;
mod board;
mod common;
mod counts;
mod kind;
mod messages;
mod overlap;
mod pace;
mod reader;
mod schedule;
#[cfg(test)]
mod tests;

use aircraft::Aircraft;
use airport::Airport;
use board::Board;
use common::{Common, Progress, Rules};
use counts::Counts;
use kind::Kind;
use pace::Pace;
use schedule::Schedule;

/// How long a send or an ask may take: only a run that hangs takes that long.
const PATIENCE: Duration = Duration::from_secs(600);

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
    /// What else went wrong in handlers, and how often.
    pub(crate) troubles: BTreeMap<String, u64>,
    /// Application workers of the node.
    pub(crate) workers: usize,
    /// From the first row to the last turn.
    pub(crate) wall: Duration,
    /// From sent to started, over all messages.
    pub(crate) start_latency: Quantiles,
    /// Hours that airports have closed by the simulated clock.
    pub(crate) hours_closed: u64,
    /// Whether the run was asked to end before the last row.
    pub(crate) interrupted: bool,
    /// What a plain loop finds in the rows that an interrupted run took.
    pub(crate) taken: Option<Totals>,
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

impl JobError {
    fn node(doing: &'static str, reason: impl Display) -> Self {
        Self::Node { doing, reason: reason.to_string() }
    }
}

/// Runs the job once, on a node of its own, over all rows; `live` may watch it meanwhile.
/// When `stop` is asked, no further row is handed out and what has begun is finished.
pub(crate) fn run(
    options: &Options,
    rows: Reader,
    live: &Live,
    stop: &Arc<Stop>,
) -> Result<JobResult, JobError> {
    run_with(Rules::RIGHT, options, rows, live, stop)
}

fn run_with(
    rules: Rules,
    options: &Options,
    rows: Reader,
    live: &Live,
    stop: &Arc<Stop>,
) -> Result<JobResult, JobError> {
    let rows = Schedule::read(rows)?;
    let outside = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let outside = outside.map_err(|error| JobError::node("be waited for", error))?;
    outside.block_on(async {
        match options.mode {
            Mode::Spotwide => fly::<SpotWide>(rules, options, rows, live, stop).await,
            Mode::Peractor => fly::<PerActor>(rules, options, rows, live, stop).await,
        }
    })
}

/// A run from the start of its node to the end of it.
async fn fly<M: Kind>(
    rules: Rules,
    options: &Options,
    rows: Schedule,
    live: &Live,
    stop: &Arc<Stop>,
) -> Result<JobResult, JobError> {
    let common = Arc::new(Common::new(rules));
    let clock = Clock::manual();
    let recorder = options.trace.as_ref().map(turnkeep::recorder).transpose();
    let recorder = recorder.map_err(|error| JobError::node("record", error))?;
    let started = start::<M>(options, &common, clock.clone(), recorder.clone()).await;
    let node = started.map_err(|error| JobError::node("start", error))?;
    let _metrics = match options.metrics {
        None => None,
        Some(address) => {
            let server =
                node.serve_metrics(address).await.map_err(|error| JobError::node("serve metrics", error))?;
            tell(&format_args!("metrics at http://{}/metrics", server.address()));
            Some(server)
        }
    };
    let pace = Pace::new(clock, options.clock, Arc::clone(stop));
    let flown = fly_on::<M>(&node, &common, rows, live, &pace, options.mode).await;
    let ended = node.shutdown().await;
    if let Some(recorder) = recorder {
        recorder.finish().map_err(|error| JobError::node("record", error))?;
    }
    let result = flown?;
    match ended {
        Ok(ShutdownReport { forced: false, .. }) => Ok(result),
        Ok(report) => {
            Err(JobError::node("shut down in time", format_args!("{} objects were left", report.cancelled)))
        }
        Err(error) => Err(JobError::node("shut down", error)),
    }
}

async fn start<M: Kind>(
    options: &Options,
    common: &Arc<Common>,
    clock: Clock,
    recorder: Option<Arc<Recorder>>,
) -> Result<Node, Error> {
    let [airports, aircraft, board] = std::array::from_fn(|_| Arc::clone(common));
    let mut builder = Node::builder()
        .ask_timeout(PATIENCE)
        .send_timeout(PATIENCE)
        .clock(clock)
        .spot_with(
            "airport",
            turnkeep::Options::new().factory(move |code| Ok(Airport::<M>::new(code, &airports))),
        )
        .actor_with("aircraft", turnkeep::Options::new().factory(move |_| Ok(Aircraft::<M>::new(&aircraft))))
        .spot_with("board", turnkeep::Options::new().factory(move |_| Ok(Board::new(&board))));
    if let Some(recorder) = recorder {
        builder = builder.recorder(recorder);
    }
    if let Some(workers) = options.workers {
        builder = builder.workers(workers.into());
    }
    if let Some(records) = options.lane {
        builder = builder
            .application_lane(Lane { records, ..Lane::APPLICATION })
            .lifecycle_lane(Lane { records, ..Lane::LIFECYCLE });
    }
    builder.start().await
}

async fn fly_on<M: Kind>(
    node: &Node,
    common: &Arc<Common>,
    rows: Schedule,
    live: &Live,
    pace: &Pace,
    mode: Mode,
) -> Result<JobResult, JobError> {
    let watch = live.watch(Arc::new(Progress { common: Arc::clone(common), node: node.clone() }));
    let begin = Instant::now();
    let taken = reader::hand_out::<M>(node.clone(), rows, pace).await?;
    node.quiesce().await.map_err(|error| JobError::node("come to rest", error))?;
    let wall = begin.elapsed();
    drop(watch);
    let result = result_of::<M>(node, common, wall).await;
    let result = result.map_err(|error| JobError::node("tell its totals", error))?;
    let taken = taken.map(|taken| taken.totals(mode));
    Ok(JobResult { interrupted: taken.is_some(), taken, ..result })
}

/// Reads what the node, and then what its objects have counted.
async fn result_of<M: Kind>(node: &Node, common: &Common, wall: Duration) -> Result<JobResult, Error> {
    let metrics = node.metrics();
    let start_latency = common.latency().quantiles();
    let Counts { totals, overlaps, joins_failed, hours } = counts::read::<M>(node, &metrics).await?;
    let mut troubles = common.troubles();
    if hours.departures != totals.departed {
        troubles.insert("the hours' departures are not those of the month".into(), 1);
    }
    if metrics.panics > 0 {
        troubles.insert("a handler panicked".into(), metrics.panics);
    }
    Ok(JobResult {
        totals,
        turns: metrics.turns,
        overlaps,
        refused: metrics.refused,
        joins_failed,
        troubles,
        workers: node.workers(),
        wall,
        start_latency,
        hours_closed: hours.closed,
        interrupted: false,
        taken: None,
    })
}
