//! JOIN-3, JOIN-4, JOIN-6: when a Join is dropped, whom its outcome reaches, and the order of what is seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use turnkeep::prelude::*;

use crate::support::{Signal, within};
use crate::world::*;

/// An Actor in a Spot `S`, a target `X`, and a Join that must not happen.
struct Dropped {
    world: World,
    actor: ActorRef<Mover>,
    plan: Plan,
}

impl Dropped {
    async fn new() -> Self {
        let world = World::new(2).await;
        let source = world.wide("S", Manners::default()).await;
        world.wide("X", Manners::default()).await;
        let actor = world.mover_in("a", &source).await;
        Self { world, actor, plan: Plan::new(To::Wide("X"), 1) }
    }

    fn message(&self, end: End) -> Go {
        Go::all(vec![self.plan.clone(), self.plan.clone()]).end(end)
    }

    /// Nothing came of the Joins and what they carried is gone; a Join of the next handler works.
    async fn assert_dropped(&self, lives: bool) {
        let story = self.world.story().await;
        assert!(!story.iter().any(|line| line.contains("admits") || line.contains("completed")), "{story:?}");
        assert_eq!(self.plan.dropped.load(Ordering::SeqCst), 2, "what they carried is dropped, once each");
        let metrics = self.world.node.metrics();
        assert_eq!((metrics.joins_accepted, metrics.joins_rejected, metrics.joins_failed), (1, 0, 0));
        if lives {
            assert_eq!(self.actor.place().as_deref(), Some("S"));
            self.actor.ask(Go::to(To::Wide("X"), 9)).await.unwrap();
            self.world.node.quiesce().await.unwrap();
            assert_eq!(self.actor.place().as_deref(), Some("X"));
        }
    }
}

#[tokio::test]
async fn join_3_a_an_error_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let error = case.actor.ask(case.message(End::Error)).await.err().unwrap();
        assert_eq!(error.into_application(), Some(Told));
        case.assert_dropped(true).await;
        case.world.node.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn join_3_b_a_panic_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let error = case.actor.ask(case.message(End::Panic)).await.err().unwrap();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        case.assert_dropped(false).await;
    })
    .await;
}

#[tokio::test]
async fn join_3_c_destroy_during_an_ordinary_wait_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let (entered, go) = (Signal::new(), Signal::new());
        case.actor.send(case.message(End::Wait(entered.clone(), go.clone()))).await.unwrap();
        entered.wait().await;
        case.actor.destroy().await.unwrap();
        go.set();
        case.assert_dropped(false).await;
    })
    .await;
}

#[tokio::test]
async fn join_3_d_destroy_during_a_yield_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let (entered, go) = (Signal::new(), Signal::new());
        case.actor.send(case.message(End::Yield(entered.clone(), go.clone()))).await.unwrap();
        entered.wait().await;
        case.actor.destroy().await.unwrap();
        go.set();
        case.assert_dropped(false).await;
    })
    .await;
}

#[tokio::test]
async fn join_3_e_a_reply_that_cannot_be_encoded_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let error = case.actor.ask(case.message(End::BadReply)).await.err().unwrap();
        assert_eq!(error.kind(), Some(ErrorKind::ProtocolError));
        case.assert_dropped(true).await;
        // A send's reply is checked all the same.
        let plan = Plan::new(To::Wide("S"), 1);
        case.actor.send(Go::plan(plan.clone()).end(End::BadReply)).await.unwrap();
        case.world.node.quiesce().await.unwrap();
        assert_eq!(case.actor.place().as_deref(), Some("X"));
        assert_eq!(plan.dropped.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test]
async fn join_3_f_a_check_of_the_reply_that_panics_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let error = case.actor.ask(case.message(End::BadReplyPanics)).await.err().unwrap();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        case.assert_dropped(false).await;
    })
    .await;
}

#[tokio::test]
async fn join_3_g_a_forced_shutdown_drops_every_join() {
    within(async {
        let case = Dropped::new().await;
        let (entered, go) = (Signal::new(), Signal::new());
        case.actor.send(case.message(End::Wait(entered.clone(), go.clone()))).await.unwrap();
        entered.wait().await;
        let report = case.world.node.shutdown_within(Duration::from_millis(50)).await.unwrap();
        assert!(report.forced);
        go.set();
        case.assert_dropped(false).await;
    })
    .await;
}

#[tokio::test]
async fn join_3_h_a_reply_that_cannot_be_delivered_drops_no_join() {
    within(async {
        let case = Dropped::new().await;
        let (entered, go) = (Signal::new(), Signal::new());
        let asked = case.actor.ask(Go::to(To::Wide("X"), 1).end(End::Wait(entered.clone(), go.clone())));
        let asked = tokio::spawn(asked.timeout(Duration::from_millis(20)));
        entered.wait().await;
        let error = asked.await.unwrap().err().unwrap();
        assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
        go.set();
        case.world.node.quiesce().await.unwrap();
        assert_eq!(case.actor.place().as_deref(), Some("X"));
        // And one whose caller is gone.
        let (entered, go) = (Signal::new(), Signal::new());
        let asked = tokio::spawn(
            case.actor.ask(Go::to(To::Wide("S"), 1).end(End::Wait(entered.clone(), go.clone()))),
        );
        entered.wait().await;
        asked.abort();
        assert!(asked.await.is_err());
        go.set();
        case.world.node.quiesce().await.unwrap();
        assert_eq!(case.actor.place().as_deref(), Some("S"));
    })
    .await;
}

