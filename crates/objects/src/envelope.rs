//! A message on its way: the record that carries it, and the handler's turn that it becomes.

use std::any::Any;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;

use turnkeep_scheduler::access::{Access, Ending, Job, Start, Started};
use turnkeep_scheduler::completion::Completer;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::{Owned, Record, Refusal, Work};

use crate::caught::{Caught, caught_call};
use crate::error::{AskError, Error, ErrorKind};
use crate::join;
use crate::message::{Message, payload_bytes};
use crate::node::Tally;
use crate::object::{Object, object_of};
use crate::policy::PanicPolicy;
use crate::report::{Often, brief, report_often};
use crate::span::{self, in_span};
use crate::trace;
use crate::turn::Turn;

/// A type that handles a message: the one place where work meets state.
///
/// ```
/// # use turnkeep_objects::{self as turnkeep, *};
/// # struct Landed(u64);
/// # impl HeapSize for Land { fn heap_bytes(&self) -> u64 { 0 } }
/// # impl Message for Land { type Reply = u64; type Error = Never; }
/// # struct Land;
/// # impl Spot for Landed { type Mode = SpotWide; }
/// impl Handles<Land> for Landed {
///     async fn handle(turn: &mut Turn<'_, Self>, _: Land) -> Result<u64, Never> {
///         turn.0 += 1; // the gate is held
///         Ok(turn.0)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not handle `{M}`",
    label = "no `impl Handles<{M}> for {Self}` is in sight"
)]
pub trait Handles<M: Message>: Send + Sized + 'static {
    /// Handles one message in a turn of its own. An ordinary `.await` keeps the gate; `turn.yielding(..)` gives
    /// it up where the context allows.
    ///
    /// If the caller gives up, the handler still runs to its end (DONE-4). After a panic the object
    /// stops, is made anew or goes on, as its type was registered (ERR-3).
    fn handle(
        turn: &mut Turn<'_, Self>,
        message: M,
    ) -> impl Future<Output = Result<M::Reply, M::Error>> + Send;
}

/// What a caller is told.
pub(crate) type Answer<M> = Result<<M as Message>::Reply, Unanswered<M>>;

/// Why there is no reply.
pub(crate) enum Unanswered<M: Message> {
    Application(M::Error),
    Runtime(Error),
}

impl<M: Message> From<Unanswered<M>> for AskError<M> {
    fn from(unanswered: Unanswered<M>) -> Self {
        match unanswered {
            Unanswered::Application(error) => Self::Application(error),
            Unanswered::Runtime(error) => Self::Failed(error),
        }
    }
}

/// The work of a record that carries a message for a `T`.
pub(crate) struct Envelope<T, M: Message> {
    /// Taken out when the handler gets it.
    pub(crate) message: Option<M>,
    /// Who waits for the answer; `None` for a send.
    pub(crate) answer: Option<Completer<Answer<M>>>,
    pub(crate) deadline_ns: u64,
    pub(crate) flow: u64,
    /// The number of the call, if somebody waits for the answer; else 0.
    pub(crate) call: u64,
    pub(crate) _handler: PhantomData<fn() -> T>,
}

/// The record of a message for a `T`.
#[inline]
pub(crate) fn record<T: Handles<M>, M: Message>(envelope: Envelope<T, M>) -> Record {
    Record::application(envelope.message.as_ref().map_or(0, payload_bytes), envelope)
}

/// The message of a record that was given back.
pub(crate) fn message_of<T: Handles<M>, M: Message>(record: Record) -> M {
    match record.into_work::<Envelope<T, M>>() {
        Ok(Envelope { message: Some(message), .. }) => message,
        _ => unreachable!("a record comes back with the work it was made with"),
    }
}

impl<T: Handles<M>, M: Message> Work for Envelope<T, M> {
    fn start(work: Owned<Self>, mut start: Start<'_>) -> Started {
        start.serve(work.deadline_ns, work.flow);
        start.answer(work.call);
        start.run::<T, _>(Handling(work))
    }

    fn name() -> &'static str {
        std::any::type_name::<M>()
    }

    fn refuse(self, owner: &Owner, why: Refusal) {
        let object = object_of(owner);
        let error = object.refused(if self.answer.is_some() { "ask" } else { "send" }, why);
        match self.answer {
            Some(answer) => give(owner, answer, Err(Unanswered::Runtime(error))),
            None => failed_send::<M>(owner, self.flow, &error),
        }
    }

    fn payload(&mut self) -> Option<&mut dyn Any> {
        self.message.as_mut().map(|message| message as _)
    }
}

/// Gives an answer; a late one is counted and changes nothing (DONE-1).
fn give<M: Message>(owner: &Owner, answer: Completer<Answer<M>>, what: Answer<M>) {
    if answer.complete(what).is_err() {
        trace::answered_late(owner);
        object_of(owner).node.tally(Tally::Late);
    }
}

/// A send whose handling failed is logged and counted (ERR-2).
fn failed_send<M: Message>(owner: &Owner, flow: u64, error: &dyn std::fmt::Display) {
    let object = object_of(owner);
    object.node.tally(Tally::FailedSends);
    report_often(&object.node, Often::FailedSend, |left_out| {
        let (message, error) = (&*brief(std::any::type_name::<M>()), &*brief(error));
        tracing::error!(%object, message, flow, error, left_out, "a send failed in its handler");
    });
}

