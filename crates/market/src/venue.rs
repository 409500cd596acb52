//! The venue: it matches orders against bars, quotes and trades that are replayed.
//!
//! # What fills at which price
//!
//! | order | bar | quote, trade |
//! |---|---|---|
//! | market | the open | the far side of the quote, the price of the trade |
//! | limit | the open if that is as good; else the limit if the bar reaches it | the price if it is as good |
//! | stop | the open if that is beyond it; else the stop if the bar reaches it | the price once it is reached |
//!
//! Market and stop orders pay the slippage, in ticks. An order is matched from the first item after the one at which it
//! came in; a stop before a limit of the same group, because nobody knows which price a bar saw first; and one order
//! of a group an item, so that the other can be cancelled before the next. Of a bar's volume, or the size of a quote
//! or trade, all orders together get at most the share that is set, rounded down to the lot.

use std::collections::BTreeMap;

use turnkeep_bus::{Component, Context, Failure, On};

use crate::data::{Bar, Quote, Trade};
use crate::instrument::Instrument;
use crate::order::{Order, OrderId, OrderKind, OrderNews, Side};
use crate::report::{Fill, Report};
use crate::value::{Decimal, Price, Quantity, Symbol};

/// Where the venue sends what it reports.
pub const REPORTS: &str = "execution.reports";

/// How a venue works.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct VenueOptions {
    /// What a fill costs, as a share of its value.
    pub fee_rate: Decimal,
    /// What each unit costs.
    pub fee_unit: Decimal,
    /// By how many ticks market and stop orders are filled worse.
    pub slippage_ticks: u32,
    /// The most of a bar's volume, or of a size, that orders get together; none for all they want.
    pub volume_share: Option<Decimal>,
}

/// An order at the venue.
#[derive(Clone, Debug)]
struct Working {
    order: Order,
    left: Quantity,
    /// A stop whose price was reached fills like a market order from then on.
    triggered: bool,
}

/// The prices of one item.
#[derive(Clone, Copy)]
struct Prices {
    time_ns: u64,
    /// The first price for a buy and for a sell.
    first: [Price; 2],
    high: Price,
    low: Price,
    size: Quantity,
}

/// A simulated venue.
#[derive(Debug)]
pub struct Venue {
    options: VenueOptions,
    instruments: BTreeMap<Symbol, Instrument>,
    /// By number of arrival: the order of matching.
    working: BTreeMap<u64, Working>,
    numbers: BTreeMap<OrderId, u64>,
    /// The newest arrival.
    arrivals: u64,
}

impl Component for Venue {}

impl Venue {
    /// A venue for some instruments.
    #[must_use]
    pub fn new(options: VenueOptions, instruments: impl IntoIterator<Item = Instrument>) -> Self {
        let instruments =
            instruments.into_iter().map(|instrument| (instrument.symbol.clone(), instrument)).collect();
        Self { options, instruments, working: BTreeMap::new(), numbers: BTreeMap::new(), arrivals: 0 }
    }

    /// Takes an order, or refuses it.
    pub fn submit(&mut self, order: Order, time_ns: u64) -> Report {
        let id = order.id;
        if !self.instruments.contains_key(&order.symbol) {
            let reason = "the venue does not trade the instrument".into();
            return Report { id, time_ns, news: OrderNews::Rejected, reason };
        }
        self.arrivals += 1;
        self.numbers.insert(id, self.arrivals);
        let left = order.quantity;
        self.working.insert(self.arrivals, Working { order, left, triggered: false });
        Report { id, time_ns, news: OrderNews::Accepted, reason: String::new() }
    }

    /// Cancels an order, or says that it is too late.
    pub fn cancel(&mut self, id: OrderId, time_ns: u64) -> Report {
        match self.take(id) {
            Some(_) => Report { id, time_ns, news: OrderNews::Cancelled, reason: String::new() },
            None => {
                let reason = "the order is not at the venue any more".into();
                Report { id, time_ns, news: OrderNews::CancelRejected, reason }
            }
        }
    }

    /// Changes an order; none if it is not there any more, or more of it is done already.
    pub fn modify(
        &mut self,
        id: OrderId,
        kind: OrderKind,
        quantity: Quantity,
        time_ns: u64,
    ) -> Option<Report> {
        let working = self.working.get_mut(self.numbers.get(&id)?)?;
        let done = working.order.quantity.minus(working.left);
        if quantity <= done {
            return None;
        }
        working.left = quantity.minus(done);
        (working.order.kind, working.order.quantity) = (kind, quantity);
        Some(Report { id, time_ns, news: OrderNews::Modified { kind, quantity }, reason: String::new() })
    }

    /// Ends an order whose time is over; none if it is not there any more.
    pub fn expire(&mut self, id: OrderId, time_ns: u64) -> Option<Report> {
        self.take(id)?;
        Some(Report { id, time_ns, news: OrderNews::Expired, reason: String::new() })
    }

    /// Orders that are worked on.
    #[must_use]
    pub fn working(&self) -> usize {
        self.working.len()
    }

