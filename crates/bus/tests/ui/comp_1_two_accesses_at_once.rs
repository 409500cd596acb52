//! No component is reached twice at once.

use turnkeep_bus::{Bus, Component, Hosted};

struct Strategy(u64);

impl Component for Strategy {}

fn main() {
    let mut bus = Hosted::new(Bus::default());
    let id = bus.context().register("strategy", Strategy(0)).unwrap();
    let first = bus.access(id).unwrap();
    let second = bus.access(id).unwrap();
    println!("{}", first.0 + second.0);
}
