//! The end of the node.

use std::time::{Duration, Instant};

use turnkeep::prelude::*;

use crate::stage::*;
use crate::support::{Log, Signal, within};

#[tokio::test]
async fn life_graceful_shutdown_finishes_everything_and_closes_spots_before_actors() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let log = Log::new();
            let wide = node.spot::<Wide>("W").create_with(Wide::logged(&log)).await.unwrap();
            let guest = node.actor::<Guest>("g").create_in(Guest::logged(&log), &wide).await.unwrap();
            node.quiesce().await.unwrap();
            log.take();
            let (hold, held, go) = Hold::new();
            let running = tokio::spawn(guest.ask(hold));
            held.wait().await;
            for n in 1..=3 {
                guest.send(Add(n)).await.unwrap();
            }
            let down = tokio::spawn(node.shutdown());
            // New work is refused from outside as soon as it has begun.
            while wide.try_send(Add(0)).is_ok() {
                tokio::task::yield_now().await;
            }
            assert_eq!(guest.ask(Add(9)).await.unwrap_err().kind(), Some(ErrorKind::ShuttingDown));
            assert_eq!(node.spot::<Wide>("V").create().await.unwrap_err().kind(), ErrorKind::ShuttingDown);
            go.set();
            running.await.unwrap().unwrap();
            let report = down.await.unwrap().unwrap();
            assert!(!report.forced);
            assert_eq!(report.cancelled, 0);
            let mut story = log.take();
            story.retain(|line| !line.starts_with("W add"));
            let wanted = [
                "g add 1 at W",
                "g add 2 at W",
                "g add 3 at W",
                "W closing Shutdown 1",
                "g closing Shutdown",
            ];
            assert_eq!(story, wanted, "on_closing while the member is still one");
            assert!(wide.has_ended() && guest.has_ended());
        }
    })
    .await;
}

/// Defers a Join and waits before it ends.
#[derive(Message)]
struct MoveLater(#[message(no_heap)] Signal, #[message(no_heap)] Signal);
impl Handles<MoveLater> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, later: MoveLater) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Wide>("W"));
        turn.defer(join).unwrap();
        // A turn may still call others while the node goes down.
        later.0.set();
        later.1.wait().await;
        turn.number = turn.spot::<Wide>("W").ask(Add(7)).await.unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn life_graceful_shutdown_lets_turns_call_and_deferred_joins_run() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let log = Log::new();
            node.spot::<Wide>("W").create_with(Wide::logged(&log)).await.unwrap();
            let guest = node.actor::<Guest>("g").create().await.unwrap();
            let (entered, go) = (Signal::new(), Signal::new());
            guest.send(MoveLater(entered.clone(), go.clone())).await.unwrap();
            entered.wait().await;
            let down = tokio::spawn(node.shutdown());
            while guest.try_send(Add(0)).is_ok() {
                tokio::task::yield_now().await;
            }
            go.set();
            assert!(!down.await.unwrap().unwrap().forced);
            let story = log.take();
            let wanted = ["W created", "W add 7", "W joined g", "W closing Shutdown 1"];
            assert_eq!(story[..4], wanted, "{story:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn life_forced_shutdown_cancels_waits_and_says_so() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let alive = Alive::default();
            let log = Log::new();
            let state = Wide { life: Some(alive.one()), ..Wide::logged(&log) };
            let wide = node.spot::<Wide>("W").create_with(state).await.unwrap();
            let guest = Guest { life: Some(alive.one()), ..Guest::logged(&log) };
            let guest = node.actor::<Guest>("g").create_with(guest).await.unwrap();
            let (hold, held, go) = Hold::new();
            let running = tokio::spawn(guest.ask(hold));
            let (hold, entered, never) = Hold::new();
            let resting = tokio::spawn(wide.ask(hold));
            held.wait().await;
            entered.wait().await;
            log.take();
            let begun = Instant::now();
            let report = node.shutdown_within(Duration::from_secs(4)).await.unwrap();
            assert!(report.forced);
            let named = |what: &str| report.unfinished.iter().any(|it| it.object.contains(what));
            assert!(named("Spot W") && named("Actor g"), "{report:?}");
            let took = begun.elapsed();
            assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(20), "{took:?}");
            assert_eq!(running.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
            assert_eq!(resting.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
            while alive.count() > 0 {
                tokio::task::yield_now().await;
            }
            assert_eq!(log.len(), 0, "no on_closing, and no handler went on");
            go.set();
            never.set();
        }
    })
    .await;
}

