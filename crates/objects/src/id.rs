//! Names of objects: 1 to 255 bytes of text.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, ErrorKind};

/// The longest id, in bytes.
pub const ID_BYTES_MAX: usize = 255;

/// What an object is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A Spot of any mode.
    Spot,
    /// An Actor.
    Actor,
    /// A handler of the node.
    NodeHandler,
    /// A handler of a channel.
    ChannelHandler,
    /// A task of the program's own on the node's workers.
    Task,
    /// A timer with a gate of its own.
    Timer,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spot => "Spot",
            Self::Actor => "Actor",
            Self::NodeHandler => "node handler",
            Self::ChannelHandler => "channel",
            Self::Task => "task",
            Self::Timer => "timer",
        })
    }
}

/// The id of an object within its kind.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// An id from text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidOperation`] if it is empty or over [`ID_BYTES_MAX`] bytes.
    pub fn new(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(bad("an id is empty; give it 1 to 255 bytes"));
        }
        if text.len() > ID_BYTES_MAX {
            return Err(bad(&format!("an id is {} bytes long; 255 is the most", text.len())));
        }
        Ok(Self(text.into()))
    }

    /// An id the runtime itself gives.
    pub(crate) fn fixed(text: &'static str) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn bad(text: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, "id", "look-up", text)
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The number of one life of an object: higher for each creation on a node, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub(crate) u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_4_bad_ids_say_what_an_id_is() {
        assert_eq!(Id::new("").unwrap_err().kind(), ErrorKind::InvalidOperation);
        assert!(Id::new(&"x".repeat(255)).is_ok());
        let error = Id::new(&"x".repeat(256)).unwrap_err();
        assert!(error.to_string().contains("256 bytes"), "{error}");
    }
}
