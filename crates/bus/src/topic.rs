//! Topics: names, patterns, and who receives what is published to each.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use hashbrown::HashMap;
use turnkeep_machines::bus::line::Target;
use turnkeep_machines::topic;
pub use turnkeep_machines::topic::matches;

use crate::component::{Cell, Maintenance};
use crate::subscription::{Call, Method, Subscription, Subscriptions};

/// A topic for events of one kind, as [`Context::topic`](crate::Context::topic) gives it.
pub struct Topic<E> {
    pub(crate) index: u32,
    pub(crate) bus: u64,
    pub(crate) event: PhantomData<fn(E)>,
}

impl<E> Clone for Topic<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Topic<E> {}

impl<E> fmt::Debug for Topic<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({})", self.index)
    }
}

/// Why a name cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopicError {
    /// Topics are parts of letters, digits and signs, joined by dots.
    #[error("topic {name:?} is no dot-separated text; write parts without spaces, such as data.bars.SPX")]
    Name {
        /// The name.
        name: String,
    },
    /// `*` and `?` stand for other characters and belong into patterns.
    #[error("topic {name:?} holds * or ?; publish to a plain name and subscribe with a pattern")]
    Wildcard {
        /// The name.
        name: String,
    },
    /// A topic carries events of one kind.
    #[error("topic {name:?} carries {carries}, not {wanted}; use another topic for another kind")]
    Kind {
        /// The name.
        name: String,
        /// What it carries.
        carries: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// There are [`TOPICS_MAX`] topics.
    #[error("topic {name:?} would be one more than {TOPICS_MAX}; use fewer names")]
    TooMany {
        /// The name.
        name: String,
    },
}

/// The most topics that one bus keeps.
pub const TOPICS_MAX: usize = 1 << 20;

pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Checks the form of a topic or a pattern.
pub(crate) fn check(name: &str) -> Result<(), TopicError> {
    if topic::is_pattern(name) { Ok(()) } else { Err(TopicError::Name { name: name.into() }) }
}

/// One who receives what is published to a topic, as it stands while the list is valid.
#[derive(Clone, Copy)]
pub(crate) struct Recipient {
    pub(crate) subscription: u32,
    pub(crate) serial: u32,
    /// The component's place, registration, generation and run; the place is `RAW` for a raw callable.
    pub(crate) target: Target,
    /// The author's method, if the component is a native one that runs and has no maintenance: nothing else is to be
    /// looked at then.
    pub(crate) direct: Option<Method>,
}

pub(crate) const RAW: u32 = u32::MAX;

/// The recipients of one topic, in their order.
#[derive(Clone)]
pub(crate) struct Recipients {
    pub(crate) list: Arc<[Recipient]>,
    pub(crate) raw: bool,
    pub(crate) canonical: bool,
}

pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) kind: u32,
    kind_id: TypeId,
    kind_name: &'static str,
    recipients: Recipients,
    /// The version of the subscriptions that the list was made from.
    version: u64,
}

impl Entry {
    /// The recipients as [`Topics::recipients`] left them.
    #[inline]
    pub(crate) fn recipients(&self) -> &Recipients {
        &self.recipients
    }
}

/// The topics of one bus, and the kinds of events that it has seen.
#[derive(Default)]
pub(crate) struct Topics {
    entries: Vec<Entry>,
    names: HashMap<Arc<str>, u32>,
    kinds: HashMap<TypeId, u32>,
}

