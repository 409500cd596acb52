//! Grants: numbers that are never used again, and completions that come too late for theirs (GATE-9).

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use turnkeep::ErrorKind;
use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Log, Signal, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_9_a_every_grant_of_a_gate_has_a_number_of_its_own_yields_and_members_included() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::new(workers).await;
            let wide = stage.wide("w").await;
            let (member, grants) = (stage.member("m", "w").await, Log::new());
            let set = Signal::new();
            set.set();
            let grant = Step::Grant(grants.clone());
            let steps = vec![grant.clone(), Step::Yield(set), grant];
            let tasks = [0, 1, 2, 3].map(|number| {
                let (wide, member, steps) = (wide.clone(), member.clone(), steps.clone());
                tokio::spawn(async move {
                    for _ in 0..100 {
                        match number % 2 {
                            0 => wide.send(Play(steps.clone())).await.unwrap(),
                            _ => member.send(Play(steps.clone())).await.unwrap(),
                        }
                    }
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            stage.node.quiesce().await.unwrap();
            let grants = grants.take();
            assert_eq!(grants.len(), 800);
            let increase = grants.windows(2).all(|pair| pair[0] < pair[1]);
            assert!(increase, "two turns had one number, or an older one: {grants:?}");
        }
    })
    .await;
}

/// Leaves its waker behind and ends when it is polled again.
struct LeaveWaker {
    left: Arc<Mutex<Option<Waker>>>,
    polls: Arc<AtomicUsize>,
    /// Ends at the second poll, else when this is set.
    until: Option<Signal>,
}

impl Future for LeaveWaker {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let polls = self.polls.fetch_add(1, Ordering::SeqCst);
        let over = self.until.as_ref().map_or(polls > 0, Signal::is_set);
        if over {
            return Poll::Ready(());
        }
        *self.left.lock().unwrap() = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[derive(Message)]
struct Hang(#[message(no_heap)] LeaveWaker);

impl Handles<Hang> for Wide {
    async fn handle(_: &mut Turn<'_, Self>, hang: Hang) -> Result<(), Never> {
        hang.0.await;
        Ok(())
    }
}

#[tokio::test]
async fn gate_9_b_a_wake_up_for_a_turn_that_is_over_does_not_reach_the_next_one() {
    within(async {
        let stage = Stage::new(1).await;
        let wide = stage.wide("w").await;
        let (old, new) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let polls = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let first = LeaveWaker { left: old.clone(), polls: polls[0].clone(), until: None };
        let ask = tokio::spawn(wide.ask(Hang(first)));
        until(|| old.lock().unwrap().is_some()).await;
        let stale: Waker = old.lock().unwrap().clone().unwrap();
        stale.wake_by_ref();
        ask.await.unwrap().unwrap();
        let done = Signal::new();
        let second = LeaveWaker { left: new.clone(), polls: polls[1].clone(), until: Some(done.clone()) };
        let ask = tokio::spawn(wide.ask(Hang(second)));
        until(|| new.lock().unwrap().is_some()).await;
        stage.round_trip().await;
        for _ in 0..1000 {
            stale.wake_by_ref();
            stage.round_trip().await;
        }
        assert_eq!(polls[1].load(Ordering::SeqCst), 1, "the second turn was looked at for a stale wake-up");
        done.set();
        let fresh: Waker = new.lock().unwrap().clone().unwrap();
        fresh.wake();
        ask.await.unwrap().unwrap();
        drop(stale);
    })
    .await;
}

/// Asks with little time, gives up, and says how the ask ended.
#[derive(Message)]
#[message(reply = Option<ErrorKind>)]
struct Impatient;

impl Handles<Impatient> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, _: Impatient) -> Result<Option<ErrorKind>, Never> {
        let ask = turn.spot::<Inst>("slow").ask(line("late")).timeout(Duration::from_millis(20));
        Ok(ask.await.err().and_then(|error| error.kind()))
    }
}

#[tokio::test]
async fn gate_9_c_an_answer_that_comes_after_the_asking_turn_changes_nothing() {
    within(async {
        for workers in [1, 2] {
            let stage = Stage::new(workers).await;
            let (wide, slow) = (stage.wide("w").await, stage.inst("slow").await);
            let busy = keep(|play| async { slow.send(play).await.unwrap() }).await;
            assert_eq!(wide.ask(Impatient).await.unwrap(), Some(ErrorKind::DeadlineExceeded));
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            wide.send(line("next")).await.unwrap();
            busy.go.set();
            until(|| stage.node.metrics().late == 1).await;
            stage.round_trip().await;
            assert_eq!(stage.cue.log.take(), ["late"], "the late answer let the gate go");
            kept.go.set();
            assert_eq!(stage.lines().await, ["next"]);
            assert_eq!(stage.node.metrics().late, 1);
        }
    })
    .await;
}
