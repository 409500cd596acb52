//! Iterator invalidation: subscriptions that change while their topic is published.

use std::sync::{Arc, Mutex};

use turnkeep_bus::{Component, ComponentId, Context, Failure, On, SubscriptionId};

use crate::support::{Player, Say, Stage};

/// The components and subscriptions by number, where every callback finds them.
#[derive(Default)]
struct Numbers {
    components: Vec<ComponentId<Numbered>>,
    subscriptions: Vec<Option<SubscriptionId>>,
}

struct Numbered {
    number: usize,
    calls: Arc<Mutex<Vec<usize>>>,
}

impl Component for Numbered {}

fn add(ctx: &mut Context<'_>, number: usize) {
    let component = ctx.resource::<Numbers>().unwrap().components[number];
    let id = ctx.subscribe::<Numbered, Say>(component, "x", 0).unwrap();
    ctx.resource_mut::<Numbers>().unwrap().subscriptions[number] = Some(id);
}

fn remove(ctx: &mut Context<'_>, number: usize) {
    let id = ctx.resource_mut::<Numbers>().unwrap().subscriptions[number].take().unwrap();
    assert!(ctx.unsubscribe(id));
}

impl On<Say> for Numbered {
    fn on(&mut self, ctx: &mut Context<'_>, event: &Say) -> Result<(), Failure> {
        self.calls.lock().unwrap().push(self.number);
        match (event.0, self.number) {
            ("1", 3) => remove(ctx, 3),
            ("1", 10) => {
                remove(ctx, 11);
                remove(ctx, 9);
            }
            ("1", 500) => add(ctx, 1001),
            ("1", 700) => {
                remove(ctx, 700);
                add(ctx, 700);
            }
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn cb_56_a_thousand_listeners_survive_changes_from_within() {
    let mut stage = Stage::default();
    let calls: Arc<Mutex<Vec<usize>>> = Arc::default();
    stage.ctx().set_resource(Numbers { components: Vec::new(), subscriptions: vec![None; 1002] });
    for number in 0..=1001 {
        let numbered = Numbered { number, calls: calls.clone() };
        let id = stage.ctx().register(&number.to_string(), numbered).unwrap();
        stage.ctx().start(id).unwrap();
        stage.ctx().resource_mut::<Numbers>().unwrap().components.push(id);
    }
    (1..=1000).for_each(|number| add(&mut stage.ctx(), number));
    let publish = |stage: &mut Stage, what| {
        stage.publish("x", what);
        stage.settle();
        std::mem::take(&mut *calls.lock().unwrap())
    };
    let first = publish(&mut stage, "1");
    assert_eq!(first.len(), 999);
    assert_eq!(first, (1..=1000).filter(|number| *number != 11).collect::<Vec<_>>());
    let second = publish(&mut stage, "2");
    assert_eq!(second.len(), 998);
    let gone = [3, 9, 11, 700];
    let mut wanted: Vec<usize> = (1..=1000).filter(|number| !gone.contains(number)).collect();
    wanted.extend([1001, 700]);
    assert_eq!(second, wanted, "in the order of subscription, 700 anew");
}

#[test]
fn cb_58_after_an_unsubscription_no_callback_starts_and_what_was_pending_is_counted() {
    let mut stage = Stage::default();
    let id = stage.listener("S", &[]);
    let subscription = stage.ctx().subscribe::<Player, Say>(id, "x", 0).unwrap();
    (0..5).for_each(|_| stage.publish("x", "-"));
    assert_eq!(stage.bus.boundary().drain(2).delivered, 2);
    // Between two pieces of work nothing runs, so the call is over at once and the data can be freed.
    assert!(stage.ctx().unsubscribe(subscription));
    stage.record.take();
    assert_eq!(stage.settle(), "");
    assert_eq!(stage.ctx().metrics().cancelled, 3);
}
