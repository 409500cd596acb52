//! What can go wrong, in the runtime's words, with the refused message given back.

use std::fmt;
use std::sync::Arc;

use turnkeep_scheduler::record::Refusal;

use crate::message::Message;
use crate::object::Object;

/// The kind of a runtime error: exactly one each (ERR-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such object, or the reference is to one that has ended.
    NotFound,
    /// An object of that id exists.
    AlreadyExists,
    /// The object of that id has another type.
    TypeMismatch,
    /// The type is not registered with the node.
    NotConfigured,
    /// The other side's policy said no.
    Rejected,
    /// The object ended before it had answered: whether the work was done is not known.
    Unavailable,
    /// A bounded thing is full.
    CapacityExceeded,
    /// The time was up first.
    DeadlineExceeded,
    /// The node takes no new work.
    ShuttingDown,
    /// A payload cannot be encoded or decoded.
    ProtocolError,
    /// The call makes no sense where or how it was made; trying again will not help.
    InvalidOperation,
    /// Something accepted is gone.
    DataLost,
    /// A handler panicked, or the runtime broke a rule of its own.
    InternalFailure,
}

/// A runtime error: its kind, and a text that names the object, the operation, the cause and what to do
/// (ERR-4).
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: Arc<str>,
}

impl Error {
    /// An error of one kind.
    pub(crate) fn new(
        kind: ErrorKind,
        object: impl fmt::Display,
        operation: &str,
        cause_and_help: &str,
    ) -> Self {
        Self { kind, text: format!("{object}: {operation}: {cause_and_help}").into() }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.kind, self.text)
    }
}

impl std::error::Error for Error {}

/// Why a `send` was not accepted. Nothing happened, and the message is here.
pub struct SendError<M> {
    /// The message that was not accepted.
    pub message: M,
    /// Why not.
    pub error: Error,
}

impl<M> SendError<M> {
    /// The kind of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error.kind()
    }
}

impl<M> fmt::Debug for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendError({:?})", self.error)
    }
}

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<M> std::error::Error for SendError<M> {}

impl<M> From<SendError<M>> for Error {
    fn from(refused: SendError<M>) -> Self {
        refused.error
    }
}

/// Why an `ask` got no reply.
pub enum AskError<M: Message> {
    /// The handler answered with its own error.
    Application(M::Error),
    /// The request was not accepted. Nothing happened, and the message is here.
    Refused {
        /// The message that was not accepted.
        message: M,
        /// Why not.
        error: Error,
    },
    /// The request was accepted, and no reply came.
    Failed(Error),
}

impl<M: Message> AskError<M> {
    /// The kind of the runtime error; `None` if the handler itself answered with an error.
    pub fn kind(&self) -> Option<ErrorKind> {
        self.runtime().map(Error::kind)
    }

    /// The runtime error; `None` if the handler itself answered with an error.
    pub fn runtime(&self) -> Option<&Error> {
        match self {
            Self::Application(_) => None,
            Self::Refused { error, .. } | Self::Failed(error) => Some(error),
        }
    }

    /// The handler's own error, if that is what came.
    pub fn into_application(self) -> Option<M::Error> {
        match self {
            Self::Application(error) => Some(error),
            _ => None,
        }
    }

    /// The message, if the request was not accepted.
    pub fn into_message(self) -> Option<M> {
        match self {
            Self::Refused { message, .. } => Some(message),
            _ => None,
        }
    }
}

impl<M: Message> fmt::Debug for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => write!(f, "Application({error:?})"),
            Self::Refused { error, .. } => write!(f, "Refused({error:?})"),
            Self::Failed(error) => write!(f, "Failed({error:?})"),
        }
    }
}

impl<M: Message> fmt::Display for AskError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Application(error) => write!(f, "the handler answered with an error: {error:?}"),
            Self::Refused { error, .. } | Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<M: Message> std::error::Error for AskError<M> {}

impl<M: Message<Error = crate::message::Never>> From<AskError<M>> for Error {
    fn from(error: AskError<M>) -> Self {
        match error {
            AskError::Application(never) => match never {},
            AskError::Refused { error, .. } | AskError::Failed(error) => error,
        }
    }
}

/// Any error, for handlers and callbacks that need to say no more than its text.
///
/// Everything that is an error converts into it with `?`.
pub struct Failure(Box<dyn std::error::Error + Send + Sync>);

impl Failure {
    /// A failure with a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// The error behind it.
    #[must_use]
    pub fn into_inner(self) -> Box<dyn std::error::Error + Send + Sync> {
        self.0
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The runtime error for a record that was offered and not accepted.
pub(crate) fn not_accepted(object: &Object, operation: &str, why: Refusal) -> Error {
    match why {
        Refusal::Full => Error::new(
            ErrorKind::CapacityExceeded,
            object,
            operation,
            "its lane is full; wait with `send` or `ask`, slow down, or register the type with a larger lane",
        ),
        Refusal::TooLarge => Error::new(
            ErrorKind::CapacityExceeded,
            object,
            operation,
            "the payload alone is over the byte limit of its lane; send it in parts, or register the type with a larger limit",
        ),
        Refusal::TooManyWaiters => Error::new(
            ErrorKind::CapacityExceeded,
            object,
            operation,
            "65,536 senders wait for room in its lane already; slow the senders down",
        ),
        other => object.refused(operation, other),
    }
}

/// The runtime error for a record that an object that ended has not run.
pub(crate) fn ended(object: impl fmt::Display, operation: &str, why: Refusal) -> Error {
    match why {
        Refusal::Panicked => Error::new(
            ErrorKind::Unavailable,
            object,
            operation,
            "the object was stopped by a panic of one of its handlers; create it again",
        ),
        Refusal::NotMade => Error::new(
            ErrorKind::Unavailable,
            object,
            operation,
            "the object could not be made; see the error of its creation",
        ),
        Refusal::HandedOver => handed_over(object, operation),
        _ => Error::new(
            ErrorKind::NotFound,
            object,
            operation,
            "the object has ended; find or create it again by its id",
        ),
    }
}

/// The runtime error of an object that takes nothing while it is handed over.
pub(crate) fn handed_over(object: impl fmt::Display, operation: &str) -> Error {
    let text = "it is sealed, to be handed over; try again when that is over";
    Error::new(ErrorKind::Unavailable, object, operation, text)
}
