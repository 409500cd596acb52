//! Components: exclusive access, maintenance, lives, failures (COMP).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use turnkeep_bus::{
    AccessError, Arrived, Bus, Component, ComponentKey, Context, Failure, FaultKind, Foreign, Halt,
    LifeError, Maintenance, On, OnFailure, State, Trigger,
};

use crate::support::{Kept, Lived, Player, Say, Stage, say};

#[test]
fn comp_1_a_a_component_cannot_be_reached_from_inside_its_own_callback() {
    let mut stage = Stage::default();
    let place: Arc<std::sync::Mutex<Option<turnkeep_bus::ComponentId<Player>>>> = Arc::default();
    let own = place.clone();
    let id = stage.player("S", &[("x", 0)], move |ctx, _| {
        let id = own.lock().unwrap().unwrap();
        let twice = ctx.with(id, |_, _| panic!("must not be reached twice"));
        assert_eq!(twice, Err(AccessError::Busy { name: "S".into() }));
        Ok(())
    });
    *place.lock().unwrap() = Some(id);
    stage.publish("x", "-");
    assert_eq!(stage.settle(), "S(-)");
}

#[test]
fn comp_1_b_no_callback_runs_inside_another() {
    let mut stage = Stage::default();
    let depth = Arc::new(AtomicU32::new(0));
    for name in ["a", "b"] {
        let depth = depth.clone();
        let mut left = 20;
        stage.player(name, &[("x", 0)], move |ctx, _| {
            assert_eq!(depth.fetch_add(1, Ordering::Relaxed), 0, "callbacks must not nest");
            if left > 0 {
                left -= 1;
                ctx.scope(|ctx| say(ctx, "x", "again"));
            }
            depth.fetch_sub(1, Ordering::Relaxed);
            Ok(())
        });
    }
    stage.publish("x", "first");
    stage.settle();
    assert_eq!(stage.ctx().metrics().deliveries, 2 * (1 + 40));
}

/// Its maintenance publishes, its author code reads.
struct Indicator(crate::support::Record);

impl Component for Indicator {
    const MAINTENANCE: Maintenance = Maintenance::Running;

    fn maintain(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        self.0.note(format!("maintain({})", event.get::<Say>().map_or("?", |say| say.0)));
        say(ctx, "y", "from maintenance");
        Ok(())
    }
}

impl On<Say> for Indicator {
    fn on(&mut self, ctx: &mut Context<'_>, event: &Say) -> Result<(), Failure> {
        self.0.note(format!("author({})", event.0));
        say(ctx, "y", "from the author");
        Ok(())
    }
}

#[test]
fn comp_2_a_maintenance_runs_just_before_author_code_and_what_it_emits_is_queued() {
    let mut stage = Stage::default();
    let record = stage.record.clone();
    let id = stage.ctx().register("I", Indicator(record)).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Indicator, Say>(id, "x", 0).unwrap();
    stage.listener("T", &[("y", 0)]);
    stage.publish("x", "1");
    stage.publish("x", "2");
    assert_eq!(
        stage.settle(),
        "maintain(1) author(1) maintain(2) author(2) T(from maintenance) T(from the author) T(from maintenance) T(from the author)"
    );
}

fn kept(stage: &mut Stage) -> turnkeep_bus::ComponentId<Kept> {
    let record = stage.record.clone();
    let id = stage.ctx().register("K", Kept { name: "K", record }).unwrap();
    stage.ctx().subscribe::<Kept, Say>(id, "x", 0).unwrap();
    id
}

#[test]
fn comp_2_b_maintenance_follows_rules_of_its_own() {
    let mut stage = Stage::default();
    let id = kept(&mut stage);
    stage.publish("x", "before the start");
    assert_eq!(stage.settle(), "K[before the start]");
    stage.ctx().start(id).unwrap();
    stage.publish("x", "running");
    assert_eq!(stage.settle(), "K[running] K(running)");
    stage.ctx().stop(id).unwrap();
    stage.publish("x", "stopped");
    assert_eq!(stage.settle(), "K[stopped]");
}

