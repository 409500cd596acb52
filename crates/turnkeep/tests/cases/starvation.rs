//! One that is busy, slow or full takes nothing from the others, and a busy object still ticks and closes.
//!
//! The kind has four cases (CB-13, CB-14, CB-16, CB-17), and all apply. What keeps a place in a lane here (CB-17) is
//! a handler that has given up its gate: its record has its place until its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use turnkeep::prelude::*;
use turnkeep::{HeapSize, Timer};

use crate::support::{Log, Signal, within};
use crate::world::{
    Player, Room, end, hold, ms, player, real_world_of, room, until, until_under_way, world, world_with_lane,
};

/// A message that sends itself again at the end of its turn, until it is told to stop or is refused.
#[derive(Clone, Default)]
struct Again(Arc<Counts>);

#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    accepted: AtomicU64,
    refused: AtomicU64,
    handled: AtomicU64,
}

impl HeapSize for Again {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Again {
    type Reply = ();
    type Error = Never;
}

impl Again {
    fn note<T>(&self, sent: Result<(), T>) {
        let which = if sent.is_ok() { &self.0.accepted } else { &self.0.refused };
        which.fetch_add(1, Ordering::SeqCst);
    }

    fn handled(&self) -> u64 {
        self.0.handled.load(Ordering::SeqCst)
    }

    /// Counts this turn, and sends itself on if it may.
    fn turn<T>(self, send: impl FnOnce(Self) -> Result<(), T>) {
        self.0.handled.fetch_add(1, Ordering::SeqCst);
        if !self.0.stop.load(Ordering::SeqCst) {
            let sent = send(self.clone());
            self.note(sent);
        }
    }
}

impl Handles<Again> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, again: Again) -> Result<(), Never> {
        let me = turn.this_spot();
        again.turn(|again| me.try_send(again));
        Ok(())
    }
}
impl Handles<Again> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, again: Again) -> Result<(), Never> {
        let me = turn.this_actor();
        again.turn(|again| me.try_send(again));
        Ok(())
    }
}

/// The lane of the Spot is never empty: each turn puts one message in before its own is out.
#[tokio::test]
async fn cb_13_a_mailbox_that_never_empties_starves_neither_the_timer_nor_the_close() {
    for workers in [1, 2] {
        let (node, clock) = world(workers).await;
        let ticked = Log::new();
        let on_tick = ticks!(Room, [ticked], |_turn, tick| ticked.push(tick.skipped()));
        let spot = node.spot::<Room>("busy").create_with(Room { on_tick, ..Room::default() }).await.unwrap();
        spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(10))).unwrap())).await.unwrap();
        let again = Again::default();
        for _ in 0..4 {
            again.note(spot.try_send(again.clone()));
        }
        for round in 1..=100 {
            clock.advance(ms(10));
            within(ticked.wait_for_len(round)).await;
        }
        assert!(ticked.take().iter().all(|skipped| *skipped == 0), "each tick ran before the next was due");
        let so_far = again.handled();
        until(|| again.handled() > so_far).await;
        within(spot.close()).await.unwrap();
        within(node.quiesce()).await.unwrap();
        let counts = &again.0;
        assert_eq!(
            again.handled(),
            counts.accepted.load(Ordering::SeqCst),
            "all that was accepted was handled"
        );
        assert_eq!(counts.refused.load(Ordering::SeqCst), 4, "each of the four was told of the close");
        end(node).await;
    }
}

const OUTSIDE: u64 = 300;

#[tokio::test]
async fn cb_14_actors_that_write_to_themselves_do_not_starve_work_from_outside() {
    for workers in [1, 2] {
        let node = real_world_of(Node::builder().workers(workers)).await;
        let (one, other, idle) =
            (player(&node, "one").await, player(&node, "other").await, player(&node, "idle").await);
        let again = Again::default();
        again.note(one.try_send(again.clone()));
        again.note(other.try_send(again.clone()));
        let asker = std::thread::spawn(move || {
            for number in 0..OUTSIDE {
                let n = idle.ask_blocking(act!(Player, [], |turn| {
                    turn.n += 1;
                    turn.n
                }));
                assert_eq!(n.unwrap(), number + 1);
            }
        });
        until(|| asker.is_finished()).await;
        asker.join().unwrap();
        let so_far = again.handled();
        until(|| again.handled() > so_far).await;
        again.0.stop.store(true, Ordering::SeqCst);
        end(node).await;
        assert_eq!(again.handled(), again.0.accepted.load(Ordering::SeqCst));
    }
}

const OTHERS: u64 = 40;
const ROUNDS: u64 = 25;

