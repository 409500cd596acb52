//! An ask is awaited once.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let ask = turn.spot::<Room>("other").ask(Hear);
        let _ = ask.await;
        let _ = ask.await;
        Ok(())
    }
}

fn main() {}
