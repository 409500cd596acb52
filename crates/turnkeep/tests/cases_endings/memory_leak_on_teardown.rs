//! Kind "memory leak on teardown", what is local to a process: two at once, and the object never rests again.
//!
//! Case 89 has Actors join from two nodes; here two tasks make an Instance Spot with their first messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;
use turnkeep::prelude::*;
use turnkeep::{End, ObjectKind};

use crate::support::within;
use crate::world::*;

const IDLE: Duration = Duration::from_millis(100);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cb_89_objects_that_two_make_at_once_rest_and_close() {
    within(async {
        let options = Options::<Cache>::new().factory(|_| Ok(Cache::default())).idle_after(IDLE);
        let node = Node::builder().workers(2).spot_with("cache", options).start().await.unwrap();
        let mut watches = Vec::new();
        for n in 0..500 {
            let barrier = Arc::new(Barrier::new(2));
            let both: Vec<_> = (0..2)
                .map(|_| {
                    let (node, meet) = (node.clone(), barrier.clone());
                    tokio::spawn(async move {
                        meet.wait().await;
                        let address = node.spot::<Cache>(&format!("c{n}"));
                        address.ask(act!(Cache, [], |turn| turn.this_spot())).or_create().await.unwrap()
                    })
                })
                .collect();
            for asked in both {
                let spot = asked.await.unwrap();
                watches.push(tokio::spawn(async move {
                    let end = spot.watch().await.unwrap();
                    (end, spot.queued(), spot.waiting())
                }));
            }
        }
        let last = Instant::now();
        for watch in watches {
            assert_eq!(watch.await.unwrap(), (End::Idle, (0, 0), (0, 0)));
        }
        assert!(last.elapsed() < Duration::from_secs(20), "{:?}", last.elapsed());
        node.quiesce().await.unwrap();
        assert_eq!(node.count(ObjectKind::Spot), 1, "only the Entry Spot is left");
    })
    .await;
}