#[test]
fn comp_3_a_what_arrived_while_it_was_stopped_does_not_reach_the_author_after_a_resume() {
    let mut stage = Stage::default();
    let id = kept(&mut stage);
    stage.ctx().start(id).unwrap();
    stage.ctx().stop(id).unwrap();
    stage.publish("x", "arrived while stopped");
    stage.ctx().resume(id).unwrap();
    stage.publish("x", "arrived running");
    assert_eq!(stage.settle(), "K[arrived while stopped] K[arrived running] K(arrived running)");
}

#[test]
fn comp_3_b_what_arrived_running_does_not_reach_the_author_while_or_after_it_is_stopped() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "queued");
    stage.ctx().stop(id).unwrap();
    assert_eq!(stage.settle(), "");
    assert_eq!(stage.ctx().metrics().cancelled, 1);
    stage.ctx().resume(id).unwrap();
    stage.publish("x", "next");
    assert_eq!(stage.settle(), "S(next)");
}

#[test]
fn comp_4_a_stop_and_resume_let_no_old_callback_through() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[("x", 0)]);
    stage.publish("x", "of the run before");
    stage.ctx().stop(id).unwrap();
    stage.ctx().resume(id).unwrap();
    stage.publish("x", "of this run");
    assert_eq!(stage.settle(), "S(of this run)");
}

#[test]
fn comp_4_b_a_reset_cancels_maintenance_too() {
    let mut stage = Stage::default();
    let id = kept(&mut stage);
    stage.ctx().start(id).unwrap();
    stage.publish("x", "of the generation before");
    stage.ctx().stop(id).unwrap();
    stage.ctx().reset(id).unwrap();
    stage.publish("x", "of this generation");
    assert_eq!(stage.settle(), "K[of this generation]");
    assert_eq!(stage.ctx().metrics().cancelled, 1);
}

#[test]
fn comp_4_c_a_retired_component_gets_nothing_and_its_key_is_void() {
    let mut stage = Stage::default();
    let id = kept(&mut stage);
    stage.publish("x", "queued");
    stage.ctx().retire(id).unwrap();
    assert_eq!(stage.settle(), "");
    assert_eq!(stage.ctx().start(id), Err(LifeError::Gone));
    assert_eq!(stage.ctx().state(id), None);
}

#[test]
fn comp_5_a_callback_sees_the_cache_as_it_is_and_the_payload_as_it_was() {
    let mut stage = Stage::default();
    stage.ctx().set_resource(0_u64);
    let seen = stage.record.clone();
    stage.player("S", &[("x", 0)], move |ctx, event| {
        seen.note(format!("payload {} cache {}", event.1, ctx.resource::<u64>().unwrap()));
        Ok(())
    });
    for number in 1..=3 {
        *stage.ctx().resource_mut::<u64>().unwrap() = number;
        stage.ctx().publish_to("x", Say("n", number)).unwrap();
    }
    assert_eq!(stage.settle(), "S(n) payload 1 cache 3 S(n) payload 2 cache 3 S(n) payload 3 cache 3");
}

#[test]
fn comp_6_a_refused_transitions_name_state_and_trigger() {
    let mut stage = Stage::default();
    let record = stage.record.clone();
    let id = stage.ctx().register("L", Lived(record)).unwrap();
    let refused = stage.ctx().stop(id).unwrap_err();
    assert_eq!(
        refused,
        LifeError::NoTransition { name: "L".into(), state: State::Ready, trigger: Trigger::Stop }
    );
    assert!(refused.to_string().contains("L is Ready, and Stop leads nowhere"), "{refused}");
}

