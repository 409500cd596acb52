//! What a driver ran, in order: the last events as text, and a number that stands for all of them.

use std::collections::VecDeque;
use std::fmt;

/// How many events a transcript keeps; what was before counts in its fingerprint only.
pub const TRANSCRIPT_MAX: usize = 65_536;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum What {
    /// The turn of a record began.
    Turn,
    /// A handler that had given its gate up went on, in a turn of its own.
    Resume,
    /// A handler that kept its gate was looked at again.
    GoOn,
    /// CPU or I/O work ran.
    Work,
    /// The future that the driving code waits for was polled.
    Root,
    /// The time was moved on.
    Time,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// In which step: each step is one slice of a gate, of one turn or several.
    pub step: u64,
    /// What.
    pub what: What,
    /// Which object.
    pub who: String,
    /// The message, or when.
    pub about: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Turn => "turn",
            What::Resume => "resumes",
            What::GoOn => "goes on",
            What::Work => "work",
            What::Root => "the test",
            What::Time => "time",
        };
        write!(f, "{:>7}  {what:8}  {}", self.step, self.who)?;
        if self.about.is_empty() { Ok(()) } else { write!(f, "  {}", self.about) }
    }
}

/// The last events of a run, and a fingerprint of all. Printed, one event a line.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Transcript {
    events: VecDeque<Event>,
    /// How many are no longer kept.
    dropped: u64,
    steps: u64,
    fingerprint: u64,
}

impl Transcript {
    pub(super) fn new() -> Self {
        Self { events: VecDeque::new(), dropped: 0, steps: 0, fingerprint: 0xcbf2_9ce4_8422_2325 }
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// How many events there were before those that are kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many steps were made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A number made from every event so far (FNV-1a): two runs that differ in one differ in it, but for one
    /// chance in 2^64.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    pub(super) fn on_step(&mut self) {
        self.steps += 1;
    }

    pub(super) fn on_event(&mut self, what: What, who: &str, about: &str) {
        let about = without_paths(about);
        self.mix(&[what as u8]);
        self.mix(who.as_bytes());
        self.mix(about.as_bytes());
        if self.events.len() == TRANSCRIPT_MAX {
            self.events.pop_front();
            self.dropped += 1;
        }
        self.events.push_back(Event { step: self.steps, what, who: who.to_owned(), about });
    }

    pub(super) fn on_time(&mut self, elapsed_ns: u64) {
        self.on_event(What::Time, &format!("{:?}", std::time::Duration::from_nanos(elapsed_ns)), "");
    }

    fn mix(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&[0xff]) {
            self.fingerprint = (self.fingerprint ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// A type's name without the modules of its parts: `a::B<c::D>` is `B<D>`.
fn without_paths(name: &str) -> String {
    let mut short = String::with_capacity(name.len());
    let mut part = 0;
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        if c == ':' && rest.next_if_eq(&':').is_some() {
            short.truncate(part);
            continue;
        }
        short.push(c);
        if !c.is_alphanumeric() && c != '_' {
            part = short.len();
        }
    }
    short
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            writeln!(f, "({} events before these)", self.dropped)?;
        }
        self.events.iter().try_for_each(|event| writeln!(f, "{event}"))
    }
}
