//! What the objects of one run have in common: how they do things, and where they note how it goes.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnkeep::{Admission, Failure, Node};

use super::super::latency::Latency;
use super::super::live::{BUSIEST, Snapshot, Source};
use super::super::reference::AirportTotals;
use super::messages::{End, Leg, Sent};

/// What an airport does, by its code, when an aircraft comes and when a flight is over.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    /// Whether an aircraft is let in.
    pub(super) admit: fn(&str, Leg) -> Result<Admission, Failure>,
    /// Enters the end of a flight into the airport's figures.
    pub(super) record: fn(&str, &mut AirportTotals, End),
}

impl Rules {
    /// The rules that give the right totals.
    pub(super) const RIGHT: Self = Self { admit, record };
}

fn admit(_: &str, leg: Leg) -> Result<Admission, Failure> {
    Ok(match leg {
        Leg::Flight { arr_delay: None } => Admission::reject(),
        Leg::Flight { arr_delay: Some(_) } | Leg::Repositioning => Admission::Accept,
    })
}

pub(super) fn record(_: &str, totals: &mut AirportTotals, end: End) {
    match end {
        End::Arrived { minutes } => {
            totals.arrivals += 1;
            totals.arrival_delay_sum += i64::from(minutes);
        }
        End::Diverted => totals.diversions += 1,
    }
}

/// Why a handler could not do its work.
#[derive(Debug)]
pub(super) struct Trouble;

/// One for each run.
pub(super) struct Common {
    pub(super) rules: Rules,
    latency: Latency,
    /// Rows whose work is done.
    done: AtomicU64,
    /// Every airport with its departures so far, for the view alone: the totals are in the airports.
    traffic: Mutex<Vec<(String, Arc<AtomicU64>)>>,
    /// What went wrong in handlers, and how often.
    troubles: Mutex<BTreeMap<String, u64>>,
}

impl Common {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            latency: Latency::new(),
            done: AtomicU64::new(0),
            traffic: Mutex::default(),
            troubles: Mutex::default(),
        }
    }

    /// A message's handler has started.
    pub(super) fn started(&self, sent: Sent) {
        self.latency.record(sent.wait());
    }

    /// All work of a row is done.
    pub(super) fn row_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The counter of a new airport's departures that the view shows.
    pub(super) fn departures_shown(&self, code: &str) -> Arc<AtomicU64> {
        let counter = Arc::<AtomicU64>::default();
        lock(&self.traffic).push((code.to_owned(), Arc::clone(&counter)));
        counter
    }

    /// Something that must not happen did.
    pub(super) fn note(&self, what: impl Display) -> Trouble {
        *lock(&self.troubles).entry(what.to_string()).or_default() += 1;
        Trouble
    }

    pub(super) fn troubles(&self) -> BTreeMap<String, u64> {
        lock(&self.troubles).clone()
    }

    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }
}

/// The progress of a run on a node.
pub(super) struct Progress {
    pub(super) common: Arc<Common>,
    pub(super) node: Node,
}

impl Source for Progress {
    fn snapshot(&self) -> Snapshot {
        let mut busiest: Vec<(String, u64)> = {
            let traffic = lock(&self.common.traffic);
            traffic
                .iter()
                .map(|(code, departures)| (code.clone(), departures.load(Ordering::Relaxed)))
                .collect()
        };
        busiest.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
        busiest.truncate(BUSIEST);
        Snapshot {
            flights: self.common.done.load(Ordering::Relaxed),
            turns: self.node.metrics().turns,
            busiest,
            start_latency: self.common.latency.quantiles(),
        }
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
