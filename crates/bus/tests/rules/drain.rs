//! Draining: budgets, busy heads, hindrances, batches (DRAIN).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turnkeep_bus::{
    Arrived, BATCH, Bus, Busy, Clock, Context, Ended, Failure, FaultKind, Foreign, Hindrance, Limits, Live,
    Progress, Replay, Schedule,
};

use crate::support::{Player, Record, Say, Stage, say};

/// A component behind the seam that answers "busy" for as often as it is told.
pub(crate) struct Double {
    pub(crate) record: Record,
    pub(crate) busy: Arc<AtomicU32>,
    pub(crate) held: Busy,
}

impl Foreign for Double {
    fn busy(&mut self) -> Option<Busy> {
        let left = self.busy.load(Ordering::Relaxed);
        if left == 0 {
            return None;
        }
        self.busy.store(left - 1, Ordering::Relaxed);
        Some(self.held)
    }

    fn deliver(&mut self, _: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        self.record.note(format!("S2({})", event.get::<Say>().map_or(event.name(), |say| say.0)));
        Ok(())
    }
}

/// S1, a foreign S2 and S3 on `x`, with the number of times that S2 will be busy.
fn with_double(held: Busy, busy: u32, limits: Limits) -> (Stage, Arc<AtomicU32>) {
    let mut stage = Stage::with(Bus::builder().limits(limits).build());
    let left = Arc::new(AtomicU32::new(busy));
    stage.listener("S1", &[("x", 9)]);
    let double = Double { record: stage.record.clone(), busy: left.clone(), held };
    let id = stage.ctx().register_foreign("S2", double).unwrap();
    stage.ctx().subscribe_foreign(id, "x", 5).unwrap();
    stage.ctx().start(id).unwrap();
    stage.listener("S3", &[("x", 0)]);
    (stage, left)
}

#[test]
fn drain_1_a_a_budget_of_two_delivers_two_of_five_and_says_there_is_more() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    for what in ["1", "2", "3", "4", "5"] {
        stage.publish("x", what);
    }
    let drained = stage.bus.boundary().drain(2);
    assert_eq!((drained.delivered, drained.left, drained.ended), (2, 3, Ended::More));
    assert_eq!(stage.record.line(), "S(1) S(2)");
    assert_eq!(stage.bus.boundary().drain(3).ended, Ended::Empty);
}

#[test]
fn drain_1_b_a_budget_of_zero_only_reports() {
    let mut stage = Stage::default();
    stage.listener("S", &[("x", 0)]);
    assert_eq!(stage.bus.boundary().drain(0).ended, Ended::Empty);
    stage.publish("x", "1");
    let drained = stage.bus.boundary().drain(0);
    assert_eq!((drained.delivered, drained.left, drained.ended), (0, 1, Ended::More));
    assert_eq!(stage.record.line(), "");
}

#[test]
fn drain_1_c_cancelled_slots_count_against_the_budget() {
    let mut stage = Stage::default();
    let gone = stage.listener("gone", &[("x", 9)]);
    stage.listener("S", &[("x", 0)]);
    stage.publish("x", "1");
    stage.publish("x", "2");
    stage.ctx().stop(gone).unwrap();
    stage.ctx().retire(gone).unwrap();
    let drained = stage.bus.boundary().drain(3);
    assert_eq!((drained.delivered, drained.cancelled, drained.left), (1, 2, 1));
}

#[test]
fn drain_2_a_busy_head_blocks_everything_behind_it() {
    let (mut stage, left) = with_double(Busy::Elsewhere, 3, Limits::default());
    stage.publish("x", "1");
    for _ in 0..3 {
        let drained = stage.bus.boundary().drain(9);
        assert_eq!(drained.ended, Ended::Busy("S2".into()));
    }
    assert_eq!(stage.record.line(), "S1(1)");
    assert_eq!(left.load(Ordering::Relaxed), 0);
    assert_eq!(stage.settle(), "S2(1) S3(1)");
    assert_eq!(stage.ctx().metrics().max_chain, 3, "busy attempts were not charged");
}

