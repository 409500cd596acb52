//! What the engines tell: order events, position events, limits.

use turnkeep_bus::Event;

use crate::order::{OrderId, OrderKind, OrderNews, OrderState, Side};
use crate::value::{Decimal, Price, Quantity, Symbol, record};

/// Something has happened to an order.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderEvent {
    /// The order.
    pub id: OrderId,
    /// Whose it is.
    pub trader: Symbol,
    /// The instrument.
    pub symbol: Symbol,
    /// Which way.
    pub side: Side,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// What has happened.
    pub news: OrderNews,
    /// What has become of the order.
    pub state: OrderState,
    /// A reason, where something was refused.
    pub reason: String,
}

impl Event for OrderEvent {
    const NAME: &'static str = "order event";

    fn heap_bytes(&self) -> usize {
        self.trader.as_str().len() + self.symbol.as_str().len() + self.reason.capacity()
    }

    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.push(self.side as u8);
        out.push(self.state as u8);
        out.extend_from_slice(self.symbol.as_str().as_bytes());
        match self.news {
            OrderNews::Filled { quantity, price, fee } => {
                [quantity.value(), price.value(), fee].into_iter().for_each(|value| record(out, value));
            }
            OrderNews::Modified { kind, quantity } => {
                record(out, quantity.value());
                if let OrderKind::Limit(price) | OrderKind::Stop(price) = kind {
                    record(out, price.value());
                }
            }
            _ => out.extend_from_slice(self.reason.as_bytes()),
        }
    }
}

/// What has become of a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionChange {
    /// It was opened.
    Opened,
    /// It has grown or shrunk.
    Changed,
    /// It is closed.
    Closed,
}

/// A position has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionEvent {
    /// Whose it is.
    pub trader: Symbol,
    /// The instrument.
    pub symbol: Symbol,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// What has become of it.
    pub change: PositionChange,
    /// How much there is, less than zero for a short one.
    pub quantity: Decimal,
    /// What it has gained so far, fees taken off.
    pub realized: Decimal,
}

impl Event for PositionEvent {
    const NAME: &'static str = "position event";

    fn heap_bytes(&self) -> usize {
        self.trader.as_str().len() + self.symbol.as_str().len()
    }

    fn record(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.trader.as_str().as_bytes());
        out.extend_from_slice(self.symbol.as_str().as_bytes());
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.push(self.change as u8);
        record(out, self.quantity);
        record(out, self.realized);
    }
}

/// What a risk monitor allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsEvent {
    /// The most units that one order may be for.
    pub order_quantity: Quantity,
    /// Whether new entries are allowed.
    pub entries: bool,
}

impl Event for LimitsEvent {
    const NAME: &'static str = "limits";

    fn heap_bytes(&self) -> usize {
        0
    }

    fn record(&self, out: &mut Vec<u8>) {
        record(out, self.order_quantity.value());
        out.push(u8::from(self.entries));
    }
}

/// What a venue tells the execution engine about one order.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The order.
    pub id: OrderId,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// What has happened.
    pub news: OrderNews,
    /// A reason, where something was refused.
    pub reason: String,
}

impl Event for Report {
    const NAME: &'static str = "venue report";

    fn heap_bytes(&self) -> usize {
        self.reason.capacity()
    }
}

/// A fill as the venue makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) quantity: Quantity,
    pub(crate) price: Price,
    pub(crate) fee: Decimal,
}
