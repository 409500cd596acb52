//! Lifecycle callbacks do not yield.

use turnkeep::prelude::*;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;

    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        let work = turn.cpu(|| ());
        turn.yielding(work).await?;
        Ok(())
    }
}

fn main() {}
