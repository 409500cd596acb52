//! The dispatcher of the bus: nested publications, reservations, drains, a fault, a teardown, in every order.

use std::collections::BTreeSet;

use turnkeep_machines::bus::charge::Limits;
use turnkeep_machines::bus::dispatch::{Arrival, Dispatch, Publication, Refusal};
use turnkeep_machines::bus::line::{SlotId, Target};
use turnkeep_machines::bus::ordinal::Key;
use turnkeep_machines::bus::reservation::Stage;
use turnkeep_machines::bus::root::Root;

use super::explore::{World, bound, prove};

/// A frame that is open: the innermost last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Frame {
    Publication(Publication),
    Delivery { root: Root, counts: bool },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Bus {
    machine: Dispatch<u8>,
    frames: Vec<Frame>,
    drains: bool,
    /// Reservations granted and not settled.
    reserved: Vec<(SlotId, Key)>,
    /// Admitted and not taken out yet; the truth that the machine's order is compared with.
    outstanding: BTreeSet<(u64, u64)>,
    /// The latest that was taken out.
    latest: Option<(u64, u64)>,
    publications_left: u8,
    admissions_left: u8,
    faults_left: u8,
    teardowns_left: u8,
    /// The smallest budget: how many deliveries a root may have.
    delivered: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    Close,
    Admit,
    Reserve,
    Fill(usize),
    Abandon(usize),
    BeginDrain,
    Deliver,
    Cancel,
    EndDelivery,
    EndDrain,
    Fault,
    TearDown,
}

fn order_of(key: Key) -> (u64, u64) {
    (key.publication.0, key.admission.0)
}

fn fails(clause: &str, text: &str) -> Result<(), String> {
    Err(format!("{clause}: {text}"))
}

impl Bus {
    fn new(publications: u8, admissions: u8) -> Self {
        Self {
            machine: Dispatch::new(Limits::default()),
            frames: Vec::new(),
            drains: false,
            reserved: Vec::new(),
            outstanding: BTreeSet::new(),
            latest: None,
            publications_left: publications,
            admissions_left: admissions,
            faults_left: 1,
            teardowns_left: 1,
            delivered: 0,
        }
    }

    fn arrival(&self) -> Arrival {
        let component = u32::from(self.admissions_left);
        let target = Target { component, registration: 0, generation: 0, run: 1 };
        Arrival { target, payload: 0, subscription: component, serial: 0 }
    }

    /// A slot was asked for in the innermost publication.
    fn on_admission(&mut self, granted: Result<Key, Refusal>, was: &Dispatch<u8>) -> Result<(), String> {
        self.admissions_left -= 1;
        match granted {
            Ok(_) if was.fault().is_some() => fails("FAULT-2", "something was admitted after a fault"),
            Ok(key) => {
                self.outstanding.insert(order_of(key));
                Ok(())
            }
            Err(_) if *was != self.machine => fails("ADM-1", "a refused request has changed something"),
            Err(Refusal::Faulted) if was.fault().is_some() => Ok(()),
            Err(why) => fails("ADM-1", &format!("refused without a reason: {why:?}")),
        }
    }

    /// A slot came out of the line.
    fn on_taken(&mut self, key: Key) -> Result<(), String> {
        let key = order_of(key);
        let first = self.outstanding.first().copied();
        if !self.outstanding.remove(&key) {
            return fails("PUB-1", "a slot came out twice, or was never admitted");
        }
        if first != Some(key) {
            return fails("PUB-1", "a later slot has overtaken an earlier one");
        }
        self.latest = Some(key);
        Ok(())
    }

    /// What holds in every state.
    fn check(&self) -> Result<(), String> {
        let machine = &self.machine;
        if let Some(why) = machine.broken() {
            return fails("a machine is broken", why);
        }
        let inside = self.frames.iter().filter(|frame| matches!(frame, Frame::Delivery { .. })).count();
        if machine.line().len() as usize != self.outstanding.len() {
            return fails("ADM-1", "the line has another number of slots than were admitted");
        }
        if machine.charge().units() as usize != self.outstanding.len() + inside {
            return fails("ROOT-3", "a unit came back early, late or twice");
        }
        if machine.line().reserved() as usize != self.reserved.len() {
            return fails("ADM-3", "a reservation was settled twice, or never");
        }
        let idle = self.outstanding.is_empty() && self.frames.is_empty();
        if idle && machine.roots().alive() != 0 {
            return fails("ROOT-5", "a root has outlived its last holder");
        }
        if !self.outstanding.is_empty() && machine.roots().alive() == 0 {
            return fails("ROOT-5", "a root was freed while a slot had it");
        }
        Ok(())
    }
}