#[test]
fn comp_6_b_a_life_goes_through_its_callbacks() {
    let mut stage = Stage::default();
    let record = stage.record.clone();
    let id = stage.ctx().register("L", Lived(record)).unwrap();
    let key: ComponentKey = id.into();
    type Step = fn(&mut Context<'_>, ComponentKey) -> Result<(), LifeError>;
    let steps: [(Step, Option<State>); 9] = [
        (|ctx, key| ctx.start(key), Some(State::Running)),
        (|ctx, key| ctx.degrade(key), Some(State::Degraded)),
        (|ctx, key| ctx.resume(key), Some(State::Running)),
        (|ctx, key| ctx.stop(key), Some(State::Stopped)),
        (|ctx, key| ctx.reset(key), Some(State::Ready)),
        (|ctx, key| ctx.start(key), Some(State::Running)),
        (|ctx, key| ctx.fault(key), Some(State::Faulted)),
        (|ctx, key| ctx.reset(key), Some(State::Ready)),
        (|ctx, key| ctx.retire(key), None),
    ];
    for (step, state) in steps {
        step(&mut stage.ctx(), key).unwrap();
        assert_eq!(stage.ctx().state(key), state);
    }
    assert_eq!(stage.record.line(), "start degrade resume stop reset start fault reset dispose");
}

#[test]
fn comp_7_a_a_failed_callback_faults_that_component_alone() {
    let mut stage = Stage::default();
    let id = stage.player("bad", &[("x", 0)], |_, _| Err("no".into()));
    stage.listener("good", &[("x", 0)]);
    stage.publish("x", "1");
    stage.publish("x", "2");
    assert_eq!(stage.settle(), "bad(1) good(1) good(2)");
    assert_eq!(stage.ctx().state(id), Some(State::Faulted));
    let ctx = stage.ctx();
    let report = ctx.failures().next().unwrap();
    assert_eq!((&*report.component, &*report.during, &*report.text), ("bad", "x", "no"));
    assert!(ctx.fault_report().is_none());
}

#[test]
fn comp_7_b_a_failure_halts_the_bus_or_is_only_reported_as_set() {
    let mut stage = Stage::with(Bus::builder().on_failure(OnFailure::HaltBus).build());
    stage.player("bad", &[("x", 0)], |_, _| Err("no".into()));
    stage.publish("x", "-");
    let Err(Halt::Fault(report)) = stage.bus.settle() else { panic!("must halt") };
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Failed, Some("bad")));

    let mut stage = Stage::default();
    let id = stage.player("bad", &[("x", 0)], |_, _| Err("no".into()));
    stage.ctx().on_failure(id, OnFailure::Report).unwrap();
    stage.publish("x", "1");
    stage.publish("x", "2");
    assert_eq!(stage.settle(), "bad(1) bad(2)");
    assert_eq!((stage.ctx().metrics().failures, stage.ctx().failures().count()), (2, 2));
}

#[test]
fn comp_7_h_a_failure_of_a_replaced_component_does_not_fault_its_successor() {
    struct Next;
    impl Component for Next {}
    let mut stage = Stage::default();
    stage.player("S", &[("x", 0)], |ctx, _| {
        let own = ctx.this().ok_or("no component")?;
        let next = ctx.replace(own, Next)?;
        ctx.start(next)?;
        Err("the old one".into())
    });
    stage.publish("x", "-");
    stage.settle();
    let key = stage.ctx().find("S").unwrap();
    assert_eq!(stage.ctx().state(key), Some(State::Running));
    assert_eq!(stage.ctx().failures().next().unwrap().led_to, OnFailure::Report);
}

#[test]
fn comp_7_c_a_foreign_components_failure_is_treated_alike() {
    struct Bad;
    impl Foreign for Bad {
        fn deliver(&mut self, _: &mut Context<'_>, _: &Arrived<'_>) -> Result<(), Failure> {
            Err("from elsewhere".into())
        }
    }
    let mut stage = Stage::default();
    let id = stage.ctx().register_foreign("F", Bad).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe_foreign(id, "x", 0).unwrap();
    stage.publish("x", "-");
    stage.settle();
    assert_eq!(stage.ctx().state(id), Some(State::Faulted));
    assert_eq!(stage.ctx().failures().next().unwrap().text, "from elsewhere");
}

