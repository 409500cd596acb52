//! Roots: who shares one, what it pays for, how long it lives (ROOT).

use std::sync::{Arc, Mutex};

use turnkeep_bus::{
    Bus, Clock, Context, Ended, FaultKind, Hosted, Limits, Live, Progress, Replay, Schedule, Sender,
};

use crate::support::{Player, Record, Say, Stage, say};

fn limited(deliveries: u64) -> Stage {
    Stage::with(Bus::builder().limits(Limits { deliveries, ..Limits::default() }).build())
}

#[test]
fn root_1_a_nested_publications_inherit_and_empty_ones_make_no_root() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    stage.publish("nobody.listens", "-");
    assert_eq!(stage.ctx().metrics().roots, 0);
    stage.ctx().scope(|ctx| {
        say(ctx, "y", "empty");
        say(ctx, "x", "1");
        say(ctx, "x", "2");
    });
    assert_eq!((stage.ctx().metrics().roots, stage.ctx().metrics().depth), (1, 2));
}

#[test]
fn root_1_b_a_publication_inside_a_callback_inherits_its_root() {
    let mut stage = Stage::default();
    stage.player("S", &[("x", 0)], |ctx, _| {
        say(ctx, "y", "1");
        say(ctx, "y", "2");
        Ok(())
    });
    stage.listener("T", &[("y", 0)]);
    stage.publish("x", "-");
    stage.settle();
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.max_chain), (1, 3));
}

#[test]
fn root_2_outside_a_publication_each_admission_has_a_root_of_its_own_unless_one_is_active() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    stage.ctx().post(id, Say("1", 0)).unwrap();
    stage.ctx().post(id, Say("2", 0)).unwrap();
    assert_eq!(stage.ctx().metrics().roots, 2);
    stage.settle();
    assert_eq!(stage.ctx().metrics().max_chain, 1);
    stage.player("P", &[("x", 0)], move |ctx, _| {
        ctx.post(id, Say("3", 0))?;
        Ok(ctx.post(id, Say("4", 0))?)
    });
    stage.publish("x", "-");
    stage.settle();
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.max_chain), (3, 3));
}

#[test]
fn root_3_completed_deliveries_count_and_cancelled_ones_do_not() {
    let mut stage = Stage::default();
    let gone = stage.listener("gone", &[("x", 9)]);
    stage.listener("S", &[("x", 0)]);
    stage.publish("x", "-");
    stage.ctx().stop(gone).unwrap();
    stage.ctx().retire(gone).unwrap();
    stage.settle();
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.max_chain, metrics.chains[1], metrics.cancelled), (1, 1, 1));
}

/// A component that publishes to itself for ever.
fn endless(stage: &mut Stage) {
    stage.player("loop", &[("loop", 0)], |ctx, _| {
        say(ctx, "loop", "again");
        Ok(())
    });
    stage.publish("loop", "begin");
}

#[test]
fn root_4_at_the_limit_the_next_callback_stays_queued_and_the_whole_bus_halts() {
    let mut stage = limited(10);
    endless(&mut stage);
    stage.listener("other", &[("other", 0)]);
    stage.publish("other", "of another root");
    let drained = stage.bus.boundary().drain(100);
    assert_eq!((drained.delivered, drained.left, drained.ended), (11, 1, Ended::Faulted));
    assert_eq!(stage.record.take().iter().filter(|call| call.starts_with("loop")).count(), 10);
    let report = stage.ctx().fault_report().cloned().unwrap();
    assert_eq!((report.kind, report.deliveries, report.depth), (FaultKind::Runaway, 10, 1));
    stage.publish("other", "refused");
    assert_eq!(stage.bus.boundary().drain(9).delivered, 0);
}

#[test]
fn root_4_exactly_the_limit_is_no_fault() {
    let mut stage = limited(3);
    let mut left = 2;
    stage.player("S", &[("x", 0)], move |ctx, _| {
        if left > 0 {
            left -= 1;
            say(ctx, "x", "again");
        }
        Ok(())
    });
    stage.publish("x", "first");
    assert_eq!(stage.settle(), "S(first) S(again) S(again)");
}

#[test]
fn root_4_the_default_limit_is_1048576() {
    let mut stage = Stage::default();
    stage.player("loop", &[("loop", 0)], |ctx, _| {
        ctx.publish_to("loop", Say("again", 0))?;
        Ok(())
    });
    stage.publish("loop", "begin");
    let drained = stage.bus.boundary().drain(2_000_000);
    assert_eq!(drained.delivered, 1_048_576);
}

