//! Waits that could never end: self-calls, waits on the gate one holds, room that only one's own end could make.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep::prelude::*;

use support::{Log, Signal, within};
use world::{
    Cabin, Cache, Desk, Lobby, Player, Room, everywhere, hold, ping, player_in, room, world_with_lane,
};

/// How often handlers that must not run have run.
#[derive(Clone, Default)]
struct Ran(Arc<AtomicUsize>);

impl Ran {
    fn run(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// What a refused ask left behind: its kind, whether the message came back, the queue of the target and what
/// the node had accepted before and after.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    kind: Option<ErrorKind>,
    message_is_back: bool,
    target_unchanged: bool,
    accepted: u64,
}

const REFUSED: Found = Found {
    kind: Some(ErrorKind::InvalidOperation),
    message_is_back: true,
    target_unchanged: true,
    accepted: 0,
};

/// Asks `$target` for a handler that must not run, and looks at everything that must not change.
macro_rules! refused {
    ($turn:ident, $type:ty, $target:expr, $ran:ident, |$ask:ident| $wait:expr) => {{
        let (node, target) = ($turn.node(), $target);
        let look = || (target.queued(), target.waiting(), target.reserved_bytes());
        let (before, accepted) = (look(), node.metrics().accepted);
        let $ask = target.ask(act!($type, [$ran], |_turn| $ran.run()));
        let error = $wait.await.unwrap_err();
        Found {
            kind: error.kind(),
            target_unchanged: look() == before,
            accepted: node.metrics().accepted - accepted,
            message_is_back: error.into_message().is_some(),
        }
    }};
}

#[tokio::test]
async fn reent_1_a_an_actor_with_its_own_gate_that_asks_itself_is_refused() {
    everywhere(async |node| {
        let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
        let in_cabin = player_in(&node, "in cabin", &cabin).await;
        let in_entry = node.actor::<Player>("in entry").create().await.unwrap();
        for actor in [in_cabin, in_entry] {
            let ran = Ran::default();
            let found = actor.ask(act!(Player, [ran], |turn| {
                refused!(turn, Player, turn.this_actor(), ran, |ask| ask)
            }));
            assert_eq!(found.await.unwrap(), REFUSED, "{actor:?}");
            actor.ask(act!(Player, [], |_turn| ())).await.unwrap();
            assert_eq!(ran.times(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn reent_1_b_a_member_that_asks_itself_is_refused_ordinary_or_yielding() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let member = player_in(&node, "member", &spot).await;
        let ran = Ran::default();
        let found = member.ask(act!(Player, [ran], |turn| {
            let ordinary = refused!(turn, Player, turn.this_actor(), ran, |ask| ask);
            let mut turn = turn.within::<Room>().unwrap();
            let yielding = refused!(turn, Player, turn.this_actor(), ran, |ask| turn.yielding(ask));
            (ordinary, yielding)
        }));
        assert_eq!(found.await.unwrap(), (REFUSED, REFUSED));
        member.ask(act!(Player, [], |_turn| ())).await.unwrap();
        assert_eq!((ran.times(), node.metrics().yields), (0, 0));
    })
    .await;
}

/// By its id, through the address, is the same as by reference.
#[tokio::test]
async fn reent_1_c_an_actor_that_asks_itself_by_its_id_is_refused_and_told_why() {
    everywhere(async |node| {
        let actor = node.actor::<Player>("narcissus").create().await.unwrap();
        let error = actor.ask(act!(Player, [], |turn| {
            turn.actor::<Player>("narcissus").ask(act!(Player, [], |_turn| ())).await.unwrap_err()
        }));
        let error = error.await.unwrap();
        assert_eq!(error.kind(), Some(ErrorKind::InvalidOperation));
        let text = error.to_string();
        assert!(text.contains("narcissus") && text.contains("wait for itself"), "{text}");
    })
    .await;
}

#[tokio::test]
async fn reent_2_a_spots_of_every_mode_that_ask_themselves_ordinarily_are_refused() {
    everywhere(async |node| {
        let ran = Ran::default();
        let spot = room(&node, "spot").await;
        let found = spot
            .ask(act!(Room, [ran], |turn| refused!(turn, Room, turn.this_spot(), ran, |ask| ask)))
            .await
            .unwrap();
        assert_eq!(found, REFUSED);
        let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
        let found =
            cabin.ask(act!(Cabin, [ran], |turn| refused!(turn, Cabin, turn.this_spot(), ran, |ask| ask)));
        assert_eq!(found.await.unwrap(), REFUSED);
        let cache = node.spot::<Cache>("cache").create().await.unwrap();
        let found =
            cache.ask(act!(Cache, [ran], |turn| refused!(turn, Cache, turn.this_spot(), ran, |ask| ask)));
        assert_eq!(found.await.unwrap(), REFUSED);
        let lobby = node.entry::<Lobby>().unwrap();
        let found =
            lobby.ask(act!(Lobby, [ran], |turn| refused!(turn, Lobby, turn.this_spot(), ran, |ask| ask)));
        assert_eq!(found.await.unwrap(), REFUSED);
        node.quiesce().await.unwrap();
        assert_eq!(ran.times(), 0);
    })
    .await;
}

#[tokio::test]
async fn reent_2_b_channel_and_node_handlers_that_ask_themselves_are_refused() {
    everywhere(async |node| {
        let ran = Ran::default();
        let channel = node.channel::<Desk>("desk").find().unwrap();
        let handler = node.handler::<Desk>("desk").find().unwrap();
        for desk in [channel, handler] {
            let found = desk.ask(act!(Desk, [ran, desk], |turn| refused!(turn, Desk, desk, ran, |ask| ask)));
            assert_eq!(found.await.unwrap(), REFUSED);
        }
        node.quiesce().await.unwrap();
        assert_eq!(ran.times(), 0);
    })
    .await;
}

#[tokio::test]
async fn reent_2_c_under_a_shared_gate_members_and_spot_refuse_ordinary_waits_on_each_other() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let (p, q) = (player_in(&node, "p", &spot).await, player_in(&node, "q", &spot).await);
        let ran = Ran::default();
        let found = p.ask(act!(Player, [ran, spot, q], |turn| {
            let of_spot = refused!(turn, Room, spot, ran, |ask| ask);
            let of_member = refused!(turn, Player, q, ran, |ask| ask);
            (of_spot, of_member)
        }));
        assert_eq!(found.await.unwrap(), (REFUSED, REFUSED));
        let found = spot.ask(act!(Room, [ran, p], |turn| refused!(turn, Player, p, ran, |ask| ask)));
        assert_eq!(found.await.unwrap(), REFUSED);
        node.quiesce().await.unwrap();
        assert_eq!(ran.times(), 0);
    })
    .await;
}

#[tokio::test]
async fn reent_2_d_actors_with_their_own_gate_may_wait_for_their_spot_and_for_each_other() {
    everywhere(async |node| {
        let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
        let (p, q) = (player_in(&node, "p", &cabin).await, player_in(&node, "q", &cabin).await);
        let sum = p.ask(act!(Player, [cabin, q], |_turn| {
            cabin.ask(act!(Cabin, [], |_turn| 1)).await.unwrap()
                + q.ask(act!(Player, [], |_turn| 2)).await.unwrap()
        }));
        assert_eq!(sum.await.unwrap(), 3);
        let of_member =
            cabin.ask(act!(Cabin, [p], |_turn| p.ask(act!(Player, [], |_turn| 4)).await.unwrap()));
        assert_eq!(of_member.await.unwrap(), 4);
        let (lobby, entered) =
            (node.entry::<Lobby>().unwrap(), node.actor::<Player>("e").create().await.unwrap());
        let of_entry =
            entered.ask(act!(Player, [lobby], |_turn| lobby.ask(act!(Lobby, [], |_turn| 8)).await.unwrap()));
        assert_eq!(of_entry.await.unwrap(), 8);
    })
    .await;
}

#[tokio::test]
async fn reent_2_e_lifecycle_callbacks_refuse_waits_on_their_own_gate() {
    everywhere(async |node| {
        let (ran, found) = (Ran::default(), Log::new());
        let state = Room {
            on_create: life!(Room, [ran, found], |turn| {
                let me = turn.this_spot();
                found.push(refused!(turn, Room, me, ran, |ask| ask));
            }),
            on_closing: life!(Room, [ran, found], |turn| {
                let me = turn.this_spot();
                found.push(refused!(turn, Room, me, ran, |ask| ask));
            }),
            ..Room::default()
        };
        let spot = node.spot::<Room>("spot").create_with(state).await.unwrap();
        let state = Player {
            on_closing: life!(Player, [ran, found, spot], |turn| {
                found.push(refused!(turn, Room, spot, ran, |ask| ask));
            }),
            ..Player::default()
        };
        let member = node.actor::<Player>("member").create_in(state, &spot).await.unwrap();
        member.close().await.unwrap();
        spot.close().await.unwrap();
        let found = found.take();
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|found| *found == REFUSED), "{found:?}");
        assert_eq!(ran.times(), 0);
    })
    .await;
}

