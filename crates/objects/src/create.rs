//! Creation: one caller makes the object, its first turn is its factory and `on_create`, others wait for that.

use std::any::{Any, TypeId};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::completion::{Completer, Outcome, Wait, completion};
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::numbers::fresh;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};
use turnkeep_scheduler::room::NoRoom;
use turnkeep_scheduler::waits::Awaited;

use crate::actor::{Actor, Handler};
use crate::ask::either;
use crate::builder::{Factory, TypeEntry};
use crate::call::{
    Call, begin_wait, check_domain, check_open, check_wait, deadline, follow, may_wait_for_room_of, noted,
    own_room, sealed, too_late, would_close,
};
use crate::caught::{caught, caught_call};
use crate::close::{last_record, shutdown_record};
use crate::destination::{Address, Destination, Resolved};
use crate::envelope::panicked_for_good;
use crate::error::{Error, ErrorKind, Failure, not_accepted};
use crate::id::{Id, ObjectKind};
use crate::idle;
use crate::join::{Leave, Target, arrive_at_creation, leave_record};
use crate::lifecycle::Lifecycle;
use crate::node::NodeInner;
use crate::object::{Hooks, Object, object_of, report};
use crate::refs::{ActorRef, SpotRef};
use crate::spot::{Closing, Mode, Spot};
use crate::trace;

const CREATE: &str = "create";

/// The callbacks of an object's life, whatever kind it is.
pub(crate) trait LifeOf<T: Any + Send>: Sized + 'static {
    const KIND: ObjectKind;
    /// Tells a Spot that an Actor has left.
    const LEAVE: Option<fn(Leave) -> Record> = None;
    fn on_create(turn: &mut Lifecycle<'_, T>) -> impl Future<Output = Result<(), Failure>> + Send;
    fn on_closing(
        turn: &mut Lifecycle<'_, T>,
        closing: Closing,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Lives as a Spot.
pub(crate) struct AsSpot;
/// Lives as an Actor.
pub(crate) struct AsActor;
/// Lives as a handler.
pub(crate) struct AsHandler;

impl<S: Spot> LifeOf<S> for AsSpot {
    const KIND: ObjectKind = ObjectKind::Spot;
    const LEAVE: Option<fn(Leave) -> Record> = Some(leave_record::<S>);
    fn on_create(turn: &mut Lifecycle<'_, S>) -> impl Future<Output = Result<(), Failure>> + Send {
        S::on_create(turn)
    }
    fn on_closing(
        turn: &mut Lifecycle<'_, S>,
        closing: Closing,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        S::on_closing(turn, closing)
    }
}

impl<A: Actor> LifeOf<A> for AsActor {
    const KIND: ObjectKind = ObjectKind::Actor;
    fn on_create(turn: &mut Lifecycle<'_, A>) -> impl Future<Output = Result<(), Failure>> + Send {
        A::on_create(turn)
    }
    fn on_closing(
        turn: &mut Lifecycle<'_, A>,
        closing: Closing,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        A::on_closing(turn, closing)
    }
}

impl<H: Handler> LifeOf<H> for AsHandler {
    const KIND: ObjectKind = ObjectKind::NodeHandler;
    async fn on_create(_: &mut Lifecycle<'_, H>) -> Result<(), Failure> {
        Ok(())
    }
    async fn on_closing(_: &mut Lifecycle<'_, H>, _: Closing) -> Result<(), Failure> {
        Ok(())
    }
}

/// The hooks of a type, as a constant.
pub(crate) struct HooksOf<K, T>(PhantomData<(K, T)>);

impl<K: LifeOf<T>, T: Any + Send> HooksOf<K, T> {
    pub(crate) const HOOKS: Hooks = Hooks {
        type_id: TypeId::of::<T>,
        leave: K::LEAVE,
        close: shutdown_record::<K, T>,
        last: last_record::<K, T>,
        restart: restart_record::<K, T>,
    };
}

/// What a new object starts with.
pub(crate) enum Make<T> {
    /// What the registered factory makes.
    Factory,
    /// This.
    State(T),
}

type Told = Result<(), Error>;

/// The first record of an object: makes its state and runs `on_create`.
pub(crate) struct CreateWork<K, T> {
    pub(crate) make: Box<dyn FnOnce() -> Result<T, Failure> + Send>,
    /// Whether it had a state before, which a panic has spoilt.
    pub(crate) again: bool,
    pub(crate) told: Completer<Told>,
    pub(crate) object: Arc<Owner>,
    pub(crate) call: u64,
    pub(crate) _kind: PhantomData<fn() -> K>,
}

impl<K: LifeOf<T>, T: Any + Send> Work for CreateWork<K, T> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.answer(this.call);
        let made = match caught_call(this.make) {
            Ok(made) => made,
            Err(panic) => Err(Failure::new(format!("the factory panicked: {panic}"))),
        };
        match made {
            Ok(state) => {
                start.install(state);
                start.run::<T, _>(FirstTurn::<K> { told: this.told, again: this.again, _kind: PhantomData })
            }
            Err(failure) => {
                let error = not_made(object_of(&this.object), &failure);
                let ending = failed(&this.object, &error, this.again);
                let _ = this.told.complete(Err(error));
                start.done(ending)
            }
        }
    }

    fn refuse(self, _: &Owner, why: Refusal) {
        let _ = self.told.complete(Err(not_accepted(object_of(&self.object), CREATE, why)));
    }
}

