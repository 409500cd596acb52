//! Payloads: one capture a publication, shared by its slots, in blocks that are used again.

use std::any::Any;
use std::sync::Arc;

use crate::event::Event;
use crate::topic::Recipient;

/// A block that holds one event of a fixed kind, or nothing.
pub(crate) trait Payload: Send {
    /// The event; `()` when there is none.
    fn event(&self) -> &dyn Any;
    /// The name of its kind.
    fn name(&self) -> &'static str;
    /// Appends what tells the event from others.
    fn record(&self, out: &mut Vec<u8>);
    /// Runs the event's destructor. The block stays.
    fn clear(&mut self);
    /// The block as what it is.
    fn block(&mut self) -> &mut dyn Any;
}

struct Block<E>(Option<E>);

impl<E: Event> Payload for Block<E> {
    fn event(&self) -> &dyn Any {
        match &self.0 {
            Some(event) => event,
            None => &(),
        }
    }

    fn name(&self) -> &'static str {
        E::NAME
    }

    fn record(&self, out: &mut Vec<u8>) {
        if let Some(event) = &self.0 {
            event.record(out);
        }
    }

    fn clear(&mut self) {
        self.0 = None;
    }

    fn block(&mut self) -> &mut dyn Any {
        self
    }
}

struct Entry {
    /// Out while it is being delivered or built.
    payload: Option<Box<dyn Payload>>,
    /// Slots that still need it.
    slots: u32,
    /// What was charged for it.
    bytes: u64,
    /// Which pool its block goes back to.
    kind: u32,
    /// The topic it was published to.
    topic: u32,
    /// The recipients of a row of slots, out together with the capture, and the version of their list.
    list: Option<List>,
}

/// The recipients of a row of slots.
pub(crate) struct List {
    pub(crate) recipients: Arc<[Recipient]>,
    /// The version of the subscriptions at which they stood as they do in here.
    pub(crate) version: u64,
}

/// Empty blocks of one kind that are kept for use.
const POOL_MAX: usize = 1024;

/// The captures of one bus.
#[derive(Default)]
pub(crate) struct Payloads {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Empty blocks, by kind of event.
    pools: Vec<Vec<Box<dyn Payload>>>,
}

/// The event in a new block.
pub(crate) fn block<E: Event>(event: E) -> Box<dyn Payload> {
    Box::new(Block(Some(event)))
}

/// A capture whose last slot has gone.
pub(crate) struct Done {
    pub(crate) payload: Option<Box<dyn Payload>>,
    pub(crate) bytes: u64,
    pub(crate) kind: u32,
    pub(crate) topic: u32,
}

impl Payloads {
    /// A pool for another kind of event.
    pub(crate) fn add_kind(&mut self) -> u32 {
        self.pools.push(Vec::new());
        (self.pools.len() - 1) as u32
    }

    /// The event in a block of its kind.
    pub(crate) fn boxed<E: Event>(&mut self, kind: u32, event: E) -> Box<dyn Payload> {
        if let Some(mut payload) = self.pools[kind as usize].pop()
            && let Some(block) = payload.block().downcast_mut::<Block<E>>()
        {
            block.0 = Some(event);
            return payload;
        }
        block(event)
    }

    /// Keeps the empty block for another event.
    pub(crate) fn recycle(&mut self, kind: u32, payload: Box<dyn Payload>) {
        let pool = &mut self.pools[kind as usize];
        if pool.len() < POOL_MAX {
            pool.push(payload);
        }
    }

    /// A place for a capture that is still out.
    pub(crate) fn reserve(&mut self, kind: u32, topic: u32, bytes: u64) -> u32 {
        let entry = Entry { payload: None, slots: 0, bytes, kind, topic, list: None };
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        }
    }

    /// One more slot needs the capture.
    #[inline]
    pub(crate) fn hold(&mut self, at: u32) {
        self.entries[at as usize].slots += 1;
    }

    /// So many more slots need it.
    #[inline]
    pub(crate) fn hold_for(&mut self, at: u32, slots: u32) {
        self.entries[at as usize].slots += slots;
    }

    /// The topic that the capture was published to.
    #[inline]
    pub(crate) fn topic(&self, at: u32) -> u32 {
        self.entries.get(at as usize).map_or(crate::core::NONE, |entry| entry.topic)
    }

    /// Puts the capture, or puts it back.
    #[inline]
    pub(crate) fn put(&mut self, at: u32, payload: Box<dyn Payload>) {
        self.entries[at as usize].payload = Some(payload);
    }

    /// Puts the list of a row of slots, or puts it back.
    #[inline]
    pub(crate) fn put_list(&mut self, at: u32, list: Option<List>) {
        self.entries[at as usize].list = list;
    }

    /// Takes the list out for a delivery.
    #[inline]
    pub(crate) fn take_list(&mut self, at: u32) -> Option<List> {
        self.entries.get_mut(at as usize)?.list.take()
    }

    /// Takes the capture out for a delivery.
    #[inline]
    pub(crate) fn take(&mut self, at: u32) -> Option<Box<dyn Payload>> {
        self.entries[at as usize].payload.take()
    }

    /// One slot less needs it; true if that was the last.
    #[inline]
    pub(crate) fn release(&mut self, at: u32) -> bool {
        let entry = &mut self.entries[at as usize];
        entry.slots -= 1;
        entry.slots == 0
    }

    /// Frees the place of a capture that nobody needs.
    pub(crate) fn finish(&mut self, at: u32) -> Done {
        self.free.push(at);
        let entry = &mut self.entries[at as usize];
        entry.list = None;
        Done { payload: entry.payload.take(), bytes: entry.bytes, kind: entry.kind, topic: entry.topic }
    }
}
