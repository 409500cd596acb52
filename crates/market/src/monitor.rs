//! The risk monitor: it follows positions and publishes what strategies may still do.

use turnkeep_bus::{Component, Context, Failure, On};

use crate::report::{LimitsEvent, PositionEvent};
use crate::value::{Decimal, Quantity};

/// The topic of the limits.
pub const LIMITS: &str = "risk.limits";

/// A monitor that stops new entries once the positions it hears of have lost too much.
#[derive(Debug)]
pub struct Monitor {
    order_quantity: Quantity,
    loss_max: Decimal,
    /// What each position has gained so far, by trader and instrument.
    gains: std::collections::BTreeMap<(String, String), Decimal>,
    /// What it has said last.
    entries: bool,
}

impl Monitor {
    /// A monitor that allows orders of that size until so much is lost.
    #[must_use]
    pub const fn new(order_quantity: Quantity, loss_max: Decimal) -> Self {
        Self { order_quantity, loss_max, gains: std::collections::BTreeMap::new(), entries: true }
    }

    fn tell(&self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        let (order_quantity, entries) = (self.order_quantity, self.entries);
        Ok(ctx.publish_to(LIMITS, LimitsEvent { order_quantity, entries })?)
    }
}

impl Component for Monitor {
    fn on_start(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        self.tell(ctx)
    }
}

impl On<PositionEvent> for Monitor {
    fn on(&mut self, ctx: &mut Context<'_>, position: &PositionEvent) -> Result<(), Failure> {
        let key = (position.trader.to_string(), position.symbol.to_string());
        self.gains.insert(key, position.realized);
        let gain: Decimal = self.gains.values().copied().sum();
        let entries = gain > -self.loss_max;
        if entries == self.entries {
            return Ok(());
        }
        self.entries = entries;
        self.tell(ctx)
    }
}
