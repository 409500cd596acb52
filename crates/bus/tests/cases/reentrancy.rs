//! Reentrancy panic: engines that call each other while one of them is at work.

use std::sync::{Arc, Mutex};

use turnkeep_bus::{
    Bus, Clock, Commanding, Component, ComponentKey, Context, Failure, Handle, Hosted, Live, Progress,
    QueueKind, Schedule, State, SubscriptionId,
};

use crate::support::{Player, Record, Say, Stage, say};

/// E publishes a check, R denies it at E's endpoint, E submits once more.
fn engines(stage: &mut Stage, ring: &[&'static str]) {
    let mut denials = 0;
    let first = ring[0];
    let engine = stage.player("E", &[("submit", 0)], move |ctx, event| {
        match event.0 {
            "submit" => say(ctx, first, "check"),
            "denied" if denials == 0 => {
                denials += 1;
                say(ctx, "submit", "submit");
            }
            _ => {}
        }
        Ok(())
    });
    stage.ctx().endpoint::<Player, Say>("e.denied", engine).unwrap();
    for (at, &name) in ring.iter().enumerate() {
        let next = ring.get(at + 1).copied();
        stage.player(["R", "M", "N"][at], &[(name, 0)], move |ctx, _| match next {
            Some(next) => {
                say(ctx, next, "check");
                Ok(())
            }
            None => Ok(ctx.send("e.denied", &Say("denied", 0))?),
        });
    }
}

#[test]
fn cb_53_a_denial_that_comes_back_at_once_finds_the_engine_at_rest() {
    let mut stage = Stage::default();
    engines(&mut stage, &["check"]);
    stage.publish("submit", "submit");
    assert_eq!(stage.settle(), "E(submit) R(check) E(denied) E(submit) R(check) E(denied)");
    assert!(stage.ctx().fault_report().is_none());
}

#[test]
fn cb_53_a_ring_of_components_does_the_same() {
    let mut stage = Stage::default();
    engines(&mut stage, &["check", "check2", "check3"]);
    stage.publish("submit", "submit");
    let once = "E(submit) R(check) M(check) N(check) E(denied)";
    assert_eq!(stage.settle(), format!("{once} {once}"));
}

#[test]
fn cb_53_a_timer_of_the_engine_due_at_the_same_instant_waits_for_its_turn() {
    let mut stage = Stage::default();
    engines(&mut stage, &["check"]);
    let engine = stage.ctx().find("E").unwrap();
    let now = Schedule { first_ns: 0, interval_ns: None, stop_ns: None };
    stage.ctx().set_timer_for(engine, "due", now).unwrap();
    stage.publish("submit", "submit");
    assert_eq!(stage.settle(), "E(submit) R(check) E(denied) E(submit) R(check) E(denied) E(due@0)");
}

#[test]
fn cb_53_an_engine_that_ends_itself_on_the_denial_ends_after_its_call() {
    let mut stage = Stage::default();
    let engine = stage.player("E", &[("submit", 0)], |ctx, event| {
        if event.0 == "denied" {
            let own = ctx.this().unwrap();
            ctx.stop(own)?;
            ctx.retire(own)?;
            assert_eq!(ctx.state(own), Some(State::Running), "not before this call is over");
        } else {
            say(ctx, "check", "check");
        }
        Ok(())
    });
    stage.ctx().endpoint::<Player, Say>("e.denied", engine).unwrap();
    stage.player("R", &[("check", 0)], |ctx, _| Ok(ctx.send("e.denied", &Say("denied", 0))?));
    stage.publish("submit", "submit");
    assert_eq!(stage.settle(), "E(submit) R(check) E(denied)");
    assert_eq!(stage.ctx().state(engine), None);
}

/// What a component does to itself.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Stop,
    Retire,
    Unsubscribe,
    CancelTimer,
    Replace,
    Reset,
    Fault,
}

const ACTS: [Act; 7] =
    [Act::Stop, Act::Retire, Act::Unsubscribe, Act::CancelTimer, Act::Replace, Act::Reset, Act::Fault];

/// From where it does so.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Event,
    Timer,
    Command,
    Endpoint,
}

struct Suicidal {
    act: Act,
    record: Record,
    subscription: Arc<Mutex<Option<SubscriptionId>>>,
}

