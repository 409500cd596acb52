//! Work is awaited once.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let work = turn.cpu(|| ());
        let _ = work.await;
        let _ = work.await;
        Ok(())
    }
}

fn main() {}
