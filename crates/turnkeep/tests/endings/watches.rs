//! DONE-8: `watch` tells every end, once, with its reason.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{End, PanicPolicy};

use super::stage::*;
use crate::support::{Signal, within};
use crate::world::*;

#[tokio::test]
async fn done_8_a_every_end_is_told_with_its_reason_before_and_after() {
    within(async {
        for workers in [1, 2] {
            let (node, _) = node_with(workers, PanicPolicy::Stop).await;
            let mut told = Vec::new();
            for (name, wanted) in [("closed", End::Closed), ("destroyed", End::Destroyed)] {
                let spot = node.spot::<Room>(name).create().await.unwrap();
                let before = tokio::spawn(spot.watch());
                match wanted {
                    End::Closed => spot.close().await.unwrap(),
                    _ => spot.destroy().await.unwrap(),
                }
                assert_eq!(before.await.unwrap().unwrap(), wanted);
                assert_eq!(spot.watch().await.unwrap(), wanted);
                told.push(wanted);
            }
            let player = node.actor::<Player>("p").create().await.unwrap();
            let before = tokio::spawn(player.watch());
            player.ask(act!(Player, [], |_turn| panic!("the ball is flat"))).await.map(|()| 0).unwrap_err();
            let panicked = End::Panicked("the ball is flat".to_owned());
            assert_eq!(before.await.unwrap().unwrap(), panicked);
            assert_eq!(player.watch().await.unwrap(), panicked);
            let room = node.spot::<Room>("shut").create().await.unwrap();
            let watch = tokio::spawn(room.watch());
            node.shutdown().await.unwrap();
            assert_eq!(watch.await.unwrap().unwrap(), End::Shutdown);
        }
    })
    .await;
}

#[tokio::test]
async fn done_8_b_cancelled_idle_and_not_made_are_told_apart() {
    within(async {
        let (node, _) = resting(2, Duration::from_millis(40)).await;
        let cache = node.spot::<Cache>("c").create().await.unwrap();
        assert_eq!(cache.watch().await.unwrap(), End::Idle);
        let (fails, go) = (Signal::new(), Signal::new());
        let state = Room {
            on_create: life!(Room, [fails, go], |_turn| {
                fails.set();
                go.wait().await;
                std::fs::read("/wet/paint")?;
            }),
            ..Room::default()
        };
        let making = tokio::spawn(node.spot::<Room>("r").create_with(state));
        fails.wait().await;
        let watch = tokio::spawn(node.spot::<Room>("r").find().unwrap().watch());
        go.set();
        assert_eq!(making.await.unwrap().unwrap_err().kind(), ErrorKind::Rejected);
        match watch.await.unwrap().unwrap() {
            End::NotMade(error) => assert!(error.to_string().contains("could not be made"), "{error}"),
            other => panic!("{other:?}"),
        }
        let room = node.spot::<Room>("stuck").create().await.unwrap();
        let never = hold(&room).await;
        let watch = tokio::spawn(room.watch());
        assert!(node.shutdown_within(Duration::from_millis(80)).await.unwrap().forced);
        assert_eq!(watch.await.unwrap().unwrap(), End::Cancelled);
        never.set();
    })
    .await;
}

#[tokio::test]
async fn done_8_c_a_turn_may_watch_others_and_not_what_needs_its_gate() {
    within(async {
        let node = world(2).await;
        let (one, other) = (room(&node, "one").await, room(&node, "other").await);
        let member = player_in(&node, "p", &one).await;
        let mine = one.clone();
        let own = one.ask(act!(Room, [mine], |_turn| mine.watch().await.map_err(|error| error.kind())));
        assert_eq!(own.await.unwrap(), Err(ErrorKind::InvalidOperation));
        let of_member = one.ask(act!(Room, [member], |_turn| member.watch().await.map_err(|e| e.kind())));
        assert_eq!(of_member.await.unwrap(), Err(ErrorKind::InvalidOperation));
        let watching = Signal::new();
        let of_other = tokio::spawn(one.ask(act!(Room, [other, watching], |_turn| {
            watching.set();
            other.watch().await
        })));
        watching.wait().await;
        other.close().await.unwrap();
        assert_eq!(of_other.await.unwrap().unwrap().unwrap(), End::Closed);
    })
    .await;
}
