//! A reference into the state does not live over a Yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room {
    names: Vec<String>,
}

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let names = &turn.names;
        let ask = turn.spot::<Room>("other").ask(Hear);
        let _ = turn.yielding(ask).await;
        drop(names.first());
        Ok(())
    }
}

fn main() {}
