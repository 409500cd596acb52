//! A bus in a Spot: a trading engine takes its turns in batches, beside ordinary Spots of the same node.

use turnkeep::bus::{Bus, Component, ComponentId, Context, Hosted, On, Progress};
use turnkeep::prelude::*;

/// Counts the ticks it gets, and publishes every tenth sum.
#[derive(Default)]
struct Counter(u64);

impl Component for Counter {}

impl On<u64> for Counter {
    fn on(&mut self, ctx: &mut Context<'_>, tick: &u64) -> Result<(), turnkeep::bus::Failure> {
        self.0 += tick;
        if tick.is_multiple_of(10) {
            ctx.publish_to("sums", self.0)?;
        }
        Ok(())
    }
}

/// The Spot that hosts the bus: its gate is the bus's thread.
struct Engine {
    bus: Hosted,
    counter: ComponentId<Counter>,
    batches: u64,
}

impl Default for Engine {
    fn default() -> Self {
        let mut bus = Hosted::new(Bus::default());
        let set_up = |ctx: &mut Context<'_>| -> Result<ComponentId<Counter>, turnkeep::bus::Failure> {
            let counter = ctx.register("counter", Counter::default())?;
            ctx.subscribe::<_, u64>(counter, "ticks", 0)?;
            ctx.start(counter)?;
            Ok(counter)
        };
        match set_up(&mut bus.context()) {
            Ok(counter) => Self { bus, counter, batches: 0 },
            Err(failure) => panic!("an empty bus takes a component: {failure}"),
        }
    }
}

#[derive(Message)]
struct Ticks(u64);

/// One batch of callbacks; more are asked for with the same message, behind whatever else waits for the Spot.
#[derive(Message)]
struct Work;

#[derive(Message)]
#[message(reply = (u64, u64))]
struct Sum;

impl Spot for Engine {
    type Mode = SpotWide;
}

impl Handles<Ticks> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, ticks: Ticks) -> Result<(), Never> {
        for tick in 1..=ticks.0 {
            // The topic carries nothing but ticks.
            let _ = turn.bus.context().publish_to("ticks", tick);
        }
        let _ = turn.this_spot().try_send(Work);
        Ok(())
    }
}

impl Handles<Work> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, _: Work) -> Result<(), Never> {
        turn.batches += 1;
        match turn.bus.batch() {
            Ok(Progress::More) => drop(turn.this_spot().try_send(Work)),
            Ok(_) => {}
            Err(halt) => eprintln!("the engine has halted: {halt}"),
        }
        Ok(())
    }
}

impl Handles<Sum> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, _: Sum) -> Result<(u64, u64), Never> {
        let (counter, batches) = (turn.counter, turn.batches);
        let sum = turn.bus.access(counter).map_or(0, |counter| counter.0);
        Ok((sum, batches))
    }
}

/// An ordinary Spot beside it.
#[derive(Default)]
struct Room(u64);

#[derive(Message)]
#[message(reply = u64)]
struct Enter;

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Enter> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Enter) -> Result<u64, Never> {
        turn.0 += 1;
        Ok(turn.0)
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let node = Node::builder().spot::<Engine>("engine").spot::<Room>("room").start().await?;
    let engine = node.spot::<Engine>("engine").get_or_create().await?;
    let room = node.spot::<Room>("room").get_or_create().await?;
    engine.send(Ticks(1_000)).await?;
    let visitors = room.ask(Enter).await?;
    node.quiesce().await?;
    let (sum, batches) = engine.ask(Sum).await?;
    println!(
        "1,000 ticks came to {sum} in {batches} batches of at most 64; meanwhile {visitors} entered the room"
    );
    assert_eq!(sum, 500_500);
    assert!(batches >= 1_000 / 64);
    node.shutdown().await?;
    Ok(())
}
