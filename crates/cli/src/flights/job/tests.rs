//! The job with right and wrong objects, in both modes, against the plain loop.

use std::path::Path;

use turnkeep::{Admission, Failure};

use super::super::input::samples;
use super::super::options::Speed;
use super::super::reference::{self, AirportTotals};
use super::common::record;
use super::messages::{End, Leg};
use super::*;

const MODES: [Mode; 2] = [Mode::Spotwide, Mode::Peractor];
/// Rows in tests that run the job many times.
const FEW: u64 = 600;

fn options(mode: Mode, workers: u16, lane: Option<u32>, limit: Option<u64>) -> Options {
    Options {
        file: None,
        mode,
        workers: Some(workers),
        limit,
        repeat: 1,
        lane,
        clock: Speed::Max,
        metrics: None,
        trace: None,
        json: false,
    }
}

fn rows(options: &Options) -> Reader {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights-2013-01.csv.gz");
    Reader::open(&path, options.limit).unwrap()
}

/// What the objects find under some rules, and what the plain loop does.
fn both(rules: Rules, options: &Options) -> (JobResult, Totals) {
    let expected = reference::totals(rows(options), options.mode).unwrap();
    let result = run_with(rules, options, rows(options), &Live::hidden(), &Arc::default()).unwrap();
    (result, expected)
}

fn check(options: &Options) -> JobResult {
    let (result, expected) = both(Rules::RIGHT, options);
    assert_eq!(result.totals, expected, "{options:?}");
    assert!(result.joins_failed.is_empty(), "{options:?}: {:?}", result.joins_failed);
    assert!(result.troubles.is_empty(), "{options:?}: {:?}", result.troubles);
    assert_eq!((result.overlaps, result.refused), (0, 0), "{options:?}");
    result
}

#[test]
fn the_month_is_flown_in_both_modes() {
    for mode in MODES {
        let result = check(&options(mode, 2, None, None));
        let totals = result.totals;
        assert_eq!((totals.departed, totals.arrived, totals.arrival_delay_sum), (26_483, 26_398, 161_819));
        assert_eq!(totals.yields, if mode == Mode::Spotwide { 26_483 } else { 0 });
        // Three messages and a report to the board a departure, one message a cancellation; in `peractor`
        // the airport is told twice more.
        let each = if mode == Mode::Spotwide { 4 } else { 6 };
        assert_eq!(result.start_latency.count, each * 26_483 + 521);
        assert_eq!(result.workers, 2);
    }
}

#[test]
fn the_totals_depend_on_neither_workers_nor_lanes() {
    for mode in MODES {
        for workers in [1, 2, 8] {
            for lane in [Some(1), Some(2), Some(3), None] {
                check(&options(mode, workers, lane, Some(FEW)));
            }
        }
    }
}

/// Asked to stop before the first row, the run has nothing and is right about it.
#[test]
fn a_run_that_is_asked_to_stop_tells_what_it_took() {
    let options = options(Mode::Spotwide, 2, None, Some(FEW));
    let stop = Arc::new(Stop::default());
    stop.ask();
    let result = run(&options, rows(&options), &Live::hidden(), &stop).unwrap();
    assert!(result.interrupted);
    assert_eq!(result.taken.as_ref(), Some(&result.totals));
    assert_eq!(result.totals.flights, 0);
}

#[test]
fn every_hour_of_the_month_is_closed_once_at_every_airport() {
    for mode in MODES {
        let result = check(&options(mode, 2, None, None));
        // 97 airports, 31 days and some hours beyond; each is there from its first row on.
        assert!((60_000..=97 * 32 * 24).contains(&result.hours_closed), "{}", result.hours_closed);
    }
}

#[test]
fn the_process_wide_workers_do_as_well_as_own_ones() {
    for mode in MODES {
        check(&Options { workers: None, ..options(mode, 1, None, Some(FEW)) });
    }
}

