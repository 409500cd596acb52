//! `watch`: the end of an object, told once, also when it had come before (DONE-8).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use turnkeep_machines::wait::Manner;
use turnkeep_scheduler::owner::Owner;

use crate::call::{check_domain, check_wait};
use crate::error::Error;
use crate::object::object_of;

const WATCH: &str = "watch";

/// How a life of an object ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// It was closed on request.
    Closed,
    /// It was idle for the time its type was registered with.
    Idle,
    /// It was closed with its node.
    Shutdown,
    /// It was destroyed.
    Destroyed,
    /// It was stopped by a panic, or could not be made anew after one; the first 1,024 bytes of what that said.
    Panicked(String),
    /// It could not be made.
    NotMade(Error),
    /// Its node ended before it could be closed.
    Cancelled,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Idle => f.write_str("closed after its idle time"),
            Self::Shutdown => f.write_str("closed with its node"),
            Self::Destroyed => f.write_str("destroyed"),
            Self::Panicked(text) => write!(f, "stopped by a panic: {text}"),
            Self::NotMade(error) => write!(f, "not made: {error}"),
            Self::Cancelled => f.write_str("cancelled at the end of its node"),
        }
    }
}

/// The wait for the end of one life of an object.
///
/// It ends once, with the reason, whenever the end came; it has no deadline. A watched object takes no memory that
/// grows with its watchers: each watch has its own, and dropping it leaves nothing behind. The shell of an ended
/// object, some hundred bytes, stays as long as somebody watches it or has a reference.
///
/// In a turn it is an ordinary wait: the gate is kept. A turn that waits for an end that comes at the close of
/// the node keeps the node from draining, so watch from a task ([`Node::spawn`](crate::Node::spawn)).
///
/// # Errors
///
/// `InvalidOperation` in a turn that holds the gate the end would need (REENT-1, REENT-2), and in the infrastructure
/// domain.
#[must_use = "futures do nothing unless awaited"]
pub struct Watch {
    name: Arc<Owner>,
    running: Pin<Box<dyn Future<Output = Result<End, Error>> + Send>>,
}

impl Watch {
    pub(crate) fn new(owner: Arc<Owner>) -> Self {
        Self { name: owner.clone(), running: Box::pin(watch(owner)) }
    }
}

async fn watch(owner: Arc<Owner>) -> Result<End, Error> {
    let object = object_of(&owner);
    check_domain(object, WATCH)?;
    if object.end().is_none() {
        check_wait(Manner::Ordinary, Some(&owner), WATCH)?;
    }
    object.wait_for_end().await;
    Ok(object.how_it_ended())
}

impl Future for Watch {
    type Output = Result<End, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.running.as_mut().poll(cx)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({})", object_of(&self.name))
    }
}