/// A Spot whose ticks note who it is, and wait for the signal if there is one.
async fn ticking(node: &Node, id: &str, ticked: &Log<(String, u64)>, waits: Option<Signal>) -> SpotRef<Room> {
    let on_tick = ticks!(Room, [ticked, waits], |turn, tick| {
        ticked.push((turn.id().to_owned(), tick.skipped()));
        if let Some(go) = waits {
            go.wait().await;
        }
    });
    let spot = node.spot::<Room>(id).create_with(Room { on_tick, ..Room::default() }).await.unwrap();
    spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(40))).unwrap())).await.unwrap();
    spot
}

/// The others tick in every round while the slow one has `under_way` records.
async fn others_tick(node: &Node, clock: &turnkeep::Clock, ticked: &Log<(String, u64)>, under_way: u64) {
    for number in 0..OTHERS {
        ticking(node, &format!("other {number}"), ticked, None).await;
    }
    for round in 1..=ROUNDS {
        clock.advance(ms(40));
        within(async { ticked.wait_for_len(usize::try_from(OTHERS * round).unwrap()).await }).await;
        until_under_way(node, under_way).await;
    }
    let said = ticked.take();
    assert!(said.iter().all(|(id, skipped)| id != "slow" && *skipped == 0), "{said:?}");
    assert_eq!(said.len() as u64, OTHERS * ROUNDS);
}

#[tokio::test]
async fn cb_16_a_a_slow_tick_holds_up_no_other_object() {
    let (node, clock) = world(2).await;
    let (ticked, go) = (Log::new(), Signal::new());
    ticking(&node, "slow", &ticked, Some(go.clone())).await;
    clock.advance(ms(40));
    within(ticked.wait_for_len(1)).await;
    ticked.take();
    // The tick that runs, and no second one behind it: a timer has one tick under way.
    others_tick(&node, &clock, &ticked, 1).await;
    go.set();
    within(node.quiesce()).await.unwrap();
    assert_eq!(ticked.take(), [("slow".to_owned(), ROUNDS - 1)], "one stands for all that it missed");
    end(node).await;
}

#[tokio::test]
async fn cb_16_b_a_full_lane_holds_up_no_other_object() {
    let (node, clock) = world_with_lane(2, 2).await;
    let ticked = Log::new();
    let slow = ticking(&node, "slow", &ticked, None).await;
    let go = hold(&slow).await;
    slow.try_send(act!(Room, [], |_turn| ())).unwrap();
    assert!(slow.try_send(act!(Room, [], |_turn| ())).is_err(), "full");
    // The handler, what is queued behind it, and one tick.
    others_tick(&node, &clock, &ticked, 3).await;
    go.set();
    within(node.quiesce()).await.unwrap();
    assert_eq!(ticked.take(), [("slow".to_owned(), ROUNDS - 1)]);
    end(node).await;
}

/// How the handler that keeps its place ends.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Well,
    Dropped,
    Panics,
}

/// Keeps the gate of the member's Spot without a place in the Spot's lane.
async fn hold_by(member: &ActorRef<Player>) -> Signal {
    let (held, go) = (Signal::new(), Signal::new());
    member
        .send(act!(Player, [held, go], |_turn| {
            held.set();
            go.wait().await;
        }))
        .await
        .unwrap();
    within(held.wait()).await;
    go
}

/// Fills the lane of the Spot, which has so many places left.
async fn fill(spot: &SpotRef<Room>, member: &ActorRef<Player>, places: u32) {
    let gate = hold_by(member).await;
    let kept = spot.queued().0;
    for _ in 0..places {
        within(spot.send(act!(Room, [], |turn| turn.n += 1))).await.unwrap();
    }
    assert_eq!(spot.queued().0, kept + places);
    assert!(spot.try_send(act!(Room, [], |_turn| ())).is_err(), "and not one more");
    gate.set();
    until(|| spot.queued().0 == kept).await;
}

#[tokio::test]
async fn cb_17_a_place_that_is_kept_keeps_nobody_from_the_others() {
    for ends in [Ends::Well, Ends::Dropped, Ends::Panics] {
        let (node, _) = world_with_lane(2, 4).await;
        let spot = room(&node, "spot").await;
        let member = crate::world::member(&node, "member", &spot).await;
        let (kept, go) = (Signal::new(), Signal::new());
        let keeper = tokio::spawn(spot.ask(act!(Room, [kept, go], |turn| {
            kept.set();
            turn.yielding(turn.io(async move { go.wait().await })).await.unwrap();
            assert!(ends != Ends::Panics, "on purpose");
        })));
        within(kept.wait()).await;
        fill(&spot, &member, 3).await;
        if ends == Ends::Dropped {
            keeper.abort();
        }
        go.set();
        let _ = within(keeper).await;
        within(node.quiesce()).await.unwrap();
        assert_eq!((spot.queued(), spot.has_ended()), ((0, 0), ends == Ends::Panics));
        if ends != Ends::Panics {
            fill(&spot, &member, 4).await;
            assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), 7);
        }
        end(node).await;
    }
}