#[tokio::test]
async fn life_on_closing_that_does_not_end_is_cut_off_at_the_deadline() {
    within(async {
        let node = node(2).await;
        let (closing, entered, _go) = Step::wait();
        let state = Wide { closing, ..Wide::default() };
        node.spot::<Wide>("W").create_with(state).await.unwrap();
        let report = node.shutdown_within(Duration::from_secs(4)).await.unwrap();
        assert!(entered.is_set());
        assert!(report.forced, "{report:?}");
    })
    .await;
}

#[tokio::test]
async fn life_calls_after_the_shutdown_are_shutting_down() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("W").create().await.unwrap();
        let guest = node.actor::<Guest>("g").create().await.unwrap();
        assert!(!node.shutdown().await.unwrap().forced);
        let down = ErrorKind::ShuttingDown;
        assert_eq!(wide.ask(Add(1)).await.unwrap_err().kind(), Some(down));
        assert_eq!(wide.ask_blocking_elsewhere().await, Some(down));
        assert_eq!(guest.ask(Add(1)).await.unwrap_err().kind(), Some(down));
        assert_eq!(guest.send(Add(1)).await.unwrap_err().kind(), down);
        assert_eq!(guest.try_send(Add(1)).unwrap_err().kind(), down);
        assert_eq!(guest.try_ask(Add(1)).await.unwrap_err().kind(), Some(down));
        assert_eq!(node.spot::<Wide>("W").ask(Add(1)).await.unwrap_err().kind(), Some(down));
        assert_eq!(node.spot::<Cell>("C").ask(Add(1)).or_create().await.unwrap_err().kind(), Some(down));
        assert_eq!(node.spot::<Cell>("C").send(Add(1)).or_create().await.unwrap_err().kind(), down);
        assert_eq!(node.spot::<Wide>("V").create().await.unwrap_err().kind(), down);
        assert_eq!(node.spot::<Wide>("V").get_or_create().await.unwrap_err().kind(), down);
        assert_eq!(node.actor::<Guest>("h").create().await.unwrap_err().kind(), down);
        let error = node.actor::<Guest>("h").create_in(Guest::default(), &wide).await.unwrap_err();
        assert_eq!(error.kind(), down);
        assert_eq!(node.shutdown().await.unwrap_err().kind(), down);
        assert_eq!(node.shutdown_within(Duration::ZERO).await.unwrap_err().kind(), down);
        assert_eq!(node.spawn(async { 1 }).await.unwrap_err().kind(), down);
        assert!(wide.has_ended() && guest.has_ended());
        assert_eq!(guest.place(), None);
        // Looking on is no work: nothing is there any more.
        assert_eq!(node.spot::<Wide>("W").find().unwrap_err().kind(), ErrorKind::NotFound);
        node.quiesce().await.unwrap();
    })
    .await;
}

trait Elsewhere {
    async fn ask_blocking_elsewhere(&self) -> Option<ErrorKind>;
}
impl Elsewhere for SpotRef<Wide> {
    async fn ask_blocking_elsewhere(&self) -> Option<ErrorKind> {
        let spot = self.clone();
        tokio::task::spawn_blocking(move || spot.ask_blocking(Add(1)).unwrap_err().kind()).await.unwrap()
    }
}

#[tokio::test]
async fn life_a_second_node_in_the_process_is_not_touched() {
    within(async {
        let (one, two) = (node(1).await, node(1).await);
        let (a, b) =
            (one.spot::<Wide>("W").create().await.unwrap(), two.spot::<Wide>("W").create().await.unwrap());
        assert_eq!(a.ask(Add(1)).await.unwrap(), 1);
        assert!(!one.shutdown().await.unwrap().forced);
        assert_eq!(b.ask(Add(1)).await.unwrap(), 1);
        assert!(!two.shutdown().await.unwrap().forced);
    })
    .await;
}
