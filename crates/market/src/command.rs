//! Commands: what is asked of the data engine and of the execution engine.

use turnkeep_bus::{CommandQueue, Context, Failure};

use crate::cache::Cache;
use crate::order::{Order, OrderId, OrderKind};
use crate::value::{Quantity, Symbol};

/// Kinds of market data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feed {
    /// Bars.
    Bars,
    /// Quotes.
    Quotes,
    /// Trades.
    Trades,
    /// Books.
    Books,
    /// Slices of option chains.
    Chains,
}

impl Feed {
    /// The topic of that kind of data for an instrument.
    #[must_use]
    pub fn topic(self, symbol: &Symbol) -> String {
        let kind = match self {
            Self::Bars => "bars",
            Self::Quotes => "quotes",
            Self::Trades => "trades",
            Self::Books => "books",
            Self::Chains => "chains",
        };
        format!("data.{kind}.{symbol}")
    }
}

/// What is asked of the data engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataCommand {
    /// Publish that data from now on.
    Subscribe(Feed, Symbol),
    /// Do not, unless somebody else wants it.
    Unsubscribe(Feed, Symbol),
    /// Publish the newest bars that are known, at most so many, on `data.history.` and the instrument.
    RequestBars(Symbol, usize),
}

/// What is asked of the execution engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TradingCommand {
    /// Check an order and send it.
    Submit(Box<Order>),
    /// Change an order.
    Modify(OrderId, OrderKind, Quantity),
    /// Cancel an order.
    Cancel(OrderId),
    /// Cancel all orders of a trader.
    CancelAll(Symbol),
    /// Stop all new entries, and cancel every open order.
    Kill,
    /// Give an order that was checked to the venue: the engine asks this of itself.
    Route(OrderId),
}

/// The queues of both engines, kept where every component finds them, and the numbers for orders.
#[derive(Clone, Copy, Debug)]
pub struct Desk {
    /// The data engine's.
    pub data: CommandQueue<DataCommand>,
    /// The execution engine's.
    pub trading: CommandQueue<TradingCommand>,
    /// The number of the newest order.
    pub(crate) orders: u64,
}

/// What a trader does through its context.
pub trait Trading {
    /// A number for an order that nobody has used.
    ///
    /// # Errors
    ///
    /// The kit is not installed on this bus.
    fn order_id(&mut self) -> Result<OrderId, Failure>;

    /// Asks the execution engine for something.
    ///
    /// # Errors
    ///
    /// The kit is not installed on this bus, or the queue is full.
    fn trade(&mut self, command: TradingCommand) -> Result<(), Failure>;

    /// Asks the data engine for something.
    ///
    /// # Errors
    ///
    /// As [`trade`](Self::trade).
    fn ask_data(&mut self, command: DataCommand) -> Result<(), Failure>;

    /// The cache, as it is now.
    ///
    /// # Errors
    ///
    /// The kit is not installed on this bus.
    fn cache(&self) -> Result<&Cache, Failure>;
}

impl Trading for Context<'_> {
    fn order_id(&mut self) -> Result<OrderId, Failure> {
        let desk = self.resource_mut::<Desk>().ok_or(NO_KIT)?;
        desk.orders += 1;
        Ok(OrderId(desk.orders))
    }

    fn trade(&mut self, command: TradingCommand) -> Result<(), Failure> {
        let queue = self.resource::<Desk>().ok_or(NO_KIT)?.trading;
        self.command(queue, command).map_err(|refused| refused.to_string().into())
    }

    fn ask_data(&mut self, command: DataCommand) -> Result<(), Failure> {
        let queue = self.resource::<Desk>().ok_or(NO_KIT)?.data;
        self.command(queue, command).map_err(|refused| refused.to_string().into())
    }

    fn cache(&self) -> Result<&Cache, Failure> {
        Ok(self.resource::<Cache>().ok_or(NO_KIT)?)
    }
}

const NO_KIT: &str = "the trading kit is not installed on this bus; install it first";
