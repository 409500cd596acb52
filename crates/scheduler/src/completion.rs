//! A one-shot completion: one allocation, two ends, decided exactly once.
//!
//! [`completion`] gives a [`Completer`] and a [`Wait`]. Four things can end the wait: a value, the drop of the
//! completer, the deadline, the drop of the wait itself. The first decides, and every other learns that it came
//! late (DONE-1). The protocol, with its states and its races, is in `slot.rs`; this file is its front.
//!
//! # Not here
//!
//! Who asks and for which generation (DONE-5): the owner of the completer checks it before it completes.

mod slot;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

pub(crate) use self::slot::Probe;
use self::slot::{ABANDONED, DONE, EXPIRED, Held, is_decided};
use crate::deadline::{Deadlines, Key};
use crate::ticks;

/// How a wait ended (DONE-1).
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The completer's value.
    Done(T),
    /// The deadline passed before.
    Expired,
    /// The completer was dropped before.
    Dropped,
}

/// A slot and its two ends.
///
/// One allocation; neither end blocks. Both may be moved to any thread.
pub fn completion<T: Send + 'static>() -> (Completer<T>, Wait<T>) {
    let (one, other) = Held::pair();
    (Completer { slot: Some(one) }, Wait { slot: Some(other), deadline_ns: u64::MAX, key: None })
}

/// The end that decides with a value.
///
/// Dropping it undecided ends the wait with [`Outcome::Dropped`] (DONE-1).
pub struct Completer<T: Send + 'static> {
    /// Empty only while it is being consumed.
    slot: Option<Held<T>>,
}

impl<T: Send + 'static> Completer<T> {
    /// Ends the wait with `value` and wakes whoever polls it.
    ///
    /// # Errors
    ///
    /// The value comes back when the wait is already over: expired or dropped (DONE-1: late).
    #[inline]
    pub fn complete(mut self, value: T) -> Result<(), T> {
        match self.slot.take() {
            // SAFETY: this is the only completer, and it is consumed: it has not decided before.
            Some(held) => unsafe { held.complete(value) },
            None => Err(value),
        }
    }

    /// Ends the wait as expired, for work that ends after its deadline (WORK-3); false when it is over already.
    pub fn expire(mut self) -> bool {
        self.slot.take().is_some_and(|held| held.decide(EXPIRED).is_ok())
    }

    /// Whether the wait has ended, so that completing it would be late.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.slot.as_ref().is_none_or(|held| is_decided(held.word()))
    }
}

impl<T: Send + 'static> Drop for Completer<T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(held) = self.slot.take() {
            let _late = held.decide(ABANDONED);
        }
    }
}

impl<T: Send + 'static> fmt::Debug for Completer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").field("is_over", &self.is_over()).finish()
    }
}

/// The end that waits: a future of the [`Outcome`].
///
/// Dropping it ends the wait and nothing else (DONE-4): the completer finds out when it completes. It may be
/// polled with different wakers; the last one counts.
///
/// # Panics
///
/// A poll after the outcome was given out, by a poll or by [`Wait::try_take`], panics.
#[must_use = "a wait that is dropped is over"]
pub struct Wait<T: Send + 'static> {
    /// Empty from the moment the outcome was given out.
    slot: Option<Held<T>>,
    /// In the time of `ticks::now`; `u64::MAX` is never.
    deadline_ns: u64,
    /// Set at the first poll that stays pending, cleared when the wait ends.
    key: Option<Key>,
}

impl<T: Send + 'static> Wait<T> {
    /// Lets the wait end as [`Outcome::Expired`] at `at_ns`, in the time of [`ticks::now`]; `u64::MAX` is
    /// never. Replaces an earlier deadline.
    ///
    /// Never early, and on a quiet machine about 2 ms late at most. The deadline costs nothing before the
    /// first poll that stays pending; until then nothing expires.
    pub fn with_deadline(mut self, at_ns: u64) -> Wait<T> {
        self.unregister();
        self.deadline_ns = at_ns;
        self
    }

    /// The outcome, if there is one and it was not given out yet. Registers nothing.
    pub fn try_take(&mut self) -> Option<Outcome<T>> {
        let word = self.slot.as_ref()?.word();
        is_decided(word).then(|| self.end(word))
    }

    /// A probe of the slot; `None` once the outcome was given out.
    pub(crate) fn probe(&self) -> Option<Probe> {
        self.slot.as_ref().map(Held::probe)
    }

    /// Waits until there is an outcome, and leaves it for [`Wait::try_take`].
    ///
    /// # Panics
    ///
    /// When the outcome was given out already.
    #[inline]
    pub fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let held = self.slot.as_ref().expect("a completion's wait was polled after it had ended");
        let mut word = held.word();
        if !is_decided(word) {
            // SAFETY: this is the wait, and it has not ended.
            word = unsafe { held.announce(word, context.waker()) };
        }
        // Registering may find the deadline passed: then it is decided.
        if is_decided(word) || self.register() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Parks this thread until the outcome is there. For threads outside the runtime: it blocks a worker.
    ///
    /// # Panics
    ///
    /// When the outcome was given out already.
    pub fn wait_blocking(mut self) -> Outcome<T> {
        let waker = Waker::from(std::sync::Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(outcome) => return outcome,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// Gives the outcome out; `word` is a decided one, read with Acquire.
    #[inline]
    fn end(&mut self, word: usize) -> Outcome<T> {
        self.unregister();
        let held = self.slot.take().expect("DONE-1: a wait ends once");
        if word & DONE != 0 {
            // SAFETY: this is the wait, and it read DONE with Acquire.
            let value = unsafe { held.take_value() };
            return Outcome::Done(value.expect("DONE-b: DONE carries a value"));
        }
        if word & EXPIRED != 0 { Outcome::Expired } else { Outcome::Dropped }
    }

    /// Hands the deadline to the service, once; true when it had passed already and decided the wait here.
    fn register(&mut self) -> bool {
        if self.deadline_ns == u64::MAX || self.key.is_some() {
            return false;
        }
        let Some(held) = &self.slot else { return false };
        let now_ns = ticks::now();
        if self.deadline_ns <= now_ns {
            // Whoever decided, it is decided now.
            let _late = held.clone().decide(EXPIRED);
            return true;
        }
        let target = held.clone().into_waker();
        self.key = Some(Deadlines::global().register_waker(now_ns, self.deadline_ns, target));
        false
    }

    #[inline]
    fn unregister(&mut self) {
        if let Some(key) = self.key.take() {
            Deadlines::global().cancel(key);
        }
    }
}

impl<T: Send + 'static> Future for Wait<T> {
    type Output = Outcome<T>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<T>> {
        match self.poll_over(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let word = self.slot.as_ref().map_or(ABANDONED, Held::word);
                Poll::Ready(self.end(word))
            }
        }
    }
}

impl<T: Send + 'static> Drop for Wait<T> {
    #[inline]
    fn drop(&mut self) {
        self.unregister();
        let Some(held) = self.slot.take() else { return };
        // SAFETY: this is the wait, and it ends here.
        let value = unsafe { held.close() };
        // First the reference, then the value, whose drop may be anybody's code.
        drop(held);
        drop(value);
    }
}

impl<T: Send + 'static> fmt::Debug for Wait<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("deadline_ns", &self.deadline_ns).finish_non_exhaustive()
    }
}

/// Wakes a thread that waits blocking.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests;
