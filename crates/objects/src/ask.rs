//! `ask`: a request, the wait for room if the lane is full, and the wait for the reply.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use turnkeep_machines::pair::Lane;
use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::completion::{Outcome, Wait, completion};
use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Record, Refusal};
use turnkeep_scheduler::room::{NoRoom, RoomWait};
use turnkeep_trace::field::WaitEnd;

use crate::call::{
    Call, check_domain, check_open, check_wait, deadline, may_wait_for_room_of, own_room, sealed, too_late,
};
use crate::create::{OrCreate, or_create};
use crate::destination::{Destination, Resolved};
use crate::envelope::{Answer, Envelope, Handles, message_of, record};
use crate::error::{AskError, Error, ErrorKind, not_accepted};
use crate::flow::flow;
use crate::message::Message;
use crate::object::object_of;
use crate::trace::Waiting;

const ASK: &str = "ask";

/// A request under way; nothing happens before it is awaited.
///
/// Awaited as it is, it is an ordinary wait: a handler keeps its gate. Handed to
/// [`Turn::yielding`](crate::Turn::yielding) it gives the gate up. Dropping it ends the wait; a request that
/// was accepted is still handled (DONE-4).
///
/// # Errors
///
/// [`AskError`]: refused with the message given back, or failed after it was accepted, or the handler's own
/// error. A full lane is waited for until the deadline, 30 s by default.
#[must_use = "futures do nothing unless awaited"]
pub struct Ask<T, M: Message> {
    destination: Destination,
    timeout: Option<Duration>,
    manner: Manner,
    /// Whether a full lane is waited for.
    waits: bool,
    /// Makes the object if there is none.
    create: Option<OrCreate>,
    /// Set once the request is admitted or in line for room.
    submitted: bool,
    state: State<M>,
    _handler: PhantomData<fn() -> T>,
}

enum State<M: Message> {
    New(M),
    /// The object is ending and will be made anew.
    Again {
        message: M,
        gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    },
    Room {
        owner: Arc<Owner>,
        room: RoomWait,
        reply: Wait<Answer<M>>,
        waiting: Waiting,
    },
    Sent {
        owner: Arc<Owner>,
        reply: Wait<Answer<M>>,
        waiting: Waiting,
    },
    Over,
}

impl<T, M: Message> Unpin for Ask<T, M> {}

impl<T: Handles<M>, M: Message> Ask<T, M> {
    pub(crate) fn new(destination: Destination, message: M, waits: bool) -> Self {
        Self {
            destination,
            timeout: None,
            manner: Manner::Ordinary,
            waits,
            create: None,
            submitted: false,
            state: State::New(message),
            _handler: PhantomData,
        }
    }

    /// How long to wait, room and reply together. Inside a turn never longer than what is left of the request
    /// that the turn serves (DONE-7). Zero, or more than a year, is refused.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn operation(&self) -> &'static str {
        if self.waits { ASK } else { "try_ask" }
    }

    pub(crate) fn destination(&self) -> &Destination {
        &self.destination
    }

    /// The message, if nothing has happened yet.
    pub(crate) fn into_message(self) -> Option<M> {
        match self.state {
            State::New(message) => Some(message),
            _ => None,
        }
    }

    fn begin(&mut self, message: M) -> Result<State<M>, (M, Error)> {
        let (owner, deadline_ns) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(error) => return Err((message, error)),
        };
        let (answer, reply) = completion();
        let envelope = Envelope::<T, M> {
            message,
            answer: Some(answer),
            deadline_ns,
            flow: flow(),
            _handler: PhantomData,
        };
        let reply = reply.with_deadline(deadline_ns);
        self.submit(owner, record::<T, M>(envelope), reply, deadline_ns)
    }

    fn prepare(&self) -> Result<(Arc<Owner>, u64), Error> {
        check_domain(&self.destination, self.operation())?;
        let node = self.destination.node();
        check_open(node, &self.destination, self.operation())?;
        let deadline_ns =
            deadline(self.timeout, node.config.ask_timeout, &self.destination, self.operation())?;
        let resolved = self.destination.resolve(self.operation());
        let owner = match (resolved.map(Resolved::into_owner), self.create) {
            (Err(error), Some(create)) if error.kind() == ErrorKind::NotFound => create(&self.destination)?,
            (resolved, _) => resolved?,
        };
        check_wait(self.manner, Some(&owner), self.operation())?;
        Ok((owner, deadline_ns))
    }

    fn submit(
        &self,
        owner: Arc<Owner>,
        mut record: Record,
        reply: Wait<Answer<M>>,
        deadline_ns: u64,
    ) -> Result<State<M>, (M, Error)> {
        let may_wait = self.waits && (self.manner == Manner::Yield || may_wait_for_room_of(&owner));
        let mut waiting = Waiting::begin(&owner, &mut record, self.manner);
        let offered =
            if may_wait { owner.submit_or_wait(record) } else { owner.try_submit(record).map(|()| None) };
        if offered.is_err() {
            waiting.end(WaitEnd::Refused);
        }
        match offered {
            Ok(None) => Ok(State::Sent { owner, reply, waiting }),
            Ok(Some(room)) => Ok(State::Room { owner, room: room.until(deadline_ns), reply, waiting }),
            Err((Refusal::Ended | Refusal::NotMade, record))
                if self.create.is_some() && object_of(&owner).not_made().is_none() =>
            {
                Ok(self.again(&owner, message_of::<T, M>(record), deadline_ns))
            }
            Err((Refusal::Full, record)) if self.waits => {
                Err((message_of::<T, M>(record), own_room(&owner, Lane::Application, ASK)))
            }
            Err((why, record)) => {
                Err((message_of::<T, M>(record), not_accepted(object_of(&owner), self.operation(), why)))
            }
        }
    }

    fn again(&self, owner: &Arc<Owner>, message: M, deadline_ns: u64) -> State<M> {
        let owner = owner.clone();
        let gone = async move {
            let end = std::pin::pin!(object_of(&owner).wait_for_end());
            let late = std::pin::pin!(sleep_until(deadline_ns));
            either(end, late).await;
        };
        State::Again { message, gone: Box::pin(gone) }
    }
}

