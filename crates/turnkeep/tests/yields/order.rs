//! Who runs while a handler yields, what its claim keeps back, and where its resume stands in the queue.

use turnkeep::prelude::*;

use crate::support::{Log, Overlap, Signal, within};
use crate::world::{
    Cache, Player, Room, answer, chances, everywhere, far, hold, newcomer, on_workers, ping, player_in, room,
    world_with_lane,
};

#[tokio::test]
async fn yield_4_a_other_spot_and_member_handlers_run_while_a_spot_handler_yields() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let member = player_in(&node, "member", &spot).await;
        let (go, order) = (Signal::new(), Log::new());
        let call = far(&other, &go);
        spot.send(act!(Room, [order], |turn| {
            order.push("asks");
            turn.yielding(call).await.unwrap();
            order.push("goes on");
        }))
        .await
        .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("Spot"))).await.unwrap();
        member.ask(act!(Player, [order], |_turn| order.push("member"))).await.unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["asks", "Spot", "member", "goes on"]);
    })
    .await;
}

#[tokio::test]
async fn yield_4_b_the_spot_and_other_members_run_while_a_member_yields() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let yielder = player_in(&node, "yielder", &spot).await;
        let member = player_in(&node, "member", &spot).await;
        let (go, order) = (Signal::new(), Log::new());
        let call = far(&other, &go);
        yielder
            .send(act!(Player, [order], |turn| {
                order.push("asks");
                turn.within::<Room>().unwrap().yielding(call).await.unwrap();
                order.push("goes on");
            }))
            .await
            .unwrap();
        spot.ask(act!(Room, [order], |_turn| order.push("Spot"))).await.unwrap();
        member.ask(act!(Player, [order], |_turn| order.push("member"))).await.unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["asks", "Spot", "member", "goes on"]);
    })
    .await;
}

#[tokio::test]
async fn yield_4_c_an_instance_spot_serves_a_hundred_callers_that_all_yield_at_once() {
    everywhere(async |node| {
        let cache = node.spot::<Cache>("cache").create().await.unwrap();
        let all_in = std::sync::Arc::new(tokio::sync::Barrier::new(100));
        let overlap = Overlap::new();
        let asks = (0..100).map(|_| {
            cache.ask(act!(Cache, [all_in, overlap], |turn| {
                drop(overlap.enter());
                let met = turn.io(async move {
                    all_in.wait().await;
                });
                turn.yielding(met).await.unwrap();
                drop(overlap.enter());
                turn.n += 1;
                turn.n
            }))
        });
        let mut seen: Vec<u64> =
            futures_util::future::join_all(asks).await.into_iter().map(Result::unwrap).collect();
        seen.sort_unstable();
        assert_eq!(seen, (1..=100).collect::<Vec<_>>());
        assert_eq!(overlap.most(), 1);
    })
    .await;
}

/// A member whose handler yields, waits ordinarily, and yields again, each time until told.
async fn long_yielder(
    node: &Node,
    spot: &SpotRef<Room>,
    order: &Log<&'static str>,
) -> (ActorRef<Player>, [Signal; 3]) {
    let (one, two) = (room(node, "one").await, room(node, "two").await);
    let told = [Signal::new(), Signal::new(), Signal::new()];
    let [first, second, third] = &told;
    let state =
        Player { on_closing: life!(Player, [order], |_turn| order.push("on_closing")), ..Player::default() };
    let member = node.actor::<Player>("long").create_in(state, spot).await.unwrap();
    let (call_one, call_two) = (far(&one, first), far(&two, third));
    let started = Signal::new();
    member
        .send(act!(Player, [order, second, started], |turn| {
            started.set();
            let mut turn = turn.within::<Room>().unwrap();
            turn.yielding(call_one).await.unwrap();
            order.push("after the first yield");
            second.wait().await;
            order.push("after the ordinary wait");
            turn.yielding(call_two).await.unwrap();
            order.push("after the second yield");
        }))
        .await
        .unwrap();
    started.wait().await;
    (member, told)
}

