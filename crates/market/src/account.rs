//! Accounts: what money there is, and whether an order may use it.

use crate::order::Side;
use crate::value::{Decimal, Price, Quantity};

/// What kind of account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AccountKind {
    /// Buys are paid from the cash there is, and nothing is sold that is not there.
    Cash,
    /// Neither is asked for: gains and losses are counted, no more.
    #[default]
    MarginFree,
}

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Account {
    /// What kind it is.
    pub kind: AccountKind,
    /// The cash, less than zero if more was spent than there was.
    pub cash: Decimal,
}

impl Account {
    /// A cash account with so much in it.
    #[must_use]
    pub const fn with_cash(cash: Decimal) -> Self {
        Self { kind: AccountKind::Cash, cash }
    }

    /// Whether an order at about that price may be sent, given what the trader has and what open orders already hold.
    #[must_use]
    pub fn allows(
        &self,
        side: Side,
        quantity: Quantity,
        price: Option<Price>,
        held: Decimal,
        reserved: Decimal,
    ) -> bool {
        match (self.kind, side) {
            (AccountKind::MarginFree, _) => true,
            (AccountKind::Cash, Side::Sell) => quantity.value() <= held,
            // Without a price nobody knows what it will cost: not allowed.
            (AccountKind::Cash, Side::Buy) => {
                price.is_some_and(|price| price.value() * quantity.value() + reserved <= self.cash)
            }
        }
    }

    /// Takes a fill in.
    pub fn fill(&mut self, side: Side, quantity: Quantity, price: Price, fee: Decimal) {
        self.cash -= side.signed(quantity) * price.value() + fee;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::decimal;

    #[test]
    fn a_cash_account_spends_what_it_has_and_sells_what_is_there() {
        let account = Account::with_cash(decimal("100").unwrap());
        let price = "10".parse().ok();
        let buys = |quantity: &str, reserved: &str| {
            account.allows(
                Side::Buy,
                quantity.parse().unwrap(),
                price,
                Decimal::ZERO,
                decimal(reserved).unwrap(),
            )
        };
        assert!(buys("10", "0") && !buys("10.1", "0") && !buys("10", "1"));
        let sells = |held| account.allows(Side::Sell, Quantity::ONE, None, held, Decimal::ZERO);
        assert!(sells(Decimal::ONE) && !sells(Decimal::ZERO));
        let free = Account::default();
        assert!(free.allows(Side::Sell, Quantity::ONE, None, Decimal::ZERO, Decimal::ZERO));
    }

    #[test]
    fn fills_and_fees_go_through_the_cash() {
        let mut account = Account::with_cash(decimal("100").unwrap());
        account.fill(Side::Buy, Quantity::ONE, "10".parse().unwrap(), decimal("0.5").unwrap());
        account.fill(Side::Sell, Quantity::ONE, "12".parse().unwrap(), decimal("0.5").unwrap());
        assert_eq!(account.cash, decimal("101").unwrap());
    }
}
