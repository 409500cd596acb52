//! Draining: when it may happen, and what is to be done with the head of the line.
//!
//! # States
//!
//! ```text
//!         begin_drain            begin_teardown                 end_teardown
//!  Idle ◄────────────► Draining     Idle ─────────► TearingDown ────────────► Idle
//!         end_drain
//! ```
//!
//! # The head
//!
//! | the slot | the component | root | verdict |
//! |---|---|---|---|
//! | reserved | | | `Wait`: nothing passes it (ADM-3) |
//! | abandoned | | | `Cancel` |
//! | ready | another registration or generation, or unsubscribed | | `Cancel` (ADM-4, PUB-7) |
//! | ready | not in the run of the arrival, no maintenance in its state | | `Cancel` (COMP-3) |
//! | ready | wants it | at its limit | `Runaway`, before the handler is tried (ROOT-4) |
//! | ready | wants it, busy | | `Busy`: nothing passes it (DRAIN-2) |
//! | ready | wants it | | `Deliver` |

use super::frame::Open;
use super::line::Target;
use super::reservation::Stage;

/// What a bus is doing with its line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Phase {
    /// Neither of the two below.
    #[default]
    Idle,
    /// Slots are being delivered.
    Draining,
    /// Everything is being given up.
    TearingDown,
}

/// Why a drain or a teardown does not begin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hindrance {
    /// A publication is open.
    Publication,
    /// A drain is under way.
    Drain,
    /// The bus is being torn down.
    Teardown,
    /// Somebody holds access to a component.
    Access,
    /// A batch of direct invocations is open.
    Invocation,
    /// Code runs under the root of a retained value.
    Chain,
    /// A command is being handled.
    Command,
    /// A reservation is neither filled nor dropped.
    Reservation,
    /// Retained values are alive.
    Retained,
    /// Queued commands hold roots.
    CommandRoot,
}

/// Everything that is alive beside the line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Alive {
    /// What the bus does with its line.
    pub phase: Phase,
    /// Open frames.
    pub frames: Open,
    /// Components whose access is held.
    pub accesses: u32,
    /// Reservations neither filled nor dropped.
    pub reservations: u32,
    /// Retained values.
    pub retained: u32,
    /// Roots held by queued commands.
    pub command_roots: u32,
}

impl Alive {
    /// What keeps a drain from beginning (DRAIN-3); an unfinished reservation does not, it stops the head.
    #[must_use]
    pub const fn hinders_drain(&self) -> Option<Hindrance> {
        if self.frames.publications > 0 {
            return Some(Hindrance::Publication);
        }
        if matches!(self.phase, Phase::Draining) || self.frames.deliveries > 0 {
            return Some(Hindrance::Drain);
        }
        if matches!(self.phase, Phase::TearingDown) {
            return Some(Hindrance::Teardown);
        }
        if self.accesses > 0 {
            return Some(Hindrance::Access);
        }
        if self.frames.invocations > 0 {
            return Some(Hindrance::Invocation);
        }
        if self.frames.chains > 0 {
            return Some(Hindrance::Chain);
        }
        if self.frames.commands > 0 {
            return Some(Hindrance::Command);
        }
        None
    }

    /// What keeps a teardown from beginning (FAULT-4).
    #[must_use]
    pub const fn hinders_teardown(&self) -> Option<Hindrance> {
        if let Some(hindrance) = self.hinders_drain() {
            return Some(hindrance);
        }
        if self.reservations > 0 {
            return Some(Hindrance::Reservation);
        }
        if self.retained > 0 {
            return Some(Hindrance::Retained);
        }
        if self.command_roots > 0 {
            return Some(Hindrance::CommandRoot);
        }
        None
    }
}

/// A component as the head of the line finds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    /// Which registration is there now.
    pub registration: u32,
    /// Which generation it is in.
    pub generation: u32,
    /// Which run it is in, 0 if it does not run.
    pub run: u32,
    /// Whether the subscription is still there.
    pub subscribed: bool,
    /// Whether maintenance runs in the component's present state.
    pub maintained: bool,
    /// Whether it cannot be reached now.
    pub busy: bool,
}

/// What is to be done with the head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Verdict {
    /// Its reservation is unfinished: nothing passes it.
    Wait,
    /// Take it out and drop its capture; it costs slot budget only.
    Cancel,
    /// Its root is at the limit: latch a fault and leave it where it is.
    Runaway,
    /// Its component is busy: nothing passes it.
    Busy,
    /// Deliver it; `author` if author code runs, or maintenance alone.
    Deliver {
        /// Whether the author's callback runs.
        author: bool,
    },
}

/// Judges the head of the line.
#[inline(always)]
pub const fn judge(stage: Stage, target: &Target, standing: &Standing, spent: bool) -> Verdict {
    match stage {
        Stage::Reserved => return Verdict::Wait,
        Stage::Abandoned => return Verdict::Cancel,
        Stage::Ready => {}
    }
    // One comparison of whole words: the two are seldom in one register.
    let moved = (target.registration ^ standing.registration) | (target.generation ^ standing.generation);
    if !standing.subscribed || moved != 0 {
        return Verdict::Cancel;
    }
    let author = target.run != 0 && target.run == standing.run;
    if !author && !standing.maintained {
        return Verdict::Cancel;
    }
    if spent {
        return Verdict::Runaway;
    }
    if standing.busy {
        return Verdict::Busy;
    }
    Verdict::Deliver { author }
}

