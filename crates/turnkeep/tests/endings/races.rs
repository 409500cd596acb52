//! DONE-1: reply against close, destroy, shutdown and restart: one outcome each, losers counted late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tokio::sync::Barrier;
use turnkeep::PanicPolicy;
use turnkeep::prelude::*;

use super::stage::*;
use crate::support::within;
use crate::world::*;

/// Rounds of each race.
const ROUNDS: usize = 10_000;

/// One race on one, two and eight workers.
async fn races(rival: Rival) {
    for (workers, share) in [(1, 4), (2, 2), (8, 4)] {
        race(workers, rival, ROUNDS / share).await;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rival {
    Close,
    Destroy,
    Restart,
}

/// Both start at one barrier; the answer goes to the asker, or an error does, never both and never neither.
async fn race(workers: usize, rival: Rival, rounds: usize) {
    let policy = if rival == Rival::Restart { PanicPolicy::Restart } else { PanicPolicy::Stop };
    let (node, _) = node_with(workers, policy).await;
    let handled = Arc::new(AtomicU64::new(0));
    let (mut answered, mut refused, mut failed) = (0, 0, 0);
    for round in 0..rounds {
        let spot = node.spot::<Room>(&format!("r{round}")).create().await.unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let (meet, asked, count) = (barrier.clone(), spot.clone(), handled.clone());
        let asker = tokio::spawn(async move {
            meet.wait().await;
            asked.ask(act!(Room, [count], |_turn| count.fetch_add(1, SeqCst))).await
        });
        let other = spot.clone();
        let rival = tokio::spawn(async move {
            barrier.wait().await;
            match rival {
                Rival::Close => other.close().await.unwrap(),
                Rival::Destroy => other.destroy().await.unwrap(),
                Rival::Restart => {
                    let panic = other.ask(act!(Room, [], |_turn| panic!("again")));
                    assert_eq!(panic.await.map(|()| 0).unwrap_err().kind(), Some(ErrorKind::InternalFailure));
                }
            }
        });
        match asker.await.unwrap() {
            Ok(_) => answered += 1,
            Err(AskError::Refused { error, .. }) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                refused += 1;
            }
            Err(AskError::Failed(error)) => {
                assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Unavailable), "{error}");
                failed += 1;
            }
            Err(AskError::Application(never)) => match never {},
        }
        rival.await.unwrap();
    }
    node.quiesce().await.unwrap();
    assert_eq!(answered + refused + failed, rounds);
    let handled = handled.load(SeqCst) as usize;
    if rival == Rival::Restart {
        assert_eq!(answered, rounds, "a restart loses nothing that is queued");
    }
    assert_eq!(handled, answered + node.metrics().late as usize, "who was handled was answered, or is late");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_g_reply_against_close() {
    within(races(Rival::Close)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_h_reply_against_destroy_from_a_barrier() {
    within(races(Rival::Destroy)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_i_reply_against_restart() {
    within(races(Rival::Restart)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_j_reply_against_shutdown() {
    within(async {
        for workers in [1, 2] {
            // Twenty-five askers a node.
            for _ in 0..ROUNDS / 50 {
                let (node, _) = node_with(workers, PanicPolicy::Stop).await;
                let spot = node.spot::<Room>("r").create().await.unwrap();
                let handled = Arc::new(AtomicU64::new(0));
                let barrier = Arc::new(Barrier::new(26));
                let askers: Vec<_> = (0..25)
                    .map(|_| {
                        let (meet, asked, count) = (barrier.clone(), spot.clone(), handled.clone());
                        tokio::spawn(async move {
                            meet.wait().await;
                            asked.ask(act!(Room, [count], |_turn| _ = count.fetch_add(1, SeqCst))).await
                        })
                    })
                    .collect();
                barrier.wait().await;
                let report = node.shutdown().await.unwrap();
                assert!(!report.forced, "{report:?}");
                let mut answered = 0;
                for asker in askers {
                    match asker.await.unwrap() {
                        Ok(()) => answered += 1,
                        Err(error) => assert!(matches!(
                            error.kind(),
                            Some(ErrorKind::ShuttingDown | ErrorKind::NotFound | ErrorKind::Unavailable)
                        )),
                    }
                }
                assert_eq!(handled.load(SeqCst), answered, "accepted work is finished and answered");
                assert_eq!(node.metrics().late, 0);
            }
        }
    })
    .await;
}
