//! Timers: which one fires next, when it fires again, and when that has to stop.
//!
//! # Invariants
//!
//! * **T1** timers fire by time, then name, then registration (TIME-2).
//! * **T2** a stop time is inclusive: a tick on it fires, one after it never does.
//! * **T3** firings at one instant have a limit (TIME-4).
//!
//! # Not here
//!
//! The clock: both the time of a call and the limit are arguments.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// When a timer fires, in nanoseconds of the bus's clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// The first firing.
    pub first_ns: u64,
    /// The time between two firings; none for an alert that fires once.
    pub interval_ns: Option<u64>,
    /// The last instant at which it may fire, inclusive.
    pub stop_ns: Option<u64>,
}

/// Why a timer was not set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BadTimer {
    /// The owner has a timer of that name.
    NameTaken,
    /// An interval of nothing would never let time move.
    NoInterval,
    /// The table is full.
    TooMany,
}

/// The most timers that one bus keeps.
pub const TIMERS_MAX: usize = 65_536;

/// A timer that is due.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Firing {
    /// Whose it is.
    pub owner: u32,
    /// Its name.
    pub name: Arc<str>,
    /// When it was due.
    pub due_ns: u64,
    /// The number of its registration.
    pub registration: u64,
    /// Whether it has fired for the last time.
    pub last: bool,
}

/// Its place in the order of firing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Place {
    due_ns: u64,
    name: Arc<str>,
    registration: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Entry {
    owner: u32,
    schedule: Schedule,
}

/// The timers of one bus.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Timers {
    due: BTreeMap<Place, Entry>,
    names: BTreeMap<(u32, Arc<str>), Place>,
    /// The number of the newest registration.
    registered: u64,
    /// The instant of the newest firing, and how many there were at it.
    instant_ns: u64,
    firings: u64,
}

impl Timers {
    /// Sets a timer. One whose first firing is after its stop time never fires and is not kept.
    ///
    /// # Errors
    ///
    /// The name is taken, the interval is zero, or there are [`TIMERS_MAX`] timers.
    pub fn set(&mut self, owner: u32, name: &str, schedule: Schedule) -> Result<(), BadTimer> {
        if schedule.interval_ns == Some(0) {
            return Err(BadTimer::NoInterval);
        }
        let name: Arc<str> = name.into();
        if self.names.contains_key(&(owner, name.clone())) {
            return Err(BadTimer::NameTaken);
        }
        if self.due.len() >= TIMERS_MAX {
            return Err(BadTimer::TooMany);
        }
        self.registered += 1;
        if schedule.stop_ns.is_none_or(|stop_ns| schedule.first_ns <= stop_ns) {
            let place = Place { due_ns: schedule.first_ns, name, registration: self.registered };
            self.insert(place, Entry { owner, schedule });
        }
        Ok(())
    }

    fn insert(&mut self, place: Place, entry: Entry) {
        self.names.insert((entry.owner, place.name.clone()), place.clone());
        self.due.insert(place, entry);
    }

    /// Ends a timer; whether there was one.
    pub fn cancel(&mut self, owner: u32, name: &str) -> bool {
        let found = self.names.remove(&(owner, Arc::from(name)));
        found.is_some_and(|place| self.due.remove(&place).is_some())
    }

    /// Ends all timers of an owner; how many there were.
    pub fn cancel_all(&mut self, owner: u32) -> usize {
        let whose = |(found, _): &&(u32, Arc<str>)| *found == owner;
        let names: Vec<Arc<str>> = self.names.keys().filter(whose).map(|(_, name)| name.clone()).collect();
        names.iter().filter(|name| self.cancel(owner, name)).count()
    }

