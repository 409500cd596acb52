//! The trend strategy: long while the price stands above its exponential average.

use turnkeep_bus::{Arrived, Component, Context, Failure, Maintenance, On};

use crate::command::{DataCommand, Feed, Trading, TradingCommand};
use crate::data::Bar;
use crate::indicator::{BadPeriod, Exponential};
use crate::order::{Order, OrderKind, Side};
use crate::value::{Quantity, Symbol};

/// The strategy.
#[derive(Debug)]
pub struct Trend {
    trader: Symbol,
    symbol: Symbol,
    average: Exponential,
}

impl Trend {
    /// A strategy of that name, for an instrument, over so many bars.
    ///
    /// # Errors
    ///
    /// The period is none.
    pub fn new(trader: Symbol, symbol: Symbol, period: usize) -> Result<Self, BadPeriod> {
        Ok(Self { trader, symbol, average: Exponential::new(period)? })
    }
}

impl Component for Trend {
    const MAINTENANCE: Maintenance = Maintenance::Always;

    fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        ctx.ask_data(DataCommand::Subscribe(Feed::Bars, self.symbol.clone()))
    }

    fn maintain(&mut self, _: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        if let Some(bar) = event.get::<Bar>() {
            self.average.update(bar.close);
        }
        Ok(())
    }
}

impl On<Bar> for Trend {
    fn on(&mut self, ctx: &mut Context<'_>, bar: &Bar) -> Result<(), Failure> {
        use rust_decimal::prelude::ToPrimitive;
        let (Some(average), Some(close)) = (self.average.value(), bar.close.value().to_f64()) else {
            return Ok(());
        };
        let held = ctx.cache()?.position(&self.trader, &self.symbol).quantity();
        let side = match (close > average, held.is_zero()) {
            (true, true) => Side::Buy,
            (false, false) => Side::Sell,
            _ => return Ok(()),
        };
        let quantity = if side == Side::Buy { Quantity::ONE } else { Quantity::new(held)? };
        let (trader, symbol) = (self.trader.clone(), self.symbol.clone());
        let kind = OrderKind::Market;
        let order = Order {
            id: ctx.order_id()?,
            trader,
            symbol,
            side,
            quantity,
            kind,
            good_till_ns: None,
            group: None,
        };
        ctx.trade(TradingCommand::Submit(Box::new(order)))
    }
}
