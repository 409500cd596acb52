//! A gate that a Spot shares with a member: turns, ordinary waits, yields, the member's claim, two lanes, a marker.

use std::collections::VecDeque;

use turnkeep_machines::gate::{Gate, Grant, Phase};
use turnkeep_machines::pair::{Lane, Pair};
use turnkeep_machines::queue::{Choice, Head, next};

use super::explore::{World, bound, prove};

const SPOT: usize = 0;
const MEMBER: usize = 1;

/// What a record is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Record {
    owner: usize,
    lane: Lane,
}

const fn record(owner: usize, lane: Lane) -> Record {
    Record { owner, lane }
}

/// Where a record is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// It has not come.
    Away,
    Queued,
    Running(Grant),
    /// It waits; its gate is kept.
    Kept(Grant),
    /// It waits; its gate is given up.
    Yielded,
    /// Its wait is over, its resume stands in the queue.
    Resumes,
    Done,
}

/// A place of the gate's queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    Own(usize),
    Marker,
    Member,
    Resume(usize),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Shared {
    records: Vec<Record>,
    at: Vec<At>,
    /// How many waits each may still begin.
    waits: Vec<u8>,
    gate: Gate,
    pairs: [Pair; 2],
    queue: VecDeque<Place>,
    /// Lifecycle records of the Spot.
    lifecycle: VecDeque<usize>,
    /// Records of the member; they stand behind one place of the queue.
    own_of_member: VecDeque<usize>,
    /// A handler of the member has yielded and not ended.
    claimed: Option<usize>,
    /// Lifecycle turns of the Spot in a row with an application record of it waiting.
    passed: u8,
    grants: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Arrive(usize),
    Boundary,
    End(usize),
    Keep(usize),
    Yield(usize),
    WaitEnds(usize),
}

fn fails(clause: &str, text: &str) -> Result<(), String> {
    Err(format!("{clause}: {text}"))
}

impl Shared {
    fn new(records: &[Record], waits: u8) -> Self {
        Self {
            at: vec![At::Away; records.len()],
            waits: vec![waits; records.len()],
            records: records.to_vec(),
            gate: Gate::default(),
            pairs: [Pair::default(); 2],
            queue: VecDeque::new(),
            lifecycle: VecDeque::new(),
            own_of_member: VecDeque::new(),
            claimed: None,
            passed: 0,
            grants: 0,
        }
    }

    fn application_waits(&self) -> bool {
        self.queue.iter().any(|place| matches!(place, Place::Own(_)))
    }

    fn head(&self) -> Head {
        match self.queue.front() {
            None => Head::Nothing,
            Some(Place::Own(_)) => Head::Own,
            Some(Place::Marker) => Head::Marker,
            Some(Place::Member) => Head::Member,
            Some(Place::Resume(_)) => Head::Resume,
        }
    }

    fn arrive(&mut self, number: usize) {
        self.at[number] = At::Queued;
        match self.records[number] {
            Record { owner: SPOT, lane: Lane::Application } => self.queue.push_back(Place::Own(number)),
            Record { owner: SPOT, .. } => {
                if self.lifecycle.is_empty() {
                    self.queue.push_back(Place::Marker);
                }
                self.lifecycle.push_back(number);
            }
            Record { .. } => {
                self.own_of_member.push_back(number);
                self.place_member();
            }
        }
    }

    /// The member stands in the queue once, while it has something that may start.
    fn place_member(&mut self) {
        let is_placed = self.queue.contains(&Place::Member);
        if !is_placed && self.claimed.is_none() && !self.own_of_member.is_empty() {
            self.queue.push_back(Place::Member);
        }
    }

    /// One turn boundary, as the driver does it.
    fn boundary(&mut self) -> Result<(), String> {
        loop {
            let lifecycle = !self.lifecycle.is_empty();
            match next(self.pairs[SPOT], self.head(), self.application_waits(), lifecycle) {
                Choice::Idle => {
                    return fails("GATE-12", "nothing is ready although something stands in the queue");
                }
                Choice::DropMarker => drop(self.queue.pop_front()),
                Choice::MarkerToBack => self.queue.rotate_left(1),
                Choice::LifecycleFirst => {
                    let first = self.lifecycle.pop_front().ok_or("LANE-8: an empty lane was chosen")?;
                    return self.begin(first);
                }
                Choice::Lifecycle => {
                    self.queue.pop_front();
                    let first = self.lifecycle.pop_front().ok_or("LANE-8: an empty lane was chosen")?;
                    if !self.lifecycle.is_empty() {
                        self.queue.push_back(Place::Marker);
                    }
                    return self.begin(first);
                }
                Choice::Head => match self.queue.pop_front() {
                    Some(Place::Own(number)) => return self.begin(number),
                    Some(Place::Resume(number)) => return self.resume(number),
                    Some(Place::Member) => {
                        // A claim that came after it was placed.
                        if self.claimed.is_none() {
                            let first = self.own_of_member.pop_front().ok_or("LANE-12: an empty member")?;
                            return self.begin(first);
                        }
                    }
                    _ => return fails("Q1", "a place was taken that is not there"),
                },
            }
            if self.queue.is_empty() && self.lifecycle.is_empty() {
                return Ok(());
            }
        }
    }

