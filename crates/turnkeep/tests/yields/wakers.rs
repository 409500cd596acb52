//! Wakers treated badly: foreign, cloned, kept too long, woken too often; and turns that change threads.

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use turnkeep::prelude::*;

use crate::support::{Log, Signal};
use crate::world::{Player, Room, answer, everywhere, far, on_workers, once_more, ping, player_in, room};

#[tokio::test]
async fn yield_8_n_a_yield_polled_with_a_foreign_waker_gives_the_gate_up_and_ends_when_polled_again() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told, go) = (Log::new(), Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, go], |turn| {
            let mut call = turn.yielding(call);
            assert!(Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())).is_pending());
            go.wait().await;
            call.await.unwrap();
            order.push("end of the handler");
        }))
        .await
        .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("competitor"))).await.unwrap();
        // The answer wakes a waker that does nothing; the handler is not polled for it.
        answer(&other, &told).await;
        spot.ask(act!(Room, [order], |_turn| order.push("competitor"))).await.unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["competitor", "competitor", "end of the handler"]);
    })
    .await;
}

/// Keeps the wakers of every poll of a future.
async fn keeping<F: Future>(wakers: &Mutex<Vec<Waker>>, future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    poll_fn(|cx| {
        wakers.lock().unwrap().push(cx.waker().clone());
        future.as_mut().poll(cx)
    })
    .await
}

#[tokio::test]
async fn yield_8_o_wakers_woken_after_their_handler_ended_disturb_no_successor() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let wakers = Arc::new(Mutex::new(Vec::new()));
        for round in 0..50 {
            let told = Signal::new();
            let call = far(&other, &told);
            let asked = spot.ask(act!(Room, [wakers], |turn| {
                keeping(&wakers, turn.yielding(call)).await.unwrap();
                keeping(&wakers, once_more()).await;
                turn.n += 1;
                turn.n
            }));
            // The wakers of all rounds before are woken while this round's handler yields and goes on.
            let noise = async {
                let old = wakers.lock().unwrap().clone();
                let thread = std::thread::spawn(move || old.iter().for_each(Waker::wake_by_ref));
                told.set();
                thread.join().unwrap();
            };
            let (answer, ()) = tokio::join!(asked, noise);
            assert_eq!(answer.unwrap(), round + 1);
        }
        node.quiesce().await.unwrap();
        let turns = node.metrics().turns;
        let all = std::mem::take(&mut *wakers.lock().unwrap());
        all.into_iter().for_each(Waker::wake);
        ping(&spot).await;
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().turns, turns + 1, "old wakers make no turns");
    })
    .await;
}

#[tokio::test]
async fn yield_8_p_a_yielding_handler_woken_thousands_of_times_runs_once_and_alone() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (told, resumed) = (Signal::new(), Log::new());
        let wakers = Arc::new(Mutex::new(Vec::new()));
        let call = far(&other, &told);
        let overlap = crate::support::Overlap::new();
        spot.send(act!(Room, [wakers, resumed, overlap], |turn| {
            let mut call = turn.yielding(call);
            poll_fn(|cx| {
                let _inside = overlap.enter();
                wakers.lock().unwrap().push(cx.waker().clone());
                Pin::new(&mut call).poll(cx)
            })
            .await
            .unwrap();
            drop(call);
            resumed.push(turn.grant());
        }))
        .await
        .unwrap();
        ping(&spot).await;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let wakers = wakers.clone();
                std::thread::spawn(move || {
                    for _ in 0..5_000 {
                        let waker = wakers.lock().unwrap()[0].clone();
                        waker.wake();
                    }
                })
            })
            .collect();
        for _ in 0..500 {
            spot.ask(act!(Room, [overlap], |turn| {
                let _inside = overlap.enter();
                turn.n += 1;
            }))
            .await
            .unwrap();
        }
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(resumed.len(), 0);
        told.set();
        node.quiesce().await.unwrap();
        assert_eq!(resumed.len(), 1);
        assert_eq!(overlap.most(), 1);
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 500);
    })
    .await;
}

