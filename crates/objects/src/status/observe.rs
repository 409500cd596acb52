//! A stream of statuses in which a slow reader misses none of the newest ones.
//!
//! An infrastructure task looks at what is observed now and then; no turn tells anybody anything. What it finds
//! replaces what the reader has not read yet, source by source, with a count of how often. So a reader may be as slow as
//! it likes: it holds one status a source, and delays nobody.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use turnkeep_scheduler::ambient::Infrastructure;
use turnkeep_scheduler::io::infra_handle;
use turnkeep_scheduler::owner::Owner;

use super::{ObjectStatus, Status};
use crate::error::{Error, ErrorKind};
use crate::node::NodeInner;
use crate::object::object_of;
use crate::refs::{ActorRef, SpotRef};

/// How many observers a node can have at once.
pub const OBSERVERS_MAX: usize = 64;
/// How many objects one observer can look at.
pub const OBSERVED_MAX: usize = 1024;

/// How many observers a node has.
#[derive(Default)]
pub(crate) struct Observers(AtomicUsize);

/// Who an update is about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Source {
    /// The node.
    Node(Status),
    /// An object: its name, and how it is.
    Object(String, ObjectStatus),
}

/// The newest status of one source.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Update {
    /// The source and its status.
    pub source: Source,
    /// How many earlier statuses of it were replaced by this one before they were read.
    pub merged: u64,
    /// How often an object could not be added so far because there were [`OBSERVED_MAX`] already.
    pub dropped: u64,
}

/// Observes a node, and objects that are added (STAT-1). Dropping it ends that.
pub struct Observer {
    shared: Arc<Shared>,
    task: AbortHandle,
    node: Arc<NodeInner>,
}

struct Shared {
    seen: Mutex<Seen>,
    news: Notify,
}

#[derive(Default)]
struct Seen {
    /// The node's slot, then one an object.
    slots: Vec<Slot>,
    /// Slots with something unread, longest first.
    unread: VecDeque<usize>,
    dropped: u64,
    /// The node has ended and that was seen: nothing more comes.
    over: bool,
}

struct Slot {
    /// `None`: the node.
    owner: Option<Arc<Owner>>,
    newest: Option<Source>,
    merged: u64,
    is_unread: bool,
}

impl Slot {
    fn of(owner: Option<Arc<Owner>>) -> Self {
        Self { owner, newest: None, merged: 0, is_unread: false }
    }

    fn look(&self, node: &NodeInner) -> Source {
        match &self.owner {
            None => Source::Node(Status::of(node)),
            Some(owner) => Source::Object(object_of(owner).to_string(), ObjectStatus::of(owner)),
        }
    }
}

impl Seen {
    /// Puts what was found in its slot, if it is new.
    fn note(&mut self, at: usize, found: Source) {
        let slot = &mut self.slots[at];
        let is_new = match (&slot.newest, &found) {
            (Some(Source::Node(before)), Source::Node(now)) => now.differs_from(before),
            (before, now) => before.as_ref() != Some(now),
        };
        if !is_new {
            return;
        }
        slot.newest = Some(found);
        if slot.is_unread {
            slot.merged += 1;
        } else {
            slot.is_unread = true;
            self.unread.push_back(at);
        }
    }

    fn take(&mut self) -> Option<Update> {
        let at = self.unread.pop_front()?;
        let slot = &mut self.slots[at];
        slot.is_unread = false;
        let merged = std::mem::take(&mut slot.merged);
        Some(Update { source: slot.newest.clone()?, merged, dropped: self.dropped })
    }
}

impl Shared {
    /// Looks at everything once. Returns whether the node is over.
    fn look(&self, node: &NodeInner) -> bool {
        let is_over = node.is_stopped();
        let many = self.seen.lock().slots.len();
        for at in 0..many {
            // One at a time, so that the reader and `add` never wait for all.
            let mut seen = self.seen.lock();
            let found = seen.slots[at].look(node);
            seen.note(at, found);
        }
        let mut seen = self.seen.lock();
        seen.over = is_over;
        if is_over || !seen.unread.is_empty() {
            drop(seen);
            self.news.notify_waiters();
        }
        is_over
    }
}

/// Begins to observe a node, looking every `period`.
pub(crate) fn observe(node: &Arc<NodeInner>, period: Duration) -> Result<Observer, Error> {
    let refused = |kind, text| Err(Error::new(kind, "node", "observe", text));
    if period < Duration::from_millis(1) {
        return refused(ErrorKind::InvalidOperation, "the period is under 1 ms; give it a longer one");
    }
    let count = &node.observers.0;
    if count.fetch_add(1, Ordering::AcqRel) >= OBSERVERS_MAX {
        count.fetch_sub(1, Ordering::AcqRel);
        return refused(ErrorKind::CapacityExceeded, "it has 64 observers already; share one of them");
    }
    let seen = Seen { slots: vec![Slot::of(None)], ..Seen::default() };
    let shared = Arc::new(Shared { seen: Mutex::new(seen), news: Notify::new() });
    let (looking, watched) = (Arc::downgrade(&shared), node.clone());
    let task = infra_handle().spawn(Infrastructure::new(async move {
        while let Some(shared) = looking.upgrade() {
            if shared.look(&watched) {
                return;
            }
            drop(shared);
            tokio::time::sleep(period).await;
        }
    }));
    Ok(Observer { shared, task: task.abort_handle(), node: node.clone() })
}

impl Observer {
    /// Observes a Spot, too, until it has ended and that was read.
    pub fn add_spot<S: crate::Spot>(&self, spot: &SpotRef<S>) {
        self.add(spot.owner());
    }

    /// Observes an Actor, too.
    pub fn add_actor<A: crate::Actor>(&self, actor: &ActorRef<A>) {
        self.add(actor.owner());
    }

    fn add(&self, owner: &Arc<Owner>) {
        let mut seen = self.shared.seen.lock();
        let is_there = |slot: &Slot| slot.owner.as_ref().is_some_and(|other| Arc::ptr_eq(other, owner));
        if seen.slots.iter().any(is_there) {
            return;
        }
        // One place is the node's.
        if seen.slots.len() > OBSERVED_MAX {
            seen.dropped += 1;
            return;
        }
        seen.slots.push(Slot::of(Some(owner.clone())));
    }

    /// The newest status of the source that has waited longest; waits until something changes. `None` when the node
    /// has ended and everything was read.
    pub async fn next(&mut self) -> Option<Update> {
        let shared = self.shared.clone();
        loop {
            let news = shared.news.notified();
            let mut news = std::pin::pin!(news);
            news.as_mut().enable();
            if let Some(update) = self.try_next() {
                return Some(update);
            }
            if self.shared.seen.lock().over {
                return None;
            }
            news.await;
        }
    }

    /// The same without waiting; `None` if nothing has changed.
    pub fn try_next(&mut self) -> Option<Update> {
        self.shared.seen.lock().take()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
        self.node.observers.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("sources", &self.shared.seen.lock().slots.len())
            .finish_non_exhaustive()
    }
}
