//! JOIN-8, JOIN-13: Joins that are no moves, opposite Joins, and who goes on while one is decided.

use turnkeep::prelude::*;

use crate::support::{Overlap, within};
use crate::world::*;

#[tokio::test]
async fn join_8_a_joining_the_spot_one_is_in_is_accepted_without_spot_callbacks() {
    within(async {
        let world = World::new(2).await;
        let wide = world.wide("X", Manners { reject: Some(None), ..Manners::default() }).await;
        let home = world.wide("H", Manners::default()).await;
        let a = world.mover_in("a", &home).await;
        let b = world.mover("b").await;
        world.story().await;
        a.send(Go::to(To::Wide("H"), 4)).await.unwrap();
        a.send(Note(1)).await.unwrap();
        assert_eq!(world.story().await, ["a went", "a completed H 4 accepted at H", "a note 1 at H"]);
        let entry = world.node.entry_id();
        b.send(Go::to(world.lobby(), 5)).await.unwrap();
        let story = world.story().await;
        assert_eq!(story, ["b went".to_owned(), format!("b completed {entry} 5 accepted at {entry}")]);
        assert!(wide.members().is_empty());
    })
    .await;
}

async fn opposite(workers: usize, x: To, y: To) {
    let world = World::new(workers).await;
    world.wide("X", Manners::default()).await;
    world.wide("Y", Manners::default()).await;
    world.single("Z", Manners::default()).await;
    let (a, b) = (world.mover("a").await, world.mover("b").await);
    a.send(Go::to(x.clone(), 0)).await.unwrap();
    b.send(Go::to(y.clone(), 0)).await.unwrap();
    world.story().await;
    for round in 0..200 {
        let (for_a, for_b) = if round % 2 == 0 { (&y, &x) } else { (&x, &y) };
        a.send(Go::to(for_a.clone(), round)).await.unwrap();
        b.send(Go::to(for_b.clone(), round)).await.unwrap();
        let (at_a, at_b) = tokio::join!(a.ask(Note(round)), b.ask(Note(round)));
        assert_eq!(at_a.unwrap().as_deref(), Some(for_a.id()));
        assert_eq!(at_b.unwrap().as_deref(), Some(for_b.id()));
    }
    assert_eq!(world.node.metrics().joins_accepted, 402);
    assert_eq!(world.node.metrics().joins_failed, 0);
}

#[tokio::test]
async fn join_8_b_opposite_joins_between_two_shared_gates_finish() {
    within(async {
        for workers in [1, 2] {
            opposite(workers, To::Wide("X"), To::Wide("Y")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_8_c_opposite_joins_between_a_shared_gate_and_own_gates_finish() {
    within(async {
        for workers in [1, 2] {
            opposite(workers, To::Wide("X"), To::Single("Z")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn join_13_a_the_source_and_its_members_go_on_while_the_decision_is_pending() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let source = world.wide("S", Manners::default()).await;
            let (admit, asked, decide) = Step::wait();
            world.wide("X", Manners { admit, ..Manners::default() }).await;
            let a = world.mover_in("a", &source).await;
            let other = world.mover_in("b", &source).await;
            a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
            asked.wait().await;
            for n in 0..20 {
                source.ask(Note(n)).await.unwrap();
                assert_eq!(other.ask(Note(n)).await.unwrap().as_deref(), Some("S"));
            }
            assert_eq!(a.place().as_deref(), Some("S"));
            decide.set();
            world.node.quiesce().await.unwrap();
            assert_eq!(a.place().as_deref(), Some("X"));
        }
    })
    .await;
}

#[tokio::test]
async fn join_13_b_the_target_and_its_members_go_on_while_the_request_waits() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            // The decision is pending inside the callback: members of a PerActor Spot have their own gates.
            let (admit, asked, decide) = Step::wait();
            let single = world.single("X", Manners::default()).await;
            let inside = world.node.actor::<Mover>("m").create_in(Mover::new(&world.log), &single).await;
            let inside = inside.unwrap();
            let gate = world.single("P", Manners { admit, ..Manners::default() }).await;
            let a = world.mover("a").await;
            a.send(Go::to(To::Single("P"), 1)).await.unwrap();
            asked.wait().await;
            for n in 0..20 {
                assert_eq!(inside.ask(Note(n)).await.unwrap().as_deref(), Some("X"));
                single.ask(Note(n)).await.unwrap();
            }
            decide.set();
            world.node.quiesce().await.unwrap();
            assert_eq!(gate.members(), ["a"]);
            // The decision is pending in the lane: a yielding handler of the target holds the Join up only as
            // long as another turn is on.
            assert_eq!(world.node.metrics().joins_accepted, 2);
        }
    })
    .await;
}

#[tokio::test]
async fn join_13_c_the_target_goes_on_while_its_lifecycle_lane_has_no_room() {
    within(async {
        let tiny = turnkeep::Lane { records: 1, bytes: 4096 };
        let world =
            World::with(2, |builder| builder.spot_with::<Busy>("busy", Options::new().lifecycle_lane(tiny)))
                .await;
        let busy = world.node.spot::<Busy>("B").create_with(Busy::default()).await.unwrap();
        let actors = [world.mover("a").await, world.mover("b").await, world.mover("c").await];
        for actor in &actors {
            actor.send(IntoBusy).await.unwrap();
        }
        let mut admitted = 0;
        while admitted < 3 {
            admitted = busy.ask(Admitted).await.unwrap();
        }
        world.node.quiesce().await.unwrap();
        assert_eq!(busy.members().len(), 3);
    })
    .await;
}

/// Counts what it admits.
#[derive(Default)]
struct Busy(usize);
#[derive(Message)]
#[message(reply = usize)]
struct Admitted;
#[derive(Message)]
struct IntoBusy;

impl Spot for Busy {
    type Mode = SpotWide;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        turn.io(tokio::task::yield_now()).await?;
        turn.0 += 1;
        Ok(Admission::Accept)
    }
}
impl Handles<Admitted> for Busy {
    async fn handle(turn: &mut Turn<'_, Self>, _: Admitted) -> Result<usize, Never> {
        Ok(turn.0)
    }
}
impl Handles<IntoBusy> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, _: IntoBusy) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Busy>("B"));
        turn.defer(join).unwrap();
        Ok(())
    }
}