impl World for Bus {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let in_publication = matches!(self.frames.last(), Some(Frame::Publication(_)));
        if self.publications_left > 0 && (!self.drains || !self.frames.is_empty()) {
            steps.push(Step::Open);
        }
        if in_publication {
            steps.push(Step::Close);
            if self.admissions_left > 0 {
                steps.extend([Step::Admit, Step::Reserve]);
            }
        }
        for at in 0..self.reserved.len() {
            steps.extend([Step::Fill(at), Step::Abandon(at)]);
        }
        if self.faults_left > 0 {
            steps.push(Step::Fault);
        }
        match self.frames.last() {
            Some(Frame::Delivery { .. }) => steps.push(Step::EndDelivery),
            None if self.drains => {
                match self.machine.head().map(|(_, _, stage)| stage) {
                    Some(Stage::Ready) if self.machine.fault().is_none() => steps.push(Step::Deliver),
                    Some(Stage::Ready | Stage::Abandoned) => steps.push(Step::Cancel),
                    _ => {}
                }
                steps.push(Step::EndDrain);
            }
            _ => {}
        }
        if !self.drains {
            // Also where it must be refused.
            steps.push(Step::BeginDrain);
            if self.teardowns_left > 0 {
                steps.push(Step::TearDown);
            }
        }
        steps
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Open => {
                let publication = self.machine.open_publication();
                self.frames.push(Frame::Publication(publication));
                self.publications_left -= 1;
            }
            Step::Close => {
                let Some(Frame::Publication(publication)) = self.frames.pop() else { unreachable!() };
                let _ = self.machine.close_publication(publication);
            }
            Step::Admit | Step::Reserve => {
                let Some(&Frame::Publication(publication)) = self.frames.last() else { unreachable!() };
                let (was, arrival) = (self.machine.clone(), self.arrival());
                if matches!(step, Step::Admit) {
                    let granted = self.machine.admit(publication, arrival, 0);
                    self.on_admission(granted, &was)?;
                } else {
                    let granted = self.machine.reserve(publication, arrival, 0);
                    self.reserved.extend(granted.ok());
                    self.on_admission(granted.map(|(_, key)| key), &was)?;
                }
            }
            Step::Fill(at) => {
                let (slot, _) = self.reserved.remove(at);
                self.machine.fill(slot, 1);
                if self.machine.broken().is_some() {
                    return fails("ADM-2", "a granted reservation could not be filled");
                }
            }
            Step::Abandon(at) => {
                let (slot, _) = self.reserved.remove(at);
                self.machine.abandon(slot);
            }
            Step::BeginDrain => {
                let may = self.frames.is_empty();
                if self.machine.begin_drain().is_ok() != may {
                    return fails("DRAIN-3", "a drain begins exactly when nothing is open");
                }
                self.drains = may;
            }
            Step::EndDrain => {
                self.machine.end_drain();
                self.drains = false;
            }
            Step::Deliver | Step::Cancel => {
                let Some((_, slot, stage)) = self.machine.head() else { unreachable!() };
                let key = slot.key;
                if stage == Stage::Reserved {
                    return fails("ADM-4", "a reservation came out before it was settled");
                }
                let Some(slot) = self.machine.begin_delivery() else { unreachable!() };
                self.frames.push(Frame::Delivery { root: slot.root, counts: matches!(step, Step::Deliver) });
                self.on_taken(key)?;
            }
            Step::EndDelivery => {
                let Some(Frame::Delivery { root, counts }) = self.frames.pop() else { unreachable!() };
                let before = self.machine.roots().deliveries(root);
                let freed = self.machine.end_delivery(counts);
                let now =
                    freed.map_or_else(|| self.machine.roots().deliveries(root), |freed| freed.deliveries);
                if now != before + u64::from(counts) && freed.is_none() {
                    return fails("ROOT-3", "a delivery was charged twice, or not, or a cancelled slot was");
                }
            }
            Step::Fault => {
                self.faults_left -= 1;
                if !self.machine.latch(1) || self.machine.latch(2) || self.machine.fault() != Some(&1) {
                    return fails("FAULT-1", "the first fault is the one that stays");
                }
            }
            Step::TearDown => {
                let may = self.frames.is_empty() && self.reserved.is_empty();
                if self.machine.begin_teardown().is_ok() != may {
                    return fails("FAULT-4", "a teardown begins exactly when nothing is held");
                }
                if may {
                    self.teardowns_left -= 1;
                    for slot in self.machine.detach() {
                        self.on_taken(slot.key)?;
                        self.machine.begin_detached(&slot);
                        let _ = self.machine.end_delivery(false);
                    }
                    self.machine.end_teardown();
                    let machine = &self.machine;
                    let left = (machine.charge().units(), machine.charge().bytes(), machine.roots().alive());
                    if left != (0, 0, 0) || machine.fault().is_some() {
                        return fails("FAULT-4", &format!("a teardown has left {left:?}"));
                    }
                    self.faults_left = 0;
                }
            }
        }
        self.check()
    }

    fn is_at_rest(&self) -> bool {
        self.frames.is_empty() && self.outstanding.is_empty() && !self.drains
    }
}

#[test]
fn model_pub_1_adm_2_root_5_a_bus_delivers_in_publication_order_and_can_always_end() {
    let seen = prove("bus", Bus::new(bound(2, 3), bound(3, 4)));
    assert!(seen.states > 10_000, "{seen:?}");
}
