//! When the gate is given up and when it is kept, however a program treats its Yield; state read afterwards.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};
use turnkeep::prelude::*;

use crate::support::{Log, Signal};
use crate::world::{Player, Room, answer, chances, everywhere, far, hold, ping, player_in, room};

#[tokio::test]
async fn yield_7_state_read_again_after_a_yield_shows_what_others_changed() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        let told = Signal::new();
        let (spot_call, member_call) = (far(&other, &told), far(&room(&node, "third").await, &told));
        let in_spot = spot.ask(act!(Room, [], |turn| {
            turn.n = 1;
            turn.yielding(spot_call).await.unwrap();
            (turn.n, turn.names.clone())
        }));
        let in_member = member.ask(act!(Player, [], |turn| {
            let mut turn = turn.within::<Room>().unwrap();
            turn.spot_state().names.push("by the member");
            turn.yielding(member_call).await.unwrap();
            (turn.spot_state().n, turn.spot_state().names.clone())
        }));
        let change = async {
            while node.metrics().yields < 2 {
                tokio::task::yield_now().await;
            }
            spot.ask(act!(Room, [], |turn| {
                assert_eq!(turn.n, 1);
                turn.n = 7;
                turn.names.push("by another handler");
            }))
            .await
            .unwrap();
            told.set();
        };
        let (in_spot, in_member, ()) = tokio::join!(in_spot, in_member, change);
        let seen = (7, vec!["by the member", "by another handler"]);
        assert_eq!(in_spot.unwrap(), seen);
        assert_eq!(in_member.unwrap(), seen);
    })
    .await;
}

/// A Spot whose handler waits ordinarily after `$before`, a competitor that is queued meanwhile, and the order
/// in which they end. With the gate kept the competitor is second.
macro_rules! waits_after {
    ($node:ident, [$($kept:ident),*], |$turn:ident, $told:ident| $before:block) => {{
        let (spot, other) = (room(&$node, "spot").await, room(&$node, "other").await);
        let (order, waits, go, $told) = (Log::new(), Signal::new(), Signal::new(), Signal::new());
        spot.send(act!(Room, [order, waits, go, other, $told $(, $kept)*], |$turn| {
            let _ = &other;
            $before
            waits.set();
            go.wait().await;
            $turn.n += 1;
            order.push("end of the handler");
        }))
        .await
        .unwrap();
        waits.wait().await;
        spot.send(act!(Room, [order], |_turn| order.push("competitor"))).await.unwrap();
        chances(&$node).await;
        go.set();
        $told.set();
        $node.quiesce().await.unwrap();
        order.take()
    }};
}

const KEPT: [&str; 2] = ["end of the handler", "competitor"];
const RELEASED: [&str; 2] = ["competitor", "end of the handler"];

/// Polls a Yield once by hand.
macro_rules! poll_once {
    ($call:expr) => {
        assert!(futures_util::poll!(&mut $call).is_pending())
    };
}

#[tokio::test]
async fn yield_8_a_a_forgotten_yield_keeps_the_gate_once_the_state_was_touched() {
    everywhere(async |node| {
        let order = waits_after!(node, [], |turn, told| {
            let other = turn.spot::<Room>("other").find().unwrap();
            let mut call = turn.yielding(far(&other, &told));
            poll_once!(call);
            std::mem::forget(call);
            turn.n += 1;
        });
        assert_eq!(order, KEPT);
    })
    .await;
}

