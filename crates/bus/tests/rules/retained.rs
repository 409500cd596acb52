//! Retained work, batches and direct invocations (KEEP).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use turnkeep_bus::{
    Bus, Clock, Component, Context, Event, Failure, Limits, Live, On, Progress, Refused, Sender,
};

use crate::support::{Player, Record, Say, Stage, say};

#[test]
fn keep_1_a_retained_work_captures_the_active_root_or_makes_one() {
    let mut stage = Stage::default();
    let own = stage.ctx().retain("alone", 0).unwrap();
    assert_eq!(stage.ctx().metrics().roots, 1);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let place = kept.clone();
    stage.player("S", &[("x", 0)], move |ctx, _| {
        place.lock().unwrap().push(ctx.retain("with the callback", 0)?);
        Ok(())
    });
    stage.publish("x", "-");
    stage.settle();
    assert_eq!((stage.ctx().metrics().roots, stage.ctx().metrics().roots_alive), (2, 2));
    drop((own, kept.lock().unwrap().pop()));
    stage.settle();
    assert_eq!((stage.ctx().metrics().roots_alive, stage.ctx().metrics().units), (0, 0));
}

#[test]
fn keep_1_b_growing_keeps_the_root_and_pays() {
    let mut stage = Stage::with(Bus::builder().limits(Limits { bytes: 10_000, ..Limits::default() }).build());
    let mut kept = stage.ctx().retain(0_u64, 0).unwrap();
    let before = stage.ctx().metrics();
    stage.ctx().grow(&mut kept, 1_000).unwrap();
    let after = stage.ctx().metrics();
    assert_eq!((after.bytes - before.bytes, after.roots), (1_000, 1));
    assert_eq!(stage.ctx().grow(&mut kept, 10_000), Err(Refused::Overflow));
    drop(kept);
    stage.bus.boundary().teardown().unwrap();
    assert_eq!(stage.ctx().metrics().bytes, 0);
}

#[test]
fn keep_1_c_with_chain_restores_the_root_around_it_on_return_and_on_unwind() {
    let mut stage = Stage::default();
    let kept = stage.ctx().retain((), 0).unwrap();
    let kept = Arc::new(Mutex::new(Some(kept)));
    let place = kept.clone();
    stage.player("S", &[("x", 0)], move |ctx, _| {
        let kept = place.lock().unwrap().take().unwrap();
        ctx.with_chain(&kept, |ctx| say(ctx, "y", "of the kept root"));
        let unwound = catch_unwind(AssertUnwindSafe(|| ctx.with_chain(&kept, |_| panic!("inside"))));
        assert!(unwound.is_err());
        say(ctx, "y", "of the callback's root");
        Ok(())
    });
    stage.listener("T", &[("y", 0)]);
    stage.publish("x", "-");
    assert_eq!(stage.settle(), "S(-) T(of the kept root) T(of the callback's root)");
    let metrics = stage.ctx().metrics();
    // One root paid for S and one T, the other for one T: resuming itself was no delivery.
    assert_eq!((metrics.chains[1], metrics.chains[2], metrics.roots), (1, 1, 2));
}

#[test]
fn keep_1_d_a_batch_resumes_each_value_under_its_own_root() {
    let mut stage = Stage::default();
    let mut batch = stage.ctx().batch::<u64>(3, 0).unwrap();
    assert_eq!(stage.ctx().metrics().units, 3, "places are reserved");
    for value in 1..=3 {
        stage.ctx().add(&mut batch, value).unwrap();
    }
    assert_eq!((stage.ctx().metrics().units, stage.ctx().metrics().roots), (3, 3));
    stage.listener("T", &[("y", 0)]);
    let mut seen = Vec::new();
    stage.ctx().resume_batch(batch, |ctx, value| {
        seen.push(value);
        (0..value).for_each(|_| say(ctx, "y", "-"));
    });
    assert_eq!(seen, [1, 2, 3]);
    stage.settle();
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.max_chain, metrics.units), (3, 3, 0));
    assert_eq!((metrics.chains[1], metrics.chains[2]), (1, 2), "one root paid 1, the others 2 and 3");
}

#[derive(Default)]
struct Adder(u64);

impl Component for Adder {}

impl On<u64> for Adder {
    fn on(&mut self, _: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        self.0 += number;
        Ok(())
    }
}

fn adders(stage: &mut Stage, names: &[&str]) -> Vec<turnkeep_bus::ComponentId<Adder>> {
    names.iter().map(|name| stage.ctx().register(name, Adder::default()).unwrap()).collect()
}

#[test]
fn keep_2_a_a_batch_reserves_before_it_builds() {
    let mut stage = Stage::with(Bus::builder().limits(Limits { units: 1, ..Limits::default() }).build());
    let ids = adders(&mut stage, &["a", "b"]);
    let refused = stage.ctx().invoke(&ids, 0, |_| -> u64 { panic!("must not be built") }, |_, _, _| {});
    assert_eq!(refused, Err(Refused::Overflow));
}

#[test]
fn keep_2_b_it_builds_before_it_takes_access_and_calls_in_order() {
    let mut stage = Stage::default();
    let ids = adders(&mut stage, &["a", "b"]);
    let record = Record::default();
    let (built, called) = (record.clone(), record.clone());
    let build = move |at: usize| {
        built.note(format!("build{at}"));
        at as u64 + 1
    };
    let call = move |adder: &mut Adder, _: &mut Context<'_>, number: &u64| {
        adder.0 += number;
        called.note(format!("call{number}"));
    };
    stage.ctx().invoke(&ids, 0, build, call).unwrap();
    assert_eq!(record.line(), "build0 build1 call1 call2");
    assert_eq!(stage.bus.access(ids[1]).unwrap().0, 2);
    assert_eq!(stage.ctx().metrics().units, 0);
}