/// The turn of a message. Its parts stay where they came in until they are wanted: they would be copied with the
/// future otherwise.
struct Handling<T: Handles<M>, M: Message>(Owned<Envelope<T, M>>);

impl<T: Handles<M>, M: Message> Job<T> for Handling<T, M> {
    async fn run(mut self, access: Access<'_, T>) -> Ending {
        let Some(message) = self.0.message.take() else { unreachable!("a message is handled once") };
        let mut turn = Turn::new(access);
        let span = span::of(turn.owner(), std::any::type_name::<M>(), self.0.flow);
        let handled = match in_span(span, Caught(pin!(T::handle(&mut turn, message)))).await {
            Ok(Ok(reply)) => match caught_call(|| M::check_reply(&reply)) {
                Ok(Ok(())) => Handled::Well(reply),
                Ok(Err(bad)) => Handled::BadReply(bad.0),
                Err(panic) => Handled::Panic(panic),
            },
            Ok(Err(error)) => Handled::Refusal(error),
            Err(panic) => Handled::Panic(panic),
        };
        let mut access = turn.into_access();
        // Before the answer: who has the reply has the room back (LANE-3).
        access.handler_ended();
        let owner = access.owner();
        // Before the answer, too: who has it finds the Actors that move on hold (JOIN-11).
        join::start(join::end_of_scope(handled.ending()));
        let (answer, ending) = conclude::<M, T>(&access, handled);
        match (self.0.answer.take(), answer) {
            (Some(waiting), answer) => give(owner, waiting, answer),
            (None, Ok(_)) => {}
            (None, Err(Unanswered::Application(error))) => {
                failed_send::<M>(owner, self.0.flow, &format_args!("{error:?}"));
            }
            (None, Err(Unanswered::Runtime(error))) => failed_send::<M>(owner, self.0.flow, &error),
        }
        ending
    }
}

/// How a handler ended.
enum Handled<M: Message> {
    Well(M::Reply),
    BadReply(String),
    Refusal(M::Error),
    Panic(String),
}

impl<M: Message> Handled<M> {
    fn ending(&self) -> turnkeep_machines::defer::Ending {
        use turnkeep_machines::defer::Ending;
        match self {
            Self::Well(_) => Ending::Succeeded,
            Self::BadReply(_) => Ending::ReplyNotEncoded,
            Self::Refusal(_) => Ending::Failed,
            Self::Panic(_) => Ending::Panicked,
        }
    }
}

fn conclude<M: Message, T: Any + Send>(access: &Access<'_, T>, handled: Handled<M>) -> (Answer<M>, Ending) {
    let object = object_of(access.owner());
    match handled {
        Handled::Well(reply) => (Ok(reply), Ending::done()),
        Handled::Refusal(error) => (Err(Unanswered::Application(error)), Ending::done()),
        Handled::BadReply(why) => {
            let text =
                format!("the reply cannot be given out: {why}; the handler ran, its Joins were dropped");
            let error = Error::new(ErrorKind::ProtocolError, object, "reply", &text);
            (Err(Unanswered::Runtime(error)), Ending::done())
        }
        Handled::Panic(text) => {
            let owner = access.owner_arc();
            let error = panicked(&owner, std::any::type_name::<M>(), &text);
            (Err(Unanswered::Runtime(error)), after_panic(&owner))
        }
    }
}

/// What a panic of an object's handler or callback does: the Entry Spot, which ends with its node, goes on.
fn policy(owner: &Owner) -> PanicPolicy {
    let object = object_of(owner);
    if object.node.is_entry(owner) { PanicPolicy::Keep } else { object.info.on_panic }
}

/// What becomes of an object whose code panicked (ERR-3).
pub(crate) fn after_panic(owner: &Arc<Owner>) -> Ending {
    match policy(owner) {
        PanicPolicy::Keep => Ending::done(),
        // Here, under the gate, is where all goes that the old state had asked for and that must not meet the new one.
        PanicPolicy::Restart => Ending::restart((object_of(owner).hooks.restart)(owner)),
        PanicPolicy::Stop => Ending::end(Refusal::Panicked),
    }
}

/// Reports a panic of user code and makes the error of it.
pub(crate) fn panicked(owner: &Owner, what: &str, text: &str) -> Error {
    let object = object_of(owner);
    trace::panicked(owner);
    let fate = match policy(owner) {
        PanicPolicy::Keep => "the object goes on with the state that the panic has left",
        PanicPolicy::Restart => "the object goes on with a new state",
        PanicPolicy::Stop => {
            object.set_panic(text);
            STOPPED
        }
    };
    panic_error(object, what, text, fate)
}

/// The same for a callback after whose panic the object is gone, whatever the policy.
pub(crate) fn panicked_for_good(owner: &Owner, what: &str, text: &str) -> Error {
    trace::panicked(owner);
    panic_error(object_of(owner), what, text, STOPPED)
}

const STOPPED: &str = "the object is stopped, create it again";

fn panic_error(object: &Object, what: &str, text: &str, fate: &str) -> Error {
    object.node.tally(Tally::Panics);
    report_often(&object.node, Often::Panic, |left_out| {
        let (what, panic) = (&*brief(what), &*brief(text));
        tracing::error!(%object, what, panic, fate, left_out, "user code panicked");
    });
    let text = format!("the handler of {what} panicked ({text}); {fate}");
    Error::new(ErrorKind::InternalFailure, object, "handle", &text)
}
