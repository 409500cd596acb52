//! Subscriptions: who listens to which pattern, in which order, and whether a recipient is still there.

use std::any::{Any, TypeId};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::component::{Failure, Object};
use crate::context::Context;
use crate::event::Arrived;
use crate::topic::{self, RAW};

/// A subscription, to be ended with [`Context::unsubscribe`](crate::Context::unsubscribe).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscriptionId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// A raw callable: it runs inside the publication, with the original object.
pub(crate) type Callable = Arc<dyn Fn(&mut Context<'_>, &Arrived<'_>) + Send + Sync>;

/// How a component of a known type is called with an event of a known kind.
pub(crate) type Method = fn(&mut dyn Object, &mut Context<'_>, &dyn Any) -> Result<(), Failure>;

/// How a recipient is called.
#[derive(Clone)]
pub(crate) enum Call {
    /// The author's method of a native component.
    Method(u32, Method),
    /// Whatever a foreign component does with an event.
    Foreign(u32),
    /// A raw callable, with the name that faults give it.
    Raw(Arc<str>, Callable),
}

/// One subscription.
pub(crate) struct Subscription {
    pattern: Arc<str>,
    pub(crate) priority: i32,
    /// Its place among those of the same priority.
    pub(crate) order: u64,
    /// Which use of the place this is.
    pub(crate) serial: u32,
    /// The only kind it takes, if it takes one.
    kind: Option<TypeId>,
    pub(crate) call: Call,
    /// Posts and timers come through it, publications never.
    direct: bool,
}

impl Subscription {
    pub(crate) fn component(&self) -> u32 {
        match self.call {
            Call::Method(component, _) | Call::Foreign(component) => component,
            Call::Raw(..) => RAW,
        }
    }

    pub(crate) fn takes(&self, kind: TypeId) -> bool {
        self.kind.is_none_or(|own| own == kind)
    }
}

/// One place: the subscription that is in it, or the serial of the next one.
struct Place {
    serial: u32,
    subscription: Option<Subscription>,
}

/// What is subscribed to what.
pub(crate) struct Subscriptions {
    places: Vec<Place>,
    free: Vec<u32>,
    /// Rises with each change that a topic's list depends on: of subscriptions, registrations and lives.
    version: u64,
    /// The order of the newest subscription.
    last: u64,
    wild: Vec<u32>,
    /// Subscriptions by exact name.
    exact: HashMap<Arc<str>, Vec<u32>>,
    /// The direct subscription of each component and kind.
    direct: HashMap<(u32, TypeId), u32>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
            version: 1,
            last: 0,
            wild: Vec::new(),
            exact: HashMap::new(),
            direct: HashMap::new(),
        }
    }
}

impl Subscriptions {
    /// Adds a subscription behind the others of its priority; it counts from the next publication.
    pub(crate) fn add(
        &mut self,
        pattern: &str,
        priority: i32,
        kind: Option<TypeId>,
        call: Call,
    ) -> SubscriptionId {
        let pattern: Arc<str> = pattern.into();
        let id = self.place(pattern.clone(), priority, kind, call, false);
        self.version += 1;
        if topic::is_pattern(&pattern) {
            self.wild.push(id.index);
        } else {
            self.exact.entry(pattern).or_default().push(id.index);
        }
        id
    }

    fn place(
        &mut self,
        pattern: Arc<str>,
        priority: i32,
        kind: Option<TypeId>,
        call: Call,
        direct: bool,
    ) -> SubscriptionId {
        self.last += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { serial: 0, subscription: None });
            (self.places.len() - 1) as u32
        });
        let place = &mut self.places[at as usize];
        place.serial += 1;
        let serial = place.serial;
        place.subscription =
            Some(Subscription { pattern, priority, order: self.last, serial, kind, call, direct });
        SubscriptionId { index: at, serial }
    }

    /// The way in which a component is reached without a topic.
    pub(crate) fn direct(&mut self, component: u32, kind: TypeId, call: Call) -> SubscriptionId {
        if let Some(&index) = self.direct.get(&(component, kind)) {
            return SubscriptionId { index, serial: self.places[index as usize].serial };
        }
        let id = self.place("".into(), 0, Some(kind), call, true);
        self.direct.insert((component, kind), id.index);
        id
    }

    /// Ends a subscription; whether there was one.
    pub(crate) fn remove(&mut self, id: SubscriptionId) -> bool {
        let Some(place) = self.places.get_mut(id.index as usize).filter(|place| place.serial == id.serial)
        else {
            return false;
        };
        let Some(subscription) = place.subscription.take() else { return false };
        // What is queued for the old use of the place must not meet the next one.
        place.serial += 1;
        self.free.push(id.index);
        self.version += 1;
        if subscription.direct {
            self.direct.retain(|_, index| *index != id.index);
        } else if topic::is_pattern(&subscription.pattern) {
            self.wild.retain(|&index| index != id.index);
        } else if let Some(list) = self.exact.get_mut(&subscription.pattern) {
            list.retain(|&index| index != id.index);
        }
        true
    }

    /// Ends all subscriptions of a component, its direct ones too.
    pub(crate) fn remove_all(&mut self, component: u32) {
        let whose = |(at, place): (usize, &Place)| {
            let subscription = place.subscription.as_ref()?;
            let id = SubscriptionId { index: at as u32, serial: place.serial };
            (subscription.component() == component).then_some(id)
        };
        let ids: Vec<SubscriptionId> = self.places.iter().enumerate().filter_map(whose).collect();
        ids.into_iter().for_each(|id| {
            self.remove(id);
        });
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// A component stands otherwise than before: lists that were made are void.
    pub(crate) fn touch(&mut self) {
        self.version += 1;
    }

    pub(crate) fn wild(&self) -> &[u32] {
        &self.wild
    }

    /// The subscriptions to exactly that name.
    pub(crate) fn exact(&self, name: &str) -> &[u32] {
        self.exact.get(name).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn pattern(&self, at: u32) -> &str {
        self.get(at).map_or("", |found| &found.pattern)
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&Subscription> {
        self.places.get(at as usize)?.subscription.as_ref()
    }

    /// The subscription if it is still the one that is meant.
    #[inline]
    pub(crate) fn live(&self, at: u32, serial: u32) -> Option<&Subscription> {
        let place = &self.places[at as usize];
        if place.serial == serial { place.subscription.as_ref() } else { None }
    }
}