#[test]
fn comp_7_d_a_panic_in_a_callback_is_a_fault_with_the_components_name_is_charged_and_frees_its_slot() {
    let mut stage = Stage::default();
    stage.player("bad", &[("x", 0)], |_, _| panic!("at {}", 7));
    stage.publish("x", "-");
    let Err(Halt::Fault(report)) = stage.bus.settle() else { panic!("must halt") };
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Panicked, Some("bad")));
    assert!(report.detail.contains("at 7"), "{report}");
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.deliveries, metrics.max_chain, metrics.units), (1, 1, 0));
}

#[test]
fn comp_7_e_a_panic_in_a_raw_callable_is_a_fault_and_the_fan_out_finishes() {
    let mut stage = Stage::default();
    stage.raw("bad raw", "x", 9, |_, _| panic!("raw"));
    stage.raw("after", "x", 8, |_, _| {});
    stage.publish("x", "-");
    assert_eq!(stage.record.line(), "bad raw<-> after<->");
    let report = stage.ctx().fault_report().cloned().unwrap();
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Panicked, Some("bad raw")));
}

#[test]
fn comp_7_f_a_panic_in_a_destructor_is_a_fault_is_charged_and_frees_its_slot() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in the destructor");
        }
    }
    impl turnkeep_bus::Event for Bomb {
        const NAME: &'static str = "bomb";
        fn heap_bytes(&self) -> usize {
            0
        }
    }
    struct Taker;
    impl Component for Taker {}
    impl On<Bomb> for Taker {
        fn on(&mut self, _: &mut Context<'_>, _: &Bomb) -> Result<(), Failure> {
            Ok(())
        }
    }
    let mut stage = Stage::default();
    let id = stage.ctx().register("taker", Taker).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Taker, Bomb>(id, "x", 0).unwrap();
    stage.ctx().publish_to("x", Bomb).unwrap();
    let Err(Halt::Fault(report)) = stage.bus.settle() else { panic!("must halt") };
    assert_eq!((report.kind, report.component.as_deref()), (FaultKind::Panicked, Some("taker")));
    let metrics = stage.ctx().metrics();
    assert_eq!((metrics.max_chain, metrics.units, metrics.depth), (1, 0, 0));
}

#[test]
fn comp_7_g_a_failing_start_faults_and_a_failing_end_is_reported() {
    struct Never;
    impl Component for Never {
        fn on_start(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
            Err("will not".into())
        }
        fn on_dispose(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
            Err("nor end".into())
        }
    }
    let mut stage = Stage::default();
    let id = stage.ctx().register("never", Never).unwrap();
    stage.ctx().start(id).unwrap();
    assert_eq!(stage.ctx().state(id), Some(State::Faulted));
    stage.ctx().retire(id).unwrap();
    let texts: Vec<String> = stage.ctx().failures().map(|report| report.text.clone()).collect();
    assert_eq!(texts, ["will not", "nor end"]);
}

/// All that an author writes: no ordinals, roots or tickets in fields, signatures or the context.
#[test]
fn comp_8_an_author_sees_none_of_the_machinery() {
    struct Author {
        events: u32,
    }
    impl Component for Author {}
    impl On<Say> for Author {
        fn on(&mut self, ctx: &mut Context<'_>, event: &Say) -> Result<(), Failure> {
            self.events += 1;
            let topic: Option<Arc<str>> = ctx.topic_name();
            assert_eq!((topic.as_deref(), event.0, ctx.now_ns()), (Some("x"), "-", 0));
            Ok(())
        }
    }
    let mut stage = Stage::default();
    let id = stage.ctx().register("author", Author { events: 0 }).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Author, Say>(id, "x", 0).unwrap();
    stage.publish("x", "-");
    stage.settle();
    assert_eq!(stage.bus.access(id).unwrap().events, 1);
    // The context of a callback, as it is written: its public verbs name no part of the machinery.
    let context = include_str!("../../src/context.rs");
    let verbs = context.lines().filter(|line| line.trim_start().starts_with("pub fn"));
    for verb in verbs {
        let hidden = ["Ordinal", "Root", "SlotId", "Ticket", "Dispatch", "Frame"];
        assert!(!hidden.iter().any(|word| verb.contains(word)), "{verb}");
    }
}
