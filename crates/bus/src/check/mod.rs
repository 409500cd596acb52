//! Checks a bus log: does what a bus has noted keep the rules of the bus?
//!
//! The checker knows the log and nothing of the code that wrote it. It claims the clauses in [`CLAUSES`]; each breach
//! names its clause, the record, and what was wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Read;

use crate::log::{Entry, LogError, LogReader};

mod commands;
mod order;
mod roots;
mod time;

/// The clauses that the checker claims.
pub const CLAUSES: [&str; 29] = [
    "PUB-1", "PUB-2", "PUB-3", "PUB-4", "PUB-6", "PUB-7", "ADM-2", "ADM-3", "ADM-4", "DRAIN-1", "DRAIN-3",
    "DRAIN-6", "ROOT-1", "ROOT-3", "ROOT-4", "ROOT-5", "CMD-1", "CMD-2", "CMD-3", "CMD-4", "CMD-6", "COMP-1",
    "COMP-3", "FAULT-1", "FAULT-2", "FAULT-4", "TIME-1", "TIME-2", "TIME-4",
];

/// How many breaches are kept; all are counted.
pub const BREACHES_MAX: usize = 1000;

/// One breach of one clause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The clause, such as `PUB-1`.
    pub clause: &'static str,
    /// The record that breaks it; the first one after the header is 1.
    pub record: u64,
    /// What was wrong.
    pub text: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}: {}", self.record, self.clause, self.text)
    }
}

/// What a check has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Records that were looked at.
    pub records: u64,
    /// Callbacks among them.
    pub callbacks: u64,
    /// The first [`BREACHES_MAX`] breaches, in the order of the log.
    pub breaches: Vec<Breach>,
    /// All breaches.
    pub count: u64,
}

/// Checks a log.
///
/// # Errors
///
/// The source holds no log, or a damaged one.
pub fn check(source: impl Read) -> Result<Checked, LogError> {
    let mut checker = Checker::default();
    for entry in LogReader::new(source)? {
        checker.take(&entry?);
    }
    Ok(checker.checked)
}

/// Checks entries that are at hand.
pub fn check_entries<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Checked {
    let mut checker = Checker::default();
    entries.into_iter().for_each(|entry| checker.take(entry));
    checker.checked
}

/// The place of a slot in the order.
type Key = (u64, u64);

/// What is known of a component.
#[derive(Clone, Copy, Default)]
struct Component {
    registration: u32,
    generation: u32,
    run: u32,
}

/// A slot in the line.
#[derive(Clone, Copy)]
struct Slot {
    root: u64,
    component: u32,
    registration: u32,
    generation: u32,
    run: u32,
    subscription: (u32, u32),
    /// Its capture is still to come.
    reserved: bool,
}

/// What is open, innermost last.
#[derive(Clone, Copy, PartialEq)]
enum Frame {
    Publication(u64),
    Delivery(u64),
    Command(u64),
    Chain,
}

/// A root that is alive.
#[derive(Clone, Copy, Default)]
struct Root {
    deliveries: u64,
    commands: u64,
}

/// The limits that the log states.
#[derive(Clone, Copy, Default)]
struct Limits {
    deliveries: Option<u64>,
    commands: Option<u64>,
    firings: Option<u64>,
    units: Option<u32>,
}

#[derive(Default)]
struct Checker {
    checked: Checked,
    limits: Limits,
    components: BTreeMap<u32, Component>,
    /// Priority and order of each subscription that is there.
    subscriptions: BTreeMap<(u32, u32), (i32, u64)>,
    subscribed: u64,
    /// Every subscription that was ever made.
    known_subscriptions: BTreeSet<(u32, u32)>,
    /// The highest ordinal so far.
    last: u64,
    slots: BTreeMap<Key, Slot>,
    keys: BTreeMap<u64, Key>,
    /// Publications with the one around them.
    parents: BTreeMap<u64, u64>,
    /// Open frames with the root that each works under.
    frames: Vec<(Frame, Option<u64>)>,
    /// The last recipient of each open publication, as it sorts.
    recipients: BTreeMap<u64, (i64, u64)>,
    roots: BTreeMap<u64, Root>,
    /// The drain that is under way: its budget and what it has taken out.
    drain: Option<(u32, u32)>,
    faulted: bool,
    tearing_down: bool,
    queues: BTreeMap<u32, commands::Queue>,
    clock: time::Clock,
}