impl Topics {
    /// The topic of that name, made if there is none. `add_kind` makes a pool for a new kind of event.
    pub(crate) fn intern(
        &mut self,
        name: &str,
        kind: (TypeId, &'static str),
        add_kind: impl FnOnce() -> u32,
    ) -> Result<u32, TopicError> {
        if let Some(&at) = self.names.get(name) {
            let entry = &self.entries[at as usize];
            if entry.kind_id == kind.0 {
                return Ok(at);
            }
            return Err(TopicError::Kind { name: name.into(), carries: entry.kind_name, wanted: kind.1 });
        }
        if is_pattern(name) {
            return Err(TopicError::Wildcard { name: name.into() });
        }
        check(name)?;
        if self.entries.len() >= TOPICS_MAX {
            return Err(TopicError::TooMany { name: name.into() });
        }
        let kind_index = *self.kinds.entry(kind.0).or_insert_with(add_kind);
        let at = self.entries.len() as u32;
        let name: Arc<str> = name.into();
        self.names.insert(name.clone(), at);
        let recipients = Recipients { list: Arc::from([]), raw: false, canonical: false };
        let (kind_id, kind_name) = kind;
        self.entries.push(Entry { name, kind: kind_index, kind_id, kind_name, recipients, version: 0 });
        Ok(at)
    }

    /// The pool of a kind of event, made if there is none.
    pub(crate) fn kind(&mut self, kind: TypeId, add_kind: impl FnOnce() -> u32) -> u32 {
        *self.kinds.entry(kind).or_insert_with(add_kind)
    }

    #[inline]
    pub(crate) fn entry(&self, at: u32) -> &Entry {
        &self.entries[at as usize]
    }

    pub(crate) fn name(&self, at: u32) -> Option<&Arc<str>> {
        self.entries.get(at as usize).map(|entry| &entry.name)
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// The recipients as they are now; the list is made again only after a change of subscriptions.
    #[inline]
    pub(crate) fn recipients(
        &mut self,
        at: u32,
        subscriptions: &Subscriptions,
        cells: &[Cell],
    ) -> &Recipients {
        if self.entries[at as usize].version != subscriptions.version() {
            self.rebuild(at, subscriptions, cells);
        }
        &self.entries[at as usize].recipients
    }

    fn rebuild(&mut self, at: u32, subscriptions: &Subscriptions, cells: &[Cell]) {
        let entry = &mut self.entries[at as usize];
        let wild = subscriptions.wild().iter().copied();
        let wild = wild.filter(|&sub| matches(subscriptions.pattern(sub), &entry.name));
        let mut found: Vec<(&Subscription, u32)> = Vec::new();
        for sub in subscriptions.exact(&entry.name).iter().copied().chain(wild) {
            if let Some(subscription) = subscriptions.get(sub).filter(|found| found.takes(entry.kind_id)) {
                found.push((subscription, sub));
            }
        }
        found.sort_by_key(|(subscription, _)| (std::cmp::Reverse(subscription.priority), subscription.order));
        let recipient = |&(found, subscription): &(&Subscription, u32)| recipient(found, subscription, cells);
        let list: Arc<[Recipient]> = found.iter().map(recipient).collect();
        let raw = list.iter().any(|recipient| recipient.target.component == RAW);
        let canonical = list.iter().any(|recipient| recipient.target.component != RAW);
        entry.recipients = Recipients { list, raw, canonical };
        entry.version = subscriptions.version();
    }
}

fn recipient(found: &Subscription, subscription: u32, cells: &[Cell]) -> Recipient {
    let component = found.component();
    let raw = Target { component, registration: 0, generation: 0, run: 0 };
    let (target, direct) = cells.get(component as usize).map_or((raw, None), |cell| {
        let target = crate::core::target(cell, component);
        let direct = match found.call {
            Call::Method(_, method) if target.run != 0 && cell.maintenance == Maintenance::None => {
                Some(method)
            }
            _ => None,
        };
        (target, direct)
    });
    Recipient { subscription, serial: found.serial, target, direct }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pub_8_a_star_is_any_run_and_a_question_mark_one_character() {
        for (pattern, name, wanted) in [
            ("data.bars.SPX", "data.bars.SPX", true),
            ("data.bars.SPX", "data.bars.SP", false),
            ("data.*", "data.bars.SPX", true),
            ("data.*", "data", false),
            ("*", "a", true),
            ("*.SPX", "data.bars.SPX", true),
            ("*.bars.*", "data.bars.SPX", true),
            ("*.bars.*", "data.quotes.SPX", false),
            ("data.bars.SP?", "data.bars.SPX", true),
            ("data.bars.SP?", "data.bars.SP", false),
            ("d*a*X", "data.bars.SPX", true),
            ("d*a*Y", "data.bars.SPX", false),
            ("**", "anything", true),
            ("?", "é", true),
            ("a*", "a", true),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn pub_8_a_topic_is_dot_separated_text() {
        for name in ["", ".", "a.", ".a", "a..b", "a b", "a.\n"] {
            assert_eq!(check(name), Err(TopicError::Name { name: name.into() }));
        }
        assert_eq!(check("data.bars.ES-2024_06"), Ok(()));
    }
}