#[tokio::test]
async fn yield_8_b_every_way_to_reach_the_state_keeps_the_gate_of_a_forgotten_yield() {
    everywhere(async |node| {
        for way in 0..4 {
            let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
            let member = player_in(&node, &format!("member {way}"), &spot).await;
            let (order, waits, go, told) = (Log::new(), Signal::new(), Signal::new(), Signal::new());
            member
                .send(act!(Player, [order, waits, go, other, told], |turn| {
                    let mut turn = turn.within::<Room>().unwrap();
                    let mut call = turn.yielding(far(&other, &told));
                    poll_once!(call);
                    std::mem::forget(call);
                    let own: &u64 = match way {
                        0 => &turn.n,
                        1 => &turn.state().n,
                        2 => &turn.both().0.n,
                        _ => &turn.spot_state().n,
                    };
                    waits.set();
                    go.wait().await;
                    // The reference lived over the wait: only the kept gate makes that sound.
                    assert_eq!(*own, 0);
                    order.push("end of the handler");
                }))
                .await
                .unwrap();
            waits.wait().await;
            spot.send(act!(Room, [order], |turn| {
                turn.n += 1;
                order.push("competitor");
            }))
            .await
            .unwrap();
            chances(&node).await;
            go.set();
            told.set();
            node.quiesce().await.unwrap();
            assert_eq!(order.take(), KEPT, "way {way}");
            spot.ask(act!(Room, [], |turn| turn.n = 0)).await.unwrap();
        }
    })
    .await;
}

/// Nothing of the state can be reached, so the gate may be given up; the handler still ends in order.
#[tokio::test]
async fn yield_8_c_a_forgotten_yield_without_a_touch_lets_the_handler_end_and_the_others_run() {
    everywhere(async |node| {
        let order = waits_after!(node, [], |turn, told| {
            let other = turn.spot::<Room>("other").find().unwrap();
            let mut call = turn.yielding(far(&other, &told));
            poll_once!(call);
            std::mem::forget(call);
        });
        assert_eq!(order.len(), 2, "{order:?}");
        let spot = node.spot::<Room>("spot").find().unwrap();
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn yield_8_d_a_yield_that_lost_a_select_and_was_dropped_keeps_the_gate() {
    everywhere(async |node| {
        let order = waits_after!(node, [], |turn, told| {
            let other = turn.spot::<Room>("other").find().unwrap();
            let call = turn.yielding(far(&other, &told));
            let quick = std::pin::pin!(crate::world::once_more());
            match select(call, quick).await {
                Either::Right(((), call)) => drop(call),
                Either::Left(_) => panic!("nobody answered yet"),
            }
        });
        assert_eq!(order, KEPT);
    })
    .await;
}

#[tokio::test]
async fn yield_8_e_a_yield_that_lost_a_select_of_tokio_keeps_the_gate() {
    everywhere(async |node| {
        let (lost, wins) = (Signal::new(), Signal::new());
        let win = async {
            while node.metrics().yields == 0 {
                tokio::task::yield_now().await;
            }
            wins.set();
        };
        let order = async {
            waits_after!(node, [lost, wins], |turn, told| {
                let other = turn.spot::<Room>("other").find().unwrap();
                tokio::select! {
                    _ = turn.yielding(far(&other, &told)) => panic!("nobody answered yet"),
                    () = wins.wait() => lost.set(),
                }
            })
        };
        let (order, ()) = tokio::join!(order, win);
        assert!(lost.is_set());
        assert_eq!(order, KEPT);
        assert_eq!(node.metrics().yields, 1, "it had been given up while the race was on");
    })
    .await;
}

#[tokio::test]
async fn yield_8_f_a_handler_that_raced_a_yield_has_the_gate_when_it_goes_on() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told, stop) = (Log::new(), Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, stop], |turn| {
            tokio::select! {
                _ = turn.yielding(call) => panic!("nobody answered yet"),
                () = stop.wait() => {}
            }
            order.push("raced");
        }))
        .await
        .unwrap();
        // The race is decided while another handler has the gate: the loser waits for its turn.
        let go = hold(&spot).await;
        stop.set();
        chances(&node).await;
        assert_eq!(order.len(), 0, "polled without the gate");
        spot.send(act!(Room, [order], |_turn| order.push("queued later"))).await.unwrap();
        go.set();
        ping(&spot).await;
        told.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["raced", "queued later"]);
    })
    .await;
}

