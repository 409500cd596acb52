//! One boundary at a time.

use turnkeep_bus::{Bus, Hosted};

fn main() {
    let mut bus = Hosted::new(Bus::default());
    let first = bus.boundary();
    let second = first.clone();
    drop((first, second));
}
