//! What calls have in common: deadlines, the rules of waiting, the mark of a call that can yield.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use turnkeep_machines::pair::Lane;
use turnkeep_machines::wait::{Asker, Manner, Refused, Target, may_wait, may_wait_for_room};
use turnkeep_scheduler::ambient::{Current, Domain, domain, with_turn};
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::ticks;
use turnkeep_scheduler::waits::{self, Awaited, Cycle, Waiting};

use crate::error::{Error, ErrorKind};
use crate::id::ObjectKind;
use crate::join::joins_registered_for;
use crate::node::NodeInner;
use crate::object::object_of;

/// The longest timeout: a year.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// A call that may be awaited with the gate given up (YIELD-1): an ask, a creation, CPU or I/O work.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no call that a handler can yield for",
    label = "yield for asks, creations, `cpu` and `io` work",
    note = "sends, closes and plain futures are awaited as they are; wrap a plain future in `io`"
)]
pub trait Call: sealed::Sealed + Unpin {}

pub(crate) mod sealed {
    use crate::error::Error;

    /// Only this crate's calls can be yielded for.
    pub trait Sealed: Future {
        /// The wait is over without its end: what the call gives for it. What was submitted goes on.
        fn cut(&mut self, why: Error) -> Self::Output;

        /// The call is about to be awaited with the gate given up.
        fn set_yielding(&mut self);

        /// Whether anything was submitted: a call that was refused before has not been waited for.
        fn was_submitted(&self) -> bool {
            true
        }
    }
}

/// The deadline of a call, in ticks: from its own timeout or the node's default, never later than that of the
/// request the running turn serves (DONE-7).
pub(crate) fn deadline(
    timeout: Option<Duration>,
    default: Duration,
    object: &dyn std::fmt::Display,
    operation: &str,
) -> Result<u64, Error> {
    check_timeout(timeout, object, operation)?;
    let now_ns = ticks::now();
    let at = due(now_ns, timeout.unwrap_or(default));
    if at <= now_ns {
        return Err(no_time_left(object, operation));
    }
    Ok(at)
}

/// The tick at which a call that may take `timeout` is due, never later than what the running turn serves.
pub(crate) fn deadline_ns(timeout: Duration) -> u64 {
    due(ticks::now(), timeout)
}

fn due(now_ns: u64, timeout: Duration) -> u64 {
    let inherited = with_turn(|turn| turn.map_or(u64::MAX, |turn| turn.deadline_ns()));
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    now_ns.saturating_add(timeout_ns).min(inherited)
}

/// Whether a timeout is one.
pub(crate) fn check_timeout(
    timeout: Option<Duration>,
    object: &dyn std::fmt::Display,
    operation: &str,
) -> Result<(), Error> {
    match timeout {
        Some(Duration::ZERO) => Err(no_time_left(object, operation)),
        Some(timeout) if timeout > TIMEOUT_MAX => {
            let text = "the timeout is over a year; give a shorter one, or none for the node's default";
            Err(Error::new(ErrorKind::InvalidOperation, object, operation, text))
        }
        _ => Ok(()),
    }
}

fn no_time_left(object: &dyn std::fmt::Display, operation: &str) -> Error {
    let text = "there is no time left for it, so it was not submitted; give it a longer timeout";
    Error::new(ErrorKind::DeadlineExceeded, object, operation, text)
}

/// Application calls do not run in the infrastructure domain (DOM-2).
pub(crate) fn check_domain(object: &dyn std::fmt::Display, operation: &str) -> Result<(), Error> {
    if domain() == Domain::Infrastructure {
        let text =
            "an application call was made by an infrastructure task; hand the work to an object instead";
        return Err(Error::new(ErrorKind::InvalidOperation, object, operation, text));
    }
    Ok(())
}

/// Whether the node takes the call: from outside only while it is not shutting down, from its own objects'
/// turns until it has stopped.
pub(crate) fn check_open(
    node: &NodeInner,
    object: &dyn std::fmt::Display,
    operation: &str,
) -> Result<(), Error> {
    if node.is_open() || (!node.is_stopped() && is_turn_of(node)) {
        return Ok(());
    }
    let text = "the node shuts down and takes no new work; start another node";
    Err(Error::new(ErrorKind::ShuttingDown, object, operation, text))
}

/// Whether the running turn may wait for `target` (`None`: work that needs no gate).
pub(crate) fn check_wait(manner: Manner, target: Option<&Arc<Owner>>, operation: &str) -> Result<(), Error> {
    with_turn(|turn| {
        let Some(turn) = turn else { return Ok(()) };
        let asker = asker(&turn);
        let about = target.map(|owner| Target {
            owner: owner.key(),
            gate: owner.gate_key(),
            join_registered: joins_registered_for(&turn, owner),
        });
        may_wait(asker, manner, about).map_err(|why| {
            let object = object_of(turn.owner());
            let text = explain(why, target);
            Error::new(ErrorKind::InvalidOperation, object, operation, &text)
        })
    })
}

/// Begins the running turn's wait for a turn of `target`, for the call of that number, if it may: otherwise nothing
/// was submitted and nothing is noted (REENT-1, REENT-2, REENT-5).
pub(crate) fn begin_wait(
    manner: Manner,
    target: &Arc<Owner>,
    call: u64,
    operation: &str,
) -> Result<Waiting, Error> {
    check_wait(manner, Some(target), operation)?;
    waits::begin(target, call, manner == Manner::Ordinary).map_err(|cycle| would_close(&cycle, operation))
}

