//! The context: all that code on a bus can do, and nothing of the machinery.

use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::dispatch::Arrival;
use turnkeep_machines::bus::timer::BadTimer;

use crate::component::{self, ComponentId, ComponentKey, On};
use crate::core::{Core, NONE};
use crate::event::{Arrived, Event};
use crate::fault::{FailureReport, FaultReport};
use crate::log::Entry;
use crate::metrics::Metrics;
use crate::subscription::{Call, SubscriptionId};
use crate::timer::{Schedule, TimerError};
use crate::topic::{self, Topic, TopicError};

/// What a callback, a raw callable or the host has of the bus while it runs (COMP-8).
pub struct Context<'a> {
    pub(crate) core: &'a mut Core,
    /// The component that runs; `NONE` for raw callables and the host.
    me: u32,
    /// The topic of the event at hand.
    topic: u32,
}

/// Why somebody cannot have access to a component.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A callback of it runs, or somebody else has access.
    #[error("component {name} is in use; try again when its callback has ended")]
    Busy {
        /// The component.
        name: Arc<str>,
    },
    /// The registration is over.
    #[error("the component is no longer registered; use the key of its new registration")]
    Gone,
    /// It is of another type.
    #[error("component {name} is of another type than its key says")]
    Type {
        /// The component.
        name: Arc<str>,
    },
}

/// Why a subscription was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The pattern is none.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// The registration is over.
    #[error("the component is no longer registered; use the key of its new registration")]
    Gone,
}

impl<'a> Context<'a> {
    pub(crate) fn new(core: &'a mut Core, me: u32, topic: u32) -> Self {
        Self { core, me, topic }
    }

    pub(crate) fn me(&self) -> u32 {
        self.me
    }

    // ---- topics and publishing --------------------------------------------------------------------------------

    /// The topic of that name for events of one kind; keep it, publishing to it is then cheapest.
    ///
    /// # Errors
    ///
    /// The name is no dot-separated text, holds a wildcard, or carries another kind of event.
    pub fn topic<E: Event>(&mut self, name: &str) -> Result<Topic<E>, TopicError> {
        let Core { topics, payloads, .. } = &mut *self.core;
        let known = topics.find(name).is_some();
        let index = topics.intern(name, (TypeId::of::<E>(), E::NAME), || payloads.add_kind())?;
        if !known {
            self.core.note(|| Entry::Topic { topic: index, name: name.into() });
        }
        Ok(Topic { index, bus: self.core.shared.bus, event: PhantomData })
    }

    /// Publishes an event: raw callables take it at once, components when their turn in the queue has come. In a
    /// faulted bus, raw callables still take it (FAULT-2).
    ///
    /// # Panics
    ///
    /// If the topic is another bus's.
    #[inline]
    pub fn publish<E: Event>(&mut self, topic: Topic<E>, event: E) {
        assert!(topic.bus == self.core.shared.bus, "the topic is another bus's; ask this one for its own");
        self.core.publish(topic.index, event);
    }

    /// Publishes an event that stays with the publisher; it is cloned once, if a component needs it later.
    ///
    /// # Panics
    ///
    /// If the topic is another bus's; and if the clone panics, which faults the bus (PUB-5).
    pub fn publish_ref<E: Event + Clone>(&mut self, topic: Topic<E>, event: &E) {
        assert!(topic.bus == self.core.shared.bus, "the topic is another bus's; ask this one for its own");
        self.core.publish_ref(topic.index, event);
    }

    /// Publishes to a topic by its name.
    ///
    /// # Errors
    ///
    /// As [`topic`](Self::topic).
    pub fn publish_to<E: Event>(&mut self, name: &str, event: E) -> Result<(), TopicError> {
        let topic: Topic<E> = self.topic(name)?;
        self.core.publish(topic.index, event);
        Ok(())
    }

