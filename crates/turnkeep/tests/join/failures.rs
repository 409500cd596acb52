//! JOIN-12: every way a Join fails, and what stays of it; endings in the midst of a move.

use std::time::Duration;

use turnkeep::prelude::*;

use crate::support::{Signal, within};
use crate::world::*;

/// An Actor in `S` tries to join `to` and reports; then three things are asked of everybody.
struct Try {
    world: World,
    source: SpotRef<Wide>,
    a: ActorRef<Mover>,
}

impl Try {
    async fn new() -> Self {
        let world = World::new(2).await;
        let source = world.wide("S", Manners::default()).await;
        let a = world.mover_in("a", &source).await;
        Self { world, source, a }
    }

    async fn join(&self, plan: Plan) -> Vec<String> {
        self.a.ask(Go::plan(plan)).await.unwrap();
        self.world.story().await
    }

    async fn assert_works(&self, place: &str) {
        assert_eq!(self.a.place().as_deref(), Some(place));
        assert_eq!(self.a.ask(Note(1)).await.unwrap().as_deref(), Some(place));
        self.source.ask(Note(2)).await.unwrap();
    }
}

#[tokio::test]
async fn join_12_a_a_missing_target_is_not_found() {
    within(async {
        let case = Try::new().await;
        let story = case.join(Plan::new(To::Wide("nowhere"), 1)).await;
        assert_eq!(story.last().unwrap(), "a completed nowhere 1 failed NotFound at S");
        case.assert_works("S").await;
        assert_eq!(case.world.node.metrics().joins_failed, 1);
    })
    .await;
}

#[tokio::test]
async fn join_12_b_a_target_of_another_type_is_a_type_mismatch() {
    within(async {
        let case = Try::new().await;
        case.world.wide("X", Manners::default()).await;
        let story = case.join(Plan::new(To::WrongType("X"), 1)).await;
        assert_eq!(story, ["a went", "a completed X 1 failed TypeMismatch at S"]);
        case.assert_works("S").await;
    })
    .await;
}

/// A PerActor Spot with room for one lifecycle record, taken by an admission that waits.
async fn full_target(case: &Try) -> (SpotRef<Tiny>, Signal) {
    let (admit, asked, decide) = Step::wait();
    let tiny = case.world.node.spot::<Tiny>("T").create_with(Tiny(admit)).await.unwrap();
    let b = case.world.mover("b").await;
    b.send(IntoTiny(Duration::from_secs(30))).await.unwrap();
    asked.wait().await;
    (tiny, decide)
}

struct Tiny(Step);
#[derive(Message)]
struct IntoTiny(#[message(no_heap)] Duration);

impl Spot for Tiny {
    type Mode = PerActor;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        if let Step::Wait(entered, go) = turn.0.clone() {
            entered.set();
            go.wait().await;
        }
        Ok(Admission::Accept)
    }
}
impl Handles<IntoTiny> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, message: IntoTiny) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Tiny>("T")).timeout(message.0);
        turn.defer(join).unwrap();
        Ok(())
    }
}

async fn try_with_tiny() -> Try {
    let lane = turnkeep::Lane { records: 1, bytes: 4096 };
    let world =
        World::with(2, |builder| builder.spot_with::<Tiny>("tiny", Options::new().lifecycle_lane(lane)))
            .await;
    let source = world.wide("S", Manners::default()).await;
    let a = world.mover_in("a", &source).await;
    Try { world, source, a }
}

