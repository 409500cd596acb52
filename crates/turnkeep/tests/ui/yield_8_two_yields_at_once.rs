//! One handler does not yield twice at once.

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
        let (one, two) = (turn.yielding(one), turn.yielding(two));
        let _ = (one.await, two.await);
        Ok(())
    }
}

fn main() {}
