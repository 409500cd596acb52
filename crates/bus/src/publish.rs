//! Publishing: raw callables at once, a slot for each canonical recipient.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::charge::Full;
use turnkeep_machines::bus::dispatch::{Arrival, Publication, Refusal};
use turnkeep_machines::bus::ordinal::{Key, Ordinal};

use crate::ambient;
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::event::{Arrived, Event};
use crate::fault::{FaultKind, panic_text};
use crate::log::Entry;
use crate::payload::List;
use crate::subscription::Call;
use crate::topic::{RAW, Recipient};

/// Where the captures of a publication come from.
pub(crate) enum Source<'a, E> {
    /// The publisher gives the event away.
    Owned(E),
    /// The capture is cloned once a place for it is granted.
    Cloned(&'a E, fn(&E) -> E),
}

impl Core {
    /// Opens a publication on a topic, or on none for a post.
    #[inline]
    pub(crate) fn open(&mut self, topic: u32) -> Publication {
        let publication = self.machine.open_publication();
        if self.journal.is_some() {
            let root = self.machine.active().map(|root| self.machine.roots().number(root));
            let topic = Some(topic).filter(|&topic| topic != NONE);
            self.note(|| Entry::Opened { publication: publication.ordinal.0, topic, root });
        }
        publication
    }

    /// Ends it.
    #[inline]
    pub(crate) fn close(&mut self, publication: Publication) {
        let freed = self.machine.close_publication(publication);
        if self.journal.is_some() {
            self.note(|| Entry::Closed { publication: publication.ordinal.0 });
        }
        self.on_freed(freed);
    }

    /// Publishes an event that is given away.
    #[inline]
    pub(crate) fn publish<E: Event>(&mut self, topic: u32, event: E) {
        let bytes = (size_of::<E>() + event.heap_bytes()) as u64;
        let recipients = self.topics.recipients(topic, &self.subscriptions, &self.cells);
        if recipients.raw {
            let list = recipients.list.clone();
            self.publish_mixed(topic, &list, Source::Owned(event), bytes);
        } else if recipients.canonical {
            self.publish_queued(topic, event, bytes);
        } else {
            self.counts.publications += 1;
            let publication = self.open(topic);
            self.close(publication);
        }
    }

    /// Publishes an event that the publisher keeps.
    pub(crate) fn publish_ref<E: Event + Clone>(&mut self, topic: u32, event: &E) {
        let bytes = (size_of::<E>() + event.heap_bytes()) as u64;
        let list = self.topics.recipients(topic, &self.subscriptions, &self.cells).list.clone();
        self.publish_mixed(topic, &list, Source::Cloned(event, E::clone), bytes);
    }

    /// All recipients are canonical: no foreign code runs, so the list is walked where it is.
    #[inline]
    fn publish_queued<E: Event>(&mut self, topic: u32, event: E, bytes: u64) {
        self.counts.publications += 1;
        let publication = self.open(topic);
        if let Err(refusal) = self.machine.take_bytes(bytes) {
            let refused = self.topics.entry(topic).recipients().list.len();
            self.refuse(publication, topic, refusal, refused as u64);
            self.close(publication);
            return;
        }
        let kind = self.topics.entry(topic).kind;
        let payload = self.payloads.reserve(kind, topic, bytes);
        let before = self.machine.roots().made();
        let list = self.topics.entry(topic).recipients().list.clone();
        let all = list.len() as u32;
        let (slots, refused) = match self.machine.admit_row(publication, payload, all, topic) {
            Ok((first, slots)) => {
                if self.journal.is_some() {
                    self.note_row(before, first, slots, payload, &list);
                }
                // The limit stopped the row: the next slot is the one that passes it.
                let full = (slots < all).then_some(Refusal::Full(Full::Units));
                (slots, full.map(|refusal| (refusal, u64::from(all - slots))))
            }
            Err(refusal) => (0, Some((refusal, u64::from(all)))),
        };
        if slots > 0 {
            self.payloads.hold_for(payload, slots);
            let boxed = self.payloads.boxed(kind, event);
            self.payloads.put(payload, boxed);
            let list = List { recipients: list, version: self.subscriptions.version() };
            self.payloads.put_list(payload, Some(list));
        } else {
            self.payloads.finish(payload);
            self.machine.give_back(0, bytes);
        }
        if let Some((refusal, count)) = refused {
            self.refuse(publication, topic, refusal, count);
        }
        self.close(publication);
    }

