//! A reservation is kept while its record waits, runs and yields, and comes back exactly once (LANE-3).

use turnkeep::ErrorKind;
use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Signal, within};

/// Ends with an error of its own.
#[derive(Message)]
#[message(reply = (), error = String)]
struct Fails;

impl Handles<Fails> for Wide {
    async fn handle(_: &mut Turn<'_, Self>, _: Fails) -> Result<(), String> {
        pause().await;
        Err("no".to_owned())
    }
}

const ONE: u64 = size_of::<Play>() as u64 + 256;

/// Nothing is reserved, and the lane takes exactly as many as its limit says.
async fn is_whole(stage: &Stage, wide: &SpotRef<Wide>, records: u32) {
    stage.node.quiesce().await.unwrap();
    assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
    let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
    for _ in 1..records {
        wide.try_send(line("fits")).unwrap();
    }
    assert!(wide.try_send(line("too many")).is_err());
    assert_eq!(wide.queued().0, records);
    kept.go.set();
    stage.node.quiesce().await.unwrap();
    assert_eq!((wide.queued(), wide.reserved_bytes()), ((0, 0), (0, 0)));
}

const LIMIT: u32 = 3;

async fn narrow(workers: usize) -> (Stage, SpotRef<Wide>) {
    let lane = Lane { records: LIMIT, ..Lane::APPLICATION };
    let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
    let wide = stage.wide("w").await;
    (stage, wide)
}

#[tokio::test]
async fn lane_3_a_a_reservation_is_kept_while_the_record_waits_and_while_it_runs() {
    within(async {
        let (stage, wide) = narrow(2).await;
        let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
        assert_eq!((wide.queued().0, wide.reserved_bytes().0), (1, ONE), "it runs and waits");
        let (started, go) = (Signal::new(), Signal::new());
        let steps = vec![Step::Set(started.clone()), Step::Block(go.clone())];
        wide.send(Play(steps)).await.unwrap();
        assert_eq!((wide.queued().0, wide.reserved_bytes().0), (2, 2 * ONE));
        kept.go.set();
        started.wait().await;
        assert_eq!((wide.queued().0, wide.reserved_bytes().0), (1, ONE), "it runs and blocks");
        go.set();
        is_whole(&stage, &wide, LIMIT).await;
    })
    .await;
}

#[tokio::test]
async fn lane_3_b_a_yield_keeps_its_reservation_and_a_lane_of_yields_is_full() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = narrow(workers).await;
            let (started, resume) = (Signal::new(), Signal::new());
            let mut asks = Vec::new();
            for number in 1..=LIMIT {
                let steps = vec![
                    note(format!("yields {number}")),
                    Step::Yield(resume.clone()),
                    Step::Set(started.clone()),
                    Step::Yield(resume.clone()),
                ];
                asks.push(tokio::spawn(wide.ask(Play(steps))));
                until(|| stage.cue.log.len() == number as usize).await;
            }
            stage.round_trip().await;
            assert_eq!((wide.queued().0, wide.reserved_bytes().0), (LIMIT, u64::from(LIMIT) * ONE));
            let refused = wide.try_send(line("no room")).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
            assert!(!started.is_set());
            resume.set();
            for ask in asks {
                ask.await.unwrap().unwrap();
            }
            is_whole(&stage, &wide, LIMIT).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lane_3_c_a_reservation_comes_back_once_after_errors_dropped_callers_and_cancelled_sends() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = narrow(workers).await;
            for _ in 0..30 {
                // The handler's own error.
                assert!(wide.ask(Fails).await.unwrap_err().into_application().is_some());
                wide.send(Fails).await.unwrap();
                // A caller that goes while its request runs.
                let (started, go) = (Signal::new(), Signal::new());
                let steps = vec![Step::Set(started.clone()), Step::Wait(go.clone())];
                let ask = tokio::spawn(wide.ask(Play(steps)));
                started.wait().await;
                ask.abort();
                assert!(ask.await.unwrap_err().is_cancelled());
                assert_eq!(wide.queued().0, 1, "the handler goes on without its caller");
                // A caller that goes while its request is queued, and a send that goes while it waits.
                let ask = tokio::spawn(wide.ask(line("queued")));
                until(|| wide.queued().0 == 2).await;
                ask.abort();
                wide.send(line("fills")).await.unwrap();
                let send = tokio::spawn(wide.send(line("cancelled")));
                until(|| wide.waiting().0 == 1).await;
                send.abort();
                let _ = send.await;
                assert_eq!((wide.queued().0, wide.waiting().0), (LIMIT, 0));
                go.set();
                assert_eq!(stage.lines().await, ["queued", "fills"]);
            }
            is_whole(&stage, &wide, LIMIT).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lane_3_d_a_members_reservation_is_its_own_and_a_panic_or_a_cancellation_gives_it_back() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = narrow(workers).await;
            for cancel in [false, true] {
                let member = stage.member(&format!("m{cancel}"), "w").await;
                let (started, never) = (Signal::new(), Signal::new());
                let end = if cancel { Step::Wait(never) } else { Step::Panic };
                let first = Play(vec![Step::Set(started.clone()), Step::Pause, end]);
                let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
                let asks = [first, line("never"), line("never")].map(|play| tokio::spawn(member.ask(play)));
                until(|| member.queued().0 == 3).await;
                assert_eq!((wide.queued().0, member.reserved_bytes().0), (1, 3 * ONE));
                kept.go.set();
                if cancel {
                    started.wait().await;
                    member.destroy().await.unwrap();
                }
                for ask in asks {
                    assert!(ask.await.unwrap().is_err());
                }
                stage.node.quiesce().await.unwrap();
                assert!(member.has_ended());
                assert_eq!((member.queued(), member.reserved_bytes()), ((0, 0), (0, 0)));
            }
            is_whole(&stage, &wide, LIMIT).await;
        }
    })
    .await;
}

#[tokio::test]
async fn lane_3_e_a_panic_of_a_spots_handler_gives_all_of_its_reservations_back() {
    within(async {
        for workers in [1, 2, 8] {
            let (stage, wide) = narrow(workers).await;
            let never = Signal::new();
            let yields = tokio::spawn(wide.ask(Play(vec![note("yields"), Step::Yield(never)])));
            until(|| stage.cue.log.len() == 1).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            let panics = tokio::spawn(wide.ask(Play(vec![Step::Panic])));
            until(|| wide.queued().0 == 3).await;
            let waits = tokio::spawn(wide.ask(line("waits")));
            until(|| wide.waiting().0 == 1).await;
            kept.go.set();
            for ask in [yields, panics] {
                assert!(ask.await.unwrap().is_err());
            }
            // Room came back before the panic or with it: handled, or refused, never left.
            let _ = waits.await.unwrap();
            stage.node.quiesce().await.unwrap();
            assert!(wide.has_ended());
            assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_3_f_with_its_reply_a_caller_has_the_room_of_its_request_back() {
    within(async {
        for workers in [1, 2, 8] {
            let lane = Lane { records: 1, ..Lane::APPLICATION };
            let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
            let wide = stage.wide("w").await;
            for round in 0..2000 {
                let answer = wide.try_ask(Play(Vec::new())).await;
                assert!(answer.is_ok(), "{workers} workers, round {round}: {answer:?}");
            }
        }
    })
    .await;
}
