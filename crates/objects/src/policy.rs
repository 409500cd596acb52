//! What is chosen for a type of objects: what a panic does, when an idle one closes.

use crate::id::Id;

/// What becomes of an object whose handler or callback panicked (ERR-3). Its caller gets `InternalFailure` in any
/// case.
///
/// The policy is for handlers and for the callbacks of members' coming and going. An object whose `on_create`
/// panics is not made, one whose `on_closing` panics is gone all the same, and the Entry Spot, which ends with its
/// node, always keeps its state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum PanicPolicy {
    /// The object ends: what is queued is refused, its members find themselves in the Entry Spot.
    #[default]
    Stop,
    /// The state is dropped and made anew by the registered factory, and `on_create` runs again, before anything
    /// else. It is the same object: references, place, members and the queue stay, and the queue is handled in its
    /// order by the new state. Other handlers of it that wait are dropped first; their callers get an error. If the
    /// factory or `on_create` fails, the object ends.
    Restart,
    /// The state stays as the panic left it, and the object goes on.
    Keep,
}

/// What all objects of a registered type share.
#[derive(Debug)]
pub(crate) struct TypeInfo {
    pub(crate) name: Id,
    pub(crate) on_panic: PanicPolicy,
    /// How long an Instance Spot rests before it closes itself; 0 for ever.
    pub(crate) idle_ns: u64,
}

impl TypeInfo {
    /// A type with nothing chosen.
    pub(crate) fn plain(name: Id) -> Self {
        Self { name, on_panic: PanicPolicy::default(), idle_ns: 0 }
    }
}
