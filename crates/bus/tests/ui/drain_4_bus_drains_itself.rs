//! A bus without a run loop delivers nothing.

use turnkeep_bus::Bus;

fn main() {
    let mut bus = Bus::default();
    bus.boundary().drain(1);
}
