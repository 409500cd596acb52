//! The checker of bus logs: honest logs pass, and each clause that it claims has a log that breaks it.
#![allow(clippy::unwrap_used, reason = "tests end by it")]

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex};

use turnkeep_bus::check::{CLAUSES, Checked, check, check_entries};
use turnkeep_bus::log::{Entry, LogReader};
use turnkeep_bus::{
    Bus, Commanding, Component, Context, Failure, Handle, Hosted, Maintenance, On, QueueKind, Schedule, Timer,
};

#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Answers, sets timers, sends commands that capture and send.
struct Busy;

impl Component for Busy {
    const MAINTENANCE: Maintenance = Maintenance::Always;
    fn on_timer(&mut self, ctx: &mut Context<'_>, _: &Timer) -> Result<(), Failure> {
        Ok(ctx.publish_to("t", 1_u64)?)
    }
}

impl On<u64> for Busy {
    fn on(&mut self, ctx: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        if *number > 0 {
            ctx.publish_to(if number.is_multiple_of(2) { "even" } else { "odd" }, number / 2)?;
        }
        Ok(())
    }
}

impl Handle<u64> for Busy {
    fn handle(&mut self, ctx: &mut Commanding<'_, u64>, number: u64) -> Result<(), Failure> {
        if number > 0 {
            ctx.capture(number / 3)?;
            ctx.publish_to("odd", number)?;
        }
        Ok(())
    }
}

/// A log of everything that a bus can do, faults and a teardown included.
fn honest() -> Vec<u8> {
    let bytes = Bytes::default();
    let mut bus = Hosted::new(Bus::builder().log(bytes.clone()).build());
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        let id = bus.context().register(name, Busy).unwrap();
        for pattern in ["even", "o*", "t"] {
            bus.context().subscribe::<Busy, u64>(id, pattern, 3).unwrap();
        }
        bus.context().start(id).unwrap();
        ids.push(id);
    }
    bus.context().subscribe_raw("raw", "even", 5, |ctx, _| ctx.publish_to("t", 0_u64).unwrap()).unwrap();
    let queue = bus.context().queue::<Busy, u64>(QueueKind::Trading, ids[1]);
    bus.context()
        .set_timer_for(ids[0], "tick", Schedule { first_ns: 5, interval_ns: Some(5), stop_ns: Some(30) })
        .unwrap();
    for number in 0..9 {
        bus.context().publish_to("even", number).unwrap();
        bus.context().command(queue, number).unwrap();
        drop(bus.context().reserve::<Busy, u64>(ids[0], 0).unwrap());
        bus.set_time(number * 2);
        bus.settle().unwrap();
    }
    let kept = bus.context().retain(0_u8, 0).unwrap();
    bus.context().with_chain(&kept, |ctx| ctx.publish_to("odd", 3_u64).unwrap());
    drop(kept);
    bus.context().publish_to("even", 9_u64).unwrap();
    bus.context().stop(ids[0]).unwrap();
    bus.context().reset(ids[0]).unwrap();
    bus.settle().unwrap();
    bus.context().publish_to("even", 9_u64).unwrap();
    bus.context().subscribe_raw("bad", "bad", 0, |_, _| panic!("a fault")).unwrap();
    bus.context().publish_to("bad", 0_u64).unwrap();
    assert!(bus.settle().is_err());
    bus.boundary().teardown().unwrap();
    bus.context().publish_to("even", 1_u64).unwrap();
    bus.settle().unwrap();
    bus.flush_log().unwrap();
    bytes.0.lock().unwrap().clone()
}

#[test]
fn an_honest_log_of_everything_passes() {
    let bytes = honest();
    let checked = check(&bytes[..]).unwrap();
    assert_eq!(checked.breaches, []);
    assert!(checked.callbacks > 100 && checked.records > 500, "{checked:?}");
}

