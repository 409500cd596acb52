//! The handler of a channel does not yield.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Desk;

impl Handler for Desk {}

impl Handles<Hear> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        let work = turn.cpu(|| ());
        let _ = turn.yielding(work).await;
        Ok(())
    }
}

fn main() {}
