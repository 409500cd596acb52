//! Budgets, rounds among members, and gates that start at once (LANE-10, LANE-12, LANE-14).

use std::time::{Duration, Instant};

use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Log, Signal, within};

/// A node with one worker, and that worker busy until it is let go.
async fn busy(budget: Duration) -> (Stage, Kept) {
    let stage = Stage::with(1, |builder| builder.budget(budget)).await;
    for id in ["a", "b"] {
        stage.wide(id).await;
    }
    let (started, go) = (Signal::new(), Signal::new());
    let steps = vec![Step::Set(started.clone()), Step::Block(go.clone())];
    stage.inst("busy").await.send(Play(steps)).await.unwrap();
    started.wait().await;
    (stage, Kept { go })
}

/// Lines of `a` and `b`, one after the other.
async fn fill_both(stage: &Stage, each: usize, spin: Duration) {
    for number in 0..each {
        for id in ["a", "b"] {
            let steps = vec![note(format!("{id}{number}")), Step::Spin(spin)];
            stage.node.spot::<Wide>(id).send(Play(steps)).await.unwrap();
        }
    }
}

/// How many of one object came in a row, run after run.
fn runs(lines: &[String]) -> Vec<usize> {
    lines.chunk_by(|one, next| one[..1] == next[..1]).map(<[String]>::len).collect()
}

