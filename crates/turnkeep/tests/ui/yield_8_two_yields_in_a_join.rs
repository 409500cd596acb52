//! One handler does not join two Yields.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let (one, two) = (turn.cpu(|| ()), turn.cpu(|| ()));
        let _ = futures_util::join!(turn.yielding(one), turn.yielding(two));
        Ok(())
    }
}

fn main() {}
