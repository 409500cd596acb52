//! A send has no Yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let send = turn.spot::<Room>("other").send(Hear);
        let _ = turn.yielding(send);
        Ok(())
    }
}

fn main() {}
