//! What the object layer knows of an owner: its name, its life, and where it is a member.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering, fence};
use std::sync::{Arc, OnceLock};

use once_cell::race::OnceBox;
use parking_lot::Mutex;
use tokio::sync::Notify;
use turnkeep_scheduler::access::Ending;
use turnkeep_scheduler::deadline::{Deadlines, Key};
use turnkeep_scheduler::owner::{Identity, Owner};
use turnkeep_scheduler::record::{Record, Refusal};

use crate::caught::text_of;
use crate::envelope::after_panic;
use crate::error::{Error, ErrorKind, ended};
use crate::id::{Generation, Id, ObjectKind};
use crate::join::Leave;
use crate::node::NodeInner;
use crate::policy::TypeInfo;
use crate::report::{Often, brief, report_often};
use crate::spot::{Closing, ClosingReason, Member};
use crate::timer::Timers;
use crate::watch::End;

/// What can be done with an object without knowing its type.
pub(crate) struct Hooks {
    /// The Rust type of its state.
    pub(crate) type_id: fn() -> TypeId,
    /// The record that tells a Spot that an Actor has left.
    pub(crate) leave: Option<fn(Leave) -> Record>,
    /// The record that closes it with the node, which ends at that tick.
    pub(crate) close: fn(&Arc<Owner>, u64) -> Record,
    /// The record that runs `on_closing`.
    pub(crate) last: fn(&Arc<Owner>, Closing) -> Record,
    /// The record that makes its state anew.
    pub(crate) restart: fn(&Arc<Owner>) -> Record,
}

/// The identity of one life of an object.
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) id: Id,
    pub(crate) generation: Generation,
    /// What was registered for its type.
    pub(crate) info: Arc<TypeInfo>,
    /// Whether it is a Spot that shares its gate with its members.
    pub(crate) shares_gate: bool,
    pub(crate) node: Arc<NodeInner>,
    /// What the layer can do with it without knowing its type.
    pub(crate) hooks: &'static Hooks,
    /// Set when the object is made and takes messages.
    ready: AtomicBool,
    /// 0 until it is gone, then the reason of its end.
    end: AtomicU8,
    /// How it comes to end, if somebody knows more than that.
    cause: AtomicU8,
    /// Moves of members under way that will have to tell this Spot.
    departures: AtomicU32,
    /// Made when the first one needs it.
    late: OnceBox<Late>,
}

/// What most objects never need.
#[derive(Default)]
struct Late {
    /// Told at the end.
    ended: Notify,
    /// Why it could not be made, if that is how it ended.
    not_made: OnceLock<Error>,
    timers: Timers,
    /// Set with the first subscription.
    subscribed: AtomicBool,
    /// What the panic said that stopped it.
    panic: OnceLock<String>,
    /// The registration of its idle time.
    idle: Mutex<Option<Key>>,
}

/// Causes of an end that the records refused at it do not tell apart.
const CLOSED: u8 = 1;
const IDLE: u8 = 2;
const SHUTDOWN: u8 = 3;
const CANCELLED: u8 = 4;

/// A member's move that will have to tell its Spot: until it has, the Spot is not settled (see [`crate::seal`]).
pub(crate) struct Departing(Arc<Owner>);

impl Departing {
    /// To be made before the membership changes.
    pub(crate) fn of(spot: Arc<Owner>) -> Self {
        object_of(&spot).departures.fetch_add(1, Ordering::AcqRel);
        Self(spot)
    }
}

