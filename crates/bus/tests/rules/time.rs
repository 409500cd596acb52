//! Time: timers, replay, live, the same order in both (TIME).

use std::sync::{Arc, Mutex};

use turnkeep_bus::{Bus, Clock, Context, FaultKind, Halt, Limits, Live, Replay, Schedule, TimerError};

use crate::support::{Player, Record, Say, say};

fn alert(at_ns: u64) -> Schedule {
    Schedule { first_ns: at_ns, interval_ns: None, stop_ns: None }
}

fn every(first_ns: u64, interval_ns: u64, stop_ns: Option<u64>) -> Schedule {
    Schedule { first_ns, interval_ns: Some(interval_ns), stop_ns }
}

/// A bus with one player on `x`.
fn bus_with(
    bus: Bus,
    name: &'static str,
    play: impl FnMut(&mut Context<'_>, &Say) -> Result<(), turnkeep_bus::Failure> + Send + 'static,
) -> (Bus, Record, turnkeep_bus::ComponentId<Player>) {
    let mut bus = bus;
    let record = Record::default();
    let player = Player { name, record: record.clone(), play: Box::new(play) };
    let id = bus.context().register(name, player).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    (bus, record, id)
}

#[test]
fn time_1_a_timers_before_the_data_fire_one_by_one_with_the_clock_at_their_time_and_settle() {
    let (bus, record, id) = bus_with(Bus::default(), "S", |ctx, event| {
        if event.0 == "timer" {
            say(ctx, "x", "from a timer");
        }
        Ok(())
    });
    let mut replay = Replay::new(bus);
    replay.context().set_timer_for(id, "t", every(10, 10, None)).unwrap();
    replay.step(25, |ctx| say(ctx, "x", "data")).unwrap();
    assert_eq!(record.line(), "S(t@10) S(from a timer) S(t@20) S(from a timer) S(data)");
    assert_eq!(replay.context().now_ns(), 25);
}

#[test]
fn time_1_b_timers_at_the_instant_fire_after_all_of_its_data() {
    let (bus, record, id) = bus_with(Bus::default(), "S", |_, _| Ok(()));
    let mut replay = Replay::new(bus);
    replay.context().set_timer_for(id, "t", alert(10)).unwrap();
    replay.step(10, |ctx| say(ctx, "x", "first")).unwrap();
    replay.step(10, |ctx| say(ctx, "x", "second")).unwrap();
    assert_eq!(record.line(), "S(first) S(second)");
    replay.finish(10).unwrap();
    assert_eq!(record.line(), "S(t@10)");
}

#[test]
fn time_1_c_stop_times_are_inclusive() {
    for (stop_ns, wanted) in [(30, "S(t@10) S(t@20) S(t@30)"), (5, ""), (35, "S(t@10) S(t@20) S(t@30)")] {
        let (bus, record, id) = bus_with(Bus::default(), "S", |_, _| Ok(()));
        let mut replay = Replay::new(bus);
        replay.context().set_timer_for(id, "t", every(10, 10, Some(stop_ns))).unwrap();
        replay.finish(100).unwrap();
        assert_eq!((record.line().as_str(), replay.context().timers()), (wanted, 0));
    }
}

#[test]
fn time_1_d_the_clock_never_goes_back() {
    let (bus, record, id) = bus_with(Bus::default(), "S", |_, _| Ok(()));
    let mut replay = Replay::new(bus);
    replay.step(10, |_| {}).unwrap();
    let refused = replay.step(9, |ctx| say(ctx, "x", "old")).unwrap_err();
    assert_eq!(refused, Halt::OutOfOrder { time_ns: 9, now_ns: 10 });
    assert_eq!((record.line().as_str(), replay.context().now_ns()), ("", 10));
    let past = replay.context().set_timer_for(id, "t", alert(9)).unwrap_err();
    assert_eq!(past, TimerError::Past { name: "t".into(), due_ns: 9, now_ns: 10 });
}

#[test]
fn time_2_a_ties_go_by_name_then_registration() {
    let (bus, record, id) = bus_with(Bus::default(), "S", |_, _| Ok(()));
    let mut replay = Replay::new(bus);
    let other = Player { name: "T", record: record.clone(), play: Box::new(|_, _| Ok(())) };
    let other = replay.context().register("T", other).unwrap();
    replay.context().start(other).unwrap();
    replay.context().set_timer_for(other, "b", alert(5)).unwrap();
    replay.context().set_timer_for(id, "b", alert(5)).unwrap();
    replay.context().set_timer_for(id, "a", alert(5)).unwrap();
    replay.finish(5).unwrap();
    assert_eq!(record.line(), "S(a@5) T(b@5) S(b@5)");
}

/// The bytes of a log.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A bus with a log, a digest, timers and components that answer each other.
fn lively() -> (Bus, Bytes, Record) {
    let bytes = Bytes::default();
    let bus = Bus::builder().log(bytes.clone()).digest().build();
    let (mut bus, record, id) = bus_with(bus, "S", |ctx, event| {
        if event.1.is_multiple_of(3) {
            ctx.publish_to("y", Say("answer", event.1))?;
        }
        if event.1.is_multiple_of(5) {
            let name = format!("t{}", event.1);
            let at = ctx.now_ns() + 7;
            let _ = ctx.set_timer(&name, alert(at));
        }
        Ok(())
    });
    for name in ["A", "B"] {
        let play =
            |ctx: &mut Context<'_>, event: &Say| Ok(ctx.publish_to("z", Say("echo", event.1 * 3 + 1))?);
        let player = Player { name, record: record.clone(), play: Box::new(play) };
        let other = bus.context().register(name, player).unwrap();
        bus.context().start(other).unwrap();
        bus.context().subscribe::<Player, Say>(other, "y", 0).unwrap();
    }
    bus.context().subscribe::<Player, Say>(id, "z", -1).unwrap();
    (bus, bytes, record)
}

fn times() -> impl Iterator<Item = u64> {
    (1..200).map(|n| n * 4 / 3)
}

fn replayed() -> (u64, Vec<u8>, Vec<String>) {
    let (bus, bytes, record) = lively();
    let mut replay = Replay::new(bus);
    replay.start().unwrap();
    for (number, at) in (0_u64..).zip(times()) {
        replay.step(at, |ctx| ctx.publish_to("x", Say("n", number)).unwrap()).unwrap();
    }
    let end = replay.context().now_ns();
    replay.finish(end).unwrap();
    replay.flush_log().unwrap();
    let log = bytes.0.lock().unwrap().clone();
    (replay.context().digest().unwrap(), log, record.take())
}

#[test]
fn time_2_b_a_hundred_replays_give_byte_identical_logs() {
    let first = replayed();
    assert!(first.1.len() > 10_000 && first.2.len() > 300);
    assert!((0..99).all(|_| replayed() == first));
}

#[test]
fn time_3_live_and_replay_of_the_same_events_have_the_same_order_and_digest() {
    let (digest, _, calls) = replayed();
    let (bus, _, record) = lively();
    let feed = |ctx: &mut Context<'_>, number: u64| ctx.publish_to("x", Say("n", number)).unwrap();
    let mut live = Live::new(bus, 4, Clock::Events, feed);
    live.start().unwrap();
    let sender = live.sender();
    let sending = std::thread::spawn(move || {
        for (number, at) in (0_u64..).zip(times()) {
            sender.send(Some(at), number).unwrap();
        }
    });
    live.run(|| {}).unwrap();
    sending.join().unwrap();
    assert_eq!(record.take(), calls);
    assert_eq!(live.context().digest(), Some(digest));
}

#[test]
fn time_4_timers_that_keep_re_arming_at_one_instant_end_in_a_runaway() {
    let bus = Bus::builder().limits(Limits { firings: 50, ..Limits::default() }).build();
    let mut count = 0_u64;
    let (bus, record, id) = bus_with(bus, "S", move |ctx, _| {
        count += 1;
        Ok(ctx.set_timer(&format!("again{count}"), alert(ctx.now_ns()))?)
    });
    let mut replay = Replay::new(bus);
    replay.context().set_timer_for(id, "first", alert(5)).unwrap();
    let Err(Halt::Fault(report)) = replay.finish(10) else { panic!("must halt") };
    assert_eq!(report.kind, FaultKind::Runaway);
    assert_eq!(record.take().len(), 50);
    assert_eq!(Limits::default().firings, 1_000_000);
}

#[test]
fn time_2_c_every_component_names_its_timers_for_itself() {
    let (bus, _, id) = bus_with(Bus::default(), "S", |_, _| Ok(()));
    let mut replay = Replay::new(bus);
    replay.context().set_timer_for(id, "t", alert(5)).unwrap();
    let taken = replay.context().set_timer_for(id, "t", alert(6)).unwrap_err();
    assert_eq!(taken, TimerError::NameTaken { name: "t".into() });
    let zero = replay.context().set_timer_for(id, "z", every(5, 0, None)).unwrap_err();
    assert_eq!(zero, TimerError::NoInterval { name: "z".into() });
    assert!(matches!(replay.context().set_timer("t", alert(5)), Err(TimerError::NoOwner { .. })));
}
