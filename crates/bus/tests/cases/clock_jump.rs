//! Clock jump: timers follow the clock they are told, never early, never backwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep_bus::{Bus, Clock, Live, Progress, Schedule};

use crate::support::{Player, Record, say};

const SECOND: u64 = 1_000_000_000;

/// A live bus on a clock in the test's hand, with a timer at 60 s.
fn told() -> (Live<u64>, Arc<AtomicU64>, Record) {
    let clock = Arc::new(AtomicU64::new(0));
    let read = clock.clone();
    let record = Record::default();
    let mut bus = Bus::default();
    let play: crate::support::Play = Box::new(|_, _| Ok(()));
    let id = bus.context().register("S", Player { name: "S", record: record.clone(), play }).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, _>(id, "x", 0).unwrap();
    let minute = Schedule { first_ns: 60 * SECOND, interval_ns: None, stop_ns: None };
    bus.context().set_timer_for(id, "minute", minute).unwrap();
    let clock_of = Clock::Told(Box::new(move || read.load(Ordering::Relaxed)));
    let live = Live::new(bus, 4, clock_of, |ctx, _| say(ctx, "x", "message"));
    (live, clock, record)
}

fn work(live: &mut Live<u64>) {
    while live.batch().unwrap() == Progress::More {}
}

#[test]
fn cb_80_a_timer_never_fires_before_its_instant_and_once_after_it() {
    let (mut live, clock, record) = told();
    let sender = live.sender();
    for seconds in [10, 30, 59] {
        clock.store(seconds * SECOND, Ordering::Relaxed);
        work(&mut live);
        assert_eq!(record.line(), "", "{seconds}");
    }
    clock.store(60 * SECOND - 1, Ordering::Relaxed);
    work(&mut live);
    assert_eq!(record.line(), "");
    clock.store(60 * SECOND, Ordering::Relaxed);
    work(&mut live);
    assert_eq!(record.line(), format!("S(minute@{})", 60 * SECOND));
    clock.store(86_400 * SECOND, Ordering::Relaxed);
    work(&mut live);
    assert_eq!(record.line(), "");
    drop(sender);
}

#[test]
fn cb_80_a_jump_forward_fires_once_and_with_the_clock_at_the_due_time() {
    let (mut live, clock, record) = told();
    let sender = live.sender();
    clock.store(86_400 * SECOND, Ordering::Relaxed);
    work(&mut live);
    assert_eq!(record.line(), format!("S(minute@{})", 60 * SECOND));
    assert_eq!(live.context().now_ns(), 86_400 * SECOND);
    drop(sender);
}

#[test]
fn cb_80_a_jump_backward_neither_turns_the_clock_nor_loses_a_message() {
    let (mut live, clock, record) = told();
    let sender = live.sender();
    clock.store(40 * SECOND, Ordering::Relaxed);
    work(&mut live);
    clock.store(10 * SECOND, Ordering::Relaxed);
    sender.send(None, 1).unwrap();
    work(&mut live);
    assert_eq!(record.line(), "S(message)");
    assert_eq!(live.context().now_ns(), 40 * SECOND, "it never goes back");
    clock.store(60 * SECOND, Ordering::Relaxed);
    work(&mut live);
    assert_eq!(record.take().len(), 1);
}

#[test]
fn cb_79_events_carry_their_own_times_whatever_the_clocks_of_their_senders_say() {
    let record = Record::default();
    let mut bus = Bus::default();
    let play: crate::support::Play = Box::new(|_, _| Ok(()));
    let id = bus.context().register("S", Player { name: "S", record: record.clone(), play }).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, _>(id, "x", 0).unwrap();
    let mut live = Live::new(bus, 8, Clock::Events, |ctx, _: u64| say(ctx, "x", "message"));
    let sender = live.sender();
    sender.send(Some(50 * SECOND), 1).unwrap();
    sender.send(None, 2).unwrap();
    work(&mut live);
    assert_eq!(record.line(), "S(message) S(message)");
    // A sender whose clock is behind is told, and nothing else is lost.
    sender.send(Some(SECOND), 3).unwrap();
    sender.send(Some(51 * SECOND), 4).unwrap();
    assert!(live.batch().is_err());
    work(&mut live);
    assert_eq!(record.line(), "S(message)");
}
