//! Cycles of waits: refused at the moment they would close, one participant of each, with the chain in words.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use turnkeep::prelude::*;
use turnkeep::{Admits, HeapSize, JoinOutcome};

use support::{Log, Signal};
use world::{Cabin, Player, Room, everywhere, on_workers, ping, player_in, room};

/// Longer than any test may last: whoever ends before was not saved by a deadline.
const NEVER: Duration = Duration::from_secs(600);

/// Whom a [`Chain`] asks next.
#[derive(Clone)]
enum Hop {
    Spot(SpotRef<Room>),
    Actor(ActorRef<Player>),
}

/// Asks the first hop with the rest of the hops; answers how far it came, or with the refusal's words.
#[derive(Clone)]
struct Chain {
    hops: VecDeque<Hop>,
    yields: bool,
    /// Ids of those whose handler ran, in order.
    ran: Log<String>,
    /// Everybody waits here before the ask.
    together: Option<Arc<Barrier>>,
}

impl Chain {
    fn new(hops: impl IntoIterator<Item = Hop>, yields: bool) -> Self {
        Self { hops: hops.into_iter().collect(), yields, ran: Log::new(), together: None }
    }
}

impl HeapSize for Chain {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

/// How many hops were answered behind this one, or the text of the refusal.
type Came = Result<usize, String>;

impl Message for Chain {
    type Reply = Came;
    type Error = Never;
}

fn came<M: Message<Reply = Came>>(answered: Result<Came, AskError<M>>) -> Came {
    match answered {
        Ok(came) => came.map(|hops| hops + 1),
        Err(error) => {
            assert_eq!(error.kind(), Some(ErrorKind::InvalidOperation), "{error}");
            Err(error.to_string())
        }
    }
}

/// The next hop, with the gate kept or given up.
macro_rules! hop {
    ($turn:ident, $chain:ident) => {{
        $chain.ran.push($turn.id().to_owned());
        if let Some(together) = &$chain.together {
            together.wait().await;
        }
        let Some(next) = $chain.hops.pop_front() else { return Ok(Ok(0)) };
        let yields = $chain.yields;
        match (next, yields) {
            (Hop::Spot(spot), false) => came(spot.ask($chain).timeout(NEVER).await),
            (Hop::Actor(actor), false) => came(actor.ask($chain).timeout(NEVER).await),
            (Hop::Spot(spot), true) => came($turn.try_yielding(spot.ask($chain).timeout(NEVER)).await),
            (Hop::Actor(actor), true) => came($turn.try_yielding(actor.ask($chain).timeout(NEVER)).await),
        }
    }};
}

impl Handles<Chain> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, mut chain: Chain) -> Result<Came, Never> {
        Ok(hop!(turn, chain))
    }
}
impl Handles<Chain> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, mut chain: Chain) -> Result<Came, Never> {
        Ok(hop!(turn, chain))
    }
}

async fn entry_players(node: &Node, count: usize) -> Vec<ActorRef<Player>> {
    let mut players = Vec::new();
    for number in 0..count {
        players.push(node.actor::<Player>(&format!("p{number}")).get_or_create().await.unwrap());
    }
    players
}

/// Each answers, so nobody is stuck.
async fn all_answer(players: &[ActorRef<Player>]) {
    for player in players {
        player.ask(act!(Player, [], |_turn| ())).await.unwrap();
    }
}

#[tokio::test]
async fn reent_5_a_a_chain_that_comes_back_is_refused_at_its_last_hop() {
    everywhere(async |node| {
        for length in [2, 3, 5] {
            let players = entry_players(&node, length).await;
            let hops = players[1..].iter().chain(&players[..1]).cloned().map(Hop::Actor);
            let chain = Chain::new(hops, false);
            let ran = chain.ran.clone();
            let text = players[0].ask(chain).timeout(NEVER).await.unwrap().unwrap_err();
            let ids: Vec<String> = players.iter().map(|player| player.id().to_owned()).collect();
            assert_eq!(ran.take(), ids, "each handler ran once, and the closing ask none");
            let last = length - 1;
            let mut circle = vec![format!("player p{last}")];
            circle.extend((0..length).map(|number| format!("player p{number}")));
            assert!(text.contains(&circle.join(" → ")), "{text}");
            all_answer(&players).await;
        }
    })
    .await;
}

