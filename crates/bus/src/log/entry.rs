//! The records of a bus log (`docs/bus-log.md` says what each means).

use serde::{Deserialize, Serialize};

/// The format's name, the first thing in a log.
pub const FORMAT: &str = "turnkeep-bus-log";
/// The format's version. A reader refuses a higher one.
pub const VERSION: u32 = 1;

/// The first record of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
}

/// One record. Components, topics, subscriptions, queues are numbers that earlier records explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Entry {
    /// The limits of the bus.
    Limits {
        /// Deliveries a root.
        deliveries: u64,
        /// Commands a root.
        commands: u64,
        /// Firings an instant.
        firings: u64,
        /// Units retained.
        units: u32,
    },
    /// A component was registered.
    Component {
        /// Its place.
        component: u32,
        /// Which registration at that place.
        registration: u32,
        /// Its name.
        name: String,
        /// In which states its maintenance runs: `none`, `running`, `always`.
        maintenance: String,
    },
    /// A component has come to a state.
    Life {
        /// Its place.
        component: u32,
        /// Which registration.
        registration: u32,
        /// The state.
        state: String,
        /// The generation.
        generation: u32,
        /// The run, 0 while it does not run.
        run: u32,
    },
    /// A topic was used for the first time.
    Topic {
        /// Its number.
        topic: u32,
        /// Its name.
        name: String,
    },
    /// A subscription was made; posts and timers have one without a pattern.
    Subscribed {
        /// Its place.
        subscription: u32,
        /// Which use of the place.
        serial: u32,
        /// The pattern.
        pattern: String,
        /// The priority.
        priority: i32,
        /// The component; none for a raw callable.
        component: Option<u32>,
    },
    /// A subscription has ended.
    Unsubscribed {
        /// Its place.
        subscription: u32,
        /// Which use of the place.
        serial: u32,
    },
    /// A publication has begun.
    Opened {
        /// Its ordinal.
        publication: u64,
        /// Its topic; none for a post.
        topic: Option<u32>,
        /// The root it works under, if there is one yet.
        root: Option<u64>,
    },
    /// A publication has ended.
    Closed {
        /// Its ordinal.
        publication: u64,
    },
    /// A root was made.
    RootMade {
        /// Its number.
        root: u64,
    },
    /// The last holder of a root has let it go.
    RootFreed {
        /// Its number.
        root: u64,
        /// Deliveries it has paid for.
        deliveries: u64,
        /// Commands it has paid for.
        commands: u64,
    },
    /// A raw callable was called.
    Raw {
        /// The publication it was called in.
        publication: u64,
        /// The subscription.
        subscription: u32,
        /// Which use of its place.
        serial: u32,
    },
    /// A slot was admitted, or reserved.
    Admitted {
        /// The publication.
        publication: u64,
        /// The slot's own ordinal.
        admission: u64,
        /// Who pays for it.
        root: u64,
        /// The component.
        component: u32,
        /// Its registration then.
        registration: u32,
        /// Its generation then.
        generation: u32,
        /// Its run then, 0 if it was not running.
        run: u32,
        /// The subscription.
        subscription: u32,
        /// Which use of its place.
        serial: u32,
        /// Whether the capture is still to come.
        reserved: bool,
    },
    /// A reservation has its capture.
    Filled {
        /// The slot.
        admission: u64,
    },
    /// A reservation was dropped.
    Abandoned {
        /// The slot.
        admission: u64,
    },
    /// An admission was refused.
    Refused {
        /// The publication.
        publication: u64,
    },
    /// A drain has begun.
    DrainBegan {
        /// Its budget in slots.
        budget: u32,
    },
    /// A drain has ended.
    DrainEnded {
        /// Slots delivered.
        delivered: u32,
        /// Slots cancelled.
        cancelled: u32,
    },
    /// A callback begins.
    Delivered {
        /// The publication.
        publication: u64,
        /// The slot.
        admission: u64,
        /// The component.
        component: u32,
        /// The topic; none for a post.
        topic: Option<u32>,
        /// The kind of event.
        event: String,
        /// A digest of the event.
        digest: u64,
        /// Who pays for it.
        root: u64,
        /// Whether author code runs, or maintenance alone.
        author: bool,
        /// The clock.
        now_ns: u64,
    },
    /// The callback has ended.
    Returned {
        /// The slot.
        admission: u64,
        /// How: `ok`, `failed`, `panicked`.
        outcome: String,
    },
    /// A slot was taken out and not delivered.
    Cancelled {
        /// The publication.
        publication: u64,
        /// The slot.
        admission: u64,
    },
    /// A fault.
    Fault {
        /// Its kind.
        kind: String,
        /// Whether it is the first.
        first: bool,
        /// What happened.
        detail: String,
    },
    /// A command was sent.
    Sent {
        /// The queue.
        queue: u32,
        /// The command's number.
        command: u64,
        /// The root it took along.
        root: Option<u64>,
    },
    /// A drain of a queue has begun.
    Batch {
        /// The queue.
        queue: u32,
        /// Commands in it.
        commands: u64,
    },
    /// That drain has ended.
    BatchEnded {
        /// The queue.
        queue: u32,
    },
    /// The handler of a command begins.
    Command {
        /// The queue.
        queue: u32,
        /// The command.
        command: u64,
        /// The root it runs under, if it has one yet.
        root: Option<u64>,
    },
    /// That handler has ended.
    CommandEnded {
        /// The command.
        command: u64,
    },
    /// A handler has captured a child.
    Captured {
        /// The queue.
        queue: u32,
        /// The child.
        command: u64,
        /// The command whose handler captured it.
        parent: u64,
        /// The root it took along.
        root: Option<u64>,
    },
    /// A command was destroyed unhandled, or put off because its root has paid for all it may.
    Dropped {
        /// The command.
        command: u64,
    },
    /// A message went to an endpoint.
    Endpoint {
        /// Its address.
        address: String,
    },
    /// Code begins under the root of a retained value.
    ChainOpened {
        /// The root.
        root: u64,
    },
    /// That code has ended.
    ChainClosed {
        /// The root.
        root: u64,
    },
    /// The clock was set.
    Clock {
        /// What it says.
        now_ns: u64,
    },
    /// A timer was set.
    TimerSet {
        /// Its owner.
        component: u32,
        /// Its name.
        name: String,
        /// Its first firing.
        first_ns: u64,
        /// Its interval.
        interval_ns: Option<u64>,
        /// Its last instant, inclusive.
        stop_ns: Option<u64>,
    },
    /// A timer was cancelled before its end.
    TimerCancelled {
        /// Its owner.
        component: u32,
        /// Its name; none for all timers of the owner.
        name: Option<String>,
    },
    /// A timer has fired.
    TimerFired {
        /// Its owner.
        component: u32,
        /// Its name.
        name: String,
        /// The number of its registration.
        registration: u64,
        /// When it was due.
        due_ns: u64,
    },
    /// A teardown has begun.
    TeardownBegan,
    /// A teardown has ended; the counters as they were left.
    TeardownEnded {
        /// Units.
        units: u32,
        /// Bytes.
        bytes: u64,
        /// Roots alive.
        roots: u32,
    },
}