impl Suicidal {
    fn act(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        self.record.note("begin");
        let own: ComponentKey = ctx.this().unwrap();
        match self.act {
            Act::Stop => ctx.stop(own)?,
            Act::Retire => {
                ctx.stop(own)?;
                ctx.retire(own)?;
            }
            Act::Unsubscribe => {
                let id = self.subscription.lock().unwrap().unwrap();
                ctx.unsubscribe(id);
            }
            Act::CancelTimer => {
                ctx.cancel_timer("t");
            }
            Act::Replace => {
                let next = Lying(self.record.clone());
                let id = ctx.replace(own, next)?;
                ctx.start(id)?;
            }
            Act::Reset => {
                ctx.stop(own)?;
                ctx.reset(own)?;
            }
            Act::Fault => ctx.fault(own)?,
        }
        // The storage of the running callback is still its own.
        self.record.note("end");
        Ok(())
    }
}

impl Drop for Suicidal {
    fn drop(&mut self) {
        self.record.note("dropped");
    }
}

struct Lying(#[allow(dead_code, reason = "held as a component's state would be")] Record);

impl Component for Lying {}

impl Component for Suicidal {
    fn on_stop(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.record.note("stopped");
        Ok(())
    }
    fn on_dispose(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        self.record.note("disposed");
        Ok(())
    }
    fn on_timer(&mut self, ctx: &mut Context<'_>, _: &turnkeep_bus::Timer) -> Result<(), Failure> {
        self.act(ctx)
    }
}

impl turnkeep_bus::On<Say> for Suicidal {
    fn on(&mut self, ctx: &mut Context<'_>, _: &Say) -> Result<(), Failure> {
        self.act(ctx)
    }
}

impl Handle<u8> for Suicidal {
    fn handle(&mut self, ctx: &mut Commanding<'_, u8>, _: u8) -> Result<(), Failure> {
        self.act(ctx)
    }
}

fn run(act: Act, from: From) -> String {
    let record = Record::default();
    let subscription = Arc::default();
    let mut bus = Hosted::new(Bus::default());
    let suicidal = Suicidal { act, record: record.clone(), subscription: Arc::clone(&subscription) };
    let id = bus.context().register("S", suicidal).unwrap();
    bus.context().start(id).unwrap();
    *subscription.lock().unwrap() = Some(bus.context().subscribe::<Suicidal, Say>(id, "x", 0).unwrap());
    bus.context().endpoint::<Suicidal, Say>("s", id).unwrap();
    let at = if from == From::Timer { 5 } else { 500 };
    let schedule = Schedule { first_ns: at, interval_ns: None, stop_ns: None };
    bus.context().set_timer_for(id, "t", schedule).unwrap();
    match from {
        From::Event => say(&mut bus.context(), "x", "-"),
        From::Timer => bus.set_time(10),
        From::Command => {
            let queue = bus.context().queue::<Suicidal, u8>(QueueKind::Trading, id);
            bus.context().command(queue, 1).unwrap();
        }
        From::Endpoint => bus.context().send("s", &Say("-", 0)).unwrap(),
    }
    bus.settle().unwrap();
    assert!(bus.context().fault_report().is_none());
    assert_eq!(bus.context().failures().count(), 0);
    record.line()
}

#[test]
fn cb_55_a_component_that_ends_itself_in_any_way_from_anywhere_runs_to_its_end_first() {
    for act in ACTS {
        for from in [From::Event, From::Timer, From::Command, From::Endpoint] {
            let wanted = match act {
                Act::Stop | Act::Reset => "begin end stopped",
                Act::Retire => "begin end stopped disposed dropped",
                Act::Replace => "begin end dropped",
                Act::Unsubscribe | Act::CancelTimer | Act::Fault => "begin end",
            };
            let calls = run(act, from);
            // What is still registered is dropped with the bus.
            let calls =
                if matches!(act, Act::Retire | Act::Replace) { calls } else { calls.replace(" dropped", "") };
            assert_eq!(calls, wanted, "{act:?} from {from:?}");
        }
    }
}

#[test]
fn cb_53_a_live_engine_may_send_into_its_own_channel_while_it_works() {
    let record = Record::default();
    let sender: Arc<Mutex<Option<turnkeep_bus::Sender<&'static str>>>> = Arc::default();
    let own = sender.clone();
    let play: crate::support::Play = Box::new(move |_, event| {
        if event.0 == "first" {
            own.lock().unwrap().as_ref().unwrap().send(None, "second")?;
        }
        Ok(())
    });
    let mut bus = Bus::default();
    let id = bus.context().register("E", Player { name: "E", record: record.clone(), play }).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Player, Say>(id, "x", 0).unwrap();
    let mut live = Live::new(bus, 1, Clock::Events, |ctx, what: &'static str| say(ctx, "x", what));
    *sender.lock().unwrap() = Some(live.sender());
    live.sender().send(None, "first").unwrap();
    while live.batch().unwrap() == Progress::More {}
    assert_eq!(record.line(), "E(first) E(second)");
}