#[tokio::test]
async fn lane_10_a_two_busy_spots_whose_handlers_use_up_the_budget_alternate() {
    within(async {
        for budget in [Duration::from_millis(1), Duration::ZERO] {
            let (stage, kept) = busy(budget).await;
            fill_both(&stage, 40, budget).await;
            kept.go.set();
            let lines = stage.lines().await;
            assert_eq!(lines.len(), 80);
            let longest = runs(&lines).into_iter().max();
            assert_eq!(longest, Some(1), "one slice each, in turn: {lines:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn lane_10_b_records_run_in_a_row_within_the_budget() {
    within(async {
        let (stage, kept) = busy(Duration::from_secs(3600)).await;
        fill_both(&stage, 100, Duration::ZERO).await;
        kept.go.set();
        let lines = stage.lines().await;
        assert_eq!(runs(&lines), [100, 100], "each in one slice");
    })
    .await;
}

#[tokio::test]
async fn lane_10_c_a_budget_of_10_ms_is_over_after_at_most_eleven_records_of_1_ms() {
    within(async {
        let cue = Cue::default();
        let node = Node::builder()
            .workers(1)
            .spot_with("wide", factory(&cue, Wide::new))
            .spot_with("inst", factory(&cue, Inst::new))
            .start()
            .await
            .unwrap();
        let stage = Stage { node, cue };
        let (started, go) = (Signal::new(), Signal::new());
        let steps = vec![Step::Set(started.clone()), Step::Block(go.clone())];
        stage.inst("busy").await.send(Play(steps)).await.unwrap();
        started.wait().await;
        for id in ["a", "b"] {
            drop(tokio::spawn(stage.node.spot::<Wide>(id).get_or_create()));
        }
        until(|| ["a", "b"].iter().all(|id| stage.node.spot::<Wide>(id).find().is_ok())).await;
        fill_both(&stage, 60, Duration::from_millis(1)).await;
        go.set();
        let lines = stage.lines().await;
        // The last run is that of the one that is left alone.
        let runs = runs(&lines);
        let longest = runs[..runs.len() - 1].iter().max().copied().unwrap();
        assert!(longest <= 11, "{longest} in a row: {lines:?}");
    })
    .await;
}

#[tokio::test]
async fn lane_10_d_a_running_handler_is_not_interrupted_at_the_budget() {
    within(async {
        let (stage, kept) = busy(Duration::from_micros(100)).await;
        for number in 0..20 {
            for id in ["a", "b"] {
                let spin = Step::Spin(Duration::from_micros(500));
                let steps = vec![note(format!("{id}{number} in")), spin, note(format!("{id}{number} out"))];
                stage.node.spot::<Wide>(id).send(Play(steps)).await.unwrap();
            }
        }
        kept.go.set();
        let lines = stage.lines().await;
        assert_eq!(lines.len(), 80);
        for pair in lines.chunks(2) {
            assert_eq!(pair[0].replace("in", "out"), pair[1], "{lines:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn lane_10_e_a_handler_that_keeps_waking_itself_lets_others_run_at_its_continuations() {
    within(async {
        for budget in [Duration::from_millis(1), Duration::from_secs(3600)] {
            let (stage, kept) = busy(budget).await;
            let pauses = std::iter::repeat_n([Step::Pause, Step::Spin(Duration::from_micros(200))], 100);
            let steps = [vec![note("a in")], pauses.flatten().collect(), vec![note("a out")]].concat();
            stage.node.spot::<Wide>("a").send(Play(steps)).await.unwrap();
            stage.node.spot::<Wide>("b").send(line("b")).await.unwrap();
            kept.go.set();
            assert_eq!(stage.lines().await, ["a in", "b", "a out"]);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_10_f_a_budget_of_a_type_goes_before_the_nodes() {
    within(async {
        let cue = Cue::default();
        let node = Node::builder()
            .workers(1)
            .budget(Duration::from_secs(3600))
            .spot_with("wide", factory(&cue, Wide::new).budget(Duration::ZERO))
            .spot_with("inst", factory(&cue, Inst::new))
            .start()
            .await
            .unwrap();
        let stage = Stage { node, cue };
        stage.wide("a").await;
        stage.wide("b").await;
        let (started, go) = (Signal::new(), Signal::new());
        let steps = vec![Step::Set(started.clone()), Step::Block(go.clone())];
        stage.inst("busy").await.send(Play(steps)).await.unwrap();
        started.wait().await;
        fill_both(&stage, 30, Duration::ZERO).await;
        go.set();
        let longest = runs(&stage.lines().await).into_iter().max();
        assert_eq!(longest, Some(1));
    })
    .await;
}

async fn crowd(stage: &Stage) -> (SpotRef<Wide>, Vec<ActorRef<Pawn>>) {
    let wide = stage.wide("w").await;
    let mut members = Vec::new();
    for id in ["a", "b", "c"] {
        members.push(stage.member(id, "w").await);
    }
    (wide, members)
}

#[tokio::test]
async fn lane_12_a_flooding_members_are_served_one_record_a_round() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let (wide, members) = crowd(&stage).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            for (member, records) in members.iter().zip([200, 3, 50]) {
                for number in 0..records {
                    member.send(line(format!("{} {number}", member.id()))).await.unwrap();
                }
            }
            kept.go.set();
            let mut wanted = Vec::new();
            for number in 0..200 {
                for (id, records) in [("a", 200), ("b", 3), ("c", 50)] {
                    wanted.extend((number < records).then(|| format!("{id} {number}")));
                }
            }
            assert_eq!(stage.lines().await, wanted);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_12_b_members_take_places_among_the_spots_own_records() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let (wide, members) = crowd(&stage).await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            wide.send(line("w 0")).await.unwrap();
            for (member, number) in [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)] {
                members[member].send(line(format!("{member} {number}"))).await.unwrap();
            }
            wide.send(line("w 1")).await.unwrap();
            members[2].send(line("2 0")).await.unwrap();
            kept.go.set();
            // Head records where their members stood; the next of each behind all that was there.
            let wanted = ["w 0", "0 0", "1 0", "w 1", "2 0", "0 1", "1 1", "0 2"];
            assert_eq!(stage.lines().await, wanted);
        }
    })
    .await;
}

/// Sends itself on, as often as it says.
#[derive(Message)]
struct Again {
    left: u32,
    #[message(no_heap)]
    at: Option<(Signal, Signal)>,
}

impl Handles<Again> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, again: Again) -> Result<(), Never> {
        turn.cue.note(format!("again {}", again.left));
        if again.left > 0 {
            let at = again.at.clone();
            turn.this_actor().try_send(Again { left: again.left - 1, at }).unwrap();
        }
        if let Some((reached, go)) = again.at.filter(|_| again.left == 500) {
            reached.set();
            go.wait().await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn lane_12_c_an_actor_that_floods_itself_delays_the_others_by_one_record_a_round() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let (_wide, members) = crowd(&stage).await;
            let (reached, go) = (Signal::new(), Signal::new());
            let at = Some((reached.clone(), go.clone()));
            members[0].send(Again { left: 1000, at }).await.unwrap();
            reached.wait().await;
            for number in 0..3 {
                members[1].send(line(format!("b {number}"))).await.unwrap();
                members[2].send(line(format!("c {number}"))).await.unwrap();
            }
            go.set();
            let lines = stage.lines().await;
            let at = lines.iter().position(|entry| entry == "again 500").unwrap();
            let wanted = [
                "b 0",
                "c 0",
                "again 499",
                "b 1",
                "c 1",
                "again 498",
                "b 2",
                "c 2",
                "again 497",
                "again 496",
            ];
            assert_eq!(lines[at + 1..at + 11], wanted);
            assert_eq!(lines.len(), 1001 + 6);
        }
    })
    .await;
}

/// Sends a play and blocks its worker until the play has been played.
#[derive(Message)]
#[message(reply = Duration)]
struct Poke(String);

impl Handles<Poke> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, poke: Poke) -> Result<Duration, Never> {
        let played = Signal::new();
        let start = Instant::now();
        turn.spot::<Inst>(&poke.0).try_send(Play(vec![Step::Set(played.clone())])).unwrap();
        played.wait_blocking();
        Ok(start.elapsed())
    }
}

#[tokio::test]
async fn lane_14_a_a_gate_made_ready_by_a_send_starts_though_its_sender_blocks_at_once() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            stage.inst("i").await;
            let mut times = Vec::new();
            for _ in 0..300 {
                times.push(wide.ask(Poke("i".to_owned())).await.unwrap());
            }
            times.sort();
            // A millisecond is promised; this shared machine gets a wide margin.
            assert!(times[150] < Duration::from_millis(100), "half of them took over {:?}", times[150]);
        }
    })
    .await;
}