#[tokio::test]
async fn reent_2_f_a_turn_that_waits_for_the_end_of_its_own_object_is_refused() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let member = player_in(&node, "member", &spot).await;
        let kinds = spot.ask(act!(Room, [member], |turn| {
            let me = turn.this_spot();
            [
                me.close().await.unwrap_err().kind(),
                me.destroy().await.unwrap_err().kind(),
                member.close().await.unwrap_err().kind(),
                member.destroy().await.unwrap_err().kind(),
            ]
        }));
        assert_eq!(kinds.await.unwrap(), [ErrorKind::InvalidOperation; 4]);
        member.ask(act!(Player, [], |_turn| ())).await.unwrap();
        ping(&spot).await;
        assert!(!spot.has_ended() && !member.has_ended());
    })
    .await;
}

/// The new Actor's Join needs a turn of the very Spot that waits for it.
#[tokio::test]
async fn reent_2_g_an_ordinary_creation_into_the_own_spot_is_refused_and_a_yielding_one_works() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let refused = spot.ask(act!(Room, [], |turn| {
            let me = turn.this_spot();
            turn.actor::<Player>("new").create_in(Player::default(), &me).await.unwrap_err().kind()
        }));
        assert_eq!(refused.await.unwrap(), ErrorKind::InvalidOperation);
        assert!(node.actor::<Player>("new").find().is_err(), "refused before anything was made");
        let place = spot.ask(act!(Room, [], |turn| {
            let me = turn.this_spot();
            let create = turn.actor::<Player>("new").create_in(Player::default(), &me);
            turn.yielding(create).await.unwrap().place()
        }));
        assert_eq!(place.await.unwrap().as_deref(), Some("spot"));
        let member = node.actor::<Player>("new").find().unwrap();
        let refused = member.ask(act!(Player, [spot], |turn| {
            turn.actor::<Player>("newer").create_in(Player::default(), &spot).await.unwrap_err().kind()
        }));
        assert_eq!(refused.await.unwrap(), ErrorKind::InvalidOperation);
    })
    .await;
}

