//! STOP-1: a shutdown ends within its time, whatever the objects do, and says what it left.

use std::time::{Duration, Instant};

use turnkeep::ClosingReason;
use turnkeep::prelude::*;

use crate::support::{Log, Signal, within};
use crate::world::*;

const SHORT: Duration = Duration::from_millis(160);
/// Its last eighth, in which objects close, is long beside what a busy machine takes for that.
const ROOMY: Duration = Duration::from_secs(4);
/// Far beyond any of the times here, far below a hang.
const GENEROUS: Duration = Duration::from_secs(20);

#[tokio::test]
async fn stop_1_a_on_closing_gets_reason_and_deadline_and_its_calls_inherit_it() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let log = Log::new();
            let state = Closer { log: log.clone() };
            let node_two = Node::builder().workers(workers).spot_with("closer", Options::<Closer>::new());
            let other = node_two.start().await.unwrap();
            let spot = other.spot::<Closer>("s").create_with(state.clone()).await.unwrap();
            spot.close().await.unwrap();
            let asked = other.spot::<Closer>("t").create_with(state.clone()).await.unwrap();
            asked.request_close().unwrap();
            asked.watch().await.unwrap();
            other.spot::<Closer>("u").create_with(state).await.unwrap();
            other.shutdown_within(Duration::from_secs(10)).await.unwrap();
            let told = log.take();
            let reasons: Vec<_> = told.iter().map(|(reason, _)| *reason).collect();
            let requested = ClosingReason::Requested;
            assert_eq!(reasons, [requested, requested, ClosingReason::Shutdown]);
            assert!(told[0].1.unwrap() <= Duration::from_secs(30));
            assert_eq!(told[1].1, None, "nobody waits");
            assert!(told[2].1.unwrap() <= Duration::from_secs(10));
            drop(node);
        }
    })
    .await;
}

#[derive(Clone)]
struct Closer {
    log: Log<(ClosingReason, Option<Duration>)>,
}
impl Spot for Closer {
    type Mode = SpotWide;
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, closing: Closing) -> Result<(), Failure> {
        assert_eq!(closing.deadline().is_some(), closing.time_left().is_some());
        turn.log.push((closing.reason(), closing.time_left()));
        Ok(())
    }
}

#[tokio::test]
async fn stop_1_b_an_ordinary_wait_that_never_ends_is_named_and_keeps_nobody_else_from_closing() {
    within(async {
        for workers in [1, 2] {
            let node = world(workers).await;
            let log = Log::new();
            let closed = || life!(Room, [log], |turn| log.push(turn.id().to_owned()));
            for id in ["one", "two"] {
                let state = Room { on_closing: closed(), ..Room::default() };
                node.spot::<Room>(id).create_with(state).await.unwrap();
            }
            let state = Player {
                on_closing: life!(Player, [log], |turn| log.push(turn.id().to_owned())),
                ..Player::default()
            };
            node.actor::<Player>("p").create_with(state).await.unwrap();
            let stuck = room(&node, "stuck").await;
            let never = hold(&stuck).await;
            let waits = tokio::spawn(stuck.ask(act!(Room, [], |_turn| ())));
            let begun = Instant::now();
            let report = node.shutdown_within(ROOMY).await.unwrap();
            assert!(begun.elapsed() < GENEROUS);
            assert!(report.forced);
            assert_eq!(report.cancelled, 1, "{report:?}");
            assert!(report.unfinished[0].object.contains("Spot stuck"), "{report:?}");
            assert!(report.unfinished[0].doing.contains("1 handlers waiting"), "{report:?}");
            waits.await.unwrap().unwrap_err();
            let mut closed = log.take();
            closed.sort();
            assert_eq!(closed, ["one", "p", "two"]);
            never.set();
        }
    })
    .await;
}

#[tokio::test]
async fn stop_1_c_work_that_never_gives_its_thread_back_does_not_keep_a_shutdown() {
    within(async {
        let node = world(2).await;
        let busy = room(&node, "busy").await;
        let (entered, go) = (Signal::new(), Signal::new());
        busy.send(act!(Room, [entered, go], |_turn| {
            entered.set();
            go.wait_blocking();
        }))
        .await
        .unwrap();
        entered.wait().await;
        let (in_task, end_task) = (Signal::new(), Signal::new());
        let (inside, blocked) = (in_task.clone(), end_task.clone());
        let task = node.spawn(async move {
            inside.set();
            blocked.wait_blocking();
        });
        in_task.wait().await;
        let begun = Instant::now();
        let first = tokio::spawn(node.shutdown_within(SHORT));
        let down = |refused: Result<(), turnkeep::SendError<_>>| {
            refused.is_err_and(|e| e.kind() == ErrorKind::ShuttingDown)
        };
        while !down(busy.try_send(act!(Room, [], |_turn| ()))) {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.shutdown().await.unwrap_err().kind(), ErrorKind::ShuttingDown, "at once");
        let report = first.await.unwrap().unwrap();
        assert!(begun.elapsed() < GENEROUS);
        assert!(report.forced);
        let named: Vec<_> = report.unfinished.iter().map(ToString::to_string).collect();
        assert!(named.iter().any(|line| line.contains("Spot busy")), "{named:?}");
        assert!(named.iter().any(|line| line.contains("task")), "{named:?}");
        go.set();
        end_task.set();
        let _ = task.await;
    })
    .await;
}

#[tokio::test]
async fn stop_1_d_the_report_names_a_few_of_many() {
    within(async {
        let node = world(2).await;
        let mut held = Vec::new();
        for n in 0..40 {
            held.push(hold(&room(&node, &format!("r{n}")).await).await);
        }
        let report = node.shutdown_within(ROOMY).await.unwrap();
        assert_eq!((report.cancelled, report.unfinished.len()), (40, 16));
        held.iter().for_each(Signal::set);
    })
    .await;
}

/// Its destructor takes a while.
struct Slow(Signal);
impl Drop for Slow {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(20));
        self.0.set();
    }
}

#[tokio::test]
async fn stop_1_e_a_slow_destructor_is_waited_for() {
    within(async {
        let node = world(1).await;
        let dropped = Signal::new();
        let slow = Slow(dropped.clone());
        let state = Room {
            on_closing: crate::world::life::<Room>(move |_| {
                Box::pin(async move {
                    drop(slow);
                    Ok(())
                })
            }),
            ..Room::default()
        };
        node.spot::<Room>("r").create_with(state).await.unwrap();
        assert!(!node.shutdown_within(Duration::from_secs(10)).await.unwrap().forced);
        assert!(dropped.is_set());
    })
    .await;
}
