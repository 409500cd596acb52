//! The inbox of an owner: one word that is the owner's readiness and the head of its incoming list.
//!
//! # States
//!
//! ```text
//!   IDLE (null) ──push──► list ──take──► HELD (1) ──push──► list on top of HELD
//!     ▲                                    │  ▲                    │
//!     └──────────── release ───────────────┘  └────── take ────────┘
//! ```
//!
//! * `IDLE`: no record, and nobody has the right to run the owner.
//! * `HELD`: somebody has that right (a worker runs it, or it stands in exactly one ready queue, or it waits
//!   with its turn unfinished) and has seen everything so far.
//! * a list: records nobody has seen. Its last link ends in `IDLE` or in `HELD`: in both cases the right is
//!   taken, by the pusher who found `IDLE` (it must make the owner ready) or by the holder.
//!
//! # The race that must not happen
//!
//! The holder sees an empty inbox and is about to go idle; a sender appends and believes the holder awake. It
//! cannot: going idle is a compare-exchange from `HELD`, so an append that came first makes it fail, and an
//! append that comes after finds `IDLE` and owes the wake-up itself. Append and make-ready are one exchange,
//! take and drain are one exchange (GATE-12).
//!
//! # Ordering
//!
//! A push releases the record to the taker; a release hands everything the holder did to the next holder,
//! through the pusher's exchange (AcqRel) and the taker's (Acquire).

use std::ptr::NonNull;

use crate::link::Link;
use crate::sync::atomic::{AtomicPtr, Ordering};

const IDLE: *mut Link = std::ptr::null_mut();

fn held() -> *mut Link {
    std::ptr::without_provenance_mut(1)
}

/// What a push leaves to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Pushed {
    /// The owner was idle: the pusher has the right to run it now and must put it where it is run.
    MakeReady,
    /// Whoever has the right will see the record.
    Seen,
}

/// The word.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Pushers put their link on top; the holder takes all.
    head: AtomicPtr<Link>,
}

impl Inbox {
    /// An inbox nobody has the right to.
    pub(crate) fn idle() -> Self {
        Self { head: AtomicPtr::new(IDLE) }
    }

    /// An inbox whose maker has the right.
    #[cfg(all(test, turnkeep_loom))]
    pub(crate) fn held() -> Self {
        Self { head: AtomicPtr::new(held()) }
    }

    /// Appends a link.
    ///
    /// # Safety
    ///
    /// The link is alive until it comes out of `take`, and in no list.
    pub(crate) unsafe fn push(&self, link: NonNull<Link>) -> Pushed {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // SAFETY: the link is the pusher's until the exchange below succeeds.
            unsafe { link.as_ref().set_next(head) };
            match self.head.compare_exchange_weak(head, link.as_ptr(), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(IDLE) => return Pushed::MakeReady,
                Ok(_) => return Pushed::Seen,
                Err(now) => head = now,
            }
        }
    }

    /// Takes the right (or keeps it) and everything that came in, newest first: one exchange.
    pub(crate) fn take(&self) -> Batch {
        Batch { next: self.head.swap(held(), Ordering::AcqRel) }
    }

    /// Whether something came in since the last take. Only the holder may ask.
    pub(crate) fn has_news(&self) -> bool {
        self.head.load(Ordering::Relaxed) != held()
    }

    /// Gives the right up, unless something came in. After `true` the owner may be run by another thread.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        self.head.compare_exchange(held(), IDLE, Ordering::Release, Ordering::Relaxed).is_ok()
    }
}

/// What came in, newest first. Its links belong to the holder.
pub(crate) struct Batch {
    next: *const Link,
}

impl Batch {
    /// The same links in the order they were pushed.
    pub(crate) fn in_order(self) -> Ordered {
        let mut newest = self.next;
        let mut oldest: *const Link = std::ptr::null();
        while !newest.is_null() && newest != held().cast_const() {
            // SAFETY: a link out of the inbox is alive and ours until we pass it on.
            let older = unsafe { (*newest).next() };
            // SAFETY: as above.
            unsafe { (*newest).set_next(oldest) };
            oldest = newest;
            newest = older;
        }
        Ordered { next: oldest }
    }
}

/// Links in the order they were pushed.
pub(crate) struct Ordered {
    next: *const Link,
}

impl Iterator for Ordered {
    type Item = NonNull<Link>;

    fn next(&mut self) -> Option<NonNull<Link>> {
        let link = NonNull::new(self.next.cast_mut())?;
        // SAFETY: as in `in_order`; read before the link is handed out.
        self.next = unsafe { link.as_ref().next() };
        Some(link)
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::link::Kind;

    struct Cell {
        inbox: Inbox,
        holders: AtomicUsize,
        handled: AtomicUsize,
    }

    impl Cell {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                inbox: Inbox::idle(),
                holders: AtomicUsize::new(0),
                handled: AtomicUsize::new(0),
            })
        }

        /// Sends one record and, if that made the cell ready, runs it to idleness in place.
        fn send(&self) {
            let link = NonNull::from(Box::leak(Box::new(Link::new(Kind::Record))));
            // SAFETY: leaked, so alive until `run` frees it after it was taken.
            if unsafe { self.inbox.push(link) } == Pushed::MakeReady {
                self.run();
            }
        }

        fn run(&self) {
            assert_eq!(self.holders.fetch_add(1, SeqCst), 0, "two holders");
            loop {
                for link in self.inbox.take().in_order() {
                    // SAFETY: leaked by `send`, taken once.
                    drop(unsafe { Box::from_raw(link.as_ptr()) });
                    self.handled.fetch_add(1, SeqCst);
                }
                self.holders.fetch_sub(1, SeqCst);
                if self.inbox.release() {
                    return;
                }
                assert_eq!(self.holders.fetch_add(1, SeqCst), 0, "two holders");
            }
        }
    }

    #[test]
    fn loom_gate_1_no_record_is_lost_and_no_two_hold() {
        loom::model(|| {
            let cell = Cell::new();
            let other = cell.clone();
            let thread = loom::thread::spawn(move || {
                other.send();
                other.send();
            });
            cell.send();
            cell.send();
            thread.join().unwrap();
            assert_eq!(cell.handled.load(SeqCst), 4);
            assert!(!cell.inbox.release(), "the cell must be idle at the end");
        });
    }

    #[test]
    fn loom_gate_8_one_pushers_records_come_out_in_order() {
        loom::model(|| {
            let inbox = Arc::new(Inbox::held());
            let other = inbox.clone();
            let push = |inbox: &Inbox, kind| {
                let link = NonNull::from(Box::leak(Box::new(Link::new(kind))));
                // SAFETY: leaked, freed below after it was taken.
                let _ = unsafe { inbox.push(link) };
            };
            let thread = loom::thread::spawn(move || {
                push(&other, Kind::Record);
                push(&other, Kind::Member);
            });
            push(&inbox, Kind::Marker);
            let mut seen = Vec::new();
            let drain = |seen: &mut Vec<Kind>| {
                for link in inbox.take().in_order() {
                    // SAFETY: leaked by `push`, taken once.
                    seen.push(unsafe { Box::from_raw(link.as_ptr()) }.kind());
                }
            };
            drain(&mut seen);
            thread.join().unwrap();
            drain(&mut seen);
            let at = |kind| seen.iter().position(|k| *k == kind).unwrap();
            assert_eq!(seen.len(), 3);
            assert!(at(Kind::Record) < at(Kind::Member), "{seen:?}");
        });
    }
}
