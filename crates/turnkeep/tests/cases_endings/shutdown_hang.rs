//! Kind "shutdown hang", what is local to a process.
//!
//! Case 61 is here without its timers: an object that gives itself the next message at once, for ever.

use std::time::{Duration, Instant};

use turnkeep::prelude::*;

use crate::support::{Log, Signal, within};
use crate::world::*;

/// Its last eighth, in which objects close, is long beside what a busy machine takes for that.
const ROOMY: Duration = Duration::from_secs(4);
/// Far beyond what the case allows, far below a hang.
const GENEROUS: Duration = Duration::from_secs(20);

/// Sends itself to itself.
#[derive(Message)]
struct Again;
impl Handles<Again> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, _: Again) -> Result<(), Never> {
        turn.n += 1;
        // At the end of the node it is refused, and that is the end of it.
        let _ = turn.this_spot().try_send(Again);
        Ok(())
    }
}

#[tokio::test]
async fn cb_61_an_object_that_never_rests_starves_nobody_and_keeps_no_node_from_ending() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (restless, other) = (room(&node, "restless").await, room(&node, "other").await);
            restless.send(Again).await.unwrap();
            for _ in 0..1000 {
                ping(&other).await;
            }
            assert!(restless.ask(act!(Room, [], |turn| turn.n)).await.unwrap() > 0);
            let begun = Instant::now();
            let report = node.shutdown_within(ROOMY).await.unwrap();
            assert!(begun.elapsed() < GENEROUS);
            assert!(!report.forced, "its close ends it: {report:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn cb_62_a_close_does_not_wait_for_answers_that_nobody_will_give() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (inner, log) = (room(&node, "inner").await, Log::new());
            let never = Signal::new();
            let state =
                Room { on_closing: life!(Room, [log], |_turn| log.push("on_closing")), ..Room::default() };
            let spot = node.spot::<Room>("a").create_with(state).await.unwrap();
            let mut callers = Vec::new();
            for _ in 0..5 {
                let (parked, asked) = (Signal::new(), far(&inner, &never));
                callers.push(tokio::spawn(spot.ask(act!(Room, [parked, log], |turn| {
                    parked.set();
                    let ended = turn.yielding(asked).await.map_err(|error| error.kind());
                    log.push("handler");
                    ended
                }))));
                parked.wait().await;
            }
            let begun = Instant::now();
            spot.close().await.unwrap();
            for caller in callers {
                assert_eq!(caller.await.unwrap().unwrap(), Err(Some(ErrorKind::ShuttingDown)));
            }
            assert!(begun.elapsed() < GENEROUS);
            assert_eq!(log.take(), [vec!["handler"; 5], vec!["on_closing"]].concat());
            never.set();
        }
    })
    .await;
}
