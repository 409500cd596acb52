//! STAT-4: a living node explains a stuck object, whatever its objects do.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use turnkeep::prelude::*;
use turnkeep::trace::{Phase, Situation, Waited};

use crate::support::{Signal, within};
use crate::world::*;

/// The only object of that id.
fn why(node: &Node, id: &str) -> Situation {
    let mut all = node.why(id).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Comes to say all that, once the turns under way have come as far; says it now, or soon.
async fn comes_to_say(look: impl Fn() -> Situation, parts: &[&str]) -> Situation {
    for _ in 0..100_000 {
        let now = look();
        let text = now.to_string();
        if parts.iter().all(|part| text.contains(part)) {
            return now;
        }
        tokio::task::yield_now().await;
    }
    let now = look();
    says(&now, parts);
    now
}

fn says(situation: &Situation, parts: &[&str]) {
    let text = situation.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[tokio::test]
async fn stat_4_a_an_idle_object_has_nothing_to_do_and_an_id_that_nobody_has_is_an_error() {
    let node = world(2).await;
    let spot = room(&node, "r").await;
    let parts = ["Spot r (room): it has nothing to do.", "a gate of its own, which nobody holds"];
    let idle = comes_to_say(|| why(&node, "r"), &parts).await;
    assert_eq!(idle, spot.why());
    let player = player_in(&node, "r", &spot).await;
    assert_eq!(node.why("r").unwrap().len(), 2, "a Spot and an Actor");
    comes_to_say(|| player.why(), &["It is under the gate of Spot r (room), which nobody holds."]).await;
    assert_eq!(node.why("nobody").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(node.why("").unwrap_err().kind(), ErrorKind::InvalidOperation);
    spot.destroy().await.unwrap();
    comes_to_say(|| spot.why(), &["it has ended (destroyed)"]).await;
}

#[tokio::test]
async fn stat_4_b_a_chain_of_waits_is_followed_to_its_end() {
    within(async {
        for workers in [1, 2, 8] {
            let node = world(workers).await;
            let [a, b, c] = [room(&node, "a").await, room(&node, "b").await, room(&node, "c").await];
            let (there, go) = (Signal::new(), Signal::new());
            let last = c.clone();
            let middle = b.clone();
            let asked = tokio::spawn(a.ask(act!(Room, [middle, last, there, go], |_turn| {
                let inner = act!(Room, [last, there, go], |_turn| {
                    let end = act!(Room, [there, go], |_turn| {
                        there.set();
                        go.wait().await;
                    });
                    last.ask(end).await.unwrap();
                });
                middle.ask(inner).await.unwrap();
            })));
            there.wait().await;
            let behind = tokio::spawn(a.ask(act!(Room, [], |_turn| ())));
            while a.queued().0 < 2 {
                tokio::task::yield_now().await;
            }
            let parts = [
                "its work waits for the gate, which a waiting handler of Spot a (room) keeps",
                "It asked Spot b (room)",
                "its request is being handled",
                "It hangs on: Spot a (room) → Spot b (room) → Spot c (room).",
            ];
            let stuck = comes_to_say(|| why(&node, "a"), &parts).await;
            assert_eq!(stuck.lanes[0].queued, 1);
            assert!(stuck.cycle.is_empty());
            comes_to_say(|| c.why(), &["one of its handlers waits and keeps the gate"]).await;
            go.set();
            asked.await.unwrap().unwrap();
            behind.await.unwrap().unwrap();
            node.quiesce().await.unwrap();
            comes_to_say(|| why(&node, "a"), &["it has nothing to do"]).await;
        }
    })
    .await;
}

#[tokio::test]
async fn stat_4_c_a_member_names_who_keeps_the_gate_of_its_spot() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let spot = room(&node, "r").await;
            let [one, other] = [player_in(&node, "one", &spot).await, player_in(&node, "two", &spot).await];
            let (there, go) = (Signal::new(), Signal::new());
            let asked = tokio::spawn(one.ask(act!(Player, [there, go], |_turn| {
                there.set();
                go.wait().await;
            })));
            there.wait().await;
            let behind = tokio::spawn(other.ask(act!(Player, [], |_turn| ())));
            let parts = [
                "Actor two (player): its work waits for the gate, which a waiting handler of Actor one (player) keeps",
                "It is under the gate of Spot r (room).",
                "It hangs on: Actor two (player) → Actor one (player).",
            ];
            comes_to_say(|| other.why(), &parts).await;
            go.set();
            asked.await.unwrap().unwrap();
            behind.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn stat_4_d_yielded_handlers_and_claims_are_told_with_what_they_wait_for() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let (spot, other) = (room(&node, "r").await, room(&node, "far").await);
            let player = player_in(&node, "p", &spot).await;
            let go = hold(&other).await;
            let (yields, never) = (Signal::new(), Signal::new());
            never.set();
            let asked = far(&other, &never);
            let own = tokio::spawn(spot.ask(act!(Room, [yields], |turn| {
                yields.set();
                turn.yielding(asked).await.unwrap();
            })));
            let (also, asked) = (Signal::new(), far(&other, &never));
            let member = tokio::spawn(player.ask(act!(Player, [also], |turn| {
                also.set();
                turn.within::<Room>().unwrap().yielding(asked).await.unwrap();
            })));
            yields.wait().await;
            also.wait().await;
            let behind = tokio::spawn(player.ask(act!(Player, [], |_turn| ())));
            let parts = [
                "Actor p (player): its work waits for its own yielded handler",
                "keeps the claim",
                "It asked Spot far (room)",
                "its request is there and not answered",
                "It hangs on: Actor p (player) → Spot far (room).",
            ];
            comes_to_say(|| player.why(), &parts).await;
            let parts = ["its yielded handlers wait", "Its handler has yielded"];
            let yielded = comes_to_say(|| spot.why(), &parts).await;
            assert_eq!(yielded.yielded[0].waits[0].waited, Waited::There);
            go.set();
            own.await.unwrap().unwrap();
            member.await.unwrap().unwrap();
            behind.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn stat_4_e_a_full_lane_tells_its_bounds_and_who_waits_for_room() {
    within(async {
        let node = world_with_lane(2, 2).await;
        let spot = room(&node, "r").await;
        let go = hold(&spot).await;
        let waits: Vec<_> =
            (0..3).map(|_| tokio::spawn(spot.ask(act!(Room, [], |_turn| ())).into_future())).collect();
        let parts = ["application lane has 2 of 2 records", "1 not begun; 2 senders wait for room"];
        comes_to_say(|| spot.why(), &parts).await;
        go.set();
        for wait in waits {
            wait.await.unwrap().unwrap();
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
async fn stat_4_f_a_pending_move_is_told_with_its_target() {
    within(async {
        let builder = Node::builder().workers(2).spot::<Room>("room").actor::<Player>("player");
        let node = builder.spot_with("slow", Options::<Slow>::new()).start().await.unwrap();
        let (entered, go) = (Signal::new(), Signal::new());
        let slow = node.spot::<Slow>("slow").create_with(Slow(entered.clone(), go.clone())).await.unwrap();
        let spot = room(&node, "r").await;
        let player = player_in(&node, "p", &spot).await;
        player.ask(act!(Player, [slow], |turn| turn.defer(turn.join(&slow)).unwrap())).await.unwrap();
        entered.wait().await;
        let waits = tokio::spawn(player.ask(act!(Player, [], |_turn| ())));
        let parts = ["its messages wait for its move", "It is moving to Spot slow (slow)"];
        comes_to_say(|| player.why(), &parts).await;
        go.set();
        waits.await.unwrap().unwrap();
        comes_to_say(|| player.why(), &["It is under a gate of its own, which nobody holds."]).await;
        assert_eq!(player.why().moving, None);
    })
    .await;
}

#[tokio::test]
async fn stat_4_g_closing_and_sealed_objects_say_that_they_take_nothing() {
    within(async {
        let node = world(2).await;
        let (spot, other) = (room(&node, "r").await, room(&node, "o").await);
        let sealed = other.seal().await.unwrap();
        assert_eq!(other.why().phase, Phase::Sealed);
        sealed.undo().await;
        assert_eq!(other.why().phase, Phase::Open);
        let go = hold(&spot).await;
        spot.send(act!(Room, [], |turn| turn.this_spot().request_close().unwrap())).await.unwrap();
        go.set();
        within(spot.watch()).await.unwrap();
        comes_to_say(|| spot.why(), &["it has ended (closed)"]).await;
    })
    .await;
}

#[tokio::test]
async fn stat_4_h_a_handler_that_blocks_its_worker_is_named_as_running() {
    within(async {
        let node = world(2).await;
        let spot = room(&node, "r").await;
        let (there, begun) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let asked = tokio::spawn(spot.ask(script(move |turn: &mut Turn<'_, Room>| {
            Box::pin(async move {
                // From its own turn, too.
                let own = turn.this_spot().why();
                there.send(own).unwrap();
                wait.lock().unwrap().recv().unwrap();
            })
        })));
        let own = tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        says(&own, &["one of its handlers runs"]);
        let stuck = why(&node, "r");
        says(&stuck, &["one of its handlers runs", "Spot r (room) holds it since"]);
        assert!(stuck.holder.unwrap().running);
        release.send(()).unwrap();
        asked.await.unwrap().unwrap();
    })
    .await;
}
