//! One turn at a time under a gate (GATE-1, GATE-3, GATE-7).

use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Overlap, Signal, within};

/// Steps that are inside `overlap` before and after a pause.
fn inside(overlap: &Overlap) -> Vec<Step> {
    vec![Step::Enter(overlap.clone()), Step::Pause, Step::Pause]
}

/// As `inside`, around a Yield.
fn inside_around_a_yield(overlap: &Overlap) -> Vec<Step> {
    let set = Signal::new();
    set.set();
    [inside(overlap), vec![Step::Leave, Step::Yield(set)], inside(overlap)].concat()
}

const ROUNDS: usize = 60;

/// Sends the same play again and again, from a task of its own.
macro_rules! flood {
    ($tasks:ident, $to:expr, $steps:expr) => {{
        let (to, steps) = ($to.clone(), $steps);
        $tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                to.send(Play(steps.clone())).await.unwrap();
            }
        }));
    }};
}

async fn all_modes_at_once(workers: usize) {
    let stage = Stage::new(workers).await;
    let mut gates = vec![("wide", stage.cue.inside.clone())];
    let mut gate = |name| {
        let overlap = Overlap::new();
        gates.push((name, overlap.clone()));
        overlap
    };
    let mut tasks = Vec::new();
    let wide = stage.wide("w").await;
    let shared = stage.cue.inside.clone();
    for id in ["m1", "m2", "m3"] {
        let member = stage.member(id, "w").await;
        flood!(tasks, member, inside_around_a_yield(&shared));
        flood!(tasks, member, inside(&shared));
    }
    for _ in 0..2 {
        flood!(tasks, wide, inside(&shared));
        flood!(tasks, wide, inside_around_a_yield(&shared));
    }
    let (per, of_per) = (stage.per("p").await, gate("per"));
    for _ in 0..3 {
        flood!(tasks, per, inside(&of_per));
    }
    for id in ["n1", "n2"] {
        let (pawn, of_pawn) = (stage.member(id, "p").await, gate("pawn of per"));
        flood!(tasks, pawn, inside(&of_pawn));
        flood!(tasks, pawn, inside(&of_pawn));
    }
    let (inst, of_inst) = (stage.inst("i").await, gate("inst"));
    flood!(tasks, inst, inside(&of_inst));
    flood!(tasks, inst, inside_around_a_yield(&of_inst));
    let (desk, of_desk) = (stage.node.handler::<Desk>("one"), gate("desk"));
    flood!(tasks, desk, inside(&of_desk));
    flood!(tasks, desk, inside(&of_desk));
    for number in 0..8 {
        let victim = stage.member(&format!("v{number}"), "w").await;
        let late: Vec<_> = (0..5)
            .map(|_| {
                tokio::spawn(
                    victim.ask(Play([inside(&shared), vec![Step::Spin(Default::default())]].concat())),
                )
            })
            .collect();
        tokio::task::yield_now().await;
        let panicked = victim.ask(Play([inside(&shared), vec![Step::Panic]].concat())).await;
        assert!(panicked.is_err());
        for ask in late {
            let _ = ask.await.unwrap();
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    stage.node.quiesce().await.unwrap();
    for (name, overlap) in gates {
        assert_eq!(overlap.most(), 1, "turns at once under the gate of {name}, {workers} workers");
    }
    assert_eq!(wide.ask(line("x")).await.unwrap(), 4 * ROUNDS as u64 + 1, "every play was played");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_1_turns_of_all_modes_with_waits_yields_and_panics_never_overlap() {
    within(async {
        for workers in [1, 2, 8] {
            all_modes_at_once(workers).await;
        }
    })
    .await;
}

#[tokio::test]
async fn gate_1_a_panicking_turn_and_its_destructors_end_before_the_next_turn_starts() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            stage.wide("w").await;
            let mut members = Vec::new();
            for id in ["a", "b", "c", "d"] {
                members.push(stage.member(id, "w").await);
            }
            let held = keep(|play| async { stage.node.spot::<Wide>("w").send(play).await.unwrap() }).await;
            for member in &members {
                let steps = [inside(&stage.cue.inside), vec![Step::Panic]].concat();
                member.send(Play(steps)).await.unwrap();
            }
            for _ in 0..10 {
                stage.node.spot::<Wide>("w").send(Play(inside(&stage.cue.inside))).await.unwrap();
            }
            held.go.set();
            stage.node.quiesce().await.unwrap();
            assert_eq!(stage.cue.inside.most(), 1);
            assert!(members.iter().all(ActorRef::has_ended));
            assert_eq!(stage.node.spot::<Wide>("w").ask(line("x")).await.unwrap(), 12);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_3_two_members_of_a_spotwide_spot_never_overlap() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            stage.wide("w").await;
            let overlap = Overlap::new();
            let mut tasks = Vec::new();
            for id in ["a", "b", "c", "d"] {
                let member = stage.member(id, "w").await;
                flood!(tasks, member, inside(&overlap));
                flood!(tasks, member, inside(&overlap));
            }
            for task in tasks {
                task.await.unwrap();
            }
            stage.node.quiesce().await.unwrap();
            assert_eq!(overlap.most(), 1, "{workers} workers");
        }
    })
    .await;
}

