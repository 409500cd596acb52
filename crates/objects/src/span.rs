//! Spans of turns: off by default, and then one branch a turn (STAT-2).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tracing::Span;
use turnkeep_scheduler::owner::Owner;

use crate::caught::caught_call;
use crate::object::object_of;

/// The span of a turn, if the node makes any. It names types and the flow, no ids.
pub(crate) fn of(owner: &Owner, what: &'static str, flow: u64) -> Option<Span> {
    let object = object_of(owner);
    if !object.node.config.spans {
        return None;
    }
    // The subscriber is the program's own code, and its failure changes no result.
    caught_call(|| tracing::info_span!("turn", object = %object.info.name, message = what, flow)).ok()
}

/// A future whose polls are in a span. It must not panic itself.
pub(crate) struct InSpan<F> {
    span: Option<Span>,
    future: F,
}

pub(crate) fn in_span<F: Future + Unpin>(span: Option<Span>, future: F) -> InSpan<F> {
    InSpan { span, future }
}

impl<F: Future + Unpin> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(span) = &self.span else { return Pin::new(&mut self.future).poll(cx) };
        let entered = caught_call(|| span.clone().entered());
        let polled = Pin::new(&mut self.future).poll(cx);
        let _ = caught_call(|| drop(entered));
        polled
    }
}