/// Three messages queued behind a Join whose target decides in some way.
async fn outcome(workers: usize, manners: Manners) -> (Vec<String>, String) {
    let world = World::new(workers).await;
    let source = world.wide("S", Manners::default()).await;
    world.wide("X", manners).await;
    let a = world.mover_in("a", &source).await;
    let (entered, go) = (Signal::new(), Signal::new());
    a.send(Go::to(To::Wide("X"), 5).end(End::Wait(entered.clone(), go.clone()))).await.unwrap();
    entered.wait().await;
    for n in 1..=3 {
        a.send(Note(n)).await.unwrap();
    }
    go.set();
    let mut story = world.story().await;
    story.retain(|line| line.starts_with("a "));
    (story, a.place().unwrap())
}

#[tokio::test]
async fn join_4_a_accepted_reaches_the_actor_before_what_was_queued() {
    within(async {
        for workers in [1, 2] {
            let (story, place) = outcome(workers, Manners::default()).await;
            let wanted = [
                "a went",
                "a completed X 5 accepted at X",
                "a note 1 at X",
                "a note 2 at X",
                "a note 3 at X",
            ];
            assert_eq!((story, place.as_str()), (wanted.map(str::to_owned).to_vec(), "X"));
        }
    })
    .await;
}

#[tokio::test]
async fn join_4_b_rejected_reaches_the_actor_with_its_reply() {
    within(async {
        for (reply, text) in [(None, "rejected"), (Some(77), "rejected 77")] {
            let (story, place) = outcome(2, Manners { reject: Some(reply), ..Manners::default() }).await;
            assert_eq!(story[1], format!("a completed X 5 {text} at S"));
            assert_eq!(story[2..], ["a note 1 at S", "a note 2 at S", "a note 3 at S"]);
            assert_eq!(place, "S");
        }
    })
    .await;
}

#[tokio::test]
async fn join_4_c_failed_reaches_the_actor_with_its_kind() {
    within(async {
        let (story, place) = outcome(2, Manners { admit: Step::Fail, ..Manners::default() }).await;
        assert_eq!(story[1], "a completed X 5 failed InternalFailure at S");
        assert_eq!(story[2..], ["a note 1 at S", "a note 2 at S", "a note 3 at S"]);
        assert_eq!(place, "S");
    })
    .await;
}

#[tokio::test]
async fn join_4_d_the_outcome_of_a_join_another_object_registered_reaches_the_moved_actor() {
    within(async {
        let world = World::new(2).await;
        let other = world.wide("O", Manners::default()).await;
        let (admit, entered, go) = Step::wait();
        world.wide("X", Manners { admit, ..Manners::default() }).await;
        let a = world.mover("a").await;
        let moves = vec![(a.clone(), Plan::new(To::Wide("X"), 8))];
        // The handler that registers is answered while the Join is far from over.
        other.ask(MoveAll { moves }).await.unwrap();
        entered.wait().await;
        other.ask(Note(1)).await.unwrap();
        go.set();
        let story = world.story().await;
        let wanted =
            ["O deferred", "X admits a 8", "O note 1", "X joined a", "a completed X 8 accepted at X"];
        let mut sorted = story.clone();
        sorted.sort_unstable();
        let mut all = wanted.map(str::to_owned).to_vec();
        all.sort_unstable();
        assert_eq!(sorted, all, "each once, and nothing else: {story:?}");
        assert_eq!(story.last().unwrap(), "a completed X 8 accepted at X");
    })
    .await;
}

/// What a thread that only looks has seen.
#[derive(Default)]
struct Seen {
    looks: AtomicU64,
    stop: AtomicBool,
}

/// Looks at the Actor's place and both member lists as fast as it can. The Actor moves once, so if its place
/// is the same before and after the look at the lists, it was there all the time.
fn watch(
    seen: &Seen,
    actor: &ActorRef<Mover>,
    source: &SpotRef<Wide>,
    target: &SpotRef<Wide>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    while !seen.stop.load(Ordering::SeqCst) {
        let before = actor.place();
        let has = |spot: &SpotRef<Wide>| spot.members().iter().filter(|id| *id == "a").count();
        let (in_target, in_source) = (has(target), has(source));
        let after = actor.place();
        let wanted = match (before.as_deref(), after.as_deref()) {
            (Some("S"), Some("S")) => Some((0, 1)),
            (Some("X"), Some("X")) => Some((1, 0)),
            (Some("S"), Some("X")) => None,
            _ => Some((9, 9)),
        };
        if wanted.is_some_and(|wanted| wanted != (in_target, in_source)) {
            wrong.push(format!("{before:?} {after:?} target {in_target} source {in_source}"));
        }
        seen.looks.fetch_add(1, Ordering::SeqCst);
    }
    wrong
}

