//! Faults of the bus: limits, the latch, the report, the teardown (FAULT).

use std::sync::atomic::Ordering;

use turnkeep_bus::{Bus, Ended, Event, FaultKind, Halt, Hindrance, Limits, Refused};

use crate::admission::{Counted, Quiet};
use crate::support::{Player, Say, Stage, say};

fn limited(limits: Limits) -> Stage {
    Stage::with(Bus::builder().limits(limits).build())
}

#[test]
fn fault_1_a_the_limit_of_units_is_allowed_and_the_next_request_overflows() {
    let mut stage = limited(Limits { units: 3, ..Limits::default() });
    stage.listener("S", &[("x", 0)]);
    (0..3).for_each(|_| stage.publish("x", "-"));
    assert!(stage.ctx().fault_report().is_none());
    stage.publish("x", "one too many");
    let report = stage.ctx().fault_report().cloned().unwrap();
    assert_eq!((report.kind, report.depth), (FaultKind::Overflow, 3));
}

#[test]
fn fault_1_b_slots_captures_and_places_of_batches_share_one_count() {
    let mut stage = limited(Limits { units: 3, ..Limits::default() });
    stage.listener("S", &[("x", 0)]);
    stage.publish("x", "-");
    let batch = stage.ctx().batch::<u8>(1, 0).unwrap();
    let kept = stage.ctx().retain(0_u8, 0).unwrap();
    assert_eq!(stage.ctx().metrics().units, 3);
    assert_eq!(stage.ctx().retain(0_u8, 0).unwrap_err(), Refused::Overflow);
    drop((batch, kept));
}

#[test]
fn fault_1_c_the_default_of_65536_units_is_exact() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    (0..65_536).for_each(|_| stage.publish("x", "-"));
    assert!(stage.ctx().fault_report().is_none());
    stage.publish("x", "one too many");
    assert_eq!(stage.ctx().fault_report().unwrap().kind, FaultKind::Overflow);
}

#[test]
fn fault_1_d_the_limit_of_bytes_is_exact() {
    let mut probe = Stage::default();
    probe.listener("S", &[("x", 0)]);
    probe.publish("x", "-");
    let needed = probe.ctx().metrics().bytes;
    for (bytes, wanted) in [(needed, None), (needed - 1, Some(FaultKind::Overflow))] {
        let mut stage = limited(Limits { bytes, ..Limits::default() });
        stage.listener("S", &[("x", 0)]);
        stage.publish("x", "-");
        assert_eq!(stage.ctx().fault_report().map(|report| report.kind), wanted);
    }
}

#[test]
fn fault_2_a_the_first_fault_wins_and_reservations_are_refused_afterwards() {
    let mut stage = limited(Limits { units: 1, ..Limits::default() });
    let id = stage.listener("S", &[]);
    stage.ctx().post(id, Say("1", 0)).unwrap();
    stage.ctx().post(id, Say("overflow", 0)).unwrap();
    stage.raw("bad", "x", 0, |_, _| panic!("later"));
    stage.publish("x", "-");
    assert_eq!(stage.ctx().fault_report().unwrap().kind, FaultKind::Overflow);
    assert_eq!(stage.ctx().metrics().faults, 2);
    let refused = stage.ctx().post_with(id, 0, || -> Say { panic!("must not be built") });
    assert_eq!(refused, Err(Refused::Faulted));
}

#[test]
fn fault_2_b_synchronous_effects_finish_nothing_is_rolled_back_and_the_run_halts_at_the_boundary() {
    let mut stage = limited(Limits { units: 1, ..Limits::default() });
    stage.ctx().set_resource(0_u64);
    stage.listener("S1", &[("x", 9)]);
    stage.listener("S2", &[("x", 8)]);
    stage.raw("effect", "x", 0, |ctx, _| *ctx.resource_mut::<u64>().unwrap() += 1);
    stage.ctx().scope(|ctx| {
        say(ctx, "x", "1");
        say(ctx, "x", "2");
    });
    assert_eq!(stage.ctx().resource::<u64>(), Some(&2));
    assert_eq!(stage.ctx().metrics().depth, 1, "what was admitted stays");
    assert_eq!(stage.record.line(), "effect<1> effect<2>");
    assert_eq!(stage.bus.boundary().drain(9).ended, Ended::Faulted);
    assert!(matches!(stage.bus.batch(), Err(Halt::Fault(_))));
    assert_eq!(stage.record.line(), "");
}

#[test]
fn fault_3_a_report_names_everything_and_says_what_to_do() {
    let mut stage = Stage::default();
    stage.player("A", &[("first.topic", 0)], |ctx, _| {
        say(ctx, "second.topic", "-");
        say(ctx, "second.topic", "-");
        Ok(())
    });
    stage.player("B", &[("second.topic", 0)], |_, _| panic!("why"));
    stage.publish("first.topic", "-");
    let Err(Halt::Fault(report)) = stage.bus.settle() else { panic!("must halt") };
    assert_eq!(report.kind, FaultKind::Panicked);
    assert_eq!((report.component.as_deref(), report.topic.as_deref()), (Some("B"), Some("second.topic")));
    assert_eq!((report.publication, report.admission, report.root), (Some(3), Some(4), Some(1)));
    assert_eq!((report.origin.as_deref(), report.deliveries, report.depth), (Some("first.topic"), 1, 1));
    assert_eq!(
        report.to_string(),
        "bus fault, panic: a callback panicked: why; component B; topic second.topic; ordinal 3/4; root 1 that began \
         with first.topic; 1 deliveries so far, 1 in the queue; mend the code that panicked; then tear down and start \
         again"
    );
}

