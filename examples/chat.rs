//! A chat room: a `SpotWide` Spot whose members take their turns in it, one at a time, without a lock.

use turnkeep::prelude::*;

/// A room keeps what was said; its members reach it in their own turns.
#[derive(Default)]
struct Room {
    said: Vec<String>,
}

/// A person counts what reached them.
#[derive(Default)]
struct Person {
    heard: Vec<String>,
}

#[derive(Message)]
#[message(error = Failure)]
struct Enter(String);

#[derive(Message)]
#[message(error = Failure)]
struct Say(String);

#[derive(Message)]
struct Hear(String);

#[derive(Message)]
#[message(reply = Vec<String>)]
struct Heard;

impl Spot for Room {
    type Mode = SpotWide;

    /// Three people are a full room.
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        let room = turn.this_spot();
        if room.members().len() >= 3 {
            return Ok(Admission::reject_with(format!("{} is full, {}", room.id(), joining.actor().id())));
        }
        turn.said.push(format!("* {} comes in", joining.actor().id()));
        Ok(Admission::Accept)
    }
}

impl Actor for Person {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, join: JoinCompleted) -> Result<(), Failure> {
        if let JoinOutcome::Rejected(Some(reply)) = join.into_outcome()
            && let Ok(why) = reply.take::<String>()
        {
            turn.heard.push(why);
        }
        Ok(())
    }
}

impl Handles<Enter> for Person {
    async fn handle(turn: &mut Turn<'_, Self>, enter: Enter) -> Result<(), Failure> {
        let join = turn.join(turn.spot::<Room>(&enter.0));
        turn.defer(join)?;
        Ok(())
    }
}

impl Handles<Say> for Person {
    async fn handle(turn: &mut Turn<'_, Self>, say: Say) -> Result<(), Failure> {
        let me = turn.id().to_owned();
        let Some(mut turn) = turn.within::<Room>() else {
            return Err(Failure::new(format!("{me} is in no room")));
        };
        let line = format!("{me}: {}", say.0);
        turn.spot_state().said.push(line.clone());
        let room = turn.place().unwrap_or_default();
        for other in turn.spot::<Room>(&room).find()?.members() {
            if other != me {
                turn.actor::<Person>(&other).send(Hear(line.clone())).await?;
            }
        }
        Ok(())
    }
}

impl Handles<Hear> for Person {
    async fn handle(turn: &mut Turn<'_, Self>, hear: Hear) -> Result<(), Never> {
        turn.heard.push(hear.0);
        Ok(())
    }
}

impl Handles<Heard> for Person {
    async fn handle(turn: &mut Turn<'_, Self>, _: Heard) -> Result<Vec<String>, Never> {
        Ok(std::mem::take(&mut turn.heard))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let node = Node::builder().spot::<Room>("room").actor::<Person>("person").start().await?;
    node.spot::<Room>("lounge").create().await?;
    for name in ["ann", "bob", "cyd", "dan"] {
        let person = node.actor::<Person>(name).create().await?;
        person.ask(Enter("lounge".into())).await?;
        node.quiesce().await?;
    }
    node.actor::<Person>("ann").ask(Say("hello".into())).await?;
    node.actor::<Person>("bob").ask(Say("hi, ann".into())).await?;
    node.quiesce().await?;
    for name in ["ann", "bob", "cyd", "dan"] {
        println!("{name} heard {:?}", node.actor::<Person>(name).ask(Heard).await?);
    }
    assert!(node.actor::<Person>("dan").ask(Say("anyone?".into())).await.is_err(), "dan is outside");
    node.shutdown().await?;
    Ok(())
}
