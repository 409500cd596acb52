//! A full lane: refused at once or after a wait, never run at the caller, and without a trace (LANE-5).

use std::time::{Duration, Instant};

use turnkeep::ErrorKind;
use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Log, within};

/// Says on which thread it was handled, and how long its request may still take.
#[derive(Message)]
#[message(reply = Option<Duration>)]
struct Where {
    #[message(no_heap)]
    log: Log<Option<String>>,
    tag: u32,
}

impl Handles<Where> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, ask: Where) -> Result<Option<Duration>, Never> {
        ask.log.push(std::thread::current().name().map(str::to_owned));
        Ok(turn.time_left())
    }
}

const LANE: Lane = Lane { records: 2, ..Lane::APPLICATION };

/// A Spot whose gate is kept and whose application lane is full.
async fn full(stage: &Stage) -> (SpotRef<Wide>, Kept) {
    let wide = stage.wide("w").await;
    let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
    wide.try_send(line("fills")).unwrap();
    (wide, kept)
}

#[tokio::test]
async fn lane_5_a_a_record_for_a_full_lane_is_never_run_at_the_caller() {
    within(async {
        for workers in [1, 2] {
            let stage = Stage::with(workers, |builder| builder.application_lane(LANE)).await;
            let (wide, kept) = full(&stage).await;
            let log = Log::new();
            let asked = |tag| wide.ask(Where { log: log.clone(), tag });
            let (mut ask, mut other) = (asked(1), asked(2));
            assert!(wide.try_ask(Where { log: log.clone(), tag: 3 }).await.is_err());
            for _ in 0..20 {
                assert!(futures_util::poll!(&mut ask).is_pending());
                assert!(futures_util::poll!(&mut other).is_pending());
                stage.round_trip().await;
            }
            assert_eq!((log.len(), wide.waiting().0), (0, 2));
            kept.go.set();
            let (one, other) = futures_util::join!(ask, other);
            assert!(one.is_ok() && other.is_ok());
            let threads = log.take();
            assert_eq!(threads.len(), 2);
            for thread in threads {
                let name = thread.unwrap();
                assert!(name.starts_with("turnkeep-"), "{name} is not a worker");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn lane_5_b_send_and_ask_wait_for_room_until_their_deadline_and_give_the_message_back() {
    within(async {
        for workers in [1, 2] {
            let stage = Stage::with(workers, |builder| builder.application_lane(LANE)).await;
            let (wide, kept) = full(&stage).await;
            let timeout = Duration::from_millis(50);
            let start = Instant::now();
            let refused = wide.send(line("given back")).timeout(timeout).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::DeadlineExceeded);
            assert!(start.elapsed() >= timeout, "it waited");
            assert!(matches!(&refused.message.0[..], [Step::Note(text)] if text == "given back"));
            let start = Instant::now();
            let refused = wide.ask(Where { log: Log::new(), tag: 7 }).timeout(timeout).await.unwrap_err();
            assert_eq!(refused.kind(), Some(ErrorKind::DeadlineExceeded));
            assert!(start.elapsed() >= timeout, "it waited");
            assert_eq!(refused.into_message().unwrap().tag, 7);
            // Both were willing to wait long enough, so room that comes in time is taken.
            let waits = tokio::spawn(wide.send(line("in time")));
            until(|| wide.waiting().0 == 1).await;
            kept.go.set();
            waits.await.unwrap().unwrap();
            assert_eq!(stage.lines().await, ["fills", "in time"]);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_5_c_try_send_and_try_ask_fail_at_once_and_give_the_message_back() {
    within(async {
        let stage = Stage::with(1, |builder| builder.application_lane(LANE)).await;
        let (wide, kept) = full(&stage).await;
        let refused = wide.try_send(Where { log: Log::new(), tag: 8 }).unwrap_err();
        assert_eq!((refused.kind(), refused.message.tag), (ErrorKind::CapacityExceeded, 8));
        let mut ask = wide.try_ask(Where { log: Log::new(), tag: 9 });
        let std::task::Poll::Ready(answer) = futures_util::poll!(&mut ask) else {
            panic!("try_ask waits for room");
        };
        let refused = answer.unwrap_err();
        assert_eq!(refused.kind(), Some(ErrorKind::CapacityExceeded));
        assert_eq!(refused.into_message().unwrap().tag, 9);
        kept.go.set();
        stage.node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn lane_5_d_a_refused_attempt_changes_no_counter_and_no_order() {
    within(async {
        for workers in [1, 2, 8] {
            let lane = Lane { records: 4, ..Lane::APPLICATION };
            let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            for number in 0..3 {
                wide.try_send(line(format!("{number}"))).unwrap();
            }
            let look = || {
                let metrics = stage.node.metrics();
                (
                    (metrics.accepted, metrics.failed_sends),
                    wide.queued(),
                    wide.reserved_bytes(),
                    wide.waiting(),
                )
            };
            let before = look();
            for _ in 0..500 {
                assert!(wide.try_send(line("refused")).is_err());
                assert!(wide.try_ask(line("refused")).await.is_err());
            }
            assert_eq!(look(), before);
            let expired = wide.send(line("expired")).timeout(Duration::from_millis(5)).await;
            assert!(expired.is_err());
            assert_eq!(look(), before);
            let refused = stage.node.metrics().refused;
            assert!(refused >= 1000, "refusals are counted, as refusals: {refused}");
            kept.go.set();
            until(|| wide.queued().0 < 4).await;
            for number in 3..20 {
                wide.send(line(format!("{number}"))).await.unwrap();
            }
            assert_eq!(stage.lines().await, numbered("", 0..20));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_5_e_the_default_deadlines_are_5_seconds_to_send_and_join_and_30_to_ask() {
    within(async {
        assert_eq!(turnkeep::JOIN_TIMEOUT, Duration::from_secs(5));
        let lanes = |builder: turnkeep::Builder| {
            builder.application_lane(LANE).lifecycle_lane(Lane { records: 1, ..Lane::LIFECYCLE })
        };
        let stage = Stage::with(2, lanes).await;
        let free = stage.wide("free").await;
        let left = free.ask(Where { log: Log::new(), tag: 0 }).await.unwrap().unwrap();
        assert!(left <= Duration::from_secs(30) && left > Duration::from_secs(20), "{left:?}");
        let (wide, kept) = full(&stage).await;
        let start = Instant::now();
        let pawn = stage.pawn("g").await;
        pawn.send(JoinByDefault).await.unwrap();
        let refused = wide.send(line("waits")).await.unwrap_err();
        let waited = start.elapsed();
        assert_eq!(refused.kind(), ErrorKind::DeadlineExceeded);
        assert!(waited >= Duration::from_secs(5) && waited < Duration::from_secs(25), "{waited:?}");
        until(|| stage.cue.log.len() == 1).await;
        let waited = start.elapsed();
        assert_eq!(stage.cue.log.take(), ["failed DeadlineExceeded g"]);
        assert!(waited >= Duration::from_secs(5) && waited < Duration::from_secs(25), "{waited:?}");
        kept.go.set();
        stage.node.quiesce().await.unwrap();
        assert_eq!(pawn.place(), Some(stage.node.entry_id()));
    })
    .await;
}

/// Defers a Join with the default deadline.
#[derive(Message)]
struct JoinByDefault;

impl Handles<JoinByDefault> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, _: JoinByDefault) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Wide>("w"));
        turn.defer(join).unwrap();
        Ok(())
    }
}

#[tokio::test]
async fn lane_5_f_deadlines_are_settable_for_a_node_and_for_a_call() {
    within(async {
        let short = Duration::from_millis(40);
        let stage = Stage::with(2, |builder| {
            builder.application_lane(LANE).send_timeout(short).ask_timeout(2 * short)
        })
        .await;
        let (wide, kept) = full(&stage).await;
        let start = Instant::now();
        assert_eq!(wide.send(line("x")).await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert!(start.elapsed() >= short);
        let start = Instant::now();
        assert_eq!(wide.ask(line("x")).await.unwrap_err().kind(), Some(ErrorKind::DeadlineExceeded));
        assert!(start.elapsed() >= 2 * short);
        // A call's own timeout goes before the node's, longer or shorter.
        let long = tokio::spawn(wide.send(line("long")).timeout(Duration::from_secs(50)));
        let asks = tokio::spawn(wide.ask(line("asks")).timeout(Duration::from_secs(50)));
        until(|| wide.waiting().0 == 2).await;
        let start = Instant::now();
        let shorter = wide.ask(line("x")).timeout(Duration::from_millis(1)).await;
        assert_eq!(shorter.unwrap_err().kind(), Some(ErrorKind::DeadlineExceeded));
        // Longer than either of the node's: the two are still in line.
        while start.elapsed() < 3 * short {
            stage.round_trip().await;
        }
        assert_eq!(wide.waiting().0, 2);
        kept.go.set();
        long.await.unwrap().unwrap();
        asks.await.unwrap().unwrap();
        assert_eq!(stage.lines().await.len(), 3);
    })
    .await;
}
