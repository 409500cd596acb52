//! Kind "message loss on migration", the case about a stop or a restart with messages queued.
//!
//! There are no children of objects here, so the part of case 65 that waits for them cannot apply.

use turnkeep::PanicPolicy;
use turnkeep::prelude::*;

use crate::support::{Log, within};
use crate::world::*;

/// A Spot whose tenth of a hundred messages panics; every second one is an ask if `asks`. What was handled, and
/// how the asks ended.
async fn hundred(
    workers: usize,
    policy: PanicPolicy,
    asks: bool,
) -> (Vec<u64>, Vec<(u64, Option<ErrorKind>)>, u64) {
    let options = Options::<Room>::new().factory(|_| Ok(Room::default())).on_panic(policy);
    let node = Node::builder().workers(workers).spot_with("room", options).start().await.unwrap();
    let spot = node.spot::<Room>("r").create().await.unwrap();
    let go = hold(&spot).await;
    let log: Log<u64> = Log::new();
    let mut pending = Vec::new();
    for n in 1..=100_u64 {
        let act = act!(Room, [log], |_turn| {
            assert_ne!(n, 10, "the tenth");
            log.push(n);
        });
        if asks && n.is_multiple_of(2) {
            let before = spot.queued().0;
            pending.push((n, tokio::spawn(spot.ask(act))));
            while spot.queued().0 == before {
                tokio::task::yield_now().await;
            }
        } else {
            spot.send(act).await.unwrap();
        }
    }
    go.set();
    let mut ended = Vec::new();
    for (n, ask) in pending {
        ended.push((n, ask.await.unwrap().err().and_then(|error| error.kind())));
    }
    node.quiesce().await.unwrap();
    (log.take(), ended, node.metrics().failed_sends)
}

#[tokio::test]
async fn cb_65_a_panic_with_messages_queued_loses_none() {
    within(async {
        for workers in [1, 2] {
            let all_but_ten: Vec<_> = (1..=100).filter(|n| *n != 10).collect();
            let (handled, _, failed) = hundred(workers, PanicPolicy::Restart, false).await;
            assert_eq!((handled, failed), (all_but_ten.clone(), 1), "in order, by the next incarnation");
            let (handled, asked, failed) = hundred(workers, PanicPolicy::Restart, true).await;
            assert_eq!((handled, failed), (all_but_ten, 0));
            for (n, ended) in asked {
                assert_eq!(ended, (n == 10).then_some(ErrorKind::InternalFailure), "{n}");
            }
            let nine: Vec<_> = (1..=9).collect();
            let (handled, _, failed) = hundred(workers, PanicPolicy::Stop, false).await;
            assert_eq!(
                (handled, failed),
                (nine.clone(), 91),
                "the tenth, and ninety that are told as undelivered"
            );
            let (handled, asked, failed) = hundred(workers, PanicPolicy::Stop, true).await;
            assert_eq!((handled, failed), (nine, 45));
            for (n, ended) in asked {
                let wanted = match n {
                    ..10 => None,
                    10 => Some(ErrorKind::InternalFailure),
                    _ => Some(ErrorKind::Unavailable),
                };
                assert_eq!(ended, wanted, "{n}");
            }
        }
    })
    .await;
}
