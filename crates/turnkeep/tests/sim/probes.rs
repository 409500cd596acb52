//! The probes by themselves: on threads, without a runtime, and in a Sim.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::testing::{Door, Log, Overlap, Random, Rendezvous, Signal, explore, sleep, within};

fn is_over(future: impl Future) -> bool {
    pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn probe_rendezvous_lets_nobody_go_before_all_have_come() {
    explore(0..50, |sim| {
        let node = sim.node(Node::builder());
        let (meeting, log) = (Rendezvous::new(3), Log::new());
        let tasks: Vec<_> = (0..3)
            .map(|number| {
                let (meeting, log) = (meeting.clone(), log.clone());
                node.spawn(async move {
                    for round in 0..4 {
                        (0..number).for_each(|_| log.push((round, number)));
                        meeting.meet().await;
                        log.push((round, 9));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| sim.run(task).unwrap());
        let rounds: Vec<u32> =
            log.take().into_iter().filter(|entry| entry.1 != 9).map(|entry| entry.0).collect();
        assert!(rounds.is_sorted() && rounds.len() == 12, "{rounds:?}");
        assert_eq!(meeting.arrived(), 12);
    });
    assert!(is_over(Rendezvous::new(0).meet()));
}

#[test]
fn probe_signal_wakes_threads_and_futures() {
    let signal = Signal::new();
    assert!(!is_over(signal.wait()));
    let waits = signal.clone();
    let thread = thread::spawn(move || waits.wait_blocking());
    signal.set();
    signal.set();
    thread.join().unwrap();
    assert!(signal.is_set() && is_over(signal.wait()));
}

#[test]
fn probe_door_closes_again() {
    let door = Door::new();
    let mut waiting = Box::pin(door.pass());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(door.waiting(), 1);
    door.open();
    door.close();
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waiting);
    assert_eq!(door.waiting(), 0);
    door.open();
    assert!(is_over(door.pass()));
}

#[test]
fn probe_overlap_counts_who_is_inside() {
    let overlap = Overlap::new();
    let one = overlap.enter();
    drop(overlap.enter());
    assert_eq!((overlap.now(), overlap.most(), overlap.entries()), (1, 2, 2));
    drop(one);
    assert_eq!(overlap.now(), 0);
}

#[tokio::test]
async fn probe_within_and_sleep_need_no_runtime_of_their_own() {
    let long = Duration::from_secs(60);
    within(long, sleep(Duration::from_millis(1))).await;
    let late = tokio::spawn(within(Duration::from_millis(1), std::future::pending::<()>()));
    assert!(within(long, late).await.unwrap_err().is_panic());
}

#[test]
fn probe_random_repeats_and_stays_below() {
    let numbers = |seed| {
        let mut random = Random::new(seed);
        (0..100).map(|_| random.below(10)).collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
    assert!(numbers(3).iter().all(|number| *number < 10));
    assert_eq!(Random::new(1).below(0), 0);
}
