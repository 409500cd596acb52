//! Delivering: a drain works from the head of the line, one slot at a time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::drain::{Busy, Hindrance, Standing, Verdict, judge};
use turnkeep_machines::bus::line::Slot;

use crate::ambient;
use crate::component::{Failure, Object};
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::event::Arrived;
use crate::fault::{FaultKind, panic_text};
use crate::log::Entry;
use crate::payload::Payload;
use crate::subscription::Call;

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

/// The capture that is out of the table: consecutive slots of one publication share it.
type Held = Option<(u32, Box<dyn Payload>)>;

/// How a callback came back.
type Outcome = Result<Result<(), Failure>, Box<dyn Any + Send>>;

/// What to do after one slot.
enum Step {
    Delivered,
    Cancelled,
    End(Ended),
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
        let mut held: Held = None;
        let ended = loop {
            if self.machine.fault().is_some() {
                break Ended::Faulted;
            }
            if delivered + cancelled >= budget {
                break if self.machine.line().is_empty() { Ended::Empty } else { Ended::More };
            }
            match self.step(&mut held) {
                Step::Delivered => delivered += 1,
                Step::Cancelled => cancelled += 1,
                Step::End(ended) => break ended,
            }
        };
        self.put_back(held);
        self.machine.end_drain();
        self.note(|| Entry::DrainEnded { delivered, cancelled });
        self.drained(delivered, cancelled, ended)
    }

    fn drained(&self, delivered: u32, cancelled: u32, ended: Ended) -> Drained {
        Drained { delivered, cancelled, left: self.machine.line().len(), ended }
    }

    fn put_back(&mut self, held: Held) {
        if let Some((at, payload)) = held {
            self.payloads.put(at, payload);
        }
    }

    #[inline]
    fn step(&mut self, held: &mut Held) -> Step {
        let Some((_, &slot, stage)) = self.machine.head() else { return Step::End(Ended::Empty) };
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
            Verdict::Wait => Step::End(Ended::Reserved),
            Verdict::Cancel => self.cancel(held),
            Verdict::Runaway => self.runaway(&slot),
            Verdict::Busy => match self.ask_busy(&slot) {
                Some(busy) => self.busy(&slot, busy),
                None => self.deliver(&slot, held, standing.run != 0 && standing.run == slot.target.run),
            },
            Verdict::Deliver { author } => self.deliver(&slot, held, author),
        }
    }

    #[cold]
    fn runaway(&mut self, slot: &Slot) -> Step {
        let limit = self.machine.limits().deliveries;
        let detail = format!(
            "the root has paid for {limit} deliveries, its limit; topics in turn: {}",
            self.repeating()
        );
        self.fault_at(FaultKind::Runaway, slot, self.payloads.topic(slot.payload), detail);
        Step::End(Ended::Faulted)
    }

    /// Asks a foreign component who holds it; a native one that is out is held here.
    #[cold]
    fn ask_busy(&mut self, slot: &Slot) -> Option<Busy> {
        match &mut self.cells[slot.target.component as usize].object {
            Some(object) => match catch_unwind(AssertUnwindSafe(|| object.busy())) {
                Ok(busy) => busy,
                Err(_) => Some(Busy::Here),
            },
            None => Some(Busy::Here),
        }
    }

    #[cold]
    fn busy(&mut self, slot: &Slot, busy: Busy) -> Step {
        if !self.machine.on_busy(busy) {
            return Step::End(Ended::Busy(self.name(slot.target.component)));
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
        Step::End(Ended::Faulted)
    }

    /// Takes the head out and drops its capture under its root.
    #[cold]
    fn cancel(&mut self, held: &mut Held) -> Step {
        let Some(slot) = self.machine.begin_delivery() else { return Step::End(Ended::Empty) };
        self.note(|| Entry::Cancelled {
            publication: slot.key.publication.0,
            admission: slot.key.admission.0,
        });
        self.counts.cancelled += 1;
        self.release_payload(&slot, held);
        self.settle_owed();
        let freed = self.machine.end_delivery(false);
        self.on_freed(freed);
        Step::Cancelled
    }

    #[inline]
    fn deliver(&mut self, slot: &Slot, held: &mut Held, author: bool) -> Step {
        if held.as_ref().is_none_or(|(at, _)| *at != slot.payload) {
            let payload = self.payloads.take(slot.payload);
            let before = std::mem::replace(held, payload.map(|payload| (slot.payload, payload)));
            self.put_back(before);
        }
        let topic = self.payloads.topic(slot.payload);
        let component = slot.target.component;
        let object = self.cells[component as usize].object.take();
        let (Some((_, payload)), Some(mut object)) = (held.as_ref(), object) else {
            // A ready slot has its capture, and judge has seen the component at home.
            return self.cancel(held);
        };
        let _ = self.machine.begin_delivery();
        self.trail[(self.counts.deliveries % self.trail.len() as u64) as usize] = topic;
        if self.journal.is_some() {
            self.note_delivered(slot, topic, payload.as_ref(), author);
        }
        let around = ambient::enter(self.shared.bus, Some(slot.root));
        let outcome = self.call(object.as_mut(), slot, topic, payload.as_ref(), author);
        self.bring_home(component, slot.target.registration, object);
        if !matches!(outcome, Ok(Ok(()))) {
            self.on_bad_outcome(slot, topic, &outcome);
        }
        if self.journal.is_some() {
            self.note_returned(slot, &outcome);
        }
        self.release_payload(slot, held);
        self.settle_owed();
        drop(around);
        self.counts.deliveries += 1;
        let freed = self.machine.end_delivery(true);
        self.on_freed(freed);
        if !self.requests.is_empty() {
            self.serve_requests();
        }
        Step::Delivered
    }

    /// Runs maintenance and the author's callback.
    #[inline]
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
    #[inline]
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
                let during = self.topics.name(topic).map_or_else(|| "a post".into(), Arc::clone);
                self.on_failure(slot.target.component, &during, failure);
            }
            Err(panic) => {
                let detail = format!("a callback panicked: {}", panic_text(&**panic));
                self.fault_at(FaultKind::Panicked, slot, topic, detail);
            }
        }
    }

    /// The slot needs its capture no longer; the last one runs the destructor, under the slot's root.
    #[inline]
    fn release_payload(&mut self, slot: &Slot, held: &mut Held) {
        if slot.payload == NONE || !self.payloads.release(slot.payload) {
            return;
        }
        let out = held.take_if(|(at, _)| *at == slot.payload).map(|(_, payload)| payload);
        let done = self.payloads.finish(slot.payload);
        if let Some(payload) = out.or(done.payload) {
            let around = ambient::enter(self.shared.bus, Some(slot.root));
            self.clear_block_of(done.kind, done.topic, payload, Some(slot));
            drop(around);
        }
        self.machine.give_back(0, done.bytes);
    }

    /// Runs the destructor of an event and keeps its block.
    pub(crate) fn clear_block(&mut self, kind: u32, topic: u32, payload: Box<dyn Payload>) {
        self.clear_block_of(kind, topic, payload, None);
    }

    #[inline]
    fn clear_block_of(&mut self, kind: u32, topic: u32, mut payload: Box<dyn Payload>, slot: Option<&Slot>) {
        match catch_unwind(AssertUnwindSafe(|| payload.clear())) {
            Ok(()) => self.payloads.recycle(kind, payload),
            Err(panic) => {
                let detail = format!("the destructor of an event panicked: {}", panic_text(&*panic));
                let component = slot.map(|slot| slot.target.component);
                self.fault(FaultKind::Panicked, component, topic, slot.map(|slot| slot.key), None, detail);
            }
        }
    }

    /// Drops everything that is queued, after a teardown has begun.
    pub(crate) fn drop_slots(&mut self) {
        for slot in self.machine.detach() {
            self.machine.begin_detached(&slot);
            self.release_payload(&slot, &mut None);
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
