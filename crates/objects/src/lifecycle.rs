//! The turn of a lifecycle callback: state and calls, but no yield and no defer.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use turnkeep_scheduler::access::Access;

use crate::actor::Actor;
use crate::id::Generation;
use crate::node::{Node, NodeInner};
use crate::object::{Object, object_of};
use crate::refs::{ActorAddress, ActorRef, SpotAddress, SpotRef};
use crate::spot::{SharesGate, Spot};
use crate::work::{Work, cpu_work, io_work};

/// The turn of a lifecycle callback of `T`; with `P`, of a member of a Spot of type `P`.
///
/// It derefs to the state and may wait for other objects with the gate kept. It has no `yielding` and no
/// `defer` (YIELD-1, JOIN-5).
pub struct Lifecycle<'t, T, P = ()> {
    access: Access<'t, T>,
    _place: PhantomData<fn() -> P>,
}

impl<'t, T: Any + Send> Lifecycle<'t, T> {
    pub(crate) fn new(access: Access<'t, T>) -> Self {
        Self { access, _place: PhantomData }
    }
}

impl<T: Any + Send, P> Lifecycle<'_, T, P> {
    /// The state, for borrows of several fields at once.
    pub fn state(&mut self) -> &mut T {
        self.access.state_mut()
    }

    fn object(&self) -> &Object {
        object_of(self.access.owner())
    }

    /// The id of the object.
    #[must_use]
    pub fn id(&self) -> &str {
        self.object().id.as_str()
    }

    /// Which life of that id this is.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.object().generation
    }

    fn inner(&self) -> Arc<NodeInner> {
        self.object().node.clone()
    }

    /// The node the object lives on.
    #[must_use]
    pub fn node(&self) -> Node {
        Node::from_inner(self.inner())
    }

    /// Whoever is the Spot of that id.
    #[must_use]
    pub fn spot<S: Spot>(&self, id: &str) -> SpotAddress<S> {
        SpotAddress::new(&self.inner(), id)
    }

    /// Whoever is the Actor of that id.
    #[must_use]
    pub fn actor<A: Actor>(&self, id: &str) -> ActorAddress<A> {
        ActorAddress::new(&self.inner(), id)
    }

    /// Computing work on the CPU pool, apart from the workers (WORK-1).
    pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
        cpu_work(work)
    }

    /// A future to run on the I/O runtime; it holds no slot while it waits (WORK-1).
    pub fn io<F>(&self, future: F) -> Work<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        io_work(future)
    }
}

impl<S: Spot> Lifecycle<'_, S, ()> {
    /// A reference to this Spot.
    #[must_use]
    pub fn me(&self) -> SpotRef<S> {
        SpotRef::from_owner(self.access.owner_arc())
    }
}

impl<A: Actor, P> Lifecycle<'_, A, P> {
    /// A reference to this Actor.
    #[must_use]
    pub fn itself(&self) -> ActorRef<A> {
        ActorRef::from_owner(self.access.owner_arc())
    }

    /// The id of the Spot the Actor is in.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let spot = self.inner().membership.place(self.access.owner().key())?;
        Some(object_of(&spot).id.as_str().to_owned())
    }

    /// The callback as that of a member of a Spot of type `S`, if the Actor is in one: then the Spot's state is
    /// reachable too.
    pub fn within<S: Spot<Mode: SharesGate>>(&mut self) -> Option<Lifecycle<'_, A, S>> {
        if !self.access.is_within::<S>() {
            return None;
        }
        Some(Lifecycle { access: self.access.reborrow(), _place: PhantomData })
    }
}

impl<A: Actor, S: Spot> Lifecycle<'_, A, S> {
    /// The states of the Actor and of the Spot; `None` if the Spot was stopped meanwhile.
    pub fn try_both(&mut self) -> Option<(&mut A, &mut S)> {
        self.access.both::<S>()
    }
}

impl<T: Any + Send, P> Deref for Lifecycle<'_, T, P> {
    type Target = T;

    fn deref(&self) -> &T {
        self.access.state()
    }
}

impl<T: Any + Send, P> DerefMut for Lifecycle<'_, T, P> {
    fn deref_mut(&mut self) -> &mut T {
        self.access.state_mut()
    }
}

impl<T: Any + Send, P> fmt::Debug for Lifecycle<'_, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lifecycle({})", self.object())
    }
}