/// A noted wait, which is whoever's polls it (REENT-5).
pub(crate) trait Noted {
    /// Whom it is a wait for.
    fn target(&self) -> &Arc<Owner>;
    /// Whether the code that runs is not what it was noted for.
    fn is_elsewhere(&self) -> bool;
    /// The running code waits from now on.
    fn go_on_here(&mut self, keeps: bool) -> Result<(), Cycle>;
}

impl Noted for Waiting {
    fn target(&self) -> &Arc<Owner> {
        self.target()
    }
    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere()
    }
    fn go_on_here(&mut self, keeps: bool) -> Result<(), Cycle> {
        self.go_on_here(keeps)
    }
}

impl<T: Send> Noted for Awaited<T> {
    fn target(&self) -> &Arc<Owner> {
        self.target()
    }
    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere()
    }
    fn go_on_here(&mut self, keeps: bool) -> Result<(), Cycle> {
        self.go_on_here(keeps)
    }
}

/// Notes a wait that was handed on as one of the code that polls it now, if that may wait.
pub(crate) fn follow(wait: &mut impl Noted, manner: Manner, operation: &str) -> Result<(), Error> {
    if !wait.is_elsewhere() {
        return Ok(());
    }
    check_wait(manner, Some(wait.target()), operation)?;
    wait.go_on_here(manner == Manner::Ordinary).map_err(|cycle| would_close(&cycle, operation))
}

/// As [`follow`] for a one-way message that waits for room (REENT-4).
pub(crate) fn follow_for_room(wait: &mut Waiting, operation: &str) -> Result<(), Error> {
    if !wait.is_elsewhere() {
        return Ok(());
    }
    if !may_wait_for_room_of(wait.target()) {
        return Err(own_room(wait.target(), Lane::Application, operation));
    }
    wait.go_on_here(true).map_err(|cycle| would_close(&cycle, operation))
}

/// What `inner` gives, while the wait for it is whoever's polls this; the error of one that may not wait.
pub(crate) async fn noted<F: Future>(
    wait: &mut impl Noted,
    manner: Manner,
    operation: &str,
    inner: F,
) -> Result<F::Output, Error> {
    let mut inner = std::pin::pin!(inner);
    std::future::poll_fn(|cx| match inner.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => match follow(wait, manner, operation) {
            Ok(()) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        },
    })
    .await
}

/// The error of a wait that would close a cycle (REENT-5).
pub(crate) fn would_close(cycle: &Cycle, operation: &str) -> Error {
    let names: Vec<String> = cycle.0.iter().map(|owner| object_of(owner).short_name()).collect();
    let asker = names.first().map_or("", String::as_str);
    let text = format!(
        "it would wait for itself in a circle: {}; send without waiting, or let one of them answer before it asks",
        names.join(" → ")
    );
    Error::new(ErrorKind::InvalidOperation, asker, operation, &text)
}

fn asker(turn: &Current<'_>) -> Asker {
    Asker { owner: turn.owner().key(), gate: turn.gate().key(), may_yield: may_yield(turn) }
}

/// Whether handlers of the running turn's context may yield.
pub(crate) fn may_yield(turn: &Current<'_>) -> bool {
    turn.gate().class().shares_gate && !turn.is_lifecycle()
}

/// Whether an object of the node runs, and not a task of the program's own.
pub(crate) fn is_turn_of(node: &NodeInner) -> bool {
    with_turn(|turn| {
        turn.is_some_and(|turn| {
            let object = object_of(turn.owner());
            object.kind != ObjectKind::Task && std::ptr::eq(&*object.node, node)
        })
    })
}

fn explain(why: Refused, target: Option<&Arc<Owner>>) -> String {
    let name = target.map_or_else(String::new, |owner| object_of(owner).to_string());
    match why {
        Refused::SelfCall => {
            "it would wait for itself, for ever; call the code directly, or send to itself without waiting".to_owned()
        }
        Refused::OwnGate => format!(
            "{name} takes its turns under the gate that this turn holds, so its answer could never come; yield, or send without waiting"
        ),
        Refused::JoinRegistered => format!(
            "this handler has deferred a Join of {name}, which starts only after the handler; ask before deferring, or after the Join"
        ),
        Refused::NoYield => {
            "it cannot yield here: only handlers of SpotWide and Instance Spots and of members of SpotWide ones can, and lifecycle callbacks never; await the call itself".to_owned()
        }
    }
}

/// Whether the running turn may wait for room in a lane of `target`.
pub(crate) fn may_wait_for_room_of(target: &Owner) -> bool {
    with_turn(|turn| turn.is_none_or(|turn| may_wait_for_room(turn.gate().key(), target.gate_key())))
}

/// The error of a turn that could only wait for itself to make room (REENT-4).
pub(crate) fn own_room(target: &Owner, lane: Lane, operation: &str) -> Error {
    let lane = match lane {
        Lane::Application => "application",
        Lane::Lifecycle => "lifecycle",
    };
    let text = format!(
        "its {lane} lane is full, and only the end of the turn that asks could make room; let the turn end first"
    );
    Error::new(ErrorKind::CapacityExceeded, object_of(target), operation, &text)
}

/// The error of a call whose time is up.
pub(crate) fn too_late(object: &dyn std::fmt::Display, operation: &str, where_: &str) -> Error {
    let text = format!("the deadline passed {where_}; give it a longer timeout, or find out what keeps it");
    Error::new(ErrorKind::DeadlineExceeded, object, operation, &text)
}
