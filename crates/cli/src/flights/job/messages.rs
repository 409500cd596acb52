//! What the reader and the objects tell and ask each other.

use std::time::{Duration, Instant};

use turnkeep::{HeapSize, Message, SpotRef};

use super::super::reference::AirportTotals;
use super::aircraft::Logbook;
use super::airport::Airport;
use super::board::{Hours, Sums};
use super::common::Trouble;

/// When a message was sent.
#[derive(Clone, Copy, Debug, HeapSize)]
pub(super) struct Sent(Instant);

impl Sent {
    pub(super) fn now() -> Self {
        Self(Instant::now())
    }

    /// How long ago that was. For a message that had to wait for room, that wait is part of it.
    pub(super) fn wait(self) -> Duration {
        self.0.elapsed()
    }
}

/// To an aircraft: be at the airport from which the next flight leaves.
#[derive(Message)]
#[message(error = Trouble)]
pub(super) struct Position<M> {
    #[message(no_heap)]
    pub(super) origin: SpotRef<Airport<M>>,
    pub(super) sent: Sent,
}

/// To an aircraft, at the origin: leave.
#[derive(Message)]
#[message(error = Trouble)]
pub(super) struct Fly<M> {
    #[message(no_heap)]
    pub(super) destination: SpotRef<Airport<M>>,
    /// Minutes late at the destination; none if the flight will be diverted.
    pub(super) arr_delay: Option<i32>,
    pub(super) sent: Sent,
}

/// To an aircraft, where the flight has ended: tell it there, and to the board.
#[derive(Message)]
#[message(error = Trouble)]
pub(super) struct Report {
    pub(super) sent: Sent,
}

/// To an airport: a flight that should have left will not.
#[derive(Message)]
pub(super) struct Cancelled {
    pub(super) sent: Sent,
}

/// To an airport: a flight leaves.
#[derive(Message)]
pub(super) struct Departed {
    pub(super) sent: Sent,
}

/// To an airport and to the board: a flight that had left is over.
#[derive(Message)]
pub(super) struct Flown {
    pub(super) end: End,
    pub(super) sent: Sent,
}

/// How a flight that had left ended.
#[derive(Clone, Copy, Debug, Eq, HeapSize, PartialEq)]
pub(super) enum End {
    /// At its destination, that many minutes late.
    Arrived {
        /// Below zero if it was early.
        minutes: i32,
    },
    /// Nowhere, as far as this job goes: the aircraft is still at the origin.
    Diverted,
}

/// What a Join carries: why the aircraft comes.
#[derive(Clone, Copy, Debug, Eq, HeapSize, PartialEq)]
pub(super) enum Leg {
    /// To be where its next flight leaves.
    Repositioning,
    /// A flight of the file.
    Flight {
        /// Minutes late at the destination; none if the flight is diverted.
        arr_delay: Option<i32>,
    },
}

/// To an airport: what have you counted?
#[derive(Message)]
#[message(reply = (AirportTotals, u64, u64))]
pub(super) struct AirportCounts;

/// To an aircraft: what have you counted?
#[derive(Message)]
#[message(reply = (Logbook, u64))]
pub(super) struct AircraftCounts;

/// To the board: what have you counted?
#[derive(Message)]
#[message(reply = (Sums, Hours, u64))]
pub(super) struct BoardCounts;

/// To a `PerActor` airport, from its timer: so many hours are over.
#[derive(Message)]
pub(super) struct CloseHour {
    pub(super) hours: u64,
}

/// To the board: an airport has closed so many hours, with so many departures.
#[derive(Message)]
pub(super) struct HourClosed {
    pub(super) hours: u64,
    pub(super) departures: u64,
}