#[tokio::test]
async fn gate_7_c_a_handler_that_wakes_itself_keeps_its_gate_and_lets_other_gates_run() {
    everywhere(async |node| {
        let (busy, other) = (room(&node, "busy").await, room(&node, "other").await);
        let (order, stop, started) = (Log::new(), Signal::new(), Signal::new());
        busy.send(act!(Room, [order, stop, started], |_turn| {
            started.set();
            while !stop.is_set() {
                once_more().await;
            }
            order.push("busy one");
        }))
        .await
        .unwrap();
        started.wait().await;
        busy.send(act!(Room, [order], |_turn| order.push("competitor"))).await.unwrap();
        for _ in 0..100 {
            ping(&other).await;
        }
        assert_eq!(order.len(), 0);
        stop.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["busy one", "competitor"]);
    })
    .await;
}

#[tokio::test]
async fn yield_4_d_a_yielding_handler_that_wakes_itself_lets_its_spot_run() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let told = Signal::new();
        let call = far(&other, &told);
        spot.send(act!(Room, [told], |turn| {
            let mut call = turn.yielding(call);
            poll_fn(|cx| match Pin::new(&mut call).poll(cx) {
                Poll::Pending => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                ready => ready,
            })
            .await
            .unwrap();
            assert!(told.is_set());
        }))
        .await
        .unwrap();
        for _ in 0..200 {
            ping(&spot).await;
        }
        told.set();
    })
    .await;
}

#[tokio::test]
async fn yield_8_q_a_waker_outlives_its_node() {
    let wakers = Arc::new(Mutex::new(Vec::new()));
    on_workers(&[1, 2], async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let told = Signal::new();
        let call = far(&other, &told);
        spot.send(act!(Room, [wakers], |turn| keeping(&wakers, turn.yielding(call)).await.unwrap()))
            .await
            .unwrap();
        ping(&spot).await;
        told.set();
    })
    .await;
    let wakers = std::mem::take(&mut *wakers.lock().unwrap());
    assert!(wakers.len() >= 4);
    for waker in wakers {
        waker.wake_by_ref();
        waker.wake();
    }
}

/// A turn goes on where a worker is free: the one it began on is occupied meanwhile.
async fn moved_thread(
    node: &Node,
    mark: &str,
    asked: impl Future<Output = (ThreadId, ThreadId)>,
    begun: Signal,
    go: Signal,
    first: Arc<Mutex<Option<ThreadId>>>,
) {
    let occupy = async {
        begun.wait().await;
        let wanted = first.lock().unwrap().unwrap();
        let mut blockers: Vec<(ThreadId, Signal)> = Vec::new();
        while !blockers.iter().any(|(thread, _)| *thread == wanted) {
            let blocker = room(node, &format!("{mark} blocker {}", blockers.len())).await;
            let (free, on) = (Signal::new(), Arc::new(Mutex::new(None)));
            let blocking = Signal::new();
            blocker
                .send(act!(Room, [free, on, blocking], |_turn| {
                    *on.lock().unwrap() = Some(std::thread::current().id());
                    blocking.set();
                    free.wait_blocking();
                }))
                .await
                .unwrap();
            blocking.wait().await;
            let thread = on.lock().unwrap().unwrap();
            blockers.push((thread, free));
        }
        // Everybody but the wanted thread is free again.
        blockers.iter().filter(|(thread, _)| *thread != wanted).for_each(|(_, free)| free.set());
        go.set();
        blockers
    };
    let ((before, after), blockers) = tokio::join!(asked, occupy);
    assert_ne!(before, after, "the worker it began on was occupied");
    blockers.iter().for_each(|(_, free)| free.set());
}

