//! Instance Spots with an idle time: they close when nothing happens, and a message never falls between two lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use turnkeep::End;
use turnkeep::prelude::*;

use super::stage::*;
use crate::support::{Signal, within};
use crate::world::*;

const IDLE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn stop_2_d_an_idle_instance_spot_closes_itself_and_a_busy_one_does_not() {
    within(async {
        for workers in [1, 2] {
            let (node, _) = resting(workers, IDLE).await;
            let cache = node.spot::<Cache>("c").create().await.unwrap();
            let begun = Instant::now();
            while begun.elapsed() < IDLE * 4 {
                cache.ask(act!(Cache, [], |turn| turn.n += 1)).await.unwrap();
                tokio::time::sleep(IDLE / 10).await;
            }
            let last = Instant::now();
            cache.ask(act!(Cache, [], |turn| turn.n += 1)).await.unwrap();
            assert_eq!(cache.watch().await.unwrap(), End::Idle);
            assert!(last.elapsed() >= IDLE, "not before its time: {:?}", last.elapsed());
            node.quiesce().await.unwrap();
            assert_eq!(node.ids(turnkeep::ObjectKind::Spot), [node.entry_id()]);
        }
    })
    .await;
}

#[tokio::test]
async fn stop_2_e_waiting_handlers_and_long_turns_are_no_rest() {
    within(async {
        for workers in [1, 2] {
            let (node, _) = resting(workers, IDLE / 4).await;
            let other = node.spot::<Room>("far").create().await.unwrap();
            let cache = node.spot::<Cache>("c").create().await.unwrap();
            let (waiting, go) = (Signal::new(), Signal::new());
            let asked = far(&other, &go);
            let work = tokio::spawn(cache.ask(act!(Cache, [waiting], |turn| {
                waiting.set();
                turn.yielding(asked).await.is_ok()
            })));
            waiting.wait().await;
            // Well over an idle time, during which it only waits.
            tokio::time::sleep(IDLE).await;
            assert!(!cache.has_ended());
            go.set();
            assert!(work.await.unwrap().unwrap(), "the wait ended with its answer");
            assert_eq!(cache.watch().await.unwrap(), End::Idle);
        }
    })
    .await;
}

#[tokio::test]
async fn stop_2_f_a_message_that_races_with_the_idle_close_is_handled_by_one_life_or_the_next() {
    within(async {
        for workers in [1, 2, 4] {
            let (node, made) = resting(workers, Duration::from_millis(4)).await;
            let handled = Arc::new(AtomicU64::new(0));
            let senders: Vec<_> = (0..4_u64)
                .map(|sender| {
                    let (node, handled) = (node.clone(), handled.clone());
                    tokio::spawn(async move {
                        for n in 0..60 {
                            let (address, handled) = (node.spot::<Cache>("c"), handled.clone());
                            let act = act!(Cache, [handled], |_turn| _ = handled.fetch_add(1, SeqCst));
                            if sender.is_multiple_of(2) {
                                address.ask(act).or_create().await.unwrap();
                            } else {
                                address.send(act).or_create().await.unwrap();
                            }
                            // Around the moment at which it closes.
                            tokio::time::sleep(Duration::from_micros(3000 + 61 * (n * 4 + sender) % 3000))
                                .await;
                        }
                    })
                })
                .collect();
            for sender in senders {
                sender.await.unwrap();
            }
            node.quiesce().await.unwrap();
            assert_eq!(handled.load(SeqCst), 240, "each once");
            assert!(!made.is_empty());
        }
    })
    .await;
}

#[tokio::test]
async fn stop_2_g_send_and_ask_or_create_wait_for_the_end_of_a_closing_spot_and_make_it_anew() {
    within(async {
        for workers in [1, 2] {
            let (node, made) = resting(workers, Duration::from_secs(60)).await;
            let (closing, go) = (Signal::new(), Signal::new());
            let state = Cache {
                on_closing: life!(Cache, [closing, go], |_turn| {
                    closing.set();
                    go.wait().await;
                }),
                ..Cache::default()
            };
            let first = node.spot::<Cache>("c").create_with(state).await.unwrap();
            first.request_close().unwrap();
            closing.wait().await;
            let address = node.spot::<Cache>("c");
            let mut send = address.send(act!(Cache, [], |turn| turn.n += 1)).or_create();
            let mut ask = address.ask(act!(Cache, [], |turn| turn.n += 1)).or_create();
            assert!(
                futures_util::poll!(&mut send).is_pending() && futures_util::poll!(&mut ask).is_pending()
            );
            // Without leave to make it, a closing object is none.
            let refused = address.send(act!(Cache, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound);
            // And the wait has its end.
            let late =
                address.send(act!(Cache, [], |_turn| ())).or_create().timeout(Duration::from_millis(20));
            assert_eq!(late.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            let late =
                address.ask(act!(Cache, [], |_turn| ())).or_create().timeout(Duration::from_millis(20));
            assert_eq!(late.await.unwrap_err().kind(), Some(ErrorKind::DeadlineExceeded));
            go.set();
            let (sent, asked) = futures_util::future::join(send, ask).await;
            sent.unwrap();
            asked.unwrap();
            let n = address.ask(act!(Cache, [], |turn| turn.n)).await.unwrap();
            assert_eq!((n, made.take()), (2, vec!["c".to_owned()]), "both in the second life");
        }
    })
    .await;
}

#[tokio::test]
async fn stop_2_h_an_idle_time_is_for_instance_spots_and_not_zero() {
    let room = Node::builder().spot_with("room", Options::<Room>::new().idle_after(IDLE));
    let zero = Node::builder().spot_with("cache", Options::<Cache>::new().idle_after(Duration::ZERO));
    for builder in [room, zero] {
        assert_eq!(builder.workers(1).start().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
    }
}
