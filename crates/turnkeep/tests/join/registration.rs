//! JOIN-1, JOIN-2, JOIN-5, JOIN-10: what registering a Join does, and what it does not.

use std::future::Future;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use turnkeep::prelude::*;
use turnkeep::{JOIN_TIMEOUT, Join};

use crate::support::{Signal, within};
use crate::world::*;

/// Whether a type is a future: the inherent constant wins over the trait's where the bound holds.
struct Asked<T>(PhantomData<T>);
trait Otherwise {
    const IS_FUTURE: bool = false;
    const IS_CALL: bool = false;
}
impl<T> Otherwise for Asked<T> {}
impl<T: Future> Asked<T> {
    const IS_FUTURE: bool = true;
}
impl<T: turnkeep::Call> Asked<T> {
    const IS_CALL: bool = true;
}

#[test]
fn join_1_a_join_itself_is_no_future_and_no_call() {
    const {
        assert!(Asked::<std::future::Ready<()>>::IS_FUTURE, "the question can be answered with yes");
        assert!(Asked::<turnkeep::Create<SpotRef<Wide>>>::IS_CALL);
        assert!(!Asked::<Join>::IS_FUTURE);
        assert!(!Asked::<Join>::IS_CALL);
    }
}

#[tokio::test]
async fn join_1_b_defer_to_a_missing_target_is_taken_and_fails_only_later() {
    within(async {
        let world = World::new(2).await;
        let a = world.mover("a").await;
        a.ask(Go::to(To::Wide("nowhere"), 7)).await.unwrap();
        let story = world.story().await;
        assert_eq!(story[0], "a went", "the handler ended before anything was found out");
        assert_eq!(
            story[1..],
            [format!("a completed nowhere 7 failed NotFound at {}", world.node.entry_id())]
        );
    })
    .await;
}

#[tokio::test]
async fn join_1_c_defer_keeps_gate_and_claim_while_competitors_queue() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let room = world.wide("X", Manners::default()).await;
            world.wide("Y", Manners::default()).await;
            let a = world.mover_in("a", &room).await;
            let (entered, go) = (Signal::new(), Signal::new());
            let end = End::Wait(entered.clone(), go.clone());
            a.send(Go::to(To::Wide("Y"), 1).end(end)).await.unwrap();
            entered.wait().await;
            room.send(Note(1)).await.unwrap();
            a.send(Note(2)).await.unwrap();
            // Another Spot's turns go by meanwhile; neither competitor starts.
            for _ in 0..50 {
                world.node.spot::<Wide>("Y").ask(Note(9)).await.unwrap();
            }
            assert!(!world.log.has("X note 1") && !world.log.has_any("a note"), "{:?}", world.log.lines());
            go.set();
            let mut story = world.story().await;
            story.retain(|line| line != "Y note 9");
            assert_eq!(story[0], "a went");
            assert!(story.contains(&"X note 1".to_owned()));
            assert_eq!(story.last().unwrap(), "a note 2 at Y");
        }
    })
    .await;
}

/// The target is asked often while the handler is not over: an admission that was queued too early would
/// have run before one of the answers.
async fn assert_not_asked(world: &World, target: &SpotRef<Wide>) {
    for _ in 0..50 {
        target.ask(Note(0)).await.unwrap();
    }
    assert!(!world.log.has_any("admits"), "{:?}", world.log.lines());
}

#[tokio::test]
async fn join_2_a_join_of_a_handler_that_waits_starts_after_its_end() {
    within(async {
        for workers in [1, 2] {
            let world = World::new(workers).await;
            let target = world.wide("X", Manners::default()).await;
            let a = world.mover("a").await;
            let (entered, go) = (Signal::new(), Signal::new());
            a.send(Go::to(To::Wide("X"), 1).end(End::Wait(entered.clone(), go.clone()))).await.unwrap();
            entered.wait().await;
            assert_not_asked(&world, &target).await;
            go.set();
            world.node.quiesce().await.unwrap();
            assert_eq!(a.place().as_deref(), Some("X"));
        }
    })
    .await;
}

#[tokio::test]
async fn join_2_b_join_registered_before_a_yield_starts_after_the_continuation() {
    within(async {
        let world = World::new(2).await;
        let source = world.wide("S", Manners::default()).await;
        let target = world.wide("X", Manners::default()).await;
        let a = world.mover_in("a", &source).await;
        let (entered, go) = (Signal::new(), Signal::new());
        a.send(Go::to(To::Wide("X"), 1).end(End::Yield(entered.clone(), go.clone()))).await.unwrap();
        entered.wait().await;
        // The gate is free: the source answers, and the Join has not begun.
        source.ask(Note(1)).await.unwrap();
        assert_not_asked(&world, &target).await;
        go.set();
        let story = world.story().await;
        let at = |line: &str| story.iter().position(|other| other == line).unwrap();
        assert!(at("a went") < at("X admits a 1"));
        assert_eq!(a.place().as_deref(), Some("X"));
    })
    .await;
}