#[tokio::test]
async fn yield_8_g_a_yield_that_is_refused_at_once_leaves_the_gate_kept() {
    everywhere(async |node| {
        let order = waits_after!(node, [], |turn, told| {
            let _ = &told;
            let ask = turn.spot::<Room>("nobody").ask(act!(Room, [], |_turn| ()));
            assert_eq!(turn.yielding(ask).await.unwrap_err().kind(), Some(ErrorKind::NotFound));
        });
        assert_eq!(order, KEPT);
        assert_eq!(node.metrics().yields, 0);
    })
    .await;
}

#[tokio::test]
async fn gate_7_a_join_of_a_yield_and_an_ordinary_wait_releases_the_gate_for_both() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told, go) = (Log::new(), Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, go], |turn| {
            let (answer, ()) = futures_util::join!(turn.yielding(call), go.wait());
            answer.unwrap();
            order.push("both");
        }))
        .await
        .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("with both pending"))).await.unwrap();
        go.set();
        chances(&node).await;
        spot.ask(act!(Room, [order], |_turn| order.push("with the ordinary one over"))).await.unwrap();
        told.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["with both pending", "with the ordinary one over", "both"]);
    })
    .await;
}

#[tokio::test]
async fn gate_7_b_a_join_whose_yield_is_over_keeps_the_gate_for_the_ordinary_wait() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told, go, answered) = (Log::new(), Signal::new(), Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, go, answered], |turn| {
            let yielded = async {
                turn.yielding(call).await.unwrap();
                answered.set();
            };
            futures_util::join!(yielded, go.wait());
            order.push("both");
        }))
        .await
        .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("with both pending"))).await.unwrap();
        told.set();
        answered.wait().await;
        spot.send(act!(Room, [order], |_turn| order.push("kept back"))).await.unwrap();
        chances(&node).await;
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["with both pending", "both", "kept back"]);
    })
    .await;
}

/// A sibling wakes the handler while the Yield is not polled again; the callee needs the gate to answer.
#[tokio::test]
async fn yield_8_h_a_yield_beside_siblings_that_wake_alone_does_not_keep_the_gate_from_its_callee() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, wake_sibling, sibling_ran, ask_back) =
            (Log::new(), Signal::new(), Signal::new(), Signal::new());
        let call = other.ask(act!(Room, [ask_back, spot, order], |_turn| {
            ask_back.wait().await;
            spot.ask(act!(Room, [order], |_turn| order.push("callee under the gate"))).await.unwrap();
        }));
        spot.send(act!(Room, [order, wake_sibling, sibling_ran], |turn| {
            let both_over = Signal::new();
            let mut all: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + Send + '_>>> =
                FuturesUnordered::new();
            let (yield_over, sibling_over) = (both_over.clone(), both_over.clone());
            all.push(Box::pin(async move {
                turn.yielding(call).await.unwrap();
                yield_over.set();
            }));
            all.push(Box::pin(async move {
                wake_sibling.wait().await;
                for _ in 0..10 {
                    crate::world::once_more().await;
                }
                sibling_ran.set();
                sibling_over.wait().await;
            }));
            while all.next().await.is_some() {}
            order.push("both over");
        }))
        .await
        .unwrap();
        ping(&spot).await;
        wake_sibling.set();
        sibling_ran.wait().await;
        ask_back.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["callee under the gate", "both over"]);
    })
    .await;
}

