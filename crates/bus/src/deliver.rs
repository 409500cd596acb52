//! Delivering: a drain works from the head of the line, one slot at a time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::drain::{Busy, Hindrance, Standing, Verdict, judge};
use turnkeep_machines::bus::line::{ALONE, Slot, SlotId, Target};
use turnkeep_machines::bus::ordinal::{Key, Ordinal};
use turnkeep_machines::bus::reservation::Stage;
use turnkeep_machines::bus::root::Root;

use crate::ambient::{self, Around};
use crate::component::{ComponentKey, Failure, Object};
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::event::Arrived;
use crate::fault::{FaultKind, panic_text};
use crate::log::Entry;
use crate::payload::{List, Payload};
use crate::subscription::Call;
use crate::topic::Recipient;

/// Why a drain has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Nothing is in the line.
    Empty,
    /// The budget is spent, and there is more.
    More,
    /// The head is reserved, and its capture is still to come.
    Reserved,
    /// The head's component is held elsewhere; it is to be tried again.
    Busy(Arc<str>),
    /// The drain could not begin.
    Hindered(Hindrance),
    /// A fault is latched: the bus has halted.
    Faulted,
}

/// What a drain has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Slots delivered.
    pub delivered: u32,
    /// Slots cancelled; they count against the budget.
    pub cancelled: u32,
    /// Slots left in the line.
    pub left: u32,
    /// Why it has ended.
    pub ended: Ended,
}

/// What consecutive slots share: the capture that is out of the table, and the frame of their root.
#[derive(Default)]
struct Run {
    /// Where the capture belongs.
    place: u32,
    payload: Option<Box<dyn Payload>>,
    /// The recipients, if the slots are a row of them.
    list: Option<List>,
    /// The topic that it was published to.
    topic: u32,
    /// The root whose frame is open, with what the thread was doing before.
    root: Option<(Root, Around)>,
}

/// How a callback came back.
type Outcome = Result<Result<(), Failure>, Box<dyn Any + Send>>;

/// What to do after one slot.
enum Step {
    /// So many, one after the other.
    Delivered(u32),
    Cancelled,
    /// Nothing is in the line.
    Empty,
    /// The head stays where it is.
    Stuck(Ended),
}

impl Core {
    /// Delivers up to `budget` slots; 0 only reports.
    pub(crate) fn drain(&mut self, budget: u32) -> Drained {
        self.settle_owed();
        if let Err(hindrance) = self.machine.begin_drain() {
            return self.drained(0, 0, Ended::Hindered(hindrance));
        }
        self.note(|| Entry::DrainBegan { budget });
        let (mut delivered, mut cancelled) = (0, 0);
        let mut run = Run::default();
        let ended = loop {
            if self.machine.fault().is_some() {
                break Ended::Faulted;
            }
            if delivered + cancelled >= budget {
                break if self.machine.line().is_empty() { Ended::Empty } else { Ended::More };
            }
            match self.step(&mut run, budget - delivered - cancelled) {
                Step::Delivered(slots) => delivered += slots,
                Step::Cancelled => cancelled += 1,
                Step::Empty => break Ended::Empty,
                Step::Stuck(ended) => break ended,
            }
        };
        self.end_run(&mut run);
        self.put_back(&mut run);
        self.machine.end_drain();
        self.note(|| Entry::DrainEnded { delivered, cancelled });
        self.drained(delivered, cancelled, ended)
    }

    fn drained(&self, delivered: u32, cancelled: u32, ended: Ended) -> Drained {
        Drained { delivered, cancelled, left: self.machine.line().len(), ended }
    }

    /// Opens the frame of a root, unless it is open.
    #[inline(always)]
    fn begin_run(&mut self, run: &mut Run, root: Root) {
        if run.root.as_ref().is_none_or(|(open, _)| *open != root) {
            self.end_run(run);
            self.machine.begin_run(root);
            run.root = Some((root, ambient::enter(self.shared.bus, Some(root))));
        }
    }