#[tokio::test]
async fn gate_3_a_member_whose_competitor_keeps_the_gate_does_not_start() {
    within(async {
        let stage = Stage::new(1).await;
        let wide = stage.wide("w").await;
        let (a, b) = (stage.member("a", "w").await, stage.member("b", "w").await);
        let kept = keep(|play| async { a.send(play).await.unwrap() }).await;
        b.send(line("b")).await.unwrap();
        wide.send(line("w")).await.unwrap();
        a.send(line("a")).await.unwrap();
        stage.round_trip().await;
        assert_eq!(stage.cue.log.len(), 0, "the gate is kept by a");
        kept.go.set();
        assert_eq!(stage.lines().await, ["b", "w", "a"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_3_handlers_members_and_lifecycle_callbacks_of_a_spotwide_spot_share_its_gate() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let overlap = stage.cue.inside.clone();
            let mut tasks = Vec::new();
            let member = stage.member("m", "w").await;
            flood!(tasks, member, inside(&overlap));
            flood!(tasks, wide, inside_around_a_yield(&overlap));
            for number in 0..20 {
                let guest = stage.pawn(&format!("g{number}")).await;
                guest.send(Go::to("w")).await.unwrap();
                guest.send(Play(inside(&overlap))).await.unwrap();
            }
            for task in tasks {
                task.await.unwrap();
            }
            let lines = stage.lines().await;
            let of = |what: &str| lines.iter().filter(|entry| entry.starts_with(what)).count();
            assert_eq!((of("join"), of("arrived"), of("leave")), (20, 20, 20));
            assert_eq!(overlap.most(), 1, "{workers} workers");
        }
    })
    .await;
}

#[tokio::test]
async fn gate_3_a_lifecycle_callback_of_a_spotwide_spot_waits_for_the_member_that_keeps_the_gate() {
    within(async {
        let stage = Stage::new(1).await;
        let wide = stage.wide("w").await;
        let member = stage.member("m", "w").await;
        let kept = keep(|play| async { member.send(play).await.unwrap() }).await;
        stage.pawn("g").await.send(Go::to("w")).await.unwrap();
        until(|| wide.queued().1 == 1).await;
        stage.round_trip().await;
        assert_eq!(stage.cue.log.len(), 0);
        kept.go.set();
        assert_eq!(stage.lines().await, ["join g", "leave g", "arrived g"]);
        // And the other way round: while an admission keeps the gate, no member starts.
        let (deciding, decide) = (Signal::new(), Signal::new());
        let admission = vec![Step::Set(deciding.clone()), Step::Wait(decide.clone()), note("decided")];
        let script = Script { admission, ..Script::default() };
        stage.pawn("h").await.send(Go::with("w", script)).await.unwrap();
        deciding.wait().await;
        member.send(line("m")).await.unwrap();
        stage.round_trip().await;
        decide.set();
        assert_eq!(stage.lines().await[..3], ["join h", "decided", "m"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_3_handlers_of_an_instance_spot_never_overlap() {
    within(async {
        for workers in [2, 8] {
            let stage = Stage::new(workers).await;
            let (inst, overlap) = (stage.inst("i").await, Overlap::new());
            let mut tasks = Vec::new();
            for _ in 0..4 {
                flood!(tasks, inst, inside(&overlap));
                flood!(tasks, inst, inside_around_a_yield(&overlap));
            }
            for task in tasks {
                task.await.unwrap();
            }
            stage.node.quiesce().await.unwrap();
            assert_eq!(overlap.most(), 1);
        }
    })
    .await;
}

/// `N` read-wait-write handlers at once, and the total that is left.
macro_rules! bumped {
    ($to:expr, $total:expr) => {{
        let tasks: Vec<_> = (0..N).map(|_| tokio::spawn($to.ask(Bump))).collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!($total.ask(Total).await.unwrap(), N as u64);
    }};
}

const N: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_7_a_concurrent_read_wait_write_handlers_lose_no_update_in_any_mode() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let (wide, per, inst) = (stage.wide("w").await, stage.per("p").await, stage.inst("i").await);
            bumped!(wide, wide);
            bumped!(per, per);
            bumped!(inst, inst);
            let lobby = stage.lobby();
            bumped!(lobby, lobby);
            let desk = stage.node.handler::<Desk>("one");
            bumped!(desk, desk);
            let pawn = stage.pawn("entry").await;
            bumped!(pawn, pawn);
            let pawn = stage.member("per", "p").await;
            bumped!(pawn, pawn);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_7_a_members_that_wait_with_the_spots_number_read_lose_no_update_of_it() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let members = [stage.member("a", "w").await, stage.member("b", "w").await];
            let asks = (0..N).map(|number| tokio::spawn(members[number % 2].ask(Bump)));
            let asks: Vec<_> = asks.chain((0..N).map(|_| tokio::spawn(wide.ask(Bump)))).collect();
            for ask in asks {
                ask.await.unwrap().unwrap();
            }
            assert_eq!(wide.ask(Total).await.unwrap(), 2 * N as u64);
        }
    })
    .await;
}

#[tokio::test]
async fn gate_7_b_no_record_of_the_gate_starts_while_a_handler_waits_ordinarily() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let member = stage.member("m", "w").await;
            let resumed = Signal::new();
            let yielded = Play(vec![Step::Yield(resumed.clone()), note("resumed")]);
            wide.send(yielded).await.unwrap();
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            resumed.set();
            wide.send(line("spot")).await.unwrap();
            member.send(line("member")).await.unwrap();
            stage.pawn("g").await.send(Go::to("w")).await.unwrap();
            until(|| wide.queued() == (3, 1)).await;
            for _ in 0..20 {
                stage.round_trip().await;
            }
            assert_eq!(stage.cue.log.len(), 0, "something started under a gate that is kept");
            kept.go.set();
            let mut lines = stage.lines().await;
            lines.sort();
            assert_eq!(lines, ["arrived g", "join g", "leave g", "member", "resumed", "spot"]);
        }
    })
    .await;
}

