//! Timer after close: timers end with their components, on every way to an end, and with their bus.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use turnkeep_bus::{Bus, Clock, Component, Context, Failure, Hosted, Live, Replay, Schedule, Timer};

struct Ticking {
    ticks: Arc<AtomicU64>,
    drops: Arc<AtomicU64>,
    fails: bool,
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Component for Ticking {
    fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(ctx.set_timer("tick", Schedule { first_ns: 5, interval_ns: Some(5), stop_ns: None })?)
    }
    fn on_timer(&mut self, _: &mut Context<'_>, _: &Timer) -> Result<(), Failure> {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        if self.fails { Err("as the test wants".into()) } else { Ok(()) }
    }
}

struct Many {
    bus: Hosted,
    ids: Vec<turnkeep_bus::ComponentId<Ticking>>,
    ticks: Arc<AtomicU64>,
    drops: Arc<AtomicU64>,
}

fn many(count: usize, fails: bool) -> Many {
    let (ticks, drops) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let mut bus = Hosted::new(Bus::default());
    let mut ids = Vec::new();
    for number in 0..count {
        let ticking = Ticking { ticks: ticks.clone(), drops: drops.clone(), fails };
        let id = bus.context().register(&number.to_string(), ticking).unwrap();
        bus.context().start(id).unwrap();
        ids.push(id);
    }
    assert_eq!(bus.context().timers(), count);
    Many { bus, ids, ticks, drops }
}

#[test]
fn cb_39_no_way_to_an_end_leaves_a_timer_behind() {
    type End = fn(&mut Context<'_>, turnkeep_bus::ComponentKey);
    let ends: [(&str, End); 4] = [
        ("retired", |ctx, key| {
            ctx.stop(key).unwrap();
            ctx.retire(key).unwrap();
        }),
        ("reset", |ctx, key| {
            ctx.stop(key).unwrap();
            ctx.reset(key).unwrap();
        }),
        ("faulted", |ctx, key| ctx.fault(key).unwrap()),
        ("replaced", |ctx, key| {
            struct Quiet;
            impl Component for Quiet {}
            ctx.replace(key, Quiet).unwrap();
        }),
    ];
    for (name, end) in ends {
        let Many { mut bus, ids, ticks, .. } = many(3, false);
        bus.set_time(10);
        bus.settle().unwrap();
        assert_eq!(ticks.swap(0, Ordering::Relaxed), 6);
        ids.iter().for_each(|id| end(&mut bus.context(), id.key()));
        assert_eq!(bus.context().timers(), 0, "{name}");
        bus.set_time(1_000);
        bus.settle().unwrap();
        assert_eq!(ticks.load(Ordering::Relaxed), 0, "{name}");
    }
}

#[test]
fn cb_39_a_failing_tick_ends_its_own_timer() {
    let Many { mut bus, ticks, .. } = many(3, true);
    bus.set_time(1_000);
    bus.settle().unwrap();
    assert_eq!((ticks.load(Ordering::Relaxed), bus.context().timers()), (3, 0));
}

#[test]
fn cb_40_a_tick_that_cancels_its_own_timer_runs_to_its_end() {
    struct Once(Arc<AtomicU64>);
    impl Component for Once {
        fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
            Ok(ctx.set_timer("tick", Schedule { first_ns: 5, interval_ns: Some(5), stop_ns: None })?)
        }
        fn on_timer(&mut self, ctx: &mut Context<'_>, _: &Timer) -> Result<(), Failure> {
            assert!(ctx.cancel_timer("tick"));
            let own = ctx.this().ok_or("no component")?;
            ctx.stop(own)?;
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    let ticks = Arc::<AtomicU64>::default();
    let mut bus = Hosted::new(Bus::default());
    let id = bus.context().register("once", Once(ticks.clone())).unwrap();
    bus.context().start(id).unwrap();
    bus.set_time(100);
    bus.settle().unwrap();
    assert_eq!((ticks.load(Ordering::Relaxed), bus.context().timers()), (1, 0));
    assert_eq!(bus.context().state(id), Some(turnkeep_bus::State::Stopped));
}

#[test]
fn cb_41_a_thousand_timers_end_with_their_components_with_the_bus_and_with_a_panic() {
    let Many { mut bus, ids, ticks, drops } = many(1_000, false);
    for id in ids {
        bus.context().stop(id).unwrap();
        bus.context().retire(id).unwrap();
    }
    assert_eq!((bus.context().timers(), drops.load(Ordering::Relaxed)), (0, 1_000));
    bus.set_time(1_000);
    bus.settle().unwrap();
    assert_eq!(ticks.load(Ordering::Relaxed), 0);

    let Many { bus, drops, .. } = many(1_000, false);
    drop(bus);
    assert_eq!(drops.load(Ordering::Relaxed), 1_000);

    let Many { bus, drops, ticks, .. } = many(1_000, false);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _bus = bus;
        panic!("with the bus in hand");
    }));
    assert!(unwound.is_err());
    assert_eq!((drops.load(Ordering::Relaxed), ticks.load(Ordering::Relaxed)), (1_000, 0));
}

/// The scheduled times of a timer with that stop time: in a replay, and live on the machine's clock with a delivery
/// that is held up.
fn both(stop_ms: u64) -> [Vec<u64>; 2] {
    const MS: u64 = 1_000_000;
    struct Times(Arc<std::sync::Mutex<Vec<u64>>>, u64, bool);
    impl Component for Times {
        fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
            let schedule = Schedule { first_ns: 10 * MS, interval_ns: Some(10 * MS), stop_ns: Some(self.1) };
            Ok(ctx.set_timer("tick", schedule)?)
        }
        fn on_timer(&mut self, _: &mut Context<'_>, timer: &Timer) -> Result<(), Failure> {
            if self.2 && timer.due_ns == 10 * MS {
                std::thread::sleep(Duration::from_millis(50));
            }
            self.0.lock().unwrap().push(timer.due_ns / MS);
            Ok(())
        }
    }
    let set_up = |slow| {
        let times = Arc::<std::sync::Mutex<Vec<u64>>>::default();
        let mut bus = Bus::default();
        let id = bus.context().register("times", Times(times.clone(), stop_ms * MS, slow)).unwrap();
        bus.context().start(id).unwrap();
        (bus, times)
    };
    let (bus, replayed) = set_up(false);
    Replay::new(bus).finish(100 * MS).unwrap();
    let (bus, lived) = set_up(true);
    let mut live = Live::new(bus, 1, Clock::Machine, |_, _: u64| {});
    let sender = live.sender();
    let began = Instant::now();
    while live.context().timers() > 0 && began.elapsed() < Duration::from_secs(30) {
        live.batch().unwrap();
    }
    while live.batch().unwrap() == turnkeep_bus::Progress::More {}
    drop(sender);
    [replayed, lived].map(|times| times.lock().unwrap().clone())
}

#[test]
fn cb_42_both_clocks_give_the_same_scheduled_times() {
    for (stop_ms, wanted) in [(30, vec![10, 20, 30]), (5, vec![]), (35, vec![10, 20, 30])] {
        assert_eq!(both(stop_ms), [wanted.clone(), wanted], "stop {stop_ms}");
    }
}
