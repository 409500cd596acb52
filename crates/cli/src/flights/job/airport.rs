//! An airport: a Spot that admits aircraft and counts what happens at it, in one of two modes.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep::{
    Admission, Failure, Handles, Joining, Lifecycle, Member, Never, OnOwnTick, OnTick, PerActor, Spot,
    SpotWide, Tick, TimerTurn, Turn,
};

use super::super::reference::AirportTotals;
use super::board::{BOARD, Board};
use super::common::Common;
use super::kind::Kind;
use super::messages::{AirportCounts, Cancelled, CloseHour, Departed, End, Flown, HourClosed, Leg};
use super::overlap::Overlap;

/// An airport of either mode. In `SpotWide` the aircraft in it reach its state; in `PerActor` they ask.
pub(super) struct Airport<M> {
    code: String,
    totals: AirportTotals,
    /// Departures since the last full hour.
    hour: u64,
    /// Of the gate: in `SpotWide` the turns of the aircraft in it count too.
    pub(super) overlap: Arc<Overlap>,
    /// The departures once more, for the view.
    shown: Arc<AtomicU64>,
    common: Arc<Common>,
    _mode: PhantomData<fn() -> M>,
}

impl<M> Airport<M> {
    pub(super) fn new(code: &str, common: &Arc<Common>) -> Self {
        Self {
            code: code.to_owned(),
            totals: AirportTotals::default(),
            hour: 0,
            overlap: Arc::default(),
            shown: common.departures_shown(code),
            common: Arc::clone(common),
            _mode: PhantomData,
        }
    }

    /// A flight leaves.
    pub(super) fn depart(&mut self) {
        self.totals.departures += 1;
        self.hour += 1;
        self.shown.fetch_add(1, Ordering::Relaxed);
    }

    /// A flight that had left is over, here.
    pub(super) fn end(&mut self, end: End) {
        (self.common.rules.record)(&self.code, &mut self.totals, end);
    }
}

impl<M: Kind> Airport<M> {
    /// Closes the hour, or the hours that have passed since, and reports it to the board.
    async fn close_hour(turn: &mut Turn<'_, Self>, hours: u64) {
        let hour = HourClosed { hours, departures: std::mem::take(&mut turn.hour) };
        let told = turn.spot::<Board>(BOARD).send(hour).or_create().await;
        if let Err(error) = told {
            turn.common.note(error);
        }
    }
}

/// In `SpotWide` the tick is a turn of the airport's gate.
impl OnTick for Airport<SpotWide> {
    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
        let overlap = Arc::clone(&turn.overlap);
        let _inside = overlap.enter();
        Self::close_hour(turn, 1 + tick.skipped()).await;
        Ok(())
    }
}

/// In `PerActor` the tick has a gate of its own and tells the airport.
impl OnOwnTick for Airport<PerActor> {
    async fn on_tick(turn: &mut TimerTurn<Self>, tick: Tick) -> Result<(), Failure> {
        turn.this_spot().send(CloseHour { hours: 1 + tick.skipped() }).await?;
        Ok(())
    }
}

impl Handles<CloseHour> for Airport<PerActor> {
    async fn handle(turn: &mut Turn<'_, Self>, close: CloseHour) -> Result<(), Never> {
        let overlap = Arc::clone(&turn.overlap);
        let _inside = overlap.enter();
        Self::close_hour(turn, close.hours).await;
        Ok(())
    }
}

impl<M: Kind> Spot for Airport<M> {
    type Mode = M;

    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        Ok(M::keep_hours(turn)?)
    }

    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        let _inside = turn.overlap.enter();
        match joining.request::<Leg>() {
            Some(leg) => (turn.common.rules.admit)(&turn.code, *leg),
            None => Err(Failure::new("a Join without the leg it is for")),
        }
    }

    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        let _inside = turn.overlap.enter();
        Ok(())
    }

    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        let _inside = turn.overlap.enter();
        Ok(())
    }
}

impl<M: Kind> Handles<Cancelled> for Airport<M> {
    async fn handle(turn: &mut Turn<'_, Self>, cancelled: Cancelled) -> Result<(), Never> {
        let _inside = turn.overlap.enter();
        turn.common.started(cancelled.sent);
        turn.totals.cancellations += 1;
        turn.common.row_done();
        Ok(())
    }
}

impl Handles<Departed> for Airport<PerActor> {
    async fn handle(turn: &mut Turn<'_, Self>, departed: Departed) -> Result<(), Never> {
        let _inside = turn.overlap.enter();
        turn.common.started(departed.sent);
        turn.depart();
        Ok(())
    }
}

impl Handles<Flown> for Airport<PerActor> {
    async fn handle(turn: &mut Turn<'_, Self>, flown: Flown) -> Result<(), Never> {
        let _inside = turn.overlap.enter();
        turn.common.started(flown.sent);
        turn.end(flown.end);
        Ok(())
    }
}

impl<M: Kind> Handles<AirportCounts> for Airport<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: AirportCounts) -> Result<(AirportTotals, u64, u64), Never> {
        Ok((turn.totals, turn.overlap.found(), turn.hour))
    }
}