#[tokio::test]
async fn reent_3_a_a_yielding_ask_to_the_own_spot_is_handled_in_queue_order() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let order = Log::new();
        let go = hold(&spot).await;
        let say = |text: &'static str| {
            spot.try_send(act!(Room, [order], |_turn| order.push(text))).unwrap();
        };
        say("before");
        spot.try_send(act!(Room, [order], |turn| {
            order.push("asks");
            let ask = turn.this_spot().ask(act!(Room, [order], |turn| {
                order.push("asked");
                turn.n += 1;
                turn.n
            }));
            assert_eq!(turn.yielding(ask).await.unwrap(), 1);
            order.push("answered");
        }))
        .unwrap();
        say("after");
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["before", "asks", "after", "asked", "answered"]);
    })
    .await;
}

#[tokio::test]
async fn reent_3_b_a_member_may_yield_for_its_spot_and_for_another_member() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let (p, q) = (player_in(&node, "p", &spot).await, player_in(&node, "q", &spot).await);
        let sum = p.ask(act!(Player, [spot, q], |turn| {
            let mut turn = turn.within::<Room>().unwrap();
            let of_spot = turn.yielding(spot.ask(act!(Room, [], |_turn| 1))).await.unwrap();
            let of_member = turn.yielding(q.ask(act!(Player, [], |_turn| 2))).await.unwrap();
            of_spot + of_member
        }));
        assert_eq!(sum.await.unwrap(), 3);
        let cache = node.spot::<Cache>("cache").create().await.unwrap();
        let of_itself = cache.ask(act!(Cache, [], |turn| {
            let ask = turn.this_spot().ask(act!(Cache, [], |_turn| 4));
            turn.yielding(ask).await.unwrap()
        }));
        assert_eq!(of_itself.await.unwrap(), 4);
    })
    .await;
}