#[tokio::test]
async fn reent_5_b_members_that_yield_in_a_ring_are_refused_at_its_last_hop() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let mut players = Vec::new();
        for id in ["a", "b", "c"] {
            players.push(player_in(&node, id, &spot).await);
        }
        for round in [2, 3] {
            let ring = &players[..round];
            let hops = ring[1..].iter().chain(&ring[..1]).cloned().map(Hop::Actor);
            let chain = Chain::new(hops, true);
            let ran = chain.ran.clone();
            let text = ring[0].ask(chain).timeout(NEVER).await.unwrap().unwrap_err();
            assert_eq!(ran.len(), round);
            assert!(text.contains("player a → player b"), "{text}");
            all_answer(&players).await;
        }
        // Through the Spot and back to the member that waits for it.
        let hops = [Hop::Spot(spot.clone()), Hop::Actor(players[0].clone())];
        let text = players[0].ask(Chain::new(hops, true)).timeout(NEVER).await.unwrap().unwrap_err();
        assert!(text.contains("room spot → player a → room spot"), "{text}");
        all_answer(&players).await;
    })
    .await;
}

#[tokio::test]
async fn reent_5_c_a_handler_that_yielded_hands_its_callers_gate_on() {
    everywhere(async |node| {
        let (a, b) = (room(&node, "a").await, room(&node, "b").await);
        let keeper = entry_players(&node, 1).await.remove(0);
        // The keeper keeps its gate for `a`, which yields for `b`, which asks the keeper.
        let chain = act!(Player, [a, b, keeper], |_turn| {
            let third = act!(Room, [keeper], |turn| {
                let asked = keeper.ask(act!(Player, [], |_turn| ())).timeout(NEVER);
                turn.yielding(asked).await.unwrap_err().to_string()
            });
            let second = act!(Room, [b], |turn| turn.yielding(b.ask(third).timeout(NEVER)).await.unwrap());
            a.ask(second).timeout(NEVER).await.unwrap()
        });
        let text = keeper.ask(chain).timeout(NEVER).await.unwrap();
        assert!(text.contains("room b → player p0 → room a → room b"), "{text}");
        ping(&a).await;
        ping(&b).await;
    })
    .await;
}

#[tokio::test]
async fn reent_5_d_of_chains_that_cross_exactly_one_is_refused() {
    on_workers(&[1, 2, 8], async |node| {
        for size in [2, 3, 5] {
            for _ in 0..60 {
                let players = entry_players(&node, size).await;
                let together = Arc::new(Barrier::new(size));
                let asks = (0..size).map(|number| {
                    let next = Hop::Actor(players[(number + 1) % size].clone());
                    // The barrier is for the first handlers only: the one that is asked has no hop left.
                    let first = act!(Player, [together, next], |_turn| {
                        together.wait().await;
                        let Hop::Actor(next) = next else { unreachable!() };
                        came(next.ask(Chain::new([], false)).timeout(NEVER).await)
                    });
                    tokio::spawn(players[number].ask(first).timeout(NEVER))
                });
                let asks: Vec<_> = asks.collect();
                let mut refused = 0;
                for ask in asks {
                    match ask.await.unwrap().unwrap() {
                        Ok(1) => {}
                        Ok(other) => panic!("{other} hops"),
                        Err(text) => {
                            assert!(text.contains(" → "), "{text}");
                            refused += 1;
                        }
                    }
                }
                assert_eq!(refused, 1, "{size} chains that cross");
                all_answer(&players).await;
            }
        }
    })
    .await;
}

