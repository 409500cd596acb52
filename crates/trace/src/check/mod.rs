//! The checker: a machine that is told one event after the other and says which clauses they break.
//!
//! # Invariants
//!
//! * It knows what lives: objects, records that are not over, Joins under way. What is over is forgotten, so its
//!   memory follows what the node had alive, not the length of the trace.
//! * It claims only what the order of the events proves (each says how it stands to what it reports, see
//!   [`crate::event`]), so a node that keeps the contract never makes a finding, however its threads race.
//! * After a finding it goes on from what happened, so that one breach is not told a hundred times.
//!
//! # Not here
//!
//! Files, threads, clocks; which event comes first (see [`crate::Reader`]).

mod end;
mod join;
mod lane;
mod life;
mod timer;
mod turn;
mod wait;
mod why;
mod world;

use std::fmt;
use std::io::{Read, Seek};

use crate::clauses::is_checked;
use crate::event::Event;
use crate::read::{Entry, ReadError, Reader};
use crate::why::Situation;
pub(crate) use world::World;

/// Findings that are told in full; more are counted.
const FINDINGS_MAX: usize = 1000;

/// An event with its place in the merged trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its number, from 1.
    pub number: u64,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// The thread that recorded it.
    pub thread: u64,
    /// What it says.
    pub event: Event,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {} at {} ns by thread {}: {}", self.number, self.time_ns, self.thread, self.event)
    }
}

/// A broken clause, with the events that break it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The clause.
    pub clause: &'static str,
    /// What is wrong, in words.
    pub text: String,
    /// The events, the last one last.
    pub events: Vec<Seen>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.clause, self.text)?;
        self.events.iter().try_for_each(|event| write!(f, "\n    {event}"))
    }
}

/// What a check came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Events looked at.
    pub events: u64,
    /// Turns among them.
    pub turns: u64,
    /// What is broken: the first thousand.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more: u64,
    /// Whether the trace ends with an orderly end of the node, so that what only the end shows was checked too.
    pub to_the_end: bool,
}

impl Report {
    /// Whether nothing is broken.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    world: World,
    report: Report,
    now: Option<Seen>,
}

impl Checker {
    /// A checker that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next event.
    pub fn on(&mut self, entry: Entry) {
        self.report.events += 1;
        let Entry { time_ns, thread, event } = entry;
        let seen = Seen { number: self.report.events, time_ns, thread, event };
        let event = seen.event.clone();
        self.now = Some(seen);
        match event.code() {
            10..20 => self.on_life(event),
            20..40 => self.on_lane(event),
            40..60 => self.on_turn(event),
            60..70 => self.on_wait(event),
            70..90 => self.on_join(event),
            _ => self.on_timer(event),
        }
    }

    /// The trace is over; `whole`: nothing was cut off.
    #[must_use]
    pub fn finish(&mut self, whole: bool) -> Report {
        let to_the_end = whole && self.world.ended == Some(false);
        if to_the_end {
            self.at_end();
        }
        self.report.to_the_end = to_the_end;
        std::mem::take(&mut self.report)
    }

    /// How the objects of an id, or of a number (`#12`), stand now.
    #[must_use]
    pub fn situations(&self, id: &str) -> Vec<Situation> {
        self.world.situations(id, self.now.as_ref().map_or(0, |now| now.time_ns))
    }

    /// How many things the checker remembers.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.world.len()
    }

    /// A clause is broken by the event of this moment, and by `others` before it.
    fn broken<'a>(
        &mut self,
        clause: &'static str,
        text: impl fmt::Display,
        others: impl IntoIterator<Item = Option<&'a Seen>>,
    ) {
        debug_assert!(is_checked(clause), "{clause} is not in the list of what is checked");
        if self.report.findings.len() >= FINDINGS_MAX {
            self.report.more += 1;
            return;
        }
        let mut events: Vec<Seen> = others.into_iter().flatten().cloned().collect();
        events.extend(self.now.clone());
        events.dedup_by_key(|event| event.number);
        self.report.findings.push(Finding { clause, text: text.to_string(), events });
    }
}

/// Reads a trace and checks it; the checker can be asked for situations afterwards.
///
/// # Errors
///
/// If the trace cannot be read.
pub fn check(source: impl Read + Seek) -> Result<(Report, Checker), ReadError> {
    let mut reader = Reader::open(source)?;
    let mut checker = Checker::new();
    while let Some(entry) = reader.next_entry()? {
        checker.on(entry);
    }
    Ok((checker.finish(reader.is_whole()), checker))
}
