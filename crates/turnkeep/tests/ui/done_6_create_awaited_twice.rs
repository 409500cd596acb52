//! A creation is awaited once.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let create = turn.spot::<Room>("other").create();
        let _ = create.await;
        let _ = create.await;
        Ok(())
    }
}

fn main() {}