/// The log of one component, two subscriptions, one root, two slots, delivered.
fn base() -> Vec<Entry> {
    vec![
        Entry::Limits { deliveries: 3, commands: 2, firings: 2, units: 3 },
        Entry::Component { component: 0, registration: 1, name: "c".into(), maintenance: "none".into() },
        Entry::Life { component: 0, registration: 1, state: "running".into(), generation: 0, run: 1 },
        Entry::Subscribed {
            subscription: 0,
            serial: 1,
            pattern: "x".into(),
            priority: 9,
            component: Some(0),
        },
        Entry::Subscribed {
            subscription: 1,
            serial: 1,
            pattern: "x".into(),
            priority: 0,
            component: Some(0),
        },
        Entry::Opened { publication: 1, topic: Some(0), root: None },
        Entry::RootMade { root: 1 },
        admitted(1, 2, 0),
        admitted(1, 3, 1),
        Entry::Closed { publication: 1 },
        Entry::DrainBegan { budget: 9 },
        delivered(1, 2),
        returned(2),
        delivered(1, 3),
        returned(3),
        Entry::RootFreed { root: 1, deliveries: 2, commands: 0 },
        Entry::DrainEnded { delivered: 2, cancelled: 0 },
    ]
}

fn admitted(publication: u64, admission: u64, subscription: u32) -> Entry {
    Entry::Admitted {
        publication,
        admission,
        root: 1,
        component: 0,
        registration: 1,
        generation: 0,
        run: 1,
        subscription,
        serial: 1,
        reserved: false,
    }
}

fn delivered(publication: u64, admission: u64) -> Entry {
    Entry::Delivered {
        publication,
        admission,
        component: 0,
        topic: Some(0),
        event: "u64".into(),
        digest: 0,
        root: 1,
        author: true,
        now_ns: 0,
    }
}

fn returned(admission: u64) -> Entry {
    Entry::Returned { admission, outcome: "ok".into() }
}

fn opened(publication: u64, root: Option<u64>) -> Entry {
    Entry::Opened { publication, topic: None, root }
}

fn fault() -> Entry {
    Entry::Fault { kind: "Runaway".into(), first: true, detail: String::new() }
}

fn fired(name: &str, registration: u64, due_ns: u64) -> Entry {
    Entry::TimerFired { component: 0, name: name.into(), registration, due_ns }
}

fn set(name: &str, first_ns: u64) -> Entry {
    Entry::TimerSet { component: 0, name: name.into(), first_ns, interval_ns: None, stop_ns: None }
}

fn sent(command: u64, root: Option<u64>) -> Entry {
    Entry::Sent { queue: 0, command, root }
}

fn batch(commands: u64) -> Entry {
    Entry::Batch { queue: 0, commands }
}

fn command(command: u64, root: Option<u64>) -> Entry {
    Entry::Command { queue: 0, command, root }
}

fn captured(command: u64, parent: u64) -> Entry {
    Entry::Captured { queue: 0, command, parent, root: Some(1) }
}

/// The base with a record changed.
fn with(change: impl FnOnce(&mut Vec<Entry>)) -> Vec<Entry> {
    let mut log = base();
    change(&mut log);
    log
}

/// A log of its own behind the first five records of the base.
fn after(rest: Vec<Entry>) -> Vec<Entry> {
    base().into_iter().take(5).chain(rest).collect()
}

