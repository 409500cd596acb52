//! `publish`: one-way multicast to the Spots that have subscribed to a topic of a channel (CHAN-2).
//!
//! The targets are those that are subscribed when the publication starts, each once, in the order of subscription.
//! Every one of them has the message in its queue, stands in line for room, or is known as missed before the first
//! wait; so what one publisher publishes one after another comes to each target in that order.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use turnkeep_machines::pair::Lane;
use turnkeep_machines::topic::{is_pattern, is_topic, matches};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Record, Refusal};
use turnkeep_scheduler::room::{NoRoom, RoomWait};
use turnkeep_scheduler::waits::{self, Waiting};

use crate::call::{
    check_domain, check_open, check_timeout, deadline_ns, follow_for_room, may_wait_for_room_of, own_room,
    too_late, would_close,
};
use crate::envelope::Handles;
use crate::error::{Error, ErrorKind, not_accepted};
use crate::id::{Id, ObjectKind};
use crate::message::Message;
use crate::node::NodeInner;
use crate::object::object_of;
use crate::send::carry;

const PUBLISH: &str = "publish";
const SUBSCRIBE: &str = "subscribe";

/// How many subscriptions one Spot may have.
pub const SUBSCRIPTIONS_MAX: usize = 1024;
/// How many of those that were missed are named; the others are counted.
pub const MISSED_NAMED_MAX: usize = 64;

/// Makes the record that brings an `M` to a target.
struct Deliver<M>(fn(M) -> Record);

/// A Spot, and how it gets an `M`.
type Target<M> = (Arc<Owner>, fn(M) -> Record);

struct Subscription {
    pattern: Arc<str>,
    owner: Arc<Owner>,
    message: TypeId,
    /// A `Deliver<M>`.
    deliver: Box<dyn Any + Send + Sync>,
}

/// The subscriptions of a node, by channel, in their order.
#[derive(Default)]
pub(crate) struct Topics(RwLock<HashMap<Id, Vec<Subscription>>>);

impl Topics {
    /// A Spot has ended: its subscriptions end with it.
    pub(crate) fn forget(&self, owner: &Owner) {
        let mut gone = Vec::new();
        self.0.write().retain(|_, subscriptions| {
            gone.extend(subscriptions.extract_if(.., |one| std::ptr::eq(&*one.owner, owner)));
            !subscriptions.is_empty()
        });
        // With the lock gone: they may be the last counts.
        drop(gone);
    }

    /// The targets of a message, each once, in the order of subscription.
    fn targets<M: Message>(&self, channel: &Id, topic: &str) -> Vec<Target<M>> {
        let table = self.0.read();
        let mut seen = HashSet::new();
        let subscriptions = table.get(channel).into_iter().flatten();
        let of_message = subscriptions.filter(|one| one.message == TypeId::of::<M>());
        of_message
            .filter(|one| matches(&one.pattern, topic) && seen.insert(one.owner.key()))
            .filter_map(|one| Some((one.owner.clone(), one.deliver.downcast_ref::<Deliver<M>>()?.0)))
            .collect()
    }
}

