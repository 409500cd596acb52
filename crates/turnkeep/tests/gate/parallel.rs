//! Where turns do run at once: Entry, `PerActor`, and handlers of nodes and channels (GATE-4, GATE-5, GATE-6).
//!
//! Each play blocks its worker until the other has started: if the two shared a gate, neither could end.

use crate::play::*;
use crate::support::{Overlap, Signal, within};

/// Two plays that each block a worker until the other has started.
fn rendezvous() -> (Play, Play) {
    let (one, two) = (Signal::new(), Signal::new());
    let first = Play(vec![Step::Set(one.clone()), Step::Block(two.clone())]);
    let second = Play(vec![Step::Set(two), Step::Block(one)]);
    (first, second)
}

/// Sends a rendezvous to two objects; both must end.
macro_rules! meet {
    ($one:expr, $other:expr) => {{
        let (first, second) = rendezvous();
        let (first, second) = futures_util::join!($one.ask(first), $other.ask(second));
        first.unwrap();
        second.unwrap();
    }};
}

/// Keeps one gate by an ordinary wait; the other's object answers nothing until that is over.
macro_rules! apart {
    ($stage:expr, $one:expr, $other:expr) => {{
        let kept = keep(|play| async { $one.send(play).await.unwrap() }).await;
        $other.send(line("other")).await.unwrap();
        $stage.round_trip().await;
        assert_eq!($stage.cue.log.len(), 0, "the two share a gate");
        kept.go.set();
        assert_eq!($stage.lines().await, ["other"]);
    }};
}

#[tokio::test]
async fn gate_4_entry_actors_run_beside_the_entry_spot_and_beside_each_other() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let (a, b) = (stage.pawn("a").await, stage.pawn("b").await);
            let lobby = stage.lobby();
            for _ in 0..100 {
                meet!(a, b);
                meet!(a, lobby);
                meet!(lobby, b);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn gate_4_the_entry_spots_own_handlers_share_its_gate() {
    within(async {
        let stage = Stage::new(1).await;
        apart!(stage, stage.lobby(), stage.lobby());
        let stage = Stage::new(8).await;
        let (lobby, overlap) = (stage.lobby(), Overlap::new());
        for _ in 0..500 {
            lobby.send(Play(vec![Step::Enter(overlap.clone()), Step::Pause])).await.unwrap();
        }
        stage.node.quiesce().await.unwrap();
        assert_eq!(overlap.most(), 1);
    })
    .await;
}

#[tokio::test]
async fn gate_4_the_entry_spots_lifecycle_callbacks_share_its_gate_with_its_handlers() {
    within(async {
        for workers in [1, 8] {
            let stage = Stage::new(workers).await;
            stage.wide("w").await;
            let lobby = stage.lobby();
            let kept = keep(|play| async { lobby.send(play).await.unwrap() }).await;
            let pawns = ["a", "b", "c"];
            for id in pawns {
                stage.pawn(id).await.send(Go::to("w")).await.unwrap();
            }
            // The admissions run, the Lobby's callbacks wait for its handler.
            until(|| stage.cue.log.len() == 3).await;
            stage.round_trip().await;
            assert_eq!(stage.cue.log.len(), 3);
            for _ in 0..20 {
                lobby.send(Play(vec![Step::Enter(stage.cue.lobby.clone()), Step::Pause])).await.unwrap();
            }
            kept.go.set();
            let lines = stage.lines().await;
            assert!(lines[..3].iter().all(|entry| entry.starts_with("join")), "{lines:?}");
            assert_eq!(lines.iter().filter(|entry| entry.starts_with("leave")).count(), 3);
            assert_eq!(stage.cue.lobby.most(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn gate_4_the_gate_of_an_entry_actor_is_its_own_for_all_its_records() {
    within(async {
        let stage = Stage::new(1).await;
        let pawn = stage.pawn("a").await;
        apart!(stage, pawn, pawn);
    })
    .await;
}

#[tokio::test]
async fn gate_5_a_handlers_of_two_actors_of_a_peractor_spot_run_at_the_same_time() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            stage.per("p").await;
            let (a, b) = (stage.member("a", "p").await, stage.member("b", "p").await);
            for _ in 0..200 {
                meet!(a, b);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn gate_5_b_a_peractor_spot_and_its_actors_run_at_the_same_time() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let per = stage.per("p").await;
            let member = stage.member("a", "p").await;
            for _ in 0..200 {
                meet!(per, member);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn gate_5_c_all_eight_actors_of_a_peractor_spot_run_at_once_on_eight_workers() {
    within(async {
        let stage = Stage::new(8).await;
        stage.per("p").await;
        let (all, overlap) = (Signal::new(), Overlap::new());
        let mut members = Vec::new();
        for number in 0..8 {
            members.push(stage.member(&format!("a{number}"), "p").await);
        }
        for member in &members {
            let steps = vec![Step::Enter(overlap.clone()), Step::Block(all.clone())];
            member.send(Play(steps)).await.unwrap();
        }
        until(|| overlap.most() == 8).await;
        all.set();
        stage.node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn gate_5_d_each_gate_of_a_peractor_spot_serves_one_turn_at_a_time() {
    within(async {
        let stage = Stage::new(1).await;
        let per = stage.per("p").await;
        let member = stage.member("a", "p").await;
        apart!(stage, per, per);
        apart!(stage, member, member);
    })
    .await;
}

#[tokio::test]
async fn gate_6_a_handlers_of_a_node_and_of_channels_run_in_parallel() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let node = &stage.node;
            let (one, two) = (node.handler::<Desk>("one"), node.handler::<Desk>("two"));
            let (channel, other) = (node.channel::<Desk>("one"), node.channel::<Desk>("two"));
            for _ in 0..100 {
                meet!(one, two);
                meet!(channel, other);
                meet!(one, channel);
                meet!(other, two);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn gate_6_b_each_handler_of_a_node_or_channel_runs_its_records_in_order_one_at_a_time() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            for desk in [stage.node.handler::<Desk>("one"), stage.node.channel::<Desk>("one")] {
                let overlap = Overlap::new();
                for number in 0..300 {
                    let steps = vec![Step::Enter(overlap.clone()), note(format!("{number}")), Step::Pause];
                    desk.send(Play(steps)).await.unwrap();
                }
                assert_eq!(stage.lines().await, numbered("", 0..300));
                assert_eq!(overlap.most(), 1);
            }
        }
        let stage = Stage::new(1).await;
        let desk = stage.node.handler::<Desk>("one");
        apart!(stage, desk, desk);
        let desk = stage.node.channel::<Desk>("one");
        apart!(stage, desk, desk);
    })
    .await;
}