    #[cold]
    fn note_row(&mut self, before: u64, first: Key, slots: u32, payload: u32, list: &[Recipient]) {
        let Self { machine, journal, .. } = self;
        let Some(journal) = journal else { return };
        for (at, recipient) in (0..slots).zip(list) {
            let admission = Ordinal(first.admission.0 + u64::from(at));
            let arrival = arrival(recipient.target, payload, recipient);
            note_admitted(journal, machine, before, Key { admission, ..first }, &arrival, at == 0, false);
        }
    }

    /// Raw callables among the recipients, or an event that is cloned: foreign code runs in between.
    fn publish_mixed<E: Event>(
        &mut self,
        topic: u32,
        list: &Arc<[Recipient]>,
        event: Source<'_, E>,
        bytes: u64,
    ) {
        self.counts.publications += 1;
        let publication = self.open(topic);
        let mut capture = Capture::new(self, topic, event, bytes);
        for recipient in list.iter() {
            if self.subscriptions.live(recipient.subscription, recipient.serial).is_none() {
                continue;
            }
            if recipient.target.component == RAW {
                self.call_raw(publication, topic, recipient, &Arrived::new("", E::NAME, capture.event()));
            } else if let Err(panic) = self.admit_one(publication, topic, recipient, &mut capture) {
                // The clone panicked: the publication ends, the fault is latched, the publisher learns of it.
                capture.finish(self);
                self.close(publication);
                let text = panic_text(&*panic);
                let detail = format!("a panic unwound through the publication: {text}");
                self.fault(FaultKind::Unwound, None, topic, None, None, detail);
                resume_unwind(panic);
            }
        }
        capture.finish(self);
        self.close(publication);
    }

    fn admit_one<E: Event>(
        &mut self,
        publication: Publication,
        topic: u32,
        recipient: &Recipient,
        capture: &mut Capture<'_, E>,
    ) -> Result<(), Box<dyn Any + Send>> {
        let before = self.machine.roots().made();
        let granted = capture.place(self).and_then(|payload| {
            let arrival = arrival(self.target(recipient.target.component), payload, recipient);
            let reserved = self.machine.reserve(publication, arrival, topic);
            reserved.map(|(slot, key)| (slot, key, arrival))
        });
        let (slot, key, arrival) = match granted {
            Ok(granted) => granted,
            Err(refusal) => {
                self.refuse(publication, topic, refusal, 1);
                return Ok(());
            }
        };
        if let Some(journal) = &mut self.journal {
            note_admitted(journal, &self.machine, before, key, &arrival, true, true);
        }
        self.payloads.hold(arrival.payload);
        capture.slots += 1;
        let built = capture.build();
        let admission = key.admission.0;
        if built.is_ok() {
            self.machine.fill(slot, arrival.payload);
            self.note(|| Entry::Filled { admission });
        } else {
            self.machine.abandon(slot);
            self.note(|| Entry::Abandoned { admission });
        }
        built
    }

    fn call_raw(&mut self, publication: Publication, topic: u32, recipient: &Recipient, event: &Arrived<'_>) {
        let Some(subscription) = self.subscriptions.live(recipient.subscription, recipient.serial) else {
            return;
        };
        let Call::Raw(name, callable) = subscription.call.clone() else { return };
        let (subscription, serial) = (recipient.subscription, recipient.serial);
        self.note(|| Entry::Raw { publication: publication.ordinal.0, subscription, serial });
        let named = self.topics.entry(topic).name.clone();
        let arrived = event.at(&named);
        let around = ambient::enter(self.shared.bus, self.machine.active());
        let mut ctx = Context::new(self, NONE, topic);
        let result = catch_unwind(AssertUnwindSafe(|| callable(&mut ctx, &arrived)));
        drop(around);
        if let Err(panic) = result {
            let detail = format!("a raw callable panicked: {}", panic_text(&*panic));
            self.fault_named(FaultKind::Panicked, Some(name), topic, None, None, detail);
        }
    }

