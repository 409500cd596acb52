//! An Actor that does not say in which Spot it is does not yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Player;

impl Actor for Player {}

impl Handles<Hear> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let work = turn.cpu(|| ());
        let _ = turn.yielding(work).await;
        Ok(())
    }
}

fn main() {}
