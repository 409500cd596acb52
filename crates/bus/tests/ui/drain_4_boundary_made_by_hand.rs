//! A boundary is made by a run loop, by nobody else.

use turnkeep_bus::{Boundary, Bus};

fn main() {
    let mut bus = Bus::default();
    let boundary = Boundary { core: &mut bus.core };
    let _ = boundary;
}
