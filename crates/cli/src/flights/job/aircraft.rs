//! An aircraft: an Actor that joins one airport after the other and reports each flight where it ended.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use turnkeep::{Actor, Failure, Handles, JoinCompleted, JoinOutcome, Lifecycle, Never, SpotRef, Turn};

use super::airport::Airport;
use super::common::{Common, Trouble};
use super::kind::Kind;
use super::messages::{AircraftCounts, End, Fly, Leg, Position, Report};
use super::overlap::Overlap;

/// An airport whose lane is full may let an aircraft wait that long.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// What an aircraft has counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Logbook {
    /// Airports it came to only because its next flight left there.
    pub(super) repositioning: u64,
    /// Times a handler gave the gate up while it waited.
    pub(super) yields: u64,
    /// Joins that failed, by the kind of the failure.
    pub(super) joins_failed: BTreeMap<String, u64>,
}

/// An aircraft among airports of one mode.
pub(super) struct Aircraft<M> {
    pub(super) log: Logbook,
    /// How the last flight ended, until it is reported.
    end: Option<End>,
    /// Of the gate it has for its own, in the Entry Spot and in `PerActor` airports.
    pub(super) overlap: Arc<Overlap>,
    pub(super) common: Arc<Common>,
    _mode: PhantomData<fn() -> M>,
}

impl<M> Aircraft<M> {
    pub(super) fn new(common: &Arc<Common>) -> Self {
        Self {
            log: Logbook::default(),
            end: None,
            overlap: Arc::default(),
            common: Arc::clone(common),
            _mode: PhantomData,
        }
    }

    /// A Join is over. One that ended as its leg does not allow shows in the totals.
    fn arrive(&mut self, leg: Option<Leg>, outcome: &JoinOutcome) {
        match (leg, outcome) {
            (Some(Leg::Repositioning), JoinOutcome::Accepted) => self.log.repositioning += 1,
            (Some(Leg::Flight { arr_delay: Some(minutes) }), JoinOutcome::Accepted) => {
                self.end = Some(End::Arrived { minutes });
            }
            (Some(Leg::Flight { arr_delay: None }), JoinOutcome::Rejected(_)) => {
                self.end = Some(End::Diverted);
            }
            (_, JoinOutcome::Failed(kind)) => {
                *self.log.joins_failed.entry(format!("{kind:?}")).or_default() += 1;
            }
            _ => {}
        }
    }
}

impl<M: Kind> Actor for Aircraft<M> {
    async fn on_join_completed(
        turn: &mut Lifecycle<'_, Self>,
        completed: JoinCompleted,
    ) -> Result<(), Failure> {
        let _inside = M::enter_callback(turn);
        turn.arrive(completed.request().copied(), completed.outcome());
        Ok(())
    }
}

impl<M: Kind> Handles<Position<M>> for Aircraft<M> {
    async fn handle(turn: &mut Turn<'_, Self>, position: Position<M>) -> Result<(), Trouble> {
        let _inside = M::enter(turn);
        turn.common.started(position.sent);
        if turn.place().as_deref() == Some(position.origin.id()) {
            return Ok(());
        }
        defer_join(turn, &position.origin, Leg::Repositioning)
    }
}

impl<M: Kind> Handles<Fly<M>> for Aircraft<M> {
    async fn handle(turn: &mut Turn<'_, Self>, fly: Fly<M>) -> Result<(), Trouble> {
        let _inside = M::enter(turn);
        turn.common.started(fly.sent);
        turn.end = None;
        M::depart(turn).await?;
        defer_join(turn, &fly.destination, Leg::Flight { arr_delay: fly.arr_delay })
    }
}

impl<M: Kind> Handles<Report> for Aircraft<M> {
    async fn handle(turn: &mut Turn<'_, Self>, report: Report) -> Result<(), Trouble> {
        let inside = M::enter(turn);
        turn.common.started(report.sent);
        match turn.end.take() {
            Some(end) => M::report(turn, end, inside).await,
            // The flight's Join failed, which is told as such.
            None => Ok(()),
        }
    }
}

impl<M: Kind> Handles<AircraftCounts> for Aircraft<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: AircraftCounts) -> Result<(Logbook, u64), Never> {
        Ok((turn.log.clone(), turn.overlap.found()))
    }
}

fn defer_join<M: Kind>(
    turn: &mut Turn<'_, Aircraft<M>>,
    airport: &SpotRef<Airport<M>>,
    leg: Leg,
) -> Result<(), Trouble> {
    let join = turn.join(airport).with(leg).timeout(JOIN_TIMEOUT);
    turn.defer(join).map_err(|refused| turn.common.note(refused))
}
