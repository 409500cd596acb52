//! The first things a newcomer tries.

use turnkeep::prelude::*;

#[derive(Default)]
struct Airport {
    landed: u64,
}
#[derive(Default)]
struct Aircraft {
    legs: u32,
    completed: Vec<String>,
}

#[derive(Message)]
#[message(reply = u64)]
struct Land {
    late: i32,
}
#[derive(Message)]
#[message(reply = u64)]
struct Landed;
#[derive(Message)]
struct Fly {
    to: String,
}
#[derive(Message)]
#[message(reply = (u32, Option<String>, Vec<String>))]
struct Where;

impl Spot for Airport {
    type Mode = SpotWide;
}
impl Actor for Aircraft {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        let text = format!("{}:{}", done.target(), done.is_accepted());
        turn.completed.push(text);
        Ok(())
    }
}
impl Handles<Land> for Airport {
    async fn handle(turn: &mut Turn<'_, Self>, land: Land) -> Result<u64, Never> {
        let _ = land.late;
        turn.landed += 1;
        Ok(turn.landed)
    }
}
impl Handles<Landed> for Airport {
    async fn handle(turn: &mut Turn<'_, Self>, _: Landed) -> Result<u64, Never> {
        Ok(turn.landed)
    }
}
impl Handles<Fly> for Aircraft {
    async fn handle(turn: &mut Turn<'_, Self>, fly: Fly) -> Result<(), Never> {
        turn.legs += 1;
        let join = turn.join(turn.spot::<Airport>(&fly.to));
        turn.defer(join).unwrap();
        Ok(())
    }
}
impl Handles<Where> for Aircraft {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        _: Where,
    ) -> Result<(u32, Option<String>, Vec<String>), Never> {
        if let Some(mut turn) = turn.within::<Airport>() {
            turn.spot_state().landed += 100;
            let ask = turn.spot::<Airport>("LGA").ask(Land { late: 1 });
            turn.yielding(ask).await.unwrap();
        }
        Ok((turn.legs, turn.place(), turn.completed.clone()))
    }
}

#[tokio::test]
async fn a_node_answers() {
    let node = Node::builder()
        .workers(2)
        .spot::<Airport>("airport")
        .actor::<Aircraft>("aircraft")
        .start()
        .await
        .unwrap();
    let jfk = node.spot::<Airport>("JFK").get_or_create().await.unwrap();
    let _lga = node.spot::<Airport>("LGA").get_or_create().await.unwrap();
    for n in 1..=1000 {
        assert_eq!(jfk.ask(Land { late: 4 }).await.unwrap(), n);
    }
    let plane = node.actor::<Aircraft>("N1").get_or_create().await.unwrap();
    assert_eq!(plane.place(), Some(node.entry_id()));
    plane.send(Fly { to: "JFK".into() }).await.unwrap();
    let (legs, place, completed) = plane.ask(Where).await.unwrap();
    assert_eq!((legs, place.as_deref()), (1, Some("JFK")));
    assert_eq!(completed, ["JFK:true"]);
    plane.send(Fly { to: "LGA".into() }).await.unwrap();
    plane.send(Fly { to: "XXX".into() }).await.unwrap();
    node.quiesce().await.unwrap();
    assert_eq!(plane.place().as_deref(), Some("LGA"));
    assert_eq!(jfk.ask(Landed).await.unwrap(), 1100);
    jfk.close().await.unwrap();
    let report = node.shutdown().await.unwrap();
    assert!(!report.forced);
}
