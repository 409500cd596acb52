//! What a finished run is told as: one JSON object, or tables for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::compare::{Difference, compare};
use super::job::JobResult;
use super::latency::Quantiles;
use super::live::rate;
use super::options::Options;
use super::reference::{AirportTotals, Totals};
use super::text::{duration, grouped, grouped_signed};

/// How many airports the table lists.
const AIRPORTS_SHOWN: usize = 10;

/// One run, compared with the plain loop. Its public fields are the JSON object's.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    file: String,
    mode: String,
    workers: usize,
    lane: Option<u32>,
    /// Which run of `--repeat` this is; the other figures are of this run alone.
    run: u32,
    flights: u64,
    departed: u64,
    cancelled: u64,
    diverted: u64,
    arrived: u64,
    arrival_delay_sum: i64,
    aircraft: u64,
    airports: u64,
    destinations_with_arrival: u64,
    turns: u64,
    overlaps: u64,
    yields: u64,
    joins_accepted: u64,
    joins_rejected: u64,
    joins_failed: u64,
    repositioning: u64,
    refused: u64,
    hours_closed: u64,
    interrupted: bool,
    wall_s: f64,
    turns_per_s: f64,
    start_latency_us_p50: f64,
    start_latency_us_p99: f64,
    matches_reference: bool,
    #[serde(skip)]
    per_airport: BTreeMap<String, AirportTotals>,
    #[serde(skip)]
    start_latency: Quantiles,
    #[serde(skip)]
    differences: Vec<Difference>,
    #[serde(skip)]
    failures: BTreeMap<String, u64>,
    #[serde(skip)]
    troubles: BTreeMap<String, u64>,
}

impl Outcome {
    /// Compares what the objects found with what the plain loop expects.
    pub(crate) fn new(
        file: &Path,
        options: &Options,
        run: u32,
        expected: &Totals,
        result: JobResult,
    ) -> Self {
        let differences = compare(expected, &result.totals);
        let JobResult { totals, start_latency, wall, .. } = result;
        Self {
            file: file.display().to_string(),
            mode: options.mode.to_string(),
            workers: result.workers,
            lane: options.lane,
            run,
            flights: totals.flights,
            departed: totals.departed,
            cancelled: totals.cancelled,
            diverted: totals.diverted,
            arrived: totals.arrived,
            arrival_delay_sum: totals.arrival_delay_sum,
            aircraft: totals.aircraft,
            airports: totals.airports,
            destinations_with_arrival: totals.destinations_with_arrival,
            turns: result.turns,
            overlaps: result.overlaps,
            yields: totals.yields,
            joins_accepted: totals.joins_accepted,
            joins_rejected: totals.joins_rejected,
            joins_failed: result.joins_failed.values().sum(),
            repositioning: totals.repositioning,
            refused: result.refused,
            hours_closed: result.hours_closed,
            interrupted: result.interrupted,
            wall_s: wall.as_secs_f64(),
            turns_per_s: rate(result.turns, wall).round(),
            start_latency_us_p50: micros(start_latency.p50),
            start_latency_us_p99: micros(start_latency.p99),
            matches_reference: differences.is_empty(),
            per_airport: totals.per_airport,
            start_latency,
            differences,
            failures: result.joins_failed,
            troubles: result.troubles,
        }
    }

