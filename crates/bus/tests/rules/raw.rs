//! Raw callables and endpoints (RAW).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep_bus::{Correlation, Event, FaultKind, SendError, State};

use crate::support::{Player, Say, Stage, say};

#[test]
fn raw_1_a_a_raw_callable_gets_the_original_object_at_once_also_nested() {
    let mut stage = Stage::default();
    let seen: Arc<[AtomicUsize; 2]> = Arc::default();
    for at in 0..2 {
        let seen = seen.clone();
        let look = move |_: &mut turnkeep_bus::Context<'_>, event: &turnkeep_bus::Arrived<'_>| {
            let say = event.get::<Say>().unwrap();
            seen[at].store(std::ptr::from_ref(say) as usize, Ordering::Relaxed);
        };
        stage.ctx().subscribe_raw("look", "x", at as i32, look).unwrap();
    }
    stage.listener("S", &[("x", 0)]);
    let event = Say("kept", 0);
    let topic = stage.ctx().topic::<Say>("x").unwrap();
    stage.ctx().scope(|ctx| ctx.publish_ref(topic, &event));
    let original = std::ptr::from_ref(&event) as usize;
    assert!(seen.iter().all(|at| at.load(Ordering::Relaxed) == original));
    assert_eq!(stage.settle(), "S(kept)");
}

#[test]
fn raw_1_b_an_event_that_is_given_away_stays_where_raw_callables_have_seen_it() {
    let mut stage = Stage::default();
    let seen = Arc::new(AtomicUsize::new(0));
    let place = seen.clone();
    let look = move |_: &mut turnkeep_bus::Context<'_>, event: &turnkeep_bus::Arrived<'_>| {
        place.store(std::ptr::from_ref(event.get::<Say>().unwrap()) as usize, Ordering::Relaxed);
    };
    stage.ctx().subscribe_raw("look", "x", 9, look).unwrap();
    struct Same(Arc<AtomicUsize>, bool);
    impl turnkeep_bus::Component for Same {}
    impl turnkeep_bus::On<Say> for Same {
        fn on(&mut self, _: &mut turnkeep_bus::Context<'_>, say: &Say) -> Result<(), turnkeep_bus::Failure> {
            self.1 = self.0.load(Ordering::Relaxed) == std::ptr::from_ref(say) as usize;
            Ok(())
        }
    }
    let id = stage.ctx().register("same", Same(seen, false)).unwrap();
    stage.ctx().start(id).unwrap();
    stage.ctx().subscribe::<Same, Say>(id, "x", 0).unwrap();
    stage.publish("x", "given away");
    stage.settle();
    assert!(stage.bus.access(id).unwrap().1);
}

#[test]
fn raw_1_c_raw_callables_share_topics_and_priorities_and_do_not_disturb_queued_order() {
    let mut stage = Stage::default();
    stage.listener("S1", &[("x", 9)]);
    stage.raw("R", "x", 5, |ctx, event| {
        // A raw callable may publish to its own topic.
        if event.0 == "1" {
            say(ctx, "x", "2");
        }
    });
    stage.listener("S2", &[("x", 0)]);
    stage.publish("x", "1");
    assert_eq!(stage.record.line(), "R<1> R<2>");
    assert_eq!(stage.settle(), "S1(1) S2(1) S1(2) S2(2)");
}

#[test]
fn raw_2_a_a_send_is_direct_opens_no_publication_and_is_unaffected_by_the_queue() {
    let mut stage = Stage::default();
    let id = stage.player("E", &[("x", 0)], |_, _| Ok(()));
    stage.ctx().endpoint::<Player, Say>("risk.check", id).unwrap();
    stage.publish("x", "queued");
    stage.ctx().send("risk.check", &Say("sent", 0)).unwrap();
    assert_eq!(stage.record.line(), "E(sent)");
    assert_eq!(stage.ctx().metrics().publications, 1);
    assert_eq!(stage.settle(), "E(queued)");
}

#[test]
fn raw_2_b_an_address_has_one_handler_and_unknown_ones_are_errors() {
    let mut stage = Stage::default();
    stage.ctx().endpoint_raw::<Say>("a", |_, _| {}).unwrap();
    let taken = stage.ctx().endpoint_raw::<Say>("a", |_, _| {}).unwrap_err();
    assert_eq!(taken, SendError::AddressTaken { address: "a".into() });
    let unknown = stage.ctx().send("b", &Say("-", 0)).unwrap_err();
    assert_eq!(unknown, SendError::UnknownAddress { address: "b".into() });
    let kind = stage.ctx().send("a", &1_u64).unwrap_err();
    assert_eq!(kind, SendError::Kind { address: "a".into(), takes: "say", sent: "u64" });
    assert!(stage.ctx().remove_endpoint("a") && !stage.ctx().remove_endpoint("a"));
}

/// A question with the id of its request.
struct Ask(Correlation);

impl Event for Ask {
    const NAME: &'static str = "ask";
    fn heap_bytes(&self) -> usize {
        0
    }
}

#[test]
fn raw_2_c_a_correlation_id_is_used_once() {
    let mut stage = Stage::default();
    let record = stage.record.clone();
    stage
        .ctx()
        .endpoint_raw::<Ask>("ask", |ctx, ask| ctx.respond(ask.0, &Say("answer", 0)).unwrap())
        .unwrap();
    stage.ctx().endpoint_raw::<Say>("answers", move |_, say| record.note(say.0)).unwrap();
    let first = stage.ctx().request("ask", "answers", Ask).unwrap();
    let second = stage.ctx().request("ask", "answers", Ask).unwrap();
    assert_ne!(first, second);
    assert_eq!(stage.record.line(), "answer answer");
    let again = stage.ctx().respond(first, &Say("twice", 0)).unwrap_err();
    assert_eq!(again, SendError::UnknownId { id: first });
    let nowhere = stage.ctx().request("ask", "nowhere", Ask).unwrap_err();
    assert!(matches!(nowhere, SendError::UnknownAddress { .. }));
}

#[test]
fn raw_2_d_a_busy_or_failing_or_panicking_handler_is_an_error() {
    let mut stage = Stage::default();
    let id = stage.player("E", &[("x", 0)], |ctx, event| match event.0 {
        "self" => match ctx.send("e", &Say("inside", 0)) {
            Err(SendError::Busy { component, .. }) => {
                assert_eq!(&*component, "E");
                Ok(())
            }
            other => panic!("{other:?}"),
        },
        "panic" => panic!("in the endpoint"),
        _ => Err("not that".into()),
    });
    stage.ctx().endpoint::<Player, Say>("e", id).unwrap();
    stage.publish("x", "self");
    assert_eq!(stage.settle(), "E(self)");
    let failed = stage.ctx().send("e", &Say("fail", 0)).unwrap_err();
    assert_eq!(failed, SendError::Failed { address: "e".into(), text: "not that".into() });
    assert_eq!(stage.ctx().state(id), Some(State::Faulted));
    let panicked = stage.ctx().send("e", &Say("panic", 0)).unwrap_err();
    assert_eq!(panicked, SendError::Panicked { address: "e".into() });
    assert_eq!(stage.ctx().fault_report().unwrap().kind, FaultKind::Panicked);
}
