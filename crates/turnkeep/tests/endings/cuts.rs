//! YIELD-9: a handler that waits in a yield when its Spot closes, or the node's time is over, goes on with an error.

use std::time::Duration;

use turnkeep::prelude::*;

use super::stage::*;
use crate::support::{Log, Signal, within};
use crate::world::*;

/// What a yield ended with.
fn kind<M: Message>(ended: Result<(), AskError<M>>) -> Option<ErrorKind> {
    ended.err().and_then(|error| error.kind())
}

#[tokio::test]
async fn yield_9_a_a_close_ends_the_waits_and_on_closing_runs_once_after_them() {
    within(async {
        for workers in [1, 2, 4] {
            let node = world(workers).await;
            let (other, log) = (room(&node, "far").await, Log::new());
            let never = Signal::new();
            let state = Room { on_closing: life!(Room, [log], |_turn| log.push(None)), ..Room::default() };
            let spot = node.spot::<Room>("r").create_with(state).await.unwrap();
            let mut asks = Vec::new();
            for n in 0..5 {
                let (waiting, asked) = (Signal::new(), far(&other, &never));
                asks.push(tokio::spawn(spot.ask(act!(Room, [waiting, log], |turn| {
                    waiting.set();
                    let ended = kind(turn.yielding(asked).await);
                    log.push(ended);
                    turn.n += 1;
                    (n, ended)
                }))));
                waiting.wait().await;
            }
            spot.close().await.unwrap();
            for (n, ask) in asks.into_iter().enumerate() {
                assert_eq!(ask.await.unwrap().unwrap(), (n, Some(ErrorKind::ShuttingDown)));
            }
            let story = log.take();
            assert_eq!(story[..5], [Some(ErrorKind::ShuttingDown); 5]);
            assert_eq!(story[5..], [None], "on_closing, once, after them");
            never.set();
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_b_a_yield_begun_in_a_closing_spot_ends_at_once_with_its_message() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (other, never) = (room(&node, "far").await, Signal::new());
            let spot = room(&node, "r").await;
            let (waiting, first, second) = (Signal::new(), far(&other, &never), far(&other, &never));
            let work = tokio::spawn(spot.ask(act!(Room, [waiting], |turn| {
                waiting.set();
                let first = kind(turn.yielding(first).await);
                let grant = turn.grant();
                let second = turn.yielding(second).await.unwrap_err();
                let (kind, same) = (second.kind(), turn.grant() == grant);
                let cpu = turn.cpu(|| 7);
                let cpu = turn.yielding(cpu).await.map_err(|error| error.kind());
                (first, kind, second.into_message().is_some(), same, cpu)
            })));
            waiting.wait().await;
            spot.request_close().unwrap();
            let down = Some(ErrorKind::ShuttingDown);
            let wanted = (down, down, true, true, Err(ErrorKind::ShuttingDown));
            assert_eq!(work.await.unwrap().unwrap(), wanted);
            assert_eq!(other.queued().0, 1, "only the first request was submitted");
            never.set();
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_c_ordinary_waits_and_other_spots_are_not_disturbed() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (other, go) = (room(&node, "far").await, Signal::new());
            let (closing, open) = (room(&node, "closing").await, room(&node, "open").await);
            let (kept, asked) = (Signal::new(), far(&other, &go));
            let ordinary = tokio::spawn(closing.ask(act!(Room, [kept], |_turn| {
                kept.set();
                kind(asked.await)
            })));
            kept.wait().await;
            let (yields, asked) = (Signal::new(), far(&other, &go));
            let elsewhere = tokio::spawn(open.ask(act!(Room, [yields], |turn| {
                yields.set();
                kind(turn.yielding(asked).await)
            })));
            yields.wait().await;
            let close = tokio::spawn(closing.close());
            chances(&node).await;
            go.set();
            assert_eq!(ordinary.await.unwrap().unwrap(), None, "answered");
            assert_eq!(elsewhere.await.unwrap().unwrap(), None, "answered");
            close.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_d_the_drain_deadline_ends_yields_and_the_node_closes_in_order() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let log = Log::new();
            let (stuck, never) = (node.spawn(std::future::pending::<()>()), Signal::new());
            let state =
                Room { on_closing: life!(Room, [log], |_turn| log.push("closing")), ..Room::default() };
            let spot = node.spot::<Room>("r").create_with(state).await.unwrap();
            let audit = room(&node, "audit").await;
            let player = player_in(&node, "p", &spot).await;
            let waiting = [Signal::new(), Signal::new()];
            let (one, two) = (waiting[0].clone(), waiting[1].clone());
            let own = tokio::spawn(spot.ask(act!(Room, [never, one, log, audit], |turn| {
                one.set();
                let io = turn.io(async move { never.wait().await });
                let ended = turn.yielding(io).await.map_err(|error| error.kind());
                // What follows is still accepted elsewhere: the node drains on, it does not close yet.
                audit.ask(act!(Room, [], |_turn| ())).await.unwrap();
                log.push("own");
                ended
            })));
            let member = tokio::spawn(player.ask(act!(Player, [never, two, log], |turn| {
                two.set();
                let mut turn = turn.within::<Room>().unwrap();
                let io = turn.io(async move { never.wait().await });
                let ended = turn.yielding(io).await.map_err(|error| error.kind());
                log.push("member");
                ended
            })));
            for signal in &waiting {
                signal.wait().await;
            }
            let report = node.shutdown_within(Duration::from_secs(4)).await.unwrap();
            assert_eq!(own.await.unwrap().unwrap(), Err(ErrorKind::ShuttingDown));
            assert_eq!(member.await.unwrap().unwrap(), Err(ErrorKind::ShuttingDown));
            let mut story = log.take();
            assert_eq!(story.pop(), Some("closing"), "after both handlers: {story:?}");
            assert!(!report.forced, "{report:?}");
            assert_eq!(stuck.await.unwrap_err().kind(), ErrorKind::ShuttingDown);
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_e_a_yield_that_ends_in_an_error_leaves_its_answer_late() {
    within(async {
        let (node, _) = node_with(2, PanicPolicy::Stop).await;
        let (other, go) = (room(&node, "far").await, Signal::new());
        let spot = room(&node, "r").await;
        let (waiting, asked) = (Signal::new(), far(&other, &go));
        let work = tokio::spawn(spot.ask(act!(Room, [waiting], |turn| {
            waiting.set();
            kind(turn.yielding(asked).await)
        })));
        waiting.wait().await;
        spot.close().await.unwrap();
        assert_eq!(work.await.unwrap().unwrap(), Some(ErrorKind::ShuttingDown));
        assert_eq!(node.metrics().late, 0);
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().late, 1, "the answer came late and changed nothing");
    })
    .await;
}
