//! What is done after a handler ends before the gate is given up, or is a turn of its own (GATE-11).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turnkeep::BadReply;
use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Overlap, within};

/// Is inside for as long as its check, or its destructor, takes.
#[derive(Clone, Default)]
struct Trace {
    inside: Overlap,
    checks: Arc<AtomicUsize>,
    drops: Arc<AtomicUsize>,
}

impl Trace {
    fn work(&self) {
        let _inside = self.inside.enter();
        spin(Duration::from_micros(20));
    }
}

struct Checked(Trace);

/// Its reply is checked after the handler; what the handler held is dropped even later.
struct Trail(Trace);

impl turnkeep::HeapSize for Trail {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl Message for Trail {
    type Reply = Checked;
    type Error = Never;

    fn check_reply(reply: &Checked) -> Result<(), BadReply> {
        reply.0.work();
        reply.0.checks.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// Dropped with the handler's future.
struct Held(Trace);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.work();
        self.0.drops.fetch_add(1, Ordering::SeqCst);
    }
}

macro_rules! leaves_a_trail {
    ($($name:ident),+) => {$(
        impl Handles<Trail> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, trail: Trail) -> Result<Checked, Never> {
                let _held = Held(trail.0.clone());
                trail.0.work();
                pause().await;
                turn.total += 1;
                Ok(Checked(trail.0))
            }
        }
    )+};
}
leaves_a_trail!(Wide, Pawn, Desk);

const ROUNDS: usize = 100;

macro_rules! trailed {
    ($to:expr, $workers:expr) => {{
        let to = $to;
        let trace = Trace::default();
        let asks: Vec<_> = (0..ROUNDS).map(|_| tokio::spawn(to.ask(Trail(trace.clone())))).collect();
        for ask in asks {
            ask.await.unwrap().unwrap();
        }
        assert_eq!(trace.inside.most(), 1, "post-processing beside the next turn, {} workers", $workers);
        assert_eq!(trace.checks.load(Ordering::SeqCst), ROUNDS, "once each");
        until(|| trace.drops.load(Ordering::SeqCst) == ROUNDS).await;
        assert_eq!(to.ask(Total).await.unwrap(), ROUNDS as u64);
    }};
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_11_a_the_check_of_a_reply_and_destructors_end_before_the_next_turn_of_the_owner() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            stage.wide("w").await;
            trailed!(stage.wide("w").await, workers);
            trailed!(stage.member("m", "w").await, workers);
            trailed!(stage.pawn("entry").await, workers);
            trailed!(stage.node.handler::<Desk>("one"), workers);
        }
    })
    .await;
}

#[tokio::test]
async fn gate_11_b_what_starts_after_a_handler_is_a_turn_of_its_own_and_runs_once() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            stage.wide("w").await;
            let pawn = stage.pawn("p").await;
            let kept = keep(|play| async { pawn.send(play).await.unwrap() }).await;
            let completion = vec![note("first of the callback"), Step::Pause, note("last of the callback")];
            pawn.send(Go::with("w", Script { completion, ..Script::default() })).await.unwrap();
            for number in 0..20 {
                let steps = vec![note(format!("in {number}")), Step::Pause, note(format!("out {number}"))];
                pawn.send(Play(steps)).await.unwrap();
            }
            kept.go.set();
            let lines = stage.lines().await;
            let callback = ["first of the callback", "last of the callback"];
            assert_eq!(lines[..5], [&["join p", "leave p", "arrived p"][..], &callback[..]].concat());
            let handled: Vec<_> =
                (0..20).flat_map(|number| [format!("in {number}"), format!("out {number}")]).collect();
            assert_eq!(lines[5..], handled);
        }
    })
    .await;
}

#[tokio::test]
async fn gate_11_c_the_destructors_of_a_cancelled_handler_end_before_the_next_turn_of_the_gate() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            for round in 0..20 {
                let victim = stage.member(&format!("v{round}"), "w").await;
                let trace = Trace::default();
                let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
                let cancelled = tokio::spawn(victim.ask(Trail(trace.clone())));
                until(|| victim.queued().0 == 1).await;
                let others: Vec<_> = (0..4).map(|_| tokio::spawn(wide.ask(Trail(trace.clone())))).collect();
                until(|| wide.queued().0 == 5).await;
                kept.go.set();
                let destroyed = victim.destroy().await;
                destroyed.unwrap();
                for other in others {
                    other.await.unwrap().unwrap();
                }
                let _ = cancelled.await.unwrap();
                assert_eq!(trace.inside.most(), 1, "{workers} workers");
            }
        }
    })
    .await;
}
