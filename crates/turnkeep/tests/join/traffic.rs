//! JOIN-7, JOIN-9, JOIN-11: messages and state during a move.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Semaphore;
use turnkeep::prelude::*;

use crate::support::{Signal, within};
use crate::world::*;

fn notes(story: &[String]) -> Vec<String> {
    story.iter().filter(|line| line.starts_with("a note")).cloned().collect()
}

#[tokio::test]
async fn join_7_a_messages_accepted_during_the_move_follow_the_completion_in_order_each_once() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let source = world.wide("S", Manners::default()).await;
            let (admit, asked, decide) = Step::wait();
            let (joined, joining, join) = Step::wait();
            world.single("X", Manners { admit, joined, ..Manners::default() }).await;
            let a = world.mover_in("a", &source).await;
            let by_id = world.node.actor::<Mover>("a");
            let (entered, go) = (Signal::new(), Signal::new());
            a.send(Go::to(To::Single("X"), 1).end(End::Wait(entered.clone(), go.clone()))).await.unwrap();
            entered.wait().await;
            a.send(Note(1)).await.unwrap();
            go.set();
            asked.wait().await;
            a.send(Note(2)).await.unwrap();
            by_id.send(Note(3)).await.unwrap();
            decide.set();
            joining.wait().await;
            by_id.send(Note(4)).await.unwrap();
            a.send(Note(5)).await.unwrap();
            assert!(!world.log.has_any("a note"), "{:?}", world.log.lines());
            join.set();
            let answer = a.ask(Note(6)).await.unwrap();
            assert_eq!(answer.as_deref(), Some("X"));
            let story = world.story().await;
            let completed = story.iter().position(|line| line.starts_with("a completed")).unwrap();
            let first = story.iter().position(|line| line.starts_with("a note")).unwrap();
            assert!(completed < first, "{story:?}");
            let wanted: Vec<_> = (1..=6).map(|n| format!("a note {n} at X")).collect();
            assert_eq!(notes(&story), wanted);
        }
    })
    .await;
}

/// Moves to the other of two Spots, again and again, while senders send numbers.
#[derive(Message)]
struct Count(u64);

/// An Actor that keeps the numbers it was given.
struct Counter {
    numbers: Vec<u64>,
    moves: u64,
}

#[derive(Message)]
struct Swap;
#[derive(Message)]
#[message(reply = (Vec<u64>, u64))]
struct Read;

