//! Random publications, nested and scoped, life-cycle changes and budgets on the real bus and on a dispatcher that is
//! slow and obviously right: the same calls in the same order, and a runaway exactly where it must be.
#![allow(clippy::unwrap_used, reason = "a test may unwrap what it likes")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use turnkeep_bus::{
    Arrived, Bus, Component, ComponentId, Context, Event, FaultKind, Halt, Hosted, Limits, On, SubscriptionId,
};
use turnkeep_machines::order::Random;

const TOPICS: [&str; 3] = ["a", "b", "c"];
const COMPONENTS: u64 = 4;
/// How deep publications answer each other.
const DEPTH_MAX: u64 = 3;

/// An event that says what every recipient does with it: that follows from its number and the recipient's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Told {
    number: u64,
    depth: u64,
}

impl Event for Told {
    const NAME: &'static str = "told";
    fn heap_bytes(&self) -> usize {
        0
    }
    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
    }
}

/// What somebody does with an event.
#[derive(Clone, Debug)]
enum Action {
    Publish(usize, Told),
    /// Two publications inside a scope.
    Scope(usize, usize, [Told; 2]),
    Unsubscribe(usize),
}

fn child(parent: Told, salt: u64) -> Told {
    let number = Random::new(parent.number.wrapping_mul(31).wrapping_add(salt)).number();
    Told { number, depth: parent.depth + 1 }
}

fn actions(who: usize, told: Told) -> Vec<Action> {
    let mut random = Random::new(told.number ^ (who as u64 + 1).wrapping_mul(0x9e37_79b9));
    if told.depth >= DEPTH_MAX {
        return Vec::new();
    }
    let topic = |random: &mut Random| random.below(TOPICS.len() as u64) as usize;
    let one = |random: &mut Random, at: u64| {
        let salt = (who as u64) << 8 | at;
        match random.below(8) {
            0..5 => Action::Publish(topic(random), child(told, salt)),
            5 | 6 => {
                let (first, second) = (topic(random), topic(random));
                Action::Scope(first, second, [child(told, salt), child(told, salt | 128)])
            }
            _ => Action::Unsubscribe(random.below(12) as usize),
        }
    };
    let many = random.below(3);
    (0..many).map(|at| one(&mut random, at)).collect()
}

/// Who listens: to which topic, how early, and whether it is a raw callable.
#[derive(Clone, Copy, Debug)]
struct Listens {
    who: usize,
    topic: usize,
    priority: i32,
    raw: bool,
}

/// What is done from outside.
#[derive(Clone, Copy, Debug)]
enum Step {
    Publish(usize, u64),
    Stop(usize),
    Resume(usize),
    Settle,
}

#[derive(Clone, Debug)]
struct Scenario {
    listens: Vec<Listens>,
    steps: Vec<Step>,
    deliveries_max: u64,
}

fn scenario(seed: u64) -> Scenario {
    let mut random = Random::new(seed);
    let listens = (0..6 + random.below(6))
        .map(|_| {
            let raw = random.one_in(4);
            let who = if raw { 100 + random.below(3) } else { random.below(COMPONENTS) };
            let priority = random.below(4) as i32;
            Listens { who: who as usize, topic: random.below(3) as usize, priority, raw }
        })
        .collect();
    let step = |random: &mut Random| match random.below(10) {
        0..5 => Step::Publish(random.below(3) as usize, random.number()),
        5 => Step::Stop(random.below(COMPONENTS) as usize),
        6 => Step::Resume(random.below(COMPONENTS) as usize),
        _ => Step::Settle,
    };
    let steps = (0..10 + random.below(20)).map(|_| step(&mut random)).chain([Step::Settle]).collect();
    let deliveries_max = if random.one_in(3) { 1 + random.below(12) } else { 1_000_000 };
    Scenario { listens, steps, deliveries_max }
}

/// Who was called with which event, in order; and whether it ended in a runaway.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Heard {
    calls: Vec<(usize, u64)>,
    runaway: bool,
}

// ---- the reference ----------------------------------------------------------------------------------------------

/// A queued callback; the order of the fields is the order of delivery.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Slot {
    publication: u64,
    admission: u64,
    subscription: usize,
    told: Told,
    root: usize,
    /// The run of its component when it was admitted; 0: it did not run.
    run: u64,
}

