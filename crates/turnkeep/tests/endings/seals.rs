//! YIELD-9, LANE-7: a unit is sealed in place, lists what it has, and goes on as if nothing had been.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Queued, Sealed};

use crate::support::{Log, Signal, within};
use crate::world::*;

fn queued(sealed: &Sealed) -> Vec<(String, u32)> {
    sealed.parts().iter().map(|part| (part.id.clone(), part.application.records)).collect()
}

#[tokio::test]
async fn yield_9_f_a_sealed_spot_ends_yields_lists_its_records_and_is_undone() {
    within(async {
        for workers in [1, 2, 8] {
            let node = world(workers).await;
            let (other, never) = (room(&node, "far").await, Signal::new());
            let spot = room(&node, "r").await;
            let members = [player_in(&node, "a", &spot).await, player_in(&node, "b", &spot).await];
            let log: Log<String> = Log::new();
            // One handler of the Spot and one of a member yield; then a turn holds the gate and work piles up.
            let (yields, asked) = (Signal::new(), far(&other, &never));
            let own = tokio::spawn(spot.ask(act!(Room, [yields], |turn| {
                yields.set();
                turn.yielding(asked).await.map_err(|error| error.kind())
            })));
            let (also, asked) = (Signal::new(), far(&other, &never));
            let member = tokio::spawn(members[0].ask(act!(Player, [also], |turn| {
                also.set();
                turn.within::<Room>().unwrap().yielding(asked).await.map_err(|error| error.kind())
            })));
            yields.wait().await;
            also.wait().await;
            let go = hold(&spot).await;
            for n in 0..10 {
                spot.send(act!(Room, [log], |_turn| log.push(format!("r{n}")))).await.unwrap();
                for member in &members {
                    let line = format!("{}{n}", member.id());
                    member.send(act!(Player, [log], |_turn| log.push(line))).await.unwrap();
                }
            }
            let sealing = tokio::spawn(spot.seal());
            while spot.queued().1 == 0 {
                tokio::task::yield_now().await;
            }
            go.set();
            let sealed = sealing.await.unwrap().unwrap();
            let gone = Err(Some(ErrorKind::Unavailable));
            assert_eq!(own.await.unwrap().unwrap(), gone, "it ended under the gate, with the error");
            assert_eq!(member.await.unwrap().unwrap(), gone);
            let handled = log.len();
            let left: u32 = queued(&sealed).iter().map(|(_, records)| records).sum();
            assert_eq!(handled + left as usize, 30);
            assert_eq!(
                sealed.parts().iter().map(|part| part.id.as_str()).collect::<Vec<_>>(),
                ["r", "a", "b"]
            );
            for part in sealed.parts() {
                assert!(part.application.bytes >= u64::from(part.application.records) * 256);
                assert_eq!(part.lifecycle, Queued::default());
            }
            let refused = spot.send(act!(Room, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            let refused = members[1].ask(act!(Player, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), Some(ErrorKind::Unavailable));
            assert_eq!(spot.close().await.unwrap_err().kind(), ErrorKind::Unavailable);
            assert_eq!(spot.seal().await.unwrap_err().kind(), ErrorKind::Unavailable);
            chances(&node).await;
            assert_eq!(log.len(), handled, "nothing runs while it is sealed");
            sealed.undo().await;
            assert_eq!(spot.ask(act!(Room, [], |_turn| 5)).await.unwrap(), 5);
            never.set();
            node.quiesce().await.unwrap();
            let story = log.take();
            for owner in ["r", "a", "b"] {
                let own: Vec<_> = story.iter().filter(|line| line.starts_with(owner)).cloned().collect();
                assert_eq!(own, (0..10).map(|n| format!("{owner}{n}")).collect::<Vec<_>>(), "in order, once");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_g_waiters_for_room_are_refused_with_their_message() {
    within(async {
        for workers in [1, 2] {
            let node = world_with_lane(workers, 2).await;
            let spot = room(&node, "r").await;
            let go = hold(&spot).await;
            spot.send(act!(Room, [], |turn| turn.n += 1)).await.unwrap();
            let waits: Vec<_> = (0..3)
                .map(|_| tokio::spawn(spot.ask(act!(Room, [], |turn| turn.n += 1)).into_future()))
                .collect();
            while spot.waiting().0 < 3 {
                tokio::task::yield_now().await;
            }
            let sealing = tokio::spawn(spot.seal());
            while spot.queued().1 == 0 {
                tokio::task::yield_now().await;
            }
            go.set();
            let sealed = sealing.await.unwrap().unwrap();
            let left = u64::from(sealed.parts()[0].application.records);
            drop(sealed);
            // One of them may have got the room of the turn that held the gate; then it is among the sealed.
            let (mut refused, mut accepted) = (0, 1);
            for wait in waits {
                match wait.await.unwrap() {
                    Ok(()) => accepted += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), Some(ErrorKind::Unavailable));
                        assert!(error.into_message().is_some());
                        refused += 1;
                    }
                }
            }
            assert!(refused >= 2, "{refused}");
            assert_eq!(accepted, left, "refused, or queued");
            while spot.ask(act!(Room, [], |_turn| ())).await.is_err() {}
            assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), left);
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_h_actors_cabins_and_caches_are_units_of_their_own() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let cabin = node.spot::<Cabin>("c").create().await.unwrap();
            let cache = node.spot::<Cache>("i").create().await.unwrap();
            let player = player_in(&node, "p", &cabin).await;
            let shell = cabin.seal().await.unwrap();
            assert_eq!(shell.parts().len(), 1);
            player.ask(act!(Player, [], |turn| turn.n = 1)).await.unwrap();
            let actor = player.seal().await.unwrap();
            let refused = player.send(act!(Player, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            let sealed = cache.seal().await.unwrap();
            drop((shell, actor, sealed));
            node.quiesce().await.unwrap();
            assert_eq!(player.ask(act!(Player, [], |turn| turn.n)).await.unwrap(), 1);
            cabin.ask(act!(Cabin, [], |_turn| ())).await.unwrap();
            cache.ask(act!(Cache, [], |_turn| ())).await.unwrap();
            // A member under the gate of its Spot is no unit, nor is the Entry Spot.
            let spot = room(&node, "r").await;
            let member = player_in(&node, "m", &spot).await;
            assert_eq!(member.seal().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
            let entry = node.entry::<Lobby>().unwrap();
            assert_eq!(entry.seal().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_i_a_sealed_unit_can_be_destroyed_and_a_node_with_one_ends() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (spot, other) = (room(&node, "r").await, room(&node, "o").await);
            let player = player_in(&node, "p", &spot).await;
            let sealed = spot.seal().await.unwrap();
            spot.destroy().await.unwrap();
            // The members are open again, elsewhere.
            assert_eq!(
                player.ask(act!(Player, [], |turn| turn.place())).await.unwrap(),
                Some(node.entry_id())
            );
            sealed.undo().await;
            let kept = other.seal().await.unwrap();
            let report = node.shutdown_within(Duration::from_millis(100)).await.unwrap();
            assert!(report.forced);
            assert!(report.unfinished.iter().any(|it| it.object.contains("Spot o")), "{report:?}");
            kept.undo().await;
        }
    })
    .await;
}

#[tokio::test]
async fn lane_7_f_no_record_is_lost_between_seals_and_admissions() {
    within(async {
        for workers in [1, 2, 8] {
            let node = world(workers).await;
            let spot = room(&node, "r").await;
            let member = player_in(&node, "p", &spot).await;
            let log: Log<u64> = Log::new();
            let senders: Vec<_> = (0..4_u64)
                .map(|sender| {
                    let (spot, member, log) = (spot.clone(), member.clone(), log.clone());
                    tokio::spawn(async move {
                        let mut accepted = Vec::new();
                        for n in 0..500 {
                            let number = sender * 1000 + n;
                            let sent = if sender.is_multiple_of(2) {
                                spot.send(act!(Room, [log], |_turn| log.push(number)))
                                    .await
                                    .map_err(|e| e.kind())
                            } else {
                                member
                                    .send(act!(Player, [log], |_turn| log.push(number)))
                                    .await
                                    .map_err(|e| e.kind())
                            };
                            match sent {
                                Ok(()) => accepted.push(number),
                                Err(kind) => assert_eq!(kind, ErrorKind::Unavailable),
                            }
                            tokio::task::yield_now().await;
                        }
                        accepted
                    })
                })
                .collect();
            for round in 0..50 {
                // An undo by drop is under way when the next seal comes.
                let sealed = loop {
                    match spot.seal().await {
                        Ok(sealed) => break sealed,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable),
                    }
                };
                let before = log.len();
                tokio::task::yield_now().await;
                assert_eq!(log.len(), before);
                if round % 2 == 0 {
                    sealed.undo().await;
                }
            }
            let mut wanted = Vec::new();
            for sender in senders {
                wanted.push(sender.await.unwrap());
            }
            node.quiesce().await.unwrap();
            let handled = log.take();
            for (sender, accepted) in wanted.iter().enumerate() {
                let own: Vec<_> = handled.iter().filter(|n| **n / 1000 == sender as u64).copied().collect();
                assert_eq!(own, *accepted, "in order, once");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_j_joins_under_way_end_before_the_unit_is_sealed() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (one, two) = (room(&node, "one").await, room(&node, "two").await);
            let player = player_in(&node, "p", &one).await;
            for round in 0..100 {
                let target = if round % 2 == 0 { two.clone() } else { one.clone() };
                player
                    .ask(act!(Player, [target], |turn| turn.defer(turn.join(&target)).unwrap()))
                    .await
                    .unwrap();
                let sealed = [one.seal().await.unwrap(), two.seal().await.unwrap()];
                let listed =
                    sealed.iter().flat_map(|sealed| sealed.parts()).filter(|part| part.id == "p").count();
                assert_eq!(listed, 1, "in exactly one of the two");
                for sealed in sealed {
                    sealed.undo().await;
                }
            }
        }
    })
    .await;
}

/// Takes its time to admit.
struct Slow(Signal, Signal);
impl Spot for Slow {
    type Mode = PerActor;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        let (entered, go) = (turn.0.clone(), turn.1.clone());
        entered.set();
        go.wait().await;
        Ok(Admission::Accept)
    }
}

#[tokio::test]
async fn yield_9_k_a_registered_join_is_part_of_what_must_end_first() {
    within(async {
        for workers in [1, 2] {
            let builder = Node::builder().workers(workers).spot::<Room>("room").actor::<Player>("player");
            let node = builder.spot_with("slow", Options::<Slow>::new()).start().await.unwrap();
            let (entered, go) = (Signal::new(), Signal::new());
            let slow =
                node.spot::<Slow>("slow").create_with(Slow(entered.clone(), go.clone())).await.unwrap();
            let (spot, target) = (room(&node, "r").await, room(&node, "t").await);
            let [first, mover] = [0, 1].map(|n| node.actor::<Player>(&format!("a{n}")));
            let (first, mover) = (first.create().await.unwrap(), mover.create().await.unwrap());
            let member = player_in(&node, "m", &spot).await;
            // The member's Join is registered behind one that takes its time.
            mover
                .ask(act!(Player, [first, member, slow, target], |turn| {
                    turn.defer(first.join(&slow)).unwrap();
                    turn.defer(member.join(&target)).unwrap();
                }))
                .await
                .unwrap();
            entered.wait().await;
            let sealing = tokio::spawn(spot.seal());
            chances(&node).await;
            assert!(!sealing.is_finished());
            go.set();
            let sealed = sealing.await.unwrap().unwrap();
            let parts: Vec<_> = sealed.parts().iter().map(|part| part.id.as_str()).collect();
            assert_eq!(parts, ["r"], "the member has left before");
            assert_eq!(member.place().as_deref(), Some("t"));
        }
    })
    .await;
}

/// Takes its time when somebody has come.
struct Lingering(Signal, Signal);
impl Spot for Lingering {
    type Mode = PerActor;
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        let (entered, go) = (turn.0.clone(), turn.1.clone());
        entered.set();
        go.wait().await;
        Ok(())
    }
}

#[tokio::test]
async fn yield_9_m_a_unit_is_told_of_who_left_before_it_is_sealed() {
    within(async {
        for workers in [1, 2] {
            let builder = Node::builder().workers(workers).spot::<Room>("room").actor::<Player>("player");
            let node = builder.spot_with("lingering", Options::<Lingering>::new()).start().await.unwrap();
            let (entered, go) = (Signal::new(), Signal::new());
            let lingering = node.spot::<Lingering>("l").create_with(Lingering(entered.clone(), go.clone()));
            let (spot, target) = (room(&node, "r").await, lingering.await.unwrap());
            let member = player_in(&node, "m", &spot).await;
            member.ask(act!(Player, [target], |turn| turn.defer(turn.join(&target)).unwrap())).await.unwrap();
            entered.wait().await;
            assert_eq!(member.place().as_deref(), Some("l"), "it is no member any more, and has not said so");
            let sealing = tokio::spawn(spot.seal());
            while spot.queued().1 > 0 {
                tokio::task::yield_now().await;
            }
            chances(&node).await;
            assert!(!sealing.is_finished());
            go.set();
            let sealed = sealing.await.unwrap().unwrap();
            // So the seal of where it went needs nothing of this one.
            let _other = target.seal().await.unwrap();
            sealed.undo().await;
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_l_a_seal_that_nobody_waits_for_is_undone_and_a_forgotten_one_can_be_ended() {
    within(async {
        for workers in [1, 2, 8] {
            let node = world_with_lane(workers, 1).await;
            let spot = room(&node, "r").await;
            // Given up before its turn, and after it has begun.
            for begun in [false, true] {
                let go = hold(&spot).await;
                let mut sealing = Box::pin(spot.seal());
                assert!(futures_util::poll!(&mut sealing).is_pending());
                if begun {
                    go.set();
                    while spot.queued().1 > 0 {
                        tokio::task::yield_now().await;
                    }
                }
                drop(sealing);
                go.set();
                node.quiesce().await.unwrap();
                ping(&spot).await;
            }
            // Many at once: one after another, or refused.
            let seals: Vec<_> = (0..8)
                .map(|_| {
                    let spot = spot.clone();
                    tokio::spawn(async move {
                        match spot.seal().await {
                            Ok(sealed) => sealed.undo().await,
                            Err(error) => return Err(error.kind()),
                        }
                        Ok(())
                    })
                })
                .collect();
            let mut sealed = 0;
            for seal in seals {
                match seal.await.unwrap() {
                    Ok(()) => sealed += 1,
                    Err(kind) => assert_eq!(kind, ErrorKind::Unavailable),
                }
            }
            assert!(sealed >= 1);
            ping(&spot).await;
            std::mem::forget(spot.seal().await.unwrap());
            let refused = spot.send(act!(Room, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unavailable);
            spot.destroy().await.unwrap();
            let again = room(&node, "r").await;
            ping(&again).await;
        }
    })
    .await;
}
