//! Why an object is stuck, in words: a small value that a living node and a trace both can fill, and its text.
//!
//! Nothing is looked up here; whoever fills the value knows where things stand, and the words are the same.

use std::fmt::{self, Write};

/// How one object stands at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Situation {
    /// Its name, such as `Spot JFK (airport)`.
    pub name: String,
    /// Whether it is being made, takes messages, is sealed, or has ended and why.
    pub phase: Phase,
    /// The object whose gate it is under; `None`: its own.
    pub gate: Option<String>,
    /// The turn that has the gate.
    pub holder: Option<Hold>,
    /// The handler of its own that has yielded and keeps its queue closed.
    pub claim: Option<Hold>,
    /// Handlers of its own that have yielded and keep nothing.
    pub yielded: Vec<Hold>,
    /// The application and the lifecycle lane.
    pub lanes: [LaneUse; 2],
    /// How many places stand before it in the queue of the gate, if it is in it.
    pub places_before: Option<usize>,
    /// Where it is moving to, if it is being moved: its application lane is closed meanwhile.
    pub moving: Option<String>,
    /// The objects that wait for each other in a ring, beginning with this one and ending before it comes again.
    pub cycle: Vec<String>,
    /// What it hangs on, one after another, beginning with itself.
    pub chain: Vec<String>,
}

/// What an object does as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Its first turn is not over.
    Making,
    /// It takes messages.
    #[default]
    Open,
    /// It takes none any more and goes on with what it has.
    Sealed,
    /// It is gone, for this reason.
    Ended(String),
}

/// A turn that has a gate, or a handler that keeps a claim.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hold {
    /// Whose handler it is.
    pub name: String,
    /// The number of its record; 0 without one, for only recorded nodes give them.
    pub record: u64,
    /// For how long, in nanoseconds.
    pub for_ns: u64,
    /// Whether it runs now, or waits.
    pub running: bool,
    /// What it waits for, as far as that is known.
    pub waits: Vec<Wait>,
}

/// A wait for the answer to a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wait {
    /// The object asked.
    pub target: String,
    /// How far the request has come.
    pub waited: Waited,
    /// For how long, in nanoseconds.
    pub for_ns: u64,
}

/// How far a request has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Waited {
    /// It stands in line for room in the lane.
    InLine,
    /// It stands in the lane.
    #[default]
    Queued,
    /// It stands in line for room or in the lane, or its handler runs.
    There,
    /// Its handler runs, or waits itself.
    Handled,
    /// It is over, and the waiting handler has not looked yet.
    Over,
}

/// How full a lane is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneUse {
    /// Records accepted and not finished, running ones included.
    pub records: u64,
    /// The most there may be.
    pub records_max: u64,
    /// Bytes they reserve.
    pub bytes: u64,
    /// The most there may be.
    pub bytes_max: u64,
    /// Records that wait in the lane for their turn.
    pub queued: u64,
    /// Senders that wait for room.
    pub waiters: u64,
}

impl fmt::Display for Situation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}.", self.name, self.summary())?;
        self.gate_in_words(f)?;
        if let Some(claim) = &self.claim {
            writeln!(
                f,
                "Its handler{} has yielded {} ago and keeps the claim: nothing of its lanes starts before that handler has ended.{}",
                Record(" of", claim.record),
                Span(claim.for_ns),
                Waits(&claim.waits)
            )?;
        }
        for hold in &self.yielded {
            let (record, ago, waits) = (Record(" of", hold.record), Span(hold.for_ns), Waits(&hold.waits));
            writeln!(f, "Its handler{record} has yielded {ago} ago.{waits}")?;
        }
        if let Some(place) = self.places_before {
            writeln!(f, "In the queue of the gate {place} places stand before it.")?;
        }
        if let Some(target) = &self.moving {
            writeln!(f, "It is moving to {target}: no message starts before the move is over.")?;
        }
        for (lane, name) in self.lanes.iter().zip(["application", "lifecycle"]) {
            writeln!(f, "Its {name} lane {lane}.")?;
        }
        if self.cycle.is_empty() && self.chain.len() > 1 {
            writeln!(f, "It hangs on: {}.", self.chain.join(" → "))?;
        }
        if let Some(first) = self.cycle.first() {
            writeln!(f, "They wait for each other: {} → {first}.", self.cycle.join(" → "))?;
        }
        Ok(())
    }
}