impl Drop for Departing {
    fn drop(&mut self) {
        object_of(&self.0).departures.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How much of a panic's text is kept.
const PANIC_BYTES_MAX: usize = 1024;

impl Object {
    pub(crate) fn new(
        kind: ObjectKind,
        id: Id,
        generation: Generation,
        info: Arc<TypeInfo>,
        shares_gate: bool,
        node: Arc<NodeInner>,
        hooks: &'static Hooks,
    ) -> Self {
        Self {
            kind,
            id,
            generation,
            info,
            shares_gate,
            node,
            hooks,
            ready: AtomicBool::new(false),
            end: AtomicU8::new(0),
            cause: AtomicU8::new(0),
            departures: AtomicU32::new(0),
            late: OnceBox::new(),
        }
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// It cannot be made; everybody who waits for it is told this.
    pub(crate) fn set_not_made(&self, why: Error) {
        let _ = self.late.get_or_init(Box::default).not_made.set(why);
    }

    /// Its timers.
    pub(crate) fn timers(&self) -> &Timers {
        &self.late.get_or_init(Box::default).timers
    }

    /// It subscribes to something.
    pub(crate) fn set_subscribed(&self) {
        self.late.get_or_init(Box::default).subscribed.store(true, Ordering::Release);
    }

    /// Whether members that are leaving have still to tell it.
    pub(crate) fn has_departures(&self) -> bool {
        self.departures.load(Ordering::Acquire) != 0
    }

    /// Whether it ever subscribed to something.
    pub(crate) fn is_subscribed(&self) -> bool {
        self.late.get().is_some_and(|late| late.subscribed.load(Ordering::Acquire))
    }

    /// Its timers, if it ever had any.
    pub(crate) fn any_timers(&self) -> Option<&Timers> {
        self.late.get().map(|late| &late.timers)
    }

    /// It ends because it was closed.
    pub(crate) fn set_closed(&self, reason: ClosingReason) {
        let cause = match reason {
            ClosingReason::Requested => CLOSED,
            ClosingReason::Idle => IDLE,
            ClosingReason::Shutdown => SHUTDOWN,
        };
        self.cause.store(cause, Ordering::Release);
    }

    /// It ends because its node does.
    pub(crate) fn set_cancelled(&self) {
        let _ = self.cause.compare_exchange(0, CANCELLED, Ordering::AcqRel, Ordering::Acquire);
    }

    /// It ends by a panic that said this.
    pub(crate) fn set_panic(&self, text: &str) {
        let end = (0..=PANIC_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let kept = text[..end.unwrap_or(0)].to_owned();
        let _ = self.late.get_or_init(Box::default).panic.set(kept);
    }

    /// The registration that looks at its idle time next.
    pub(crate) fn keep_idle_key(&self, key: Key) {
        *self.late.get_or_init(Box::default).idle.lock() = Some(key);
    }

    pub(crate) fn has_idle_key(&self) -> bool {
        self.late.get().is_some_and(|late| late.idle.lock().is_some())
    }

    /// How it ended, once it has.
    pub(crate) fn how_it_ended(&self) -> End {
        match (self.end(), self.cause.load(Ordering::Acquire)) {
            (Some(Refusal::Panicked), _) => {
                let text = self.late.get().and_then(|late| late.panic.get());
                End::Panicked(text.map_or("a panic in a destructor", String::as_str).to_owned())
            }
            (Some(Refusal::NotMade), _) => End::NotMade(self.gone("watch")),
            (_, CLOSED) => End::Closed,
            (_, IDLE) => End::Idle,
            (_, SHUTDOWN) => End::Shutdown,
            (_, CANCELLED) => End::Cancelled,
            _ => End::Destroyed,
        }
    }

    /// Why it could not be made.
    pub(crate) fn not_made(&self) -> Option<Error> {
        self.late.get()?.not_made.get().cloned()
    }

    /// The error of a record that this object has not run.
    pub(crate) fn refused(&self, operation: &str, why: Refusal) -> Error {
        if let Some(error) = self.not_made() {
            return error;
        }
        if self.node.is_stopped() {
            let text = "the node has ended; start another node";
            return Error::new(ErrorKind::ShuttingDown, self, operation, text);
        }
        ended(self, operation, why)
    }

    /// Why it ended, if it has.
    pub(crate) fn end(&self) -> Option<Refusal> {
        match self.end.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Refusal::Ended),
            2 => Some(Refusal::Panicked),
            _ => Some(Refusal::NotMade),
        }
    }

    /// Waits for the end.
    pub(crate) async fn wait_for_end(&self) -> Refusal {
        loop {
            let told = self.late.get_or_init(Box::default).ended.notified();
            let mut told = std::pin::pin!(told);
            told.as_mut().enable();
            fence(Ordering::SeqCst);
            if let Some(why) = self.end() {
                return why;
            }
            told.await;
        }
    }

    pub(crate) fn member(&self) -> Member {
        Member { id: self.id.clone(), generation: self.generation, type_name: self.info.name.clone() }
    }

    /// Its type and its id.
    pub(crate) fn short_name(&self) -> String {
        format!("{} {}", self.info.name, self.id)
    }

    pub(crate) fn gone(&self, operation: &str) -> Error {
        self.refused(operation, self.end().unwrap_or(Refusal::Ended))
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}, generation {})", self.kind, self.id, self.info.name, self.generation)
    }
}

impl Identity for Object {
    fn name(&self) -> String {
        format!("{} {} #{}", self.kind, self.id, self.generation)
    }

    fn number(&self) -> u64 {
        self.generation.0
    }

    fn ended(&self, why: Refusal) {
        if let Some(timers) = self.any_timers() {
            timers.end();
        }
        self.node.forget(self);
        let code = match why {
            Refusal::Panicked => 2,
            Refusal::NotMade => 3,
            _ => 1,
        };
        self.end.store(code, Ordering::Release);
        // Whoever makes it later looks at `end` before waiting; the fences see to it that one sees the other.
        fence(Ordering::SeqCst);
        if let Some(late) = self.late.get() {
            if let Some(key) = late.idle.lock().take() {
                Deadlines::global().cancel(key);
            }
            late.ended.notify_waiters();
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        report_often(&self.node, Often::PanicAside, |left_out| {
            let panic = &*brief(text_of(panic));
            tracing::error!(object = %self, panic, left_out, "a destructor or a callback panicked");
        });
    }

    fn after_panic(&self, owner: &Arc<Owner>) -> Ending {
        after_panic(owner)
    }
}

/// The object behind an owner.
pub(crate) fn object_of(owner: &Owner) -> &Object {
    let identity: &dyn Any = owner.identity();
    match identity.downcast_ref() {
        Some(object) => object,
        None => unreachable!("this crate makes every owner with an Object"),
    }
}

/// Runs a log call whose failure must change no result (ERR-2).
pub(crate) fn report(log: impl FnOnce()) {
    let _ = crate::caught::caught_call(log);
}
