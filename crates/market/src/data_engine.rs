//! The data engine: it takes market data in, keeps the cache, and publishes what somebody has subscribed to.

use std::collections::BTreeMap;

use turnkeep_bus::{Commanding, Component, Context, Event, Failure, Handle, On, Topic};

use crate::cache::{BARS_MAX, Cache};
use crate::command::{DataCommand, Feed};
use crate::data::{Bar, Book, ChainSlice, Quote, Trade};
use crate::value::Symbol;

/// Bars of the past, as an answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The bars, oldest first.
    pub bars: Vec<Bar>,
}

impl Event for History {
    const NAME: &'static str = "history";

    fn heap_bytes(&self) -> usize {
        self.bars.capacity() * size_of::<Bar>()
    }

    fn record(&self, out: &mut Vec<u8>) {
        self.bars.iter().for_each(|bar| bar.record(out));
    }
}

/// How many want one kind of data, and its topic once it has been published.
struct Wanted<E> {
    count: usize,
    topic: Option<Topic<E>>,
}

impl<E> Default for Wanted<E> {
    fn default() -> Self {
        Self { count: 0, topic: None }
    }
}

/// The data engine.
#[derive(Default)]
pub struct DataEngine {
    bars: BTreeMap<Symbol, Wanted<Bar>>,
    quotes: BTreeMap<Symbol, Wanted<Quote>>,
    trades: BTreeMap<Symbol, Wanted<Trade>>,
    books: BTreeMap<Symbol, Wanted<Book>>,
    chains: BTreeMap<Symbol, Wanted<ChainSlice>>,
}

impl std::fmt::Debug for DataEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataEngine").finish_non_exhaustive()
    }
}

impl Component for DataEngine {}

impl DataEngine {
    fn count(&mut self, feed: Feed, symbol: Symbol) -> &mut usize {
        match feed {
            Feed::Bars => &mut self.bars.entry(symbol).or_default().count,
            Feed::Quotes => &mut self.quotes.entry(symbol).or_default().count,
            Feed::Trades => &mut self.trades.entry(symbol).or_default().count,
            Feed::Books => &mut self.books.entry(symbol).or_default().count,
            Feed::Chains => &mut self.chains.entry(symbol).or_default().count,
        }
    }
}

/// Publishes data on their topic, if anybody wants them.
fn pass_on<E: Event + Clone>(
    wanted: &mut BTreeMap<Symbol, Wanted<E>>,
    ctx: &mut Context<'_>,
    feed: Feed,
    symbol: &Symbol,
    event: &E,
) -> Result<(), Failure> {
    let Some(wanted) = wanted.get_mut(symbol).filter(|wanted| wanted.count > 0) else { return Ok(()) };
    let topic = match wanted.topic {
        Some(topic) => topic,
        None => *wanted.topic.insert(ctx.topic(&feed.topic(symbol))?),
    };
    ctx.publish(topic, event.clone());
    Ok(())
}

fn cache<'a>(ctx: &'a mut Context<'_>) -> Result<&'a mut Cache, Failure> {
    ctx.resource_mut::<Cache>().ok_or_else(|| "the bus has no cache; install the kit first".into())
}

impl On<Bar> for DataEngine {
    fn on(&mut self, ctx: &mut Context<'_>, bar: &Bar) -> Result<(), Failure> {
        let known = cache(ctx)?.known_mut(&bar.symbol);
        if known.bars.len() == BARS_MAX {
            known.bars.pop_front();
        }
        known.bars.push_back(bar.clone());
        known.last = Some(bar.close);
        pass_on(&mut self.bars, ctx, Feed::Bars, &bar.symbol, bar)
    }
}

impl On<Quote> for DataEngine {
    fn on(&mut self, ctx: &mut Context<'_>, quote: &Quote) -> Result<(), Failure> {
        let known = cache(ctx)?.known_mut(&quote.symbol);
        known.quote = Some(quote.clone());
        known.last = Some(quote.bid);
        pass_on(&mut self.quotes, ctx, Feed::Quotes, &quote.symbol, quote)
    }
}

impl On<Trade> for DataEngine {
    fn on(&mut self, ctx: &mut Context<'_>, trade: &Trade) -> Result<(), Failure> {
        let known = cache(ctx)?.known_mut(&trade.symbol);
        known.trade = Some(trade.clone());
        known.last = Some(trade.price);
        pass_on(&mut self.trades, ctx, Feed::Trades, &trade.symbol, trade)
    }
}

impl On<Book> for DataEngine {
    fn on(&mut self, ctx: &mut Context<'_>, book: &Book) -> Result<(), Failure> {
        cache(ctx)?.known_mut(&book.symbol).book = Some(book.clone());
        pass_on(&mut self.books, ctx, Feed::Books, &book.symbol, book)
    }
}

impl On<ChainSlice> for DataEngine {
    fn on(&mut self, ctx: &mut Context<'_>, chain: &ChainSlice) -> Result<(), Failure> {
        cache(ctx)?.known_mut(&chain.symbol).chain = Some(chain.clone());
        pass_on(&mut self.chains, ctx, Feed::Chains, &chain.symbol, chain)
    }
}

impl Handle<DataCommand> for DataEngine {
    fn handle(&mut self, ctx: &mut Commanding<'_, DataCommand>, command: DataCommand) -> Result<(), Failure> {
        match command {
            DataCommand::Subscribe(feed, symbol) => *self.count(feed, symbol) += 1,
            DataCommand::Unsubscribe(feed, symbol) => {
                let count = self.count(feed, symbol);
                *count = count.saturating_sub(1);
            }
            DataCommand::RequestBars(symbol, most) => {
                let known = ctx.resource::<Cache>().and_then(|cache| cache.known(&symbol));
                let bars = known.map_or_else(Vec::new, |known| {
                    let skipped = known.bars.len().saturating_sub(most);
                    known.bars.iter().skip(skipped).cloned().collect()
                });
                ctx.publish_to(&format!("data.history.{symbol}"), History { bars })?;
            }
        }
        Ok(())
    }
}