impl Actor for Counter {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        assert!(done.is_accepted(), "{done:?}");
        turn.moves += 1;
        Ok(())
    }
}
impl Handles<Count> for Counter {
    async fn handle(turn: &mut Turn<'_, Self>, count: Count) -> Result<(), Never> {
        turn.numbers.push(count.0);
        Ok(())
    }
}
impl Handles<Swap> for Counter {
    async fn handle(turn: &mut Turn<'_, Self>, _: Swap) -> Result<(), Never> {
        let join = match turn.place().as_deref() {
            Some("X") => turn.join(turn.spot::<Single>("Y")),
            _ => turn.join(turn.spot::<Wide>("X")),
        };
        turn.defer(join).unwrap();
        Ok(())
    }
}
impl Handles<Read> for Counter {
    async fn handle(turn: &mut Turn<'_, Self>, _: Read) -> Result<(Vec<u64>, u64), Never> {
        Ok((turn.numbers.clone(), turn.moves))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_7_b_two_senders_lose_nothing_and_keep_their_order_over_a_hundred_moves() {
    const EACH: u64 = 2000;
    within(async {
        for workers in [1, 2] {
            let world = World::with(workers, |b| b.actor_with::<Counter>("counter", Options::new())).await;
            world.wide("X", Manners::default()).await;
            world.single("Y", Manners::default()).await;
            let address = world.node.actor::<Counter>("c");
            let made = address.create_with(Counter { numbers: Vec::new(), moves: 0 }).await.unwrap();
            let sender = |base: u64| {
                let address = address.clone();
                tokio::spawn(async move {
                    for n in 0..EACH {
                        address.send(Count(base + n)).await.unwrap();
                    }
                })
            };
            let (one, two) = (sender(0), sender(1_000_000));
            for _ in 0..100 {
                made.send(Swap).await.unwrap();
            }
            one.await.unwrap();
            two.await.unwrap();
            let (numbers, moves) = made.ask(Read).await.unwrap();
            assert_eq!(moves, 100, "every Join was over before what came behind it");
            let of = |base: u64| -> Vec<u64> {
                numbers.iter().filter(|n| **n / 1_000_000 == base / 1_000_000).map(|n| n - base).collect()
            };
            assert_eq!(of(0), (0..EACH).collect::<Vec<_>>());
            assert_eq!(of(1_000_000), (0..EACH).collect::<Vec<_>>());
        }
    })
    .await;
}

#[tokio::test]
async fn join_9_a_state_travels_with_the_actor() {
    within(async {
        let world = World::new(2).await;
        world.wide("X", Manners::default()).await;
        world.single("Y", Manners::default()).await;
        let a = world.mover("a").await;
        a.ask(Note(1)).await.unwrap();
        for to in [To::Wide("X"), To::Single("Y"), world.lobby(), To::Wide("X")] {
            a.send(Go::to(to, 1)).await.unwrap();
        }
        a.ask(Note(2)).await.unwrap();
        #[derive(Message)]
        #[message(reply = u64)]
        struct Seen;
        impl Handles<Seen> for Mover {
            async fn handle(turn: &mut Turn<'_, Self>, _: Seen) -> Result<u64, Never> {
                Ok(turn.seen)
            }
        }
        assert_eq!(a.ask(Seen).await.unwrap(), 6, "two notes and four completions");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_9_b_an_id_finds_the_actor_before_during_and_after() {
    within(async {
        let world = Arc::new(World::new(2).await);
        let (admit, asked, decide) = Step::wait();
        let source = world.wide("S", Manners::default()).await;
        world.wide("X", Manners { admit, ..Manners::default() }).await;
        let a = world.mover_in("a", &source).await;
        // As many messages a phase as the lane holds with ease.
        let (wanted, sent) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicU64::new(0)));
        let sender = {
            let (world, a, wanted, sent) = (world.clone(), a.clone(), wanted.clone(), sent.clone());
            tokio::spawn(async move {
                while let Ok(one) = wanted.acquire().await {
                    one.forget();
                    assert_eq!(world.node.actor::<Mover>("a").find().unwrap(), a);
                    world.node.actor::<Mover>("a").send(Note(0)).await.unwrap();
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let more = async |count: u64| {
            let until = sent.load(Ordering::SeqCst) + count;
            wanted.add_permits(count as usize);
            while sent.load(Ordering::SeqCst) < until {
                tokio::task::yield_now().await;
            }
        };
        more(100).await;
        a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        asked.wait().await;
        more(100).await;
        decide.set();
        while a.place().as_deref() != Some("X") {
            tokio::task::yield_now().await;
        }
        more(100).await;
        wanted.close();
        sender.await.unwrap();
        let story = world.story().await;
        assert_eq!(notes(&story).len(), 300);
        assert_eq!(a.place().as_deref(), Some("X"));
        let first_at_x = notes(&story).iter().position(|line| line.ends_with("at X")).unwrap();
        assert!(notes(&story)[first_at_x..].iter().all(|line| line.ends_with("at X")), "no going back");
    })
    .await;
}

#[tokio::test]
async fn join_11_a_what_was_accepted_before_waits_for_the_completion() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let source = world.wide("S", Manners::default()).await;
            let (left, leaving, leave) = Step::wait();
            world.wide("X", Manners { left, ..Manners::default() }).await;
            let a = world.mover_in("a", &source).await;
            a.send(Go::to(To::Wide("X"), 0)).await.unwrap();
            world.story().await;
            // Ten messages are in the lane before the handler that moves has even started.
            let (hold, held, release) = Hold::new();
            a.send(hold).await.unwrap();
            held.wait().await;
            a.send(Go::to(To::Wide("S"), 1)).await.unwrap();
            for n in 0..10 {
                a.send(Note(n)).await.unwrap();
            }
            release.set();
            leaving.wait().await;
            source.ask(Note(99)).await.unwrap();
            assert!(!world.log.has_any("a note"), "{:?}", world.log.lines());
            leave.set();
            let story = world.story().await;
            let wanted: Vec<_> = (0..10).map(|n| format!("a note {n} at S")).collect();
            assert_eq!(notes(&story), wanted);
        }
    })
    .await;
}

/// Two Spots, an Actor in one of them, and a row of Joins back and forth, which makes far more than eight
/// lifecycle turns in a row.
async fn row_of_moves(workers: usize, from: To, plans: Vec<Plan>) {
    let world = World::new(workers).await;
    world.wide("X", Manners::default()).await;
    world.wide("Y", Manners::default()).await;
    world.single("Z", Manners::default()).await;
    world.single("V", Manners::default()).await;
    let a = world.mover("a").await;
    a.send(Go::to(from, 0)).await.unwrap();
    world.story().await;
    let (hold, held, release) = Hold::new();
    a.send(hold).await.unwrap();
    held.wait().await;
    a.send(Go::all(plans.clone())).await.unwrap();
    for n in 0..5 {
        a.send(Note(n)).await.unwrap();
    }
    release.set();
    let mut story = world.story().await;
    story.retain(|line| line.starts_with("a completed") || line.starts_with("a note"));
    let mut wanted: Vec<_> = plans
        .iter()
        .map(|plan| format!("a completed {} {} accepted at {}", plan.to.id(), plan.tag, plan.to.id()))
        .collect();
    let last = plans.last().unwrap().to.id();
    wanted.extend((0..5).map(|n| format!("a note {n} at {last}")));
    assert_eq!(story, wanted);
}

#[tokio::test]
async fn join_11_b_no_debt_lets_a_message_in_between_the_joins_of_one_handler() {
    within(async {
        for workers in [1, 2] {
            let plans = (0..20)
                .map(|n| Plan::new(if n % 2 == 0 { To::Wide("Y") } else { To::Wide("X") }, n))
                .collect();
            row_of_moves(workers, To::Wide("X"), plans).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_11_c_no_debt_lets_a_message_in_when_the_gate_is_its_own() {
    within(async {
        for workers in [1, 2] {
            let plans = (0..20)
                .map(|n| {
                    let to = [To::Single("Z"), To::Wide("X"), To::Wide("Y")];
                    Plan::new(to[n as usize % 3].clone(), n)
                })
                .collect();
            row_of_moves(workers, To::Wide("Y"), plans).await;
        }
    })
    .await;
}

/// Moves between own gates, and Joins that are no moves, change no gate: all their turns count as one row of
/// the Actor's own lanes.
#[tokio::test]
async fn join_11_i_no_debt_lets_a_message_in_when_the_gate_stays_the_same() {
    within(async {
        for workers in [1, 2] {
            let between = (0..20)
                .map(|n| Plan::new(if n % 2 == 0 { To::Single("V") } else { To::Single("Z") }, n))
                .collect();
            row_of_moves(workers, To::Single("Z"), between).await;
            let stay = |to: To| (0..20).map(|n| Plan::new(to.clone(), n)).collect::<Vec<_>>();
            row_of_moves(workers, To::Single("Z"), stay(To::Single("Z"))).await;
            row_of_moves(workers, To::Wide("X"), stay(To::Wide("X"))).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_11_d_joins_to_the_place_one_is_in_keep_their_place_in_the_row() {
    within(async {
        let plans =
            (0..30).map(|n| Plan::new(if n % 3 == 2 { To::Wide("Y") } else { To::Wide("X") }, n)).collect();
        row_of_moves(2, To::Wide("X"), plans).await;
    })
    .await;
}

#[tokio::test]
async fn join_11_e_joins_of_different_actors_run_in_the_registered_order() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let registrar = world.wide("R", Manners::default()).await;
            world.wide("X", Manners::default()).await;
            world.single("Y", Manners::default()).await;
            let mut moves = Vec::new();
            for n in 0..6 {
                let actor = world.mover(&format!("m{n}")).await;
                let to = if n % 2 == 0 { To::Wide("X") } else { To::Single("Y") };
                moves.push((actor, Plan::new(to, n)));
            }
            world.story().await;
            registrar.send(MoveAll { moves }).await.unwrap();
            let mut story = world.story().await;
            story.retain(|line| line.contains("admits") || line.contains("completed"));
            let wanted: Vec<_> = (0..6)
                .flat_map(|n| {
                    let to = if n % 2 == 0 { "X" } else { "Y" };
                    [format!("{to} admits m{n} {n}"), format!("m{n} completed {to} {n} accepted at {to}")]
                })
                .collect();
            assert_eq!(story, wanted, "one is over before the next begins");
        }
    })
    .await;
}

#[tokio::test]
async fn join_11_f_an_actor_whose_join_stands_last_in_the_row_is_held_from_the_end_of_the_handler() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let registrar = world.wide("R", Manners::default()).await;
            let (admit, asked, decide) = Step::wait();
            world.single("X", Manners { admit, ..Manners::default() }).await;
            let (a, b) = (world.mover("a").await, world.mover("b").await);
            let moves =
                vec![(b.clone(), Plan::new(To::Single("X"), 1)), (a.clone(), Plan::new(To::Single("X"), 2))];
            registrar.ask(MoveAll { moves }).await.unwrap();
            asked.wait().await;
            a.send(Note(1)).await.unwrap();
            // Others have turns; the message to `a` has none although its Join has not even begun.
            for n in 0..50 {
                registrar.ask(Note(n)).await.unwrap();
            }
            assert!(!world.log.has_any("a note"), "{:?}", world.log.lines());
            decide.set();
            let story = world.story().await;
            assert_eq!(notes(&story), ["a note 1 at X"]);
            assert_eq!(story.last().unwrap(), "a note 1 at X");
        }
    })
    .await;
}

#[tokio::test]
async fn join_11_g_the_row_goes_on_when_an_actor_in_it_is_destroyed() {
    within(async {
        let world = World::new(2).await;
        let registrar = world.wide("R", Manners::default()).await;
        let (admit, asked, decide) = Step::wait();
        world.wide("X", Manners { admit, ..Manners::default() }).await;
        world.wide("Y", Manners::default()).await;
        let (a, b, c) = (world.mover("a").await, world.mover("b").await, world.mover("c").await);
        let moves = vec![
            (a.clone(), Plan::new(To::Wide("X"), 1)),
            (b.clone(), Plan::new(To::Wide("Y"), 2)),
            (c.clone(), Plan::new(To::Wide("Y"), 3)),
        ];
        b.destroy().await.unwrap();
        registrar.ask(MoveAll { moves }).await.unwrap();
        asked.wait().await;
        // The first is destroyed while its Join waits for the decision, the second has ended already.
        a.destroy().await.unwrap();
        decide.set();
        let story = world.story().await;
        assert_eq!(story.last().unwrap(), "c completed Y 3 accepted at Y");
        assert_eq!(c.ask(Note(1)).await.unwrap().as_deref(), Some("Y"));
        assert!(world.node.spot::<Wide>("X").find().unwrap().members().is_empty());
    })
    .await;
}
