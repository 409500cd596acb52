//! A callback has no boundary.

use turnkeep_bus::{Component, Context, Failure, On};

struct Strategy;

impl Component for Strategy {}

impl On<u64> for Strategy {
    fn on(&mut self, ctx: &mut Context<'_>, _: &u64) -> Result<(), Failure> {
        ctx.boundary().drain(1);
        Ok(())
    }
}

fn main() {}
