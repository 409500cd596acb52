//! A Join has no Yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

struct Player;

impl Actor for Player {}

impl Handles<Hear> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Room>("other"));
        if let Some(mut turn) = turn.within::<Room>() {
            let _ = turn.yielding(join);
        }
        Ok(())
    }
}

fn main() {}
