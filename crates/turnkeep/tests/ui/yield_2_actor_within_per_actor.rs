//! An Actor cannot be within a `PerActor` Spot, and so does not yield there.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Player;

impl Actor for Player {}

struct Room;

impl Spot for Room {
    type Mode = PerActor;
}

impl Handles<Hear> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let _ = turn.within::<Room>();
        Ok(())
    }
}

fn main() {}
