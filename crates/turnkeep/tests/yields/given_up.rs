//! Yields that time out or are cancelled: the Spot stays free, and the claim is released with the handler.

use std::time::Duration;

use turnkeep::prelude::*;

use crate::support::{Log, Signal};
use crate::world::{Player, Room, answer, everywhere, far, newcomer, ping, player_in, room};

const SHORT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn yield_10_a_a_timed_out_yield_of_a_spot_leaves_it_free() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let never = Signal::new();
        let call = far(&other, &never).timeout(SHORT);
        let asked = spot.ask(act!(Room, [], |turn| {
            let kind = turn.yielding(call).await.unwrap_err().kind();
            turn.n += 1;
            kind
        }));
        assert_eq!(asked.await.unwrap(), Some(ErrorKind::DeadlineExceeded));
        ping(&spot).await;
        answer(&other, &never).await;
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().late, 1);
        assert_eq!(spot.queued(), (0, 0));
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn yield_10_b_a_timed_out_yield_of_a_member_releases_its_claim_once_the_handler_has_ended() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        let (never, order, timed_out, go) = (Signal::new(), Log::new(), Signal::new(), Signal::new());
        let call = far(&other, &never).timeout(SHORT);
        member
            .send(act!(Player, [order, timed_out, go], |turn| {
                let error = turn.within::<Room>().unwrap().yielding(call).await.unwrap_err();
                assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
                timed_out.set();
                go.wait().await;
                order.push("end of the handler");
            }))
            .await
            .unwrap();
        member.send(act!(Player, [order], |_turn| order.push("next message"))).await.unwrap();
        timed_out.wait().await;
        crate::world::chances(&node).await;
        assert_eq!(order.len(), 0, "the handler has not ended");
        go.set();
        member.ask(act!(Player, [], |_turn| ())).await.unwrap();
        ping(&spot).await;
        assert_eq!(order.take(), ["end of the handler", "next message"]);
        never.set();
    })
    .await;
}

#[tokio::test]
async fn yield_10_c_a_yield_cancelled_by_its_handler_leaves_spot_and_claim_free() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        for _ in 0..50 {
            let (never, stop) = (Signal::new(), Signal::new());
            let call = far(&other, &never);
            let asked = member.ask(act!(Player, [stop], |turn| {
                let mut turn = turn.within::<Room>().unwrap();
                tokio::select! {
                    _ = turn.yielding(call) => panic!("nobody answered"),
                    () = stop.wait() => {}
                }
                turn.n += 1;
                turn.n
            }));
            let cancel = async {
                ping(&spot).await;
                stop.set();
            };
            let (n, ()) = tokio::join!(asked, cancel);
            n.unwrap();
            never.set();
            ping(&spot).await;
        }
        assert_eq!(member.ask(act!(Player, [], |turn| turn.n)).await.unwrap(), 50);
        node.quiesce().await.unwrap();
        assert_eq!((spot.queued(), member.queued()), ((0, 0), (0, 0)));
    })
    .await;
}

#[tokio::test]
async fn yield_10_d_a_yielding_member_that_is_destroyed_leaves_the_spot_free() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        let never = Signal::new();
        let call = far(&other, &never);
        let asked = member.ask(act!(Player, [], |turn| {
            turn.within::<Room>().unwrap().yielding(call).await.unwrap();
        }));
        let destroy = async {
            while node.metrics().yields == 0 {
                tokio::task::yield_now().await;
            }
            member.send(act!(Player, [], |_turn| panic!("never run"))).await.unwrap();
            member.destroy().await.unwrap();
            ping(&spot).await;
        };
        let (asked, ()) = tokio::join!(asked, destroy);
        assert_eq!(asked.unwrap_err().kind(), Some(ErrorKind::Unavailable));
        let again = newcomer(&node, "member", &spot).await;
        answer(&other, &never).await;
        again.ask(act!(Player, [], |_turn| ())).await.unwrap();
        ping(&spot).await;
        assert_eq!(node.metrics().panics, 0);
    })
    .await;
}

/// The caller gives up; the yielding handler does not, and ends in order.
#[tokio::test]
async fn yield_10_e_a_caller_that_gives_up_leaves_the_yielding_handler_to_its_end() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let told = Signal::new();
        let call = far(&other, &told);
        let asked = spot.ask(act!(Room, [], |turn| {
            turn.yielding(call).await.unwrap();
            turn.n += 1;
        }));
        let asked = asked.timeout(Duration::from_secs(20));
        let mut asked = Box::pin(asked);
        assert!(futures_util::poll!(&mut asked).is_pending());
        while node.metrics().yields == 0 {
            tokio::task::yield_now().await;
        }
        drop(asked);
        ping(&spot).await;
        answer(&other, &told).await;
        node.quiesce().await.unwrap();
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 1);
        assert_eq!(node.metrics().late, 1);
    })
    .await;
}

/// Deadline and answer at the same moment, many times: one outcome each, and the handler goes on once.
#[tokio::test]
async fn yield_10_f_an_answer_that_races_the_deadline_ends_the_yield_once() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (mut answered, mut expired) = (0, 0);
        for round in 0..100 {
            let deadline = Duration::from_micros(200 + round * 7);
            let call = other.ask(act!(Room, [], |_turn| {
                work_for(Duration::from_micros(300));
            }));
            let call = call.timeout(deadline);
            let well = spot
                .ask(act!(Room, [], |turn| {
                    let well = turn.yielding(call).await.is_ok();
                    turn.n += 1;
                    well
                }))
                .await
                .unwrap();
            *(if well { &mut answered } else { &mut expired }) += 1;
        }
        assert_eq!(answered + expired, 100);
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 100);
        ping(&other).await;
        node.quiesce().await.unwrap();
        assert!(node.metrics().late <= expired, "late answers belong to expired calls");
    })
    .await;
}

/// Works for so long.
fn work_for(time: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