    /// When the next timer is due.
    #[must_use]
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        self.due.first_key_value().map(|(place, _)| place.due_ns)
    }

    /// Fires the next timer that is due at `now_ns` or before, and sets it again if it repeats.
    pub fn fire(&mut self, now_ns: u64) -> Option<Firing> {
        if self.next_due()? > now_ns {
            return None;
        }
        let (place, entry) = self.due.pop_first()?;
        self.names.remove(&(entry.owner, place.name.clone()));
        let Place { due_ns, name, registration } = place;
        if due_ns != self.instant_ns {
            (self.instant_ns, self.firings) = (due_ns, 0);
        }
        self.firings += 1;
        let again = entry.schedule.interval_ns.and_then(|interval_ns| due_ns.checked_add(interval_ns));
        let again = again.filter(|&next| entry.schedule.stop_ns.is_none_or(|stop_ns| next <= stop_ns));
        let firing =
            Firing { owner: entry.owner, name: name.clone(), due_ns, registration, last: again.is_none() };
        if let Some(due_ns) = again {
            self.insert(Place { due_ns, name, registration }, entry);
        }
        Some(firing)
    }

    /// Whether the next firing would be one too many at its instant.
    #[must_use]
    pub fn is_runaway(&self, limit: u64) -> bool {
        self.next_due() == Some(self.instant_ns) && self.firings >= limit
    }

    /// Timers that are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn every(first_ns: u64, interval_ns: u64, stop_ns: u64) -> Schedule {
        Schedule { first_ns, interval_ns: Some(interval_ns), stop_ns: Some(stop_ns) }
    }

    fn ticks(schedule: Schedule) -> Vec<u64> {
        let mut timers = Timers::default();
        assert_eq!(timers.set(0, "t", schedule), Ok(()));
        core::iter::from_fn(|| timers.fire(1_000)).map(|firing| firing.due_ns).collect()
    }

    #[test]
    fn time_1_stop_times_are_inclusive() {
        assert_eq!(ticks(every(10, 10, 30)), [10, 20, 30]);
        assert_eq!(ticks(every(10, 10, 5)), [0; 0]);
        assert_eq!(ticks(every(10, 10, 35)), [10, 20, 30]);
    }

    #[test]
    fn time_2_ties_go_by_name_then_registration() {
        let mut timers = Timers::default();
        let alert = Schedule { first_ns: 5, interval_ns: None, stop_ns: None };
        for (owner, name) in [(1, "b"), (2, "b"), (1, "a")] {
            assert_eq!(timers.set(owner, name, alert), Ok(()));
        }
        let order: Vec<_> =
            core::iter::from_fn(|| timers.fire(5)).map(|f| (f.owner, f.name.to_string(), f.last)).collect();
        assert_eq!(
            order,
            [(1, "a".to_string(), true), (1, "b".to_string(), true), (2, "b".to_string(), true)]
        );
        assert!(timers.is_empty());
    }

    #[test]
    fn time_4_the_limit_counts_firings_of_one_instant() {
        let mut timers = Timers::default();
        let alert = |first_ns| Schedule { first_ns, interval_ns: None, stop_ns: None };
        for _ in 0..3 {
            assert!(!timers.is_runaway(3));
            assert_eq!(timers.set(0, "again", alert(7)), Ok(()));
            assert!(timers.fire(7).is_some());
        }
        assert_eq!(timers.set(0, "again", alert(7)), Ok(()));
        assert!(timers.is_runaway(3));
        assert!(timers.cancel(0, "again"));
        assert_eq!(timers.set(0, "again", alert(8)), Ok(()));
        assert!(!timers.is_runaway(3), "another instant counts anew");
    }

    #[test]
    fn time_4_bad_timers_are_refused() {
        let mut timers = Timers::default();
        assert_eq!(timers.set(0, "t", every(0, 0, 5)), Err(BadTimer::NoInterval));
        assert_eq!(timers.set(0, "t", every(0, 1, 5)), Ok(()));
        assert_eq!(timers.set(0, "t", every(0, 1, 5)), Err(BadTimer::NameTaken));
        assert_eq!((timers.cancel_all(0), timers.cancel_all(0)), (1, 0));
    }
}