/// Joins an ordinary wait with a Yield.
#[derive(Message)]
struct Both {
    #[message(no_heap)]
    ordinary: Signal,
    #[message(no_heap)]
    yielded: Signal,
}

impl Handles<Both> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, both: Both) -> Result<(), Never> {
        let work = turn.io(async move { both.yielded.wait().await });
        let _ = futures_util::join!(both.ordinary.wait(), turn.yielding(work));
        turn.cue.note("both");
        Ok(())
    }
}

#[tokio::test]
async fn gate_7_c_a_handler_that_joins_an_ordinary_wait_with_a_yield_gives_the_gate_up_for_both() {
    within(async {
        for yield_first in [false, true] {
            for workers in [1, 2] {
                let stage = Stage::new(workers).await;
                let wide = stage.wide("w").await;
                let (ordinary, yielded) = (Signal::new(), Signal::new());
                let both = Both { ordinary: ordinary.clone(), yielded: yielded.clone() };
                wide.send(both).await.unwrap();
                wide.ask(line("between")).await.unwrap();
                let (first, second) = if yield_first { (yielded, ordinary) } else { (ordinary, yielded) };
                first.set();
                if !yield_first {
                    wide.ask(line("again between")).await.unwrap();
                }
                second.set();
                let lines = stage.lines().await;
                assert_eq!((lines[0].as_str(), lines[lines.len() - 1].as_str()), ("between", "both"));
                assert_eq!(lines.len(), if yield_first { 2 } else { 3 });
            }
        }
    })
    .await;
}