impl Checker {
    fn breach(&mut self, clause: &'static str, text: String) {
        self.checked.count += 1;
        if self.checked.breaches.len() < BREACHES_MAX {
            let record = self.checked.records;
            self.checked.breaches.push(Breach { clause, record, text });
        }
    }

    fn take(&mut self, entry: &Entry) {
        self.checked.records += 1;
        match entry {
            Entry::Limits { deliveries, commands, firings, units } => {
                self.limits = Limits {
                    deliveries: Some(*deliveries),
                    commands: Some(*commands),
                    firings: Some(*firings),
                    units: Some(*units),
                };
            }
            Entry::Component { component, registration, .. } => {
                let registration = *registration;
                self.components.insert(*component, Component { registration, ..Component::default() });
            }
            Entry::Life { component, registration, generation, run, .. } => {
                let (registration, generation, run) = (*registration, *generation, *run);
                self.components.insert(*component, Component { registration, generation, run });
            }
            Entry::Topic { .. } | Entry::Refused { .. } | Entry::Endpoint { .. } => {}
            Entry::Fault { .. } => self.faulted = true,
            Entry::TeardownBegan => self.on_teardown(),
            Entry::TeardownEnded { units, bytes, roots } => self.on_torn_down(*units, *bytes, *roots),
            Entry::Sent { .. }
            | Entry::Batch { .. }
            | Entry::BatchEnded { .. }
            | Entry::Command { .. }
            | Entry::CommandEnded { .. }
            | Entry::Captured { .. }
            | Entry::Dropped { .. } => self.on_command_entry(entry),
            Entry::Clock { .. }
            | Entry::TimerSet { .. }
            | Entry::TimerCancelled { .. }
            | Entry::TimerFired { .. } => {
                self.on_time_entry(entry);
            }
            Entry::RootMade { .. }
            | Entry::RootFreed { .. }
            | Entry::ChainOpened { .. }
            | Entry::ChainClosed { .. } => {
                self.on_root_entry(entry);
            }
            _ => self.on_order_entry(entry),
        }
    }

    fn on_teardown(&mut self) {
        if let Some((frame, _)) = self.frames.last() {
            let what = match frame {
                Frame::Publication(publication) => format!("publication {publication} is open"),
                Frame::Delivery(admission) => format!("slot {admission} is being delivered"),
                Frame::Command(command) => format!("command {command} is being handled"),
                Frame::Chain => "a chain is open".into(),
            };
            self.breach("FAULT-4", format!("a teardown began while {what}"));
        }
        if let Some((key, _)) = self.slots.iter().find(|(_, slot)| slot.reserved) {
            self.breach("FAULT-4", format!("a teardown began while slot {} was reserved", key.1));
        }
        self.tearing_down = true;
        // What is queued is given up, and nobody is told of each slot.
        self.slots.clear();
        self.keys.clear();
    }

    fn on_torn_down(&mut self, units: u32, bytes: u64, roots: u32) {
        if (units, bytes, roots) != (0, 0, 0) {
            self.breach("FAULT-4", format!("a teardown left {units} units, {bytes} bytes and {roots} roots"));
        }
        self.tearing_down = false;
        self.faulted = false;
    }

    /// Every frame without a root, from the top down to one that has one, works under this root from now on.
    fn adopt(&mut self, root: u64) {
        let bare: BTreeSet<usize> =
            (0..self.frames.len()).rev().take_while(|&at| self.frames[at].1.is_none()).collect();
        for at in bare {
            self.frames[at].1 = Some(root);
            if let Frame::Command(command) = self.frames[at].0 {
                // The command that needed the root pays from it.
                self.charge_command(root, command);
            }
        }
    }

    fn active(&self) -> Option<u64> {
        self.frames.last().and_then(|(_, root)| *root)
    }
}