/// Subscribes a Spot.
pub(crate) fn subscribe<T: Handles<M>, M: Message>(
    owner: &Arc<Owner>,
    channel: &str,
    pattern: &str,
) -> Result<(), Error> {
    let object = object_of(owner);
    let refused = |kind, text: &str| Err(Error::new(kind, object, SUBSCRIBE, text));
    if !is_pattern(pattern) {
        return refused(
            ErrorKind::InvalidOperation,
            "the pattern is no dot-separated text; write it like `prices.*`",
        );
    }
    if owner.is_sealed() {
        return refused(ErrorKind::InvalidOperation, "it is closing, so nothing would come; do without");
    }
    let channel = channel_of(&object.node, channel, SUBSCRIBE)?;
    let is_this = |one: &Subscription| std::ptr::eq(&*one.owner, &**owner);
    let mut table = object.node.topics.0.write();
    let so_far = table.values().flatten().filter(|one| is_this(one)).count();
    let subscriptions = table.entry(channel).or_default();
    let same =
        |one: &Subscription| is_this(one) && &*one.pattern == pattern && one.message == TypeId::of::<M>();
    if subscriptions.iter().any(same) {
        return Ok(());
    }
    if so_far >= SUBSCRIPTIONS_MAX {
        return refused(
            ErrorKind::CapacityExceeded,
            "it has 1,024 subscriptions already; use wider patterns",
        );
    }
    object.set_subscribed();
    subscriptions.push(Subscription {
        pattern: pattern.into(),
        owner: owner.clone(),
        message: TypeId::of::<M>(),
        deliver: Box::new(Deliver::<M>(carry::<T, M>)),
    });
    Ok(())
}

/// Ends a subscription; `false` if there is none like it.
pub(crate) fn unsubscribe<M: Message>(owner: &Arc<Owner>, channel: &str, pattern: &str) -> bool {
    let Ok(channel) = Id::new(channel) else { return false };
    let mut table = object_of(owner).node.topics.0.write();
    let Some(subscriptions) = table.get_mut(&channel) else { return false };
    let at = subscriptions.iter().position(|one| {
        Arc::ptr_eq(&one.owner, owner) && &*one.pattern == pattern && one.message == TypeId::of::<M>()
    });
    let gone = at.map(|at| subscriptions.remove(at));
    if subscriptions.is_empty() {
        table.remove(&channel);
    }
    drop(table);
    gone.is_some()
}

/// The channel of a name, which must be one of the node's.
fn channel_of(node: &NodeInner, channel: &str, operation: &str) -> Result<Id, Error> {
    let name = Id::new(channel)?;
    if node.directory.find(ObjectKind::ChannelHandler, &name).is_none() {
        let text = "there is no channel of that name; register its handler with the builder before the start";
        let object = format!("channel {name}");
        return Err(Error::new(ErrorKind::NotFound, object, operation, text));
    }
    Ok(name)
}

/// What became of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it says who has not got the message"]
pub struct Published {
    accepted: usize,
    missed: usize,
    named: Vec<Missed>,
}

/// A target that has not got a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The id of the Spot.
    pub id: String,
    /// Why not.
    pub error: Error,
}

impl Published {
    /// How many targets have accepted the message.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.accepted
    }

    /// How many have not.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// Those that have not, the first 64 of them.
    #[must_use]
    pub fn named(&self) -> &[Missed] {
        &self.named
    }

    fn miss(&mut self, owner: &Owner, error: Error) {
        self.missed += 1;
        if self.named.len() < MISSED_NAMED_MAX {
            self.named.push(Missed { id: object_of(owner).id.as_str().to_owned(), error });
        }
    }
}

/// Publishes; waits for room until the deadline if it may wait at all.
pub(crate) async fn publish<M: Message + Clone>(
    node: Arc<NodeInner>,
    channel: String,
    topic: String,
    message: M,
    timeout: Option<Duration>,
) -> Result<Published, Error> {
    let name = format!("channel {channel}");
    check_domain(&name, PUBLISH)?;
    check_open(&node, &name, PUBLISH)?;
    check_timeout(timeout, &name, PUBLISH)?;
    let due = deadline_ns(timeout.unwrap_or(node.config.send_timeout));
    let (mut published, waiting) = offer(&node, &channel, &topic, &message, true)?;
    let mut line = waiting.into_iter().map(|(room, waiting)| (room.until(due), waiting)).collect();
    while let Some((answer, waiting)) = next(&mut line, &mut published).await {
        match answer {
            Ok(()) => published.accepted += 1,
            Err(NoRoom::Expired(_)) => {
                let error = too_late(object_of(&waiting), PUBLISH, "while its lane was full");
                published.miss(&waiting, error);
            }
            Err(NoRoom::Refused(why, _)) => {
                let error = not_accepted(object_of(&waiting), PUBLISH, why);
                published.miss(&waiting, error);
            }
        }
    }
    Ok(published)
}