    /// Closes the frame that is open.
    fn end_run(&mut self, run: &mut Run) {
        if let Some((_, around)) = run.root.take() {
            drop(around);
            let freed = self.machine.end_run();
            self.on_freed(freed);
        }
    }

    #[inline(always)]
    fn step(&mut self, run: &mut Run, left: u32) -> Step {
        let Some((id, slot, stage)) = self.machine.head() else { return Step::Empty };
        if slot.at == ALONE {
            let slot = *slot;
            return self.step_by_rule(id, slot, stage, run);
        }
        let (slot, place) = (*slot, slot.payload);
        if run.payload.is_none() || run.place != place {
            self.change_payload(run, place);
        }
        let Some(list) = run.list.take() else { return Step::Empty };
        let delivered = self.deliver_row(id, &slot, run, &list, left);
        // The capture may have gone with its last slot, and the list is worth nothing then.
        let recipient = list.recipients[slot.at as usize];
        if run.payload.is_some() {
            run.list = Some(list);
        }
        if delivered == 0 { self.step_in_row(id, run, &recipient) } else { Step::Delivered(delivered) }
    }

    /// A slot of a row, when something about its recipient has to be looked at.
    #[inline(never)]
    fn step_in_row(&mut self, id: SlotId, run: &mut Run, recipient: &Recipient) -> Step {
        let Some((slot, stage)) = self.machine.line().slot(id) else { return Step::Empty };
        let Recipient { target, subscription, serial, .. } = *recipient;
        self.step_by_rule(id, Slot { target, subscription, serial, ..*slot }, stage, run)
    }

    /// Delivers from the head of a row for as long as nothing has changed since the event arrived: then nothing is to
    /// be judged, for the components run, in the same run, subscribed, without maintenance. How many slots those were.
    #[inline(always)]
    fn deliver_row(&mut self, id: SlotId, slot: &Slot, run: &mut Run, list: &List, left: u32) -> u32 {
        let Some(payload) = run.payload.take() else { return 0 };
        let (root, event) = (slot.root, payload.event());
        let mut delivered = 0;
        let mut over = false;
        for recipient in list.recipients[slot.at as usize..].iter().take(slot.count.min(left) as usize) {
            let component = recipient.target.component;
            let Some(method) = recipient.direct else { break };
            let unchanged = list.version == self.subscriptions.version() && self.journal.is_none();
            if !unchanged || self.machine.is_spent(root) {
                break;
            }
            let Some(mut object) = self.cells[component as usize].object.take() else { break };
            self.begin_run(run, root);
            self.machine.take(id);
            self.trail[(self.counts.deliveries % self.trail.len() as u64) as usize] = run.topic;
            let mut ctx = Context::new(self, component, run.topic);
            let outcome = catch_unwind(AssertUnwindSafe(|| method(object.as_mut(), &mut ctx, event)));
            self.bring_home(component, recipient.target.registration, object);
            let admission = Ordinal(slot.key.admission.0 + u64::from(delivered));
            let key = Key { admission, ..slot.key };
            if !matches!(outcome, Ok(Ok(()))) {
                self.on_bad_direct(run.topic, (root, key), recipient, outcome);
            }
            delivered += 1;
            over = self.payloads.release(run.place);
            if over {
                break;
            }
            self.end_delivered(root);
            if !self.requests.is_empty() || self.machine.fault().is_some() {
                break;
            }
        }
        run.payload = Some(payload);
        if over {
            let last = list.recipients[(slot.at + delivered - 1) as usize].target.component;
            let admission = Ordinal(slot.key.admission.0 + u64::from(delivered - 1));
            self.drop_payload(run.place, Some((last, Key { admission, ..slot.key })), run);
            self.end_delivered(root);
        }
        self.serve_after_run(run);
        delivered
    }