/// The same with the callee a member of the very Spot, reached without a detour.
#[tokio::test]
async fn yield_8_i_siblings_that_never_rest_do_not_keep_the_gate_from_a_member() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let member = player_in(&node, "member", &spot).await;
        let asked = spot.ask(act!(Room, [member], |turn| {
            let over = Signal::new();
            let call = member.ask(act!(Player, [], |turn| {
                turn.n += 1;
                turn.n
            }));
            let mut all: FuturesUnordered<Pin<Box<dyn Future<Output = u64> + Send + '_>>> =
                FuturesUnordered::new();
            for _ in 0..8 {
                let over = over.clone();
                all.push(Box::pin(async move {
                    while !over.is_set() {
                        crate::world::once_more().await;
                    }
                    0
                }));
            }
            all.push(Box::pin(async move {
                let n = turn.yielding(call).await.unwrap();
                over.set();
                n
            }));
            let mut sum = 0;
            while let Some(n) = all.next().await {
                sum += n;
            }
            sum
        }));
        assert_eq!(asked.await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn yield_8_j_an_ordinary_wait_beside_a_finished_select_sees_no_old_answer() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (late, stop) = (Signal::new(), Signal::new());
        let first = far(&other, &late);
        let asked = spot.ask(act!(Room, [other, stop], |turn| {
            tokio::select! {
                _ = turn.yielding(first) => panic!("nobody answered yet"),
                () = stop.wait() => {}
            }
            // The late answer of the first call must not be taken for this one's.
            turn.yielding(other.ask(act!(Room, [], |_turn| 42))).await.unwrap()
        }));
        let answers = async {
            while node.metrics().yields == 0 {
                tokio::task::yield_now().await;
            }
            stop.set();
            while node.metrics().yields < 2 {
                tokio::task::yield_now().await;
            }
            answer(&other, &late).await;
        };
        let (answer, ()) = tokio::join!(asked, answers);
        assert_eq!(answer.unwrap(), 42);
        assert_eq!(node.metrics().late, 1, "the answer to the call that was given up");
    })
    .await;
}

/// A pending poll with a Yield alive but last polled long ago is still a wait with the gate released.
#[tokio::test]
async fn yield_8_k_a_yield_kept_alive_beside_an_ordinary_wait_releases_the_gate() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told, go) = (Log::new(), Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, go], |turn| {
            let mut call = turn.yielding(call);
            poll_once!(call);
            go.wait().await;
            call.await.unwrap();
            order.push("end of the handler");
        }))
        .await
        .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("competitor"))).await.unwrap();
        go.set();
        told.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), RELEASED);
    })
    .await;
}

/// Every poll of many handlers that yield at once is inside the gate.
#[tokio::test]
async fn yield_8_l_handlers_woken_by_many_threads_at_once_are_polled_one_at_a_time() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let overlap = crate::support::Overlap::new();
        let asks = (0..64).map(|_| {
            spot.ask(act!(Room, [overlap], |turn| {
                for _ in 0..10 {
                    let work = turn.io(tokio::task::yield_now());
                    let mut call = turn.yielding(work);
                    poll_fn(|cx| {
                        let _inside = overlap.enter();
                        (0..50).for_each(|_| std::hint::spin_loop());
                        Pin::new(&mut call).poll(cx)
                    })
                    .await
                    .unwrap();
                    drop(call);
                    let n = turn.n;
                    std::thread::yield_now();
                    turn.n = n + 1;
                }
            }))
        });
        for answer in futures_util::future::join_all(asks).await {
            answer.unwrap();
        }
        assert_eq!(overlap.most(), 1);
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 640, "no update was lost");
    })
    .await;
}

/// A poll that returns ready in between leaves nothing of the race behind.
#[tokio::test]
async fn yield_8_m_a_yield_polled_by_hand_to_its_end_keeps_the_gate_afterwards() {
    everywhere(async |node| {
        let order = waits_after!(node, [], |turn, told| {
            let other = turn.spot::<Room>("other").find().unwrap();
            let mut call = turn.yielding(far(&other, &told));
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    told.set();
                }
                match Pin::new(&mut call).poll(cx) {
                    Poll::Ready(answer) => {
                        answer.unwrap();
                        Poll::Ready(())
                    }
                    Poll::Pending => Poll::Pending,
                }
            })
            .await;
        });
        assert_eq!(order, KEPT);
    })
    .await;
}
