//! References and addresses: what a program holds to reach an object.
//!
//! A *reference* ([`SpotRef`], [`ActorRef`], [`HandlerRef`]) means one life of an object; after its end every
//! call ends with `NotFound`. An *address* ([`SpotAddress`], [`ActorAddress`], [`HandlerAddress`]) means
//! whoever has the id when a call is made.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use turnkeep_machines::pair::Lane;
use turnkeep_scheduler::owner::Owner;

use crate::actor::{Actor, Handler};
use crate::ask::Ask;
use crate::block::ask_blocking;
use crate::close::{close, destroy, request_close};
use crate::create::{AsActor, AsSpot, Create, Make, create_actor, create_spot};
use crate::destination::{Address, Destination};
use crate::envelope::Handles;
use crate::error::{AskError, Error, SendError};
use crate::id::{Generation, ObjectKind};
use crate::join::Join;
use crate::message::Message;
use crate::node::NodeInner;
use crate::object::{Object, object_of};
use crate::seal::{Sealed, seal};
use crate::send::{Send, try_send};
use crate::spot::{Admits, Spot};
use crate::watch::Watch;

/// The five ways to give an object a message, for everything that has a `destination()`.
macro_rules! messaging {
    ($name:ident) => {
        impl<T: 'static> $name<T> {
            /// Sends one way: ends when the object has accepted the message (DONE-2).
            pub fn send<M: Message>(&self, message: M) -> Send<T, M>
            where
                T: Handles<M>,
            {
                Send::new(self.destination(), message)
            }

            /// Sends one way, now or not at all.
            ///
            /// # Errors
            ///
            /// `CapacityExceeded` if the lane is full, with the message (LANE-5).
            pub fn try_send<M: Message>(&self, message: M) -> Result<(), SendError<M>>
            where
                T: Handles<M>,
            {
                try_send::<T, M>(&self.destination(), message)
            }

            /// Asks and waits for the reply.
            pub fn ask<M: Message>(&self, message: M) -> Ask<T, M>
            where
                T: Handles<M>,
            {
                Ask::new(self.destination(), message, true)
            }

            /// Asks; a full lane is refused at once, with the message (LANE-5).
            pub fn try_ask<M: Message>(&self, message: M) -> Ask<T, M>
            where
                T: Handles<M>,
            {
                Ask::new(self.destination(), message, false)
            }

            /// Asks from a plain thread, which blocks until the reply is there.
            ///
            /// # Errors
            ///
            /// As for `ask`; `InvalidOperation` at once in a turn and on any worker of a node (REENT-6).
            pub fn ask_blocking<M: Message>(&self, message: M) -> Result<M::Reply, AskError<M>>
            where
                T: Handles<M>,
            {
                ask_blocking(self.ask(message))
            }
        }
    };
}

macro_rules! reference {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T> {
            owner: Arc<Owner>,
            _type: PhantomData<fn() -> T>,
        }

        impl<T> $name<T> {
            pub(crate) fn from_owner(owner: Arc<Owner>) -> Self {
                Self { owner, _type: PhantomData }
            }

            #[allow(dead_code, reason = "not every kind of reference needs it")]
            pub(crate) fn owner(&self) -> &Arc<Owner> {
                &self.owner
            }

            pub(crate) fn destination(&self) -> Destination {
                Destination::Owner(self.owner.clone())
            }

            fn object(&self) -> &Object {
                object_of(&self.owner)
            }

            /// The id.
            #[must_use]
            pub fn id(&self) -> &str {
                self.object().id.as_str()
            }

            /// Which life of that id this is.
            #[must_use]
            pub fn generation(&self) -> Generation {
                self.object().generation
            }

            /// Whether that life is over.
            #[must_use]
            pub fn has_ended(&self) -> bool {
                self.object().end().is_some()
            }

            /// Records accepted and not finished, in the application and in the lifecycle lane.
            #[must_use]
            pub fn queued(&self) -> (u32, u32) {
                let of = |lane| self.owner.in_use(lane).records;
                (of(Lane::Application), of(Lane::Lifecycle))
            }

            /// Bytes reserved, in the application and in the lifecycle lane.
            #[must_use]
            pub fn reserved_bytes(&self) -> (u64, u64) {
                let of = |lane| self.owner.in_use(lane).bytes;
                (of(Lane::Application), of(Lane::Lifecycle))
            }

            /// How it is now (STAT-1).
            #[must_use]
            pub fn status(&self) -> crate::status::ObjectStatus {
                crate::status::ObjectStatus::of(&self.owner)
            }

            /// Senders that wait for room, in the application and in the lifecycle lane.
            #[must_use]
            pub fn waiting(&self) -> (usize, usize) {
                (self.owner.waiters(Lane::Application), self.owner.waiters(Lane::Lifecycle))
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self::from_owner(self.owner.clone())
            }
        }

        impl<T> PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.owner, &other.owner)
            }
        }
        impl<T> Eq for $name<T> {}

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self.object(), f)
            }
        }

        messaging!($name);
    };
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<T> {
            address: Address,
            _type: PhantomData<fn() -> T>,
        }

        impl<T: 'static> $name<T> {
            pub(crate) fn destination(&self) -> Destination {
                Destination::Address(self.address.clone())
            }
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                Self { address: self.address.clone(), _type: PhantomData }
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.address, f)
            }
        }

        messaging!($name);
    };
}

