//! A close has no Yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let close = turn.this_spot().close();
        let _ = turn.yielding(close);
        Ok(())
    }
}

fn main() {}