#[tokio::test]
async fn gate_10_a_an_ordinary_wait_goes_on_on_another_thread_as_the_same_turn() {
    on_workers(&[2], async |node| {
        let player = node.actor::<Player>("player").create().await.unwrap();
        let (begun, go, first) = (Signal::new(), Signal::new(), Arc::new(Mutex::new(None)));
        let asked = async {
            player
                .ask(act!(Player, [begun, go, first], |turn| {
                    let before = std::thread::current().id();
                    let (grant, flow) = (turn.grant(), turn.flow());
                    *first.lock().unwrap() = Some(before);
                    begun.set();
                    go.wait().await;
                    assert_eq!((turn.grant(), turn.flow()), (grant, flow));
                    assert!(turn.deadline().is_some());
                    // The rules of waiting know this turn on the new thread, too.
                    let itself = turn.this_actor().ask(act!(Player, [], |_turn| ())).await.unwrap_err();
                    assert_eq!(itself.kind(), Some(ErrorKind::InvalidOperation));
                    (before, std::thread::current().id())
                }))
                .await
                .unwrap()
        };
        moved_thread(&node, "a", asked, begun.clone(), go.clone(), first.clone()).await;
    })
    .await;
}

#[tokio::test]
async fn gate_10_b_a_yield_goes_on_on_another_thread_as_the_same_handler() {
    on_workers(&[2], async |node| {
        let spot = room(&node, "spot").await;
        let (begun, go, first) = (Signal::new(), Signal::new(), Arc::new(Mutex::new(None)));
        let asked = async {
            spot.ask(act!(Room, [begun, go, first], |turn| {
                let before = std::thread::current().id();
                let flow = turn.flow();
                *first.lock().unwrap() = Some(before);
                begun.set();
                let wait = turn.io(async move { go.wait().await });
                turn.yielding(wait).await.unwrap();
                assert_eq!(turn.flow(), flow);
                assert!(turn.deadline().is_some());
                let itself = turn.this_spot().ask(act!(Room, [], |_turn| ())).await.unwrap_err();
                assert_eq!(itself.kind(), Some(ErrorKind::InvalidOperation));
                (before, std::thread::current().id())
            }))
            .await
            .unwrap()
        };
        moved_thread(&node, "b", asked, begun.clone(), go.clone(), first.clone()).await;
    })
    .await;
}

/// Flows as the context that a thread could leak: each handler finds its own after every kind of wait.
#[tokio::test]
async fn gate_10_c_no_handler_ever_sees_the_context_of_another_on_its_thread() {
    everywhere(async |node| {
        let spots = [room(&node, "one").await, room(&node, "two").await, room(&node, "three").await];
        let mut members = Vec::new();
        for n in 0..30 {
            members.push(player_in(&node, &format!("m{n}"), &spots[n % 3]).await);
        }
        let asks = (0..300_usize).map(|n| {
            let (next, helper) = (spots[(n + 1) % 3].clone(), node.channel::<crate::world::Desk>("desk"));
            members[n % 30].ask(act!(Player, [], |turn| {
                let flow = turn.flow();
                let mut turn = turn.within::<Room>().unwrap();
                let mut seen = vec![flow];
                let work = turn.cpu(|| ());
                turn.yielding(work).await.unwrap();
                seen.push(turn.flow());
                once_more().await;
                seen.push(turn.flow());
                let call = next.ask(act!(Room, [], |turn| turn.flow()));
                seen.push(turn.yielding(call).await.unwrap());
                let call = helper.ask(act!(crate::world::Desk, [], |turn| turn.flow()));
                seen.push(turn.yielding(call).await.unwrap());
                seen.push(turn.flow());
                seen
            }))
        });
        let mut flows = HashSet::new();
        for seen in futures_util::future::join_all(asks).await {
            let seen = seen.unwrap();
            assert!(seen.iter().all(|flow| *flow == seen[0] && *flow != 0), "{seen:?}");
            assert!(flows.insert(seen[0]), "two messages had one flow");
        }
    })
    .await;
}