/// It has no state: it ends, and those who wait are told why.
fn failed(owner: &Arc<Owner>, error: &Error, again: bool) -> Ending {
    let object = object_of(owner);
    if !again {
        object.set_not_made(error.clone());
        return Ending::end(Refusal::NotMade);
    }
    object.set_panic(&error.to_string());
    report(
        || tracing::error!(%object, %error, "it could not be made anew after a panic; the object is stopped"),
    );
    Ending::end(Refusal::Panicked)
}

/// The record that makes an object's state anew with its registered factory (ERR-3).
fn restart_record<K: LifeOf<T>, T: Any + Send>(owner: &Arc<Owner>) -> Record {
    // The new state registers what it needs.
    if let Some(timers) = object_of(owner).any_timers() {
        timers.cancel_all();
    }
    let (told, _) = completion();
    let object = owner.clone();
    let make = move || {
        let object = object_of(&object);
        match object.node.factory::<T>(object.kind) {
            Some(factory) => factory(object.id.as_str()),
            None => Err(Failure::new("its type is registered without a factory")),
        }
    };
    Record::unmetered(CreateWork::<K, T> {
        make: Box::new(make),
        again: true,
        told,
        object: owner.clone(),
        call: 0,
        _kind: PhantomData,
    })
}

fn not_made(object: &Object, failure: &Failure) -> Error {
    let text = format!("it could not be made: {failure}; mend the cause and create it again");
    Error::new(ErrorKind::Rejected, object, CREATE, &text)
}

struct FirstTurn<K> {
    told: Completer<Told>,
    again: bool,
    _kind: PhantomData<fn() -> K>,
}

impl<K: LifeOf<T>, T: Any + Send> Job<T> for FirstTurn<K> {
    async fn run(self, access: Access<'_, T>) -> Ending {
        let owner = access.owner_arc();
        let object = object_of(&owner);
        let grant = access.grant().0;
        let mut turn = Lifecycle::new(access);
        let told = match caught(K::on_create(&mut turn)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => Err(not_made(object, &failure)),
            Err(panic) => Err(panicked_for_good(&owner, "on_create", &panic)),
        };
        let ending = match &told {
            Ok(()) => {
                trace::made(&owner);
                object.set_ready();
                idle::begin(&owner, grant);
                Ending::done()
            }
            Err(error) => failed(&owner, error, self.again),
        };
        let _ = self.told.complete(told);
        ending
    }
}

