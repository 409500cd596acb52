//! `send`: one way, complete when the target has accepted it (DONE-2).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnkeep_machines::pair::Lane;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Record, Refusal};
use turnkeep_scheduler::room::RoomWait;
use turnkeep_scheduler::waits::{self, Waiting};

use crate::ask::no_room_of;
use crate::call::{
    check_domain, check_open, check_timeout, deadline_ns, may_wait_for_room_of, own_room, would_close,
};
use crate::create::{OrCreate, or_create};
use crate::destination::{Destination, Resolved};
use crate::envelope::{Envelope, Handles, message_of, record};
use crate::error::{Error, ErrorKind, SendError, not_accepted};
use crate::flow::flow;
use crate::message::Message;
use crate::object::object_of;

const SEND: &str = "send";

/// How long a send waits for room when nothing else is said.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// A one-way message under way; nothing happens before it is awaited.
///
/// It ends as soon as the target has accepted the message, without waiting for the handler. A full lane is
/// waited for until the deadline, 5 s by default. Dropping it before it ends takes the message back, unless it
/// was accepted at that moment.
///
/// # Errors
///
/// [`SendError`], with the message. A wait for room that would close a cycle of waits is refused with
/// `InvalidOperation` (REENT-5).
#[must_use = "futures do nothing unless awaited"]
pub struct Send<T, M> {
    destination: Destination,
    timeout: Option<Duration>,
    create: Option<OrCreate>,
    state: State<M>,
    _handler: PhantomData<fn() -> T>,
}

enum State<M> {
    New(M),
    Room { waiting: Waiting, room: RoomWait },
    Over,
}

impl<T, M> Unpin for Send<T, M> {}

impl<T: Handles<M>, M: Message> Send<T, M> {
    pub(crate) fn new(destination: Destination, message: M) -> Self {
        Self { destination, timeout: None, create: None, state: State::New(message), _handler: PhantomData }
    }

    /// How long to wait for room. Zero, or more than a year, is refused.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn begin(&self, message: M) -> Result<State<M>, (M, Error)> {
        let owner = match self.prepare() {
            Ok(owner) => owner,
            Err(error) => return Err((message, error)),
        };
        let record = carry::<T, M>(message);
        if !may_wait_for_room_of(&owner) {
            return match owner.try_submit(record) {
                Ok(()) => Ok(State::Over),
                Err((Refusal::Full, record)) => {
                    Err((message_of::<T, M>(record), own_room(&owner, Lane::Application, SEND)))
                }
                Err((why, record)) => Err(refused::<T, M>(&owner, SEND, why, record)),
            };
        }
        match owner.submit_or_wait(record) {
            Ok(None) => Ok(State::Over),
            Ok(Some(room)) => match waits::begin(&owner, 0, true) {
                Ok(waiting) => Ok(State::Room { waiting, room: room.until(self.deadline_ns(&owner)) }),
                Err(cycle) => match room.withdraw() {
                    Some(record) => Err((message_of::<T, M>(record), would_close(&cycle, SEND))),
                    None => Ok(State::Over),
                },
            },
            Err((why, record)) => Err(refused::<T, M>(&owner, SEND, why, record)),
        }
    }

    fn prepare(&self) -> Result<Resolved<'_>, Error> {
        check_domain(&self.destination, SEND)?;
        check_open(self.destination.node(), &self.destination, SEND)?;
        check_timeout(self.timeout, &self.destination, SEND)?;
        match (self.destination.resolve(SEND), self.create) {
            (Err(error), Some(create)) if error.kind() == ErrorKind::NotFound => {
                create(&self.destination, &mut |_| {}).map(Resolved::Found)
            }
            (resolved, _) => resolved,
        }
    }

    fn deadline_ns(&self, owner: &Arc<Owner>) -> u64 {
        let default = object_of(owner).node.config.send_timeout;
        deadline_ns(self.timeout.unwrap_or(default))
    }
}

impl<S: crate::Spot<Mode = crate::Instance> + Handles<M>, M: Message> Send<S, M> {
    /// Makes the Instance Spot from its registered factory if there is none of that id; this is its first
    /// message.
    pub fn or_create(mut self) -> Self {
        self.destination = self.destination.by_id::<S>();
        self.create = Some(or_create::<S>);
        self
    }
}

/// The record of a one-way message.
pub(crate) fn carry<T: Handles<M>, M: Message>(message: M) -> Record {
    record(Envelope::<T, M> {
        message,
        answer: None,
        deadline_ns: u64::MAX,
        flow: flow(),
        call: 0,
        _handler: PhantomData,
    })
}

fn refused<T: Handles<M>, M: Message>(
    owner: &Arc<Owner>,
    operation: &str,
    why: Refusal,
    record: Record,
) -> (M, Error) {
    (message_of::<T, M>(record), not_accepted(object_of(owner), operation, why))
}

/// A one-way message that is accepted now or not at all.
pub(crate) fn try_send<T: Handles<M>, M: Message>(
    destination: &Destination,
    message: M,
) -> Result<(), SendError<M>> {
    const TRY_SEND: &str = "try_send";
    let prepared = check_domain(destination, TRY_SEND)
        .and_then(|()| check_open(destination.node(), destination, TRY_SEND))
        .and_then(|()| destination.resolve(TRY_SEND));
    let owner = match prepared {
        Ok(owner) => owner,
        Err(error) => return Err(SendError { message, error }),
    };
    owner.try_submit(carry::<T, M>(message)).map_err(|(why, record)| {
        let (message, error) = refused::<T, M>(&owner, TRY_SEND, why, record);
        SendError { message, error }
    })
}

impl<T: Handles<M>, M: Message> Future for Send<T, M> {
    type Output = Result<(), SendError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.state, State::New(_)) {
            let State::New(message) = std::mem::replace(&mut self.state, State::Over) else { unreachable!() };
            match self.begin(message) {
                Ok(State::Over) => return Poll::Ready(Ok(())),
                Ok(next) => self.state = next,
                Err((message, error)) => return Poll::Ready(Err(SendError { message, error })),
            }
        }
        let State::Room { waiting, room } = &mut self.state else {
            panic!("a send was polled after it had ended")
        };
        let result = ready!(Pin::new(room).poll(cx)).map_err(|no_room| {
            let (message, error) = no_room_of::<T, M>(waiting, no_room, SEND);
            SendError { message, error }
        });
        self.state = State::Over;
        Poll::Ready(result)
    }
}

impl<T, M> fmt::Debug for Send<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Send({} to {})", std::any::type_name::<M>(), self.destination)
    }
}
