//! `defer` is an ordinary function: there is nothing to await.

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
        let join = turn.join(turn.spot::<Room>("room"));
        let _ = turn.defer(join).await;
        Ok(())
    }
}

fn main() {}
