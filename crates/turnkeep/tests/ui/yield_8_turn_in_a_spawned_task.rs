//! A turn does not leave its handler in a task.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        drop(turn.node().spawn(async move {
            turn.state();
        }));
        Ok(())
    }
}

fn main() {}
