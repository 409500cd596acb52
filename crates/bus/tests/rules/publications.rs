//! Publication order, scopes, recipients, topics (PUB).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Say, Stage, say};
use turnkeep_bus::{Ended, FaultKind, Hosted, TopicError};

/// A to S1 and S2, a raw callable between them that publishes B to S3, and S1 that answers A with C.
fn worked(stage: &mut Stage) {
    stage.player("S1", &[("a", 20), ("c", 0)], |ctx, event| {
        if event.0 == "A" {
            say(ctx, "c", "C");
        }
        Ok(())
    });
    stage.raw("R", "a", 10, |ctx, _| say(ctx, "b", "B"));
    stage.listener("S2", &[("a", 0), ("c", 0)]);
    stage.listener("S3", &[("b", 0)]);
    stage.publish("a", "A");
}

#[test]
fn pub_1_the_worked_order_is_that_of_the_publications_under_one_root() {
    let mut stage = Stage::default();
    worked(&mut stage);
    assert_eq!(stage.record.line(), "R<A>", "nothing is delivered inside the publication");
    assert_eq!(stage.settle(), "S1(A) S2(A) S3(B) S1(C) S2(C)");
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.roots, metrics.roots_alive, metrics.deliveries), (1, 0, 5));
    assert_eq!((metrics.max_chain, metrics.publications), (5, 3));
}

#[test]
fn pub_1_idle_and_active_components_share_one_order() {
    let mut stage = Stage::default();
    stage.player("busy", &[("x", 0)], |ctx, event| {
        if event.0 == "1" {
            (0..3).for_each(|_| say(ctx, "y", "n"));
        }
        Ok(())
    });
    stage.listener("idle", &[("y", 0), ("z", 0)]);
    for (topic, what) in [("x", "1"), ("z", "2"), ("x", "3")] {
        stage.publish(topic, what);
    }
    assert_eq!(stage.settle(), "busy(1) idle(2) busy(3) idle(n) idle(n) idle(n)");
}

#[test]
fn pub_2_a_nested_publication_does_not_overtake_recipients_still_to_be_admitted() {
    let mut stage = Stage::default();
    stage.raw("R", "a", 10, |ctx, _| {
        say(ctx, "b", "B1");
        say(ctx, "b", "B2");
    });
    stage.listener("late1", &[("a", 5)]);
    stage.listener("late2", &[("a", 4)]);
    stage.listener("nested", &[("b", 99)]);
    stage.publish("a", "A");
    stage.record.take();
    assert_eq!(stage.settle(), "late1(A) late2(A) nested(B1) nested(B2)");
}

#[test]
fn pub_3_a_the_ordinal_is_taken_before_a_raw_callable_runs_and_scopes_end_in_stack_order() {
    let mut stage = Stage::default();
    // Were B's ordinal lower than A's, S3 would come first.
    stage.raw("R", "a", 99, |ctx, _| {
        ctx.scope(|ctx| {
            say(ctx, "b", "B");
            ctx.scope(|ctx| say(ctx, "b", "C"));
            say(ctx, "b", "D");
        });
    });
    stage.listener("S3", &[("b", 0)]);
    stage.listener("S2", &[("a", 0)]);
    stage.publish("a", "A");
    stage.record.take();
    assert_eq!(stage.settle(), "S2(A) S3(B) S3(C) S3(D)");
}

#[test]
fn pub_3_b_ending_a_publication_delivers_nothing() {
    let mut stage = Stage::default();
    stage.listener("S", &[("a", 0)]);
    stage.ctx().scope(|ctx| {
        ctx.scope(|ctx| say(ctx, "a", "1"));
        say(ctx, "a", "2");
    });
    assert_eq!(stage.record.take(), [""; 0]);
    assert_eq!(stage.ctx().metrics().depth, 2);
    assert_eq!(stage.settle(), "S(1) S(2)");
}