/// Nothing brings the two together but chance: sometimes they cross and sometimes they do not.
#[tokio::test]
async fn reent_5_e_racing_asks_never_hang_and_never_both_fail() {
    on_workers(&[2, 8], async |node| {
        let players = entry_players(&node, 2).await;
        let mut refused = 0;
        for _ in 0..3000 {
            let ask = |from: usize| {
                let next = players[1 - from].clone();
                let first = act!(Player, [next], |_turn| {
                    came(next.ask(Chain::new([], false)).timeout(NEVER).await)
                });
                tokio::spawn(players[from].ask(first).timeout(NEVER))
            };
            let (one, other) = (ask(0), ask(1));
            let failures = [one.await.unwrap().unwrap(), other.await.unwrap().unwrap()];
            let failures = failures.iter().filter(|came| came.is_err()).count();
            assert!(failures <= 1, "both were refused");
            refused += failures;
        }
        // For the reader of a log: how often chance made them cross.
        println!("{refused} of 3000 crossed");
    })
    .await;
}

/// Defers a Join of the Actor that handles it; who has the answer finds the Join begun.
fn leave_for<S: Spot<Mode: Admits>>(target: &SpotRef<S>) -> world::Act<Player, ()> {
    let to = target.clone();
    act!(Player, [to], |turn| {
        let join = turn.join(&to);
        turn.defer(join).unwrap();
    })
}

/// In a turn of `$spot`: sends the player on its way here and then waits for it.
macro_rules! waits_for_who_comes {
    ($type:ty, $spot:ident, $player:ident) => {
        $spot.ask(act!($type, [$player, $spot], |_turn| {
            $player.ask(leave_for(&$spot)).timeout(NEVER).await.unwrap();
            $player.ask(act!(Player, [], |_turn| ())).timeout(NEVER).await.unwrap_err().to_string()
        }))
    };
}

#[tokio::test]
async fn reent_5_f_a_spot_that_waits_for_an_actor_about_to_join_it_is_refused() {
    everywhere(async |node| {
        let (wide, apart) = (room(&node, "wide").await, node.spot::<Cabin>("apart").create().await.unwrap());
        let player = node.actor::<Player>("player").create().await.unwrap();
        let text = waits_for_who_comes!(Room, wide, player).timeout(NEVER).await.unwrap();
        assert!(text.contains("room wide → player player → room wide"), "{text}");
        node.quiesce().await.unwrap();
        assert_eq!(player.place().as_deref(), Some("wide"), "the Join was not the one that was refused");
        // A target with members of their own gates decides in a turn of its own, too.
        let text = waits_for_who_comes!(Cabin, apart, player).timeout(NEVER).await.unwrap();
        assert!(text.contains("cabin apart → player player → cabin apart"), "{text}");
        node.quiesce().await.unwrap();
        assert_eq!(player.place().as_deref(), Some("apart"));
        // So does the Spot that it leaves.
        let text = apart.ask(act!(Cabin, [player, wide], |_turn| {
            player.ask(leave_for(&wide)).timeout(NEVER).await.unwrap();
            player.ask(act!(Player, [], |_turn| ())).timeout(NEVER).await.unwrap_err().to_string()
        }));
        let text = text.timeout(NEVER).await.unwrap();
        assert!(text.contains("cabin apart → player player → cabin apart"), "{text}");
        node.quiesce().await.unwrap();
        assert_eq!(player.place().as_deref(), Some("wide"));
    })
    .await;
}

/// Someone else waits for the Actor on the way, and the Spot for that one.
#[tokio::test]
async fn reent_5_g_a_cycle_through_a_pending_join_is_seen_from_afar() {
    everywhere(async |node| {
        let wide = room(&node, "wide").await;
        let (player, other) = (node.actor::<Player>("x").create().await.unwrap(), room(&node, "other").await);
        let text = wide.ask(act!(Room, [player, other, wide], |_turn| {
            player.ask(leave_for(&wide)).timeout(NEVER).await.unwrap();
            let between = act!(Room, [player], |_turn| {
                player.ask(act!(Player, [], |_turn| ())).timeout(NEVER).await.unwrap_err().to_string()
            });
            other.ask(between).timeout(NEVER).await.unwrap()
        }));
        let text = text.timeout(NEVER).await.unwrap();
        assert!(text.contains("room other → player x → room wide → room other"), "{text}");
        node.quiesce().await.unwrap();
        assert_eq!(player.place().as_deref(), Some("wide"));
    })
    .await;
}

