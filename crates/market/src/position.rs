//! Positions: what a trader has of an instrument, at which price, and what it has gained.

use crate::order::Side;
use crate::report::PositionChange;
use crate::value::{Decimal, Price, Quantity};

/// What a trader has of one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// How much, less than zero for a short one.
    quantity: Decimal,
    /// What the quantity was bought or sold for in all, without fees.
    cost: Decimal,
    /// What it has gained so far, fees taken off.
    realized: Decimal,
    /// How often it has come back to nothing.
    closed: u64,
}

impl Position {
    /// How much there is, less than zero for a short one.
    #[must_use]
    pub const fn quantity(&self) -> Decimal {
        self.quantity
    }

    /// What it has gained so far, fees taken off.
    #[must_use]
    pub const fn realized(&self) -> Decimal {
        self.realized
    }

    /// How often it has come back to nothing.
    #[must_use]
    pub const fn closed(&self) -> u64 {
        self.closed
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_flat(&self) -> bool {
        self.quantity.is_zero()
    }

    /// The average price of what there is.
    #[must_use]
    pub fn average(&self) -> Option<Decimal> {
        self.cost.checked_div(self.quantity)
    }

    /// What it would gain at that price, beside what it has.
    #[must_use]
    pub fn unrealized(&self, price: Price) -> Decimal {
        self.quantity * price.value() - self.cost
    }

    /// Takes a fill in.
    pub fn fill(&mut self, side: Side, quantity: Quantity, price: Price, fee: Decimal) -> PositionChange {
        let change = side.signed(quantity);
        let before = self.quantity;
        self.realized -= fee;
        let closing = if before.is_sign_positive() == change.is_sign_positive() || before.is_zero() {
            Decimal::ZERO
        } else {
            change.abs().min(before.abs())
        };
        if !closing.is_zero() {
            // The part that goes takes its share of the cost along; the last part takes all that is left.
            let share = if closing == before.abs() { self.cost } else { self.cost * closing / before.abs() };
            let sign = if before.is_sign_positive() { Decimal::ONE } else { -Decimal::ONE };
            self.realized += sign * closing * price.value() - share;
            self.cost -= share;
        }
        let opening = change.abs() - closing;
        let sign = if change.is_sign_positive() { Decimal::ONE } else { -Decimal::ONE };
        self.cost += sign * opening * price.value();
        self.quantity += change;
        match (before.is_zero(), self.quantity.is_zero()) {
            (true, _) => PositionChange::Opened,
            (false, true) => {
                self.closed += 1;
                PositionChange::Closed
            }
            (false, false) => {
                // Through nothing to the other side: one position has closed and another begun.
                self.closed += u64::from(before.is_sign_positive() != self.quantity.is_sign_positive());
                PositionChange::Changed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::decimal;

    fn fill(position: &mut Position, side: Side, quantity: &str, price: &str, fee: &str) -> PositionChange {
        position.fill(side, quantity.parse().unwrap(), price.parse().unwrap(), decimal(fee).unwrap())
    }

    #[test]
    fn a_long_position_gains_what_the_price_rises_less_fees() {
        let mut position = Position::default();
        assert_eq!(fill(&mut position, Side::Buy, "2", "10", "0.1"), PositionChange::Opened);
        assert_eq!(fill(&mut position, Side::Buy, "2", "12", "0"), PositionChange::Changed);
        assert_eq!(position.average(), Some(decimal("11").unwrap()));
        assert_eq!(position.unrealized("13".parse().unwrap()), decimal("8").unwrap());
        assert_eq!(fill(&mut position, Side::Sell, "1", "13", "0"), PositionChange::Changed);
        assert_eq!(position.realized(), decimal("1.9").unwrap());
        assert_eq!(fill(&mut position, Side::Sell, "3", "10", "0"), PositionChange::Closed);
        assert_eq!((position.realized(), position.closed()), (decimal("-1.1").unwrap(), 1));
        assert!(position.is_flat() && position.average().is_none());
    }

    #[test]
    fn a_short_position_gains_what_the_price_falls() {
        let mut position = Position::default();
        fill(&mut position, Side::Sell, "2", "10", "0");
        assert_eq!(position.unrealized("9".parse().unwrap()), decimal("2").unwrap());
        assert_eq!(fill(&mut position, Side::Buy, "3", "8", "0"), PositionChange::Changed);
        assert_eq!((position.realized(), position.quantity()), (decimal("4").unwrap(), Decimal::ONE));
        assert_eq!(position.closed(), 1, "through nothing to the other side");
        fill(&mut position, Side::Sell, "1", "8", "0");
        assert_eq!((position.realized(), position.closed()), (decimal("4").unwrap(), 2));
    }
}
