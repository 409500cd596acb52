//! `turnkeep flights`: a month of real departures on objects, checked against a plain loop.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

mod compare;
pub(crate) mod input;
mod job;
mod latency;
mod live;
mod options;
mod reference;
mod report;
mod stop;
mod text;

use input::{InputError, Reader};
use job::{JobError, JobResult};
use live::Live;
pub(crate) use options::Options;
use reference::Totals;
use report::Outcome;
use stop::Stop;

/// The objects and the plain loop disagree, a Join failed, or the run itself did.
const BAD_RUN: u8 = 1;
/// The input or the options cannot be used.
const BAD_INPUT: u8 = 2;

/// Runs the command and tells how it ended: 0 for a good run, else one of the codes above.
pub(crate) fn run(options: &Options) -> ExitCode {
    let stop = Stop::on_ctrl_c();
    let job = |options: &Options, rows, live: &Live| job::run(options, rows, live, &stop);
    match fly(options, job) {
        Ok(outcome) => conclude(options, &outcome),
        Err(JobError::Input(error)) => {
            tell(&format_args!("error: {error}\n  help: {}", error.fault.help()));
            ExitCode::from(BAD_INPUT)
        }
        Err(error) => {
            tell(&format_args!("error: {error}"));
            ExitCode::from(BAD_RUN)
        }
    }
}

/// Runs the job as often as asked, or until a run is bad, and returns the last run.
fn fly(
    options: &Options,
    job: impl Fn(&Options, Reader, &Live) -> Result<JobResult, JobError>,
) -> Result<Outcome, JobError> {
    let path = options.input();
    let expected = expect(options, &path)?;
    let live = Live::new(expected.flights);
    let mut run = 1;
    loop {
        let result = job(options, Reader::open(&path, options.limit)?, &live)?;
        let interrupted = result.interrupted;
        // An interrupted run is compared with a plain loop over the rows that it took.
        let expected = result.taken.as_ref().unwrap_or(&expected).clone();
        let outcome = Outcome::new(&path, options, run, &expected, result);
        if run >= options.repeat || interrupted || !outcome.faults().is_empty() {
            return Ok(outcome);
        }
        tell(&format_args!("run {run} of {}: as the plain loop finds it", options.repeat));
        run += 1;
    }
}

/// The plain loop goes first, so that a bad file is told before any object exists.
fn expect(options: &Options, path: &Path) -> Result<Totals, InputError> {
    reference::totals(Reader::open(path, options.limit)?, options.mode)
}

fn conclude(options: &Options, outcome: &Outcome) -> ExitCode {
    let text = if options.json { outcome.json().map(|text| text + "\n") } else { Ok(outcome.table()) };
    let printed = text.map_err(io::Error::from).and_then(|text| print(&text));
    if let Err(error) = &printed {
        tell(&format_args!("error: cannot write the result: {error}"));
    }
    let faults = outcome.faults();
    for fault in &faults {
        tell(&format_args!("error: {fault}"));
    }
    ExitCode::from(verdict(&faults, &printed))
}

fn verdict(faults: &[String], printed: &io::Result<()>) -> u8 {
    if faults.is_empty() && printed.is_ok() { 0 } else { BAD_RUN }
}

/// Data for stdout. A reader that has seen enough, such as `head`, is no error.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Everything else for stderr.
fn tell(text: &dyn Display) {
    // With stderr closed there is no one left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use latency::Quantiles;
    use options::{Mode, Speed};

    fn options(repeat: u32) -> Options {
        let limit = Some(500);
        Options {
            file: None,
            mode: Mode::Peractor,
            workers: None,
            limit,
            repeat,
            lane: None,
            clock: Speed::Max,
            metrics: None,
            trace: None,
            json: false,
        }
    }

    /// A job whose "objects" are the plain loop, so that only the comparison is at work.
    fn honest(options: &Options, rows: Reader, _: &Live) -> Result<JobResult, JobError> {
        Ok(JobResult {
            totals: reference::totals(rows, options.mode)?,
            turns: 2_000,
            overlaps: 0,
            refused: 0,
            joins_failed: Default::default(),
            troubles: Default::default(),
            workers: 1,
            wall: Duration::from_millis(1),
            start_latency: Quantiles::default(),
            hours_closed: 0,
            interrupted: false,
            taken: None,
        })
    }

    /// What is told about a bad run of the bundled month, and that it ends with the status of one.
    pub(super) fn faults(
        options: &Options,
        job: impl Fn(&Options, Reader, &Live) -> Result<JobResult, JobError>,
    ) -> Vec<String> {
        let faults = fly(options, job).unwrap().faults();
        assert_eq!(verdict(&faults, &Ok(())), BAD_RUN);
        faults
    }

    #[test]
    fn a_good_job_runs_as_often_as_asked() {
        let runs = Cell::new(0);
        let outcome = fly(&options(3), |options, rows, live| {
            runs.set(runs.get() + 1);
            honest(options, rows, live)
        });
        assert_eq!(outcome.unwrap().faults(), [""; 0]);
        assert_eq!(runs.get(), 3);
    }

    #[test]
    fn a_wrong_figure_ends_the_runs_and_names_its_airport() {
        let runs = Cell::new(0);
        let outcome = fly(&options(9), |options, rows, live| {
            runs.set(runs.get() + 1);
            let mut result = honest(options, rows, live)?;
            let jfk = result.totals.per_airport.get_mut("JFK").unwrap();
            jfk.arrival_delay_sum += u32::from(runs.get() == 2) as i64;
            Ok(result)
        })
        .unwrap();
        assert_eq!(runs.get(), 2);
        let faults = outcome.faults();
        assert!(faults.len() == 1 && faults[0].starts_with("JFK, arrival_delay_sum: "), "{faults:?}");
        assert_eq!((verdict(&faults, &Ok(())), verdict(&[], &Ok(()))), (BAD_RUN, 0));
    }
}