    /// Opens a publication of the caller's own around `inside`: whatever is published in it is nested, and under one
    /// root. It ends when `inside` returns; ending it delivers nothing (PUB-3).
    ///
    /// # Panics
    ///
    /// If `inside` does. The publication is ended first, and the bus faulted (PUB-5).
    pub fn scope<R>(&mut self, inside: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let publication = self.core.open(NONE);
        let mut ctx = Context::new(self.core, self.me, self.topic);
        let result = catch_unwind(AssertUnwindSafe(|| inside(&mut ctx)));
        self.core.close(publication);
        result.unwrap_or_else(|panic| {
            let text = crate::fault::panic_text(&*panic);
            let detail = format!("a panic unwound through the publication: {text}");
            let (me, topic) = (Some(self.me), self.topic);
            self.core.fault(crate::fault::FaultKind::Unwound, me, topic, None, None, detail);
            resume_unwind(panic)
        })
    }

    /// Puts an event into the queue for one component, without a topic.
    ///
    /// # Errors
    ///
    /// The registration is over.
    pub fn post<C: On<E>, E: Event>(&mut self, to: ComponentId<C>, event: E) -> Result<(), AccessError> {
        self.core.cell(to.key).ok_or(AccessError::Gone)?;
        let call = Call::Method(to.key.index, component::method::<C, E>);
        self.core.post(to.key.index, call, event);
        Ok(())
    }

    /// The name of the topic of the event at hand; none for a post, a timer, a lifecycle callback or the host.
    #[must_use]
    pub fn topic_name(&self) -> Option<Arc<str>> {
        self.core.topics.name(self.topic).cloned()
    }

    // ---- subscriptions ------------------------------------------------------------------------------------------

    /// Lets a component take the events of one kind on all topics that match, from the next publication on. A
    /// higher priority comes first; equals come in the order in which they subscribed (PUB-6).
    ///
    /// # Errors
    ///
    /// The pattern is none, or a plain name whose topic carries another kind; or the registration is over.
    pub fn subscribe<C: On<E>, E: Event>(
        &mut self,
        component: ComponentId<C>,
        pattern: &str,
        priority: i32,
    ) -> Result<SubscriptionId, SubscribeError> {
        self.core.cell(component.key).ok_or(SubscribeError::Gone)?;
        if !topic::is_pattern(pattern) {
            self.topic::<E>(pattern)?;
        }
        let call = Call::Method(component.key.index, component::method::<C, E>);
        Ok(self.add_subscription(
            pattern,
            priority,
            Some(TypeId::of::<E>()),
            call,
            Some(component.key.index),
        )?)
    }

    /// Lets a foreign component take events of every kind on all topics that match.
    ///
    /// # Errors
    ///
    /// The pattern is none, or the registration is over.
    pub fn subscribe_foreign(
        &mut self,
        component: ComponentKey,
        pattern: &str,
        priority: i32,
    ) -> Result<SubscriptionId, SubscribeError> {
        self.core.cell(component).ok_or(SubscribeError::Gone)?;
        let call = Call::Foreign(component.index);
        Ok(self.add_subscription(pattern, priority, None, call, Some(component.index))?)
    }

    /// Calls `callable` inside every publication on a topic that matches, with the original object (RAW-1). The name
    /// is for faults. The callable may publish, also to its own topic.
    ///
    /// # Errors
    ///
    /// The pattern is none.
    pub fn subscribe_raw(
        &mut self,
        name: &str,
        pattern: &str,
        priority: i32,
        callable: impl Fn(&mut Context<'_>, &Arrived<'_>) + Send + Sync + 'static,
    ) -> Result<SubscriptionId, SubscribeError> {
        let call = Call::Raw(name.into(), Arc::new(callable));
        Ok(self.add_subscription(pattern, priority, None, call, None)?)
    }

    fn add_subscription(
        &mut self,
        pattern: &str,
        priority: i32,
        kind: Option<TypeId>,
        call: Call,
        component: Option<u32>,
    ) -> Result<SubscriptionId, TopicError> {
        topic::check(pattern)?;
        let id = self.core.subscriptions.add(pattern, priority, kind, call);
        let (subscription, serial) = (id.index, id.serial);
        self.core.note(|| Entry::Subscribed {
            subscription,
            serial,
            pattern: pattern.into(),
            priority,
            component,
        });
        Ok(id)
    }

    /// Ends a subscription: nobody is called through it from now on, for queued events neither (PUB-7). Whether
    /// there was one.
    pub fn unsubscribe(&mut self, id: SubscriptionId) -> bool {
        let removed = self.core.subscriptions.remove(id);
        if removed {
            self.core.note(|| Entry::Unsubscribed { subscription: id.index, serial: id.serial });
        }
        removed
    }

