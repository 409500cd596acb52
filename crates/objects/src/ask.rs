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
use turnkeep_scheduler::numbers::fresh;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Record, Refusal};
use turnkeep_scheduler::room::{NoRoom, RoomWait};
use turnkeep_scheduler::ticks;
use turnkeep_scheduler::waits::Awaited;
use turnkeep_trace::field::WaitEnd;

use crate::call::{
    Call, check_domain, check_open, check_wait, deadline, may_wait_for_room_of, own_room, sealed, too_late,
    would_close,
};
use crate::create::{OrCreate, or_create};
use crate::destination::Destination;
use crate::envelope::{Answer, Envelope, Handles, message_of, record};
use crate::error::{AskError, Error, ErrorKind, not_accepted};
use crate::flow::flow;
use crate::message::Message;
use crate::object::object_of;
use crate::trace::Told;

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
    /// The deadline, in ticks, once it is known.
    due: Option<u64>,
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
        gone: Gone,
    },
    /// In a box: seldom, and it is large.
    Room(Box<(RoomWait, Awaited<Answer<M>>, Told)>),
    Sent(Awaited<Answer<M>>, Told),
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
            due: None,
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
        let (answer, reply) = completion();
        let call = fresh();
        let deadline_ns = match self.check() {
            Ok(deadline_ns) => deadline_ns,
            Err(error) => return Err((message, error)),
        };
        let reply = reply.with_deadline(deadline_ns);
        let resolved = match self.destination.resolve(self.operation()) {
            Ok(found) => self.begin_wait(&found, call, reply),
            Err(error) => self.begin_with(error, call, reply),
        };
        let asked = match resolved {
            Ok(asked) => asked,
            Err(error) => return Err((message, error)),
        };
        let answer = Some(answer);
        let envelope = Envelope::<T, M> {
            message: Some(message),
            answer,
            deadline_ns,
            flow: flow(),
            call,
            _handler: PhantomData,
        };
        self.submit(asked, record::<T, M>(envelope), deadline_ns)
    }

    /// Whether a call may be made here and now; until when.
    fn check(&mut self) -> Result<u64, Error> {
        check_domain(&self.destination, self.operation())?;
        let node = self.destination.node();
        check_open(node, &self.destination, self.operation())?;
        let deadline_ns = match self.due {
            // An object that will be made anew: the time goes on from the first attempt.
            Some(due) if due <= ticks::now() => {
                return Err(too_late(&self.destination, ASK, "while the object before it was ending"));
            }
            Some(due) => due,
            None => deadline(self.timeout, node.config.ask_timeout, &self.destination, self.operation())?,
        };
        self.due = Some(deadline_ns);
        Ok(deadline_ns)
    }

    fn begin_wait(
        &self,
        owner: &Arc<Owner>,
        call: u64,
        reply: Wait<Answer<M>>,
    ) -> Result<Awaited<Answer<M>>, Error> {
        check_wait(self.manner, Some(owner), self.operation())?;
        let begun = Awaited::begin(owner, call, self.keeps(), reply);
        begun.map_err(|cycle| would_close(&cycle, self.operation()))
    }

    /// There is no such object: if the caller said so, it is made, and hears of the wait before its first turn.
    #[cold]
    fn begin_with(
        &self,
        missing: Error,
        call: u64,
        reply: Wait<Answer<M>>,
    ) -> Result<Awaited<Answer<M>>, Error> {
        let Some(create) = self.create.filter(|_| missing.kind() == ErrorKind::NotFound) else {
            return Err(missing);
        };
        let (mut reply, mut begun) = (Some(reply), None);
        let mut begin = |owner: &Arc<Owner>| {
            // Once: if somebody else was faster, after the look-up that found theirs.
            begun = begun.take().or_else(|| reply.take().map(|reply| self.begin_wait(owner, call, reply)));
        };
        let owner = create(&self.destination, &mut begin)?;
        begin(&owner);
        begun.unwrap_or(Err(missing))
    }

    /// Whether the wait keeps the gate.
    fn keeps(&self) -> bool {
        self.manner == Manner::Ordinary
    }

    fn submit(
        &self,
        asked: Awaited<Answer<M>>,
        mut record: Record,
        deadline_ns: u64,
    ) -> Result<State<M>, (M, Error)> {
        let owner = asked.target();
        let may_wait = self.waits && (self.manner == Manner::Yield || may_wait_for_room_of(owner));
        let mut told = Told::begin(owner, &mut record, self.manner);
        let offered =
            if may_wait { owner.submit_or_wait(record) } else { owner.try_submit(record).map(|()| None) };
        if offered.is_err() {
            told.end(WaitEnd::Refused);
        }
        match offered {
            Ok(None) => Ok(State::Sent(asked, told)),
            Ok(Some(room)) => Ok(State::Room(Box::new((room.until(deadline_ns), asked, told)))),
            Err((why, record)) if self.create.is_some() && is_made_anew(owner, why) => {
                let gone = gone(owner.clone(), deadline_ns);
                Ok(State::Again { message: message_of::<T, M>(record), gone })
            }
            Err((Refusal::Full, record)) if self.waits => {
                Err((message_of::<T, M>(record), own_room(owner, Lane::Application, ASK)))
            }
            Err((why, record)) => {
                Err((message_of::<T, M>(record), not_accepted(object_of(owner), self.operation(), why)))
            }
        }
    }

    /// A call that was begun elsewhere is waited for by the running code now.
    fn go_on_here(&mut self) -> Result<(), Error> {
        let (manner, keeps, operation) = (self.manner, self.keeps(), self.operation());
        let (asked, told) = match &mut self.state {
            State::Sent(asked, told) => (asked, told),
            State::Room(waiting) => (&mut waiting.1, &mut waiting.2),
            _ => return Ok(()),
        };
        check_wait(manner, Some(asked.target()), operation)?;
        told.end(WaitEnd::Dropped);
        asked.go_on_here(keeps).map_err(|cycle| would_close(&cycle, operation))?;
        told.go_on_here(asked.target(), manner);
        Ok(())
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

/// The wait for the end of an object, or for a deadline.
pub(crate) type Gone = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(crate) fn gone(owner: Arc<Owner>, deadline_ns: u64) -> Gone {
    Box::pin(async move {
        let end = std::pin::pin!(object_of(&owner).wait_for_end());
        let late = std::pin::pin!(sleep_until(deadline_ns));
        either(end, late).await;
    })
}

/// Whether an Instance Spot that refused a message can be waited for and made anew: it is ending, was made, and
/// does not wait for the turn that asks.
pub(crate) fn is_made_anew(owner: &Owner, why: Refusal) -> bool {
    matches!(why, Refusal::Ended | Refusal::NotMade)
        && object_of(owner).not_made().is_none()
        && may_wait_for_room_of(owner)
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
                State::Room(waiting) => {
                    let Poll::Ready(admitted) = Pin::new(&mut waiting.0).poll(cx) else {
                        if !waiting.1.is_elsewhere() {
                            return Poll::Pending;
                        }
                        return match self.go_on_here() {
                            Ok(()) => Poll::Pending,
                            Err(error) => Poll::Ready(sealed::Sealed::cut(&mut *self, error)),
                        };
                    };
                    let State::Room(mut waiting) = std::mem::replace(&mut self.state, State::Over) else {
                        unreachable!("just matched")
                    };
                    match admitted {
                        Ok(()) => State::Sent(waiting.1, waiting.2),
                        Err(NoRoom::Refused(why, record))
                            if self.create.is_some() && is_made_anew(waiting.1.target(), why) =>
                        {
                            let due = self.due.unwrap_or(u64::MAX);
                            let gone = gone(waiting.1.target().clone(), due);
                            State::Again { message: message_of::<T, M>(record), gone }
                        }
                        Err(no_room) => {
                            waiting.2.end(WaitEnd::Refused);
                            let (message, error) = no_room_of::<T, M>(waiting.1.target(), no_room, ASK);
                            return Poll::Ready(Err(AskError::Refused { message, error }));
                        }
                    }
                }
                State::Sent(asked, told) => {
                    let result = match Pin::new(&mut *asked).poll(cx) {
                        Poll::Ready(outcome) => {
                            told.end(end_of(&outcome));
                            conclude(asked.target(), outcome)
                        }
                        Poll::Pending if !asked.is_elsewhere() => return Poll::Pending,
                        Poll::Pending => match self.go_on_here() {
                            Ok(()) => return Poll::Pending,
                            Err(error) => Err(AskError::Failed(error)),
                        },
                    };
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
            "the object ended, or was made anew, before it had answered; whether the request was handled is not known",
        ))),
    }
}

impl<T: Handles<M>, M: Message> sealed::Sealed for Ask<T, M> {
    fn cut(&mut self, why: Error) -> Self::Output {
        let message = match std::mem::replace(&mut self.state, State::Over) {
            State::New(message) | State::Again { message, .. } => Some(message),
            State::Room(waiting) => waiting.0.withdraw().map(message_of::<T, M>),
            State::Sent(..) | State::Over => None,
        };
        Err(match message {
            Some(message) => AskError::Refused { message, error: why },
            None => AskError::Failed(why),
        })
    }

    fn set_yielding(&mut self) {
        self.manner = Manner::Yield;
        // Begun as an ordinary wait, it is noted anew when it is polled.
        match &mut self.state {
            State::Sent(asked, _) => asked.let_go(),
            State::Room(waiting) => waiting.1.let_go(),
            State::New(_) | State::Again { .. } | State::Over => {}
        }
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
