//! Nobody joins an Instance Spot.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = Instance;
}

struct Player;

impl Actor for Player {}

impl Handles<Hear> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let _ = turn.join(turn.spot::<Room>("cache"));
        Ok(())
    }
}

fn main() {}