/// An Actor whose completion callback waits in the midst, with the state of its Spot in reach or not.
struct Guest {
    overlap: Overlap,
    seen: Tale,
}

#[derive(Message)]
struct Visit(#[message(no_heap)] To, u64);

/// A Spot that counts who is inside at once.
struct Ring<M>(Overlap, Option<()>, std::marker::PhantomData<fn() -> M>);

impl<M: turnkeep::Mode> Spot for Ring<M> {
    type Mode = M;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        Ok(if turn.1.is_some() { Admission::reject() } else { Admission::Accept })
    }
}

#[derive(Message)]
struct Poke;

impl<M: turnkeep::Mode> Handles<Poke> for Ring<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: Poke) -> Result<(), Never> {
        let _inside = turn.0.enter();
        let _ = turn.io(tokio::task::yield_now()).await;
        Ok(())
    }
}

impl Actor for Guest {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        let shared = turn.within::<Ring<SpotWide>>().is_some();
        let tag = done.request::<u64>().copied();
        turn.seen.push(format!("{} shared {shared} tag {tag:?}", done.is_accepted()));
        // In the gate of a SpotWide Spot: nothing of that Spot may run while this waits.
        let inside = turn.within::<Ring<SpotWide>>().map(|mut turn| turn.try_both().unwrap().1.0.enter());
        for _ in 0..20 {
            turn.io(tokio::task::yield_now()).await?;
        }
        drop(inside);
        Ok(())
    }
}

impl Handles<Visit> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, visit: Visit) -> Result<(), Never> {
        let join = match &visit.0 {
            To::Wide(id) => turn.join(turn.spot::<Ring<SpotWide>>(id)),
            To::Single(id) => turn.join(turn.spot::<Ring<PerActor>>(id)),
            _ => unreachable!("rings only"),
        };
        let _ = &turn.overlap;
        turn.defer(join.with(visit.1)).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn join_13_d_the_completion_runs_under_the_gate_of_the_place_and_gets_the_tag_back() {
    within(async {
        for workers in [1, 2] {
            let world = World::with(workers, |builder| {
                builder
                    .spot_with::<Ring<SpotWide>>("ring", Options::new())
                    .spot_with::<Ring<PerActor>>("fan", Options::new())
                    .actor_with::<Guest>("guest", Options::new())
            })
            .await;
            let mark = std::marker::PhantomData;
            let (home, away) = (Overlap::new(), Overlap::new());
            let wide = |id: &str| world.node.spot::<Ring<SpotWide>>(id);
            let s = wide("S").create_with(Ring(home.clone(), None, mark)).await.unwrap();
            let x = wide("X").create_with(Ring(away.clone(), None, mark)).await.unwrap();
            wide("no").create_with(Ring(Overlap::new(), Some(()), mark)).await.unwrap();
            let mark = std::marker::PhantomData;
            let p = world.node.spot::<Ring<PerActor>>("P");
            p.create_with(Ring(Overlap::new(), None, mark)).await.unwrap();
            let seen = Tale::default();
            let guest = Guest { overlap: Overlap::new(), seen: seen.clone() };
            let guest = world.node.actor::<Guest>("g").create_in(guest, &s).await.unwrap();
            // Competitors for both shared gates, all the time.
            let poke = |ring: &SpotRef<Ring<SpotWide>>| {
                let ring = ring.clone();
                tokio::spawn(async move {
                    for _ in 0..200 {
                        ring.ask(Poke).await.unwrap();
                    }
                })
            };
            let pokes = [poke(&s), poke(&s), poke(&x), poke(&x)];
            for (n, to) in [To::Wide("no"), To::Wide("X"), To::Wide("no"), To::Single("P"), To::Wide("S")]
                .into_iter()
                .enumerate()
            {
                guest.send(Visit(to, n as u64)).await.unwrap();
            }
            for poke in pokes {
                poke.await.unwrap();
            }
            world.node.quiesce().await.unwrap();
            let wanted = [
                "true shared true tag None",
                "false shared true tag Some(0)",
                "true shared true tag Some(1)",
                "false shared true tag Some(2)",
                "true shared false tag Some(3)",
                "true shared true tag Some(4)",
            ];
            assert_eq!(seen.take(), wanted);
            assert_eq!((home.most(), away.most()), (1, 1));
        }
    })
    .await;
}
