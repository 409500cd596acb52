//! Messages: what is sent, what comes back, and what it weighs in a lane.

use std::fmt;

use crate::HeapSize;

/// A message to an object. Derive it: `#[derive(Message)] #[message(reply = u64, error = Refused)]`.
///
/// A message names its reply and its error, so a caller knows both without knowing who will answer. It needs
/// no serialisation format as long as it stays in the process.
///
/// Its weight in a lane is its own size, the heap it owns as [`HeapSize`] reports it, and 256 bytes (LANE-2).
pub trait Message: HeapSize + Send + Sized + 'static {
    /// What a handler answers.
    type Reply: Send + 'static;
    /// Why a handler may refuse: the application's own type, never one of the runtime's errors (ERR-1).
    type Error: fmt::Debug + Send + 'static;

    /// The last step of a handled request inside its turn: whether the reply can be given out. Here a codec
    /// runs when the caller is in another process. A reply that cannot fails the request with
    /// [`ErrorKind::ProtocolError`](crate::ErrorKind::ProtocolError) and drops what the handler deferred
    /// (JOIN-3).
    ///
    /// # Errors
    ///
    /// Why the reply cannot be given out.
    fn check_reply(reply: &Self::Reply) -> Result<(), BadReply> {
        let _ = reply;
        Ok(())
    }
}

/// Why a reply cannot be given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadReply(pub String);

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadReply {}

/// The error of a message whose handler cannot refuse: it has no value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

/// The bytes a message reserves beside the overhead of its record.
pub(crate) fn payload_bytes<M: Message>(message: &M) -> u64 {
    (size_of::<M>() as u64).saturating_add(message.heap_bytes())
}
