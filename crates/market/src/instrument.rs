//! Instruments: what can be traded, in which steps of price and quantity.

use crate::value::{Decimal, Price, Quantity, Symbol};

/// What can be traded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its name.
    pub symbol: Symbol,
    /// The step of its prices; none if every price is one.
    pub tick: Option<Decimal>,
    /// The step of its quantities; none if every quantity is one.
    pub lot: Option<Decimal>,
}

/// Which way a price is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// To the step below.
    Down,
    /// To the step above.
    Up,
}

impl Instrument {
    /// An instrument without steps.
    #[must_use]
    pub const fn new(symbol: Symbol) -> Self {
        Self { symbol, tick: None, lot: None }
    }

    /// The same with a step of prices. A step of zero or less is none.
    #[must_use]
    pub fn with_tick(mut self, tick: Decimal) -> Self {
        self.tick = Some(tick).filter(|tick| *tick > Decimal::ZERO);
        self
    }

    /// The same with a step of quantities. A step of zero or less is none.
    #[must_use]
    pub fn with_lot(mut self, lot: Decimal) -> Self {
        self.lot = Some(lot).filter(|lot| *lot > Decimal::ZERO);
        self
    }

    /// The nearest price on a step, that way; none if that is zero.
    #[must_use]
    pub fn round_price(&self, price: Price, toward: Toward) -> Option<Price> {
        let Some(tick) = self.tick else { return Some(price) };
        let steps = price.value() / tick;
        let steps = match toward {
            Toward::Down => steps.floor(),
            Toward::Up => steps.ceil(),
        };
        Price::new(steps * tick).ok()
    }

    /// The nearest quantity on a step that is not more.
    #[must_use]
    pub fn round_quantity(&self, quantity: Quantity) -> Quantity {
        let Some(lot) = self.lot else { return quantity };
        let steps = (quantity.value() / lot).floor();
        Quantity::new(steps * lot).unwrap_or_default()
    }

    /// Whether the price is on a step.
    #[must_use]
    pub fn has_price(&self, price: Price) -> bool {
        self.tick.is_none_or(|tick| (price.value() % tick).is_zero())
    }

    /// Whether the quantity is on a step, and something.
    #[must_use]
    pub fn has_quantity(&self, quantity: Quantity) -> bool {
        !quantity.is_zero() && self.lot.is_none_or(|lot| (quantity.value() % lot).is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::decimal;

    #[test]
    fn prices_and_quantities_are_rounded_to_their_steps() {
        let future = Instrument::new(Symbol::new("ES").unwrap());
        let future = future.with_tick(decimal("0.25").unwrap()).with_lot(Decimal::TWO);
        let price = "100.30".parse().unwrap();
        assert_eq!(future.round_price(price, Toward::Down), "100.25".parse().ok());
        assert_eq!(future.round_price(price, Toward::Up), "100.50".parse().ok());
        assert_eq!(future.round_price("0.1".parse().unwrap(), Toward::Down), None);
        assert_eq!(future.round_quantity("5".parse().unwrap()), "4".parse().unwrap());
        assert!(future.has_price("100.25".parse().unwrap()) && !future.has_price(price));
        assert!(future.has_quantity("4".parse().unwrap()) && !future.has_quantity(Quantity::ZERO));
    }
}
