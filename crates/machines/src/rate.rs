//! How often a thing that repeats is said: at most so often in any stretch of time, and how often it was not said.
//!
//! Time is in nanoseconds of whatever clock the driver reads; only differences count (ERR-2).
//!
//! # States
//!
//! The moments of the last `N` times that it was said, the oldest first, and what was left out since.
//!
//! # Transitions
//!
//! | event | when | what follows |
//! |---|---|---|
//! | it happens | fewer than `N` moments within the stretch | it is said, with what was left out before |
//! | it happens | otherwise | it is counted as left out |
//!
//! # Invariants
//!
//! * **R1** no stretch of that length, wherever it begins, has more than `N` sayings.
//! * **R2** said plus left out is how often it happened.
//!
//! # Not here
//!
//! What is said, and the total, which the driver counts by itself: what is left out last may never be said.

/// The memory of the last `N` sayings.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rate<const N: usize> {
    /// A ring; `None` where fewer than `N` were said.
    said_ns: [Option<u64>; N],
    /// Where the oldest is.
    oldest: usize,
    left_out: u64,
}

impl<const N: usize> Rate<N> {
    /// Nothing was said yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { said_ns: [None; N], oldest: 0, left_out: 0 }
    }

    /// It happens now. `Some`: say it, and that so many before it were left out.
    pub fn on_event(&mut self, now_ns: u64, stretch_ns: u64) -> Option<u64> {
        let room = self.said_ns[self.oldest].is_none_or(|at_ns| now_ns.saturating_sub(at_ns) >= stretch_ns);
        if !room {
            self.left_out = self.left_out.saturating_add(1);
            return None;
        }
        self.said_ns[self.oldest] = Some(now_ns);
        self.oldest = (self.oldest + 1) % N;
        Some(core::mem::take(&mut self.left_out))
    }
}

impl<const N: usize> Default for Rate<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const STRETCH: u64 = 1000;

    #[test]
    fn err_2_no_stretch_has_more_sayings_than_allowed_and_none_is_forgotten() {
        let (mut rate, mut said, mut told) = (Rate::<3>::new(), Vec::new(), 0);
        let mut now = 5;
        for number in 0..500_u64 {
            now += number * number % 97;
            if let Some(left_out) = rate.on_event(now, STRETCH) {
                said.push(now);
                told += 1 + left_out;
            }
        }
        assert!(said.windows(4).all(|four| four[3] - four[0] >= STRETCH), "{said:?}");
        assert!(said.len() as u64 >= (now - 5) / STRETCH * 3, "it is said as often as it may be");
        assert_eq!(told + rate.left_out, 500);
    }

    #[test]
    fn err_2_the_first_after_a_rest_says_what_was_left_out() {
        let mut rate = Rate::<2>::new();
        let answers: Vec<_> =
            [0, 1, 2, 3, 999, 1000, 1001, 1002].map(|now| rate.on_event(now, STRETCH)).into();
        assert_eq!(answers, [Some(0), Some(0), None, None, None, Some(3), Some(0), None]);
    }

    #[test]
    fn err_2_a_clock_read_out_of_order_says_no_more() {
        let mut rate = Rate::<1>::new();
        assert_eq!(rate.on_event(5000, STRETCH), Some(0));
        assert_eq!(rate.on_event(10, STRETCH), None);
    }
}
