//! Admission is one decision, also against a seal (LANE-7).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep::prelude::*;
use turnkeep::{AskError, ErrorKind};

use crate::play::*;
use crate::support::within;

/// Counts itself when it is handled.
#[derive(Message)]
#[message(reply = u64)]
struct Count(#[message(no_heap)] Arc<AtomicU64>);

macro_rules! counts {
    ($($name:ident),+) => {$(
        impl Handles<Count> for $name {
            async fn handle(_: &mut Turn<'_, Self>, count: Count) -> Result<u64, Never> {
                Ok(count.0.fetch_add(1, Ordering::SeqCst))
            }
        }
    )+};
}
counts!(Wide, Pawn);

/// What one sender saw.
#[derive(Default, Debug)]
struct Seen {
    attempts: u64,
    accepted: u64,
    refused: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.accepted += other.accepted;
        self.refused += other.refused;
    }
}

/// Sends in one of four ways until the object takes nothing any more.
macro_rules! send_until_refused {
    ($to:expr, $manner:expr, $handled:expr) => {{
        let (to, handled, manner) = ($to.clone(), $handled.clone(), $manner);
        tokio::spawn(async move {
            let mut seen = Seen::default();
            loop {
                seen.attempts += 1;
                let ended = match manner {
                    0 => to.try_send(Count(handled.clone())).map_err(|refused| refused.kind()),
                    1 => to.send(Count(handled.clone())).await.map_err(|refused| refused.kind()),
                    _ => match to.ask(Count(handled.clone())).await {
                        Ok(_) => Ok(()),
                        Err(AskError::Refused { error, .. }) => Err(error.kind()),
                        Err(other) => panic!("accepted and not answered: {other:?}"),
                    },
                };
                match ended {
                    Ok(()) => seen.accepted += 1,
                    Err(ErrorKind::CapacityExceeded) => seen.refused += 1,
                    Err(ErrorKind::NotFound) => {
                        seen.refused += 1;
                        return seen;
                    }
                    Err(other) => panic!("{other:?}"),
                }
                if manner == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    }};
}

/// Closes an object in the midst of its senders, and counts.
macro_rules! close_amidst {
    ($to:expr, $round:expr) => {{
        let (to, handled) = ($to, Arc::new(AtomicU64::new(0)));
        let senders = [0, 1, 2, 2, 1].map(|manner| send_until_refused!(to, manner, handled));
        // From "nothing has come yet" to "many have been handled".
        while handled.load(Ordering::SeqCst) < $round as u64 % 20 {
            tokio::task::yield_now().await;
        }
        to.close().await.unwrap();
        let all_handled = handled.load(Ordering::SeqCst);
        let mut seen = Seen::default();
        for sender in senders {
            seen.add(&sender.await.unwrap());
        }
        assert_eq!(seen.attempts, seen.accepted + seen.refused);
        assert_eq!(seen.accepted, all_handled, "everything accepted was handled before the close ended");
        assert_eq!(handled.load(Ordering::SeqCst), all_handled, "nothing was handled after it");
        assert_eq!((to.queued(), to.reserved_bytes(), to.waiting()), ((0, 0), (0, 0), (0, 0)));
        seen.accepted
    }};
}

async fn rounds(workers: usize, records: u32, rounds: usize) {
    let lane = Lane { records, ..Lane::APPLICATION };
    let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
    let mut accepted = 0;
    for round in 0..rounds {
        accepted += close_amidst!(stage.wide("w").await, round);
    }
    assert!(accepted > 0);
    let metrics = stage.node.metrics();
    stage.node.quiesce().await.unwrap();
    assert_eq!((metrics.failed_sends, metrics.late), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lane_7_a_close_amidst_many_senders_handles_all_that_was_accepted_500_rounds() {
    within(async {
        rounds(2, 1024, 200).await;
        rounds(2, 2, 200).await;
        rounds(8, 4, 50).await;
        rounds(1, 1, 50).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lane_7_closing_an_actor_amidst_many_senders_handles_all_that_was_accepted() {
    within(async {
        let lane = Lane { records: 3, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        stage.wide("w").await;
        for round in 0..100 {
            close_amidst!(stage.pawn("in entry").await, round);
            close_amidst!(stage.member("member", "w").await, round);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lane_7_a_destroy_amidst_many_senders_answers_every_ask_and_leaves_none() {
    within(async {
        let lane = Lane { records: 3, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        for round in 0..200 {
            let (wide, handled) = (stage.wide("w").await, Arc::new(AtomicU64::new(0)));
            let asks: Vec<_> = (0..20).map(|_| tokio::spawn(wide.ask(Count(handled.clone())))).collect();
            for _ in 0..round % 20 {
                tokio::task::yield_now().await;
            }
            wide.destroy().await.unwrap();
            let mut answered = 0;
            for ask in asks {
                match ask.await.unwrap() {
                    Ok(_) => answered += 1,
                    Err(error) => assert_eq!(error.kind(), Some(ErrorKind::NotFound), "{error:?}"),
                }
            }
            assert_eq!(answered, handled.load(Ordering::SeqCst));
            assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
        }
    })
    .await;
}
