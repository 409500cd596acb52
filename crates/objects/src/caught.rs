//! User code whose panic is caught where it is called: the text of the panic instead of unwinding.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Runs a future to its end; a panic of it, or of its destructor, is the error.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    Caught(pin!(future)).await
}

/// The same for a future that stays where it is.
pub(crate) struct Caught<'a, F>(pub(crate) Pin<&'a mut F>);

impl<F: Future> Future for Caught<'_, F> {
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(text_of(&*panic))),
        }
    }
}

/// Runs a function; a panic is the error.
pub(crate) fn caught_call<R>(call: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| text_of(&*panic))
}

/// What a panic said.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}
