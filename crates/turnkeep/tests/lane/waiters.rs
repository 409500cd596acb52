//! Those who wait for room: first come, first served, bounded, gone without a trace (LANE-6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use turnkeep::prelude::*;
use turnkeep::{ErrorKind, WAITERS_MAX};

use crate::limits::Blob;
use crate::play::*;
use crate::support::{Signal, within};

const ONE: Lane = Lane { records: 1, ..Lane::APPLICATION };

#[tokio::test]
async fn lane_6_a_waiters_are_served_in_the_order_they_came() {
    within(async {
        for (workers, records) in [(1, 1), (2, 1), (8, 1), (2, 5), (8, 40)] {
            let lane = Lane { records, ..Lane::APPLICATION };
            let stage = Stage::with(workers, |builder| builder.application_lane(lane)).await;
            let wide = stage.wide("w").await;
            let member = stage.member("m", "w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            let mut sends = Vec::new();
            for number in 0..200 {
                // One fewer stands in the Spot's lane, where the keeper is.
                let in_line = |limit: usize| (number + 1_usize).saturating_sub(limit);
                sends.push(tokio::spawn(wide.send(line(format!("spot {number}")))));
                until(|| wide.waiting().0 == in_line(records as usize - 1)).await;
                until(|| wide.queued().0 as usize + wide.waiting().0 == number + 2).await;
                sends.push(tokio::spawn(member.send(line(format!("member {number}")))));
                until(|| member.queued().0 as usize + member.waiting().0 == number + 1).await;
                assert_eq!(member.waiting().0, in_line(records as usize));
            }
            kept.go.set();
            for send in sends {
                send.await.unwrap().unwrap();
            }
            let lines = stage.lines().await;
            for name in ["spot ", "member "] {
                let of: Vec<_> = lines.iter().filter(|entry| entry.starts_with(name)).cloned().collect();
                assert_eq!(of, numbered(name, 0..200), "{workers} workers, a lane of {records}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn lane_6_a_waiters_for_the_lifecycle_lane_are_served_in_the_order_they_came() {
    within(async {
        for workers in [1, 2] {
            let lane = Lane { records: 1, ..Lane::LIFECYCLE };
            let stage = Stage::with(workers, |builder| builder.lifecycle_lane(lane)).await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            for number in 0..20 {
                stage.pawn(&format!("g{number}")).await.send(Go::to("w")).await.unwrap();
                until(|| wide.queued().1 as usize + wide.waiting().1 == number + 1).await;
            }
            assert_eq!(wide.waiting(), (0, 19));
            kept.go.set();
            let mut lines = stage.lines().await;
            lines.retain(|entry| entry.starts_with("join"));
            assert_eq!(lines, numbered("join g", 0..20));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_6_b_a_newcomer_does_not_overtake_those_who_wait() {
    within(async {
        // By weight a small newcomer would fit, but a large one waits before it.
        let lane = Lane { bytes: 2000, ..Lane::APPLICATION };
        let stage = Stage::with(1, |builder| builder.application_lane(lane)).await;
        let wide = stage.wide("w").await;
        let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
        let large = tokio::spawn(wide.send(Blob(Vec::with_capacity(1600))));
        until(|| wide.waiting().0 == 1).await;
        assert_eq!(wide.try_send(line("newcomer")).unwrap_err().kind(), ErrorKind::CapacityExceeded);
        let small = tokio::spawn(wide.send(line("small")));
        until(|| wide.waiting().0 == 2).await;
        assert_eq!(wide.queued().0, 1);
        kept.go.set();
        large.await.unwrap().unwrap();
        small.await.unwrap().unwrap();
        assert_eq!(stage.lines().await, ["small"]);
    })
    .await;
}

#[tokio::test]
async fn lane_6_c_a_cancelled_waiter_leaves_nothing_behind() {
    within(async {
        for workers in [1, 2, 8] {
            let stage = Stage::with(workers, |builder| builder.application_lane(ONE)).await;
            let wide = stage.wide("w").await;
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            let before = (wide.queued(), wide.reserved_bytes(), stage.node.metrics().accepted);
            let mut sends = Vec::new();
            for number in 0..100 {
                sends.push(Some(tokio::spawn(wide.send(line(format!("{number}"))))));
                until(|| wide.waiting().0 == number + 1).await;
            }
            // The first, the last, and every second one.
            for number in (0..100).filter(|number| number % 2 == 0 || *number == 99) {
                let send = sends[number].take().unwrap();
                send.abort();
                assert!(send.await.unwrap_err().is_cancelled());
            }
            assert_eq!(wide.waiting().0, 49);
            assert_eq!((wide.queued(), wide.reserved_bytes(), stage.node.metrics().accepted), before);
            kept.go.set();
            for send in sends.into_iter().flatten() {
                send.await.unwrap().unwrap();
            }
            assert_eq!(stage.lines().await, numbered("", (1..99).step_by(2)));
            assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn lane_6_c_those_behind_a_cancelled_waiter_get_the_room_that_only_it_could_not_use() {
    within(async {
        for expires in [false, true] {
            let lane = Lane { bytes: 2000, ..Lane::APPLICATION };
            let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
            let wide = stage.wide("w").await;
            // The handler that holds the room waits for what stands in line: nothing else will end it.
            let (yields, resume) = (Signal::new(), Signal::new());
            let steps = vec![Step::Set(yields.clone()), Step::Yield(resume.clone()), note("resumed")];
            wide.send(Play(steps)).await.unwrap();
            yields.wait().await;
            let large = wide.send(Blob(Vec::with_capacity(1600)));
            let large = match expires {
                true => tokio::spawn(large.timeout(std::time::Duration::from_millis(100))),
                false => tokio::spawn(large),
            };
            until(|| wide.waiting().0 == 1).await;
            let small = tokio::spawn(wide.send(Play(vec![note("small"), Step::Set(resume)])));
            until(|| wide.waiting().0 == 2 || large.is_finished()).await;
            if expires {
                assert_eq!(large.await.unwrap().unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            } else {
                large.abort();
                let _ = large.await;
            }
            let served = tokio::time::timeout(std::time::Duration::from_secs(3), small).await;
            served.expect("there is room, and nobody before it").unwrap().unwrap();
            assert_eq!(stage.lines().await, ["small", "resumed"]);
        }
    })
    .await;
}

/// Counts its end, handled or not.
struct Counted {
    dropped: Arc<AtomicU64>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Message)]
struct Carry(#[message(no_heap)] Counted);

impl Handles<Carry> for Wide {
    async fn handle(turn: &mut Turn<'_, Self>, carry: Carry) -> Result<(), Never> {
        turn.total += 1;
        drop(carry.0);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lane_6_c_a_wait_cancelled_just_when_room_comes_is_delivered_once_or_gone_once() {
    within(async {
        const ROUNDS: u64 = 2000;
        let stage = Stage::with(2, |builder| builder.application_lane(ONE)).await;
        let wide = stage.wide("w").await;
        let dropped = Arc::new(AtomicU64::new(0));
        let mut certain = 0;
        for _ in 0..ROUNDS {
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            let waits = tokio::spawn(wide.send(Carry(Counted { dropped: dropped.clone() })));
            until(|| wide.waiting().0 == 1).await;
            kept.go.set();
            waits.abort();
            certain += u64::from(waits.await.is_ok());
        }
        stage.node.quiesce().await.unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), ROUNDS, "each is gone exactly once");
        let handled = wide.ask(Total).await.unwrap();
        assert!(handled >= certain && handled <= ROUNDS, "{certain} {handled}");
        stage.node.quiesce().await.unwrap();
        assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
    })
    .await;
}

#[tokio::test]
async fn lane_6_d_the_line_is_bounded_and_the_next_is_refused_at_once() {
    within(async {
        assert_eq!(WAITERS_MAX, 65_536);
        let stage = Stage::with(2, |builder| builder.application_lane(ONE)).await;
        let wide = stage.wide("w").await;
        let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
        let mut line_up = Vec::with_capacity(WAITERS_MAX);
        for _ in 0..WAITERS_MAX {
            let mut send = wide.send(Play(Vec::new()));
            assert!(futures_util::poll!(&mut send).is_pending());
            line_up.push(send);
        }
        assert_eq!(wide.waiting().0, WAITERS_MAX);
        let mut one_more = wide.send(line("one more"));
        let Poll::Ready(Err(refused)) = futures_util::poll!(&mut one_more) else {
            panic!("one more waits, too");
        };
        assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
        let mut one_more = wide.ask(line("one more"));
        let Poll::Ready(Err(refused)) = futures_util::poll!(&mut one_more) else {
            panic!("one more waits, too");
        };
        assert_eq!(refused.kind(), Some(ErrorKind::CapacityExceeded));
        assert!(refused.into_message().is_some());
        // One leaves, one may come.
        drop(line_up.swap_remove(1000));
        let mut one = wide.send(line("one"));
        assert!(futures_util::poll!(&mut one).is_pending());
        drop(line_up);
        assert_eq!(wide.waiting().0, 1);
        kept.go.set();
        one.await.unwrap();
        assert_eq!(stage.lines().await, ["one"]);
    })
    .await;
}
