//! The Entry Spot does not yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = Entry;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let ask = turn.spot::<Room>("other").ask(Hear);
        let _ = turn.yielding(ask).await;
        Ok(())
    }
}

fn main() {}
