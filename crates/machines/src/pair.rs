//! The two lanes of one owner: which goes next, and when a debt is owed.
//!
//! # Transitions
//!
//! | what happened | streak | debt |
//! |---|---|---|
//! | a lifecycle turn ran | one more, 8 at most | set when the streak reaches 8 |
//! | an application turn ran, or a yielded handler of this owner resumed | 0 | cleared |
//! | a slice was given up at the time budget | kept | kept |
//! | the owner ended or moved | dropped with the machine | dropped with the machine |
//!
//! # Invariants
//!
//! * **P1** both lanes ready: lifecycle, unless a debt is owed (LANE-8, LANE-9).
//! * **P2** a debt never stops lifecycle work when there is no application work (LANE-9).
//! * **P3** the state belongs to the owner, whatever gate it runs under (LANE-9).

/// How many lifecycle turns in a row put the owner in debt to its application lane.
pub const STREAK_MAX: u8 = 8;

/// One of an owner's two lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lane {
    /// Messages and timer ticks.
    Application = 0,
    /// Create, join, leave, seal, close.
    Lifecycle = 1,
}

/// The priority state of one owner's pair of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pair {
    streak: u8,
    debt: bool,
}

impl Pair {
    /// The lane whose first record is the owner's next turn; `None` if neither has one.
    #[must_use]
    pub const fn choose(self, application: bool, lifecycle: bool) -> Option<Lane> {
        match (application, lifecycle) {
            (false, false) => None,
            (true, false) => Some(Lane::Application),
            (false, true) => Some(Lane::Lifecycle),
            (true, true) if self.debt => Some(Lane::Application),
            (true, true) => Some(Lane::Lifecycle),
        }
    }

    /// A turn of `lane` starts. A resumed handler counts as an application turn.
    pub const fn on_turn(&mut self, lane: Lane) {
        match lane {
            Lane::Application => *self = Self { streak: 0, debt: false },
            Lane::Lifecycle => {
                if self.streak < STREAK_MAX {
                    self.streak += 1;
                }
                if self.streak == STREAK_MAX {
                    self.debt = true;
                }
            }
        }
    }

    /// Whether the next turn is owed to the application lane.
    #[must_use]
    pub const fn in_debt(self) -> bool {
        self.debt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lifecycle_turns: u32) -> Pair {
        let mut pair = Pair::default();
        for _ in 0..lifecycle_turns {
            pair.on_turn(Lane::Lifecycle);
        }
        pair
    }

    #[test]
    fn lane_8_lifecycle_goes_first_when_both_are_ready() {
        assert_eq!(Pair::default().choose(true, true), Some(Lane::Lifecycle));
        assert_eq!(Pair::default().choose(true, false), Some(Lane::Application));
        assert_eq!(Pair::default().choose(false, true), Some(Lane::Lifecycle));
        assert_eq!(Pair::default().choose(false, false), None);
    }

    #[test]
    fn lane_9_a_eight_lifecycle_turns_owe_one_application_turn() {
        assert_eq!(after(7).choose(true, true), Some(Lane::Lifecycle));
        assert_eq!(after(8).choose(true, true), Some(Lane::Application));
    }

    #[test]
    fn lane_9_b_an_application_turn_clears_debt_and_streak() {
        let mut pair = after(8);
        pair.on_turn(Lane::Application);
        assert_eq!(pair, Pair::default());
        let mut pair = after(7);
        pair.on_turn(Lane::Application);
        pair.on_turn(Lane::Lifecycle);
        assert!(!pair.in_debt());
    }

    #[test]
    fn lane_9_c_a_debt_without_application_work_is_kept_while_lifecycle_goes_on() {
        let pair = after(20);
        assert_eq!(pair.choose(false, true), Some(Lane::Lifecycle));
        assert_eq!(pair.choose(true, true), Some(Lane::Application));
    }

    #[test]
    fn model_lane_9_no_more_than_eight_lifecycle_turns_pass_a_ready_application_lane() {
        // Every sequence of what is ready, sixteen boundaries long, application always ready from some point.
        for arrival in 0..16 {
            let mut pair = Pair::default();
            let mut passed = 0;
            for boundary in 0..32 {
                let application = boundary >= arrival;
                let lane = pair.choose(application, true).expect("lifecycle is ready");
                pair.on_turn(lane);
                passed = if application && lane == Lane::Lifecycle { passed + 1 } else { 0 };
                assert!(passed <= 8, "arrival {arrival}, boundary {boundary}");
            }
        }
    }
}