    fn take(&mut self, id: OrderId) -> Option<Working> {
        self.working.remove(&self.numbers.remove(&id)?)
    }

    /// Matches all orders for an instrument against the prices of one item, and reports each fill at once.
    fn match_all(&mut self, ctx: &mut Context<'_>, symbol: &Symbol, prices: Prices) -> Result<(), Failure> {
        let Some(instrument) = self.instruments.get(symbol) else { return Ok(()) };
        let mut room = match self.options.volume_share {
            Some(share) => instrument.round_quantity(Quantity::new(prices.size.value() * share)?),
            None => Quantity::new(Decimal::MAX)?,
        };
        let mut groups = Vec::new();
        for stops in [true, false] {
            for number in self.due(symbol, stops) {
                let Some(working) = self.working.get_mut(&number) else { continue };
                let group = working.order.group;
                if group.is_some() && groups.contains(&group) {
                    continue;
                }
                let instrument = &self.instruments[symbol];
                let Some(fill) = fill(&self.options, instrument, working, &prices, room) else { continue };
                room = room.minus(fill.quantity);
                groups.push(group);
                working.left = working.left.minus(fill.quantity);
                let (id, done) = (working.order.id, working.left.is_zero());
                if done {
                    self.take(id);
                }
                let Fill { quantity, price, fee } = fill;
                let news = OrderNews::Filled { quantity, price, fee };
                ctx.send(REPORTS, &Report { id, time_ns: prices.time_ns, news, reason: String::new() })?;
            }
        }
        Ok(())
    }

    /// The numbers of the orders for an instrument, stops or the others.
    fn due(&self, symbol: &Symbol, stops: bool) -> Vec<u64> {
        let is = |working: &Working| {
            working.order.symbol == *symbol && matches!(working.order.kind, OrderKind::Stop(_)) == stops
        };
        self.working.iter().filter(|(_, working)| is(working)).map(|(&number, _)| number).collect()
    }
}

/// What is done of an order at these prices, within the room that is left.
fn fill(
    options: &VenueOptions,
    instrument: &Instrument,
    working: &mut Working,
    prices: &Prices,
    room: Quantity,
) -> Option<Fill> {
    let side = working.order.side;
    let first = prices.first[side as usize];
    let (price, slips) = match working.order.kind {
        OrderKind::Market => (first, true),
        OrderKind::Stop(_) if working.triggered => (first, true),
        OrderKind::Stop(stop) => {
            let price = reach(side, first, stop, prices)?;
            working.triggered = true;
            (price, true)
        }
        OrderKind::Limit(limit) => (reach(side.other(), first, limit, prices)?, false),
    };
    let quantity = instrument.round_quantity(working.left.min(room));
    if quantity.is_zero() {
        return None;
    }
    let price = if slips { slip(options, instrument, side, price) } else { price };
    let fee = quantity.value() * (options.fee_unit + price.value() * options.fee_rate);
    Some(Fill { quantity, price, fee })
}

/// The price at which a level was first met by a market that goes up to it (`Buy`) or down to it (`Sell`).
fn reach(side: Side, first: Price, level: Price, prices: &Prices) -> Option<Price> {
    match side {
        Side::Buy if first >= level => Some(first),
        Side::Buy if prices.high >= level => Some(level),
        Side::Sell if first <= level => Some(first),
        Side::Sell if prices.low <= level => Some(level),
        _ => None,
    }
}

fn slip(options: &VenueOptions, instrument: &Instrument, side: Side, price: Price) -> Price {
    let Some(tick) = instrument.tick else { return price };
    let change = tick * Decimal::from(options.slippage_ticks);
    // A price that would slip to nothing stays where it is.
    let change = if side == Side::Buy { change } else { -change };
    price.plus(change).unwrap_or(price)
}

impl On<Bar> for Venue {
    fn on(&mut self, ctx: &mut Context<'_>, bar: &Bar) -> Result<(), Failure> {
        let first = [bar.open; 2];
        let prices = Prices { time_ns: bar.time_ns, first, high: bar.high, low: bar.low, size: bar.volume };
        self.match_all(ctx, &bar.symbol, prices)
    }
}

impl On<Quote> for Venue {
    fn on(&mut self, ctx: &mut Context<'_>, quote: &Quote) -> Result<(), Failure> {
        let (ask, bid) = (quote.ask, quote.bid);
        let size = quote.ask_size.min(quote.bid_size);
        let prices = Prices { time_ns: quote.time_ns, first: [ask, bid], high: bid, low: ask, size };
        self.match_all(ctx, &quote.symbol, prices)
    }
}

impl On<Trade> for Venue {
    fn on(&mut self, ctx: &mut Context<'_>, trade: &Trade) -> Result<(), Failure> {
        let price = trade.price;
        let prices =
            Prices { time_ns: trade.time_ns, first: [price; 2], high: price, low: price, size: trade.size };
        self.match_all(ctx, &trade.symbol, prices)
    }
}
