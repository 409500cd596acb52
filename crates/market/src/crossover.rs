//! The crossover strategy: long while the fast average of the closes stands above the slow one.

use std::cmp::Ordering;

use turnkeep_bus::{Arrived, Component, Context, Failure, Maintenance, On};

use crate::bracket::{Brackets, Exits};
use crate::command::{DataCommand, Feed, Trading, TradingCommand};
use crate::data::Bar;
use crate::indicator::{Average, BadPeriod};
use crate::order::{Order, OrderKind, Side};
use crate::report::{LimitsEvent, OrderEvent};
use crate::value::{Quantity, Symbol};

/// What a crossover strategy is told.
#[derive(Clone, Debug)]
pub struct CrossoverOptions {
    /// Its name, for its orders and topics.
    pub trader: Symbol,
    /// What it trades.
    pub symbol: Symbol,
    /// The period of the fast average.
    pub fast: usize,
    /// The period of the slow average.
    pub slow: usize,
    /// How much it buys.
    pub quantity: Quantity,
    /// Exits beside the crossing, if any.
    pub exits: Exits,
}

/// The strategy. At each close it compares two averages; when the fast one rises above the slow one it buys, when it
/// falls below it sells what it has. A crossing needs two bars in a row on which both averages exist.
#[derive(Debug)]
pub struct Crossover {
    options: CrossoverOptions,
    fast: Average,
    slow: Average,
    /// How they compared at this bar's close, and at the one before.
    now: Option<Ordering>,
    before: Option<Ordering>,
    brackets: Brackets,
    /// What the risk monitor allows, once it has said so.
    limits: Option<LimitsEvent>,
}

impl Crossover {
    /// A strategy.
    ///
    /// # Errors
    ///
    /// A period is zero, too long, or the fast one is not below the slow one.
    pub fn new(options: CrossoverOptions) -> Result<Self, BadPeriod> {
        let (fast, slow) = (Average::new(options.fast)?, Average::new(options.slow)?);
        if options.fast >= options.slow {
            return Err(BadPeriod { period: options.fast });
        }
        Ok(Self { options, fast, slow, now: None, before: None, brackets: Brackets::default(), limits: None })
    }

    fn buy(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        let allowed = self.limits.as_ref();
        if allowed.is_some_and(|limits| !limits.entries) {
            return Ok(());
        }
        let quantity =
            allowed.map_or(self.options.quantity, |limits| self.options.quantity.min(limits.order_quantity));
        let entry = self.order(ctx, Side::Buy, quantity)?;
        self.brackets.submit(ctx, entry, self.options.exits)
    }

    fn sell(&mut self, ctx: &mut Context<'_>, held: Quantity) -> Result<(), Failure> {
        self.brackets.end_all(ctx)?;
        let exit = self.order(ctx, Side::Sell, held)?;
        ctx.trade(TradingCommand::Submit(Box::new(exit)))
    }

    fn order(&self, ctx: &mut Context<'_>, side: Side, quantity: Quantity) -> Result<Order, Failure> {
        Ok(Order {
            id: ctx.order_id()?,
            trader: self.options.trader.clone(),
            symbol: self.options.symbol.clone(),
            side,
            quantity,
            kind: OrderKind::Market,
            good_till_ns: None,
            group: None,
        })
    }
}

impl Component for Crossover {
    const MAINTENANCE: Maintenance = Maintenance::Always;

    fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        ctx.ask_data(DataCommand::Subscribe(Feed::Bars, self.options.symbol.clone()))
    }

    fn on_reset(&mut self, _: &mut Context<'_>) -> Result<(), Failure> {
        *self = Self::new(self.options.clone())?;
        Ok(())
    }

    fn maintain(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        if let Some(bar) = event.get::<Bar>() {
            self.fast.update(bar.close);
            self.slow.update(bar.close);
            self.before = std::mem::replace(&mut self.now, self.fast.compare(&self.slow));
        } else if let Some(order) = event.get::<OrderEvent>() {
            self.brackets.on_event(ctx, order)?;
        }
        Ok(())
    }
}

impl On<Bar> for Crossover {
    fn on(&mut self, ctx: &mut Context<'_>, _: &Bar) -> Result<(), Failure> {
        let (Some(before), Some(now)) = (self.before, self.now) else { return Ok(()) };
        let held = ctx.cache()?.position(&self.options.trader, &self.options.symbol).quantity();
        if before != Ordering::Greater && now == Ordering::Greater && held.is_zero() {
            return self.buy(ctx);
        }
        if before != Ordering::Less && now == Ordering::Less && !held.is_zero() {
            return self.sell(ctx, Quantity::new(held)?);
        }
        Ok(())
    }
}

impl On<OrderEvent> for Crossover {
    fn on(&mut self, _: &mut Context<'_>, _: &OrderEvent) -> Result<(), Failure> {
        Ok(())
    }
}

impl On<LimitsEvent> for Crossover {
    fn on(&mut self, _: &mut Context<'_>, limits: &LimitsEvent) -> Result<(), Failure> {
        self.limits = Some(limits.clone());
        Ok(())
    }
}
