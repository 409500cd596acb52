//! The channel into a live bus: bounded, from any thread, with the root of the work that sent.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnkeep_machines::bus::root::Root;

use crate::ambient::{Owed, Shared};

/// Why a message was not taken; it comes back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError<M> {
    /// The channel is full, and waiting would be for ever: this is the bus's own thread, or it was not to be waited.
    #[error("the channel is full; let the bus work first, or make the channel larger")]
    Full(M),
    /// The bus is gone, or this is a destructor that its teardown runs.
    #[error("the bus has ended; nobody takes messages any more")]
    Closed(M),
}

impl<M> ChannelError<M> {
    /// The message.
    pub fn into_message(self) -> M {
        match self {
            Self::Full(message) | Self::Closed(message) => message,
        }
    }
}

/// A message on its way in.
pub(crate) struct Incoming<M> {
    /// The time of the event; none for "now".
    pub(crate) time_ns: Option<u64>,
    /// The root under which it was sent, if that was on the bus's thread, and the epoch of then.
    pub(crate) root: Option<(Root, u64)>,
    pub(crate) message: M,
}

struct State<M> {
    queue: VecDeque<Incoming<M>>,
    /// Set when the bus is gone.
    closed: bool,
}

/// Both ends' share.
pub(crate) struct Channel<M> {
    state: Mutex<State<M>>,
    capacity: usize,
    /// Something has come in, or the last sender has gone.
    news: Condvar,
    /// Something has been taken out.
    room: Condvar,
    senders: AtomicUsize,
    shared: Arc<Shared>,
}

impl<M> Channel<M> {
    pub(crate) fn new(capacity: usize, shared: Arc<Shared>) -> Arc<Self> {
        let state = State { queue: VecDeque::new(), closed: false };
        let (news, room) = (Condvar::new(), Condvar::new());
        Arc::new(Self {
            state: Mutex::new(state),
            capacity,
            news,
            room,
            senders: AtomicUsize::new(0),
            shared,
        })
    }

    /// The queue is right whatever panicked elsewhere: it is changed in single steps.
    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn sender(self: &Arc<Self>) -> Sender<M> {
        self.senders.fetch_add(1, Ordering::AcqRel);
        Sender { channel: self.clone() }
    }

    /// The next message, without waiting.
    pub(crate) fn take(&self) -> Option<Incoming<M>> {
        let taken = self.lock().queue.pop_front();
        if taken.is_some() {
            self.room.notify_one();
        }
        taken
    }

    /// Whether nothing is in it and nobody can send any more.
    pub(crate) fn is_over(&self) -> bool {
        self.senders.load(Ordering::Acquire) == 0 && self.lock().queue.is_empty()
    }

    /// Waits until something may have come in.
    pub(crate) fn wait(&self, at_most: Duration) {
        let state = self.lock();
        if state.queue.is_empty() && self.senders.load(Ordering::Acquire) > 0 {
            drop(self.news.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Nobody takes messages any more; those that are in it are handed back.
    pub(crate) fn close(&self) -> VecDeque<Incoming<M>> {
        let mut state = self.lock();
        state.closed = true;
        self.room.notify_all();
        std::mem::take(&mut state.queue)
    }
}

/// An end of the channel into a live bus. Clones send into the same channel.
pub struct Sender<M> {
    channel: Arc<Channel<M>>,
}

impl<M> fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("capacity", &self.channel.capacity).finish_non_exhaustive()
    }
}

impl<M> Clone for Sender<M> {
    fn clone(&self) -> Self {
        self.channel.sender()
    }
}

impl<M> Drop for Sender<M> {
    fn drop(&mut self) {
        if self.channel.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Under the lock, so that a receiver that has just looked is already waiting.
            let _state = self.channel.lock();
            self.channel.news.notify_all();
        }
    }
}

impl<M> Sender<M> {
    /// Sends a message, with the time of its event or for now. It waits for room; on the bus's own thread, where that
    /// would be for ever, a full channel refuses. Sent there, the message belongs to the chain of work that sent it;
    /// sent elsewhere it begins one (ROOT-6).
    ///
    /// # Errors
    ///
    /// The bus is gone, or the channel is full on the bus's own thread. The message comes back.
    pub fn send(&self, time_ns: Option<u64>, message: M) -> Result<(), ChannelError<M>> {
        let wait = !self.channel.shared.is_here();
        self.put(time_ns, message, wait)
    }

    /// Sends a message without waiting.
    ///
    /// # Errors
    ///
    /// The bus is gone, or the channel is full. The message comes back.
    pub fn try_send(&self, time_ns: Option<u64>, message: M) -> Result<(), ChannelError<M>> {
        self.put(time_ns, message, false)
    }

    fn put(&self, time_ns: Option<u64>, message: M, wait: bool) -> Result<(), ChannelError<M>> {
        let channel = &*self.channel;
        let mut state = channel.lock();
        while state.queue.len() >= channel.capacity && !state.closed {
            if !wait {
                return Err(ChannelError::Full(message));
            }
            state = channel.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed || channel.shared.is_tearing_down() {
            return Err(ChannelError::Closed(message));
        }
        let root = channel.shared.active().map(|root| (root, channel.shared.epoch()));
        if let Some((root, epoch)) = root {
            channel.shared.owe(Owed::Hold(root, epoch));
        }
        state.queue.push_back(Incoming { time_ns, root, message });
        channel.news.notify_one();
        Ok(())
    }
}
