//! Orders: what is wanted, and the state machine of what has become of it.
//!
//! # Transitions
//!
//! | state | news → next |
//! |---|---|
//! | Initialized | Denied → Denied, Submitted → Submitted |
//! | Submitted | Accepted → Accepted, Rejected → Rejected, Filled → PartlyFilled or Filled |
//! | Accepted, PartlyFilled | Filled → PartlyFilled or Filled, CancelAsked → PendingCancel, Modified → the same |
//! | Accepted, PartlyFilled | Cancelled → Cancelled, Expired → Expired |
//! | PendingCancel | Filled → PendingCancel or Filled, Cancelled → Cancelled, Expired → Expired |
//! | PendingCancel | CancelRejected → Accepted or PartlyFilled |
//! | Filled, Cancelled, Expired | CancelRejected, Cancelled: too late, nothing changes |
//! | Filled, Cancelled, Expired, Rejected, Denied | nothing else |
//!
//! A cancellation and a fill may cross: the fill that was made counts, and what is left is cancelled; if nothing is
//! left, the order is filled and the cancellation comes too late.

use crate::value::{Decimal, Price, Quantity, Symbol};

/// The number of an order, given by its trader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u64);

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Buy.
    Buy,
    /// Sell.
    Sell,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }

    /// The quantity as a change of a position: more than zero for a buy.
    #[must_use]
    pub fn signed(self, quantity: Quantity) -> Decimal {
        match self {
            Self::Buy => quantity.value(),
            Self::Sell => -quantity.value(),
        }
    }
}

/// At which price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// At the next price there is.
    Market,
    /// At that price or a better one.
    Limit(Price),
    /// At the next price once the market has reached that one.
    Stop(Price),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its number.
    pub id: OrderId,
    /// Who wants it: the name of a strategy.
    pub trader: Symbol,
    /// The instrument.
    pub symbol: Symbol,
    /// Which way.
    pub side: Side,
    /// How much.
    pub quantity: Quantity,
    /// At which price.
    pub kind: OrderKind,
    /// The last instant at which it may be filled, in nanoseconds; none for as long as it takes.
    pub good_till_ns: Option<u64>,
    /// Orders of one group exclude each other: the fill of one ends the others.
    pub group: Option<u64>,
}

/// What has become of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderState {
    /// Made, not checked yet.
    Initialized,
    /// Refused by the risk check.
    Denied,
    /// On its way to the venue.
    Submitted,
    /// Refused by the venue.
    Rejected,
    /// At the venue.
    Accepted,
    /// At the venue, a part of it done.
    PartlyFilled,
    /// At the venue, its cancellation asked for.
    PendingCancel,
    /// Done.
    Filled,
    /// Cancelled, what had been done before stays done.
    Cancelled,
    /// Its time is over.
    Expired,
}

/// What is told about an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderNews {
    /// The risk check refuses it.
    Denied,
    /// It goes to the venue.
    Submitted,
    /// The venue has it.
    Accepted,
    /// The venue refuses it.
    Rejected,
    /// So much was done, at that price, for that fee.
    Filled {
        /// How much.
        quantity: Quantity,
        /// The price.
        price: Price,
        /// The fee.
        fee: Decimal,
    },
    /// Its cancellation is asked for.
    CancelAsked,
    /// The venue does not cancel it: it is done already.
    CancelRejected,
    /// It is cancelled.
    Cancelled,
    /// Its time is over.
    Expired,
    /// It has another price or quantity.
    Modified {
        /// The price.
        kind: OrderKind,
        /// How much in all.
        quantity: Quantity,
    },
}

/// News that do not belong to the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an order that is {state:?} cannot be told {news:?}")]
pub struct OrderError {
    /// The state.
    pub state: OrderState,
    /// The news.
    pub news: OrderNews,
}

/// An order with what has become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRecord {
    /// The order as it stands.
    pub order: Order,
    state: OrderState,
    filled: Quantity,
}

impl OrderRecord {
    /// An order that was just made.
    #[must_use]
    pub const fn new(order: Order) -> Self {
        Self { order, state: OrderState::Initialized, filled: Quantity::ZERO }
    }

    /// What has become of it.
    #[must_use]
    pub const fn state(&self) -> OrderState {
        self.state
    }

    /// How much of it is done.
    #[must_use]
    pub const fn filled(&self) -> Quantity {
        self.filled
    }

    /// How much of it is still to be done.
    #[must_use]
    pub fn left(&self) -> Quantity {
        self.order.quantity.minus(self.filled)
    }