reference! {
    /// One life of a Spot.
    SpotRef
}
reference! {
    /// One life of an Actor, wherever it is.
    ActorRef
}
reference! {
    /// A handler of the node or of a channel.
    HandlerRef
}
address! {
    /// Whoever is the Spot of an id.
    SpotAddress
}
address! {
    /// Whoever is the Actor of an id.
    ActorAddress
}
address! {
    /// Whoever handles for the node or for a channel under a name.
    HandlerAddress
}

impl<S: Spot> SpotRef<S> {
    /// Closes the Spot: nothing more is accepted, what was accepted is handled, `on_closing` runs, the Spot is
    /// gone. Ends when it is.
    ///
    /// # Errors
    ///
    /// `InvalidOperation` while Actors are in it, or from its own turn; `NotFound` if it has ended or another
    /// close is under way; `InternalFailure` if `on_closing` failed (the Spot is gone all the same).
    pub fn close(&self) -> impl Future<Output = Result<(), Error>> + std::marker::Send + 'static {
        close::<AsSpot, S>(self.owner.clone())
    }

    /// Asks for a close without waiting for it: also from the Spot's own turn.
    ///
    /// # Errors
    ///
    /// If the request is not accepted.
    pub fn request_close(&self) -> Result<(), Error> {
        request_close::<AsSpot, S>(&self.owner)
    }

    /// Ends the Spot at the next turn boundary: waiting handlers are cancelled, queued messages are refused.
    /// Actors in it find themselves in the Entry Spot. Ends when it is gone.
    ///
    /// # Errors
    ///
    /// `NotFound` if it has ended already, `InvalidOperation` from its own turn.
    pub fn destroy(&self) -> impl Future<Output = Result<(), Error>> + std::marker::Send + 'static {
        destroy(self.owner.clone())
    }

    /// Waits for the end of this life of the Spot and tells how it came about, also when it has ended already
    /// (DONE-8).
    pub fn watch(&self) -> Watch {
        Watch::new(self.owner.clone())
    }

    /// Seals the Spot, with its members if they share its gate: it takes nothing more (`Unavailable`), the running
    /// turn ends, waits of handlers with the gate given up end in an error, and what is queued is handed out by
    /// object in order, until the seal is undone (YIELD-9).
    ///
    /// # Errors
    ///
    /// `InvalidOperation` from its own turn and for the Entry Spot; `DeadlineExceeded` if its handlers have not ended
    /// within 30 s, and `Unavailable` if it is sealed already; nothing is sealed then.
    pub fn seal(&self) -> impl Future<Output = Result<Sealed, Error>> + std::marker::Send + 'static {
        seal::<S>(self.owner.clone())
    }

    /// The ids of the Actors in it.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        let members = self.object().node.membership.members(self.owner.key());
        members.iter().map(|actor| object_of(actor).id.as_str().to_owned()).collect()
    }
}

impl<A: Actor> ActorRef<A> {
    /// Closes the Actor: nothing more is accepted, what was accepted is handled, `on_closing` runs, the Actor
    /// leaves its Spot and is gone. Ends when it is.
    ///
    /// # Errors
    ///
    /// `InvalidOperation` from its own turn; `NotFound` if it has ended or another close is under way;
    /// `InternalFailure` if `on_closing` failed (the Actor is gone all the same).
    pub fn close(&self) -> impl Future<Output = Result<(), Error>> + std::marker::Send + 'static {
        close::<AsActor, A>(self.owner.clone())
    }

    /// Asks for a close without waiting for it: also from the Actor's own turn.
    ///
    /// # Errors
    ///
    /// If the request is not accepted.
    pub fn request_close(&self) -> Result<(), Error> {
        request_close::<AsActor, A>(&self.owner)
    }

    /// Ends the Actor at the next turn boundary: a waiting handler is cancelled with its deferred Joins, queued
    /// messages are refused. Ends when it is gone.
    ///
    /// # Errors
    ///
    /// `NotFound` if it has ended already, `InvalidOperation` from its own turn.
    pub fn destroy(&self) -> impl Future<Output = Result<(), Error>> + std::marker::Send + 'static {
        destroy(self.owner.clone())
    }

    /// Waits for the end of this life of the Actor and tells how it came about, also when it has ended already
    /// (DONE-8).
    pub fn watch(&self) -> Watch {
        Watch::new(self.owner.clone())
    }

    /// Seals the Actor: it takes nothing more (`Unavailable`), the running turn ends, waits of handlers with the gate
    /// given up end in an error, and what is queued is handed out in order, until the seal is undone (YIELD-9).
    ///
    /// # Errors
    ///
    /// `InvalidOperation` from its own turn and in a Spot that shares its gate, which is sealed as a whole;
    /// `DeadlineExceeded` if its handlers have not ended within 30 s, and `Unavailable` if it is sealed already; nothing is sealed then.
    pub fn seal(&self) -> impl Future<Output = Result<Sealed, Error>> + std::marker::Send + 'static {
        seal::<A>(self.owner.clone())
    }

    /// The id of the Spot it is in; `None` once it has ended.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let spot = self.object().node.membership.place(self.owner.key())?;
        Some(object_of(&spot).id.as_str().to_owned())
    }

    /// A Join of this Actor to a Spot, to be deferred by a handler.
    pub fn join<S: Spot<Mode: Admits>>(&self, target: impl crate::join::JoinTarget<S>) -> Join {
        Join::new::<A, S>(self.owner.clone(), target.into_destination())
    }
}

