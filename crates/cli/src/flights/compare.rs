//! Sets the totals of the objects against those of the plain loop, figure by figure.

use std::collections::BTreeSet;
use std::fmt;

use super::reference::{AirportTotals, Totals};
use super::text::grouped_signed;

/// One figure on which the objects and the plain loop disagree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Difference {
    /// The airport it belongs to; none for a figure of the whole job.
    pub(crate) airport: Option<String>,
    /// The figure's name.
    pub(crate) figure: &'static str,
    /// What the plain loop found.
    pub(crate) expected: i64,
    /// What the objects say.
    pub(crate) found: i64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.airport.as_deref().unwrap_or("whole job");
        let (found, expected) = (grouped_signed(self.found), grouped_signed(self.expected));
        write!(f, "{place}, {}: {found} by the objects, {expected} by the plain loop", self.figure)
    }
}

/// Every difference: the airports' first, by code, then those of the whole job.
pub(crate) fn compare(expected: &Totals, found: &Totals) -> Vec<Difference> {
    let codes: BTreeSet<&String> = expected.per_airport.keys().chain(found.per_airport.keys()).collect();
    let airports = codes.into_iter().flat_map(|code| compare_airport(code, expected, found));
    airports.chain(differences(None, &whole(expected), &whole(found))).collect()
}

fn compare_airport(code: &str, expected: &Totals, found: &Totals) -> Vec<Difference> {
    let figures = |totals: &Totals| airport(totals.per_airport.get(code));
    differences(Some(code), &figures(expected), &figures(found))
}

type Figure = (&'static str, i64);

fn differences(airport: Option<&str>, expected: &[Figure], found: &[Figure]) -> Vec<Difference> {
    let pairs = expected.iter().zip(found).filter(|((_, expected), (_, found))| expected != found);
    pairs
        .map(|(&(figure, expected), &(_, found))| Difference {
            airport: airport.map(str::to_owned),
            figure,
            expected,
            found,
        })
        .collect()
}

fn airport(totals: Option<&AirportTotals>) -> [Figure; 6] {
    let AirportTotals { departures, cancellations, diversions, arrivals, arrival_delay_sum } =
        totals.copied().unwrap_or_default();
    [
        ("existing", i64::from(totals.is_some())),
        ("departures", signed(departures)),
        ("cancellations", signed(cancellations)),
        ("diversions", signed(diversions)),
        ("arrivals", signed(arrivals)),
        ("arrival_delay_sum", arrival_delay_sum),
    ]
}

fn whole(totals: &Totals) -> [Figure; 13] {
    [
        ("flights", signed(totals.flights)),
        ("departed", signed(totals.departed)),
        ("cancelled", signed(totals.cancelled)),
        ("diverted", signed(totals.diverted)),
        ("arrived", signed(totals.arrived)),
        ("arrival_delay_sum", totals.arrival_delay_sum),
        ("aircraft", signed(totals.aircraft)),
        ("airports", signed(totals.airports)),
        ("destinations_with_arrival", signed(totals.destinations_with_arrival)),
        ("joins_accepted", signed(totals.joins_accepted)),
        ("joins_rejected", signed(totals.joins_rejected)),
        ("repositioning", signed(totals.repositioning)),
        ("yields", signed(totals.yields)),
    ]
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals() -> Totals {
        let jfk = AirportTotals { departures: 9_161, arrival_delay_sum: -7, ..AirportTotals::default() };
        let per_airport = [("EWR".into(), AirportTotals::default()), ("JFK".into(), jfk)].into();
        Totals { flights: 9_200, per_airport, ..Totals::default() }
    }

    fn texts(found: &Totals) -> Vec<String> {
        compare(&totals(), found).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn equal_totals_have_no_difference() {
        assert_eq!(compare(&totals(), &totals()), []);
    }

    #[test]
    fn a_difference_names_the_airport_and_the_figure() {
        let mut found = totals();
        found.flights = 9_199;
        let jfk = AirportTotals { departures: 9_160, arrivals: 1, ..AirportTotals::default() };
        found.per_airport.insert("JFK".into(), jfk);
        let want = [
            "JFK, departures: 9,160 by the objects, 9,161 by the plain loop",
            "JFK, arrivals: 1 by the objects, 0 by the plain loop",
            "JFK, arrival_delay_sum: 0 by the objects, -7 by the plain loop",
            "whole job, flights: 9,199 by the objects, 9,200 by the plain loop",
        ];
        assert_eq!(texts(&found), want);
    }

    #[test]
    fn an_airport_that_only_one_side_knows_is_a_difference() {
        let mut found = totals();
        found.per_airport.remove("EWR");
        found.per_airport.insert("XXX".into(), AirportTotals::default());
        let want = [
            "EWR, existing: 0 by the objects, 1 by the plain loop",
            "XXX, existing: 1 by the objects, 0 by the plain loop",
        ];
        assert_eq!(texts(&found), want);
    }
}
