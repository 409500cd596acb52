//! Where a yielding handler is stored: large and over-aligned futures, reused blocks, handlers whose object is
//! stopped by a panic meanwhile.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use turnkeep::prelude::*;

use crate::support::{Log, Signal};
use crate::world::{Player, Room, chances, everywhere, far, on_workers, ping, player_in, room};

/// Carries a far call to a handler with a large or an over-aligned future.
#[derive(Message)]
#[message(reply = bool)]
struct Large(#[message(no_heap)] Signal);
#[derive(Message)]
#[message(reply = bool)]
struct Aligned(#[message(no_heap)] Signal);

#[repr(align(256))]
struct Wide([u8; 300]);

impl Handles<Large> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, Large(told): Large) -> Result<bool, Never> {
        let seed = u8::try_from(turn.n % 251).unwrap();
        turn.n += 1;
        let mut bytes = [seed; 100_000];
        let at = bytes.as_ptr().addr();
        let wait = turn.io(async move { told.wait().await });
        turn.yielding(wait).await.unwrap();
        bytes[99_999] = bytes[0];
        crate::world::once_more().await;
        Ok(at == bytes.as_ptr().addr() && bytes.iter().all(|byte| *byte == seed))
    }
}

impl Handles<Aligned> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, Aligned(told): Aligned) -> Result<bool, Never> {
        let wide = Wide([7; 300]);
        let at = (&raw const wide).addr();
        let wait = turn.io(async move { told.wait().await });
        turn.yielding(wait).await.unwrap();
        crate::world::once_more().await;
        Ok(at.is_multiple_of(256) && at == (&raw const wide).addr() && wide.0 == [7; 300])
    }
}

#[tokio::test]
async fn yield_4_e_a_hundred_handlers_with_large_futures_yield_and_keep_what_they_hold() {
    everywhere(async |node| {
        let (spot, told) = (room(&node, "spot").await, Signal::new());
        let asks = futures_util::future::join_all((0..100).map(|_| spot.ask(Large(told.clone()))));
        let tell = async {
            while node.metrics().yields < 100 {
                ping(&spot).await;
            }
            told.set();
        };
        let (answers, ()) = tokio::join!(asks, tell);
        assert!(answers.into_iter().all(|answer| answer.unwrap()));
        ping(&spot).await;
    })
    .await;
}

#[tokio::test]
async fn yield_4_f_over_aligned_futures_stay_where_they_are_over_a_yield() {
    everywhere(async |node| {
        let (spot, told) = (room(&node, "spot").await, Signal::new());
        let asks = futures_util::future::join_all((0..50).map(|_| spot.ask(Aligned(told.clone()))));
        let tell = async {
            while node.metrics().yields < 50 {
                ping(&spot).await;
            }
            told.set();
        };
        let (answers, ()) = tokio::join!(asks, tell);
        assert!(answers.into_iter().all(|answer| answer.unwrap()));
    })
    .await;
}

/// Forgets a pending Yield and ends in the same poll; the next handler in the same block waits ordinarily.
#[tokio::test]
async fn yield_8_r_a_forgotten_yield_leaves_nothing_to_the_next_handler_in_its_storage() {
    on_workers(&[1, 2], async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let mut same_block = 0;
        for _ in 0..20 {
            let (never, go, waits) = (Signal::new(), Signal::new(), Signal::new());
            let (order, blocks) = (Log::new(), Log::new());
            let call = far(&other, &never);
            let begin = crate::world::hold(&spot).await;
            spot.try_send(act!(Room, [blocks], |turn| {
                blocks.push(block_of_this_handler().await);
                let mut call = turn.yielding(call);
                // A waker that keeps nothing, so that the block is free when the handler has ended.
                assert!(Pin::new(&mut call).poll(&mut Context::from_waker(Waker::noop())).is_pending());
                std::mem::forget(call);
            }))
            .unwrap();
            spot.try_send(act!(Room, [blocks, order, go, waits], |turn| {
                blocks.push(block_of_this_handler().await);
                let _ = &turn;
                waits.set();
                go.wait().await;
                order.push("end of the handler");
            }))
            .unwrap();
            spot.try_send(act!(Room, [order], |_turn| order.push("competitor"))).unwrap();
            begin.set();
            waits.wait().await;
            chances(&node).await;
            go.set();
            never.set();
            node.quiesce().await.unwrap();
            assert_eq!(order.take(), ["end of the handler", "competitor"]);
            let blocks = blocks.take();
            same_block += usize::from(blocks[0] == blocks[1]);
        }
        assert!(same_block > 0, "no block was reused: the test shows nothing");
    })
    .await;
}

