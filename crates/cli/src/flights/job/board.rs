//! The board: one Instance Spot, made by its first message, that sums up what all aircraft report.

use std::sync::Arc;

use turnkeep::{Handles, Instance, Never, Spot, Turn};

use super::common::Common;
use super::messages::{BoardCounts, End, Flown, HourClosed};
use super::overlap::Overlap;

/// The board's id. No airport can have it for its code, which is letters and digits alone.
pub(super) const BOARD: &str = "the-board";

/// What was reported, summed up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) departed: u64,
    pub(super) arrived: u64,
    pub(super) diverted: u64,
    pub(super) arrival_delay_sum: i64,
}

impl Sums {
    fn add(&mut self, end: End) {
        self.departed += 1;
        match end {
            End::Arrived { minutes } => {
                self.arrived += 1;
                self.arrival_delay_sum += i64::from(minutes);
            }
            End::Diverted => self.diverted += 1,
        }
    }
}

/// The hours that airports have closed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hours {
    pub(super) closed: u64,
    pub(super) departures: u64,
}

pub(super) struct Board {
    sums: Sums,
    hours: Hours,
    overlap: Arc<Overlap>,
    common: Arc<Common>,
}

impl Board {
    pub(super) fn new(common: &Arc<Common>) -> Self {
        Self {
            sums: Sums::default(),
            hours: Hours::default(),
            overlap: Arc::default(),
            common: Arc::clone(common),
        }
    }
}

impl Spot for Board {
    type Mode = Instance;
}

impl Handles<Flown> for Board {
    async fn handle(turn: &mut Turn<'_, Self>, flown: Flown) -> Result<(), Never> {
        let _inside = turn.overlap.enter();
        turn.common.started(flown.sent);
        turn.sums.add(flown.end);
        turn.common.row_done();
        Ok(())
    }
}

impl Handles<HourClosed> for Board {
    async fn handle(turn: &mut Turn<'_, Self>, hour: HourClosed) -> Result<(), Never> {
        let _inside = turn.overlap.enter();
        turn.hours.closed += hour.hours;
        turn.hours.departures += hour.departures;
        Ok(())
    }
}

impl Handles<BoardCounts> for Board {
    async fn handle(turn: &mut Turn<'_, Self>, _: BoardCounts) -> Result<(Sums, Hours, u64), Never> {
        Ok((turn.sums, turn.hours, turn.overlap.found()))
    }
}
