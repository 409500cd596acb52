//! The time budget of a holder: how long it may run records in a row.
//!
//! Time is in nanoseconds of whatever clock the driver reads; only differences count (LANE-10).

/// The default budget: 10 ms.
pub const DEFAULT_NS: u64 = 10_000_000;

/// One slice under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    started_ns: u64,
    budget_ns: u64,
}

impl Slice {
    /// A slice that starts now.
    #[must_use]
    pub const fn start(now_ns: u64, budget_ns: u64) -> Self {
        Self { started_ns: now_ns, budget_ns }
    }

    /// Whether the budget is used up; asked at every turn boundary.
    #[must_use]
    pub const fn is_over(self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.started_ns) >= self.budget_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_10_a_slice_ends_exactly_at_its_budget() {
        let slice = Slice::start(1000, DEFAULT_NS);
        assert!(!slice.is_over(1000 + DEFAULT_NS - 1));
        assert!(slice.is_over(1000 + DEFAULT_NS));
        assert!(!slice.is_over(0), "a clock read out of order ends nothing");
    }
}
