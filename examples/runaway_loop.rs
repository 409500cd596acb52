//! A runaway loop: two callbacks that answer each other without end become a fault report, not a full stack.

use turnkeep::bus::{Bus, Component, Context, Failure, Halt, Hosted, Limits, On};

/// Answers each event with one on the other topic.
struct Echo(&'static str);

impl Component for Echo {}

impl On<u64> for Echo {
    fn on(&mut self, ctx: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        Ok(ctx.publish_to(self.0, number + 1)?)
    }
}

fn main() -> Result<(), Failure> {
    let limits = Limits { deliveries: 1_000, ..Limits::default() };
    let mut bus = Hosted::new(Bus::builder().limits(limits).build());
    for (name, from, to) in [("ping", "pings", "pongs"), ("pong", "pongs", "pings")] {
        let id = bus.context().register(name, Echo(to))?;
        bus.context().subscribe::<_, u64>(id, from, 0)?;
        bus.context().start(id)?;
    }
    bus.context().publish_to("pings", 0_u64)?;
    match bus.settle() {
        Err(Halt::Fault(report)) => println!("{report}"),
        other => println!("not as expected: {other:?}"),
    }
    // The report comes first, then the teardown; after it the bus is as good as new.
    bus.boundary().teardown()?;
    let metrics = bus.context().metrics();
    println!("after the teardown: {} slots, {} units, {} bytes", metrics.depth, metrics.units, metrics.bytes);
    assert_eq!((metrics.deliveries, metrics.depth, metrics.bytes), (1_000, 0, 0));
    Ok(())
}
