//! Slow subscriber: one that lags or is dead must neither lose events in silence nor hold up the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep_bus::{Bus, Component, Context, Event, Failure, FaultKind, Limits, On};

use crate::support::Stage;

#[derive(Default)]
struct Count {
    seen: Arc<AtomicU64>,
    last: u64,
}

impl Component for Count {}

impl On<u64> for Count {
    fn on(&mut self, _: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        assert_eq!(*number, self.last + 1, "the order is kept and nothing is skipped");
        self.last = *number;
        self.seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Publishes `events` events in one go; how many were delivered, refused, and whether the bus said so.
fn burst(events: u64, limits: Limits) -> (u64, u64, Option<FaultKind>) {
    let mut stage = Stage::with(Bus::builder().limits(limits).build());
    let seen = Arc::new(AtomicU64::new(0));
    let id = stage.ctx().register("count", Count { seen: seen.clone(), last: 0 }).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Count, u64>(id, "x", 0).unwrap();
    stage.ctx().scope(|ctx| (1..=events).for_each(|number| ctx.publish_to("x", number).unwrap()));
    let metrics = stage.ctx().metrics();
    let kind = stage.ctx().fault_report().map(|report| report.kind);
    let _ = stage.bus.settle();
    assert_eq!(u64::from(metrics.depth) + metrics.refused, events, "accepted and refused are all there were");
    (seen.load(Ordering::Relaxed), metrics.refused, kind)
}

#[test]
fn cb_95_a_burst_larger_than_any_small_buffer_is_delivered_in_full_and_in_order() {
    for events in [100, 2_000, 65_536] {
        assert_eq!(burst(events, Limits::default()), (events, 0, None));
    }
}

#[test]
fn cb_95_what_does_not_fit_is_told_at_a_documented_number_with_the_exact_count() {
    let limits = Limits { units: 1_024, ..Limits::default() };
    assert_eq!(burst(1_024, limits), (1_024, 0, None));
    // The bus halts: nothing is lost in silence, nothing is delivered after a gap.
    assert_eq!(burst(2_000, limits), (0, 976, Some(FaultKind::Overflow)));
}

#[test]
fn cb_94_a_subscriber_that_has_failed_is_counted_no_more() {
    struct Dead;
    impl Component for Dead {}
    impl On<u64> for Dead {
        fn on(&mut self, _: &mut Context<'_>, _: &u64) -> Result<(), Failure> {
            Err("dead".into())
        }
    }
    let mut stage = Stage::default();
    let seen = Arc::new(AtomicU64::new(0));
    let dead = stage.ctx().register("dead", Dead).unwrap();
    stage.ctx().start(dead).unwrap();
    stage.ctx().subscribe::<Dead, u64>(dead, "x", 9).unwrap();
    let id = stage.ctx().register("count", Count { seen: seen.clone(), last: 0 }).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Count, u64>(id, "x", 0).unwrap();
    for number in 1..=10_000_u64 {
        stage.ctx().publish_to("x", number).unwrap();
        if number.is_multiple_of(64) {
            stage.settle();
        }
    }
    stage.settle();
    assert_eq!(seen.load(Ordering::Relaxed), 10_000);
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.failures, metrics.cancelled, metrics.depth), (1, 9_999, 0));
    assert_eq!(u64::NAME, "u64");
}