    #[cold]
    fn on_bad_direct(
        &mut self,
        topic: u32,
        (root, key): (Root, Key),
        recipient: &Recipient,
        outcome: Outcome,
    ) {
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => self.on_failed(&recipient.target, topic, &failure),
            Err(panic) => {
                let detail = format!("a callback panicked: {}", panic_text(&*panic));
                let component = Some(recipient.target.component);
                self.fault(FaultKind::Panicked, component, topic, Some(key), Some(root), detail);
            }
        }
    }

    /// What every delivery ends with, after the destructor of its capture.
    #[inline(always)]
    fn end_delivered(&mut self, root: Root) {
        self.settle_owed();
        self.counts.deliveries += 1;
        self.machine.end_slot(root, true);
    }

    /// Takes the steps in components' lives that callbacks have asked for, under no root of theirs.
    #[inline(always)]
    fn serve_after_run(&mut self, run: &mut Run) {
        if !self.requests.is_empty() {
            self.end_run(run);
            self.serve_requests();
        }
    }

    /// Judges a slot by the table of `machines/bus/drain.rs`, and does as it says.
    fn step_by_rule(&mut self, id: SlotId, slot: Slot, stage: Stage, run: &mut Run) -> Step {
        let subscription = self.subscriptions.live(slot.subscription, slot.serial);
        let cell = &self.cells[slot.target.component as usize];
        let standing = Standing {
            registration: cell.registration,
            generation: cell.life.generation(),
            run: cell.life.run(),
            subscribed: subscription.is_some(),
            maintained: cell.maintenance.runs_in(cell.life.state()),
            busy: cell.foreign || cell.object.is_none(),
        };
        match judge(stage, &slot.target, &standing, self.machine.is_spent(slot.root)) {
            Verdict::Deliver { author } => self.deliver(id, &slot, run, author),
            Verdict::Cancel => self.cancel(id, &slot, run),
            Verdict::Wait => Step::Stuck(Ended::Reserved),
            Verdict::Runaway => Step::Stuck(self.runaway(&slot)),
            Verdict::Busy => match self.ask(slot.target.component) {
                Some(busy) => Step::Stuck(self.busy(&slot, busy)),
                None => {
                    let author = standing.run != 0 && slot.target.run == standing.run;
                    self.deliver(id, &slot, run, author)
                }
            },
        }
    }

    fn runaway(&mut self, slot: &Slot) -> Ended {
        let limit = self.machine.limits().deliveries;
        let detail = format!(
            "the root has paid for {limit} deliveries, its limit; topics in turn: {}",
            self.repeating()
        );
        self.fault_at(FaultKind::Runaway, slot, self.payloads.topic(slot.payload), detail);
        Ended::Faulted
    }

    /// Asks a component who holds it; a native one that is out is held here.
    #[cold]
    fn ask(&mut self, component: u32) -> Option<Busy> {
        match &mut self.cells[component as usize].object {
            Some(object) => match catch_unwind(AssertUnwindSafe(|| object.busy())) {
                Ok(busy) => busy,
                Err(_) => Some(Busy::Here),
            },
            None => Some(Busy::Here),
        }
    }

    fn busy(&mut self, slot: &Slot, busy: Busy) -> Ended {
        if !self.machine.on_busy(busy) {
            return Ended::Busy(self.name(slot.target.component));
        }
        let detail = match busy {
            Busy::Here => "the head of the queue is busy and nothing on this thread can free it".into(),
            Busy::Elsewhere => {
                format!(
                    "the head of the queue was held elsewhere at {} attempts",
                    self.machine.limits().stalls
                )
            }
        };
        self.fault_at(FaultKind::Stalled, slot, self.payloads.topic(slot.payload), detail);
        Ended::Faulted
    }

    /// Takes the head out and drops its capture under its root.
    #[cold]
    fn cancel(&mut self, id: SlotId, slot: &Slot, run: &mut Run) -> Step {
        self.begin_run(run, slot.root);
        self.machine.take(id);
        self.note(|| Entry::Cancelled {
            publication: slot.key.publication.0,
            admission: slot.key.admission.0,
        });
        self.counts.cancelled += 1;
        self.release_payload(slot, run);
        self.settle_owed();
        self.machine.end_slot(slot.root, false);
        Step::Cancelled
    }

    fn deliver(&mut self, id: SlotId, slot: &Slot, run: &mut Run, author: bool) -> Step {
        let component = slot.target.component;
        if run.payload.is_none() || run.place != slot.payload {
            self.change_payload(run, slot.payload);
        }
        let object = self.cells[component as usize].object.take();
        let (Some(payload), Some(mut object)) = (run.payload.take(), object) else {
            // A ready slot has its capture, and judge has seen the component at home.
            return self.cancel(id, slot, run);
        };
        self.begin_run(run, slot.root);
        self.machine.take(id);
        self.trail[(self.counts.deliveries % self.trail.len() as u64) as usize] = run.topic;
        if self.journal.is_some() {
            self.note_delivered(slot, run.topic, payload.as_ref(), author);
        }
        let outcome = self.call(object.as_mut(), slot, run.topic, payload.as_ref(), author);
        run.payload = Some(payload);
        self.bring_home(component, slot.target.registration, object);
        if !matches!(outcome, Ok(Ok(()))) {
            self.on_bad_outcome(slot, run.topic, &outcome);
        }
        if self.journal.is_some() {
            self.note_returned(slot, &outcome);
        }
        self.release_payload(slot, run);
        self.end_delivered(slot.root);
        self.serve_after_run(run);
        Step::Delivered(1)
    }

    /// Puts the capture of the slots before back, and takes out that of the slots to come.
    fn change_payload(&mut self, run: &mut Run, place: u32) {
        self.put_back(run);
        run.payload = self.payloads.take(place);
        run.list = self.payloads.take_list(place);
        run.place = place;
        run.topic = self.payloads.topic(place);
    }

    fn put_back(&mut self, run: &mut Run) {
        if let Some(payload) = run.payload.take() {
            self.payloads.put(run.place, payload);
            self.payloads.put_list(run.place, run.list.take());
        }
    }

    /// Runs maintenance and the author's callback.
    #[inline(always)]
    fn call(
        &mut self,
        object: &mut dyn Object,
        slot: &Slot,
        topic: u32,
        payload: &dyn Payload,
        author: bool,
    ) -> Outcome {
        let component = slot.target.component;
        let cell = &self.cells[component as usize];
        let maintained = cell.maintenance.runs_in(cell.life.state());
        let Some(subscription) = self.subscriptions.live(slot.subscription, slot.serial) else {
            return Ok(Ok(()));
        };
        // Copied out, so that the callback may end its own subscription.
        let method = if let Call::Method(_, method) = subscription.call { Some(method) } else { None };
        let mut ctx = Context::new(self, component, topic);
        catch_unwind(AssertUnwindSafe(|| {
            if let (Some(method), false) = (method, maintained) {
                return method(object, &mut ctx, payload.event());
            }
            let name = ctx.topic_name();
            let arrived = Arrived::new(name.as_deref().unwrap_or_default(), payload.name(), payload.event());
            if maintained {
                object.maintain(&mut ctx, &arrived)?;
            }
            match method {
                _ if !author => Ok(()),
                Some(method) => method(object, &mut ctx, payload.event()),
                None => object.deliver(&mut ctx, &arrived),
            }
        }))
    }

    /// Puts a component back, unless its place was given to another one meanwhile.
    #[inline(always)]
    pub(crate) fn bring_home(&mut self, component: u32, registration: u32, object: Box<dyn Object>) {
        let cell = &mut self.cells[component as usize];
        if cell.registration == registration && cell.object.is_none() {
            cell.object = Some(object);
        } else {
            self.drop_object(component, object);
        }
    }

    /// Runs the destructor of a component that is no longer registered.
    #[cold]
    pub(crate) fn drop_object(&mut self, component: u32, object: Box<dyn Object>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
            let detail = format!("a component's destructor panicked: {}", panic_text(&*panic));
            self.fault(FaultKind::Panicked, Some(component), NONE, None, None, detail);
        }
    }

    #[cold]
    fn on_bad_outcome(&mut self, slot: &Slot, topic: u32, outcome: &Outcome) {
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                self.on_failed(&slot.target, topic, failure);
            }
            Err(panic) => {
                let detail = format!("a callback panicked: {}", panic_text(&**panic));
                self.fault_at(FaultKind::Panicked, slot, topic, detail);
            }
        }
    }

    #[cold]
    fn on_failed(&mut self, target: &Target, topic: u32, failure: &Failure) {
        let during = self.topics.name(topic).map_or_else(|| "a post".into(), Arc::clone);
        let key = ComponentKey { index: target.component, registration: target.registration };
        self.on_failure(key, &during, failure);
    }

    /// The slot needs its capture no longer; the last one runs the destructor, under the slot's root.
    fn release_payload(&mut self, slot: &Slot, run: &mut Run) {
        if slot.payload != NONE && self.payloads.release(slot.payload) {
            self.drop_payload(slot.payload, Some((slot.target.component, slot.key)), run);
        }
    }

    fn drop_payload(&mut self, place: u32, whose: Option<(u32, Key)>, run: &mut Run) {
        let out = if run.place == place { run.payload.take() } else { None };
        if out.is_some() {
            run.list = None;
        }
        let done = self.payloads.finish(place);
        if let Some(payload) = out.or(done.payload) {
            self.clear_block_of(done.kind, done.topic, payload, whose);
        }
        self.machine.give_back(0, done.bytes);
    }

    /// Runs the destructor of an event and keeps its block.
    pub(crate) fn clear_block(&mut self, kind: u32, topic: u32, payload: Box<dyn Payload>) {
        self.clear_block_of(kind, topic, payload, None);
    }

    #[inline]
    fn clear_block_of(
        &mut self,
        kind: u32,
        topic: u32,
        mut payload: Box<dyn Payload>,
        whose: Option<(u32, Key)>,
    ) {
        match catch_unwind(AssertUnwindSafe(|| payload.clear())) {
            Ok(()) => self.payloads.recycle(kind, payload),
            Err(panic) => {
                let detail = format!("the destructor of an event panicked: {}", panic_text(&*panic));
                let (component, key) = whose.unzip();
                self.fault(FaultKind::Panicked, component, topic, key, None, detail);
            }
        }
    }

    /// Drops everything that is queued, after a teardown has begun.
    pub(crate) fn drop_slots(&mut self) {
        for slot in self.machine.detach() {
            self.machine.begin_detached(&slot);
            let around = ambient::enter(self.shared.bus, Some(slot.root));
            self.release_payload(&slot, &mut Run::default());
            drop(around);
            self.settle_owed();
            let freed = self.machine.end_delivery(false);
            self.on_freed(freed);
        }
    }

    fn note_delivered(&mut self, slot: &Slot, topic: u32, payload: &dyn Payload, author: bool) {
        let Self { journal, cells, topics, machine, now_ns, .. } = self;
        let Some(journal) = journal else { return };
        let component = slot.target.component;
        let name = &*cells[component as usize].name;
        let topic_name = topics.name(topic).map_or("", |name| name);
        let root = machine.roots().number(slot.root);
        let numbers = [slot.key.publication.0, slot.key.admission.0, root, *now_ns];
        let names = [name, topic_name, payload.name()];
        let digest = journal.callback(names, numbers, |out| payload.record(out));
        journal.note(|| Entry::Delivered {
            publication: slot.key.publication.0,
            admission: slot.key.admission.0,
            component,
            topic: Some(topic).filter(|&topic| topic != NONE),
            event: payload.name().into(),
            digest,
            root,
            author,
            now_ns: *now_ns,
        });
    }

    fn note_returned(&mut self, slot: &Slot, outcome: &Outcome) {
        let outcome = match outcome {
            Ok(Ok(())) => "ok",
            Ok(Err(_)) => "failed",
            Err(_) => "panicked",
        };
        self.note(|| Entry::Returned { admission: slot.key.admission.0, outcome: outcome.into() });
    }
}
