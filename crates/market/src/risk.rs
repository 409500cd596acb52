//! The check before the trade: limits that can refuse an order, and a switch that refuses them all.

use crate::cache::Cache;
use crate::order::{Order, OrderKind, Side};
use crate::value::{Decimal, Price, Quantity};

/// What orders may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RiskLimits {
    /// The most units of one order; none for any number.
    pub order_quantity: Option<Quantity>,
    /// The most that one order may be worth; none for any sum.
    pub order_value: Option<Decimal>,
    /// The most orders that one trader may have open; none for any number.
    pub open_orders: Option<usize>,
    /// No new order at all, except those that only bring a position down.
    pub killed: bool,
}

/// Why an order was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denial {
    /// The number of the order is taken.
    #[error("the order's number is taken; give each order its own")]
    NumberTaken,
    /// Nobody knows the instrument.
    #[error("the instrument is unknown; add it first")]
    UnknownInstrument,
    /// The quantity is nothing, or between two steps.
    #[error("the quantity is no multiple of the lot; round it first")]
    Lot,
    /// A price is between two steps.
    #[error("the price is no multiple of the tick; round it first")]
    Tick,
    /// The quantity is over the limit.
    #[error("the quantity is over the limit of {limit}; order less")]
    Quantity {
        /// The limit.
        limit: Quantity,
    },
    /// The value is over the limit.
    #[error("the value is over the limit of {limit}; order less")]
    Value {
        /// The limit.
        limit: Decimal,
    },
    /// Too many orders are open.
    #[error("{limit} orders are open, which is the limit; cancel one first")]
    OpenOrders {
        /// The limit.
        limit: usize,
    },
    /// The account does not allow it.
    #[error("the account has not enough for it; order less")]
    Account,
    /// The kill switch is on.
    #[error("the kill switch is on; only orders that bring a position down are taken")]
    Killed,
    /// Its time is over already.
    #[error("its last instant is over; give it a later one")]
    Expired,
}

impl RiskLimits {
    /// Looks at an order before it is sent.
    ///
    /// # Errors
    ///
    /// Why it is not to be sent.
    pub fn check(&self, order: &Order, cache: &Cache, now_ns: u64) -> Result<(), Denial> {
        let instrument = cache.instrument(&order.symbol).ok_or(Denial::UnknownInstrument)?;
        if !instrument.has_quantity(order.quantity) {
            return Err(Denial::Lot);
        }
        if let OrderKind::Limit(price) | OrderKind::Stop(price) = order.kind
            && !instrument.has_price(price)
        {
            return Err(Denial::Tick);
        }
        if order.good_till_ns.is_some_and(|last_ns| last_ns < now_ns) {
            return Err(Denial::Expired);
        }
        let held = cache.position(&order.trader, &order.symbol).quantity();
        let change = order.side.signed(order.quantity);
        let reduces = !held.is_zero()
            && held.is_sign_positive() != change.is_sign_positive()
            && change.abs() <= held.abs();
        if self.killed && !reduces {
            return Err(Denial::Killed);
        }
        let price = match order.kind {
            OrderKind::Market => cache.last(&order.symbol),
            OrderKind::Limit(price) | OrderKind::Stop(price) => Some(price),
        };
        self.check_sizes(order, price)?;
        self.check_open(order, cache)?;
        let account = cache.account();
        if account.allows(order.side, order.quantity, price, held, reserved(order, cache)) {
            Ok(())
        } else {
            Err(Denial::Account)
        }
    }

    fn check_sizes(&self, order: &Order, price: Option<Price>) -> Result<(), Denial> {
        if let Some(limit) = self.order_quantity.filter(|&limit| order.quantity > limit) {
            return Err(Denial::Quantity { limit });
        }
        let value = price.map(|price| price.value() * order.quantity.value());
        match self.order_value {
            Some(limit) if value.is_none_or(|value| value > limit) => Err(Denial::Value { limit }),
            _ => Ok(()),
        }
    }

    fn check_open(&self, order: &Order, cache: &Cache) -> Result<(), Denial> {
        let Some(limit) = self.open_orders else { return Ok(()) };
        let open = cache.open_orders().filter(|open| open.order.trader == order.trader).count();
        if open >= limit { Err(Denial::OpenOrders { limit }) } else { Ok(()) }
    }
}

/// What the open buys of all traders may still cost.
fn reserved(order: &Order, cache: &Cache) -> Decimal {
    if order.side == Side::Sell {
        return Decimal::ZERO;
    }
    let buys = cache.open_orders().filter(|open| open.order.side == Side::Buy);
    let cost = |open: &crate::order::OrderRecord| {
        let price = match open.order.kind {
            OrderKind::Market => cache.last(&open.order.symbol),
            OrderKind::Limit(price) | OrderKind::Stop(price) => Some(price),
        };
        price.map_or(Decimal::ZERO, |price| price.value() * open.left().value())
    };
    buys.map(cost).sum()
}