/// Yields first and defers then.
#[derive(Message)]
struct YieldThenGo(#[message(no_heap)] Signal, #[message(no_heap)] Signal, #[message(no_heap)] Plan);

impl Handles<YieldThenGo> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, message: YieldThenGo) -> Result<(), Never> {
        let YieldThenGo(entered, go, plan) = message;
        let wait = turn.io(async move { go.wait().await });
        entered.set();
        let mut member = turn.within::<Wide>().unwrap();
        member.yielding(wait).await.unwrap();
        let join = join_of(turn, &plan);
        turn.defer(join).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn join_2_c_join_registered_after_a_yield_starts_too() {
    within(async {
        let world = World::new(2).await;
        let source = world.wide("S", Manners::default()).await;
        world.wide("X", Manners::default()).await;
        let a = world.mover_in("a", &source).await;
        let (entered, go) = (Signal::new(), Signal::new());
        a.send(YieldThenGo(entered.clone(), go.clone(), Plan::new(To::Wide("X"), 3))).await.unwrap();
        entered.wait().await;
        source.ask(Note(1)).await.unwrap();
        go.set();
        let story = world.story().await;
        assert_eq!(story[1..].last().unwrap(), "a completed X 3 accepted at X");
        assert_eq!(world.node.metrics().joins_accepted, 2, "the first was the creation's");
    })
    .await;
}

#[tokio::test]
async fn join_2_d_join_waits_for_the_encoding_of_the_reply() {
    within(async {
        let world = World::new(2).await;
        let target = world.wide("X", Manners::default()).await;
        let a = world.mover("a").await;
        let (entered, go) = (Signal::new(), Signal::new());
        let mut message = Go::to(To::Wide("X"), 1);
        message.reply = Some((entered.clone(), go.clone()));
        let asked = tokio::spawn(a.ask(message));
        entered.wait().await;
        // The handler's body is over, the reply is not encoded yet.
        assert!(world.log.has("a went"));
        assert_not_asked(&world, &target).await;
        go.set();
        asked.await.unwrap().unwrap();
        world.node.quiesce().await.unwrap();
        assert_eq!(a.place().as_deref(), Some("X"));
    })
    .await;
}

#[tokio::test]
async fn join_5_e_join_without_a_timeout_gives_up_after_five_seconds() {
    #[derive(Message)]
    struct Plain;
    impl Handles<Plain> for Mover {
        async fn handle(turn: &mut Turn<'_, Self>, _: Plain) -> Result<(), Never> {
            let join = turn.join(turn.spot::<Wide>("X"));
            turn.defer(join).unwrap();
            Ok(())
        }
    }
    assert_eq!(JOIN_TIMEOUT, Duration::from_secs(5));
    within(async {
        let world = World::new(2).await;
        let (admit, entered, go) = Step::wait();
        world.wide("X", Manners { admit, ..Manners::default() }).await;
        let a = world.mover("a").await;
        let begun = Instant::now();
        a.send(Plain).await.unwrap();
        entered.wait().await;
        a.ask(Note(1)).await.unwrap();
        let took = begun.elapsed();
        go.set();
        assert!(took >= Duration::from_millis(4900) && took < Duration::from_secs(20), "{took:?}");
        assert!(world.log.has_any("a completed X 0 failed DeadlineExceeded"));
    })
    .await;
}

/// Waits for an Actor whose Join the same handler has deferred, in every way there is.
#[derive(Message)]
#[message(reply = Vec<Option<ErrorKind>>)]
struct WaitForMoving(#[message(no_heap)] ActorRef<Mover>);

impl<M: turnkeep::Mode> Handles<WaitForMoving> for Room<M> {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        message: WaitForMoving,
    ) -> Result<Vec<Option<ErrorKind>>, Never> {
        let actor = message.0;
        let before = actor.ask(Note(1)).await.err().and_then(|error| error.kind());
        let join = actor.join(turn.spot::<Wide>("X"));
        turn.defer(join).unwrap();
        let by_ref = actor.ask(Note(2)).await.err().and_then(|error| error.kind());
        let by_id = turn.actor::<Mover>(actor.id()).ask(Note(3)).await.err().and_then(|error| error.kind());
        let yielding = turn.try_yielding(actor.ask(Note(4))).await.err().and_then(|error| error.kind());
        let close = actor.close().await.err().map(|error| error.kind());
        // Sending without waiting stays allowed.
        let send = actor.send(Note(5)).await.err().map(|error| error.kind());
        Ok(vec![before, by_ref, by_id, yielding, close, send])
    }
}

#[tokio::test]
async fn join_10_a_wait_on_an_actor_whose_join_the_handler_registered_is_refused() {
    within(async {
        let world = World::new(2).await;
        let other = world.wide("O", Manners::default()).await;
        world.wide("X", Manners::default()).await;
        let a = world.mover("a").await;
        let kinds = other.ask(WaitForMoving(a.clone())).await.unwrap();
        let refused = Some(ErrorKind::InvalidOperation);
        assert_eq!(kinds, [None, refused, refused, refused, refused, None]);
        let story = world.story().await;
        let entry = world.node.entry_id();
        assert_eq!(story[0], format!("a note 1 at {entry}"));
        // The send may have been handled before the handler's end, the asks never.
        assert_eq!(story.iter().filter(|line| line.starts_with("a note 5")).count(), 1);
        assert!(story.contains(&"a completed X 0 accepted at X".to_owned()));
        assert!(!story.iter().any(|line| ["note 2", "note 3", "note 4"].iter().any(|n| line.contains(n))));
    })
    .await;
}

#[tokio::test]
async fn join_10_b_another_handler_may_wait_for_an_actor_with_a_join_under_way() {
    within(async {
        let world = World::new(2).await;
        let (admit, entered, go) = Step::wait();
        world.single("X", Manners { admit, ..Manners::default() }).await;
        let a = world.mover("a").await;
        a.send(Go::to(To::Single("X"), 1)).await.unwrap();
        entered.wait().await;
        let asked = tokio::spawn(a.ask(Note(1)));
        go.set();
        assert_eq!(asked.await.unwrap().unwrap().as_deref(), Some("X"));
    })
    .await;
}
