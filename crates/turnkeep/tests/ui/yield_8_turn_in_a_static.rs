//! A turn does not leave its handler through a static.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

static STASH: std::sync::Mutex<Option<&mut Turn<'static, Room>>> = std::sync::Mutex::new(None);

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Hear> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hear) -> Result<(), Never> {
        *STASH.lock().unwrap() = Some(turn);
        Ok(())
    }
}

fn main() {}