/// The first in line, with what became of its wait for room. All the waits are whoever's polls this (REENT-5).
async fn next(
    line: &mut VecDeque<InLine>,
    published: &mut Published,
) -> Option<(Result<(), NoRoom>, Waiting)> {
    std::future::poll_fn(|cx| {
        while let Some((room, waiting)) = line.front_mut() {
            if let Poll::Ready(answer) = Pin::new(room).poll(cx) {
                return Poll::Ready(line.pop_front().map(|(_, waiting)| (answer, waiting)));
            }
            // They were begun together, and go from hand to hand together.
            if !waiting.is_elsewhere() {
                return Poll::Pending;
            }
            go_on_here(line, published);
        }
        Poll::Ready(None)
    })
    .await
}

/// Takes those out of the line that the running code may not wait for; it waits for the others.
fn go_on_here(line: &mut VecDeque<InLine>, published: &mut Published) {
    for (room, mut waiting) in std::mem::take(line) {
        match follow_for_room(&mut waiting, PUBLISH) {
            Ok(()) => line.push_back((room, waiting)),
            Err(error) => match room.withdraw() {
                Some(_) => published.miss(&waiting, error),
                None => published.accepted += 1,
            },
        }
    }
}

/// Publishes now, to those that have room.
pub(crate) fn try_publish<M: Message + Clone>(
    node: &Arc<NodeInner>,
    channel: &str,
    topic: &str,
    message: &M,
) -> Result<Published, Error> {
    let name = format!("channel {channel}");
    check_domain(&name, PUBLISH)?;
    check_open(node, &name, PUBLISH)?;
    offer(node, channel, topic, message, false).map(|(published, _)| published)
}

type InLine = (RoomWait, Waiting);

/// Gives every target the message, or a place in line for room, or a reason why not.
fn offer<M: Message + Clone>(
    node: &Arc<NodeInner>,
    channel: &str,
    topic: &str,
    message: &M,
    waits: bool,
) -> Result<(Published, Vec<InLine>), Error> {
    if !is_topic(topic) {
        let text = format!(
            "{topic:?} is no topic; write dot-separated text without `*` and `?`, like `prices.nyse`"
        );
        return Err(Error::new(ErrorKind::InvalidOperation, format!("channel {channel}"), PUBLISH, &text));
    }
    let channel = channel_of(node, channel, PUBLISH)?;
    let (mut published, mut waiting) = (Published::default(), Vec::new());
    for (owner, record) in node.topics.targets::<M>(&channel, topic) {
        match offer_one(&owner, record(message.clone()), waits) {
            Ok(None) => published.accepted += 1,
            Ok(Some(in_line)) => waiting.push(in_line),
            Err(error) => published.miss(&owner, error),
        }
    }
    Ok((published, waiting))
}

fn offer_one(owner: &Arc<Owner>, record: Record, waits: bool) -> Result<Option<InLine>, Error> {
    let object = object_of(owner);
    if !waits || !may_wait_for_room_of(owner) {
        return owner.try_submit(record).map(|()| None).map_err(|(why, _)| match why {
            Refusal::Full if waits => own_room(owner, Lane::Application, PUBLISH),
            why => not_accepted(object, PUBLISH, why),
        });
    }
    match owner.submit_or_wait(record) {
        Ok(None) => Ok(None),
        Ok(Some(room)) => match waits::begin(owner, 0, true) {
            Ok(waiting) => Ok(Some((room, waiting))),
            Err(cycle) => match room.withdraw() {
                Some(_) => Err(would_close(&cycle, PUBLISH)),
                None => Ok(None),
            },
        },
        Err((why, _)) => Err(not_accepted(object, PUBLISH, why)),
    }
}