    // ---- components -----------------------------------------------------------------------------------------------

    /// Has `work` done on a component at once, with exclusive access.
    ///
    /// # Errors
    ///
    /// The component is in a callback or otherwise in use, is gone, or is of another type.
    ///
    /// # Panics
    ///
    /// If `work` does; the component is back by then.
    pub fn with<C: 'static, R>(
        &mut self,
        component: ComponentId<C>,
        work: impl FnOnce(&mut C, &mut Context<'_>) -> R,
    ) -> Result<R, AccessError> {
        let key = component.key;
        let cell = self.core.cell(key).ok_or(AccessError::Gone)?;
        let name = cell.name.clone();
        let taken = self.core.cells[key.index as usize].object.take();
        let mut object = taken.ok_or(AccessError::Busy { name: name.clone() })?;
        let any: &mut dyn Any = object.as_mut();
        let result = match any.downcast_mut::<C>() {
            Some(state) => {
                let mut ctx = Context::new(self.core, key.index, NONE);
                Ok(catch_unwind(AssertUnwindSafe(|| work(state, &mut ctx))))
            }
            None => Err(AccessError::Type { name }),
        };
        self.core.bring_home(key.index, key.registration, object);
        if self.core.machine.is_outside() {
            self.core.serve_requests();
        }
        Ok(result?.unwrap_or_else(|panic| resume_unwind(panic)))
    }

    /// The key of a component by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ComponentKey> {
        let index = *self.core.names.get(name)?;
        Some(ComponentKey { index, registration: self.core.cells[index as usize].registration })
    }

    /// The key of the component that runs; none for raw callables and the host.
    #[must_use]
    pub fn this(&self) -> Option<ComponentKey> {
        let registration = self.core.cells.get(self.me as usize)?.registration;
        Some(ComponentKey { index: self.me, registration })
    }

    // ---- resources ------------------------------------------------------------------------------------------------

    /// Puts a value where all code on this bus finds it by its type; the value that was there.
    pub fn set_resource<T: Send + 'static>(&mut self, value: T) -> Option<T> {
        match self.resource_mut::<T>() {
            Some(place) => Some(std::mem::replace(place, value)),
            None => {
                self.core.resources.push((TypeId::of::<T>(), Box::new(value)));
                None
            }
        }
    }

    /// The value of a type, as it is now (COMP-5).
    #[must_use]
    pub fn resource<T: 'static>(&self) -> Option<&T> {
        let (_, found) = self.core.resources.iter().find(|(kind, _)| *kind == TypeId::of::<T>())?;
        found.downcast_ref()
    }

    /// The value of a type, to be changed at once.
    #[must_use]
    pub fn resource_mut<T: 'static>(&mut self) -> Option<&mut T> {
        let (_, found) = self.core.resources.iter_mut().find(|(kind, _)| *kind == TypeId::of::<T>())?;
        found.downcast_mut()
    }

    // ---- time -----------------------------------------------------------------------------------------------------

    /// What the bus's clock says, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// Sets a timer for the component that runs. Its firings are events of their own: they share no root with the
    /// callback that set it (ROOT-6). A stop time is inclusive.
    ///
    /// # Errors
    ///
    /// No component runs, the name is taken, the interval is zero, the first firing lies in the past, or there are
    /// 65,536 timers.
    pub fn set_timer(&mut self, name: &str, schedule: Schedule) -> Result<(), TimerError> {
        match self.this() {
            Some(component) => self.set_timer_for(component, name, schedule),
            None => Err(TimerError::NoOwner { name: name.into() }),
        }
    }

    /// Sets a timer for a component.
    ///
    /// # Errors
    ///
    /// As [`set_timer`](Self::set_timer).
    pub fn set_timer_for(
        &mut self,
        component: impl Into<ComponentKey>,
        name: &str,
        schedule: Schedule,
    ) -> Result<(), TimerError> {
        let owner = component.into();
        let (due_ns, now_ns) = (schedule.first_ns, self.core.now_ns);
        let text = || name.to_owned();
        if self.core.cell(owner).is_none() {
            return Err(TimerError::NoOwner { name: text() });
        }
        if due_ns < now_ns {
            return Err(TimerError::Past { name: text(), due_ns, now_ns });
        }
        self.core.timers.set(owner.index, name, schedule).map_err(|bad| match bad {
            BadTimer::NameTaken => TimerError::NameTaken { name: text() },
            BadTimer::NoInterval => TimerError::NoInterval { name: text() },
            BadTimer::TooMany => TimerError::TooMany { name: text() },
        })?;
        let Schedule { first_ns, interval_ns, stop_ns } = schedule;
        let component = owner.index;
        self.core.note(|| Entry::TimerSet { component, name: name.into(), first_ns, interval_ns, stop_ns });
        Ok(())
    }

    /// Ends a timer of the component that runs; whether there was one.
    pub fn cancel_timer(&mut self, name: &str) -> bool {
        let cancelled = self.core.timers.cancel(self.me, name);
        if cancelled {
            let (component, name) = (self.me, Some(name.to_owned()));
            self.core.note(|| Entry::TimerCancelled { component, name });
        }
        cancelled
    }

    /// Timers that are set on this bus.
    #[must_use]
    pub fn timers(&self) -> usize {
        self.core.timers.len()
    }

    // ---- what can be asked ------------------------------------------------------------------------------------------

    /// What the bus has counted.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.core.metrics()
    }

    /// The first fault, if the bus has one.
    #[must_use]
    pub fn fault_report(&self) -> Option<&FaultReport> {
        self.core.machine.fault()
    }

    /// Callbacks that have failed, oldest first; the newest 1,024 are kept.
    pub fn failures(&self) -> impl Iterator<Item = &FailureReport> {
        self.core.failures.iter()
    }

    /// The digest of all callbacks so far; none if the bus was not asked for one.
    #[must_use]
    pub fn digest(&self) -> Option<u64> {
        self.core.journal.as_ref().and_then(crate::log::Journal::digest)
    }
}

