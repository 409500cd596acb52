//! A member keeps no reference into the state of its Spot over a Yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room {
    names: Vec<String>,
}

impl Spot for Room {
    type Mode = SpotWide;
}

struct Player;

impl Actor for Player {}

impl Handles<Hear> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let mut turn = turn.within::<Room>().unwrap();
        let work = turn.cpu(|| ());
        let (_, room) = turn.both();
        let _ = turn.yielding(work).await;
        room.names.clear();
        Ok(())
    }
}

fn main() {}