#[test]
fn root_5_an_empty_queue_resets_nothing_while_something_holds_the_root() {
    let mut stage = limited(4);
    let kept = Arc::new(Mutex::new(None));
    let place = kept.clone();
    stage.player("S", &[("x", 0)], move |ctx, say| {
        if say.0 == "keep" {
            *place.lock().unwrap() = Some(ctx.retain(0_u8, 0)?);
        }
        Ok(())
    });
    stage.publish("x", "keep");
    stage.settle();
    assert_eq!((stage.ctx().metrics().depth, stage.ctx().metrics().roots_alive), (0, 1));
    let retained = kept.lock().unwrap().take().unwrap();
    for _ in 0..3 {
        stage.ctx().with_chain(&retained, |ctx| say(ctx, "x", "more"));
        stage.settle();
    }
    stage.ctx().with_chain(&retained, |ctx| say(ctx, "x", "one too many"));
    assert_eq!(stage.bus.boundary().drain(9).ended, Ended::Faulted, "the budget went on over empty queues");
    drop(retained);
    stage.bus.boundary().teardown().unwrap();
    assert_eq!(stage.ctx().metrics().roots_alive, 0);
}

#[test]
fn root_5_retained_roots_alone_keep_no_loop_going() {
    let mut stage = Stage::default();
    let retained = stage.ctx().retain(1_u8, 0).unwrap();
    assert_eq!(stage.ctx().metrics().roots_alive, 1);
    assert_eq!(stage.bus.batch(), Ok(Progress::Idle));
    drop(retained);
}

#[test]
fn root_5_the_last_holder_frees_root_and_charge() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    for _ in 0..1000 {
        stage.publish("x", "-");
        stage.settle();
    }
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.roots_alive, metrics.chains[1]), (1000, 0, 1000));
}

/// A live bus whose component sends each number that it gets, less one, into its own channel.
fn echo(limits: Limits) -> (Live<u64>, Record) {
    let mut bus = Bus::builder().limits(limits).build();
    let record = Record::default();
    let sender: Arc<Mutex<Option<Sender<u64>>>> = Arc::default();
    let end = sender.clone();
    let play = move |_: &mut Context<'_>, say: &Say| {
        if say.1 > 0
            && let Some(sender) = &*end.lock().unwrap()
        {
            sender.send(None, say.1 - 1).unwrap();
        }
        Ok(())
    };
    let id = bus
        .context()
        .register("S", Player { name: "S", record: record.clone(), play: Box::new(play) })
        .unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    let live =
        Live::new(bus, 16, Clock::Events, |ctx, left: u64| ctx.publish_to("x", Say("n", left)).unwrap());
    *sender.lock().unwrap() = Some(live.sender());
    (live, record)
}

#[test]
fn root_6_a_roots_follow_live_channels_on_the_buss_thread() {
    let (mut live, _record) = echo(Limits { deliveries: 5, ..Limits::default() });
    live.sender().send(None, 3).unwrap();
    while live.batch().unwrap() == Progress::More {}
    let metrics = live.context().metrics();
    assert_eq!((metrics.roots, metrics.max_chain, metrics.roots_alive), (1, 4, 0));
    live.sender().send(None, 9).unwrap();
    let halt = loop {
        if let Err(halt) = live.batch() {
            break halt;
        }
    };
    assert!(halt.to_string().contains("runaway"), "{halt}");
}

#[test]
fn root_6_b_other_threads_and_timers_are_independent_ingress() {
    let (mut live, _record) = echo(Limits::default());
    let sender = live.sender();
    std::thread::spawn(move || (0..10).for_each(|_| sender.send(None, 0).unwrap())).join().unwrap();
    while live.batch().unwrap() == Progress::More {}
    let metrics = live.context().metrics();
    assert_eq!((metrics.roots, metrics.max_chain), (10, 1));

    let mut stage = Stage::default();
    stage.player("S", &[("x", 0)], |ctx, say| {
        if say.0 == "begin" {
            ctx.set_timer("t", Schedule { first_ns: 5, interval_ns: Some(5), stop_ns: Some(50) })?;
        }
        Ok(())
    });
    stage.publish("x", "begin");
    stage.bus.set_time(100);
    stage.settle();
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.timers, metrics.roots, metrics.max_chain), (10, 11, 1));
}

#[test]
fn root_6_c_unrelated_events_never_share_a_budget() {
    let bus = Bus::builder().limits(Limits { deliveries: 2, ..Limits::default() }).build();
    let mut stage = Stage { bus: Hosted::new(bus), record: Record::default() };
    stage.listener("S", &[("x", 0)]);
    (0..100).for_each(|_| stage.publish("x", "-"));
    stage.settle();
    assert!(stage.ctx().fault_report().is_none());
}

#[test]
fn root_6_d_data_of_a_replay_has_roots_of_its_own_a_step() {
    let mut replay = Replay::new(Bus::default());
    let record = Record::default();
    let player = Player { name: "S", record, play: Box::new(|_, _| Ok(())) };
    let id = replay.context().register("S", player).unwrap();
    replay.context().start(id).unwrap();
    replay.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    (1..=5).for_each(|at| replay.step(at, |ctx| say(ctx, "x", "-")).unwrap());
    assert_eq!(replay.context().metrics().roots, 5);
}