impl Core {
    /// A slot of its own for one component; its root is a new one unless one is active (ROOT-2).
    pub(crate) fn post<E: Event>(&mut self, component: u32, call: Call, event: E) {
        let bytes = (size_of::<E>() + event.heap_bytes()) as u64;
        let publication = self.open(NONE);
        match self.admit_post(publication, component, call, bytes, TypeId::of::<E>(), false) {
            Ok((_, payload)) => {
                let kind = self.kind::<E>();
                let boxed = self.payloads.boxed(kind, event);
                self.payloads.put(payload, boxed);
            }
            Err(refusal) => self.refuse(publication, NONE, refusal, 1),
        }
        self.close(publication);
    }

    /// Grants a slot and a place for its capture: count, bytes and slot, before anything is built (ADM-1).
    pub(crate) fn admit_post(
        &mut self,
        publication: turnkeep_machines::bus::dispatch::Publication,
        component: u32,
        call: Call,
        bytes: u64,
        kind: TypeId,
        reserved: bool,
    ) -> Result<(turnkeep_machines::bus::line::SlotId, u32), turnkeep_machines::bus::dispatch::Refusal> {
        self.machine.take_bytes(bytes)?;
        let subscription = self.subscriptions.direct(component, kind, call);
        let pool = {
            let Self { topics, payloads, .. } = self;
            topics.kind(kind, || payloads.add_kind())
        };
        let payload = self.payloads.reserve(pool, NONE, bytes);
        let SubscriptionId { index, serial } = subscription;
        let arrival = Arrival { target: self.target(component), payload, subscription: index, serial };
        let before = self.machine.roots().made();
        let (slot, key) = match self.machine.reserve(publication, arrival, NONE) {
            Ok(granted) => granted,
            Err(refusal) => {
                self.payloads.finish(payload);
                self.machine.give_back(0, bytes);
                return Err(refusal);
            }
        };
        self.payloads.hold(payload);
        if let Some(journal) = &mut self.journal {
            crate::publish::note_admitted(journal, &self.machine, before, key, &arrival, true, reserved);
        }
        if !reserved {
            self.machine.fill(slot, payload);
        }
        Ok((slot, payload))
    }

    pub(crate) fn kind<E: Event>(&mut self) -> u32 {
        let Self { topics, payloads, .. } = self;
        topics.kind(TypeId::of::<E>(), || payloads.add_kind())
    }
}
