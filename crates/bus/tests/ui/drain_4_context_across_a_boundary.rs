//! Nothing is delivered while the bus is borrowed.

use turnkeep_bus::{Bus, Hosted};

fn main() {
    let mut bus = Hosted::new(Bus::default());
    let ctx = bus.context();
    bus.boundary().drain(1);
    println!("{}", ctx.now_ns());
}
