//! A mutable reference into the state does not live over a Yield.

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
        let ask = turn.spot::<Room>("other").ask(Hear);
        let names = &mut turn.state().names;
        let _ = turn.yielding(ask).await;
        names.clear();
        Ok(())
    }
}

fn main() {}
