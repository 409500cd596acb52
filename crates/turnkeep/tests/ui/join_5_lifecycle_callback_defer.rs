//! Lifecycle callbacks do not defer.

use turnkeep::prelude::*;

struct Player;

impl Actor for Player {
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        let join = turn.this_actor().join(turn.spot::<Room>("room"));
        turn.defer(join);
        Ok(())
    }
}

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

fn main() {}