/// Each clause with a log that breaks it.
fn broken() -> Vec<(&'static str, Vec<Entry>)> {
    let two = |inner: Vec<Entry>| {
        let mut log = vec![opened(1, None), Entry::RootMade { root: 1 }];
        log.extend(inner);
        after(log)
    };
    vec![
        (
            "PUB-1",
            two(vec![
                admitted(1, 2, 0),
                Entry::Closed { publication: 1 },
                opened(3, None),
                admitted(3, 4, 0),
                Entry::Closed { publication: 3 },
                Entry::DrainBegan { budget: 9 },
                delivered(3, 4),
            ]),
        ),
        (
            "PUB-2",
            two(vec![
                admitted(1, 2, 0),
                opened(3, Some(1)),
                admitted(3, 4, 0),
                Entry::Closed { publication: 3 },
                Entry::Closed { publication: 1 },
                Entry::DrainBegan { budget: 9 },
                delivered(3, 4),
            ]),
        ),
        ("PUB-3", after(vec![opened(5, None), opened(6, None), Entry::Closed { publication: 5 }])),
        ("PUB-3", after(vec![opened(5, None), Entry::Closed { publication: 5 }, opened(4, None)])),
        ("PUB-4", with(|log| log.swap(11, 13))),
        (
            "PUB-6",
            with(|log| {
                log[7] = admitted(1, 2, 1);
                log[8] = admitted(1, 3, 0);
            }),
        ),
        ("PUB-7", with(|log| log.insert(10, Entry::Unsubscribed { subscription: 1, serial: 1 }))),
        (
            "PUB-7",
            after(vec![
                Entry::Unsubscribed { subscription: 1, serial: 1 },
                opened(1, None),
                Entry::Raw { publication: 1, subscription: 1, serial: 1 },
            ]),
        ),
        ("ADM-2", with(|log| log.insert(9, Entry::Filled { admission: 2 }))),
        (
            "ADM-3",
            with(|log| {
                if let Entry::Admitted { reserved, .. } = &mut log[7] {
                    *reserved = true;
                }
                log.drain(11..13);
            }),
        ),
        (
            "ADM-4",
            with(|log| {
                log.insert(
                    10,
                    Entry::Life {
                        component: 0,
                        registration: 1,
                        state: "ready".into(),
                        generation: 1,
                        run: 1,
                    },
                );
            }),
        ),
        (
            "ADM-4",
            with(|log| {
                log.insert(
                    10,
                    Entry::Life {
                        component: 0,
                        registration: 2,
                        state: "running".into(),
                        generation: 0,
                        run: 1,
                    },
                );
            }),
        ),
        ("DRAIN-1", with(|log| log[10] = Entry::DrainBegan { budget: 1 })),
        ("DRAIN-1", with(|log| log[16] = Entry::DrainEnded { delivered: 1, cancelled: 0 })),
        ("DRAIN-3", with(|log| drop(log.remove(10)))),
        ("DRAIN-3", with(|log| log.swap(9, 10))),
        ("DRAIN-6", with(|log| log.insert(10, Entry::Clock { now_ns: 5 }))),
        (
            "ROOT-1",
            with(|log| {
                log.insert(8, Entry::RootMade { root: 2 });
                if let Entry::Admitted { root, .. } = &mut log[9] {
                    *root = 2;
                }
            }),
        ),
        ("ROOT-1", after(vec![Entry::RootMade { root: 7 }, opened(1, Some(7))])),
        ("ROOT-3", with(|log| log[15] = Entry::RootFreed { root: 1, deliveries: 1, commands: 0 })),
        ("ROOT-4", with(|log| log[0] = Entry::Limits { deliveries: 1, commands: 2, firings: 2, units: 3 })),
        ("ROOT-5", with(|log| log.insert(13, Entry::RootFreed { root: 1, deliveries: 1, commands: 0 }))),
        ("ROOT-5", with(|log| drop(log.remove(6)))),
        ("CMD-1", two(vec![admitted(1, 2, 0), sent(1, None)])),
        ("CMD-2", after(vec![sent(1, None), sent(2, None), batch(2), command(2, None)])),
        ("CMD-2", after(vec![sent(1, None), batch(1), Entry::BatchEnded { queue: 0 }])),
        (
            "CMD-3",
            two(vec![
                admitted(1, 2, 0),
                sent(1, Some(1)),
                sent(2, Some(1)),
                Entry::Closed { publication: 1 },
                batch(2),
                command(1, Some(1)),
                captured(3, 1),
                Entry::CommandEnded { command: 1 },
                command(2, Some(1)),
            ]),
        ),
        ("CMD-4", after(vec![sent(1, None), batch(1), opened(1, None), command(1, None)])),
        (
            "CMD-6",
            two(vec![
                admitted(1, 2, 0),
                sent(1, Some(1)),
                sent(2, Some(1)),
                sent(3, Some(1)),
                Entry::Closed { publication: 1 },
                batch(3),
                command(1, Some(1)),
                Entry::CommandEnded { command: 1 },
                command(2, Some(1)),
                Entry::CommandEnded { command: 2 },
                command(3, Some(1)),
            ]),
        ),
        ("COMP-1", with(|log| log.swap(12, 13))),
        (
            "COMP-3",
            with(|log| {
                log.insert(
                    10,
                    Entry::Life {
                        component: 0,
                        registration: 1,
                        state: "running".into(),
                        generation: 0,
                        run: 2,
                    },
                );
            }),
        ),
        ("FAULT-1", with(|log| log[0] = Entry::Limits { deliveries: 3, commands: 2, firings: 2, units: 1 })),
        ("FAULT-2", with(|log| log.insert(10, fault()))),
        ("FAULT-2", with(|log| log.insert(7, fault()))),
        ("FAULT-4", after(vec![opened(1, None), Entry::TeardownBegan])),
        ("FAULT-4", after(vec![Entry::TeardownBegan, Entry::TeardownEnded { units: 1, bytes: 0, roots: 0 }])),
        ("TIME-1", after(vec![Entry::Clock { now_ns: 5 }, Entry::Clock { now_ns: 4 }])),
        ("TIME-1", after(vec![set("t", 5), fired("t", 1, 5)])),
        ("TIME-2", after(vec![set("b", 5), set("a", 5), Entry::Clock { now_ns: 5 }, fired("b", 1, 5)])),
        (
            "TIME-4",
            after(vec![
                set("a", 5),
                set("b", 5),
                set("c", 5),
                Entry::Clock { now_ns: 5 },
                fired("a", 1, 5),
                fired("b", 2, 5),
                fired("c", 3, 5),
            ]),
        ),
    ]
}

