//! A component keeps no context over its callback.

use turnkeep_bus::{Component, Context, Failure, On};

struct Strategy {
    kept: Option<&'static mut Context<'static>>,
}

impl Component for Strategy {}

impl On<u64> for Strategy {
    fn on(&mut self, ctx: &mut Context<'_>, _: &u64) -> Result<(), Failure> {
        self.kept = Some(ctx);
        Ok(())
    }
}

fn main() {}