    fn begin(&mut self, number: usize) -> Result<(), String> {
        let Record { owner, lane } = self.records[number];
        let earlier = (0..number)
            .any(|other| self.records[other] == self.records[number] && matches!(self.at[other], At::Queued));
        if earlier {
            return fails("GATE-8", "a later record of one lane has overtaken an earlier one");
        }
        if owner == MEMBER && self.claimed.is_some() {
            return fails("YIELD-5", "a record of the member started under its claim");
        }
        if owner == SPOT {
            self.passed = match lane {
                Lane::Lifecycle if self.application_waits() => self.passed + 1,
                _ => 0,
            };
            if self.passed > 8 {
                return fails("LANE-9", "nine lifecycle turns have passed a waiting application record");
            }
            let owes = self.pairs[SPOT].in_debt();
            if lane == Lane::Application && !self.lifecycle.is_empty() && !owes {
                return fails("LANE-8", "an application record has passed a lifecycle record without a debt");
            }
        }
        self.pairs[owner].on_turn(lane);
        self.grant(number)
    }

    fn resume(&mut self, number: usize) -> Result<(), String> {
        self.pairs[self.records[number].owner].on_turn(Lane::Application);
        if self.records[number].owner == SPOT {
            self.passed = 0;
        }
        self.grant(number)
    }

    fn grant(&mut self, number: usize) -> Result<(), String> {
        let grant = self.gate.take();
        self.grants += 1;
        if grant.0 != self.grants {
            return fails("GATE-9", "a number was given twice, or one was left out");
        }
        self.at[number] = At::Running(grant);
        Ok(())
    }

    fn holders(&self) -> usize {
        self.at.iter().filter(|at| matches!(at, At::Running(_) | At::Kept(_))).count()
    }

    fn check(&self) -> Result<(), String> {
        match (self.gate.phase(), self.holders()) {
            (Phase::Broken(why), _) => fails("a machine is broken", why),
            (Phase::Free, 0) | (Phase::Running | Phase::Suspended, 1) => Ok(()),
            (phase, holders) => fails("GATE-3", &format!("{holders} handlers hold a gate that is {phase:?}")),
        }
    }
}

impl World for Shared {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, at) in self.at.iter().enumerate() {
            match at {
                // Those of one lane come in their order, which is no order among lanes.
                At::Away => {
                    let is_next = (0..number).all(|other| {
                        self.records[other] != self.records[number] || self.at[other] != At::Away
                    });
                    if is_next {
                        steps.push(Step::Arrive(number));
                    }
                }
                At::Running(_) => {
                    steps.push(Step::End(number));
                    if self.waits[number] > 0 {
                        steps.push(Step::Keep(number));
                        if self.records[number].lane == Lane::Application {
                            steps.push(Step::Yield(number));
                        }
                    }
                }
                At::Kept(_) | At::Yielded => steps.push(Step::WaitEnds(number)),
                At::Queued | At::Resumes | At::Done => {}
            }
        }
        if self.gate.phase() == Phase::Free && !self.queue.is_empty() {
            steps.push(Step::Boundary);
        }
        steps
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Arrive(number) => self.arrive(number),
            Step::Boundary => self.boundary()?,
            Step::End(number) => {
                self.gate.give_up();
                self.at[number] = At::Done;
                if self.claimed == Some(number) {
                    self.claimed = None;
                }
                self.place_member();
            }
            Step::Keep(number) => {
                let At::Running(grant) = self.at[number] else { unreachable!() };
                self.waits[number] -= 1;
                self.gate.suspend();
                self.at[number] = At::Kept(grant);
            }
            Step::Yield(number) => {
                self.waits[number] -= 1;
                self.gate.give_up();
                self.at[number] = At::Yielded;
                if self.records[number].owner == MEMBER {
                    self.claimed = Some(number);
                }
            }
            Step::WaitEnds(number) => match self.at[number] {
                At::Kept(grant) => {
                    // News for any older grant must change nothing.
                    let before = self.gate;
                    if grant.0 > 1 && self.gate.resume(Grant(grant.0 - 1)) || self.gate != before {
                        return fails("GATE-9", "an older number has resumed a newer grant");
                    }
                    if !self.gate.resume(grant) {
                        return fails("GATE-7", "the live grant could not go on");
                    }
                    self.at[number] = At::Running(grant);
                }
                _ => {
                    self.at[number] = At::Resumes;
                    self.queue.push_back(Place::Resume(number));
                }
            },
        }
        self.check()
    }

    fn is_at_rest(&self) -> bool {
        self.at.iter().all(|at| *at == At::Done)
    }
}

#[test]
fn model_gate_3_yield_5_two_owners_of_one_gate_take_turns_and_all_end() {
    let (app, life) = (Lane::Application, Lane::Lifecycle);
    let mut records = vec![
        record(SPOT, app),
        record(SPOT, app),
        record(SPOT, life),
        record(MEMBER, app),
        record(MEMBER, app),
    ];
    if bound(0, 1) == 1 {
        records.push(record(MEMBER, app));
    }
    let seen = prove("gate", Shared::new(&records, 1));
    assert!(seen.states > 10_000, "{seen:?}");
}

#[test]
fn model_lane_9_a_burst_of_lifecycle_records_lets_an_application_record_in() {
    let mut records = vec![record(SPOT, Lane::Lifecycle); 10];
    records.extend([record(SPOT, Lane::Application); 2]);
    let seen = prove("lanes", Shared::new(&records, 0));
    assert!(seen.states > 100, "{seen:?}");
}