#[test]
fn pub_4_order_does_not_depend_on_the_root_that_owns_the_work() {
    let mut stage = Stage::default();
    stage.player("S", &[("a", 0)], |ctx, event| {
        if event.0 == "first" {
            say(ctx, "b", "of the first root");
        }
        Ok(())
    });
    stage.listener("T", &[("b", 0)]);
    stage.publish("a", "first");
    stage.publish("b", "second root");
    assert_eq!(stage.settle(), "S(first) T(second root) T(of the first root)");
    assert_eq!(stage.ctx().metrics().roots, 2);
}

/// Its clone panics.
struct Fragile;

impl Clone for Fragile {
    fn clone(&self) -> Self {
        panic!("cannot be cloned");
    }
}

impl turnkeep_bus::Event for Fragile {
    const NAME: &'static str = "fragile";
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl turnkeep_bus::On<Fragile> for crate::support::Player {
    fn on(&mut self, _: &mut turnkeep_bus::Context<'_>, _: &Fragile) -> Result<(), turnkeep_bus::Failure> {
        Ok(())
    }
}

fn panics(work: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err()
}

#[test]
fn pub_5_a_panic_in_a_clone_ends_the_publication_and_faults_the_bus() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    stage.ctx().subscribe::<crate::support::Player, Fragile>(id, "f", 0).unwrap();
    let topic = stage.ctx().topic::<Fragile>("f").unwrap();
    assert!(panics(|| stage.ctx().publish_ref(topic, &Fragile)));
    let report = stage.ctx().fault_report().cloned().unwrap();
    assert_eq!(report.kind, FaultKind::Unwound);
    assert!(report.detail.contains("cannot be cloned"), "{report}");
    // The scope is restored: a drain is not hindered by it, and a teardown goes through.
    assert_eq!(stage.bus.boundary().drain(9).ended, Ended::Faulted);
    assert!(stage.bus.boundary().teardown().unwrap().is_some());
    assert_eq!(stage.ctx().metrics().units, 0);
}

#[test]
fn pub_5_a_panic_through_nested_scopes_restores_all_of_them() {
    let mut stage = Stage::default();
    assert!(panics(|| stage.ctx().scope(|ctx| ctx.scope(|_| panic!("deep")))));
    assert_eq!(stage.ctx().fault_report().unwrap().kind, FaultKind::Unwound);
    assert!(stage.bus.boundary().teardown().is_ok());
    stage.listener("S", &[("a", 0)]);
    stage.publish("a", "after");
    assert_eq!(stage.settle(), "S(after)");
}

#[test]
fn pub_6_priority_first_then_subscription_order_in_every_run() {
    let once = || {
        let mut stage = Stage::default();
        for (name, priority) in [("e", -1), ("c", 0), ("a", 7), ("d", 0), ("b", 7)] {
            stage.listener(name, &[("x", priority)]);
        }
        stage.publish("x", "-");
        stage.settle()
    };
    let first = once();
    assert_eq!(first, "a(-) b(-) c(-) d(-) e(-)");
    assert!((0..100).all(|_| once() == first));
}

#[test]
fn pub_6_exact_and_wildcard_subscriptions_are_one_order() {
    let mut stage = Stage::default();
    stage.listener("wild", &[("x.*", 1)]);
    stage.listener("exact", &[("x.y", 1)]);
    stage.listener("mark", &[("x.?", 1)]);
    stage.publish("x.y", "-");
    assert_eq!(stage.settle(), "wild(-) exact(-) mark(-)");
}

#[test]
fn pub_7_a_a_recipient_removed_before_it_is_called_is_not_called() {
    let mut stage = Stage::default();
    let victim = stage.listener("victim", &[]);
    let queued = stage.ctx().subscribe::<crate::support::Player, Say>(victim, "x", 0).unwrap();
    let raw = stage.ctx().subscribe_raw("raw", "x", 1, |_, _| panic!("removed before its turn")).unwrap();
    stage.raw("remover", "x", 9, move |ctx, _| {
        assert!(ctx.unsubscribe(raw));
    });
    stage.publish("x", "-");
    assert_eq!(stage.ctx().metrics().depth, 1);
    assert!(stage.ctx().unsubscribe(queued), "already queued, and not called all the same");
    assert!(!stage.ctx().unsubscribe(queued));
    assert_eq!(stage.settle(), "remover<->");
    assert_eq!(stage.ctx().metrics().cancelled, 1);
}

