//! The gate: one grant at a time, each with a number of its own.
//!
//! # States
//!
//! ```text
//!            take                  suspend
//!   Free ───────────► Running(n) ──────────► Suspended(n)
//!    ▲                  │    ▲                   │
//!    └──────────────────┘    └───────────────────┘
//!         give_up                resume(n)
//! ```
//!
//! # Invariants
//!
//! * **G1** at most one grant is live (GATE-1).
//! * **G2** numbers rise by one and are never used again (GATE-9).
//! * **G3** news for another number than the live one changes nothing (GATE-9).
//! * **G4** an impossible request breaks the machine, and it says why for ever.

/// The number of one grant of one gate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Grant(pub u64);

/// Where the gate is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// Nobody holds it.
    #[default]
    Free,
    /// The holder runs.
    Running,
    /// The holder waits and keeps it.
    Suspended,
    /// A rule was broken by the driver.
    Broken(&'static str),
}

/// The grant machine of one gate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Gate {
    phase: Phase,
    last: Grant,
}

impl Gate {
    /// Takes the free gate under a new number.
    pub const fn take(&mut self) -> Grant {
        match self.phase {
            Phase::Free => {
                self.phase = Phase::Running;
                self.last = Grant(self.last.0 + 1);
            }
            _ => self.break_for("GATE-1: the gate was taken while it was held"),
        }
        self.last
    }

    /// The holder waits and keeps the gate.
    pub const fn suspend(&mut self) {
        match self.phase {
            Phase::Running => self.phase = Phase::Suspended,
            _ => self.break_for("GATE-7: only a running holder can wait"),
        }
    }

    /// The holder's wait has ended; `false`, and nothing changed, if the number is not the live one.
    #[must_use]
    pub const fn resume(&mut self, grant: Grant) -> bool {
        if !matches!(self.phase, Phase::Suspended) || grant.0 != self.last.0 {
            return false;
        }
        self.phase = Phase::Running;
        true
    }

    /// The holder gives the gate up.
    pub const fn give_up(&mut self) {
        match self.phase {
            Phase::Running => self.phase = Phase::Free,
            _ => self.break_for("GATE-1: the gate was given up by nobody"),
        }
    }

    /// The number of the newest grant.
    #[must_use]
    pub const fn last(&self) -> Grant {
        self.last
    }

    /// Where the gate is.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    const fn break_for(&mut self, why: &'static str) {
        if !matches!(self.phase, Phase::Broken(_)) {
            self.phase = Phase::Broken(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_9_numbers_rise_and_old_ones_change_nothing() {
        let mut gate = Gate::default();
        let first = gate.take();
        gate.suspend();
        assert!(!gate.resume(Grant(first.0 + 1)));
        assert_eq!(gate.phase(), Phase::Suspended);
        assert!(gate.resume(first));
        gate.give_up();
        let second = gate.take();
        assert!(second > first);
        gate.suspend();
        assert!(!gate.resume(first), "the older number must change nothing");
        assert!(gate.resume(second));
    }

    #[test]
    fn gate_1_a_second_taking_breaks_the_machine_for_ever() {
        let mut gate = Gate::default();
        gate.take();
        gate.take();
        let why = gate.phase();
        assert!(matches!(why, Phase::Broken(_)));
        gate.give_up();
        gate.suspend();
        assert_eq!(gate.phase(), why);
        assert!(!gate.resume(gate.last()));
    }
}
