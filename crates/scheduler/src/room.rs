//! Those who wait for room in an owner's lanes: first come, first served, bounded, gone without a trace.
//!
//! A waiting record stands here, outside the lane; the holder admits it on its sender's behalf when room
//! comes back, in the order of arrival, so nobody can push in and nobody has to try again. The list exists
//! only while somebody waits.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use turnkeep_machines::lane::{Limits, Refused};
use turnkeep_machines::pair::Lane;

use crate::admission::{Back, Front};
use crate::completion::{Completer, Outcome, Wait, completion};
use crate::owner::Owner;
use crate::record::{Record, Refusal};

/// How many senders may wait for room in one lane; one more is refused at once.
pub const WAITERS_MAX: usize = 65_536;

/// The answer to one who waits: admitted, or refused; then the record is still in line, for its sender to fetch.
pub(crate) type Answer = Result<(), Refusal>;

struct Waiter {
    record: Record,
    /// `None` once the lane is sealed: the record waits for its sender to fetch it.
    answer: Option<Completer<Answer>>,
}

/// The next number in line, for all lines of the process: a list that is dropped and made again must not give
/// out a number that a sender of the earlier one still holds.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The waiters of one lane, by their number in line.
#[derive(Default)]
pub(crate) struct Line {
    waiters: BTreeMap<u64, Waiter>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("waiters", &self.waiters.len()).finish()
    }
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.waiters.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Puts a record in line.
    pub(crate) fn queue(&mut self, record: Record) -> Result<(u64, Wait<Answer>), (Refusal, Record)> {
        if self.waiters.len() >= WAITERS_MAX {
            return Err((Refusal::TooManyWaiters, record));
        }
        let (answer, wait) = completion();
        // Taken under the lock of the list, so that numbers rise in the order of arrival.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.waiters.insert(number, Waiter { record, answer: Some(answer) });
        Ok((number, wait))
    }

    /// Takes a record out of line, if it is still there.
    pub(crate) fn leave(&mut self, number: u64) -> Option<Record> {
        self.waiters.remove(&number).map(|waiter| waiter.record)
    }

    /// Admits as many from the front as fit now; `admit` appends each record at once, so that their order is
    /// the order of the line. The answers are to be given outside the lock.
    pub(crate) fn serve(
        &mut self,
        front: &Front,
        back: &Back,
        limits: Limits,
        mut append: impl FnMut(Record),
    ) -> Vec<Completer<Answer>> {
        let mut served = Vec::new();
        while let Some(first) = self.waiters.first_entry() {
            match front.admit_waiter(back, limits, first.get().record.reserved()) {
                Ok(()) => {
                    let waiter = first.remove();
                    append(waiter.record);
                    served.extend(waiter.answer);
                }
                // A sealed lane is cleared by whoever sealed it.
                Err(
                    Refused::Sealed | Refused::Records | Refused::Bytes | Refused::Behind | Refused::TooLarge,
                ) => {
                    break;
                }
            }
        }
        served
    }

    /// The lane is sealed: everybody is to be refused. The records stay until their senders fetch them.
    pub(crate) fn take_answers(&mut self, into: &mut Vec<Completer<Answer>>) {
        into.extend(self.waiters.values_mut().filter_map(|waiter| waiter.answer.take()));
    }
}

/// One sender's wait for room.
///
/// Dropping it takes the record out of line; a record that was admitted already stays admitted.
#[must_use = "futures do nothing unless awaited"]
#[derive(Debug)]
pub struct RoomWait {
    owner: Arc<Owner>,
    lane: Lane,
    number: u64,
    /// `None` once it has ended.
    wait: Option<Wait<Answer>>,
}

impl RoomWait {
    pub(crate) fn new(owner: Arc<Owner>, lane: Lane, number: u64, wait: Wait<Answer>) -> Self {
        Self { owner, lane, number, wait: Some(wait) }
    }

    /// Ends the wait at `at_ns` (ticks).
    pub fn until(mut self, at_ns: u64) -> Self {
        self.wait = self.wait.take().map(|wait| wait.with_deadline(at_ns));
        self
    }

    /// Ends the wait; the record comes back, unless it was admitted meanwhile.
    #[must_use]
    pub fn withdraw(mut self) -> Option<Record> {
        self.wait = None;
        self.owner.leave_line(self.lane, self.number)
    }

    /// Blocks this thread instead of suspending a task.
    pub fn wait_blocking(mut self) -> Result<(), NoRoom> {
        let outcome = self.wait.take().map_or(Outcome::Dropped, Wait::wait_blocking);
        self.conclude(outcome)
    }

    fn conclude(&mut self, outcome: Outcome<Answer>) -> Result<(), NoRoom> {
        if let Outcome::Done(Ok(())) = outcome {
            return Ok(());
        }
        // The holder may have admitted it just before the deadline was noticed: then it is in.
        let Some(record) = self.owner.leave_line(self.lane, self.number) else { return Ok(()) };
        match outcome {
            Outcome::Done(Err(why)) => {
                let (why, record) = self.owner.refuse(why, record);
                Err(NoRoom::Refused(why, record))
            }
            _ => Err(NoRoom::Expired(self.owner.refuse(Refusal::Full, record).1)),
        }
    }
}

/// Why a wait for room ended without room. The record is given back.
#[derive(Debug)]
pub enum NoRoom {
    /// The deadline passed.
    Expired(Record),
    /// The object does not accept it any more.
    Refused(Refusal, Record),
}

impl Future for RoomWait {
    type Output = Result<(), NoRoom>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.wait.as_mut().map_or(Poll::Ready(Outcome::Dropped), |wait| Pin::new(wait).poll(cx));
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                self.wait = None;
                Poll::Ready(self.conclude(outcome))
            }
        }
    }
}

impl Drop for RoomWait {
    fn drop(&mut self) {
        if self.wait.is_some() {
            drop(self.owner.leave_line(self.lane, self.number));
        }
    }
}