fn clauses(checked: &Checked) -> BTreeSet<&'static str> {
    checked.breaches.iter().map(|breach| breach.clause).collect()
}

#[test]
fn the_base_of_the_broken_logs_is_not_broken() {
    assert_eq!(check_entries(&base()).breaches, []);
}

#[test]
fn every_clause_that_is_claimed_is_found_broken_in_a_log_that_breaks_it() {
    let mut proven = BTreeSet::new();
    for (clause, log) in broken() {
        let checked = check_entries(&log);
        assert!(clauses(&checked).contains(clause), "{clause}: {:?}", checked.breaches);
        proven.insert(clause);
    }
    assert_eq!(proven, BTreeSet::from(CLAUSES));
}

#[test]
fn a_breach_names_its_record() {
    let (_, log) = broken().swap_remove(0);
    let checked = check_entries(&log);
    assert_eq!(
        checked.breaches[0].to_string(),
        "record 14: PUB-1: slot 4 of 3 was delivered before slot 2 of 1"
    );
}

/// Every single record taken out of an honest log, and every two neighbours exchanged: the checker must never panic,
/// and must find most of it.
#[test]
fn honest_logs_that_are_damaged_are_found_out() {
    let bytes = honest();
    let entries: Vec<Entry> = LogReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
    let matters = |entry: &Entry| {
        matches!(
            entry,
            Entry::Delivered { .. }
                | Entry::Opened { .. }
                | Entry::Closed { .. }
                | Entry::Admitted { .. }
                | Entry::RootMade { .. }
        )
    };
    let (mut damaged, mut found) = (0, 0);
    for at in (0..entries.len()).filter(|&at| matters(&entries[at])).step_by(7) {
        let log = entries[..at].iter().chain(&entries[at + 1..]);
        damaged += 1;
        found += usize::from(check_entries(log).count > 0);
    }
    assert!(damaged > 50 && found == damaged, "{found} of {damaged}");
}