/// An Actor that keeps what it is told about its Joins.
#[derive(Default)]
struct Witness {
    told: Option<ErrorKind>,
}

impl Actor for Witness {
    async fn on_join_completed(
        turn: &mut Lifecycle<'_, Self>,
        completed: turnkeep::JoinCompleted,
    ) -> Result<(), Failure> {
        if let JoinOutcome::Failed(kind) = completed.outcome() {
            turn.told = Some(*kind);
        }
        Ok(())
    }
}

/// Defers a Join, says so, and ends when it may.
struct Leave {
    to: SpotRef<Room>,
    deferred: Signal,
    go: Signal,
}

/// What it was told.
struct Told;

macro_rules! weightless {
    ($($name:ident => $reply:ty),*) => {$(
        impl HeapSize for $name {
            fn heap_bytes(&self) -> u64 {
                0
            }
        }
        impl Message for $name {
            type Reply = $reply;
            type Error = Never;
        }
    )*};
}
weightless!(Leave => (), Told => Option<ErrorKind>);

impl Handles<Leave> for Witness {
    async fn handle(turn: &mut Turn<'_, Self>, leave: Leave) -> Result<(), Never> {
        let join = turn.join(&leave.to);
        turn.defer(join).unwrap();
        leave.deferred.set();
        leave.go.wait().await;
        Ok(())
    }
}

impl Handles<Told> for Witness {
    async fn handle(turn: &mut Turn<'_, Self>, _: Told) -> Result<Option<ErrorKind>, Never> {
        Ok(turn.told)
    }
}

/// The wait comes first and the Join closes the circle: then it is the Join that fails.
#[tokio::test]
async fn reent_5_h_a_join_that_would_close_a_cycle_fails_and_the_waits_end() {
    let node =
        Node::builder().workers(2).spot::<Room>("room").actor::<Witness>("witness").start().await.unwrap();
    support::within(async {
        let spot = room(&node, "spot").await;
        let witness = node.actor::<Witness>("witness").create().await.unwrap();
        let (deferred, go) = (Signal::new(), Signal::new());
        let leave = Leave { to: spot.clone(), deferred: deferred.clone(), go: go.clone() };
        witness.send(leave).await.unwrap();
        deferred.wait().await;
        // The Spot keeps its gate and waits for the Actor, whose handler has deferred and goes on.
        let answered = spot.ask(act!(Room, [witness, go], |_turn| {
            let mut asked = witness.ask(Told).timeout(NEVER);
            let begun = std::future::poll_fn(|cx| {
                let polled = std::pin::Pin::new(&mut asked).poll(cx);
                std::task::Poll::Ready(polled.is_pending())
            });
            assert!(begun.await);
            go.set();
            asked.await.unwrap()
        }));
        let told = answered.timeout(NEVER).await.unwrap();
        assert_eq!(told, Some(ErrorKind::InvalidOperation), "the Join failed before the wait was answered");
        assert_eq!(witness.place(), Some(node.entry_id()));
    })
    .await;
    assert!(!node.shutdown().await.unwrap().forced);
}

/// A creation waits for the first turn, which asks its maker back.
#[tokio::test]
async fn reent_5_i_an_object_that_asks_its_maker_back_is_refused_and_not_made() {
    everywhere(async |node| {
        let maker = room(&node, "maker").await;
        let said = Log::new();
        let made = maker.ask(act!(Room, [maker, said], |turn| {
            let on_create = life!(Room, [maker, said], |_turn| {
                let back = maker.ask(act!(Room, [], |_turn| ())).timeout(NEVER).await.unwrap_err();
                said.push((back.kind(), back.to_string()));
                Err(Failure::new("no way"))?;
            });
            let state = Room { on_create, ..Room::default() };
            turn.spot::<Room>("new")
                .create_with(state)
                .timeout(NEVER)
                .await
                .map(drop)
                .map_err(|error| error.kind())
        }));
        assert_eq!(made.timeout(NEVER).await.unwrap(), Err(ErrorKind::Rejected));
        let said = said.take();
        assert_eq!(said.len(), 1);
        assert_eq!(said[0].0, Some(ErrorKind::InvalidOperation));
        assert!(said[0].1.contains("room new → room maker → room new"), "{}", said[0].1);
        assert!(node.spot::<Room>("new").find().is_err());
    })
    .await;
}