    /// Everything that makes this a bad run, a line each; empty for a good one.
    pub(crate) fn faults(&self) -> Vec<String> {
        let failed =
            self.failures.iter().map(|(kind, count)| format!("{} Joins failed: {kind}", grouped(*count)));
        let troubles = self
            .troubles
            .iter()
            .map(|(what, count)| format!("{} times in a handler: {what}", grouped(*count)));
        let overlaps =
            format!("{} turns overlapped under one gate, an error of the runtime", grouped(self.overlaps));
        let refused = format!("{} admissions were refused, though every sender waits", grouped(self.refused));
        let mut faults: Vec<String> = self.differences.iter().map(ToString::to_string).collect();
        faults.extend(failed);
        faults.extend(troubles);
        faults.extend((self.overlaps > 0).then_some(overlaps));
        faults.extend((self.refused > 0).then_some(refused));
        faults
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The tables.
    pub(crate) fn table(&self) -> String {
        let mut text = self.title();
        self.write_airports(&mut text);
        for (name, value) in self.summary() {
            line(&mut text, format_args!("{name:<11} {value}"));
        }
        text
    }

    fn title(&self) -> String {
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let lane = self.lane.map(|lane| format!(", lanes of {}", grouped(lane.into()))).unwrap_or_default();
        format!("{}: {}, {} {workers}{lane}\n\n", self.file, self.mode, self.workers)
    }

    fn write_airports(&self, text: &mut String) {
        let row = |text: &mut String, cells: [&str; 6]| {
            let [code, departures, cancellations, diversions, arrivals, delay] = cells;
            line(
                text,
                format_args!(
                    "{code:<8} {departures:>10} {cancellations:>9} {diversions:>8} {arrivals:>8} {delay:>10}"
                ),
            );
        };
        row(text, ["airport", "departures", "cancelled", "diverted", "arrivals", "mean delay"]);
        for (code, place) in self.busiest() {
            let counts =
                [place.departures, place.cancellations, place.diversions, place.arrivals].map(grouped);
            let [departures, cancellations, diversions, arrivals] = &counts;
            row(text, [code, departures, cancellations, diversions, arrivals, &mean_delay(place)]);
        }
        let others = self.per_airport.len().saturating_sub(AIRPORTS_SHOWN);
        if others > 0 {
            line(text, format_args!("and {others} more"));
        }
        text.push('\n');
    }

    /// By departures, then by arrivals, then by code.
    fn busiest(&self) -> Vec<(&str, &AirportTotals)> {
        let mut airports: Vec<_> =
            self.per_airport.iter().map(|(code, place)| (code.as_str(), place)).collect();
        airports.sort_by_key(|(_, place)| Reverse((place.departures, place.arrivals)));
        airports.truncate(AIRPORTS_SHOWN);
        airports
    }

    fn summary(&self) -> [(&'static str, String); 8] {
        let n = grouped;
        let flights = format!(
            "{}: {} departed, {} cancelled, {} diverted, {} arrived",
            n(self.flights),
            n(self.departed),
            n(self.cancelled),
            n(self.diverted),
            n(self.arrived)
        );
        let delay = format!("{} minutes in all arrivals", grouped_signed(self.arrival_delay_sum));
        let objects = format!(
            "{} aircraft, {} airports, {} of them with an arrival",
            n(self.aircraft),
            n(self.airports),
            n(self.destinations_with_arrival)
        );
        let joins = format!(
            "{} accepted ({} repositioning), {} rejected, {} failed",
            n(self.joins_accepted),
            n(self.repositioning),
            n(self.joins_rejected),
            n(self.joins_failed)
        );
        let wall = Duration::try_from_secs_f64(self.wall_s).unwrap_or_default();
        let turns = format!(
            "{} in {}, {} a second, {} yields, {} overlaps, {} refused",
            n(self.turns),
            duration(wall),
            n(self.turns_per_s as u64),
            n(self.yields),
            n(self.overlaps),
            n(self.refused)
        );
        let Quantiles { count, p50, p99 } = self.start_latency;
        let start = format!(
            "p50 {}, p99 {} from sent to started, of {} measured",
            duration(p50),
            duration(p99),
            n(count)
        );
        let rows = if self.interrupted { " in the rows handed out before the interruption" } else { "" };
        let reference =
            if self.matches_reference { "the plain loop finds the same" } else { "the plain loop DIFFERS" };
        [
            ("flights", flights),
            ("delay", delay),
            ("objects", objects),
            ("joins", joins),
            ("turns", turns),
            ("start", start),
            ("hours", format!("{} closed by the simulated clock", n(self.hours_closed))),
            ("reference", format!("{reference}{rows}")),
        ]
    }
}

fn mean_delay(place: &AirportTotals) -> String {
    if place.arrivals == 0 {
        return "-".into();
    }
    format!("{:.1} min", place.arrival_delay_sum as f64 / place.arrivals as f64)
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::options::{Mode, Speed};
    use super::*;

    fn options() -> Options {
        let (mode, lane) = (Mode::Spotwide, Some(1_024));
        Options {
            file: None,
            mode,
            workers: None,
            limit: None,
            repeat: 1,
            lane,
            clock: Speed::Max,
            metrics: None,
            trace: None,
            json: false,
        }
    }

    fn totals() -> Totals {
        let place = |departures, arrivals, arrival_delay_sum| AirportTotals {
            departures,
            arrivals,
            arrival_delay_sum,
            ..AirportTotals::default()
        };
        let mut per_airport: BTreeMap<_, _> = (0..9).map(|at| (format!("A{at}"), place(0, at, 0))).collect();
        per_airport.extend([("JFK".into(), place(9_161, 0, 0)), ("BOS".into(), place(0, 1_245, -620))]);
        Totals { flights: 27_004, departed: 26_483, joins_accepted: 52_819, per_airport, ..Totals::default() }
    }

    fn result() -> JobResult {
        JobResult {
            totals: totals(),
            turns: 300_000,
            overlaps: 0,
            refused: 0,
            joins_failed: BTreeMap::new(),
            troubles: BTreeMap::new(),
            workers: 2,
            wall: Duration::from_millis(500),
            start_latency: Quantiles {
                count: 1,
                p50: Duration::from_nanos(1_500),
                p99: Duration::from_millis(2),
            },
            hours_closed: 72_168,
            interrupted: false,
            taken: None,
        }
    }

    fn outcome(result: JobResult) -> Outcome {
        Outcome::new(Path::new("month.csv"), &options(), 1, &totals(), result)
    }

    #[test]
    fn the_object_is_one_line_with_every_field() {
        let text = outcome(result()).json().unwrap();
        assert!(!text.contains('\n'));
        let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
        let names: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        let needed = "flights departed cancelled diverted arrived arrival_delay_sum aircraft airports turns \
             overlaps yields joins_accepted joins_rejected refused wall_s turns_per_s start_latency_us_p50 \
             start_latency_us_p99 matches_reference";
        assert!(names.is_superset(&needed.split_whitespace().collect()), "{names:?}");
        assert_eq!(object["turns_per_s"], 600_000.0);
        assert_eq!(object["start_latency_us_p50"], 1.5);
        assert_eq!(object["matches_reference"], true);
    }

    #[test]
    fn the_table_lists_the_busiest_first_and_says_how_many_are_left_out() {
        let table = outcome(result()).table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "month.csv: spotwide, 2 workers, lanes of 1,024");
        assert_eq!(lines[3], "JFK           9,161         0        0        0          -");
        assert_eq!(lines[4], "BOS               0         0        0    1,245   -0.5 min");
        assert!(lines.contains(&"and 1 more"), "{table}");
        assert!(lines.contains(&"reference   the plain loop finds the same"), "{table}");
    }

    #[test]
    fn a_good_run_has_no_fault() {
        assert_eq!(outcome(result()).faults(), [""; 0]);
    }

    #[test]
    fn every_kind_of_fault_has_a_line() {
        let mut bad = JobResult { overlaps: 1, refused: 2, ..result() };
        bad.joins_failed = [("NotFound".into(), 3)].into();
        bad.troubles = [("it is full".into(), 4)].into();
        bad.totals.per_airport.get_mut("JFK").unwrap().departures -= 1;
        let outcome = outcome(bad);
        assert!(!outcome.matches_reference);
        let want = [
            "JFK, departures: 9,160 by the objects, 9,161 by the plain loop",
            "3 Joins failed: NotFound",
            "4 times in a handler: it is full",
            "1 turns overlapped under one gate, an error of the runtime",
            "2 admissions were refused, though every sender waits",
        ];
        assert_eq!(outcome.faults(), want);
        assert!(outcome.table().contains("the plain loop DIFFERS"));
    }
}