impl Seen {
    /// Lets the watcher look often before the scenario goes on.
    async fn look(&self, times: u64) {
        let until = self.looks.load(Ordering::SeqCst) + times;
        while self.looks.load(Ordering::SeqCst) < until {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn join_6_a_no_look_up_ever_shows_the_actor_in_two_spots_or_in_none() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let (left, leaving, may_leave) = Step::wait();
            let (admit, asked, may_decide) = Step::wait();
            let (joined, joining, may_join) = Step::wait();
            let source = world.wide("S", Manners { left, ..Manners::default() }).await;
            let target = world.wide("X", Manners { admit, joined, ..Manners::default() }).await;
            let a = world.mover_in("a", &source).await;
            let seen = Arc::new(Seen::default());
            let watcher = {
                let (seen, a, source, target) = (seen.clone(), a.clone(), source.clone(), target.clone());
                std::thread::spawn(move || watch(&seen, &a, &source, &target))
            };
            seen.look(100).await;
            a.send(Go::to(To::Wide("X"), 1)).await.unwrap();
            asked.wait().await;
            seen.look(100).await;
            assert_eq!(a.place().as_deref(), Some("S"), "not before the decision");
            may_decide.set();
            joining.wait().await;
            seen.look(100).await;
            assert_eq!(a.place().as_deref(), Some("X"), "committed before on_joined_actor");
            may_join.set();
            leaving.wait().await;
            seen.look(100).await;
            assert!(!world.log.has_any("a completed"));
            may_leave.set();
            world.node.quiesce().await.unwrap();
            seen.look(100).await;
            seen.stop.store(true, Ordering::SeqCst);
            let wrong = watcher.join().unwrap();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn join_6_b_callbacks_come_in_order_and_once_each() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let source = world.wide("S", Manners::default()).await;
            world.wide("X", Manners::default()).await;
            let a = world.mover_in("a", &source).await;
            let other = world.mover_in("b", &source).await;
            for round in 0..50 {
                let (to, from) = if round % 2 == 0 { ("X", "S") } else { ("S", "X") };
                // A member that goes the same way competes for both gates.
                other.send(Go::to(To::Wide(to), 2)).await.unwrap();
                a.send(Go::to(To::Wide(to), round)).await.unwrap();
                let mut story = world.story().await;
                story.retain(|line| line.split(' ').any(|word| word == "a"));
                let wanted = [
                    "a went".to_owned(),
                    format!("{to} admits a {round}"),
                    format!("{to} joined a"),
                    format!("{from} left a"),
                    format!("a completed {to} {round} accepted at {to}"),
                ];
                assert_eq!(story, wanted);
            }
        }
    })
    .await;
}

/// Looks from inside the callbacks: who is a member when.
#[derive(Default)]
struct Mirror(Vec<(&'static str, Vec<String>, Option<String>)>);

#[derive(Message)]
#[message(reply = Vec<(&'static str, Vec<String>, Option<String>)>)]
struct Look;

impl Mirror {
    fn look(turn: &mut Lifecycle<'_, Self>, when: &'static str, actor: &str) {
        let mut members = turn.this_spot().members();
        members.sort_unstable();
        let place = turn.actor::<Mover>(actor).find().ok().and_then(|actor| actor.place());
        turn.0.push((when, members, place));
    }
}

impl Spot for Mirror {
    type Mode = PerActor;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        Self::look(turn, "admit", joining.actor().id());
        Ok(Admission::Accept)
    }
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        Self::look(turn, "joined", actor.id());
        Ok(())
    }
    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        Self::look(turn, "left", actor.id());
        Ok(())
    }
}

impl Handles<Look> for Mirror {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        _: Look,
    ) -> Result<Vec<(&'static str, Vec<String>, Option<String>)>, Never> {
        Ok(turn.0.clone())
    }
}

#[derive(Message)]
struct IntoMirror;

impl Handles<IntoMirror> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, _: IntoMirror) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Mirror>("M"));
        turn.defer(join).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn join_6_c_callbacks_see_the_membership_of_their_moment() {
    within(async {
        let world = World::with(2, |builder| builder.spot::<Mirror>("mirror")).await;
        let mirror = world.node.spot::<Mirror>("M").create().await.unwrap();
        let a = world.mover("a").await;
        a.send(IntoMirror).await.unwrap();
        a.send(Go::to(world.lobby(), 1)).await.unwrap();
        world.node.quiesce().await.unwrap();
        let entry = Some(world.node.entry_id());
        let inside = vec!["a".to_owned()];
        let wanted = [
            ("admit", vec![], entry.clone()),
            ("joined", inside, Some("M".to_owned())),
            ("left", vec![], entry),
        ];
        assert_eq!(mirror.ask(Look).await.unwrap(), wanted);
    })
    .await;
}
