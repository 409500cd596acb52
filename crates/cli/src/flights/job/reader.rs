//! The reader: makes airports and aircraft as they first appear and hands every row to them when it is released.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use turnkeep::{ActorRef, Error, Node, SpotRef};

use super::super::input::{self, Fate, Flight};
use super::super::reference::Month;
use super::JobError;
use super::aircraft::Aircraft;
use super::airport::Airport;
use super::kind::Kind;
use super::messages::{Cancelled, Fly, Position, Report, Sent};
use super::pace::Pace;
use super::schedule::Schedule;

/// Hands out all rows, each when the clock has come to its release. It waits for that, and wherever a lane is full.
/// Returns what it has handed out if it was asked to stop before the end.
pub(super) async fn hand_out<M: Kind>(
    node: Node,
    rows: Schedule,
    pace: &Pace,
) -> Result<Option<Month>, JobError> {
    let mut known = Known::<M> { node, airports: HashMap::new(), aircraft: HashMap::new() };
    let mut taken = Month::default();
    for (release, row) in rows.into_rows() {
        if !pace.reach(release).await {
            return Ok(Some(taken));
        }
        taken.add(&row);
        known.hand_out(row).await.map_err(|error| JobError::node("hand out the rows", error))?;
    }
    Ok(None)
}

/// The objects that have appeared so far.
struct Known<M> {
    node: Node,
    airports: HashMap<input::Airport, SpotRef<Airport<M>>>,
    aircraft: HashMap<Arc<str>, ActorRef<Aircraft<M>>>,
}

impl<M: Kind> Known<M> {
    async fn hand_out(&mut self, flight: Flight) -> Result<(), Error> {
        let origin = self.airport(flight.origin).await?;
        let destination = self.airport(flight.destination).await?;
        match flight.fate {
            Fate::Cancelled => origin.send(Cancelled { sent: Sent::now() }).await?,
            Fate::Departed { tailnum, arr_delay } => {
                let aircraft = self.aircraft(tailnum).await?;
                aircraft.send(Position { origin, sent: Sent::now() }).await?;
                aircraft.send(Fly { destination, arr_delay, sent: Sent::now() }).await?;
                aircraft.send(Report { sent: Sent::now() }).await?;
            }
        }
        Ok(())
    }

    async fn airport(&mut self, code: input::Airport) -> Result<SpotRef<Airport<M>>, Error> {
        match self.airports.entry(code) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => {
                let airport = self.node.spot::<Airport<M>>(code.as_str()).get_or_create().await?;
                Ok(new.insert(airport).clone())
            }
        }
    }

    async fn aircraft(&mut self, tailnum: Arc<str>) -> Result<ActorRef<Aircraft<M>>, Error> {
        match self.aircraft.entry(tailnum) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => {
                let aircraft = self.node.actor::<Aircraft<M>>(new.key()).get_or_create().await?;
                Ok(new.insert(aircraft).clone())
            }
        }
    }
}
