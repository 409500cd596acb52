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
use turnkeep_scheduler::room::{NoRoom, RoomWait};
use turnkeep_scheduler::ticks;
use turnkeep_scheduler::waits::{self, Waiting};

use crate::ask::{Gone, gone, is_made_anew, no_room_of};
use crate::call::{
    check_domain, check_open, check_timeout, deadline_ns, follow_for_room, may_wait_for_room_of, own_room,
    too_late, would_close,
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
    /// The deadline, in ticks, once there was something to wait for.
    due: Option<u64>,
    state: State<M>,
    _handler: PhantomData<fn() -> T>,
}

enum State<M> {
    New(M),
    /// The object is ending and will be made anew.
    Again {
        message: M,
        gone: Gone,
    },
    Room {
        waiting: Waiting,
        room: RoomWait,
    },
    Over,
}

impl<T, M> Unpin for Send<T, M> {}

impl<T: Handles<M>, M: Message> Send<T, M> {
    pub(crate) fn new(destination: Destination, message: M) -> Self {
        Self {
            destination,
            timeout: None,
            create: None,
            due: None,
            state: State::New(message),
            _handler: PhantomData,
        }
    }

    /// How long to wait for room. Zero, or more than a year, is refused.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn begin(&mut self, message: M) -> Result<State<M>, (M, Error)> {
        let owner = match self.prepare() {
            Ok(owner) => owner,
            Err(error) => return Err((message, error)),
        };
        let record = carry::<T, M>(message);
        let may_wait = may_wait_for_room_of(&owner);
        let offered =
            if may_wait { owner.submit_or_wait(record) } else { owner.try_submit(record).map(|()| None) };
        if let Ok(None) = offered {
            return Ok(State::Over);
        }
        let owner = owner.into_owner();
        match offered {
            Ok(None) => Ok(State::Over),
            Ok(Some(room)) => match waits::begin(&owner, 0, true) {
                Ok(waiting) => Ok(State::Room { waiting, room: room.until(self.due(&owner)) }),
                Err(cycle) => match room.withdraw() {
                    Some(record) => Err((message_of::<T, M>(record), would_close(&cycle, SEND))),
                    None => Ok(State::Over),
                },
            },
            Err((Refusal::Full, record)) if !may_wait => {
                Err((message_of::<T, M>(record), own_room(&owner, Lane::Application, SEND)))
            }
            Err((why, record)) if self.create.is_some() && is_made_anew(&owner, why) => {
                Ok(self.again(&owner, record))
            }
            Err((why, record)) => Err(refused::<T, M>(&owner, SEND, why, record)),
        }
    }

    /// Whoever waits now may not: the message comes back, unless it has just got room.
    fn leave_line(&mut self, error: Error) -> Result<(), SendError<M>> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Room { room, .. } => match room.withdraw() {
                Some(record) => Err(SendError { message: message_of::<T, M>(record), error }),
                None => Ok(()),
            },
            _ => unreachable!("it was in line"),
        }
    }

    /// Waits until the object is gone, to make it anew.
    fn again(&mut self, owner: &Arc<Owner>, record: Record) -> State<M> {
        let due = self.due(owner);
        State::Again { message: message_of::<T, M>(record), gone: gone(owner.clone(), due) }
    }

    fn prepare(&self) -> Result<Resolved<'_>, Error> {
        check_domain(&self.destination, SEND)?;
        check_open(self.destination.node(), &self.destination, SEND)?;
        check_timeout(self.timeout, &self.destination, SEND)?;
        if self.due.is_some_and(|due| due <= ticks::now()) {
            return Err(too_late(&self.destination, SEND, "while the object before it was ending"));
        }
        match (self.destination.resolve(SEND), self.create) {
            (Err(error), Some(create)) if error.kind() == ErrorKind::NotFound => {
                create(&self.destination, &mut |_| {}).map(Resolved::Found)
            }
            (resolved, _) => resolved,
        }
    }

    /// The deadline, from the first time that there is something to wait for.
    fn due(&mut self, owner: &Owner) -> u64 {
        let default = object_of(owner).node.config.send_timeout;
        *self.due.get_or_insert_with(|| deadline_ns(self.timeout.unwrap_or(default)))
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
#[inline]
pub(crate) fn carry<T: Handles<M>, M: Message>(message: M) -> Record {
    record(Envelope::<T, M> {
        message: Some(message),
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
        loop {
            let next = match &mut self.state {
                State::New(_) => {
                    let State::New(message) = std::mem::replace(&mut self.state, State::Over) else {
                        unreachable!("just matched")
                    };
                    match self.begin(message) {
                        Ok(State::Over) => return Poll::Ready(Ok(())),
                        Ok(next) => next,
                        Err((message, error)) => return Poll::Ready(Err(SendError { message, error })),
                    }
                }
                State::Again { gone, .. } => {
                    ready!(gone.as_mut().poll(cx));
                    match std::mem::replace(&mut self.state, State::Over) {
                        State::Again { message, .. } => State::New(message),
                        _ => unreachable!("just matched"),
                    }
                }
                State::Room { room, waiting } => {
                    let Poll::Ready(admitted) = Pin::new(room).poll(cx) else {
                        return match follow_for_room(waiting, SEND) {
                            Ok(()) => Poll::Pending,
                            Err(error) => Poll::Ready(self.leave_line(error)),
                        };
                    };
                    let State::Room { waiting, .. } = std::mem::replace(&mut self.state, State::Over) else {
                        unreachable!("just matched")
                    };
                    match admitted {
                        Ok(()) => return Poll::Ready(Ok(())),
                        Err(NoRoom::Refused(why, record))
                            if self.create.is_some() && is_made_anew(&waiting, why) =>
                        {
                            self.again(&waiting, record)
                        }
                        Err(no_room) => {
                            let (message, error) = no_room_of::<T, M>(&waiting, no_room, SEND);
                            return Poll::Ready(Err(SendError { message, error }));
                        }
                    }
                }
                State::Over => panic!("a send was polled after it had ended"),
            };
            self.state = next;
        }
    }
}

impl<T, M> fmt::Debug for Send<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Send({} to {})", std::any::type_name::<M>(), self.destination)
    }
}