/// Asks an object that is being made whether it is.
struct Probe {
    told: Completer<Told>,
    object: Arc<Owner>,
}

impl Work for Probe {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        let _ = this.told.complete(Ok(()));
        start.done(Ending::done())
    }

    fn refuse(self, _: &Owner, why: Refusal) {
        let _ = self.told.complete(Err(not_accepted(object_of(&self.object), CREATE, why)));
    }
}

/// A creation under way; nothing happens before it is awaited. It can be yielded for (YIELD-1).
///
/// Dropping it ends the wait; an object that was begun is made all the same.
#[must_use = "futures do nothing unless awaited"]
pub struct Create<R> {
    name: String,
    timeout: Option<Duration>,
    manner: Manner,
    begin: Option<Begin<R>>,
    running: Option<Running<R>>,
}

type Running<R> = Pin<Box<dyn Future<Output = Result<R, Error>> + Send>>;
type Begin<R> = Box<dyn FnOnce(Manner, Option<Duration>) -> Running<R> + Send>;

impl<R> Unpin for Create<R> {}

impl<R> Create<R> {
    /// How long to wait, 30 s by default. Zero, or more than a year, is refused.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<R> Future for Create<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(begin) = self.begin.take() {
            self.running = Some(begin(self.manner, self.timeout));
        }
        match &mut self.running {
            Some(running) => {
                let ended = ready!(running.as_mut().poll(cx));
                self.running = None;
                Poll::Ready(ended)
            }
            None => panic!("a creation was polled after it had ended"),
        }
    }
}

impl<R> sealed::Sealed for Create<R> {
    fn cut(&mut self, why: Error) -> Self::Output {
        self.begin = None;
        self.running = None;
        Err(why)
    }

    fn set_yielding(&mut self) {
        self.manner = Manner::Yield;
    }
}
impl<R> Call for Create<R> {}

impl<R> fmt::Debug for Create<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Create({})", self.name)
    }
}

fn creation<R, F>(
    address: &Address,
    begin: impl FnOnce(Manner, Option<Duration>) -> F + Send + 'static,
) -> Create<R>
where
    F: Future<Output = Result<R, Error>> + Send + 'static,
{
    Create {
        name: address.to_string(),
        timeout: None,
        manner: Manner::Ordinary,
        begin: Some(Box::new(|manner, timeout| Box::pin(begin(manner, timeout)))),
        running: None,
    }
}

/// Makes a Spot, or finds it.
pub(crate) fn create_spot<S: Spot>(address: Address, make: Make<S>, exclusive: bool) -> Create<SpotRef<S>> {
    let begin = address.clone();
    creation(&address, move |manner, timeout| async move {
        let asked = Asked { address: begin, exclusive, manner, timeout };
        asked.run::<AsSpot, S>(make, S::Mode::SHARES_GATE, None).await.map(SpotRef::from_owner)
    })
}

/// Makes an Actor, or finds it.
pub(crate) fn create_actor<A: Actor>(
    address: Address,
    make: Make<A>,
    exclusive: bool,
    into: Option<Target>,
) -> Create<ActorRef<A>> {
    let begin = address.clone();
    creation(&address, move |manner, timeout| async move {
        let asked = Asked { address: begin, exclusive, manner, timeout };
        asked.run::<AsActor, A>(make, false, into).await.map(ActorRef::from_owner)
    })
}

/// What was asked for.
struct Asked {
    address: Address,
    /// Whether an existing object is an error.
    exclusive: bool,
    manner: Manner,
    timeout: Option<Duration>,
}

