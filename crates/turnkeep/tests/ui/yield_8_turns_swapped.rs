//! Two turns are not exchanged.

use turnkeep::prelude::*;

#[derive(Message)]
struct Hear;

struct Room;

impl Spot for Room {
    type Mode = SpotWide;
}

fn swap<'a>(one: &mut Turn<'a, Room>, other: &mut Turn<'_, Room>) {
    std::mem::swap(one, other);
}

fn main() {}