impl<S: Spot> SpotAddress<S> {
    pub(crate) fn new(node: &Arc<NodeInner>, id: &str) -> Self {
        Self { address: Address::new::<S>(node, ObjectKind::Spot, id), _type: PhantomData }
    }

    /// The Spot that has the id now.
    ///
    /// # Errors
    ///
    /// `NotFound`, or `TypeMismatch` if the id is another type's.
    pub fn find(&self) -> Result<SpotRef<S>, Error> {
        self.address.resolve("find").map(SpotRef::from_owner)
    }

    /// Makes the Spot with its registered factory.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `NotConfigured` if the type is not registered; `Rejected` if its factory or `on_create`
    /// failed, and then there is no such Spot.
    pub fn create(&self) -> Create<SpotRef<S>> {
        create_spot(self.address.clone(), Make::Factory, true)
    }

    /// Makes the Spot with this state.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    pub fn create_with(&self, state: S) -> Create<SpotRef<S>> {
        create_spot(self.address.clone(), Make::State(state), true)
    }

    /// The Spot of the id, made with its registered factory if there is none. Only one caller makes it.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), except `AlreadyExists`; `TypeMismatch` if the id is another type's.
    pub fn get_or_create(&self) -> Create<SpotRef<S>> {
        create_spot(self.address.clone(), Make::Factory, false)
    }
}

impl<A: Actor> ActorAddress<A> {
    pub(crate) fn new(node: &Arc<NodeInner>, id: &str) -> Self {
        Self { address: Address::new::<A>(node, ObjectKind::Actor, id), _type: PhantomData }
    }

    /// The Actor that has the id now.
    ///
    /// # Errors
    ///
    /// `NotFound`, or `TypeMismatch` if the id is another type's.
    pub fn find(&self) -> Result<ActorRef<A>, Error> {
        self.address.resolve("find").map(ActorRef::from_owner)
    }

    /// Makes the Actor in the Entry Spot with its registered factory.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; `NotConfigured` if the type is not registered; `Rejected` if its factory or `on_create`
    /// failed, and then there is no such Actor.
    pub fn create(&self) -> Create<ActorRef<A>> {
        create_actor(self.address.clone(), Make::Factory, true, None)
    }

    /// Makes the Actor in the Entry Spot with this state.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create).
    pub fn create_with(&self, state: A) -> Create<ActorRef<A>> {
        create_actor(self.address.clone(), Make::State(state), true, None)
    }

    /// The Actor of the id, made in the Entry Spot with its registered factory if there is none.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create), except `AlreadyExists`; `TypeMismatch` if the id is another type's.
    pub fn get_or_create(&self) -> Create<ActorRef<A>> {
        create_actor(self.address.clone(), Make::Factory, false, None)
    }

    /// Makes the Actor with this state directly in a Spot that admits it: its first message finds it there.
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); `Rejected` also if the Spot does not admit it, and then there is no
    /// such Actor.
    pub fn create_in<S: Spot<Mode: Admits>>(
        &self,
        state: A,
        spot: impl crate::join::JoinTarget<S>,
    ) -> Create<ActorRef<A>> {
        let to = crate::join::Target::new::<A, S>(spot.into_destination());
        create_actor(self.address.clone(), Make::State(state), true, Some(to))
    }
}

impl<H: Handler> HandlerAddress<H> {
    pub(crate) fn new(node: &Arc<NodeInner>, kind: ObjectKind, name: &str) -> Self {
        Self { address: Address::new::<H>(node, kind, name), _type: PhantomData }
    }

    /// The handler of that name.
    ///
    /// # Errors
    ///
    /// `NotFound`, or `TypeMismatch` if the handler of that name has another type.
    pub fn find(&self) -> Result<HandlerRef<H>, Error> {
        self.address.resolve("find").map(HandlerRef::from_owner)
    }
}