#[tokio::test]
async fn reent_4_a_a_send_to_oneself_goes_to_the_back_of_the_queue() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let actor = node.actor::<Player>("actor").create().await.unwrap();
        let order = Log::new();
        let go = hold(&spot).await;
        spot.try_send(act!(Room, [order], |turn| {
            turn.this_spot().send(act!(Room, [order], |_turn| order.push("sent to itself"))).await.unwrap();
            order.push("end of the sender");
        }))
        .unwrap();
        spot.try_send(act!(Room, [order], |_turn| order.push("queued before"))).unwrap();
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["end of the sender", "queued before", "sent to itself"]);
        let begin = Signal::new();
        actor
            .try_send(act!(Player, [order, begin], |turn| {
                begin.wait().await;
                turn.this_actor()
                    .send(act!(Player, [order], |_turn| order.push("sent to itself")))
                    .await
                    .unwrap();
                order.push("end of the sender");
            }))
            .unwrap();
        actor.try_send(act!(Player, [order], |_turn| order.push("queued before"))).unwrap();
        begin.set();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["end of the sender", "queued before", "sent to itself"]);
    })
    .await;
}

/// Whether a send was refused for want of room at once, with its message.
fn no_room<M: Message>(sent: Result<(), turnkeep::SendError<M>>) -> bool {
    sent.is_err_and(|refused| refused.kind() == ErrorKind::CapacityExceeded)
}

#[tokio::test]
async fn reent_4_b_a_send_under_the_own_gate_to_a_full_lane_is_refused_at_once() {
    for workers in [1, 2] {
        let node = world_with_lane(workers, 1).await;
        within(async {
            let spot = room(&node, "spot").await;
            let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
            let (p, q) = (player_in(&node, "p", &spot).await, player_in(&node, "q", &spot).await);
            let single = node.actor::<Player>("single").create().await.unwrap();
            let ran = Ran::default();
            // Each lane has room for one record, and the handler itself has it.
            let itself = spot.ask(act!(Room, [ran], |turn| {
                no_room(turn.this_spot().send(act!(Room, [ran], |_turn| ran.run())).await)
            }));
            assert!(itself.await.unwrap());
            let itself = single.ask(act!(Player, [ran], |turn| {
                no_room(turn.this_actor().send(act!(Player, [ran], |_turn| ran.run())).await)
            }));
            assert!(itself.await.unwrap());
            let itself = cabin.ask(act!(Cabin, [ran], |turn| {
                no_room(turn.this_spot().send(act!(Cabin, [ran], |_turn| ran.run())).await)
            }));
            assert!(itself.await.unwrap());
            // A member fills the lanes of its Spot and of its neighbour, which only its own end could empty.
            let others = p.ask(act!(Player, [ran, spot, q], |_turn| {
                let first = spot.send(act!(Room, [], |_turn| ())).await.is_ok()
                    && q.send(act!(Player, [], |_turn| ())).await.is_ok();
                let second = no_room(spot.send(act!(Room, [ran], |_turn| ran.run())).await)
                    && no_room(q.send(act!(Player, [ran], |_turn| ran.run())).await);
                (first, second, spot.waiting(), q.waiting())
            }));
            assert_eq!(others.await.unwrap(), (true, true, (0, 0), (0, 0)));
            node.quiesce().await.unwrap();
            assert_eq!(ran.times(), 0);
            assert_eq!((spot.queued(), p.queued(), q.queued()), ((0, 0), (0, 0), (0, 0)));
        })
        .await;
    }
}

