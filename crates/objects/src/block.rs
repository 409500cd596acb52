//! A call on a plain thread, which blocks until it has ended.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use turnkeep_scheduler::ambient::{Domain, domain};
use turnkeep_scheduler::pool::on_any_worker;

use crate::ask::Ask;
use crate::envelope::Handles;
use crate::error::{AskError, Error, ErrorKind};
use crate::message::Message;

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Asks and blocks (REENT-6).
pub(crate) fn ask_blocking<T: Handles<M>, M: Message>(ask: Ask<T, M>) -> Result<M::Reply, AskError<M>> {
    if domain() != Domain::Plain || on_any_worker() {
        let text = "it would block a worker that others need; use `ask` and await it";
        let error = Error::new(ErrorKind::InvalidOperation, ask.destination(), "ask_blocking", text);
        return match ask.into_message() {
            Some(message) => Err(AskError::Refused { message, error }),
            None => Err(AskError::Failed(error)),
        };
    }
    block_on(ask)
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