struct Reference {
    listens: Vec<Option<Listens>>,
    ordinal: u64,
    line: BTreeSet<Slot>,
    /// Runs so far by component, and whether it runs now.
    runs: Vec<(u64, bool)>,
    /// Deliveries by root.
    roots: Vec<u64>,
    /// The root of what runs now.
    active: Option<usize>,
    /// Publications that are open around it.
    open: u32,
    heard: Heard,
}

impl Reference {
    fn publish(&mut self, topic: usize, told: Told) {
        let outermost = self.open == 0 && self.active.is_none();
        self.open += 1;
        self.ordinal += 1;
        let publication = self.ordinal;
        let mut recipients: Vec<usize> = (0..self.listens.len())
            .filter(|at| self.listens[*at].is_some_and(|listens| listens.topic == topic))
            .collect();
        recipients.sort_by_key(|at| self.listens[*at].map(|listens| -listens.priority));
        for at in recipients {
            // One that was taken out by an earlier recipient is none any more.
            let Some(listens) = self.listens[at] else { continue };
            if listens.raw {
                self.heard.calls.push((listens.who, told.number));
                self.act(listens.who, told);
                continue;
            }
            let root = *self.active.get_or_insert_with(|| {
                self.roots.push(0);
                self.roots.len() - 1
            });
            self.ordinal += 1;
            let (runs, is_running) = self.runs[listens.who];
            let run = if is_running { runs } else { 0 };
            self.line.insert(Slot {
                publication,
                admission: self.ordinal,
                subscription: at,
                told,
                root,
                run,
            });
        }
        self.open -= 1;
        if outermost {
            self.active = None;
        }
    }

    fn act(&mut self, who: usize, told: Told) {
        for action in actions(who, told) {
            match action {
                Action::Publish(topic, told) => self.publish(topic, told),
                Action::Scope(first, second, told) => {
                    self.publish(first, told[0]);
                    self.publish(second, told[1]);
                }
                Action::Unsubscribe(at) => {
                    if let Some(listens) = self.listens.get_mut(at) {
                        *listens = None;
                    }
                }
            }
        }
    }

    fn settle(&mut self, deliveries_max: u64) {
        while let Some(slot) = self.line.first().copied() {
            let deliverable = self.listens[slot.subscription].filter(|listens| {
                let (runs, is_running) = self.runs[listens.who];
                is_running && slot.run == runs && slot.run != 0
            });
            if deliverable.is_some() && self.roots[slot.root] >= deliveries_max {
                self.heard.runaway = true;
                return;
            }
            self.line.remove(&slot);
            let Some(listens) = deliverable else { continue };
            self.heard.calls.push((listens.who, slot.told.number));
            self.active = Some(slot.root);
            self.act(listens.who, slot.told);
            self.active = None;
            self.roots[slot.root] += 1;
        }
    }
}

fn expected(scenario: &Scenario) -> Heard {
    let mut reference = Reference {
        listens: scenario.listens.iter().copied().map(Some).collect(),
        ordinal: 0,
        line: BTreeSet::new(),
        runs: vec![(1, true); COMPONENTS as usize],
        roots: Vec::new(),
        active: None,
        open: 0,
        heard: Heard::default(),
    };
    for step in &scenario.steps {
        match *step {
            Step::Publish(topic, number) => reference.publish(topic, Told { number, depth: 0 }),
            Step::Stop(who) => reference.runs[who].1 = false,
            Step::Resume(who) if !reference.runs[who].1 => {
                reference.runs[who] = (reference.runs[who].0 + 1, true)
            }
            Step::Resume(_) => {}
            Step::Settle => reference.settle(scenario.deliveries_max),
        }
        if reference.heard.runaway {
            break;
        }
    }
    reference.heard
}

// ---- the bus ----------------------------------------------------------------------------------------------------

#[derive(Clone, Default)]
struct Shared {
    calls: Arc<Mutex<Vec<(usize, u64)>>>,
    subscriptions: Arc<Mutex<Vec<SubscriptionId>>>,
}

impl Shared {
    fn called(&self, ctx: &mut Context<'_>, who: usize, told: Told) {
        self.calls.lock().unwrap().push((who, told.number));
        for action in actions(who, told) {
            match action {
                Action::Publish(topic, told) => ctx.publish_to(TOPICS[topic], told).unwrap(),
                Action::Scope(first, second, told) => ctx.scope(|ctx| {
                    ctx.publish_to(TOPICS[first], told[0]).unwrap();
                    ctx.publish_to(TOPICS[second], told[1]).unwrap();
                }),
                Action::Unsubscribe(at) => {
                    let id = self.subscriptions.lock().unwrap().get(at).copied();
                    if let Some(id) = id {
                        ctx.unsubscribe(id);
                    }
                }
            }
        }
    }
}