#[test]
fn drain_3_a_held_access_hinders_a_drain_by_name() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "1");
    std::mem::forget(stage.bus.access(id).unwrap());
    assert_eq!(stage.bus.boundary().drain(9).ended, Ended::Hindered(Hindrance::Access));
    assert_eq!(stage.bus.boundary().teardown().unwrap_err().hindrance, Hindrance::Access);
    assert_eq!(stage.record.line(), "");
}

#[test]
fn drain_3_a_access_that_has_ended_hinders_nothing() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "1");
    assert_eq!(stage.bus.access(id).unwrap().name, "S");
    assert_eq!(stage.settle(), "S(1)");
}

#[test]
fn drain_4_programs_that_would_deliver_without_a_boundary_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn drain_5_a_a_head_that_nothing_on_this_thread_can_free_is_a_fault_at_that_boundary() {
    let (mut stage, _) = with_double(Busy::Here, 1, Limits::default());
    stage.publish("x", "A");
    stage.publish("x", "B");
    assert_eq!(stage.bus.boundary().drain(9).ended, Ended::Faulted);
    assert_eq!(stage.record.line(), "S1(A)", "S3 is not tried");
    let report = stage.ctx().fault_report().cloned().unwrap();
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Stalled, Some("S2")));
}

#[test]
fn drain_5_b_a_head_that_is_held_elsewhere_is_retried_within_the_budget_and_then_a_fault() {
    let (mut stage, left) = with_double(Busy::Elsewhere, 100, Limits { stalls: 4, ..Limits::default() });
    stage.publish("x", "A");
    let ends: Vec<Ended> = (0..5).map(|_| stage.bus.boundary().drain(9).ended).collect();
    assert_eq!(ends[..4].iter().filter(|end| matches!(end, Ended::Busy(_))).count(), 4);
    assert_eq!(ends[4], Ended::Faulted);
    assert_eq!(left.load(Ordering::Relaxed), 95);
}

#[test]
fn drain_6_a_live_batches_are_bounded_and_other_work_has_its_turn_between_them() {
    let mut bus = Bus::default();
    let record = Record::default();
    let player = Player { name: "S", record: record.clone(), play: Box::new(|_, _| Ok(())) };
    let id = bus.context().register("S", player).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    let mut live =
        Live::new(bus, 4, Clock::Events, |ctx, count: u32| (0..count).for_each(|_| say(ctx, "x", "-")));
    let sender = live.sender();
    sender.send(Some(1), 200).unwrap();
    drop(sender);
    // One message, and no further one: what is pending goes on by itself.
    assert_eq!(live.batch(), Ok(Progress::More));
    let mut sizes = Vec::new();
    live.run(|| sizes.push(record.take().len())).unwrap();
    assert_eq!(sizes, [BATCH as usize, 64, 64, 8]);
}

#[test]
fn drain_6_b_in_a_replay_everything_pending_ends_before_time_moves() {
    let mut bus = Bus::default();
    let record = Record::default();
    let mut left = 300;
    let play = move |ctx: &mut Context<'_>, _: &Say| {
        if left > 0 {
            left -= 1;
            say(ctx, "x", "again");
        }
        Ok(())
    };
    let player = Player { name: "S", record: record.clone(), play: Box::new(play) };
    let id = bus.context().register("S", player).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    bus.context()
        .set_timer_for(id, "t", Schedule { first_ns: 15, interval_ns: None, stop_ns: None })
        .unwrap();
    let mut replay = Replay::new(bus);
    replay.step(10, |ctx| say(ctx, "x", "first")).unwrap();
    assert_eq!(record.take().len(), 301);
    replay.step(20, |ctx| say(ctx, "x", "second")).unwrap();
    assert_eq!(record.line(), "S(t@15) S(second)");
}
