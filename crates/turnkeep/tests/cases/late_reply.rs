//! Answers that come after their caller has given up: dropped and counted, never taken for anything else.
//!
//! CB-32 over a network and after a relocation: objects of one process have neither. CB-34 is about the event loop
//! of another language.

use std::time::Duration;

use turnkeep::prelude::*;

use crate::support::{Signal, within};
use crate::world::{NEVER, Player, end, everywhere, ms, ping_player, player, real_world_of, until};

/// Short enough to pass in a test; nothing but its passing is waited for.
const SHORT: Duration = ms(20);

#[tokio::test]
async fn cb_32_a_the_answer_to_a_call_that_was_given_up_is_not_taken_for_the_next() {
    everywhere(async |node, _| {
        let (a, b) = (player(&node, "a").await, player(&node, "b").await);
        let go = Signal::new();
        let second = a.ask(act!(Player, [a, b, go, node], |_turn| {
            let first = b.ask(act!(Player, [go], |_turn| {
                go.wait().await;
                1
            }));
            let first = first.timeout(SHORT).await.unwrap_err();
            assert_eq!(first.kind(), Some(ErrorKind::DeadlineExceeded));
            go.set();
            let second = b.ask(act!(Player, [], |_turn| 2)).timeout(NEVER).await.unwrap();
            // The late one was before this one in B's lane, so it has come; only this very turn is in the lane.
            (second, a.queued(), node.metrics().late)
        }));
        assert_eq!(second.timeout(NEVER).await.unwrap(), (2, (1, 0), 1));
        ping_player(&a).await;
    })
    .await;
}

/// How many Actors answer late at once, and how often.
const AT_ONCE: usize = 100;
const ROUNDS: u64 = 5;

#[tokio::test]
async fn cb_33_a_calls_that_were_given_up_leave_nothing_behind_and_their_answers_are_counted() {
    let node = real_world_of(Node::builder().workers(2)).await;
    let mut players = Vec::new();
    for number in 0..AT_ONCE {
        players.push(player(&node, &format!("p{number}")).await);
    }
    for round in 1..=ROUNDS {
        let go = Signal::new();
        let mut asks = Vec::new();
        for player in &players {
            let begun = Signal::new();
            let held = act!(Player, [go, begun], |_turn| {
                begun.set();
                go.wait().await;
            });
            asks.push(tokio::spawn(player.ask(held).timeout(SHORT)));
            // One whose time was up before its turn began would not be run, and so not be late.
            within(async {
                while !begun.is_set() && !asks[asks.len() - 1].is_finished() {
                    tokio::task::yield_now().await
                }
            })
            .await;
        }
        for ask in asks {
            assert_eq!(within(ask).await.unwrap().unwrap_err().kind(), Some(ErrorKind::DeadlineExceeded));
        }
        go.set();
        within(node.quiesce()).await.unwrap();
        assert_eq!(node.metrics().late, round * AT_ONCE as u64);
        assert!(players.iter().all(|player| player.queued() == (0, 0) && player.status().suspended == 0));
    }
    end(node).await;
}

/// The caller is gone before the time is up, or the target is.
#[tokio::test]
async fn cb_33_b_a_caller_or_a_target_that_ends_first_leaves_nothing_either() {
    everywhere(async |node, _| {
        let (caller, target) = (player(&node, "caller").await, player(&node, "target").await);
        let (entered, go) = (Signal::new(), Signal::new());
        let asks = act!(Player, [target, entered, go], |_turn| {
            let held = act!(Player, [entered, go], |_turn| {
                entered.set();
                go.wait().await;
            });
            target.ask(held).timeout(NEVER).await.unwrap();
        });
        let asked = tokio::spawn(caller.ask(asks).timeout(NEVER));
        entered.wait().await;
        caller.destroy().await.unwrap();
        assert!(asked.await.unwrap().is_err());
        // The target knows nothing of its caller: it waits on.
        until(|| target.status().suspended == 1).await;
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!((target.queued(), node.metrics().late), ((0, 0), 1));
        // The other way round.
        let (entered, go) = (Signal::new(), Signal::new());
        let held = act!(Player, [entered, go], |_turn| {
            entered.set();
            go.wait().await;
        });
        let asked = tokio::spawn(target.ask(held).timeout(NEVER));
        entered.wait().await;
        target.destroy().await.unwrap();
        assert_eq!(asked.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
        until(|| node.status().under_way == 0).await;
    })
    .await;
}