struct Listener(usize, Shared);
impl Component for Listener {}
impl On<Told> for Listener {
    fn on(&mut self, ctx: &mut Context<'_>, told: &Told) -> Result<(), turnkeep_bus::Failure> {
        self.1.called(ctx, self.0, *told);
        Ok(())
    }
}

fn found(scenario: &Scenario) -> Heard {
    let limits = Limits { deliveries: scenario.deliveries_max, ..Limits::default() };
    let (mut bus, shared) = (Hosted::new(Bus::builder().limits(limits).build()), Shared::default());
    let components: Vec<ComponentId<Listener>> = (0..COMPONENTS as usize)
        .map(|who| {
            let id = bus.context().register(&format!("c{who}"), Listener(who, shared.clone())).unwrap();
            bus.context().start(id).unwrap();
            id
        })
        .collect();
    for listens in &scenario.listens {
        let (mut ctx, topic) = (bus.context(), TOPICS[listens.topic]);
        let id = if listens.raw {
            let (who, shared) = (listens.who, shared.clone());
            let raw = move |ctx: &mut Context<'_>, event: &Arrived<'_>| {
                shared.called(ctx, who, *event.get::<Told>().unwrap());
            };
            ctx.subscribe_raw("raw", topic, listens.priority, raw).unwrap()
        } else {
            ctx.subscribe::<Listener, Told>(components[listens.who], topic, listens.priority).unwrap()
        };
        shared.subscriptions.lock().unwrap().push(id);
    }
    let mut runaway = false;
    for step in &scenario.steps {
        match *step {
            Step::Publish(topic, number) => {
                bus.context().publish_to(TOPICS[topic], Told { number, depth: 0 }).unwrap();
            }
            Step::Stop(who) => drop(bus.context().stop(components[who])),
            Step::Resume(who) => drop(bus.context().resume(components[who])),
            Step::Settle => match bus.settle() {
                Ok(_) => {}
                Err(Halt::Fault(report)) if report.kind == FaultKind::Runaway => {
                    runaway = true;
                    break;
                }
                Err(other) => panic!("{other}"),
            },
        }
    }
    if runaway {
        bus.boundary().teardown().unwrap();
    }
    let metrics = bus.context().metrics();
    assert_eq!((metrics.depth, metrics.units, metrics.roots_alive), (0, 0, 0), "something is left behind");
    let calls = std::mem::take(&mut *shared.calls.lock().unwrap());
    Heard { calls, runaway }
}

// ---- the comparison ---------------------------------------------------------------------------------------------

/// Leaves out what is not needed for the difference.
fn shrink(mut scenario: Scenario) -> Scenario {
    let mut at = 0;
    // The last one settles what is left.
    while at + 1 < scenario.steps.len() {
        let mut smaller = scenario.clone();
        smaller.steps.remove(at);
        if expected(&smaller) == found(&smaller) { at += 1 } else { scenario = smaller }
    }
    scenario
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn prop_pub_1_pub_2_comp_5_root_4_the_bus_calls_whom_the_reference_calls() {
    let seeds = variable("TURNKEEP_SEED")
        .map_or(0..variable("TURNKEEP_SEEDS").map_or(3_000, |seeds| seeds * 100), |seed| seed..seed + 1);
    let (mut calls, mut runaways) = (0, 0);
    for seed in seeds.clone() {
        let scenario = scenario(seed);
        let (expected, found) = (expected(&scenario), found(&scenario));
        if expected != found {
            let small = shrink(scenario);
            panic!(
                "seed {seed}: {found:?}\nin place of {expected:?}\nthe steps that it takes: {small:#?}\n\
                 repeat: TURNKEEP_SEED={seed} cargo test -p turnkeep-bus --test reference prop_"
            );
        }
        calls += found.calls.len();
        runaways += u64::from(found.runaway);
    }
    println!("{} scenarios, {calls} calls, {runaways} runaways", seeds.end - seeds.start);
    assert!(seeds.end - seeds.start == 1 || (calls > 10_000 && runaways > 10), "it shows little");
}