impl Situation {
    /// What keeps it, in a few words.
    fn summary(&self) -> String {
        let work = self.lanes.iter().any(|lane| lane.queued > 0);
        match (&self.phase, &self.holder) {
            (Phase::Ended(why), _) => format!("it has ended ({why})"),
            _ if !self.cycle.is_empty() => "it is stuck in a ring of waits".to_owned(),
            _ if self.claim.is_some() && work => "its work waits for its own yielded handler".to_owned(),
            (_, Some(hold)) if !hold.running && work => {
                format!("its work waits for the gate, which a waiting handler of {} keeps", hold.name)
            }
            (_, Some(hold)) if hold.name == self.name && hold.running => {
                "one of its handlers runs".to_owned()
            }
            (_, Some(hold)) if hold.name == self.name => {
                "one of its handlers waits and keeps the gate".to_owned()
            }
            (_, Some(hold)) if work => format!("its work waits for a running turn of {}", hold.name),
            _ if self.moving.is_some() && work => "its messages wait for its move".to_owned(),
            _ if work => "it is ready to run, and no worker has come yet".to_owned(),
            (Phase::Making, _) => "it is being made".to_owned(),
            _ if !self.yielded.is_empty() || self.claim.is_some() => "its yielded handlers wait".to_owned(),
            _ => "it has nothing to do".to_owned(),
        }
    }

    fn gate_in_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gate = match &self.gate {
            Some(gate) => format!("the gate of {gate}"),
            None => "a gate of its own".to_owned(),
        };
        match &self.holder {
            None => writeln!(f, "It is under {gate}, which nobody holds."),
            Some(hold) => writeln!(
                f,
                "It is under {gate}. {} holds it{} since {} and {}.{}",
                hold.name,
                Record(" with", hold.record),
                Span(hold.for_ns),
                if hold.running { "runs" } else { "waits" },
                Waits(&hold.waits)
            ),
        }
    }
}

impl fmt::Display for LaneUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, records_max, bytes, bytes_max, queued, waiters } = self;
        write!(
            f,
            "has {records} of {records_max} records and {bytes} of {bytes_max} bytes, {queued} not begun"
        )?;
        match waiters {
            0 => Ok(()),
            1 => f.write_str("; 1 sender waits for room"),
            many => write!(f, "; {many} senders wait for room"),
        }
    }
}

/// The record of a handler, if it has a number.
struct Record(&'static str, u64);

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            0 => Ok(()),
            number => write!(f, "{} record {number}", self.0),
        }
    }
}

/// What a handler waits for, as sentences.
struct Waits<'a>(&'a [Wait]);

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Wait { target, waited, for_ns } in self.0 {
            let how = match waited {
                Waited::InLine => "its request waits for room there",
                Waited::Queued => "its request waits there for its turn",
                Waited::There => "its request is there and not answered",
                Waited::Handled => "its request is being handled",
                Waited::Over => "its request is over and the answer on its way",
            };
            write!(f, " It asked {target} {} ago; {how}.", Span(*for_ns))?;
        }
        Ok(())
    }
}

/// A span of time for people.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..10_000 => write!(f, "{} ns", self.0),
            10_000..10_000_000 => write!(f, "{} us", self.0 / 1_000),
            10_000_000..10_000_000_000 => write!(f, "{} ms", self.0 / 1_000_000),
            ns => {
                write!(f, "{}", ns / 1_000_000_000)?;
                f.write_str(" s")
            }
        }
    }
}

/// A name as every face gives it: kind, id, registered type.
#[must_use]
pub(crate) fn name(kind: impl fmt::Display, id: impl fmt::Display, type_name: impl fmt::Display) -> String {
    let mut name = String::new();
    let _ = write!(name, "{kind} {id} ({type_name})");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck() -> Situation {
        let wait =
            Wait { target: "Spot LGA (airport)".into(), waited: Waited::Queued, for_ns: 2_000_000_000 };
        Situation {
            name: "Spot JFK (airport)".into(),
            holder: Some(Hold {
                name: "Actor N1 (aircraft)".into(),
                record: 7,
                for_ns: 3_000_000_000,
                running: false,
                waits: vec![wait],
            }),
            lanes: [
                LaneUse { records: 3, records_max: 4, bytes: 768, bytes_max: 1024, queued: 3, waiters: 2 },
                LaneUse::default(),
            ],
            cycle: vec!["Spot JFK (airport)".into(), "Spot LGA (airport)".into()],
            ..Situation::default()
        }
    }

    #[test]
    fn stat_4_a_stuck_object_is_told_with_holder_wait_lanes_and_cycle() {
        let text = stuck().to_string();
        for part in [
            "Spot JFK (airport): it is stuck in a ring of waits.",
            "Actor N1 (aircraft) holds it with record 7 since 3000 ms and waits.",
            "It asked Spot LGA (airport) 2000 ms ago; its request waits there for its turn.",
            "application lane has 3 of 4 records and 768 of 1024 bytes, 3 not begun; 2 senders wait for room.",
            "They wait for each other: Spot JFK (airport) → Spot LGA (airport) → Spot JFK (airport).",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn stat_4_an_idle_object_has_nothing_to_do() {
        let text = Situation { name: "Spot A (a)".into(), ..Situation::default() }.to_string();
        assert!(text.starts_with(
            "Spot A (a): it has nothing to do.\nIt is under a gate of its own, which nobody holds."
        ));
    }
}