/// An origin called like nothing else is, one called like the board's type, and a flight that goes nowhere.
#[test]
fn odd_rows_are_flown_too() {
    let text = format!(
        "{}{}{}",
        samples::three_flights(),
        "2013,1,3,533,529,4,600,-2,UA,1,board,board,aircraft\n",
        "2013,1,3,733,729,4,800,9,UA,1,board,aircraft,aircraft\n",
    );
    for mode in MODES {
        let expected = reference::totals(samples::reader(text.clone()).unwrap(), mode).unwrap();
        let rows = samples::reader(text.clone()).unwrap();
        let result = run(&options(mode, 2, Some(1), None), rows, &Live::hidden(), &Arc::default()).unwrap();
        assert_eq!(result.totals, expected);
        assert_eq!(result.totals.per_airport["aircraft"].arrivals, 2);
    }
}

#[test]
fn no_rows_are_no_flights() {
    for mode in MODES {
        let rows = samples::reader(samples::HEADER).unwrap();
        let result = run(&options(mode, 1, None, None), rows, &Live::hidden(), &Arc::default()).unwrap();
        assert_eq!(result.totals, Totals::default());
    }
}

/// An error in the middle ends the run, and the node with it, though much is under way.
#[test]
fn a_row_that_cannot_be_read_ends_the_run() {
    let row = "2013,1,1,517,515,2,830,11,UA,1545,N14228,EWR,IAH\n";
    let text = format!("{}{}2013,1,1\n", samples::HEADER, row.repeat(2_000));
    for mode in MODES {
        let rows = samples::reader(text.clone()).unwrap();
        let error =
            run(&options(mode, 2, Some(3), None), rows, &Live::hidden(), &Arc::default()).unwrap_err();
        assert!(matches!(error, JobError::Input(_)), "{error}");
    }
}

/// Atlanta's books take no arrival after the second.
fn lossy(code: &str, totals: &mut AirportTotals, end: End) {
    if code != "ATL" || totals.arrivals != 2 {
        record(code, totals, end);
    }
}

#[test]
fn an_airport_that_loses_arrivals_is_named() {
    for mode in MODES {
        let options = options(mode, 2, None, Some(FEW));
        let rules = Rules { record: lossy, ..Rules::RIGHT };
        let faults = super::super::tests::faults(&options, |options, rows, live| {
            run_with(rules, options, rows, live, &Arc::default())
        });
        assert!(faults[0].starts_with("ATL, arrivals: 2 by the objects, "), "{faults:?}");
        assert!(faults.iter().all(|fault| fault.starts_with("ATL, ")), "{faults:?}");
    }
}

/// Nobody can land in Miami: its admission fails.
fn closed(code: &str, leg: Leg) -> Result<Admission, Failure> {
    if code == "MIA" { Err(Failure::new("closed for fog")) } else { (Rules::RIGHT.admit)(code, leg) }
}

#[test]
fn a_failed_join_is_counted_and_told_with_its_kind() {
    for mode in MODES {
        let options = options(mode, 2, None, Some(FEW));
        let rules = Rules { admit: closed, ..Rules::RIGHT };
        let (result, expected) = both(rules, &options);
        let bound_for_miami = expected.per_airport["MIA"].arrivals;
        assert_eq!(result.joins_failed, [("InternalFailure".to_owned(), bound_for_miami)].into());
        let faults = super::super::tests::faults(&options, |options, rows, live| {
            run_with(rules, options, rows, live, &Arc::default())
        });
        let told = format!("{bound_for_miami} Joins failed: InternalFailure");
        assert!(faults.contains(&told), "{faults:?}");
        assert!(faults[0].starts_with("MIA, arrivals: 0 by the objects, "), "{faults:?}");
    }
}

/// A panic stops an airport; the run ends and says so.
fn broken(code: &str, totals: &mut AirportTotals, end: End) {
    assert!(code != "ORD", "no such gate");
    record(code, totals, end);
}

#[test]
fn an_airport_that_panics_is_a_fault_and_no_hang() {
    for mode in MODES {
        let options = options(mode, 2, Some(2), Some(FEW));
        let rules = Rules { record: broken, ..Rules::RIGHT };
        let run = run_with(rules, &options, rows(&options), &Live::hidden(), &Arc::default());
        match run {
            Ok(result) => assert!(result.troubles.contains_key("a handler panicked"), "{result:?}"),
            Err(error) => assert!(matches!(error, JobError::Node { .. }), "{error}"),
        }
    }
}
