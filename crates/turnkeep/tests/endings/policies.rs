//! ERR-3: what a panic does to its object under the three policies.

use turnkeep::prelude::*;
use turnkeep::{End, PanicPolicy};

use super::stage::*;
use crate::support::{Log, Signal, within};
use crate::world::*;

#[tokio::test]
async fn err_3_h_restart_makes_the_state_anew_before_what_is_queued() {
    within(async {
        for workers in [1, 2, 8] {
            let (node, made) = node_with(workers, PanicPolicy::Restart).await;
            let room = node.spot::<Room>("r").create().await.unwrap();
            let before = (room.generation(), room.clone());
            let go = hold(&room).await;
            let log: Log<(u64, u64)> = Log::new();
            for n in 1..=20_u64 {
                room.send(act!(Room, [log], |turn| {
                    turn.n += 1;
                    assert_ne!(n, 7, "the seventh fails");
                    log.push((n, turn.n));
                }))
                .await
                .unwrap();
            }
            go.set();
            node.quiesce().await.unwrap();
            let first = (1..=6).map(|n| (n, n));
            let second = (8..=20).map(|n| (n, n - 7));
            assert_eq!(log.take(), first.chain(second).collect::<Vec<_>>());
            assert_eq!(made.take(), ["r", "r"]);
            assert!(!room.has_ended());
            assert_eq!(node.spot::<Room>("r").find().unwrap(), before.1);
            assert_eq!(room.generation(), before.0, "the same life");
            assert!(!node.shutdown().await.unwrap().forced);
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_i_restart_drops_waiting_handlers_and_keeps_members() {
    within(async {
        for workers in [1, 2] {
            let (node, made) = node_with(workers, PanicPolicy::Restart).await;
            let other = node.spot::<Room>("far").create().await.unwrap();
            let room = node.spot::<Room>("r").create().await.unwrap();
            let player = player_in(&node, "p", &room).await;
            made.take();
            let (never, waiting) = (Signal::new(), Signal::new());
            let asked = far(&other, &never);
            let waits = tokio::spawn(room.ask(act!(Room, [waiting], |turn| {
                waiting.set();
                let _ = turn.yielding(asked).await;
            })));
            // A member's handler that waits under the same gate is another object's.
            let (also, member_waits) = (Signal::new(), Signal::new());
            let asked = far(&room_of(&node).await, &also);
            let member = tokio::spawn(player.ask(act!(Player, [member_waits], |turn| {
                member_waits.set();
                turn.within::<Room>().unwrap().yielding(asked).await.unwrap();
                turn.within::<Room>().unwrap().spot_state().n
            })));
            waiting.wait().await;
            member_waits.wait().await;
            let error = room.ask(act!(Room, [], |_turn| panic!("no more"))).await.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::InternalFailure), "{error}");
            assert_eq!(waits.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
            room.ask(act!(Room, [], |turn| turn.n = 41)).await.unwrap();
            also.set();
            assert_eq!(member.await.unwrap().unwrap(), 41, "it goes on with the new state");
            assert_eq!(player.place().as_deref(), Some("r"));
            assert_eq!(room.members(), ["p"]);
            assert_eq!(made.take().last().map(String::as_str), Some("r"));
            never.set();
        }
    })
    .await;
}

async fn room_of(node: &Node) -> SpotRef<Room> {
    room(node, "second").await
}

#[tokio::test]
async fn err_3_j_a_member_and_a_bare_actor_restart_where_they_are() {
    within(async {
        for workers in [1, 2] {
            let (node, _made) = node_with(workers, PanicPolicy::Restart).await;
            let room = node.spot::<Room>("r").create().await.unwrap();
            let cabin = node.spot::<Cabin>("c").create().await.unwrap();
            let members = [player_in(&node, "p", &room).await, player_in(&node, "q", &cabin).await];
            for player in &members {
                let place = player.place();
                player.ask(act!(Player, [], |turn| turn.n = 5)).await.unwrap();
                let failed = player.ask(act!(Player, [], |_turn| panic!("oh")));
                assert_eq!(failed.await.unwrap_err().kind(), Some(ErrorKind::InternalFailure));
                assert_eq!(player.ask(act!(Player, [], |turn| turn.n)).await.unwrap(), 0);
                assert_eq!(player.place(), place);
            }
            // It can still move.
            members[1]
                .ask(act!(Player, [room], |turn| {
                    let join = turn.join(&room);
                    turn.defer(join).unwrap();
                }))
                .await
                .unwrap();
            node.quiesce().await.unwrap();
            assert_eq!(members[1].place().as_deref(), Some("r"));
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_k_a_restart_that_fails_stops_the_object_and_says_why() {
    within(async {
        for on_create in [false, true] {
            let first = std::sync::atomic::AtomicBool::new(true);
            let options = Options::<Room>::new().on_panic(PanicPolicy::Restart).factory(move |_| {
                if first.swap(false, std::sync::atomic::Ordering::SeqCst) {
                    return Ok(Room::default());
                }
                if !on_create {
                    return Err(Failure::new("no more rooms"));
                }
                Ok(Room {
                    on_create: life!(Room, [], |_turn| assert_eq!(1, 2, "no more rooms")),
                    ..Room::default()
                })
            });
            let node = Node::builder().workers(2).spot_with("room", options).start().await.unwrap();
            let room = node.spot::<Room>("r").create().await.unwrap();
            let go = hold(&room).await;
            let failing = tokio::spawn(room.ask(act!(Room, [], |_turn| panic!("oh"))));
            while room.queued().0 < 2 {
                tokio::task::yield_now().await;
            }
            let queued = tokio::spawn(room.ask(act!(Room, [], |_turn| ())));
            while room.queued().0 < 3 {
                tokio::task::yield_now().await;
            }
            go.set();
            assert_eq!(failing.await.unwrap().unwrap_err().kind(), Some(ErrorKind::InternalFailure));
            assert_eq!(queued.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
            match room.watch().await.unwrap() {
                End::Panicked(text) => assert!(text.contains("no more rooms"), "{text}"),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_l_keep_leaves_the_state_as_it_is() {
    within(async {
        for workers in [1, 2] {
            let (node, made) = node_with(workers, PanicPolicy::Keep).await;
            let room = node.spot::<Room>("r").create().await.unwrap();
            let player = player_in(&node, "p", &room).await;
            let failed = room.ask(act!(Room, [], |turn| {
                turn.n = 3;
                panic!("half-way")
            }));
            let error = failed.await.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
            assert!(error.to_string().contains("goes on"), "{error}");
            assert_eq!(room.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 3);
            assert_eq!(
                player.ask(act!(Player, [], |_turn| panic!("oh"))).await.map(|()| 0).unwrap_err().kind(),
                Some(ErrorKind::InternalFailure)
            );
            assert_eq!(player.ask(act!(Player, [], |_turn| 1)).await.unwrap(), 1);
            assert_eq!(made.take(), ["r"], "nothing was made anew");
        }
    })
    .await;
}

/// Fails when somebody comes.
#[derive(Default)]
struct Shy(u64);
impl Spot for Shy {
    type Mode = SpotWide;
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        turn.0 += 1;
        panic!("too many people")
    }
}
#[derive(Message)]
#[message(reply = u64)]
struct Count;
impl Handles<Count> for Shy {
    async fn handle(turn: &mut Turn<'_, Self>, _: Count) -> Result<u64, Never> {
        Ok(turn.0)
    }
}

#[tokio::test]
async fn err_3_m_lifecycle_callbacks_follow_the_policy() {
    within(async {
        for (policy, count) in [(PanicPolicy::Keep, 1), (PanicPolicy::Restart, 0)] {
            let shy = Options::<Shy>::new().factory(|_| Ok(Shy::default())).on_panic(policy);
            let builder = Node::builder().workers(2).spot_with("shy", shy);
            let node = builder.actor::<Player>("player").start().await.unwrap();
            let spot = node.spot::<Shy>("s").create().await.unwrap();
            let created = node.actor::<Player>("p").create_in(Player::default(), &spot).await;
            assert_eq!(created.unwrap_err().kind(), ErrorKind::InternalFailure);
            assert_eq!(spot.ask(Count).await.unwrap(), count, "{policy:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_n_restart_without_a_factory_is_refused_when_the_node_is_built() {
    let options = Options::<Room>::new().on_panic(PanicPolicy::Restart);
    let refused = Node::builder().workers(1).spot_with("room", options).start().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
    assert!(refused.to_string().contains("factory"), "{refused}");
}

#[tokio::test]
async fn err_3_o_the_entry_spot_goes_on_whatever_the_policy() {
    within(async {
        for policy in [PanicPolicy::Stop, PanicPolicy::Restart, PanicPolicy::Keep] {
            let options = Options::<Lobby>::new().on_panic(policy).factory(|_| Ok(Lobby::default()));
            let builder = Node::builder().workers(2).entry_with(Lobby::default(), options);
            let node = builder.start().await.unwrap();
            let lobby = node.entry::<Lobby>().unwrap();
            lobby.ask(act!(Lobby, [], |turn| turn.n = 9)).await.unwrap();
            lobby.ask(act!(Lobby, [], |_turn| panic!("oh"))).await.map(|()| 0).unwrap_err();
            assert_eq!(lobby.ask(act!(Lobby, [], |turn| turn.n)).await.unwrap(), 9);
        }
    })
    .await;
}