#[tokio::test]
async fn yield_5_a_no_application_record_of_a_yielding_member_starts_before_its_continuation_ended() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let order = Log::new();
        let (member, [first, second, third]) = long_yielder(&node, &spot, &order).await;
        for _ in 0..3 {
            member.send(act!(Player, [order], |_turn| order.push("later message"))).await.unwrap();
        }
        chances(&node).await;
        ping(&spot).await;
        assert_eq!(order.len(), 0, "the claim was broken during the first yield");
        first.set();
        second.set();
        chances(&node).await;
        ping(&spot).await;
        assert!(order.len() <= 2, "the claim was broken during the second yield: {:?}", order.take());
        third.set();
        node.quiesce().await.unwrap();
        assert_eq!(
            order.take(),
            [
                "after the first yield",
                "after the ordinary wait",
                "after the second yield",
                "later message",
                "later message",
                "later message"
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn yield_5_b_no_lifecycle_record_of_a_yielding_member_starts_before_its_continuation_ended() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let order = Log::new();
        let (member, [first, second, third]) = long_yielder(&node, &spot, &order).await;
        member.request_close().unwrap();
        chances(&node).await;
        ping(&spot).await;
        // A close that had started would have sealed the lanes.
        member.send(act!(Player, [order], |_turn| order.push("still accepted"))).await.unwrap();
        assert_eq!(member.queued(), (2, 1), "yielder and message; the close waits");
        first.set();
        second.set();
        chances(&node).await;
        ping(&spot).await;
        member.send(act!(Player, [order], |_turn| order.push("accepted again"))).await.unwrap();
        third.set();
        node.quiesce().await.unwrap();
        assert!(member.has_ended());
        assert_eq!(
            order.take(),
            [
                "after the first yield",
                "after the ordinary wait",
                "after the second yield",
                "still accepted",
                "accepted again",
                "on_closing"
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn yield_5_c_the_claim_of_one_member_keeps_nobody_else_back() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let order = Log::new();
        let (member, told) = long_yielder(&node, &spot, &order).await;
        member.send(act!(Player, [order], |_turn| order.push("kept back"))).await.unwrap();
        for round in 0..20 {
            let other = newcomer(&node, &format!("other-{round}"), &spot).await;
            other.ask(act!(Player, [], |turn| turn.n += 1)).await.unwrap();
            ping(&spot).await;
            other.close().await.unwrap();
        }
        assert_eq!(order.len(), 0);
        told.iter().for_each(Signal::set);
        node.quiesce().await.unwrap();
        assert_eq!(order.take().last(), Some(&"kept back"));
    })
    .await;
}

/// Everything that can stand in a Spot queue stands there when the resume comes, and something comes after.
#[tokio::test]
async fn yield_6_a_a_resume_runs_after_everything_already_in_the_spot_queue() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let (far_one, far_two) = (room(&node, "far one").await, room(&node, "far two").await);
        let (p, q) = (player_in(&node, "p", &spot).await, player_in(&node, "q", &spot).await);
        let order = Log::new();
        let (earlier, later) = (Signal::new(), Signal::new());
        let member_says = |who: &ActorRef<Player>, text: &'static str| {
            who.try_send(act!(Player, [order], |_turn| order.push(text))).unwrap();
        };
        let spot_says = |text: &'static str| {
            spot.try_send(act!(Room, [order], |_turn| order.push(text))).unwrap();
        };
        for (call, text) in
            [(far(&far_one, &earlier), "earlier resume"), (far(&far_two, &later), "THE RESUME")]
        {
            spot.send(act!(Room, [order], |turn| {
                turn.yielding(call).await.unwrap();
                order.push(text);
            }))
            .await
            .unwrap();
        }
        let go = hold(&spot).await;
        spot_says("record 1");
        answer(&far_one, &earlier).await;
        member_says(&p, "p 1");
        member_says(&p, "p 2");
        member_says(&q, "q 1");
        spot_says("record 2");
        answer(&far_two, &later).await;
        spot_says("record 3");
        member_says(&p, "p 3");
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(
            order.take(),
            ["record 1", "earlier resume", "p 1", "q 1", "record 2", "THE RESUME", "record 3", "p 2", "p 3"]
        );
    })
    .await;
}

/// A member's resume stands in the Spot queue like anybody's, not in the member's own lane.
#[tokio::test]
async fn yield_6_b_the_resume_of_a_member_takes_its_place_in_the_spot_queue() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let p = player_in(&node, "p", &spot).await;
        let (order, told) = (Log::new(), Signal::new());
        let call = far(&other, &told);
        p.send(act!(Player, [order], |turn| {
            turn.within::<Room>().unwrap().yielding(call).await.unwrap();
            order.push("resume");
        }))
        .await
        .unwrap();
        let go = hold(&spot).await;
        p.try_send(act!(Player, [order], |_turn| order.push("p's next"))).unwrap();
        spot.try_send(act!(Room, [order], |_turn| order.push("before"))).unwrap();
        answer(&other, &told).await;
        spot.try_send(act!(Room, [order], |_turn| order.push("after"))).unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["before", "resume", "after", "p's next"]);
    })
    .await;
}

