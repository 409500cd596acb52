//! The time that a node's timers follow: the process's clock, or one that a program moves by hand.
//!
//! # Invariants
//!
//! * A moment is never announced early, and on a manual clock exactly at itself: while a target is expired the clock
//!   shows the moment that it was registered for, or a later one if that had passed.
//! * Targets of a manual clock are expired in the order of their moments, equal ones in the order of registration.
//! * No lock is held while a target is expired.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::ambient::as_infrastructure;
use crate::deadline::{self, Deadlines, Expire, shielded};
use crate::ticks;

/// A clock. Clones are the same clock.
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    /// The process's, and the moment that counts as its start.
    Real(u64),
    Manual(Arc<Manual>),
}

/// A clock that stands still until it is moved.
struct Manual {
    now_ns: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// By moment and registration.
    targets: BTreeMap<(u64, u64), Arc<dyn Expire>>,
    registered: u64,
}

/// A registration, to cancel it.
#[derive(Clone, Copy, Debug)]
pub struct Key(Place);

#[derive(Clone, Copy, Debug)]
enum Place {
    Real(deadline::Key),
    Manual(u64, u64),
}

impl Default for Clock {
    fn default() -> Self {
        Self::real()
    }
}

impl Clock {
    /// The process's monotonic clock, from now on. Its timers have a resolution of 1 ms.
    #[must_use]
    pub fn real() -> Self {
        Self(Kind::Real(ticks::now()))
    }

    /// A clock at zero that stands still until [`advance`](Self::advance) moves it. Exact to the nanosecond.
    #[must_use]
    pub fn manual() -> Self {
        Self(Kind::Manual(Arc::new(Manual { now_ns: AtomicU64::new(0), queue: Mutex::default() })))
    }

    /// Whether it is moved by hand.
    #[must_use]
    pub fn is_manual(&self) -> bool {
        matches!(self.0, Kind::Manual(_))
    }

    /// The time since the clock's start.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns())
    }

    /// The same in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            Kind::Real(start_ns) => ticks::now().saturating_sub(*start_ns),
            Kind::Manual(manual) => manual.now_ns.load(Ordering::Acquire),
        }
    }

    /// Moves a manual clock on: everything due until then happens, each at its moment. A real clock is not moved.
    ///
    /// What happens is only begun here: turns run on the workers. To let them end between two moments, move the clock
    /// from one [`next`](Self::next) to the other.
    pub fn advance(&self, by: Duration) {
        let by_ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.advance_to(Duration::from_nanos(self.now_ns().saturating_add(by_ns)));
    }

    /// Moves a manual clock to a moment; one that has passed changes nothing.
    pub fn advance_to(&self, moment: Duration) {
        let Kind::Manual(manual) = &self.0 else { return };
        let until_ns = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        while let Some((due_ns, target)) = manual.take_due(until_ns) {
            manual.now_ns.fetch_max(due_ns, Ordering::AcqRel);
            shielded(|| as_infrastructure(|| target.expire()));
        }
        manual.now_ns.fetch_max(until_ns, Ordering::AcqRel);
    }

    /// The next moment at which a manual clock has something to do.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        let Kind::Manual(manual) = &self.0 else { return None };
        let queue = manual.queue.lock();
        queue.targets.first_key_value().map(|((due_ns, _), _)| Duration::from_nanos(*due_ns))
    }

    /// How many registrations a manual clock has; of a real one, those of the process.
    #[must_use]
    pub fn pending(&self) -> usize {
        match &self.0 {
            Kind::Real(_) => Deadlines::global().pending(),
            Kind::Manual(manual) => manual.queue.lock().targets.len(),
        }
    }

    /// Has `target` expired at a moment of this clock. On a real one a moment that has passed expires at once; on a
    /// manual one with its next move.
    pub fn register(&self, at_ns: u64, target: Arc<dyn Expire>) -> Key {
        match &self.0 {
            Kind::Real(start_ns) => {
                let key = Deadlines::global().register(start_ns.saturating_add(at_ns), target);
                Key(Place::Real(key))
            }
            Kind::Manual(manual) => {
                let mut queue = manual.queue.lock();
                queue.registered += 1;
                let number = queue.registered;
                queue.targets.insert((at_ns, number), target);
                Key(Place::Manual(at_ns, number))
            }
        }
    }

    /// Ends a registration; `false` if it has expired or is about to.
    pub fn cancel(&self, key: Key) -> bool {
        match (&self.0, key.0) {
            (Kind::Real(_), Place::Real(key)) => Deadlines::global().cancel(key),
            (Kind::Manual(manual), Place::Manual(at_ns, number)) => {
                let target = manual.queue.lock().targets.remove(&(at_ns, number));
                let was_there = target.is_some();
                // It may be the last owner of anything.
                shielded(|| drop(target));
                was_there
            }
            _ => false,
        }
    }
}

impl Manual {
    fn take_due(&self, until_ns: u64) -> Option<(u64, Arc<dyn Expire>)> {
        let mut queue = self.queue.lock();
        let first = queue.targets.first_entry()?;
        if first.key().0 > until_ns {
            return None;
        }
        let ((due_ns, _), target) = first.remove_entry();
        Some((due_ns, target))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_manual() { "manual" } else { "real" };
        write!(f, "Clock({kind}, {:?})", self.now())
    }
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use super::*;

    /// Notes when it expired, and perhaps registers another.
    struct Note {
        clock: Clock,
        log: Arc<Mutex<Vec<(u64, u32)>>>,
        name: u32,
        again_ns: Option<u64>,
    }

    impl Expire for Note {
        fn expire(&self) {
            self.log.lock().push((self.clock.now_ns(), self.name));
            if let Some(again_ns) = self.again_ns {
                let next =
                    Note { clock: self.clock.clone(), log: self.log.clone(), name: 99, again_ns: None };
                self.clock.register(again_ns, Arc::new(next));
            }
        }
    }

    #[test]
    fn timer_4_a_manual_clock_expires_in_order_each_at_its_moment() {
        let clock = Clock::manual();
        let log = Arc::new(Mutex::new(Vec::new()));
        let note = |at_ns, name, again_ns| {
            let note = Note { clock: clock.clone(), log: log.clone(), name, again_ns };
            clock.register(at_ns, Arc::new(note))
        };
        note(30, 1, None);
        note(10, 2, Some(20));
        note(10, 3, None);
        let cancelled = note(15, 4, None);
        note(31, 5, None);
        assert!(clock.cancel(cancelled));
        assert!(!clock.cancel(cancelled));
        clock.advance(Duration::from_nanos(30));
        assert_eq!(*log.lock(), [(10, 2), (10, 3), (20, 99), (30, 1)]);
        assert_eq!((clock.now_ns(), clock.next()), (30, Some(Duration::from_nanos(31))));
        clock.advance_to(Duration::ZERO);
        assert_eq!((clock.now_ns(), clock.pending()), (30, 1));
    }
}
