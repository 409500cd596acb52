//! Virtual time: what the clock and the deadlines of this crate go by on a thread that drives nodes itself.
//!
//! This is the one seam between time and a driven node. While a [`VirtualTime`] is entered on a thread,
//! [`crate::ticks::now`] reads it there, and every deadline that is registered there is its: it stands until
//! somebody moves it on, and then what is due is expired on the thread that moves it.
//!
//! # Invariants
//!
//! * VTIME-a: it moves by [`VirtualTime::advance_to`] only, and never back.
//! * VTIME-b: what is due is expired in the order of the moments, what has the same moment in the order of
//!   registration.
//! * VTIME-c: nothing is expired under the lock.
//!
//! # What a thread keeps
//!
//! The mark says which time the thread reads, for as long as the [`Entered`] lives; it is no part of a turn.
//! A deadline cancelled on a thread where its time is not entered stays registered; it wakes nobody who waits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::deadline::{Target, shielded};

/// The first moment: "zero" is before every other.
const ORIGIN_NS: u64 = 1_000_000_000;
/// Marks the number of a registration here; the wheel's numbers never get so far.
const MARK: u64 = 1 << 63;

thread_local! {
    /// The time that is entered, as a number; 0 for none: the thread reads the machine's clock.
    static NOW: Cell<u64> = const { Cell::new(0) };
    /// The same, itself.
    static HERE: RefCell<Option<Arc<Inner>>> = const { RefCell::new(None) };
}

/// Numbers of registrations, so that none is given twice whichever time it belongs to.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The time of this thread, unless it reads the machine's clock.
#[inline(always)]
pub(crate) fn now() -> Option<u64> {
    match NOW.try_with(Cell::get) {
        Ok(0) | Err(_) => None,
        Ok(now) => Some(now),
    }
}

/// Whether a number belongs to a registration of any virtual time.
pub(crate) fn is_virtual(number: NonZeroU64) -> bool {
    number.get() & MARK != 0
}

/// Registers a deadline with this thread's time; gives it back if the thread has none.
pub(crate) fn register(at_ns: u64, target: Target) -> Result<NonZeroU64, Target> {
    if now().is_none() {
        return Err(target);
    }
    match here() {
        Some(inner) => Ok(inner.register(at_ns, target)),
        None => Err(target),
    }
}

/// Ends a registration; `None` if it is not there, or not of this thread's time.
pub(crate) fn cancel(number: NonZeroU64) -> Option<Target> {
    here()?.pending.lock().remove(number.get())
}

/// The time this thread goes by.
fn here() -> Option<Arc<Inner>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

/// One virtual time; clones are the same one.
#[derive(Clone, Default)]
pub struct VirtualTime(Arc<Inner>);

struct Inner {
    now_ns: AtomicU64,
    pending: Mutex<Pending>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { now_ns: AtomicU64::new(ORIGIN_NS), pending: Mutex::default() }
    }
}

/// What is registered: by moment and number, and the moment of each number.
#[derive(Default)]
struct Pending {
    targets: BTreeMap<(u64, u64), Target>,
    moments: BTreeMap<u64, u64>,
}

impl Pending {
    fn remove(&mut self, number: u64) -> Option<Target> {
        let at_ns = self.moments.remove(&number)?;
        self.targets.remove(&(at_ns, number))
    }

    fn next(&self) -> Option<u64> {
        self.targets.keys().next().map(|(at_ns, _)| *at_ns)
    }

    fn take_due(&mut self, now_ns: u64) -> Option<Target> {
        let (at_ns, number) = *self.targets.keys().next()?;
        if at_ns > now_ns { None } else { self.remove(number) }
    }
}

impl Inner {
    fn register(&self, at_ns: u64, target: Target) -> NonZeroU64 {
        let number = MARK | NEXT.fetch_add(1, Ordering::Relaxed);
        let mut pending = self.pending.lock();
        pending.targets.insert((at_ns, number), target);
        pending.moments.insert(number, at_ns);
        NonZeroU64::new(number).expect("the mark is a bit")
    }
}