#[test]
fn pub_7_b_a_recipient_added_counts_from_the_next_publication() {
    let mut stage = Stage::default();
    let late = stage.listener("late", &[]);
    let once = AtomicU64::new(0);
    stage.raw("adder", "x", 9, move |ctx, _| {
        if once.fetch_add(1, Ordering::Relaxed) == 0 {
            ctx.subscribe::<crate::support::Player, Say>(late, "x", 99).unwrap();
        }
    });
    stage.publish("x", "1");
    assert_eq!(stage.settle(), "adder<1>");
    stage.publish("x", "2");
    assert_eq!(stage.settle(), "adder<2> late(2)");
}

#[test]
fn pub_7_c_a_place_that_is_used_again_does_not_revive_the_old_subscription() {
    let mut stage = Stage::default();
    let (old, new) = (stage.listener("old", &[]), stage.listener("new", &[]));
    let first = stage.ctx().subscribe::<crate::support::Player, Say>(old, "x", 0).unwrap();
    stage.publish("x", "queued");
    stage.ctx().unsubscribe(first);
    stage.ctx().subscribe::<crate::support::Player, Say>(new, "x", 0).unwrap();
    assert_eq!(stage.settle(), "");
    stage.publish("x", "next");
    assert_eq!(stage.settle(), "new(next)");
}

#[test]
fn pub_8_a_late_wildcard_subscriber_sees_topics_published_before() {
    let mut stage = Stage::default();
    stage.publish("data.bars.SPX", "unheard");
    stage.publish("data.quotes.SPX", "unheard");
    stage.listener("late", &[("data.*.SP?", 0)]);
    stage.publish("data.bars.SPX", "1");
    stage.publish("data.quotes.SPX", "2");
    stage.publish("data.quotes.SPXW", "3");
    assert_eq!(stage.settle(), "late(1) late(2)");
}

#[test]
fn pub_8_bad_names_and_kinds_are_refused_with_a_way_out() {
    let mut stage = Stage::default();
    let mut ctx = stage.ctx();
    assert!(matches!(ctx.topic::<Say>("a..b"), Err(TopicError::Name { .. })));
    assert!(matches!(ctx.topic::<Say>("a.*"), Err(TopicError::Wildcard { .. })));
    ctx.topic::<Say>("a.b").unwrap();
    let wrong = ctx.topic::<u64>("a.b").unwrap_err();
    assert_eq!(wrong.to_string(), "topic \"a.b\" carries say, not u64; use another topic for another kind");
}

#[test]
fn pub_8_a_typed_wildcard_subscription_takes_its_kind_only() {
    let mut stage = Stage::default();
    stage.listener("says", &[("*", 0)]);
    stage.ctx().publish_to("numbers", 5_u64).unwrap();
    stage.publish("words", "-");
    assert_eq!(stage.settle(), "says(-)");
}

#[test]
fn pub_6_two_buses_share_no_order_and_no_topics() {
    let mut one = Stage::default();
    let mut other = Hosted::new(turnkeep_bus::Bus::default());
    let topic = other.context().topic::<Say>("x").unwrap();
    let counted = Arc::new(AtomicU64::new(0));
    assert!(panics(|| one.ctx().publish(topic, Say("-", 0))));
    assert_eq!(counted.load(Ordering::Relaxed), 0);
}

#[test]
fn pub_2_late_admission_costs_the_same_behind_ten_thousand_nested_slots() {
    let nested = |count: usize| {
        let mut stage = Stage::with(turnkeep_bus::Bus::default());
        stage.raw("R", "a", 10, move |ctx, _| (0..count).for_each(|_| say(ctx, "b", "n")));
        stage.listener("nested", &[("b", 0)]);
        for name in ["l1", "l2", "l3"] {
            stage.listener(name, &[("a", 0)]);
        }
        stage.publish("a", "A");
        stage.record.take();
        stage.bus.boundary().drain(3);
        stage.record.line()
    };
    assert_eq!(nested(100), "l1(A) l2(A) l3(A)");
    assert_eq!(nested(10_000), "l1(A) l2(A) l3(A)");
}