impl Asked {
    async fn run<K: LifeOf<T>, T: Any + Send>(
        self,
        make: Make<T>,
        shares_gate: bool,
        into: Option<Target>,
    ) -> Result<Arc<Owner>, Error> {
        check_domain(&self.address, CREATE)?;
        let node = self.address.node.clone();
        check_open(&node, &self.address, CREATE)?;
        let id = self.address.id.clone()?;
        let due = deadline(self.timeout, node.config.ask_timeout, &self.address, CREATE)?;
        check_wait(self.manner, None, CREATE)?;
        if let Some(target) = &into {
            target.check_wait(self.manner, CREATE)?;
        }
        let mut make = Some(make);
        let call = fresh();
        loop {
            let entry = node.entry_of::<T>(K::KIND, &self.address)?;
            let birth = Birth { node: &node, kind: K::KIND, entry, id: &id, shares_gate, call };
            let mut told = None;
            let mut first = |owner: &Arc<Owner>, wait| told = Some(self.awaited(owner, call, wait, due));
            match birth.attempt::<K, T>(&mut make, into.as_ref(), &self.address, &mut first)? {
                Attempt::Born { owner, moved } => {
                    let told = told.ok_or_else(|| object_of(&owner).gone(CREATE))??;
                    return self.wait_for_birth(owner, told, moved, due).await;
                }
                Attempt::Exists(owner) => {
                    self.address.check_type(&owner, CREATE)?;
                    if self.exclusive {
                        return Err(exists(&owner));
                    }
                    if let Some(found) = self.settle(owner, due).await? {
                        return Ok(found);
                    }
                }
            }
        }
    }

    async fn wait_for_birth(
        &self,
        owner: Arc<Owner>,
        told: Awaited<Told>,
        moved: Option<Wait<Told>>,
        due: u64,
    ) -> Result<Arc<Owner>, Error> {
        if let Err(error) = self.answer(told).await? {
            if error.kind() != ErrorKind::DeadlineExceeded {
                // It was not made: whoever hears of that finds the id free.
                object_of(&owner).wait_for_end().await;
            }
            return Err(error);
        }
        let Some(moved) = moved else { return Ok(owner) };
        let moved = self.awaited(&owner, 0, moved, due)?;
        if let Err(error) = self.answer(moved).await? {
            owner.cancel();
            object_of(&owner).wait_for_end().await;
            return Err(error);
        }
        Ok(owner)
    }

    fn awaited(
        &self,
        owner: &Arc<Owner>,
        call: u64,
        told: Wait<Told>,
        due: u64,
    ) -> Result<Awaited<Told>, Error> {
        let keeps = self.manner == Manner::Ordinary;
        let awaited = Awaited::begin(owner, call, keeps, told.with_deadline(due));
        awaited.map_err(|cycle| would_close(&cycle, CREATE))
    }

