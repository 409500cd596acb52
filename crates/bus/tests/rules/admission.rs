//! Reservations: granted before anything is built, always filled, in order (ADM).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turnkeep_bus::{Bus, Component, Context, Ended, Event, Failure, FaultKind, Limits, On, Refused};

use crate::support::{Player, Say, Stage};

fn limited(limits: Limits) -> Stage {
    Stage::with(Bus::builder().limits(limits).build())
}

/// Counts its clones and its ends.
pub(crate) struct Counted {
    pub(crate) clones: Arc<AtomicU32>,
    pub(crate) drops: Arc<AtomicU32>,
}

impl Counted {
    pub(crate) fn new() -> (Self, Arc<AtomicU32>, Arc<AtomicU32>) {
        let (clones, drops) = (Arc::<AtomicU32>::default(), Arc::<AtomicU32>::default());
        (Self { clones: clones.clone(), drops: drops.clone() }, clones, drops)
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::Relaxed);
        Self { clones: self.clones.clone(), drops: self.drops.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Event for Counted {
    const NAME: &'static str = "counted";
    fn heap_bytes(&self) -> usize {
        0
    }
}

pub(crate) struct Quiet;

impl Component for Quiet {}

impl On<Counted> for Quiet {
    fn on(&mut self, _: &mut Context<'_>, _: &Counted) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn adm_1_a_a_refused_reservation_builds_nothing() {
    let mut stage = limited(Limits { units: 1, ..Limits::default() });
    let id = stage.listener("S", &[]);
    stage.ctx().post(id, Say("fills the limit", 0)).unwrap();
    let refused = stage.ctx().post_with(id, 0, || -> Say { panic!("must not be built") });
    assert_eq!(refused, Err(Refused::Overflow));
    assert_eq!(stage.ctx().fault_report().unwrap().kind, FaultKind::Overflow);
}

#[test]
fn adm_1_b_a_kept_event_is_cloned_once_and_only_when_a_place_is_granted() {
    let mut stage = limited(Limits { units: 2, ..Limits::default() });
    let topic = stage.ctx().topic::<Counted>("x").unwrap();
    let (event, clones, _) = Counted::new();
    stage.ctx().publish_ref(topic, &event);
    assert_eq!(clones.load(Ordering::Relaxed), 0, "nobody needs a capture");
    for name in ["a", "b"] {
        let id = stage.ctx().register(name, Quiet).unwrap();
        stage.ctx().start(id).unwrap();
        stage.ctx().subscribe::<Quiet, Counted>(id, "x", 0).unwrap();
    }
    stage.ctx().publish_ref(topic, &event);
    assert_eq!(clones.load(Ordering::Relaxed), 1, "two slots share one capture");
    stage.ctx().publish_ref(topic, &event);
    assert_eq!(clones.load(Ordering::Relaxed), 1, "refused, so not built");
    assert_eq!(stage.ctx().metrics().refused, 2);
}

#[test]
fn adm_1_c_bytes_are_taken_before_the_capture_too() {
    let mut stage = limited(Limits { bytes: 100_000, ..Limits::default() });
    let id = stage.listener("S", &[]);
    let refused = stage.ctx().post_with(id, 100_001, || -> Say { panic!("must not be built") });
    assert_eq!(refused, Err(Refused::Overflow));
    assert_eq!(stage.ctx().metrics().units, 0);
}

#[test]
fn adm_2_a_granted_reservation_is_filled_after_a_fault_and_a_new_one_refused() {
    let mut stage = limited(Limits { units: 1, ..Limits::default() });
    let id = stage.listener("S", &[]);
    let granted = stage.ctx().reserve::<Player, Say>(id, 0).unwrap();
    assert_eq!(stage.ctx().reserve::<Player, Say>(id, 0).unwrap_err(), Refused::Overflow);
    assert_eq!(stage.ctx().reserve::<Player, Say>(id, 0).unwrap_err(), Refused::Faulted);
    stage.ctx().fill(granted, Say("late", 0));
    assert_eq!(stage.ctx().metrics().depth, 1, "the capture was taken");
    assert!(stage.bus.boundary().teardown().is_ok(), "and nothing is unfinished");
}

#[test]
fn adm_3_a_an_unfinished_reservation_blocks_what_stands_behind_it_and_a_teardown() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "before");
    let reservation = stage.ctx().reserve::<Player, Say>(id, 0).unwrap();
    stage.publish("x", "after");
    let drained = stage.bus.boundary().drain(9);
    assert_eq!((drained.delivered, drained.left, drained.ended), (1, 2, Ended::Reserved));
    let refused = stage.bus.boundary().teardown().unwrap_err();
    assert_eq!(refused.hindrance, turnkeep_bus::Hindrance::Reservation);
    stage.ctx().fill(reservation, Say("reserved", 0));
    assert_eq!(stage.settle(), "S(before) S(reserved) S(after)");
}

#[test]
fn adm_3_b_a_dropped_reservation_leaves_a_cancelled_slot_that_a_drain_frees() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    drop(stage.ctx().reserve::<Player, Say>(id, 0).unwrap());
    stage.publish("x", "behind");
    assert_eq!(stage.ctx().metrics().units, 2, "the slot is still there");
    let drained = stage.bus.boundary().drain(1);
    assert_eq!((drained.delivered, drained.cancelled, drained.left), (0, 1, 1));
    assert_eq!(stage.settle(), "S(behind)");
    assert_eq!((stage.ctx().metrics().units, stage.ctx().metrics().roots_alive), (0, 0));
}

#[test]
fn adm_3_c_a_teardown_frees_a_dropped_reservation() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    drop(stage.ctx().reserve::<Player, Say>(id, 0).unwrap());
    assert_eq!(stage.bus.boundary().teardown(), Ok(None));
    assert_eq!(stage.ctx().metrics().units, 0);
}

#[test]
fn adm_4_a_a_slot_of_a_replaced_component_is_cancelled() {
    let mut stage = Stage::default();
    let old = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "for the old one");
    let record = stage.record.clone();
    let new = Player { name: "new", record, play: Box::new(|_, _| Ok(())) };
    let new = stage.ctx().replace(old, new).unwrap();
    stage.ctx().start(new).unwrap();
    stage.ctx().subscribe::<Player, Say>(new, "x", 0).unwrap();
    stage.publish("x", "for the new one");
    assert_eq!(stage.settle(), "new(for the new one)");
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.deliveries, metrics.cancelled, metrics.max_chain), (1, 1, 1));
}

#[test]
fn adm_4_b_a_slot_of_a_registration_that_is_over_is_cancelled_also_when_its_place_is_used_again() {
    let mut stage = Stage::default();
    let old = stage.actor("S", |_, _| Ok(()));
    stage.ctx().post(old, Say("for the old one", 0)).unwrap();
    stage.ctx().stop(old).unwrap();
    stage.ctx().retire(old).unwrap();
    let new = stage.actor("S", |_, _| Ok(()));
    stage.ctx().post(new, Say("for the new one", 0)).unwrap();
    assert_eq!(stage.settle(), "S(for the new one)");
    assert!(stage.ctx().post(old, Say("gone", 0)).is_err());
}