#[tokio::test]
async fn yield_6_c_a_resume_needs_no_room_in_a_full_lane_of_one() {
    for workers in [1, 2] {
        let node = world_with_lane(workers, 1).await;
        within(async {
            let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
            let p = player_in(&node, "p", &spot).await;
            let (order, told) = (Log::new(), Signal::new());
            let call = far(&other, &told);
            let started = Signal::new();
            spot.send(act!(Room, [order, started], |turn| {
                started.set();
                turn.yielding(call).await.unwrap();
                order.push("resume");
            }))
            .await
            .unwrap();
            started.wait().await;
            p.ask(act!(Player, [], |_turn| ())).await.unwrap();
            let refused = spot.try_send(act!(Room, [], |_turn| ())).unwrap_err();
            assert_eq!(
                refused.kind(),
                ErrorKind::CapacityExceeded,
                "a yielding handler keeps its reservation"
            );
            let waiter = tokio::spawn(spot.send(act!(Room, [order], |_turn| order.push("waiter"))));
            while spot.waiting().0 == 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(order.len(), 0);
            told.set();
            waiter.await.unwrap().unwrap();
            node.quiesce().await.unwrap();
            assert_eq!(order.take(), ["resume", "waiter"]);
            assert_eq!(spot.queued(), (0, 0));
        })
        .await;
    }
}

#[tokio::test]
async fn yield_6_d_a_resume_is_a_turn_of_its_own_and_no_new_packet() {
    everywhere(async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        node.quiesce().await.unwrap();
        let before = node.metrics();
        let told = Signal::new();
        let call = far(&other, &told);
        let asked = spot.ask(act!(Room, [], |turn| {
            let first = turn.grant();
            turn.yielding(call).await.unwrap();
            (first, turn.grant())
        }));
        let seen = async {
            while node.metrics().yields == before.yields {
                tokio::task::yield_now().await;
            }
            let queued = spot.queued();
            told.set();
            queued
        };
        let (grants, queued) = tokio::join!(asked, seen);
        let (first, second) = grants.unwrap();
        assert!(second > first, "{second} follows {first}");
        assert_eq!(queued, (1, 0));
        node.quiesce().await.unwrap();
        let after = node.metrics();
        assert_eq!(after.accepted - before.accepted, 2, "the two messages");
        assert_eq!(after.turns - before.turns, 3, "a turn for each, and the resume");
    })
    .await;
}

/// The wait ends while the handler is still being polled, with a competitor queued: still its place is at the
/// back, and the thread that answers runs nothing of it.
#[tokio::test]
async fn yield_6_e_a_wait_that_ends_during_the_poll_is_never_gone_on_with_inline() {
    on_workers(&[2, 4], async |node| {
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let (order, told) = (Log::new(), Signal::new());
        let (polled, back) = (Signal::new(), Signal::new());
        let call = far(&other, &told);
        spot.send(act!(Room, [order, polled, back], |turn| {
            {
                let mut call = turn.yielding(call);
                std::future::poll_fn(|cx| {
                    let poll = std::pin::Pin::new(&mut call).poll(cx);
                    if poll.is_pending() && !polled.is_set() {
                        polled.set();
                        back.wait_blocking();
                        order.push("end of the poll");
                    }
                    poll
                })
                .await
                .unwrap();
            }
            order.push("resume");
        }))
        .await
        .unwrap();
        polled.wait().await;
        spot.try_send(act!(Room, [order], |_turn| order.push("competitor"))).unwrap();
        answer(&other, &told).await;
        back.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["end of the poll", "competitor", "resume"]);
    })
    .await;
}

#[tokio::test]
async fn yield_6_f_resumes_run_in_the_order_in_which_the_waits_ended() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let order = Log::new();
        let mut waits = Vec::new();
        for n in 0..20_usize {
            let (other, told) = (room(&node, &format!("far {n}")).await, Signal::new());
            let call = far(&other, &told);
            spot.send(act!(Room, [order], |turn| {
                turn.yielding(call).await.unwrap();
                order.push(n);
            }))
            .await
            .unwrap();
            waits.push((other, told));
        }
        let go = hold(&spot).await;
        let ended: Vec<usize> = (0..20).map(|n| n * 7 % 20).collect();
        for &n in &ended {
            answer(&waits[n].0, &waits[n].1).await;
        }
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ended);
    })
    .await;
}

/// What exists already is found in the first poll: still the handler goes on behind what is queued.
#[tokio::test]
async fn yield_6_g_a_call_that_ends_at_once_goes_on_behind_the_queue() {
    everywhere(async |node| {
        let (spot, _there) = (room(&node, "spot").await, room(&node, "there").await);
        let order = Log::new();
        let go = hold(&spot).await;
        spot.try_send(act!(Room, [order], |turn| {
            let call = turn.spot::<Room>("there").get_or_create();
            turn.yielding(call).await.unwrap();
            order.push("resume");
        }))
        .unwrap();
        spot.try_send(act!(Room, [order], |_turn| order.push("queued"))).unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["queued", "resume"]);
    })
    .await;
}