#[tokio::test]
async fn lane_14_b_a_gate_made_ready_by_a_wake_up_starts_though_its_waker_blocks_at_once() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let (wide, inst) = (stage.wide("w").await, stage.inst("i").await);
            for _ in 0..300 {
                let (waits, woken, seen) = (Signal::new(), Signal::new(), Signal::new());
                let waiting =
                    vec![Step::Set(waits.clone()), Step::Wait(woken.clone()), Step::Set(seen.clone())];
                inst.send(Play(waiting)).await.unwrap();
                waits.wait().await;
                wide.ask(Play(vec![Step::Set(woken), Step::Block(seen)])).await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn lane_14_c_all_gates_made_ready_by_a_blocked_worker_start_on_the_idle_one() {
    within(async {
        let stage = Stage::new(2).await;
        let wide = stage.wide("w").await;
        for number in 0..20 {
            stage.inst(&format!("i{number}")).await;
        }
        for _ in 0..20 {
            let played = Log::new();
            let go = Signal::new();
            let pokes = PokeAll { others: 20, played: played.clone(), go: go.clone() };
            let ask = tokio::spawn(wide.ask(pokes));
            until(|| played.len() == 20).await;
            go.set();
            ask.await.unwrap().unwrap();
        }
    })
    .await;
}

/// Sends to many and blocks its worker until it is let go.
#[derive(Message)]
struct PokeAll {
    others: usize,
    #[message(no_heap)]
    played: Log<u64>,
    #[message(no_heap)]
    go: Signal,
}

impl Handles<PokeAll> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, poke: PokeAll) -> Result<(), Never> {
        for number in 0..poke.others {
            let play = Play(vec![Step::Grant(poke.played.clone())]);
            turn.spot::<Inst>(&format!("i{number}")).try_send(play).unwrap();
        }
        poke.go.wait_blocking();
        Ok(())
    }
}
