//! Nothing is delivered while a component is borrowed.

use turnkeep_bus::{Bus, Component, Hosted};

struct Strategy(u64);

impl Component for Strategy {}

fn main() {
    let mut bus = Hosted::new(Bus::default());
    let id = bus.context().register("strategy", Strategy(0)).unwrap();
    let access = bus.access(id).unwrap();
    bus.boundary().drain(1);
    println!("{}", access.0);
}