    /// Waits until an existing object is made (it is the answer) or gone (try again).
    async fn settle(&self, owner: Arc<Owner>, due: u64) -> Result<Option<Arc<Owner>>, Error> {
        let object = object_of(&owner);
        if !owner.is_sealed() && object.is_ready() {
            return Ok(Some(owner));
        }
        check_wait(self.manner, Some(&owner), CREATE)?;
        if owner.is_sealed() {
            {
                let mut waiting = begin_wait(self.manner, &owner, 0, CREATE)?;
                let end = std::pin::pin!(object.wait_for_end());
                let late = std::pin::pin!(sleep_until(due));
                noted(&mut waiting, self.manner, CREATE, either(end, late)).await?;
            }
            return match object.end() {
                Some(_) => Ok(None),
                None => Err(too_late(object, CREATE, "while the one before it was closing")),
            };
        }
        let (told, wait) = completion();
        let record = Record::lifecycle(0, Probe { told, object: owner.clone() });
        // Noted before there is room for it, which may be waited for, too.
        let mut asked = self.awaited(&owner, 0, wait, due)?;
        let submitted = self.submit(&owner, record, due);
        noted(&mut asked, self.manner, CREATE, submitted).await??;
        match self.answer(asked).await? {
            Ok(()) => Ok(Some(owner.clone())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What an object answers to its maker; the outer error is that of a waiter that may not wait for it, which says
    /// nothing of the object.
    async fn answer(&self, mut told: Awaited<Told>) -> Result<Told, Error> {
        let outcome = std::future::poll_fn(|cx| match Pin::new(&mut told).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending => match follow(&mut told, self.manner, CREATE) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        });
        Ok(match outcome.await? {
            Outcome::Done(told) => told,
            Outcome::Expired => Err(too_late(object_of(told.target()), CREATE, "before it was made")),
            Outcome::Dropped => Err(object_of(told.target()).gone(CREATE)),
        })
    }

    async fn submit(&self, owner: &Arc<Owner>, record: Record, due: u64) -> Result<(), Error> {
        submit_lifecycle(owner, record, due, self.manner, CREATE).await
    }
}

/// Offers a lifecycle record and waits for room until `due`.
pub(crate) async fn submit_lifecycle(
    owner: &Arc<Owner>,
    record: Record,
    due: u64,
    manner: Manner,
    operation: &'static str,
) -> Result<(), Error> {
    let object = object_of(owner);
    let may_wait = manner == Manner::Yield || may_wait_for_room_of(owner);
    let offered =
        if may_wait { owner.submit_or_wait(record) } else { owner.try_submit(record).map(|()| None) };
    match offered {
        Ok(None) => Ok(()),
        Ok(Some(room)) => match room.until(due).await {
            Ok(()) => Ok(()),
            Err(NoRoom::Expired(_)) => Err(too_late(object, operation, "while its lifecycle lane was full")),
            Err(NoRoom::Refused(why, _)) => Err(not_accepted(object, operation, why)),
        },
        Err((Refusal::Full, _)) if !may_wait => {
            Err(own_room(owner, turnkeep_machines::pair::Lane::Lifecycle, operation))
        }
        Err((why, _)) => Err(not_accepted(object, operation, why)),
    }
}

fn exists(owner: &Arc<Owner>) -> Error {
    let text = "an object of that id exists; use `get_or_create`, or another id";
    Error::new(ErrorKind::AlreadyExists, object_of(owner), CREATE, text)
}

/// One attempt to put a new object into the directory.
struct Birth<'a> {
    node: &'a Arc<NodeInner>,
    kind: ObjectKind,
    entry: &'a TypeEntry,
    id: &'a Id,
    shares_gate: bool,
    /// The number of the call whose answer the first turn is; 0 for none.
    call: u64,
}

enum Attempt {
    Born { owner: Arc<Owner>, moved: Option<Wait<Told>> },
    Exists(Arc<Owner>),
}

/// Gets the new object and the answer of its first turn, before that turn can begin.
type First<'a> = &'a mut dyn FnMut(&Arc<Owner>, Wait<Told>);

impl Birth<'_> {
    fn attempt<K: LifeOf<T>, T: Any + Send>(
        &self,
        make: &mut Option<Make<T>>,
        into: Option<&Target>,
        address: &Address,
        first: First<'_>,
    ) -> Result<Attempt, Error> {
        if let Some(existing) = self.node.directory.find(self.kind, self.id) {
            return Ok(Attempt::Exists(existing));
        }
        let factory = match make {
            Some(Make::Factory) => Some(self.factory::<T>(address)?),
            _ => None,
        };
        let (told, wait) = completion();
        let (mut told, mut wait) = (Some(told), Some(wait));
        let mut moved = None;
        let inserted = self.node.insert(
            self.kind,
            self.id,
            || self.owner::<K, T>(),
            |owner| {
                let state = make.take();
                let id = self.id.clone();
                let work = CreateWork::<K, T> {
                    make: Box::new(move || match (state, factory) {
                        (Some(Make::State(state)), _) => Ok(state),
                        (_, Some(factory)) => factory(id.as_str()),
                        _ => Err(Failure::new("there is no state to start with")),
                    }),
                    again: false,
                    told: match told.take() {
                        Some(told) => told,
                        None => unreachable!("born once"),
                    },
                    object: owner.clone(),
                    call: self.call,
                    _kind: PhantomData,
                };
                if let Some(wait) = wait.take() {
                    first(owner, wait);
                }
                // The lane of a new object is empty and takes any one record.
                let _ = owner.try_submit(Record::lifecycle(0, work));
                moved = into.map(|target| arrive_at_creation(owner, target));
            },
        );
        match inserted {
            Ok(owner) => Ok(Attempt::Born { owner, moved }),
            Err(Some(existing)) => Ok(Attempt::Exists(existing)),
            Err(None) if self.node.is_stopped() => {
                let text = "the node has ended; start another node";
                Err(Error::new(ErrorKind::ShuttingDown, address, CREATE, text))
            }
            Err(None) => Err(Error::new(
                ErrorKind::Unavailable,
                address,
                CREATE,
                "the location service did not confirm that this node may own it; see the log for its reason",
            )),
        }
    }