#[tokio::test]
async fn join_12_c_no_room_until_the_deadline_is_capacity_exceeded() {
    within(async {
        let case = try_with_tiny().await;
        let (tiny, decide) = full_target(&case).await;
        case.a.send(IntoTiny(Duration::from_millis(30))).await.unwrap();
        case.a.ask(Note(1)).await.unwrap();
        let lines = case.world.log.take();
        assert!(lines.contains(&"a completed T 0 failed CapacityExceeded at S".to_owned()), "{lines:?}");
        assert_eq!(tiny.waiting(), (0, 0), "nothing is left in line");
        decide.set();
        case.world.node.quiesce().await.unwrap();
        assert_eq!(tiny.members(), ["b"]);
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_d_a_join_waits_for_room_until_there_is_some() {
    within(async {
        let case = try_with_tiny().await;
        let (tiny, decide) = full_target(&case).await;
        case.a.send(IntoTiny(Duration::from_secs(30))).await.unwrap();
        while tiny.waiting().1 == 0 {
            tokio::task::yield_now().await;
        }
        decide.set();
        case.world.node.quiesce().await.unwrap();
        assert_eq!(tiny.members().len(), 2);
        case.assert_works("T").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_e_an_admission_that_comes_after_the_deadline_changes_nothing() {
    within(async {
        let case = Try::new().await;
        let (admit, asked, decide) = Step::wait();
        let x = case.world.wide("X", Manners { admit, ..Manners::default() }).await;
        case.a.send(Go::plan(Plan::new(To::Wide("X"), 1).timeout(Duration::from_millis(30)))).await.unwrap();
        asked.wait().await;
        case.a.ask(Note(1)).await.unwrap();
        assert!(case.world.log.has("a completed X 1 failed DeadlineExceeded at S"));
        // The target accepts now: too late.
        decide.set();
        let story = case.world.story().await;
        assert!(!story.iter().any(|line| line.contains("joined") || line.contains("left")), "{story:?}");
        assert!(x.members().is_empty());
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_f_an_admission_that_fails_is_an_internal_failure_and_the_target_lives() {
    within(async {
        let case = Try::new().await;
        let x = case.world.wide("X", Manners { admit: Step::Fail, ..Manners::default() }).await;
        let story = case.join(Plan::new(To::Wide("X"), 1)).await;
        assert_eq!(story.last().unwrap(), "a completed X 1 failed InternalFailure at S");
        x.ask(Note(1)).await.unwrap();
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_g_an_admission_that_panics_is_an_internal_failure_and_stops_the_target() {
    within(async {
        let case = Try::new().await;
        let x = case.world.wide("X", Manners { admit: Step::Panic, ..Manners::default() }).await;
        let story = case.join(Plan::new(To::Wide("X"), 1)).await;
        assert_eq!(story.last().unwrap(), "a completed X 1 failed InternalFailure at S");
        assert!(x.ask(Note(1)).await.is_err());
        assert!(x.has_ended());
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_h_on_joined_that_fails_keeps_the_membership() {
    within(async {
        let case = Try::new().await;
        let x = case.world.wide("X", Manners { joined: Step::Fail, ..Manners::default() }).await;
        let story = case.join(Plan::new(To::Wide("X"), 1)).await;
        let wanted = [
            "a went",
            "X admits a 1",
            "X joined a",
            "S left a",
            "a completed X 1 failed InternalFailure at X",
        ];
        assert_eq!(story, wanted);
        assert_eq!(x.members(), ["a"]);
        assert!(case.source.members().is_empty());
        case.assert_works("X").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_i_on_joined_that_panics_stops_the_target_and_the_actor_goes_on_in_the_entry_spot() {
    within(async {
        let case = Try::new().await;
        case.world.wide("X", Manners { joined: Step::Panic, ..Manners::default() }).await;
        let story = case.join(Plan::new(To::Wide("X"), 1)).await;
        let entry = case.world.node.entry_id();
        assert!(story.contains(&"S left a".to_owned()), "the commit stands: {story:?}");
        assert!(story.iter().any(|line| line.starts_with("a completed X 1 failed InternalFailure")));
        case.assert_works(&entry).await;
    })
    .await;
}

#[tokio::test]
async fn join_12_j_on_leave_that_fails_or_panics_keeps_the_membership() {
    within(async {
        for (left, lives) in [(Step::Fail, true), (Step::Panic, false)] {
            let world = World::new(2).await;
            let source = world.wide("S", Manners { left, ..Manners::default() }).await;
            world.wide("X", Manners::default()).await;
            let a = world.mover_in("a", &source).await;
            a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
            assert_eq!(a.ask(Note(1)).await.unwrap().as_deref(), Some("X"));
            let story = world.story().await;
            assert!(story.contains(&"a completed X 1 failed InternalFailure at X".to_owned()), "{story:?}");
            assert_eq!(source.ask(Note(2)).await.is_ok(), lives);
        }
    })
    .await;
}

#[tokio::test]
async fn join_12_k_the_deadline_after_the_commit_keeps_the_membership() {
    within(async {
        let case = Try::new().await;
        let (joined, joining, go) = Step::wait();
        let x = case.world.single("X", Manners { joined, ..Manners::default() }).await;
        let plan = Plan::new(To::Single("X"), 1).timeout(Duration::from_millis(30));
        case.a.send(Go::plan(plan)).await.unwrap();
        joining.wait().await;
        case.world.node.io(tokio::time::sleep(Duration::from_millis(60))).await.unwrap();
        go.set();
        let story = case.world.story().await;
        assert_eq!(story.last().unwrap(), "a completed X 1 failed DeadlineExceeded at X");
        assert_eq!(x.members(), ["a"]);
        case.assert_works("X").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_l_a_target_that_closes_meanwhile_fails_the_join() {
    within(async {
        let case = Try::new().await;
        let x = case.world.wide("X", Manners::default()).await;
        let (hold, held, release) = Hold::new();
        x.send(hold).await.unwrap();
        held.wait().await;
        let closing = tokio::spawn(x.close());
        while x.queued().1 == 0 {
            tokio::task::yield_now().await;
        }
        case.a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        case.world.until_any("a went").await;
        release.set();
        closing.await.unwrap().unwrap();
        let story = case.world.story().await;
        let end =
            story.iter().find(|line| line.starts_with("a completed X 1 failed ")).expect("it completes");
        assert!(end.ends_with(" at S"), "{story:?}");
        assert!(end.contains("NotFound") || end.contains("ShuttingDown"), "{story:?}");
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_m_a_target_destroyed_during_the_decision_fails_the_join() {
    within(async {
        let case = Try::new().await;
        let (admit, asked, _never) = Step::wait();
        let x = case.world.wide("X", Manners { admit, ..Manners::default() }).await;
        case.a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        asked.wait().await;
        x.destroy().await.unwrap();
        let story = case.world.story().await;
        assert_eq!(story.last().unwrap(), "a completed X 1 failed NotFound at S");
        case.assert_works("S").await;
    })
    .await;
}

#[tokio::test]
async fn join_12_n_an_actor_destroyed_during_the_decision_is_in_neither_spot() {
    within(async {
        let case = Try::new().await;
        let (admit, asked, decide) = Step::wait();
        let x = case.world.wide("X", Manners { admit, ..Manners::default() }).await;
        case.a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        asked.wait().await;
        case.a.destroy().await.unwrap();
        assert_eq!(case.a.place(), None);
        decide.set();
        let story = case.world.story().await;
        assert!(!story.iter().any(|line| line.contains("joined") || line.contains("completed")), "{story:?}");
        assert_eq!(story.iter().filter(|line| *line == "S left a").count(), 1);
        assert!(x.members().is_empty() && case.source.members().is_empty());
        x.close().await.unwrap();
        case.source.close().await.unwrap();
    })
    .await;
}

/// The Actor is destroyed when its membership has changed already and it does not know yet: its resume is
/// queued behind a handler that keeps the source's gate.
#[tokio::test]
async fn join_6_d_both_spots_are_told_when_the_actor_is_destroyed_between_commit_and_leave() {
    within(async {
        let case = Try::new().await;
        let (admit, asked, decide) = Step::wait();
        let x = case.world.wide("X", Manners { admit, ..Manners::default() }).await;
        case.a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        asked.wait().await;
        let (hold, held, release) = Hold::new();
        case.source.send(hold).await.unwrap();
        held.wait().await;
        decide.set();
        case.world.until_any("X joined a").await;
        x.ask(Note(1)).await.unwrap();
        let destroyed = tokio::spawn(case.a.destroy());
        // The destruction has begun when its future has been polled.
        tokio::task::yield_now().await;
        release.set();
        destroyed.await.unwrap().unwrap();
        let story = case.world.story().await;
        let times = |line: &str| story.iter().filter(|other| *other == line).count();
        assert_eq!((times("X joined a"), times("X left a"), times("S left a")), (1, 1, 1), "{story:?}");
        assert!(x.members().is_empty() && case.source.members().is_empty());
    })
    .await;
}

/// Many Actors are destroyed while their Joins are being decided: none stays behind as a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_6_e_an_actor_destroyed_while_it_is_admitted_leaves_no_member_behind() {
    within(async {
        let world = World::new(2).await;
        let x = world.wide("X", Manners::default()).await;
        for round in 0..2000 {
            let a = world.mover(&format!("a{round}")).await;
            a.ask(Go::to(To::Wide("X"), 1)).await.unwrap();
            for _ in 0..round % 40 {
                std::hint::spin_loop();
            }
            a.destroy().await.unwrap();
        }
        world.node.quiesce().await.unwrap();
        assert_eq!(x.members(), Vec::<String>::new());
        let story = world.story().await;
        let count = |part: &str| story.iter().filter(|line| line.starts_with(part)).count();
        assert_eq!(count("X joined"), count("X left"), "who was told of the coming is told of the going");
        x.close().await.unwrap();
    })
    .await;
}

/// The second Join of a row is dropped because its Actor closes; what it had accepted is still handled.
#[tokio::test]
async fn join_11_h_a_closing_actor_whose_join_never_starts_handles_what_it_accepted() {
    within(async {
        let case = Try::new().await;
        let registrar = case.world.wide("R", Manners::default()).await;
        let (admit, asked, decide) = Step::wait();
        case.world.single("X", Manners { admit, ..Manners::default() }).await;
        let b = case.world.mover("b").await;
        let moves =
            vec![(case.a.clone(), Plan::new(To::Single("X"), 1)), (b.clone(), Plan::new(To::Single("X"), 2))];
        registrar.ask(MoveAll { moves }).await.unwrap();
        asked.wait().await;
        b.send(Note(1)).await.unwrap();
        let closing = tokio::spawn(b.close());
        // The close is seen: nothing more is accepted.
        while b.send(Note(2)).await.is_ok() {
            tokio::task::yield_now().await;
        }
        decide.set();
        let closed = tokio::time::timeout(Duration::from_secs(10), closing).await;
        closed.expect("the close does not hang").unwrap().unwrap();
        assert!(case.world.log.has_any("b note 1"));
    })
    .await;
}

#[tokio::test]
async fn join_12_o_a_completion_that_fails_is_reported_and_the_actor_goes_on() {
    within(async {
        let world = World::new(2).await;
        world.wide("X", Manners::default()).await;
        let mover = Mover { completion: Step::Fail, ..Mover::new(&world.log) };
        let a = world.node.actor::<Mover>("a").create_with(mover).await.unwrap();
        a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        assert_eq!(a.ask(Note(1)).await.unwrap().as_deref(), Some("X"));
        // One that panics stops the Actor, and only it.
        let mover = Mover { completion: Step::Panic, ..Mover::new(&world.log) };
        let b = world.node.actor::<Mover>("b").create_with(mover).await.unwrap();
        b.send(Go::to(To::Wide("X"), 1)).await.unwrap();
        let error = b.ask(Note(1)).await.unwrap_err();
        assert!(matches!(error.kind(), Some(ErrorKind::Unavailable | ErrorKind::NotFound)), "{error:?}");
        world.node.quiesce().await.unwrap();
        let x = world.node.spot::<Wide>("X").find().unwrap();
        assert_eq!(x.members(), ["a"]);
        x.ask(Note(2)).await.unwrap();
    })
    .await;
}
