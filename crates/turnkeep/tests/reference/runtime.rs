//! The reference: one call after the other, by the contract and nothing else.

use std::collections::BTreeMap;

use super::scenario::{CLIENTS, LEAF, Op, SHARED, Scenario, actor, own_spot};

/// What a client is told: a number, or the kind of an error.
pub type Told = Result<u64, String>;

/// What is left at the end: sums by Spot and client, and where Actors are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Left {
    pub sums: BTreeMap<(String, u64), u64>,
    pub places: BTreeMap<String, String>,
}

/// All that the contract fixes of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    pub told: Vec<Vec<Told>>,
    pub left: Left,
}

/// The Entry Spot, where Actors are that are nowhere else.
pub const ENTRY: &str = "entry";

#[derive(Default)]
struct Reference {
    /// Sums by client; no entry, no Spot.
    spots: BTreeMap<String, BTreeMap<u64, u64>>,
    places: BTreeMap<String, String>,
}

pub fn run(scenario: &Scenario) -> Outcome {
    let mut reference = Reference::default();
    for spot in SHARED.iter().copied().chain([LEAF]) {
        reference.spots.insert(spot.to_owned(), BTreeMap::new());
    }
    for client in 0..CLIENTS {
        for number in 0..2 {
            reference.spots.insert(own_spot(client, number), BTreeMap::new());
            reference.places.insert(actor(client, number), ENTRY.to_owned());
        }
    }
    let play = |(client, script): (usize, &Vec<Op>)| {
        script.iter().map(|op| reference.call(client as u64, op)).collect()
    };
    let told = scenario.iter().enumerate().map(play).collect();
    Outcome { told, left: reference.left() }
}

/// A Spot that shares its gate: it may yield, and a member that asks it waits for itself.
fn shares_gate(spot: &str) -> bool {
    spot.starts_with("wide")
}

fn error(kind: &str) -> Told {
    Err(kind.to_owned())
}

impl Reference {
    fn call(&mut self, client: u64, op: &Op) -> Told {
        match op {
            Op::Send(spot, number) => self.add(client, spot, *number).map(|_| 0),
            Op::Ask(spot, number) => self.add(client, spot, *number),
            Op::Yield(spot, number) => {
                self.add(client, spot, *number)?;
                if !shares_gate(spot) {
                    return error("InvalidOperation");
                }
                Ok(self.add(client, LEAF, *number)? + self.add(client, spot, 0)?)
            }
            Op::Relay(_, number) => self.add(client, LEAF, *number),
            Op::Own(actor, number) => {
                let place = self.places[actor].clone();
                match place.as_str() {
                    ENTRY => error("NotFound"),
                    spot if shares_gate(spot) => error("InvalidOperation"),
                    spot => self.add(client, spot, *number),
                }
            }
            Op::Go(actor, spot) => {
                if self.spots.contains_key(spot) {
                    self.places.insert(actor.clone(), spot.clone());
                }
                Ok(0)
            }
            Op::GoAndFail(..) => error("Application"),
            Op::Where(actor) => Ok(place_number(&self.places[actor])),
            Op::Panic(spot) => self.add(client, spot, 0).and(error("InternalFailure")),
            Op::Create(spot) if self.spots.contains_key(spot) => error("AlreadyExists"),
            Op::Create(spot) => {
                self.spots.insert(spot.clone(), BTreeMap::new());
                Ok(0)
            }
            // Whoever is in it goes first.
            Op::Close(spot) if self.places.values().any(|place| place == spot) => error("InvalidOperation"),
            Op::Close(spot) => self.spots.remove(spot).map(|_| 0).ok_or_else(|| "NotFound".to_owned()),
        }
    }

    fn add(&mut self, client: u64, spot: &str, number: u64) -> Told {
        let sums = self.spots.get_mut(spot).ok_or_else(|| "NotFound".to_owned())?;
        let sum = sums.entry(client).or_default();
        *sum += number;
        Ok(*sum)
    }

    fn left(self) -> Left {
        let sums = self.spots.into_iter().flat_map(|(spot, sums)| {
            sums.into_iter()
                .filter(|(_, sum)| *sum > 0)
                .map(move |(client, sum)| ((spot.clone(), client), sum))
        });
        Left { sums: sums.collect(), places: self.places }
    }
}

/// A place as a number that a reply can carry.
pub fn place_number(place: &str) -> u64 {
    place.bytes().fold(7, |number, byte| number.wrapping_mul(31).wrapping_add(u64::from(byte)))
}
