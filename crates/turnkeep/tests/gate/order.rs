//! Whose queue a payload is in, in which order records start, and on which worker (GATE-2, GATE-8, GATE-13).

use std::sync::{Arc, Mutex};

use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Log, Signal, within};

#[tokio::test]
async fn gate_2_payloads_for_an_actor_stand_in_the_actors_own_queue_in_every_mode() {
    within(async {
        let stage = Stage::new(2).await;
        let (wide, per, lobby) = (stage.wide("w").await, stage.per("p").await, stage.lobby());
        for place in ["w", "p", "entry"] {
            let pawn = match place {
                "entry" => stage.pawn("in entry").await,
                place => stage.member(&format!("in {place}"), place).await,
            };
            let kept = match place {
                "w" => keep(|play| async { wide.send(play).await.unwrap() }).await,
                _ => keep(|play| async { pawn.send(play).await.unwrap() }).await,
            };
            let before = (pawn.queued().0, wide.queued(), per.queued(), lobby.queued());
            for _ in 0..100 {
                pawn.send(line("x")).await.unwrap();
            }
            assert_eq!(pawn.queued().0, before.0 + 100, "{place}");
            assert_eq!((wide.queued(), per.queued(), lobby.queued()), (before.1, before.2, before.3));
            kept.go.set();
            stage.node.quiesce().await.unwrap();
            assert_eq!(pawn.queued(), (0, 0));
        }
    })
    .await;
}

#[tokio::test]
async fn gate_2_a_members_remaining_work_is_taken_out_by_actor_and_no_one_elses_with_it() {
    within(async {
        for workers in [1, 2] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let (out, stays) = (stage.member("out", "w").await, stage.member("stays", "w").await);
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            let mut asks = Vec::new();
            for number in 0..50 {
                asks.push(tokio::spawn(out.ask(line("taken out"))));
                stays.send(line(format!("stays {number}"))).await.unwrap();
                wide.send(line(format!("spot {number}"))).await.unwrap();
            }
            until(|| out.queued().0 == 50).await;
            let mut destroyed = Box::pin(out.destroy());
            assert!(futures_util::poll!(&mut destroyed).is_pending());
            kept.go.set();
            let lines = stage.lines().await;
            destroyed.await.unwrap();
            for ask in asks {
                assert!(ask.await.unwrap().is_err(), "what was queued for the Actor was taken out");
            }
            assert!(!lines.contains(&"taken out".to_owned()));
            let of = |what: &str| -> Vec<String> {
                lines.iter().filter(|entry| entry.starts_with(what)).cloned().collect()
            };
            assert_eq!(of("stays"), numbered("stays ", 0..50));
            assert_eq!(of("spot"), numbered("spot ", 0..50));
        }
    })
    .await;
}

/// Numbers records under a lock with their acceptance, so that the order of acceptance is known.
fn accept_in_known_order(
    threads: usize,
    each: usize,
    try_send: impl Fn(Play) -> Result<(), Play> + Send + Sync + 'static,
) {
    let (try_send, next) = (Arc::new(try_send), Arc::new(Mutex::new(0)));
    let senders: Vec<_> = (0..threads)
        .map(|_| {
            let (try_send, next) = (try_send.clone(), next.clone());
            std::thread::spawn(move || {
                for _ in 0..each {
                    let mut number = next.lock().unwrap();
                    while try_send(line(format!("{number}"))).is_err() {
                        std::thread::yield_now();
                    }
                    *number += 1;
                }
            })
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
}

#[tokio::test]
async fn gate_8_records_start_in_the_order_they_were_accepted_whoever_sent_them() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let member = stage.member("m", "w").await;
            let inst = stage.inst("i").await;
            let pawn = stage.pawn("entry").await;
            macro_rules! in_order {
                ($to:expr) => {{
                    let to = $to.clone();
                    let sending = tokio::task::spawn_blocking(move || {
                        accept_in_known_order(6, 200, move |play| {
                            to.try_send(play).map_err(|refused| refused.message)
                        });
                    });
                    sending.await.unwrap();
                    assert_eq!(stage.lines().await, numbered("", 0..1200));
                }};
            }
            in_order!(wide);
            in_order!(member);
            in_order!(inst);
            in_order!(pawn);
            in_order!(stage.node.handler::<Desk>("one"));
        }
    })
    .await;
}