/// Who holds a busy component.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Busy {
    /// Something on this thread, which cannot go on while the head waits for it.
    Here,
    /// Something elsewhere, which may let go.
    Elsewhere,
}

/// Counts the attempts at one busy head.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Stall {
    attempts: u32,
}

impl Stall {
    /// The head is busy; true if that is a fault now (DRAIN-5).
    #[must_use]
    pub const fn on_busy(&mut self, busy: Busy, attempts_max: u32) -> bool {
        self.attempts += 1;
        matches!(busy, Busy::Here) || self.attempts > attempts_max
    }

    /// The head has moved.
    #[inline]
    pub const fn on_progress(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { component: 0, registration: 4, generation: 2, run: 3 };
    const STANDING: Standing =
        Standing { registration: 4, generation: 2, run: 3, subscribed: true, maintained: false, busy: false };

    fn verdict(target: Target, standing: Standing) -> Verdict {
        judge(Stage::Ready, &target, &standing, false)
    }

    #[test]
    fn drain_3_every_hindrance_is_told_by_name() {
        let frames = Open::default();
        let cases = [
            (
                Alive { frames: Open { publications: 1, ..frames }, ..Alive::default() },
                Hindrance::Publication,
            ),
            (Alive { frames: Open { deliveries: 1, ..frames }, ..Alive::default() }, Hindrance::Drain),
            (Alive { phase: Phase::Draining, ..Alive::default() }, Hindrance::Drain),
            (Alive { phase: Phase::TearingDown, ..Alive::default() }, Hindrance::Teardown),
            (Alive { accesses: 1, ..Alive::default() }, Hindrance::Access),
            (Alive { frames: Open { invocations: 1, ..frames }, ..Alive::default() }, Hindrance::Invocation),
            (Alive { frames: Open { chains: 1, ..frames }, ..Alive::default() }, Hindrance::Chain),
            (Alive { frames: Open { commands: 1, ..frames }, ..Alive::default() }, Hindrance::Command),
        ];
        assert_eq!(Alive::default().hinders_drain(), None);
        for (alive, hindrance) in cases {
            assert_eq!(alive.hinders_drain(), Some(hindrance));
            assert_eq!(alive.hinders_teardown(), Some(hindrance));
        }
    }

    #[test]
    fn fault_4_a_teardown_waits_for_more_than_a_drain_does() {
        let cases = [
            (Alive { reservations: 1, ..Alive::default() }, Hindrance::Reservation),
            (Alive { retained: 1, ..Alive::default() }, Hindrance::Retained),
            (Alive { command_roots: 1, ..Alive::default() }, Hindrance::CommandRoot),
        ];
        assert_eq!(Alive::default().hinders_teardown(), None);
        for (alive, hindrance) in cases {
            assert_eq!(alive.hinders_drain(), None);
            assert_eq!(alive.hinders_teardown(), Some(hindrance));
        }
    }

    #[test]
    fn adm_4_another_registration_or_generation_is_cancelled() {
        assert_eq!(verdict(TARGET, STANDING), Verdict::Deliver { author: true });
        assert_eq!(verdict(TARGET, Standing { registration: 5, ..STANDING }), Verdict::Cancel);
        assert_eq!(verdict(TARGET, Standing { generation: 3, ..STANDING }), Verdict::Cancel);
        assert_eq!(verdict(TARGET, Standing { subscribed: false, ..STANDING }), Verdict::Cancel);
    }

    #[test]
    fn comp_3_author_code_takes_an_event_in_the_run_of_its_arrival_only() {
        let maintained = Standing { maintained: true, ..STANDING };
        for (arrived, now) in [(0, 3), (3, 0), (3, 4), (0, 0)] {
            let (target, standing) = (Target { run: arrived, ..TARGET }, Standing { run: now, ..STANDING });
            assert_eq!(verdict(target, standing), Verdict::Cancel);
            let standing = Standing { run: now, ..maintained };
            assert_eq!(verdict(target, standing), Verdict::Deliver { author: false });
        }
    }

    #[test]
    fn root_4_the_limit_is_tested_before_the_handler_is_tried_and_after_a_cancellation() {
        let busy = Standing { busy: true, ..STANDING };
        assert_eq!(judge(Stage::Ready, &TARGET, &busy, true), Verdict::Runaway);
        assert_eq!(judge(Stage::Ready, &TARGET, &busy, false), Verdict::Busy);
        assert_eq!(judge(Stage::Abandoned, &TARGET, &busy, true), Verdict::Cancel);
        assert_eq!(judge(Stage::Reserved, &TARGET, &STANDING, true), Verdict::Wait);
    }

    #[test]
    fn drain_5_here_is_a_fault_at_once_and_elsewhere_when_the_budget_is_spent() {
        assert!(Stall::default().on_busy(Busy::Here, 9));
        let mut stall = Stall::default();
        assert!(!stall.on_busy(Busy::Elsewhere, 2) && !stall.on_busy(Busy::Elsewhere, 2));
        assert!(stall.on_busy(Busy::Elsewhere, 2));
        stall.on_progress();
        assert!(!stall.on_busy(Busy::Elsewhere, 2));
    }
}
