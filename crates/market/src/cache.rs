//! The cache: what everybody may read, as it is now (COMP-5).

use std::collections::BTreeMap;

use crate::account::Account;
use crate::data::{Bar, Book, ChainSlice, Quote, Trade};
use crate::instrument::Instrument;
use crate::order::{OrderId, OrderRecord};
use crate::position::Position;
use crate::value::{Decimal, Price, Symbol};

/// How many bars of an instrument are kept.
pub const BARS_MAX: usize = 1024;
/// How many ended orders are kept; older ones go.
pub const ENDED_MAX: usize = 4096;

/// What is known of one instrument.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The newest bars, oldest first, at most [`BARS_MAX`].
    pub bars: std::collections::VecDeque<Bar>,
    /// The newest quote.
    pub quote: Option<Quote>,
    /// The newest trade.
    pub trade: Option<Trade>,
    /// The newest book.
    pub book: Option<Book>,
    /// The newest slice of its option chain.
    pub chain: Option<ChainSlice>,
    /// The newest price of any kind.
    pub last: Option<Price>,
}

/// Everything that the engines keep for all to read. It is changed at once, before anybody is told.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    instruments: BTreeMap<Symbol, Instrument>,
    known: BTreeMap<Symbol, Known>,
    orders: BTreeMap<OrderId, OrderRecord>,
    /// Orders that have ended, oldest first.
    ended: std::collections::VecDeque<OrderId>,
    positions: BTreeMap<(Symbol, Symbol), Position>,
    account: Account,
}

impl Cache {
    /// A cache for an account.
    #[must_use]
    pub fn new(account: Account) -> Self {
        Self { account, ..Self::default() }
    }

    /// An instrument by its name.
    #[must_use]
    pub fn instrument(&self, symbol: &Symbol) -> Option<&Instrument> {
        self.instruments.get(symbol)
    }

    /// What is known of an instrument.
    #[must_use]
    pub fn known(&self, symbol: &Symbol) -> Option<&Known> {
        self.known.get(symbol)
    }

    /// The newest price of an instrument.
    #[must_use]
    pub fn last(&self, symbol: &Symbol) -> Option<Price> {
        self.known.get(symbol)?.last
    }

    /// An order by its number.
    #[must_use]
    pub fn order(&self, id: OrderId) -> Option<&OrderRecord> {
        self.orders.get(&id)
    }

    /// All orders that the venue still works on, by number.
    pub fn open_orders(&self) -> impl Iterator<Item = &OrderRecord> {
        self.orders.values().filter(|order| order.is_open())
    }

    /// What a trader has of an instrument.
    #[must_use]
    pub fn position(&self, trader: &Symbol, symbol: &Symbol) -> Position {
        self.positions.get(&(trader.clone(), symbol.clone())).copied().unwrap_or_default()
    }

    /// All positions, by trader and instrument.
    pub fn positions(&self) -> impl Iterator<Item = (&Symbol, &Symbol, &Position)> {
        self.positions.iter().map(|((trader, symbol), position)| (trader, symbol, position))
    }

    /// The account.
    #[must_use]
    pub const fn account(&self) -> &Account {
        &self.account
    }

    /// What all positions have gained and would gain now, fees taken off.
    #[must_use]
    pub fn gain(&self) -> Decimal {
        let now = |symbol: &Symbol, position: &Position| {
            self.last(symbol).map_or(Decimal::ZERO, |price| position.unrealized(price))
        };
        self.positions().map(|(_, symbol, position)| position.realized() + now(symbol, position)).sum()
    }

    /// Adds an instrument.
    pub fn add_instrument(&mut self, instrument: Instrument) {
        self.instruments.insert(instrument.symbol.clone(), instrument);
    }

    pub(crate) fn known_mut(&mut self, symbol: &Symbol) -> &mut Known {
        if !self.known.contains_key(symbol) {
            self.known.insert(symbol.clone(), Known::default());
        }
        match self.known.get_mut(symbol) {
            Some(known) => known,
            None => unreachable!("it was put there just now"),
        }
    }

    pub(crate) fn order_mut(&mut self, id: OrderId) -> Option<&mut OrderRecord> {
        self.orders.get_mut(&id)
    }

    /// Keeps a new order; false if its number is taken.
    pub(crate) fn add_order(&mut self, order: OrderRecord) -> bool {
        let id = order.order.id;
        if self.orders.contains_key(&id) {
            return false;
        }
        self.orders.insert(id, order);
        true
    }

    /// An order has ended; the oldest of too many is forgotten.
    pub(crate) fn on_ended(&mut self, id: OrderId) {
        self.ended.push_back(id);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.orders.remove(&oldest);
        }
    }

    pub(crate) fn position_mut(&mut self, trader: &Symbol, symbol: &Symbol) -> &mut Position {
        self.positions.entry((trader.clone(), symbol.clone())).or_default()
    }

    pub(crate) fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }
}