/// A full lane is a wait like any other.
#[tokio::test]
async fn reent_5_j_a_send_whose_wait_for_room_would_close_a_cycle_is_refused() {
    let node = world::world_with_lane(2, 1).await;
    support::within(async {
        let players = entry_players(&node, 2).await;
        let (one, other) = (players[0].clone(), players[1].clone());
        // The other is full of the very handler that waits for this one.
        let text = other.ask(act!(Player, [one, other], |_turn| {
            let back = act!(Player, [other], |_turn| {
                let refused = other.send(act!(Player, [], |_turn| ())).timeout(NEVER).await.unwrap_err();
                (refused.error.kind(), refused.error.to_string())
            });
            one.ask(back).timeout(NEVER).await.unwrap()
        }));
        let (kind, text) = text.timeout(NEVER).await.unwrap();
        assert_eq!(kind, ErrorKind::InvalidOperation);
        assert!(text.contains("player p0 → player p1 → player p0"), "{text}");
        all_answer(&players).await;
    })
    .await;
    assert!(!node.shutdown().await.unwrap().forced);
}

/// A wait that is no part of a circle is let be, however many others wait.
#[tokio::test]
async fn reent_5_k_waits_that_close_no_cycle_are_answered() {
    everywhere(async |node| {
        let (a, b) = (room(&node, "a").await, room(&node, "b").await);
        let third = entry_players(&node, 1).await.remove(0);
        // `a` yields for `b` again and again, while `b` asks `a` with its gate kept: `a` is free to answer.
        let (entered, go) = (Signal::new(), Signal::new());
        let yields = a.ask(act!(Room, [b, entered, go], |turn| {
            let ask = b.ask(act!(Room, [entered, go], |_turn| {
                entered.set();
                go.wait().await;
            }));
            turn.yielding(ask.timeout(NEVER)).await.unwrap();
            1
        }));
        let yields = tokio::spawn(yields.timeout(NEVER));
        entered.wait().await;
        // Queued behind the handler of `b` that waits for `go`, and answered after it.
        let queued = tokio::spawn(third.ask(act!(Player, [b], |_turn| {
            b.ask(act!(Room, [], |_turn| 2)).timeout(NEVER).await.unwrap()
        })));
        let crossing =
            b.ask(act!(Room, [a], |_turn| a.ask(act!(Room, [], |_turn| 3)).timeout(NEVER).await.unwrap()));
        let crossing = tokio::spawn(crossing.timeout(NEVER));
        go.set();
        assert_eq!(yields.await.unwrap().unwrap(), 1);
        assert_eq!(queued.await.unwrap().unwrap(), 2);
        assert_eq!(crossing.await.unwrap().unwrap(), 3);
    })
    .await;
}

/// An ask that was begun in one place and is awaited in another counts where it is awaited.
#[tokio::test]
async fn reent_5_l_a_call_handed_on_is_a_wait_of_who_awaits_it() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let go = world::hold(&spot).await;
        let mut asked = spot.ask(act!(Room, [], |_turn| ())).timeout(NEVER);
        std::future::poll_fn(|cx| {
            assert!(std::pin::Pin::new(&mut asked).poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        let holder = node.actor::<Player>("holder").get_or_create().await.unwrap();
        let awaits = tokio::spawn(holder.ask(act!(Player, [], |_turn| asked.await.is_ok())).timeout(NEVER));
        go.set();
        assert!(awaits.await.unwrap().unwrap(), "another gate may wait for it");
    })
    .await;
}