    /// Admissions were refused: counted, and an overflow is latched.
    #[cold]
    pub(crate) fn refuse(&mut self, publication: Publication, topic: u32, refusal: Refusal, count: u64) {
        self.counts.refused += count;
        self.note(|| Entry::Refused { publication: publication.ordinal.0 });
        if let Refusal::Full(full) = refusal {
            let limits = self.machine.limits();
            let detail = match full {
                Full::Units => {
                    format!("{} units are retained, which is the limit", limits.units)
                }
                Full::Bytes => {
                    format!(
                        "the request would pass {} bytes of known storage, which is the limit",
                        limits.bytes
                    )
                }
            };
            self.fault(FaultKind::Overflow, None, topic, None, None, detail);
        }
    }
}

#[inline(always)]
fn arrival(target: turnkeep_machines::bus::line::Target, payload: u32, recipient: &Recipient) -> Arrival {
    Arrival { target, payload, subscription: recipient.subscription, serial: recipient.serial }
}

/// Notes an admission, and the root that it has made.
pub(crate) fn note_admitted(
    journal: &mut crate::log::Journal,
    machine: &turnkeep_machines::bus::dispatch::Dispatch<crate::fault::FaultReport>,
    before: u64,
    key: Key,
    arrival: &Arrival,
    may_have_made_a_root: bool,
    reserved: bool,
) {
    let roots = machine.roots();
    if may_have_made_a_root && roots.made() > before {
        let root = roots.made();
        journal.note(|| Entry::RootMade { root });
    }
    let root = machine.active().map_or_else(|| roots.made(), |root| roots.number(root));
    journal.note(|| Entry::Admitted {
        publication: key.publication.0,
        admission: key.admission.0,
        root,
        component: arrival.target.component,
        registration: arrival.target.registration,
        generation: arrival.target.generation,
        run: arrival.target.run,
        subscription: arrival.subscription,
        serial: arrival.serial,
        reserved,
    });
}

/// The capture of a publication: the publisher's event, in a block of its own once somebody needs it later.
struct Capture<'a, E> {
    source: Option<Source<'a, E>>,
    boxed: Option<Box<dyn crate::payload::Payload>>,
    kind: u32,
    topic: u32,
    bytes: u64,
    /// Its place in the table, once granted.
    place: Option<u32>,
    slots: u32,
}

impl<'a, E: Event> Capture<'a, E> {
    fn new(core: &mut Core, topic: u32, event: Source<'a, E>, bytes: u64) -> Self {
        let kind = core.topics.entry(topic).kind;
        // An event that is given away goes into its block at once, so that raw callables see it where it stays.
        let (source, boxed) = match event {
            Source::Owned(event) => (None, Some(core.payloads.boxed(kind, event))),
            cloned => (Some(cloned), None),
        };
        Self { source, boxed, kind, topic, bytes, place: None, slots: 0 }
    }

    /// The original object.
    fn event(&self) -> &dyn Any {
        match (&self.source, &self.boxed) {
            (Some(Source::Cloned(event, _)), _) => *event,
            (_, Some(boxed)) => boxed.event(),
            _ => &(),
        }
    }

    /// A place for the capture, charged before it is built.
    fn place(&mut self, core: &mut Core) -> Result<u32, Refusal> {
        if let Some(place) = self.place {
            return Ok(place);
        }
        core.machine.take_bytes(self.bytes)?;
        let place = core.payloads.reserve(self.kind, self.topic, self.bytes);
        self.place = Some(place);
        Ok(place)
    }

    /// Builds the capture, once.
    fn build(&mut self) -> Result<(), Box<dyn Any + Send>> {
        if self.boxed.is_none()
            && let Some(Source::Cloned(event, clone)) = &self.source
        {
            let copy = catch_unwind(AssertUnwindSafe(|| clone(event)))?;
            self.boxed = Some(crate::payload::block(copy));
        }
        Ok(())
    }

    /// Puts the capture into its place, or drops it if nobody needs it.
    fn finish(self, core: &mut Core) {
        match (self.place, self.boxed) {
            (Some(place), boxed) if self.slots > 0 => {
                if let Some(boxed) = boxed {
                    core.payloads.put(place, boxed);
                }
            }
            (place, boxed) => {
                if let Some(place) = place {
                    core.payloads.finish(place);
                    core.machine.give_back(0, self.bytes);
                }
                if let Some(boxed) = boxed {
                    core.clear_block(self.kind, self.topic, boxed);
                }
            }
        }
    }
}
