//! Kind "double completion": an end that is told twice, or never.
//!
//! Case 28 is here without its timer; reply against close, destroy and restart are with the tests of endings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::sync::Barrier;
use turnkeep::prelude::*;

use crate::support::within;
use crate::world::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cb_28_reply_against_deadline_and_result_against_cancel_have_one_outcome_each() {
    within(async {
        let node = world(2).await;
        let (asker, callee) = (room(&node, "asker").await, room(&node, "callee").await);
        let resumed = Arc::new(AtomicU64::new(0));
        let answered = Arc::new(AtomicU64::new(0));
        let (mut rounds, mut well) = (Vec::new(), 0);
        for n in 0..10_000_u64 {
            let inner = {
                let answered = answered.clone();
                let wait = Duration::from_micros(n % 400);
                callee.ask(act!(Room, [answered], |turn| {
                    let io = turn.io(tokio::time::sleep(wait));
                    let _ = turn.yielding(io).await;
                    answered.fetch_add(1, SeqCst);
                }))
            };
            let asked = inner.timeout(Duration::from_millis(2));
            rounds.push(tokio::spawn(asker.ask(act!(Room, [resumed], |turn| {
                let ended = turn.yielding(asked).await.is_ok();
                resumed.fetch_add(1, SeqCst);
                ended
            }))));
            if n % 256 == 255 {
                for round in rounds.drain(..) {
                    well += u64::from(round.await.unwrap().unwrap());
                }
            }
        }
        for round in rounds {
            well += u64::from(round.await.unwrap().unwrap());
        }
        node.quiesce().await.unwrap();
        assert_eq!(resumed.load(SeqCst), 10_000, "each resumed once");
        let metrics = node.metrics();
        assert_eq!(metrics.panics, 0);
        assert_eq!(well + metrics.late, answered.load(SeqCst), "an answer arrives, or is late");
        // The result of work against its cancellation: whoever is first, the wait has one end.
        let begun = Arc::new(AtomicUsize::new(0));
        for n in 0..2000_u64 {
            let counted = begun.clone();
            let work = node.cpu(move || counted.fetch_add(1, SeqCst));
            let work = tokio::spawn(work);
            for _ in 0..n % 7 {
                tokio::task::yield_now().await;
            }
            work.abort();
            match work.await {
                Ok(done) => _ = done.unwrap(),
                Err(cancelled) => assert!(cancelled.is_cancelled()),
            }
        }
    })
    .await;
}

/// Counts its ends.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicUsize; 3]>);
const MADE: usize = 0;
const ENDED: usize = 1;
const HANDLED: usize = 2;
impl Counted {
    fn add(&self, which: usize) {
        self.0[which].fetch_add(1, SeqCst);
    }
    fn of(&self, which: usize) -> usize {
        self.0[which].load(SeqCst)
    }
}
impl Spot for Counted {
    type Mode = SpotWide;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.add(MADE);
        Ok(())
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        turn.add(ENDED);
        Ok(())
    }
}
#[derive(Message)]
struct Hit;
impl Handles<Hit> for Counted {
    async fn handle(turn: &mut Turn<'_, Self>, _: Hit) -> Result<(), Never> {
        turn.add(HANDLED);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cb_30_closes_sends_and_creations_at_once_end_each_life_once() {
    within(async {
        let counted = Counted::default();
        let made = counted.clone();
        let options = Options::<Counted>::new().factory(move |_| Ok(made.clone()));
        let node = Node::builder().workers(2).spot_with("counted", options).start().await.unwrap();
        let (mut accepted, mut closed, mut lives) = (0, 0, 0);
        for _ in 0..500 {
            let spot = node.spot::<Counted>("a").get_or_create().await.unwrap();
            let barrier = Arc::new(Barrier::new(64 + 64 + 16));
            let closes: Vec<_> = (0..64)
                .map(|_| {
                    let (spot, meet) = (spot.clone(), barrier.clone());
                    tokio::spawn(async move {
                        meet.wait().await;
                        spot.close().await
                    })
                })
                .collect();
            let sends: Vec<_> = (0..64)
                .map(|_| {
                    let (node, meet) = (node.clone(), barrier.clone());
                    tokio::spawn(async move {
                        meet.wait().await;
                        node.spot::<Counted>("a").send(Hit).await
                    })
                })
                .collect();
            let creations: Vec<_> = (0..16)
                .map(|_| {
                    let (node, meet) = (node.clone(), barrier.clone());
                    tokio::spawn(async move {
                        meet.wait().await;
                        node.spot::<Counted>("a").get_or_create().await
                    })
                })
                .collect();
            let mut of_this = 0;
            for close in closes {
                match close.await.unwrap() {
                    Ok(()) => of_this += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
            assert_eq!(of_this, 1, "one of them closed it");
            closed += of_this;
            for send in sends {
                match send.await.unwrap() {
                    Ok(()) => accepted += 1,
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}"),
                }
            }
            for creation in creations {
                creation.await.unwrap().unwrap();
            }
        }
        node.quiesce().await.unwrap();
        if let Ok(last) = node.spot::<Counted>("a").find() {
            last.close().await.unwrap();
            lives += 1;
        }
        assert_eq!(counted.of(ENDED), closed + lives);
        assert_eq!(counted.of(MADE), counted.of(ENDED), "each life ended once");
        assert_eq!(counted.of(HANDLED), accepted, "what was accepted was handled");
        assert_eq!(node.metrics().panics, 0);
    })
    .await;
}
