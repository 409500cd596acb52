//! What the object layer knows of an owner: its name, its life, and where it is a member.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;
use turnkeep_scheduler::owner::{Identity, Owner};
use turnkeep_scheduler::record::{Record, Refusal};

use crate::caught::text_of;
use crate::error::{Error, ErrorKind, ended};
use crate::id::{Generation, Id, ObjectKind};
use crate::join::Leave;
use crate::node::NodeInner;
use crate::spot::Member;

/// What can be done with an object without knowing its type.
pub(crate) struct Hooks {
    /// The Rust type of its state.
    pub(crate) type_id: fn() -> TypeId,
    /// The record that tells a Spot that an Actor has left.
    pub(crate) leave: Option<fn(Leave) -> Record>,
    /// The record that closes it with the node.
    pub(crate) close: fn(&Arc<Owner>) -> Record,
}

/// The identity of one life of an object.
pub(crate) struct Object {
    pub(crate) kind: ObjectKind,
    pub(crate) id: Id,
    pub(crate) generation: Generation,
    /// The name its type was registered under.
    pub(crate) type_name: Arc<Id>,
    /// Whether it is a Spot that shares its gate with its members.
    pub(crate) shares_gate: bool,
    pub(crate) node: Arc<NodeInner>,
    /// What the layer can do with it without knowing its type.
    pub(crate) hooks: &'static Hooks,
    /// Set when the object is made and takes messages.
    ready: AtomicBool,
    /// 0 until it is gone, then the reason of its end.
    end: AtomicU8,
    /// Made when the first one needs it.
    late: OnceLock<Box<Late>>,
}

/// What most objects never need.
#[derive(Default)]
struct Late {
    /// Told at the end.
    ended: Notify,
    /// Why it could not be made, if that is how it ended.
    not_made: OnceLock<Error>,
}

impl Object {
    pub(crate) fn new(
        kind: ObjectKind,
        id: Id,
        generation: Generation,
        type_name: Arc<Id>,
        shares_gate: bool,
        node: Arc<NodeInner>,
        hooks: &'static Hooks,
    ) -> Self {
        Self {
            kind,
            id,
            generation,
            type_name,
            shares_gate,
            node,
            hooks,
            ready: AtomicBool::new(false),
            end: AtomicU8::new(0),
            late: OnceLock::new(),
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
        Member { id: self.id.clone(), generation: self.generation, type_name: (*self.type_name).clone() }
    }

    pub(crate) fn gone(&self, operation: &str) -> Error {
        self.refused(operation, self.end().unwrap_or(Refusal::Ended))
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({}, generation {})", self.kind, self.id, self.type_name, self.generation)
    }
}

impl Identity for Object {
    fn number(&self) -> u64 {
        self.generation.0
    }

    fn ended(&self, why: Refusal) {
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
            late.ended.notify_waiters();
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        report(|| {
            tracing::error!(object = %self, panic = text_of(panic), "a destructor or a callback panicked");
        });
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