#[tokio::test]
async fn gate_8_each_senders_asks_start_in_its_order_with_rivals_and_a_full_lane() {
    within(async {
        let lane = Lane { records: 3, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        let wide = stage.wide("w").await;
        let senders: Vec<_> = (0..4)
            .map(|sender| {
                let wide = wide.clone();
                tokio::spawn(async move {
                    for number in 0..300 {
                        wide.send(line(format!("{sender}:{number}"))).await.unwrap();
                    }
                })
            })
            .collect();
        for sender in senders {
            sender.await.unwrap();
        }
        let lines = stage.lines().await;
        assert_eq!(lines.len(), 1200);
        for sender in 0..4 {
            let prefix = format!("{sender}:");
            let of: Vec<_> = lines.iter().filter(|entry| entry.starts_with(&prefix)).cloned().collect();
            assert_eq!(of, numbered(&prefix, 0..300));
        }
    })
    .await;
}

#[tokio::test]
async fn gate_8_lifecycle_records_start_in_the_order_they_were_accepted() {
    within(async {
        for workers in [1, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            for number in 0..30 {
                stage.pawn(&format!("g{number}")).await.send(Go::to("w")).await.unwrap();
                until(|| wide.queued().1 == number + 1).await;
            }
            kept.go.set();
            let mut lines = stage.lines().await;
            lines.retain(|entry| entry.starts_with("join"));
            assert_eq!(lines, numbered("join g", 0..30));
        }
    })
    .await;
}

/// A scenario whose order does not depend on time: what it wrote, what was answered, which grants there were.
async fn scenario(stage: &Stage) -> (Vec<String>, Vec<u64>, Vec<u64>) {
    let wide = stage.wide("w").await;
    let members = [stage.member("a", "w").await, stage.member("b", "w").await, stage.member("c", "w").await];
    let grants = Log::new();
    let mut answers = Vec::new();
    for round in 0..5 {
        let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
        let resumes = [Signal::new(), Signal::new(), Signal::new()];
        let mut asks = Vec::new();
        for (number, member) in members.iter().enumerate() {
            for turn in 0..6 {
                let mut steps = vec![Step::Grant(grants.clone()), note(format!("{round} m{number} {turn}"))];
                if number == turn {
                    let resumed = note(format!("{round} m{number} resumed"));
                    steps.extend([
                        Step::Yield(resumes[number].clone()),
                        Step::Grant(grants.clone()),
                        resumed,
                    ]);
                }
                // Accepted one after the other, so that the order of acceptance is that of this code.
                let before = member.queued().0;
                asks.push(tokio::spawn(member.ask(Play(steps))));
                until(|| member.queued().0 > before).await;
            }
            wide.send(line(format!("{round} spot {number}"))).await.unwrap();
        }
        kept.go.set();
        // Each wait ends when all that can run without it has run.
        for (number, lines) in [(0, 9), (2, 15), (1, 19)] {
            until(|| stage.cue.log.len() == 24 * round + lines).await;
            resumes[number].set();
        }
        for ask in asks {
            answers.push(ask.await.unwrap().unwrap());
        }
    }
    (stage.lines().await, answers, grants.take())
}

#[tokio::test]
async fn gate_13_one_worker_or_any_of_eight_give_the_same_order_grants_and_completions() {
    within(async {
        let alone = scenario(&Stage::new(1).await).await;
        assert_eq!((alone.0.len(), alone.1.len()), (5 * 24, 5 * 18));
        for workers in [1, 2, 8, 8] {
            assert_eq!(scenario(&Stage::new(workers).await).await, alone, "{workers} workers");
        }
    })
    .await;
}
