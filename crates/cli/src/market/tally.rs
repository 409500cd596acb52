//! What a run counts as it goes: orders, fills, trades, and the course of the gain.

use turnkeep::market::{Decimal, Price, Quantity, Side};

/// The most points that the course is kept in; a longer one is thinned out.
const POINTS_MAX: usize = 4096;

/// A trade that was closed.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    pub(crate) opened_ns: u64,
    pub(crate) closed_ns: u64,
    pub(crate) bought: Price,
    pub(crate) sold: Price,
    pub(crate) gain: Decimal,
}

/// The counts.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) bars: u64,
    pub(crate) orders: u64,
    pub(crate) fills: u64,
    /// The newest rounds, oldest first.
    pub(crate) rounds: Vec<Round>,
    /// The buy that is still to be sold.
    open: Option<(u64, Price)>,
    /// The gain after every so many bars.
    pub(crate) course: Vec<f64>,
    stride: u64,
    points: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            bars: 0,
            orders: 0,
            fills: 0,
            rounds: Vec::new(),
            open: None,
            course: Vec::new(),
            stride: 1,
            points: 0,
        }
    }
}

/// How many rounds are kept for the table.
pub(crate) const ROUNDS_MAX: usize = 10;

impl Tally {
    /// Takes a fill in.
    pub(crate) fn fill(&mut self, time_ns: u64, side: Side, quantity: Quantity, price: Price) {
        self.fills += 1;
        match (side, self.open) {
            (Side::Buy, None) => self.open = Some((time_ns, price)),
            (Side::Sell, Some((opened_ns, bought))) => {
                self.open = None;
                let gain = (price.value() - bought.value()) * quantity.value();
                if self.rounds.len() == ROUNDS_MAX {
                    self.rounds.remove(0);
                }
                self.rounds.push(Round { opened_ns, closed_ns: time_ns, bought, sold: price, gain });
            }
            _ => {}
        }
    }

    /// Notes the gain after another bar.
    pub(crate) fn gain(&mut self, gain: Decimal) {
        self.points += 1;
        if !self.points.is_multiple_of(self.stride) {
            return;
        }
        // The course is drawn, no more: floating point is good enough.
        self.course.push(gain.to_string().parse().unwrap_or_default());
        if self.course.len() == POINTS_MAX {
            let mut at = 0;
            self.course.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_course_is_thinned_out_and_keeps_its_end() {
        let mut tally = Tally::default();
        (1..=100_000).for_each(|gain| tally.gain(Decimal::from(gain)));
        assert!(tally.course.len() < POINTS_MAX && tally.course.len() >= POINTS_MAX / 2);
        assert!(tally.course.is_sorted() && tally.course.last() > Some(&99_900.0));
    }
}