impl VirtualTime {
    /// A time that stands at its origin, with nothing registered.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The moment it stands at, as [`crate::ticks::now`] gives it.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.now_ns.load(Ordering::Relaxed)
    }

    /// Nanoseconds since its origin.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.now() - ORIGIN_NS
    }

    /// The next moment at which something is due.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.0.pending.lock().next()
    }

    /// This thread goes by this time until the guard is dropped; then by what it went by before.
    #[must_use = "the time is left when the guard is dropped"]
    pub fn enter(&self) -> Entered {
        let before = HERE.replace(Some(self.0.clone()));
        NOW.set(self.now());
        Entered { before, _thread: PhantomData }
    }

    /// Moves it on to `at_ns`, unless it is later already, and expires what is due by then. A panic in that is
    /// caught and ignored.
    pub fn advance_to(&self, at_ns: u64) {
        let now_ns = self.0.now_ns.fetch_max(at_ns, Ordering::Relaxed).max(at_ns);
        if here().is_some_and(|here| Arc::ptr_eq(&here, &self.0)) {
            NOW.set(now_ns);
        }
        loop {
            let due = self.0.pending.lock().take_due(now_ns);
            match due {
                Some(target) => shielded(|| target.expire()),
                None => return,
            }
        }
    }

    /// Forgets everything registered, unexpired.
    pub fn clear(&self) {
        let forgotten = std::mem::take(&mut *self.0.pending.lock());
        forgotten.targets.into_values().for_each(|target| shielded(|| drop(target)));
    }
}

impl std::fmt::Debug for VirtualTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualTime").field("elapsed_ns", &self.elapsed_ns()).finish_non_exhaustive()
    }
}

/// While it lives, this thread goes by a virtual time.
pub struct Entered {
    before: Option<Arc<Inner>>,
    /// It belongs to the thread.
    _thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for Entered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Entered")
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        NOW.set(self.before.as_ref().map_or(0, |inner| inner.now_ns.load(Ordering::Relaxed)));
        HERE.replace(self.before.take());
    }
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;
    use crate::deadline::sleep_until;
    use crate::ticks;

    fn is_over(future: &mut std::pin::Pin<&mut impl Future>) -> bool {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn vtime_a_a_thread_reads_it_only_while_it_is_entered() {
        let (one, other) = (VirtualTime::new(), VirtualTime::new());
        one.advance_to(one.now() + 5);
        let entered = one.enter();
        assert_eq!(ticks::now(), one.now());
        {
            let _inner = other.enter();
            assert_eq!(ticks::now(), other.now());
            one.advance_to(one.now() + 1_000);
            assert_eq!(ticks::now(), other.now());
        }
        assert_eq!((ticks::now(), one.elapsed_ns()), (one.now(), 1_005));
        one.advance_to(0);
        assert_eq!(one.elapsed_ns(), 1_005, "it never goes back");
        drop(entered);
        assert_ne!(ticks::now(), one.now());
    }

    #[test]
    fn vtime_b_deadlines_pass_when_it_is_moved_and_not_before() {
        let time = VirtualTime::new();
        let _entered = time.enter();
        let mut soon = pin!(sleep_until(time.now() + 10));
        let mut late = pin!(sleep_until(time.now() + 3_600_000_000_000));
        assert!(!is_over(&mut soon) && !is_over(&mut late));
        assert_eq!(time.next(), Some(time.now() + 10));
        time.advance_to(time.now() + 10);
        assert!(is_over(&mut soon) && !is_over(&mut late));
        time.advance_to(time.now() + 3_600_000_000_000);
        assert!(is_over(&mut late));
        assert_eq!(time.next(), None);
    }

    #[test]
    fn vtime_b_a_deadline_given_up_is_gone() {
        let time = VirtualTime::new();
        let _entered = time.enter();
        {
            let mut given_up = pin!(sleep_until(time.now() + 10));
            assert!(!is_over(&mut given_up));
        }
        assert_eq!(time.next(), None);
    }
}
