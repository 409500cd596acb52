//! The end of a run: every object that the node has is asked what it has counted.

use std::collections::BTreeMap;

use turnkeep::{Error, Metrics, Node, ObjectKind};

use super::super::reference::Totals;
use super::aircraft::Aircraft;
use super::airport::Airport;
use super::board::{BOARD, Board, Hours, Sums};
use super::kind::Kind;
use super::messages::{AircraftCounts, AirportCounts, BoardCounts};

/// What the objects have counted, together.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) totals: Totals,
    pub(super) overlaps: u64,
    pub(super) joins_failed: BTreeMap<String, u64>,
    /// Those that the board was told of, and what airports have not closed yet.
    pub(super) hours: Hours,
}

/// Asks them. `metrics` are the node's from before that.
pub(super) async fn read<M: Kind>(node: &Node, metrics: &Metrics) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    counts.ask_airports::<M>(node).await?;
    counts.ask_aircraft::<M>(node).await?;
    let board = counts.ask_board(node).await?;
    counts.sum_up(board, metrics);
    Ok(counts)
}

impl Counts {
    async fn ask_airports<M: Kind>(&mut self, node: &Node) -> Result<(), Error> {
        let entry = node.entry_id();
        for code in node.ids(ObjectKind::Spot).into_iter().filter(|id| *id != entry && id != BOARD) {
            let (totals, overlaps, open) = node.spot::<Airport<M>>(&code).ask(AirportCounts).await?;
            self.hours.departures += open;
            self.totals.per_airport.insert(code, totals);
            self.overlaps += overlaps;
        }
        Ok(())
    }

    async fn ask_aircraft<M: Kind>(&mut self, node: &Node) -> Result<(), Error> {
        for tailnum in node.ids(ObjectKind::Actor) {
            let (log, overlaps) = node.actor::<Aircraft<M>>(&tailnum).ask(AircraftCounts).await?;
            self.totals.aircraft += 1;
            self.totals.repositioning += log.repositioning;
            self.totals.yields += log.yields;
            for (kind, count) in log.joins_failed {
                *self.joins_failed.entry(kind).or_default() += count;
            }
            self.overlaps += overlaps;
        }
        Ok(())
    }

    async fn ask_board(&mut self, node: &Node) -> Result<Sums, Error> {
        let (sums, hours, overlaps) = node.spot::<Board>(BOARD).ask(BoardCounts).or_create().await?;
        self.hours.closed += hours.closed;
        self.hours.departures += hours.departures;
        self.overlaps += overlaps;
        Ok(sums)
    }

    fn sum_up(&mut self, board: Sums, metrics: &Metrics) {
        let totals = &mut self.totals;
        let places = &totals.per_airport;
        totals.airports = places.len() as u64;
        totals.destinations_with_arrival = places.values().filter(|place| place.arrivals > 0).count() as u64;
        totals.cancelled = places.values().map(|place| place.cancellations).sum();
        totals.departed = board.departed;
        totals.arrived = board.arrived;
        totals.diverted = board.diverted;
        totals.arrival_delay_sum = board.arrival_delay_sum;
        totals.flights = totals.departed + totals.cancelled;
        totals.joins_accepted = metrics.joins_accepted;
        totals.joins_rejected = metrics.joins_rejected;
    }
}
