//! The kit: engines and venue on a bus, and the ways in for market data.

use turnkeep_bus::{
    ComponentId, Context, Event, Failure, On, QueueKind, SendError, SubscribeError, SubscriptionId,
};

use crate::account::Account;
use crate::cache::Cache;
use crate::command::{Desk, Feed};
use crate::crossover::{Crossover, CrossoverOptions};
use crate::data::{Bar, Book, ChainSlice, Quote, Trade};
use crate::data_engine::DataEngine;
use crate::execution::{ExecutionEngine, order_topic};
use crate::instrument::Instrument;
use crate::monitor::{LIMITS, Monitor};
use crate::report::{LimitsEvent, PositionEvent, Report};
use crate::risk::RiskLimits;
use crate::trend::Trend;
use crate::value::Symbol;
use crate::venue::{REPORTS, Venue, VenueOptions};

/// What the kit is told.
#[derive(Clone, Debug, Default)]
pub struct KitOptions {
    /// What can be traded.
    pub instruments: Vec<Instrument>,
    /// How the venue works.
    pub venue: VenueOptions,
    /// What orders may be.
    pub risk: RiskLimits,
    /// The account.
    pub account: Account,
}

/// The kit on one bus.
#[derive(Clone, Copy, Debug)]
pub struct Kit {
    /// The data engine.
    pub data: ComponentId<DataEngine>,
    /// The execution engine.
    pub execution: ComponentId<ExecutionEngine>,
    /// The venue.
    pub venue: ComponentId<Venue>,
}

/// The way in for market data to the venue, by kind.
const TO_VENUE: [&str; 3] = ["venue.bars", "venue.quotes", "venue.trades"];
/// The way in for market data to the data engine, by kind.
const TO_ENGINE: [&str; 5] =
    ["engine.bars", "engine.quotes", "engine.trades", "engine.books", "engine.chains"];

impl Kit {
    /// Puts cache, engines and venue on a bus, and starts them.
    ///
    /// # Errors
    ///
    /// A name or an address of the kit is taken.
    pub fn install(ctx: &mut Context<'_>, options: KitOptions) -> Result<Self, Failure> {
        let mut cache = Cache::new(options.account);
        options.instruments.iter().cloned().for_each(|instrument| cache.add_instrument(instrument));
        ctx.set_resource(cache);
        let venue = ctx.register("venue", Venue::new(options.venue, options.instruments))?;
        let data = ctx.register("data engine", DataEngine::default())?;
        let execution = ctx.register("execution engine", ExecutionEngine::new(venue, options.risk))?;
        let desk = Desk {
            data: ctx.queue(QueueKind::Data, data),
            trading: ctx.queue(QueueKind::Trading, execution),
            orders: 0,
        };
        ctx.set_resource(desk);
        ctx.endpoint::<_, Bar>(TO_VENUE[0], venue)?;
        ctx.endpoint::<_, Quote>(TO_VENUE[1], venue)?;
        ctx.endpoint::<_, Trade>(TO_VENUE[2], venue)?;
        ctx.endpoint::<_, Bar>(TO_ENGINE[0], data)?;
        ctx.endpoint::<_, Quote>(TO_ENGINE[1], data)?;
        ctx.endpoint::<_, Trade>(TO_ENGINE[2], data)?;
        ctx.endpoint::<_, Book>(TO_ENGINE[3], data)?;
        ctx.endpoint::<_, ChainSlice>(TO_ENGINE[4], data)?;
        ctx.endpoint::<_, Report>(REPORTS, execution)?;
        for component in [venue.key(), data.key(), execution.key()] {
            ctx.start(component)?;
        }
        Ok(Self { data, execution, venue })
    }

    /// Feeds a bar: the venue matches against it, then the data engine publishes it.
    ///
    /// # Errors
    ///
    /// An engine has failed.
    pub fn bar(ctx: &mut Context<'_>, bar: &Bar) -> Result<(), SendError> {
        ctx.send(TO_VENUE[0], bar)?;
        ctx.send(TO_ENGINE[0], bar)
    }