    fn owner<K: LifeOf<T>, T: Any + Send>(&self) -> Arc<Owner> {
        let object = Object::new(
            self.kind,
            self.id.clone(),
            self.node.next_generation(),
            self.entry.info.clone(),
            self.shares_gate,
            self.node.clone(),
            &HooksOf::<K, T>::HOOKS,
        );
        let owner = Owner::new(self.entry.class.clone(), Box::new(object), None);
        trace::named(&owner);
        owner
    }

    fn factory<T: Any + Send>(&self, address: &Address) -> Result<Factory<T>, Error> {
        self.node.factory::<T>(self.kind).ok_or_else(|| {
            let text =
                "its type is registered without a factory; create it with a state, or register a factory";
            Error::new(ErrorKind::NotConfigured, address, CREATE, text)
        })
    }
}

/// Makes an object that a call has not found.
pub(crate) type OrCreate = fn(&Destination, &mut dyn FnMut(&Arc<Owner>)) -> Result<Arc<Owner>, Error>;

/// Makes the Instance Spot of an address if there is none, without waiting until it is made. `first` gets it before
/// its first turn can begin.
pub(crate) fn or_create<S: Spot>(
    destination: &Destination,
    first: &mut dyn FnMut(&Arc<Owner>),
) -> Result<Arc<Owner>, Error> {
    let Destination::Address(address) = destination else {
        return destination.resolve(CREATE).map(Resolved::into_owner);
    };
    let node = address.node.clone();
    let id = address.id.clone()?;
    let entry = node.entry_of::<S>(ObjectKind::Spot, address)?;
    let birth = Birth {
        node: &node,
        kind: ObjectKind::Spot,
        entry,
        id: &id,
        shares_gate: S::Mode::SHARES_GATE,
        call: 0,
    };
    let first: First<'_> = &mut |owner, _| first(owner);
    match birth.attempt::<AsSpot, S>(&mut Some(Make::Factory), None, address, first)? {
        Attempt::Born { owner, .. } => Ok(owner),
        Attempt::Exists(owner) => address.check_type(&owner, CREATE).map(|()| owner),
    }
}

/// Makes an object of the node's own at its start.
pub(crate) fn begin<K: LifeOf<T>, T: Any + Send>(
    node: &Arc<NodeInner>,
    kind: ObjectKind,
    id: &Id,
    make: Make<T>,
) -> Result<impl Future<Output = Result<Arc<Owner>, Error>> + Send + 'static, Error> {
    let address = Address::new::<T>(node, kind, id.as_str());
    let entry = node.entry_of::<T>(kind, &address)?;
    let birth = Birth { node, kind, entry, id, shares_gate: false, call: 0 };
    let mut told = None;
    match birth.attempt::<K, T>(&mut Some(make), None, &address, &mut |_, wait| told = Some(wait))? {
        Attempt::Exists(owner) => Err(exists(&owner)),
        Attempt::Born { owner, .. } => Ok(async move {
            let outcome = match told {
                Some(told) => told.await,
                None => Outcome::Dropped,
            };
            match outcome {
                Outcome::Done(told) => told.map(|()| owner),
                _ => Err(object_of(&owner).gone(CREATE)),
            }
        }),
    }
}