#[tokio::test]
async fn reent_4_c_a_full_lane_under_another_gate_is_waited_for() {
    for workers in [1, 2] {
        let node = world_with_lane(workers, 1).await;
        within(async {
            let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
            let go = hold(&other).await;
            let sent = Signal::new();
            let asked = spot.ask(act!(Room, [other, sent], |_turn| {
                other.send(act!(Room, [], |turn| turn.n += 1)).await.unwrap();
                sent.set();
            }));
            let room_comes = async {
                while other.waiting().0 == 0 {
                    tokio::task::yield_now().await;
                }
                assert!(!sent.is_set());
                go.set();
            };
            let (asked, ()) = tokio::join!(asked, room_comes);
            asked.unwrap();
            node.quiesce().await.unwrap();
            assert_eq!(other.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 1);
        })
        .await;
    }
}

#[tokio::test]
async fn reent_6_a_a_blocking_call_works_on_a_plain_thread() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let asker = spot.clone();
        let thread = std::thread::spawn(move || {
            asker.ask_blocking(act!(Room, [], |turn| {
                turn.n += 1;
                turn.n
            }))
        });
        while !thread.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(thread.join().unwrap().unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn reent_6_b_a_blocking_call_is_refused_in_every_turn_before_submission() {
    everywhere(async |node| {
        let (ran, found) = (Ran::default(), Log::new());
        let target = room(&node, "target").await;
        let blocking = {
            let (ran, found, target) = (ran.clone(), found.clone(), target.clone());
            move |node: &Node| {
                let before = (target.queued(), node.metrics().accepted);
                let error = target.ask_blocking(act!(Room, [ran], |_turn| ran.run())).unwrap_err();
                let after = (target.queued(), node.metrics().accepted);
                found.push((error.kind(), before == after, error.into_message().is_some()));
            }
        };
        let spot = room(&node, "spot").await;
        let member = player_in(&node, "member", &spot).await;
        let lobby = node.entry::<Lobby>().unwrap();
        node.quiesce().await.unwrap();
        let b = blocking.clone();
        spot.ask(act!(Room, [b], |turn| b(&turn.node()))).await.unwrap();
        node.quiesce().await.unwrap();
        member.ask(act!(Player, [b], |turn| b(&turn.node()))).await.unwrap();
        node.quiesce().await.unwrap();
        lobby.ask(act!(Lobby, [b], |turn| b(&turn.node()))).await.unwrap();
        node.quiesce().await.unwrap();
        node.channel::<Desk>("desk").ask(act!(Desk, [b], |turn| b(&turn.node()))).await.unwrap();
        node.quiesce().await.unwrap();
        // After a yield and after an ordinary wait it is still a turn.
        spot.ask(act!(Room, [b], |turn| {
            let work = turn.cpu(|| ());
            turn.yielding(work).await.unwrap();
            world::once_more().await;
            b(&turn.node());
        }))
        .await
        .unwrap();
        node.quiesce().await.unwrap();
        let (task, in_task) = (node.clone(), blocking.clone());
        node.spawn(async move { in_task(&task) }).await.unwrap();
        node.quiesce().await.unwrap();
        let state = Room {
            on_create: life!(Room, [b], |turn| b(&turn.node())),
            on_closing: life!(Room, [b], |turn| b(&turn.node())),
            ..Room::default()
        };
        let brief = node.spot::<Room>("brief").create_with(state).await.unwrap();
        node.quiesce().await.unwrap();
        brief.close().await.unwrap();
        let found = found.take();
        assert_eq!(found.len(), 8);
        let refused = (Some(ErrorKind::InvalidOperation), true, true);
        assert!(found.iter().all(|found| *found == refused), "{found:?}");
        node.quiesce().await.unwrap();
        assert_eq!(ran.times(), 0);
    })
    .await;
}
