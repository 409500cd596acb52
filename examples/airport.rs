//! The first example: a Spot with two messages, and an Actor that joins it.

use turnkeep::prelude::*;

#[derive(Default)]
struct Airport {
    landed: u64,
}
#[derive(Default)]
struct Aircraft;

#[derive(Message)]
#[message(reply = u64)]
struct Land;
#[derive(Message)]
#[message(reply = u64)]
struct Count;
#[derive(Message)]
#[message(error = Failure)]
struct FlyTo(String);

impl Spot for Airport {
    type Mode = SpotWide;
}
impl Actor for Aircraft {}

impl Handles<Land> for Airport {
    async fn handle(turn: &mut Turn<'_, Self>, _: Land) -> Result<u64, Never> {
        turn.landed += 1; // no lock: nobody else is in this airport now
        Ok(turn.landed)
    }
}
impl Handles<Count> for Airport {
    async fn handle(turn: &mut Turn<'_, Self>, _: Count) -> Result<u64, Never> {
        Ok(turn.landed)
    }
}
impl Handles<FlyTo> for Aircraft {
    async fn handle(turn: &mut Turn<'_, Self>, fly: FlyTo) -> Result<(), Failure> {
        let join = turn.join(turn.spot::<Airport>(&fly.0));
        turn.defer(join)?; // moves once this handler has succeeded
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let node = Node::builder().spot::<Airport>("airport").actor::<Aircraft>("aircraft").start().await?;
    let jfk = node.spot::<Airport>("JFK").get_or_create().await?;
    let plane = node.actor::<Aircraft>("N14228").get_or_create().await?;
    plane.ask(FlyTo("JFK".into())).await?;
    jfk.ask(Land).await?;
    node.quiesce().await?;
    println!("{} landed at {}; in it: {:?}", jfk.ask(Count).await?, jfk.id(), jfk.members());
    node.shutdown().await?;
    Ok(())
}