#[test]
fn fault_4_a_slots_stay_owned_until_a_teardown_that_leaves_counters_at_zero() {
    let mut stage = Stage::default();
    let id = stage.ctx().register("Q", Quiet).unwrap();
    stage.ctx().start(id).unwrap();
    let (event, _, drops) = Counted::new();
    stage.ctx().post(id, event).unwrap();
    stage.raw("bad", "x", 0, |_, _| panic!("fault"));
    stage.publish("x", "-");
    assert!(stage.bus.settle().is_err());
    assert_eq!((drops.load(Ordering::Relaxed), stage.ctx().metrics().units), (0, 1));
    let report = stage.bus.boundary().teardown().unwrap().unwrap();
    assert_eq!(report.kind, FaultKind::Panicked);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.units, metrics.bytes, metrics.depth, metrics.roots_alive), (0, 0, 0, 0));
    assert!(stage.ctx().fault_report().is_none());
}

#[test]
fn fault_4_b_a_teardown_refuses_while_something_is_alive_and_may_be_tried_again() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    let refused = |stage: &mut Stage| stage.bus.boundary().teardown().unwrap_err().hindrance;
    let reservation = stage.ctx().reserve::<Player, Say>(id, 0).unwrap();
    assert_eq!(refused(&mut stage), Hindrance::Reservation);
    drop(reservation);
    let kept = stage.ctx().retain(0_u8, 0).unwrap();
    assert_eq!(refused(&mut stage), Hindrance::Retained);
    drop(kept);
    assert_eq!(stage.bus.boundary().teardown(), Ok(None));
}

/// Its destructor publishes through a channel; what a teardown drops must not get anything admitted.
#[test]
fn fault_4_c_admissions_from_destructors_are_refused_during_a_teardown() {
    struct Sends(turnkeep_bus::Sender<u64>);
    impl Drop for Sends {
        fn drop(&mut self) {
            let _ = self.0.try_send(None, 1);
        }
    }
    impl Event for Sends {
        const NAME: &'static str = "sends";
        fn heap_bytes(&self) -> usize {
            0
        }
    }
    impl turnkeep_bus::On<Sends> for Quiet {
        fn on(&mut self, _: &mut turnkeep_bus::Context<'_>, _: &Sends) -> Result<(), turnkeep_bus::Failure> {
            Ok(())
        }
    }
    let mut live = turnkeep_bus::Live::new(Bus::default(), 4, turnkeep_bus::Clock::Events, |_, _: u64| {
        panic!("must not come")
    });
    let id = live.context().register("Q", Quiet).unwrap();
    live.context().start(id).unwrap();
    let sender = live.sender();
    live.context().post(id, Sends(sender)).unwrap();
    live.boundary().teardown().unwrap();
    let metrics = live.context().metrics();
    assert_eq!((metrics.units, metrics.depth, metrics.roots_alive), (0, 0, 0));
}

#[test]
fn fault_4_d_after_a_teardown_the_bus_can_be_used_again() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    stage.raw("bad", "bad", 0, |_, _| panic!("fault"));
    stage.publish("x", "never");
    stage.publish("bad", "-");
    assert!(stage.bus.settle().is_err());
    stage.bus.boundary().teardown().unwrap();
    stage.record.take();
    stage.publish("x", "ping");
    assert_eq!(stage.settle(), "S(ping)");
}

#[test]
fn fault_5_a_the_payloads_own_heap_is_counted() {
    struct Taker;
    impl turnkeep_bus::Component for Taker {}
    impl turnkeep_bus::On<String> for Taker {
        fn on(
            &mut self,
            ctx: &mut turnkeep_bus::Context<'_>,
            _: &String,
        ) -> Result<(), turnkeep_bus::Failure> {
            let bytes = ctx.metrics().bytes;
            ctx.set_resource(bytes);
            Ok(())
        }
    }
    let mut stage = Stage::default();
    let id = stage.ctx().register("T", Taker).unwrap();
    stage.ctx().start(id).unwrap();
    let bytes = |stage: &mut Stage| stage.ctx().metrics().bytes;
    stage.ctx().post(id, String::new()).unwrap();
    stage.settle();
    let empty = bytes(&mut stage);
    stage.ctx().post(id, String::with_capacity(5_000)).unwrap();
    let queued = bytes(&mut stage);
    assert_eq!(queued - empty, 5_000 + size_of::<String>() as u64);
    stage.settle();
    assert_eq!(
        stage.ctx().resource::<u64>(),
        Some(&queued),
        "the charge is kept while the delivery is in flight"
    );
    assert_eq!(bytes(&mut stage), empty);
}

#[test]
fn fault_5_b_slots_and_roots_are_counted_by_the_capacity_of_their_tables() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    assert_eq!(stage.ctx().metrics().bytes, 0);
    stage.ctx().post(id, Say("-", 0)).unwrap();
    let one = stage.ctx().metrics().bytes;
    (0..60).for_each(|_| stage.ctx().post(id, Say("-", 0)).unwrap());
    let many = stage.ctx().metrics().bytes;
    assert!(one > 64 * 40, "a table for 64 slots: {one}");
    assert!(many > one + 60 * size_of::<Say>() as u64, "values, and a larger table of roots: {many}");
    stage.bus.boundary().teardown().unwrap();
    assert_eq!(stage.ctx().metrics().bytes, 0);
}

#[test]
fn fault_5_c_a_capture_that_states_its_heap_is_charged_for_it_before_it_is_built() {
    let mut stage = limited(Limits { bytes: 20_000, ..Limits::default() });
    let id = stage.listener("S", &[]);
    stage.ctx().post_with(id, 5_000, || Say("small", 0)).unwrap();
    assert_eq!(stage.ctx().post_with(id, 20_000, || Say("large", 0)), Err(Refused::Overflow));
}
