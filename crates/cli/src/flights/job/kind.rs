//! What differs between the two kinds of airport: how an aircraft reaches the one it is in.

use std::future::Future;
use std::time::Duration;

use turnkeep::{Admits, Error, Lifecycle, Mode, PerActor, SpotWide, Timer, Turn};

use super::aircraft::Aircraft;
use super::airport::Airport;
use super::board::{BOARD, Board};
use super::common::Trouble;
use super::messages::{Departed, End, Flown, Sent};
use super::overlap::Inside;

/// Of the simulated clock.
const HOUR: Duration = Duration::from_secs(3600);

/// A mode of airports.
pub(super) trait Kind: Mode + Admits + Send + Sized {
    /// Registers the timer that closes an airport's hours.
    fn keep_hours(turn: &mut Lifecycle<'_, Airport<Self>>) -> Result<(), Error>;

    /// A turn of an aircraft begins: in, at the counter of whatever gate it holds.
    fn enter(turn: &mut Turn<'_, Aircraft<Self>>) -> Inside;

    /// A completion callback of an aircraft begins: the same.
    fn enter_callback(turn: &mut Lifecycle<'_, Aircraft<Self>>) -> Inside;

    /// Records a departure in the airport where the aircraft is.
    fn depart(turn: &mut Turn<'_, Aircraft<Self>>) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Records the end of a flight in the airport where the aircraft is, and tells the board.
    fn report(
        turn: &mut Turn<'_, Aircraft<Self>>,
        end: End,
        inside: Inside,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}

/// An aircraft in an airport holds the airport's gate, reaches its state, and yields while the board answers.
impl Kind for SpotWide {
    fn keep_hours(turn: &mut Lifecycle<'_, Airport<Self>>) -> Result<(), Error> {
        let hour = to_the_hour(turn.now());
        turn.timer("hour", hour)
    }

    fn enter(turn: &mut Turn<'_, Aircraft<Self>>) -> Inside {
        match turn.within::<Airport<Self>>() {
            Some(mut within) => within.spot_state().overlap.enter(),
            None => turn.overlap.enter(),
        }
    }

    fn enter_callback(turn: &mut Lifecycle<'_, Aircraft<Self>>) -> Inside {
        if let Some(mut within) = turn.within::<Airport<Self>>()
            && let Some((_, airport)) = within.try_both()
        {
            return airport.overlap.enter();
        }
        turn.overlap.enter()
    }

    async fn depart(turn: &mut Turn<'_, Aircraft<Self>>) -> Result<(), Trouble> {
        match turn.within::<Airport<Self>>() {
            Some(mut within) => {
                within.spot_state().depart();
                Ok(())
            }
            None => Err(nowhere(turn)),
        }
    }

    async fn report(turn: &mut Turn<'_, Aircraft<Self>>, end: End, inside: Inside) -> Result<(), Trouble> {
        let Some(mut turn) = turn.within::<Airport<Self>>() else { return Err(nowhere(turn)) };
        let airport = turn.spot_state();
        airport.end(end);
        let overlap = airport.overlap.clone();
        let grant = turn.grant();
        let told = turn.spot::<Board>(BOARD).ask(Flown { end, sent: Sent::now() }).or_create();
        // Other turns of the airport may be inside until this one goes on.
        drop(inside);
        let told = turn.yielding(told).await;
        let _inside = overlap.enter();
        // Another grant means that the gate was given up in between.
        turn.log.yields += u64::from(turn.grant() != grant);
        told.map_err(|error| turn.common.note(error))
    }
}

/// An aircraft has a gate of its own, asks the airport and the board, and keeps the gate while it waits.
impl Kind for PerActor {
    fn keep_hours(turn: &mut Lifecycle<'_, Airport<Self>>) -> Result<(), Error> {
        let hour = to_the_hour(turn.now());
        turn.own_timer("hour", hour)
    }

    fn enter(turn: &mut Turn<'_, Aircraft<Self>>) -> Inside {
        turn.overlap.enter()
    }

    fn enter_callback(turn: &mut Lifecycle<'_, Aircraft<Self>>) -> Inside {
        turn.overlap.enter()
    }

    async fn depart(turn: &mut Turn<'_, Aircraft<Self>>) -> Result<(), Trouble> {
        let Some(place) = turn.place() else { return Err(nowhere(turn)) };
        let noted = turn.spot::<Airport<Self>>(&place).ask(Departed { sent: Sent::now() }).await;
        noted.map_err(|error| turn.common.note(error))
    }

    async fn report(turn: &mut Turn<'_, Aircraft<Self>>, end: End, inside: Inside) -> Result<(), Trouble> {
        let _inside = inside;
        let Some(place) = turn.place() else { return Err(nowhere(turn)) };
        let noted = turn.spot::<Airport<Self>>(&place).ask(Flown { end, sent: Sent::now() }).await;
        noted.map_err(|error| turn.common.note(error))?;
        let told = turn.spot::<Board>(BOARD).ask(Flown { end, sent: Sent::now() }).or_create().await;
        told.map_err(|error| turn.common.note(error))
    }
}

/// Every full hour of the simulated clock, which began at one.
fn to_the_hour(now: Duration) -> Timer {
    let past = Duration::from_secs(now.as_secs() % HOUR.as_secs());
    Timer::every(HOUR).first_after(HOUR - past)
}

fn nowhere<M: Kind>(turn: &Turn<'_, Aircraft<M>>) -> Trouble {
    turn.common.note("an aircraft had to leave or to report while it was in no airport")
}
