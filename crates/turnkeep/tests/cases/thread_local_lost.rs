//! What belongs to one request stays with it over every wait and thread, and is seen by no other.
//!
//! The kind has one case (CB-90), and it applies: a request's flow is what an object sees of it.

use std::collections::HashSet;

use turnkeep::Timer;
use turnkeep::prelude::*;

use crate::support::{Log, within};
use crate::world::{Player, Room, end, ms, player, room, world};

const SPOTS: u64 = 16;
const TASKS: u64 = 8;
const REQUESTS: u64 = 100;

/// Reads the flow before and after waits of each kind, and that of an object it asks.
async fn reads(spot: &SpotRef<Room>, other: &ActorRef<Player>) -> Vec<u64> {
    let act = act!(Room, [other], |turn| {
        let mut read = vec![turn.flow()];
        turn.yielding(turn.io(async {})).await.unwrap();
        read.push(turn.flow());
        turn.cpu(|| ()).await.unwrap();
        read.push(turn.flow());
        read.push(other.ask(act!(Player, [], |turn| turn.flow())).await.unwrap());
        let ask = other.ask(act!(Player, [], |turn| turn.flow()));
        read.push(turn.yielding(ask).await.unwrap());
        read
    });
    spot.ask(act).await.unwrap()
}

#[tokio::test]
async fn cb_90_a_a_flow_stays_with_its_request_and_ticks_have_flows_of_their_own() {
    for workers in [1, 2, 8] {
        let (node, clock) = world(workers).await;
        let (ticked, other) = (Log::new(), player(&node, "other").await);
        let mut spots = Vec::new();
        for number in 0..SPOTS {
            let on_tick = ticks!(Room, [ticked], |turn, _tick| ticked.push(turn.flow()));
            let state = Room { on_tick, ..Room::default() };
            let spot = node.spot::<Room>(&format!("s{number}")).create_with(state).await.unwrap();
            spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(10))).unwrap())).await.unwrap();
            spots.push(spot);
        }
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (spots, other) = (spots.clone(), other.clone());
                tokio::spawn(async move {
                    let mut flows = Vec::new();
                    for request in 0..REQUESTS {
                        let spot = usize::try_from((task + request) % SPOTS).unwrap();
                        flows.push(reads(&spots[spot], &other).await);
                    }
                    flows
                })
            })
            .collect();
        // Ticks come in between.
        while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            clock.advance(ms(10));
            tokio::task::yield_now().await;
        }
        let mut flows = HashSet::new();
        for task in tasks {
            for read in within(task).await.unwrap() {
                assert!(read.iter().all(|flow| *flow == read[0]), "one request, several flows: {read:?}");
                assert!(flows.insert(read[0]), "two requests with one flow");
            }
        }
        within(node.quiesce()).await.unwrap();
        let ticked = ticked.take();
        assert!(!ticked.is_empty());
        assert!(ticked.iter().all(|flow| flows.insert(*flow)), "a tick saw the flow of something else");
        end(node).await;
    }
}

/// What a callback begins outside of any request starts a flow; what a request begins is in the request's.
#[tokio::test]
async fn cb_90_b_a_creation_and_a_close_leak_no_flow_into_what_follows() {
    let (node, _) = world(1).await;
    let other = room(&node, "other").await;
    let seen = Log::new();
    let before = other.ask(act!(Room, [], |turn| turn.flow())).await.unwrap();
    let on_closing = life!(Room, [seen, other], |_turn| {
        seen.push(other.ask(act!(Room, [], |turn| turn.flow())).await.unwrap());
    });
    let state = Room { on_closing, ..Room::default() };
    let spot = node.spot::<Room>("brief").create_with(state).await.unwrap();
    let own = spot.ask(act!(Room, [], |turn| turn.flow())).await.unwrap();
    within(spot.close()).await.unwrap();
    let after = other.ask(act!(Room, [], |turn| turn.flow())).await.unwrap();
    let flows: Vec<u64> = [before, own, after].into_iter().chain(seen.take()).collect();
    assert_eq!(flows.iter().collect::<HashSet<_>>().len(), 4, "{flows:?}");
    end(node).await;
}
