//! The time of the log: a clock that never goes back, timers in their order.

use std::collections::BTreeSet;

use super::Checker;
use crate::log::Entry;

/// A timer that is set: when it is due, its name, its registration, its owner.
type Due = (u64, String, u64, u32);

/// The clock and the timers of a log.
#[derive(Default)]
pub(super) struct Clock {
    now_ns: u64,
    due: BTreeSet<Due>,
    /// Interval and last instant, by registration.
    schedules: std::collections::BTreeMap<u64, (Option<u64>, Option<u64>)>,
    registered: u64,
    /// The instant of the newest firing, and how many there were at it.
    instant_ns: u64,
    firings: u64,
}

impl Clock {
    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

impl Checker {
    pub(super) fn on_time_entry(&mut self, entry: &Entry) {
        match entry {
            &Entry::Clock { now_ns } => {
                if now_ns < self.clock.now_ns {
                    self.breach(
                        "TIME-1",
                        format!("the clock went from {} back to {now_ns} ns", self.clock.now_ns),
                    );
                }
                if let Some((key, _)) = self.slots.first_key_value() {
                    let admission = key.1;
                    self.breach(
                        "DRAIN-6",
                        format!("time moved to {now_ns} ns while slot {admission} was pending"),
                    );
                }
                self.clock.now_ns = now_ns;
            }
            Entry::TimerSet { component, name, first_ns, interval_ns, stop_ns } => {
                let clock = &mut self.clock;
                clock.registered += 1;
                clock.schedules.insert(clock.registered, (*interval_ns, *stop_ns));
                if stop_ns.is_none_or(|stop_ns| *first_ns <= stop_ns) {
                    clock.due.insert((*first_ns, name.clone(), clock.registered, *component));
                }
            }
            Entry::TimerCancelled { component, name } => {
                let is = |due: &Due| due.3 == *component && name.as_ref().is_none_or(|name| due.1 == *name);
                self.clock.due.retain(|due| !is(due));
            }
            Entry::TimerFired { component, name, registration, due_ns } => {
                self.on_fired((*due_ns, name.clone(), *registration, *component));
            }
            _ => {}
        }
    }

    fn on_fired(&mut self, fired: Due) {
        let (due_ns, name, registration, component) = fired.clone();
        if due_ns != self.clock.now_ns {
            let now_ns = self.clock.now_ns;
            self.breach("TIME-1", format!("timer {name} of {due_ns} ns fired with the clock at {now_ns} ns"));
        }
        match self.clock.due.first() {
            Some(first) if *first == fired => {}
            first => {
                let first = first.map_or("none".into(), |first| format!("{} of {} ns", first.1, first.0));
                self.breach("TIME-2", format!("timer {name} of {due_ns} ns fired when {first} was next"));
            }
        }
        let clock = &mut self.clock;
        clock.due.remove(&fired);
        if clock.instant_ns != due_ns {
            (clock.instant_ns, clock.firings) = (due_ns, 0);
        }
        clock.firings += 1;
        let again = clock.schedules.get(&registration).and_then(|&(interval_ns, stop_ns)| {
            let next = due_ns.checked_add(interval_ns?)?;
            stop_ns.is_none_or(|stop_ns| next <= stop_ns).then_some(next)
        });
        if let Some(next) = again {
            clock.due.insert((next, name.clone(), registration, component));
        }
        let firings = clock.firings;
        if self.limits.firings.is_some_and(|limit| firings > limit) {
            self.breach("TIME-4", format!("timer {name} is firing {firings} at {due_ns} ns"));
        }
    }
}
