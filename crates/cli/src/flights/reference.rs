//! The job without objects: a plain loop over the rows, for comparison.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::input::{Airport, Fate, Flight, InputError, Reader};
use super::options::Mode;

/// Everything the job must find out, whichever way it is done.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Totals {
    /// Rows of the file.
    pub(crate) flights: u64,
    /// Rows that left the ground.
    pub(crate) departed: u64,
    /// Rows that did not.
    pub(crate) cancelled: u64,
    /// Departures that never reached their destination.
    pub(crate) diverted: u64,
    /// Departures that did.
    pub(crate) arrived: u64,
    /// The sum of all arrival delays, in minutes; early arrivals count below zero.
    pub(crate) arrival_delay_sum: i64,
    /// Different tail numbers that departed.
    pub(crate) aircraft: u64,
    /// Different codes that appear as an origin or a destination, cancelled rows included.
    pub(crate) airports: u64,
    /// Airports with at least one arrival.
    pub(crate) destinations_with_arrival: u64,
    /// Joins that ended well: every arrival and every repositioning flight.
    pub(crate) joins_accepted: u64,
    /// Joins that the target refused: every diversion.
    pub(crate) joins_rejected: u64,
    /// Accepted Joins that only brought an aircraft to its next origin.
    pub(crate) repositioning: u64,
    /// Handlers that gave the gate up while they waited.
    pub(crate) yields: u64,
    /// The figures of each airport, by code.
    pub(crate) per_airport: BTreeMap<String, AirportTotals>,
}

/// The figures of one airport.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct AirportTotals {
    /// Flights that left here.
    pub(crate) departures: u64,
    /// Flights that should have left here.
    pub(crate) cancellations: u64,
    /// Flights that left here and never reached their destination.
    pub(crate) diversions: u64,
    /// Flights that ended here as planned.
    pub(crate) arrivals: u64,
    /// The sum of their delays, in minutes.
    pub(crate) arrival_delay_sum: i64,
}

/// Reads all rows and counts.
pub(crate) fn totals(rows: Reader, mode: Mode) -> Result<Totals, InputError> {
    let mut month = Month::default();
    for row in rows {
        month.add(&row?);
    }
    Ok(month.totals(mode))
}

/// Rows counted one by one.
#[derive(Default)]
pub(crate) struct Month {
    airports: BTreeMap<Airport, AirportTotals>,
    /// Where each aircraft is; one that has not flown yet is nowhere.
    whereabouts: HashMap<Arc<str>, Airport>,
    flights: u64,
    repositioning: u64,
}

impl Month {
    /// One row more.
    pub(crate) fn add(&mut self, flight: &Flight) {
        self.flights += 1;
        self.airports.entry(flight.destination).or_default();
        let origin = self.airports.entry(flight.origin).or_default();
        match &flight.fate {
            Fate::Cancelled => origin.cancellations += 1,
            Fate::Departed { tailnum, arr_delay } => {
                origin.departures += 1;
                self.fly(flight, tailnum, *arr_delay);
            }
        }
    }

    fn fly(&mut self, flight: &Flight, tailnum: &Arc<str>, arr_delay: Option<i32>) {
        let end = if arr_delay.is_some() { flight.destination } else { flight.origin };
        let before = self.whereabouts.insert(Arc::clone(tailnum), end);
        self.repositioning += u64::from(before != Some(flight.origin));
        let place = self.airports.entry(end).or_default();
        match arr_delay {
            Some(minutes) => {
                place.arrivals += 1;
                place.arrival_delay_sum += i64::from(minutes);
            }
            None => place.diversions += 1,
        }
    }

    /// What the rows so far come to.
    pub(crate) fn totals(self, mode: Mode) -> Totals {
        let sum = |figure: fn(&AirportTotals) -> u64| self.airports.values().map(figure).sum::<u64>();
        let (departed, arrived) = (sum(|place| place.departures), sum(|place| place.arrivals));
        Totals {
            flights: self.flights,
            departed,
            cancelled: sum(|place| place.cancellations),
            diverted: sum(|place| place.diversions),
            arrived,
            arrival_delay_sum: self.airports.values().map(|place| place.arrival_delay_sum).sum(),
            aircraft: self.whereabouts.len() as u64,
            airports: self.airports.len() as u64,
            destinations_with_arrival: sum(|place| u64::from(place.arrivals > 0)),
            joins_accepted: arrived + self.repositioning,
            joins_rejected: sum(|place| place.diversions),
            repositioning: self.repositioning,
            yields: if mode == Mode::Spotwide { departed } else { 0 },
            per_airport: self.airports.iter().map(|(code, place)| (code.to_string(), *place)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::input::samples;
    use super::*;

    fn bundled(limit: Option<u64>) -> Reader {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/flights-2013-01.csv.gz");
        Reader::open(&path, limit).unwrap()
    }

    #[test]
    fn the_bundled_month_has_the_known_totals() {
        let totals = totals(bundled(None), Mode::Spotwide).unwrap();
        let per_airport = totals.per_airport.clone();
        let known = Totals {
            flights: 27_004,
            departed: 26_483,
            cancelled: 521,
            diverted: 85,
            arrived: 26_398,
            arrival_delay_sum: 161_819,
            aircraft: 3_141,
            airports: 97,
            destinations_with_arrival: 94,
            joins_accepted: 52_819,
            joins_rejected: 85,
            repositioning: 26_421,
            yields: 26_483,
            per_airport,
        };
        assert_eq!(totals, known);
        assert_eq!(totals.per_airport.len(), 97);
    }

    #[test]
    fn the_mode_changes_the_yields_alone() {
        let spotwide = totals(bundled(Some(2_000)), Mode::Spotwide).unwrap();
        let peractor = totals(bundled(Some(2_000)), Mode::Peractor).unwrap();
        assert_eq!(peractor, Totals { yields: 0, ..spotwide });
    }

    #[test]
    fn a_diverted_aircraft_stays_where_it_left() {
        let again = "2013,1,1,700,700,0,900,-3,UA,1,N14228,LGA,ORD\n";
        let text = format!("{}{again}", samples::three_flights());
        let totals = totals(samples::reader(text).unwrap(), Mode::Peractor).unwrap();
        // Nowhere to EWR, IAH to LGA; for the last flight the aircraft is at LGA already.
        assert_eq!((totals.repositioning, totals.joins_accepted, totals.joins_rejected), (2, 4, 1));
        assert_eq!((totals.flights, totals.aircraft, totals.airports), (4, 1, 5));
        let lga = AirportTotals { departures: 2, diversions: 1, ..AirportTotals::default() };
        assert_eq!(totals.per_airport["LGA"], lga);
        let ord = AirportTotals { arrivals: 1, arrival_delay_sum: -3, ..AirportTotals::default() };
        assert_eq!(totals.per_airport["ORD"], ord);
        assert_eq!(totals.per_airport["RDU"], AirportTotals::default());
    }
}