    /// Feeds a quote, as [`bar`](Self::bar).
    ///
    /// # Errors
    ///
    /// An engine has failed.
    pub fn quote(ctx: &mut Context<'_>, quote: &Quote) -> Result<(), SendError> {
        ctx.send(TO_VENUE[1], quote)?;
        ctx.send(TO_ENGINE[1], quote)
    }

    /// Feeds a trade, as [`bar`](Self::bar).
    ///
    /// # Errors
    ///
    /// An engine has failed.
    pub fn trade(ctx: &mut Context<'_>, trade: &Trade) -> Result<(), SendError> {
        ctx.send(TO_VENUE[2], trade)?;
        ctx.send(TO_ENGINE[2], trade)
    }

    /// Feeds a book. The venue does not match against books.
    ///
    /// # Errors
    ///
    /// The engine has failed.
    pub fn book(ctx: &mut Context<'_>, book: &Book) -> Result<(), SendError> {
        ctx.send(TO_ENGINE[3], book)
    }

    /// Feeds a slice of an option chain. The venue does not match against it.
    ///
    /// # Errors
    ///
    /// The engine has failed.
    pub fn chain(ctx: &mut Context<'_>, chain: &ChainSlice) -> Result<(), SendError> {
        ctx.send(TO_ENGINE[4], chain)
    }

    /// Adds a crossover strategy and starts it.
    ///
    /// # Errors
    ///
    /// Its name is taken, or its periods are none.
    pub fn crossover(
        ctx: &mut Context<'_>,
        options: CrossoverOptions,
    ) -> Result<ComponentId<Crossover>, Failure> {
        let (trader, symbol) = (options.trader.clone(), options.symbol.clone());
        let strategy = ctx.register(trader.as_str(), Crossover::new(options)?)?;
        ctx.subscribe::<_, Bar>(strategy, &Feed::Bars.topic(&symbol), 0)?;
        ctx.subscribe::<_, crate::report::OrderEvent>(strategy, &order_topic(&trader), 0)?;
        ctx.subscribe::<_, LimitsEvent>(strategy, LIMITS, 0)?;
        ctx.start(strategy)?;
        Ok(strategy)
    }

    /// Adds a trend strategy and starts it.
    ///
    /// # Errors
    ///
    /// Its name is taken, or its period is none.
    pub fn trend(
        ctx: &mut Context<'_>,
        trader: &Symbol,
        symbol: &Symbol,
        period: usize,
    ) -> Result<ComponentId<Trend>, Failure> {
        let strategy = ctx.register(trader.as_str(), Trend::new(trader.clone(), symbol.clone(), period)?)?;
        ctx.subscribe::<_, Bar>(strategy, &Feed::Bars.topic(symbol), 0)?;
        ctx.start(strategy)?;
        Ok(strategy)
    }

    /// Adds a risk monitor, which the execution engine obeys, and starts it.
    ///
    /// # Errors
    ///
    /// There is one already.
    pub fn monitor(&self, ctx: &mut Context<'_>, monitor: Monitor) -> Result<ComponentId<Monitor>, Failure> {
        let id = ctx.register("risk monitor", monitor)?;
        ctx.subscribe::<_, PositionEvent>(id, "events.position.*", 10)?;
        ctx.subscribe::<_, LimitsEvent>(self.execution, LIMITS, 100)?;
        ctx.start(id)?;
        Ok(id)
    }

    /// Lets a component take one kind of market data.
    ///
    /// # Errors
    ///
    /// As [`Context::subscribe`].
    pub fn listen<C: On<E>, E: Event>(
        ctx: &mut Context<'_>,
        component: ComponentId<C>,
        feed: Feed,
        symbol: &Symbol,
    ) -> Result<SubscriptionId, SubscribeError> {
        ctx.subscribe::<C, E>(component, &feed.topic(symbol), 0)
    }
}