/// Says when it is dropped, and whether the component was at home by then.
struct Told(Record);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.note("capture dropped");
    }
}

#[test]
fn keep_2_c_on_refusal_access_is_given_up_before_the_captures_are_dropped() {
    let mut stage = Stage::default();
    let ids = adders(&mut stage, &["a", "b"]);
    let record = Record::default();
    std::mem::forget(stage.bus.access(ids[1]).unwrap());
    let build = |_| Told(record.clone());
    assert_eq!(stage.ctx().invoke(&ids, 0, build, |_, _, _| {}), Err(Refused::Busy));
    assert_eq!(record.line(), "capture dropped capture dropped");
    assert_eq!(stage.bus.access(ids[0]).unwrap().0, 0, "the first one is at home again");
    assert_eq!(stage.ctx().metrics().units, 0);
}

#[test]
fn keep_2_d_on_unwind_captures_outlive_the_guards() {
    let mut stage = Stage::default();
    let ids = adders(&mut stage, &["a", "b"]);
    let record = Record::default();
    let build = |_| Told(record.clone());
    let call = |_: &mut Adder, _: &mut Context<'_>, _: &Told| panic!("in the call");
    let unwound = catch_unwind(AssertUnwindSafe(|| stage.ctx().invoke(&ids, 0, build, call)));
    assert!(unwound.is_err());
    assert_eq!(record.line(), "capture dropped capture dropped");
    assert!(stage.bus.access(ids[0]).is_ok() && stage.bus.access(ids[1]).is_ok());
    assert_eq!(stage.ctx().metrics().units, 0);
    assert!(stage.bus.boundary().teardown().is_ok(), "no invocation is left open");
}

/// An event whose destructor sends into a live channel, where the root of the moment goes along.
struct Parting(Sender<&'static str>);

impl Drop for Parting {
    fn drop(&mut self) {
        let _ = self.0.try_send(None, "from the destructor");
    }
}

impl Event for Parting {
    const NAME: &'static str = "parting";
    fn heap_bytes(&self) -> usize {
        0
    }
}

struct Last {
    panics: bool,
}

impl Component for Last {}

impl On<Parting> for Last {
    fn on(&mut self, _: &mut Context<'_>, _: &Parting) -> Result<(), Failure> {
        assert!(!self.panics, "after which the destructor still runs under the root");
        Ok(())
    }
}

/// Publishes an event with such a destructor; the roots that were made in all.
fn parting(panics: bool, delivered: bool) -> (u64, u64) {
    let mut live = Live::new(Bus::default(), 8, Clock::Events, |ctx, what: &'static str| {
        ctx.publish_to("echo", Say(what, 0)).unwrap();
    });
    let record = Record::default();
    let play: crate::support::Play = Box::new(|_, _| Ok(()));
    let listener = live.context().register("L", Player { name: "L", record, play }).unwrap();
    live.context().subscribe::<Player, Say>(listener, "echo", 0).unwrap();
    live.context().start(listener).unwrap();
    let last = live.context().register("last", Last { panics }).unwrap();
    live.context().subscribe::<Last, Parting>(last, "x", 0).unwrap();
    live.context().start(last).unwrap();
    let sender = live.sender();
    live.context().publish_to("x", Parting(sender)).unwrap();
    if !delivered {
        live.context().stop(last).unwrap();
    }
    while matches!(live.batch(), Ok(Progress::More)) {}
    let metrics = live.context().metrics();
    (metrics.roots, metrics.deliveries)
}

#[test]
fn keep_3_a_the_destructor_of_a_delivered_capture_runs_under_its_root() {
    assert_eq!(parting(false, true), (1, 2), "what it sent belongs to the same root");
}

#[test]
fn keep_3_b_the_destructor_of_an_undelivered_capture_runs_under_its_root() {
    assert_eq!(parting(false, false), (1, 1));
}

#[test]
fn keep_3_c_also_when_the_callback_unwinds() {
    let (roots, deliveries) = parting(true, true);
    assert_eq!((roots, deliveries), (1, 1), "the fault keeps the echo out, and no other root was made");
}

#[test]
fn keep_3_d_a_retained_value_is_dropped_under_its_root() {
    struct Sends(Sender<u64>, Arc<AtomicU32>);
    impl Drop for Sends {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            let _ = self.0.try_send(None, 1);
        }
    }
    let record = Record::default();
    let mut live = Live::new(Bus::default(), 8, Clock::Events, |ctx, _: u64| say(ctx, "x", "-"));
    let play: crate::support::Play = Box::new(|_, _| Ok(()));
    let id = live.context().register("S", Player { name: "S", record, play }).unwrap();
    live.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    live.context().start(id).unwrap();
    let (sender, drops) = (live.sender(), Arc::new(AtomicU32::new(0)));
    let kept = live.context().retain(Sends(sender, drops.clone()), 0).unwrap();
    drop(kept);
    while live.batch().unwrap() == Progress::More {}
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    assert_eq!((live.context().metrics().roots, live.context().metrics().roots_alive), (1, 0));
}
