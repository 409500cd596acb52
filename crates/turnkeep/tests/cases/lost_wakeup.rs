//! A message that arrives as its object falls asleep: the object is woken, always.
//!
//! CB-07 (b), every interleaving of "the queue is empty, go idle" with "append, see it idle", is a loom model of the
//! scheduler's own (`wake_word.rs`, `inbox.rs`). CB-10 and CB-11 are about links between nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turnkeep::prelude::*;

use crate::support::within;
use crate::world::{NEVER, Player, Room, end, player, real_world_of, room, until};

const PRODUCERS: u64 = 8;
const ASKS: u64 = 1500;

/// Threads that each ask one after another; all of them end.
async fn threads(ask: impl Fn(u64) + std::marker::Send + Sync + 'static) {
    let ask = Arc::new(ask);
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let ask = ask.clone();
            std::thread::spawn(move || (0..ASKS).for_each(|number| ask(number)))
        })
        .collect();
    until(|| producers.iter().all(std::thread::JoinHandle::is_finished)).await;
    for producer in producers {
        producer.join().unwrap();
    }
}

#[tokio::test]
async fn cb_07_a_every_one_of_many_asks_is_answered() {
    for workers in [1, 2] {
        let node = real_world_of(Node::builder().workers(workers)).await;
        let actor = player(&node, "a").await;
        let asked = actor.clone();
        // An ask that was forgotten would end with its deadline, long before ours.
        threads(move |_| asked.ask_blocking(act!(Player, [], |turn| turn.n += 1)).unwrap()).await;
        let n = actor.ask(act!(Player, [], |turn| turn.n)).await.unwrap();
        assert_eq!(n, PRODUCERS * ASKS);
        end(node).await;
    }
}

/// With a yield in every second turn, and guests that come and go in the lifecycle lane.
#[tokio::test]
async fn cb_07_c_also_with_both_lanes_in_use_and_yields_between() {
    for workers in [1, 2] {
        let node = real_world_of(Node::builder().workers(workers)).await;
        let spot = room(&node, "spot").await;
        let done = Arc::new(AtomicBool::new(false));
        let guests = tokio::spawn({
            let (node, spot, done) = (node.clone(), spot.clone(), done.clone());
            async move {
                let mut guests = 0;
                while guests == 0 || !done.load(Ordering::SeqCst) {
                    let guest = node.actor::<Player>("guest").create_in(Player::default(), &spot);
                    guest.timeout(NEVER).await.unwrap().close().await.unwrap();
                    guests += 1;
                }
            }
        });
        let asked = spot.clone();
        threads(move |number| {
            let act = act!(Room, [], |turn| {
                if number % 2 == 0 {
                    turn.yielding(turn.io(async {})).await.unwrap();
                }
                turn.n += 1;
            });
            asked.ask_blocking(act).unwrap();
        })
        .await;
        done.store(true, Ordering::SeqCst);
        within(guests).await.unwrap();
        let n = spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap();
        assert_eq!(n, PRODUCERS * ASKS);
        within(node.quiesce()).await.unwrap();
        assert_eq!((node.status().under_way, spot.queued()), (0, (0, 0)));
        end(node).await;
    }
}
