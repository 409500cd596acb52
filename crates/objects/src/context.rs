//! What every turn offers, a handler's and a lifecycle callback's alike.

/// Implements it for a type with an `access` field.
macro_rules! context {
    ($name:ident) => {
        impl<T: Any + Send, P> $name<'_, T, P> {
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

            /// The node the object lives on.
            #[must_use]
            pub fn node(&self) -> Node {
                Node::from_inner(self.object().node.clone())
            }

            /// Whoever is the Spot of that id.
            #[must_use]
            pub fn spot<S: Spot>(&self, id: &str) -> SpotAddress<S> {
                SpotAddress::new(&self.object().node, id)
            }

            /// Whoever is the Actor of that id.
            #[must_use]
            pub fn actor<A: Actor>(&self, id: &str) -> ActorAddress<A> {
                ActorAddress::new(&self.object().node, id)
            }

            /// The handler of a channel.
            #[must_use]
            pub fn channel<H: Handler>(&self, name: &str) -> HandlerAddress<H> {
                HandlerAddress::new(&self.object().node, ObjectKind::ChannelHandler, name)
            }

            /// A handler of the node.
            #[must_use]
            pub fn handler<H: Handler>(&self, name: &str) -> HandlerAddress<H> {
                HandlerAddress::new(&self.object().node, ObjectKind::NodeHandler, name)
            }

            /// The time since the start of the node's clock, which timers follow.
            #[must_use]
            pub fn now(&self) -> Duration {
                self.object().node.config.clock.now()
            }

            /// Registers a timer of this object under a name, in place of an earlier one of that name, whose ticks never
            /// run then (TIMER-3). An ordinary call: it waits for nothing.
            ///
            /// # Errors
            ///
            /// `InvalidOperation` for a period under 1 ms, a time over a year, an empty name, a closing object, or a
            /// `PerActor` Spot, whose timers have gates of their own ([`OnOwnTick`](crate::OnOwnTick));
            /// `CapacityExceeded` for more than 1,024 timers.
            pub fn timer(&mut self, name: &str, timer: Timer) -> Result<(), Error>
            where
                T: OnTick,
            {
                crate::timer::register::<T>(&self.access.owner_arc(), name, timer)
            }

            /// Registers a timer with a gate of its own; otherwise as [`timer`](Self::timer).
            ///
            /// # Errors
            ///
            /// As for `timer`.
            pub fn own_timer(&mut self, name: &str, timer: Timer) -> Result<(), Error>
            where
                T: OnOwnTick,
            {
                crate::timer::register_own::<T>(&self.access.owner_arc(), name, timer)
            }

            /// Cancels a timer: no tick of it starts any more, not even one that is queued. `false` if there is none
            /// of that name.
            pub fn cancel_timer(&mut self, name: &str) -> bool {
                self.object().any_timers().is_some_and(|timers| timers.cancel(name))
            }

            /// The names of this object's timers, sorted.
            #[must_use]
            pub fn timers(&self) -> Vec<String> {
                self.object().any_timers().map_or_else(Vec::new, |timers| timers.names())
            }

            /// Gives a message to the subscribers of a topic; see [`Node::publish`](crate::Node::publish). In a turn the
            /// gate is kept while a full lane is waited for.
            ///
            /// # Errors
            ///
            /// As for `Node::publish`.
            pub fn publish<M: Message + Clone>(
                &self,
                channel: &str,
                topic: &str,
                message: M,
            ) -> impl Future<Output = Result<Published, Error>> + Send {
                let node = self.object().node.clone();
                crate::publish::publish(node, channel.to_owned(), topic.to_owned(), message, None)
            }

            /// Computing work on the CPU pool, apart from the workers (WORK-1).
            pub fn cpu<R: Send + 'static>(&self, work: impl FnOnce() -> R + Send + 'static) -> Work<R> {
                cpu_work(&self.object().node.pool, work)
            }

            /// A future to run on the I/O runtime; it holds no slot while it waits (WORK-1).
            pub fn io<F>(&self, future: F) -> Work<F::Output>
            where
                F: Future<Output: Send> + Send + 'static,
            {
                io_work(&self.object().node.pool, future)
            }
        }

        impl<S: Spot> $name<'_, S, ()> {
            /// Subscribes this Spot to the topics of a channel that a pattern matches: from the next publication on it
            /// gets what is published there as a message `M` (CHAN-2). `*` stands for any run of characters, `?` for
            /// one. Ends with the Spot. Subscribing again in the same way changes nothing.
            ///
            /// # Errors
            ///
            /// `NotFound` if the node has no such channel; `InvalidOperation` for a pattern that is none or a closing
            /// Spot; `CapacityExceeded` for more than 1,024 subscriptions.
            pub fn subscribe<M: Message>(&mut self, channel: &str, pattern: &str) -> Result<(), Error>
            where
                S: Handles<M>,
            {
                crate::publish::subscribe::<S, M>(&self.access.owner_arc(), channel, pattern)
            }

            /// Ends a subscription; `false` if there is none like it. What was published before still comes.
            pub fn unsubscribe<M: Message>(&mut self, channel: &str, pattern: &str) -> bool
            where
                S: Handles<M>,
            {
                crate::publish::unsubscribe::<M>(&self.access.owner_arc(), channel, pattern)
            }

            /// A reference to this Spot.
            #[must_use]
            pub fn this_spot(&self) -> SpotRef<S> {
                SpotRef::from_owner(self.access.owner_arc())
            }
        }

        impl<A: Actor, P> $name<'_, A, P> {
            /// A reference to this Actor.
            #[must_use]
            pub fn this_actor(&self) -> ActorRef<A> {
                ActorRef::from_owner(self.access.owner_arc())
            }

            /// The id of the Spot the Actor is in.
            #[must_use]
            pub fn place(&self) -> Option<String> {
                let spot = self.object().node.membership.place(self.access.owner().key())?;
                Some(object_of(&spot).id.as_str().to_owned())
            }

            /// The turn as that of a member of a Spot of type `S`, if the Actor is in one: then the Spot's state
            /// is reachable too.
            pub fn within<S: Spot<Mode: SharesGate>>(&mut self) -> Option<$name<'_, A, S>> {
                if !self.access.is_within::<S>() {
                    return None;
                }
                Some($name { access: self.access.reborrow(), _place: PhantomData })
            }
        }

        impl<A: Actor, S: Spot> $name<'_, A, S> {
            /// The states of the Actor and of the Spot; `None` if the Spot was stopped while this turn waited.
            pub fn try_both(&mut self) -> Option<(&mut A, &mut S)> {
                self.access.both::<S>()
            }
        }

        impl<T: Any + Send, P> Deref for $name<'_, T, P> {
            type Target = T;

            fn deref(&self) -> &T {
                self.access.state()
            }
        }

        impl<T: Any + Send, P> DerefMut for $name<'_, T, P> {
            fn deref_mut(&mut self) -> &mut T {
                self.access.state_mut()
            }
        }

        impl<T: Any + Send, P> fmt::Debug for $name<'_, T, P> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.object())
            }
        }
    };
}

pub(crate) use context;