    /// Whether the venue still works on it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        use OrderState::{Accepted, PartlyFilled, PendingCancel, Submitted};
        matches!(self.state, Submitted | Accepted | PartlyFilled | PendingCancel)
    }

    /// Tells the order what has happened; whether that changed anything.
    ///
    /// # Errors
    ///
    /// The news do not belong to the state, or fill more than is left; nothing has changed.
    pub fn on(&mut self, news: OrderNews) -> Result<bool, OrderError> {
        use OrderState as S;
        let refuse = Err(OrderError { state: self.state, news });
        let next = match (self.state, news) {
            (S::Initialized, OrderNews::Denied) => S::Denied,
            (S::Initialized, OrderNews::Submitted) => S::Submitted,
            (S::Submitted, OrderNews::Accepted) => S::Accepted,
            (S::Submitted, OrderNews::Rejected) => S::Rejected,
            (
                S::Submitted | S::Accepted | S::PartlyFilled | S::PendingCancel,
                OrderNews::Filled { quantity, .. },
            ) => {
                if quantity.is_zero() || quantity > self.left() {
                    return refuse;
                }
                self.filled = self.filled.plus(quantity);
                match (self.left().is_zero(), self.state) {
                    (true, _) => S::Filled,
                    (false, S::PendingCancel) => S::PendingCancel,
                    (false, _) => S::PartlyFilled,
                }
            }
            (S::Accepted | S::PartlyFilled, OrderNews::CancelAsked) => S::PendingCancel,
            (S::PendingCancel, OrderNews::CancelAsked) => return Ok(false),
            (S::Accepted | S::PartlyFilled | S::PendingCancel, OrderNews::Cancelled) => S::Cancelled,
            (S::Accepted | S::PartlyFilled | S::PendingCancel, OrderNews::Expired) => S::Expired,
            (S::PendingCancel, OrderNews::CancelRejected) if self.filled.is_zero() => S::Accepted,
            (S::PendingCancel, OrderNews::CancelRejected) => S::PartlyFilled,
            (S::Filled | S::Cancelled | S::Expired, OrderNews::CancelRejected | OrderNews::Cancelled) => {
                return Ok(false);
            }
            (S::Accepted | S::PartlyFilled, OrderNews::Modified { kind, quantity }) => {
                if quantity <= self.filled {
                    return refuse;
                }
                (self.order.kind, self.order.quantity) = (kind, quantity);
                self.state
            }
            _ => return refuse,
        };
        self.state = next;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(quantity: &str) -> OrderRecord {
        let symbol = Symbol::new("SPX").unwrap();
        OrderRecord::new(Order {
            id: OrderId(1),
            trader: symbol.clone(),
            symbol,
            side: Side::Buy,
            quantity: quantity.parse().unwrap(),
            kind: OrderKind::Market,
            good_till_ns: None,
            group: None,
        })
    }

    fn fill(quantity: &str) -> OrderNews {
        let (quantity, price) = (quantity.parse().unwrap(), "10".parse().unwrap());
        OrderNews::Filled { quantity, price, fee: Decimal::ZERO }
    }

    fn after(quantity: &str, news: &[OrderNews]) -> OrderRecord {
        let mut order = order(quantity);
        news.iter().for_each(|&news| assert!(order.on(news).unwrap()));
        order
    }

    const OPEN: [OrderNews; 2] = [OrderNews::Submitted, OrderNews::Accepted];

    #[test]
    fn a_fill_that_crosses_the_cancellation_counts_and_the_rest_is_cancelled() {
        let mut order = after("3", &[OPEN[0], OPEN[1], OrderNews::CancelAsked, fill("1")]);
        assert_eq!((order.state(), order.left()), (OrderState::PendingCancel, "2".parse().unwrap()));
        assert_eq!(order.on(OrderNews::Cancelled), Ok(true));
        assert_eq!((order.state(), order.filled()), (OrderState::Cancelled, Quantity::ONE));
    }

    #[test]
    fn a_cancellation_after_the_last_fill_comes_too_late() {
        let mut order = after("1", &[OPEN[0], OPEN[1], OrderNews::CancelAsked, fill("1")]);
        assert_eq!(order.state(), OrderState::Filled);
        assert_eq!(order.on(OrderNews::CancelRejected), Ok(false));
        assert_eq!(order.on(OrderNews::Cancelled), Ok(false));
        assert_eq!(order.state(), OrderState::Filled);
        assert!(order.on(fill("1")).is_err(), "never more than was wanted");
    }

    #[test]
    fn a_rejected_cancellation_puts_the_order_back() {
        let mut order = after("2", &[OPEN[0], OPEN[1], fill("1"), OrderNews::CancelAsked]);
        assert_eq!(order.on(OrderNews::CancelRejected), Ok(true));
        assert_eq!(order.state(), OrderState::PartlyFilled);
    }

    #[test]
    fn a_modification_keeps_what_is_done() {
        let mut order = after("2", &[OPEN[0], OPEN[1], fill("1")]);
        let less = OrderNews::Modified { kind: OrderKind::Market, quantity: Quantity::ONE };
        assert!(order.on(less).is_err());
        let more = OrderNews::Modified { kind: OrderKind::Market, quantity: "5".parse().unwrap() };
        assert_eq!(order.on(more), Ok(true));
        assert_eq!(order.left(), "4".parse().unwrap());
    }

    #[test]
    fn ended_orders_are_told_nothing_more() {
        for end in [OrderNews::Denied, OrderNews::Submitted] {
            let mut order = after("1", &[end]);
            assert_eq!(order.is_open(), end == OrderNews::Submitted);
            assert!(order.on(OrderNews::Denied).is_err());
            assert!(order.on(OrderNews::Expired).is_err());
        }
    }
}