/// A number that two handlers share only if they are stored in the same place.
async fn block_of_this_handler() -> usize {
    poll_fn(|cx| Poll::Ready(cx.waker().data().addr())).await
}

/// Counts its drops, and how many of them happened while the Spot's own code was running.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn yield_8_s_a_panic_stops_the_spot_with_its_yielding_handlers_each_dropped_once() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (told, drops) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let elsewhere = room(&node, "elsewhere").await;
        let asks = (0..10).map(|n| {
            let guard = Dropped(drops.clone());
            let call = if n == 0 { far(&other, &told) } else { far(&elsewhere, &told) };
            spot.ask(act!(Room, [], |turn| {
                let _guard = guard;
                turn.yielding(call).await.unwrap();
                turn.n += 1;
            }))
        });
        let asks = futures_util::future::join_all(asks);
        let panics = async {
            while node.metrics().yields < 10 {
                tokio::task::yield_now().await;
            }
            let panicked = spot.ask(act!(Room, [], |_turn| panic!("on purpose"))).await;
            let panicked: Result<(), _> = panicked;
            assert_eq!(panicked.unwrap_err().kind(), Some(ErrorKind::InternalFailure));
        };
        let (answers, ()) = tokio::join!(asks, panics);
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind(), Some(ErrorKind::Unavailable));
        }
        assert_eq!(drops.load(Ordering::SeqCst), 10);
        told.set();
        ping(&elsewhere).await;
        ping(&other).await;
        assert_eq!(drops.load(Ordering::SeqCst), 10);
        // Whoever asked is told before the object is gone.
        spot.watch().await.unwrap();
        assert!(spot.has_ended());
        ping(&room(&node, "spot").await).await;
    })
    .await;
}

#[tokio::test]
async fn yield_8_t_a_panic_of_a_member_leaves_the_yielding_handlers_of_its_spot_alone() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (bad, good) = (player_in(&node, "bad", &spot).await, player_in(&node, "good", &spot).await);
        let told = Signal::new();
        let (spot_call, good_call, bad_call) =
            (far(&other, &told), far(&room(&node, "2").await, &told), far(&room(&node, "3").await, &told));
        let in_spot = spot.ask(act!(Room, [], |turn| {
            turn.yielding(spot_call).await.unwrap();
            turn.n
        }));
        let in_good = good.ask(act!(Player, [], |turn| {
            let mut turn = turn.within::<Room>().unwrap();
            turn.yielding(good_call).await.unwrap();
            turn.spot_state().n += 1;
        }));
        let in_bad = bad.ask(act!(Player, [told], |turn| {
            turn.within::<Room>().unwrap().yielding(bad_call).await.unwrap();
            assert!(!told.is_set(), "on purpose, after the yield");
        }));
        let tell = async {
            while node.metrics().yields < 3 {
                tokio::task::yield_now().await;
            }
            told.set();
        };
        let (in_spot, in_good, in_bad, ()) = tokio::join!(in_spot, in_good, in_bad, tell);
        assert!(in_spot.unwrap() <= 1);
        in_good.unwrap();
        assert_eq!(in_bad.unwrap_err().kind(), Some(ErrorKind::InternalFailure));
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 1);
        good.ask(act!(Player, [], |_turn| ())).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn yield_8_u_a_member_whose_spot_was_stopped_while_it_yielded_finds_no_state_and_goes_on() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        let (told, order) = (Signal::new(), Log::new());
        let call = far(&other, &told);
        let in_member = member.ask(act!(Player, [order], |turn| {
            let mut turn = turn.within::<Room>().unwrap();
            turn.yielding(call).await.unwrap();
            order.push("goes on");
            let spot_is_gone = turn.try_both().is_none();
            turn.n += 1;
            (spot_is_gone, turn.n)
        }));
        let stop = async {
            while node.metrics().yields == 0 {
                tokio::task::yield_now().await;
            }
            let _: Result<(), _> = spot.ask(act!(Room, [], |_turn| panic!("on purpose"))).await;
            member.send(act!(Player, [order], |_turn| order.push("later message"))).await.unwrap();
            chances(&node).await;
            assert_eq!(order.len(), 0, "the claim was broken");
            told.set();
        };
        let (in_member, ()) = tokio::join!(in_member, stop);
        assert_eq!(in_member.unwrap(), (true, 1));
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["goes on", "later message"]);
        assert_eq!(member.place(), Some(node.entry_id()));
    })
    .await;
}