impl<S: crate::Spot<Mode = crate::Instance> + Handles<M>, M: Message> Ask<S, M> {
    /// Makes the Instance Spot from its registered factory if there is none of that id; the request is its
    /// first message.
    pub fn or_create(mut self) -> Self {
        self.destination = self.destination.by_id::<S>();
        self.create = Some(or_create::<S>);
        self
    }
}

/// Waits for the first of two futures.
pub(crate) async fn either(mut one: impl Future + Unpin, mut other: impl Future + Unpin) {
    std::future::poll_fn(|cx| {
        if Pin::new(&mut one).poll(cx).is_ready() || Pin::new(&mut other).poll(cx).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
}

impl<T: Handles<M>, M: Message> Future for Ask<T, M> {
    type Output = Result<M::Reply, AskError<M>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match &mut self.state {
                State::New(_) => {
                    let State::New(message) = std::mem::replace(&mut self.state, State::Over) else {
                        unreachable!()
                    };
                    match self.begin(message) {
                        Ok(next) => {
                            self.submitted = true;
                            next
                        }
                        Err((message, error)) => {
                            return Poll::Ready(Err(AskError::Refused { message, error }));
                        }
                    }
                }
                State::Again { gone, .. } => {
                    ready!(gone.as_mut().poll(cx));
                    match std::mem::replace(&mut self.state, State::Over) {
                        State::Again { message, .. } => State::New(message),
                        _ => unreachable!("just matched"),
                    }
                }
                State::Room { room, .. } => {
                    let admitted = ready!(Pin::new(room).poll(cx));
                    let State::Room { owner, reply, mut waiting, .. } =
                        std::mem::replace(&mut self.state, State::Over)
                    else {
                        unreachable!("just matched")
                    };
                    match admitted {
                        Ok(()) => State::Sent { owner, reply, waiting },
                        Err(no_room) => {
                            waiting.end(WaitEnd::Refused);
                            let (message, error) = no_room_of::<T, M>(&owner, no_room, ASK);
                            return Poll::Ready(Err(AskError::Refused { message, error }));
                        }
                    }
                }
                State::Sent { owner, reply, waiting } => {
                    let outcome = ready!(Pin::new(reply).poll(cx));
                    waiting.end(end_of(&outcome));
                    let result = conclude(owner, outcome);
                    self.state = State::Over;
                    return Poll::Ready(result);
                }
                State::Over => panic!("an ask was polled after it had ended"),
            };
            self.state = next;
        }
    }
}

fn end_of<T>(outcome: &Outcome<T>) -> WaitEnd {
    match outcome {
        Outcome::Done(_) => WaitEnd::Answered,
        Outcome::Expired => WaitEnd::Deadline,
        Outcome::Dropped => WaitEnd::Gone,
    }
}

/// The message and the error of a wait for room that ended without.
pub(crate) fn no_room_of<T: Handles<M>, M: Message>(
    owner: &Arc<Owner>,
    no_room: NoRoom,
    operation: &str,
) -> (M, Error) {
    let object = object_of(owner);
    match no_room {
        NoRoom::Expired(record) => {
            (message_of::<T, M>(record), too_late(object, operation, "while its lane was full"))
        }
        NoRoom::Refused(why, record) => (message_of::<T, M>(record), not_accepted(object, operation, why)),
    }
}

fn conclude<M: Message>(owner: &Arc<Owner>, outcome: Outcome<Answer<M>>) -> Result<M::Reply, AskError<M>> {
    let object = object_of(owner);
    match outcome {
        Outcome::Done(answer) => answer.map_err(AskError::from),
        Outcome::Expired => Err(AskError::Failed(too_late(object, ASK, "before a reply came"))),
        Outcome::Dropped => Err(AskError::Failed(Error::new(
            ErrorKind::Unavailable,
            object,
            ASK,
            "the object ended before it had answered; whether the request was handled is not known",
        ))),
    }
}

impl<T: Handles<M>, M: Message> sealed::Sealed for Ask<T, M> {
    fn set_yielding(&mut self) {
        self.manner = Manner::Yield;
    }

    fn was_submitted(&self) -> bool {
        self.submitted
    }
}
impl<T: Handles<M>, M: Message> Call for Ask<T, M> {}

impl<T, M: Message> fmt::Debug for Ask<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ask({} to {})", std::any::type_name::<M>(), self.destination)
    }
}
