//! Nested publication: what is published inside a publication comes after it, whoever was called first.

use turnkeep::bus::{Bus, Component, Context, Failure, Hosted, On};

/// Prints what it gets; the first listener answers "order" with "confirmation".
struct Listener(&'static str);

impl Component for Listener {}

impl On<&'static str> for Listener {
    fn on(&mut self, ctx: &mut Context<'_>, event: &&'static str) -> Result<(), Failure> {
        println!("  {} gets {event}", self.0);
        if self.0 == "first" && *event == "order" {
            println!("    and publishes confirmation");
            ctx.publish_to("confirmations", "confirmation")?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Failure> {
    let mut bus = Hosted::new(Bus::default());
    for name in ["first", "second"] {
        let id = bus.context().register(name, Listener(name))?;
        bus.context().subscribe::<_, &'static str>(id, "orders", 0)?;
        bus.context().subscribe::<_, &'static str>(id, "confirmations", 0)?;
        bus.context().start(id)?;
    }
    let auditor = bus.context().register("auditor", Listener("auditor"))?;
    bus.context().subscribe::<_, &'static str>(auditor, "audit", 0)?;
    bus.context().start(auditor)?;
    // A raw callable runs inside the publication, before anybody's queued callback.
    bus.context().subscribe_raw("raw", "orders", 9, |ctx, _| {
        println!("  raw is called at once and publishes audit");
        // The name is right and free, so this cannot fail.
        let _ = ctx.publish_to("audit", "audit");
    })?;
    println!("order is published:");
    bus.context().publish_to("orders", "order")?;
    println!("the publication has ended; now its callbacks are delivered:");
    bus.settle()?;
    println!(
        "order came first for both, though audit was published before anybody had it: the order is that of the"
    );
    println!("publications' beginnings, and confirmation began last.");
    let metrics = bus.context().metrics();
    assert_eq!((metrics.deliveries, metrics.roots), (5, 1));
    Ok(())
}
