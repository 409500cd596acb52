//! How the parts of an event are written: MessagePack integers, booleans and strings, nothing else.

use std::fmt;

/// The longest text in an event, in bytes; what is longer is cut when written and refused when read.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Why the bytes of an event are none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

/// The rest of the bytes of one event.
#[derive(Debug)]
pub struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    /// The next integer.
    ///
    /// # Errors
    ///
    /// If the next part is none, or negative.
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        rmp::decode::read_int(&mut self.0).map_err(|_| Malformed("a number was expected"))
    }

    /// The number of parts of the array that begins here.
    ///
    /// # Errors
    ///
    /// If the next part is no array.
    pub fn array(&mut self) -> Result<u32, Malformed> {
        rmp::decode::read_array_len(&mut self.0).map_err(|_| Malformed("an array was expected"))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One part of an event.
pub trait Field: Sized {
    /// What the documents call it.
    const TYPE: &'static str;

    /// Appends it.
    fn put(&self, into: &mut Vec<u8>);

    /// Reads it.
    ///
    /// # Errors
    ///
    /// If the next part is something else.
    fn take(from: &mut Fields<'_>) -> Result<Self, Malformed>;
}

/// Appends an integer. A vector takes everything, so nothing can fail.
#[inline]
pub(crate) fn put_uint(into: &mut Vec<u8>, value: u64) {
    // The two shortest forms by hand: they are most of a trace.
    match value {
        0..0x80 => into.push(value as u8),
        0x80..0x100 => into.extend_from_slice(&[0xcc, value as u8]),
        _ => {
            let _ = rmp::encode::write_uint(into, value);
        }
    }
}

impl Field for u64 {
    const TYPE: &'static str = "uint";

    #[inline]
    fn put(&self, into: &mut Vec<u8>) {
        put_uint(into, *self);
    }

    fn take(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        from.uint()
    }
}

impl Field for bool {
    const TYPE: &'static str = "bool";

    fn put(&self, into: &mut Vec<u8>) {
        let _ = rmp::encode::write_bool(into, *self);
    }

    fn take(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        rmp::decode::read_bool(&mut from.0).map_err(|_| Malformed("a boolean was expected"))
    }
}

/// A name, at most [`TEXT_BYTES_MAX`] bytes of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Text(pub Box<str>);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(text[..end].into())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a file says is not trusted with the terminal.
        write!(f, "{}", self.0.escape_debug())
    }
}

impl Field for Text {
    const TYPE: &'static str = "text";

    fn put(&self, into: &mut Vec<u8>) {
        let _ = rmp::encode::write_str(into, &self.0);
    }

    fn take(from: &mut Fields<'_>) -> Result<Self, Malformed> {
        let length = rmp::decode::read_str_len(&mut from.0).map_err(|_| Malformed("text was expected"))?;
        let length = length as usize;
        if length > TEXT_BYTES_MAX || length > from.0.len() {
            return Err(Malformed("a text is longer than a text can be"));
        }
        let (text, rest) = from.0.split_at(length);
        from.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| Malformed("a text is not UTF-8"))?;
        Ok(Self(text.into()))
    }
}

/// Numbers that mean one sort of thing each.
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident $type:literal)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Whether it names nothing.
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Field for $name {
            const TYPE: &'static str = $type;

            #[inline]
            fn put(&self, into: &mut Vec<u8>) {
                put_uint(into, self.0);
            }

            fn take(from: &mut Fields<'_>) -> Result<Self, Malformed> {
                from.uint().map(Self)
            }
        }
    )*};
}

ids! {
    /// One life of an object; never used again. A gate is named by the object whose gate it is. 0: none.
    ObjectId "object"
    /// One record, and the activation that runs it; never used again. 0: none.
    RecordId "record"
    /// One Join; never used again. 0: none.
    JoinId "join"
    /// One registration of a timer; never used again. 0: none.
    TimerId "timer"
}

/// Closed lists of words, written as their place.
macro_rules! words {
    ($($(#[$meta:meta])* $name:ident $type:literal { $($(#[$wmeta:meta])* $word:ident = $code:literal $text:literal),* $(,)? })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$wmeta])* $word = $code),* }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$word => $text),* })
            }
        }

        impl Field for $name {
            const TYPE: &'static str = $type;

            #[inline]
            fn put(&self, into: &mut Vec<u8>) {
                into.push(*self as u8);
            }

            fn take(from: &mut Fields<'_>) -> Result<Self, Malformed> {
                match from.uint()? {
                    $($code => Ok(Self::$word),)*
                    _ => Err(Malformed(concat!("no such ", $type))),
                }
            }
        }
    )*};
}

words! {
    /// What an object is.
    Kind "kind" {
        /// A Spot of any mode.
        Spot = 0 "Spot",
        /// An Actor.
        Actor = 1 "Actor",
        /// A handler of the node.
        NodeHandler = 2 "node handler",
        /// A handler of a channel.
        ChannelHandler = 3 "channel",
        /// A timer with a gate of its own.
        Timer = 4 "timer",
        /// Something else.
        Other = 5 "object",
    }
    /// One of the two lanes of an object.
    Lane "lane" {
        /// Messages and ticks.
        Application = 0 "application",
        /// Create, join, leave, seal, close.
        Lifecycle = 1 "lifecycle",
    }
    /// Why a record is not run, or an object has ended.
    Why "why" {
        /// The object has ended or is ending.
        Ended = 0 "ended",
        /// A panic stopped the object.
        Panicked = 1 "panicked",
        /// The object could not be made.
        NotMade = 2 "not made",
        /// The lane is full.
        Full = 3 "full",
        /// It alone is larger than the lane.
        TooLarge = 4 "too large",
        /// Too many wait for room.
        TooManyWaiters = 5 "too many waiters",
        /// Something else.
        Other = 6 "other",
        /// The object is being handed over.
        HandedOver = 7 "handed over",
    }
    /// What a poll of a handler came to.
    How "how" {
        /// The handler is over.
        Ended = 0 "ended",
        /// It waits and keeps the gate.
        Kept = 1 "kept",
        /// It waits and has given the gate up.
        Yielded = 2 "yielded",
        /// It panicked past everything, and is over.
        Panicked = 3 "panicked",
    }
    /// The two records that stand in no lane.
    Stage "stage" {
        /// The first one where the object arrives.
        Arrival = 0 "arrival",
        /// The last one of a sealed object.
        Last = 1 "last",
    }
    /// How the handler that registered Joins has ended.
    Scope "scope" {
        /// Well: they start.
        Well = 0 "well",
        /// In some other way: they are dropped.
        Badly = 1 "badly",
    }
    /// What became of a Join.
    Outcome "outcome" {
        /// The Actor is in the target.
        Accepted = 0 "accepted",
        /// The target did not want it.
        Rejected = 1 "rejected",
        /// It did not work.
        Failed = 2 "failed",
    }
    /// How a wait for a reply has ended.
    WaitEnd "end" {
        /// With a reply, or the handler's error.
        Answered = 0 "answered",
        /// The request was not accepted.
        Refused = 1 "refused",
        /// The deadline passed.
        Deadline = 2 "deadline",
        /// The object ended first.
        Gone = 3 "gone",
        /// Nobody waits any more.
        Dropped = 4 "dropped",
    }
    /// What a timer does with ticks it is late for.
    Late "late" {
        /// They are skipped.
        Skip = 0 "skip",
        /// They run one after the other, up to a bound.
        CatchUp = 1 "catch up",
        /// The next one is put off.
        Delay = 2 "delay",
    }
}
