//! Market data as events: bars, quotes, trades, book levels, slices of an option chain.

use turnkeep_bus::Event;

use crate::value::{Price, Quantity, Symbol, record};

/// What happened to the price over one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// The instrument.
    pub symbol: Symbol,
    /// The end of the stretch, in nanoseconds.
    pub time_ns: u64,
    /// The first price.
    pub open: Price,
    /// The highest price.
    pub high: Price,
    /// The lowest price.
    pub low: Price,
    /// The last price.
    pub close: Price,
    /// How much was traded.
    pub volume: Quantity,
}

/// The best bid and the best offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The instrument.
    pub symbol: Symbol,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// The best bid.
    pub bid: Price,
    /// The best offer.
    pub ask: Price,
    /// How much is bid for.
    pub bid_size: Quantity,
    /// How much is on offer.
    pub ask_size: Quantity,
}

/// One trade of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The instrument.
    pub symbol: Symbol,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// The price.
    pub price: Price,
    /// How much.
    pub size: Quantity,
}

/// One level of a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The price.
    pub price: Price,
    /// How much stands there.
    pub size: Quantity,
}

/// The levels of a book, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    /// The instrument.
    pub symbol: Symbol,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// Bids, highest first.
    pub bids: Vec<Level>,
    /// Offers, lowest first.
    pub asks: Vec<Level>,
}

/// Which right an option gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To buy.
    Call,
    /// To sell.
    Put,
}

/// The quote of one option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionQuote {
    /// The price at which the right can be used.
    pub strike: Price,
    /// Which right.
    pub right: Right,
    /// The best bid, if there is one.
    pub bid: Option<Price>,
    /// The best offer, if there is one.
    pub ask: Option<Price>,
}

/// All options of one underlying and one expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSlice {
    /// The underlying.
    pub symbol: Symbol,
    /// When, in nanoseconds.
    pub time_ns: u64,
    /// When the options end, in nanoseconds.
    pub expiry_ns: u64,
    /// The options, by strike.
    pub options: Vec<OptionQuote>,
}

fn begin(out: &mut Vec<u8>, symbol: &Symbol, time_ns: u64) {
    out.extend_from_slice(symbol.as_str().as_bytes());
    out.extend_from_slice(&time_ns.to_le_bytes());
}

impl Event for Bar {
    const NAME: &'static str = "bar";

    fn heap_bytes(&self) -> usize {
        self.symbol.as_str().len()
    }

    fn record(&self, out: &mut Vec<u8>) {
        begin(out, &self.symbol, self.time_ns);
        [self.open, self.high, self.low, self.close].into_iter().for_each(|price| record(out, price.value()));
        record(out, self.volume.value());
    }
}

impl Event for Quote {
    const NAME: &'static str = "quote";

    fn heap_bytes(&self) -> usize {
        self.symbol.as_str().len()
    }

    fn record(&self, out: &mut Vec<u8>) {
        begin(out, &self.symbol, self.time_ns);
        [self.bid.value(), self.ask.value(), self.bid_size.value(), self.ask_size.value()]
            .into_iter()
            .for_each(|value| record(out, value));
    }
}

impl Event for Trade {
    const NAME: &'static str = "trade";

    fn heap_bytes(&self) -> usize {
        self.symbol.as_str().len()
    }

    fn record(&self, out: &mut Vec<u8>) {
        begin(out, &self.symbol, self.time_ns);
        record(out, self.price.value());
        record(out, self.size.value());
    }
}

impl Event for Book {
    const NAME: &'static str = "book";

    fn heap_bytes(&self) -> usize {
        let levels = self.bids.capacity() + self.asks.capacity();
        self.symbol.as_str().len() + levels * size_of::<Level>()
    }

    fn record(&self, out: &mut Vec<u8>) {
        begin(out, &self.symbol, self.time_ns);
        for level in self.bids.iter().chain(&self.asks) {
            record(out, level.price.value());
            record(out, level.size.value());
        }
    }
}

impl Event for ChainSlice {
    const NAME: &'static str = "option chain";

    fn heap_bytes(&self) -> usize {
        self.symbol.as_str().len() + self.options.capacity() * size_of::<OptionQuote>()
    }

    fn record(&self, out: &mut Vec<u8>) {
        begin(out, &self.symbol, self.time_ns);
        out.extend_from_slice(&self.expiry_ns.to_le_bytes());
        for option in &self.options {
            record(out, option.strike.value());
            out.push(option.right as u8);
            [option.bid, option.ask].into_iter().flatten().for_each(|price| record(out, price.value()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_5_levels_and_chains_are_counted_by_their_capacity() {
        let symbol = Symbol::new("SPX").unwrap();
        let level = Level { price: "1".parse().unwrap(), size: Quantity::ONE };
        let mut bids = Vec::with_capacity(10);
        bids.push(level);
        let book = Book { symbol: symbol.clone(), time_ns: 0, bids, asks: Vec::new() };
        assert_eq!(book.heap_bytes(), 3 + 10 * size_of::<Level>());
        let options = Vec::with_capacity(7);
        let chain = ChainSlice { symbol, time_ns: 0, expiry_ns: 0, options };
        assert_eq!(chain.heap_bytes(), 3 + 7 * size_of::<OptionQuote>());
    }
}
