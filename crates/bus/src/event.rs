//! Events: the values that are published, and how a subscriber that takes several kinds looks at one.

use std::any::Any;
use std::fmt;

/// A value that can be published, posted, or sent to an endpoint.
///
/// Its destructor must not panic while another panic unwinds: Rust ends the process then.
pub trait Event: Any + Send + Sync {
    /// What the log calls this kind of event.
    const NAME: &'static str;

    /// The bytes that the value owns beyond its own size: strings, vectors, maps (FAULT-5).
    ///
    /// It is asked once a publication. A value that owns nothing says 0; one that shares may count the shared part
    /// each time.
    fn heap_bytes(&self) -> usize;

    /// Appends what tells this value from others of its kind; the log and the digest take it in.
    ///
    /// It must not depend on addresses, threads or the time of day.
    fn record(&self, _out: &mut Vec<u8>) {}
}

/// An event as it reaches a subscriber that takes more than one kind.
#[derive(Clone, Copy)]
pub struct Arrived<'a> {
    topic: &'a str,
    name: &'static str,
    event: &'a dyn Any,
}

impl<'a> Arrived<'a> {
    pub(crate) fn new(topic: &'a str, name: &'static str, event: &'a dyn Any) -> Self {
        Self { topic, name, event }
    }

    /// The same event, at that topic.
    pub(crate) fn at<'b>(&self, topic: &'b str) -> Arrived<'b>
    where
        'a: 'b,
    {
        Arrived { topic, ..*self }
    }

    /// The topic it was published to, or the address it was sent to; empty for what was posted.
    #[must_use]
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// The name of its kind.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The event, if it is of that kind.
    #[must_use]
    pub fn get<E: Event>(&self) -> Option<&'a E> {
        self.event.downcast_ref()
    }
}

impl fmt::Debug for Arrived<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrived")
            .field("topic", &self.topic)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

macro_rules! numbers {
    ($($kind:ty => $name:literal),*) => {$(
        impl Event for $kind {
            const NAME: &'static str = $name;
            fn heap_bytes(&self) -> usize { 0 }
            fn record(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_le_bytes()); }
        }
    )*};
}

numbers!(u32 => "u32", u64 => "u64", i64 => "i64");

impl Event for () {
    const NAME: &'static str = "unit";
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Event for String {
    const NAME: &'static str = "text";
    fn heap_bytes(&self) -> usize {
        self.capacity()
    }
    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Event for &'static str {
    const NAME: &'static str = "static text";
    fn heap_bytes(&self) -> usize {
        0
    }
    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}
