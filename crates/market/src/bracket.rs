//! Brackets: an entry whose fill triggers two exits, each of which ends the other. Kept up by maintenance.
//!
//! # How
//!
//! | news | what follows |
//! |---|---|
//! | the entry's first fill | both exits are submitted, at distances from its price, for what is filled |
//! | a later fill of the entry | both exits are made larger |
//! | a part of an exit is filled | the other is made smaller |
//! | an exit is filled | the other is cancelled |
//! | the entry ends unfilled | nothing is left |

use turnkeep_bus::{Context, Failure};

use crate::command::{Trading, TradingCommand};
use crate::instrument::Toward;
use crate::order::{Order, OrderId, OrderKind, OrderNews, OrderRecord, OrderState, Side};
use crate::report::OrderEvent;
use crate::value::{Decimal, Price, Quantity};

/// How far the exits stand from the price of the entry, in percent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Exits {
    /// The loss at which to get out.
    pub stop_percent: Option<Decimal>,
    /// The profit at which to get out.
    pub take_percent: Option<Decimal>,
}

impl Exits {
    /// Whether there is an exit.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.stop_percent.is_some() || self.take_percent.is_some()
    }
}

/// A bracket that is being kept up.
#[derive(Clone, Debug)]
struct Kept {
    entry: OrderId,
    exits: Exits,
    /// The exits that are out, stop first.
    out: Vec<OrderId>,
}

/// The brackets of one trader.
#[derive(Clone, Debug, Default)]
pub struct Brackets {
    kept: Vec<Kept>,
}

impl Brackets {
    /// Submits an entry, and keeps its exits for when it is filled.
    ///
    /// # Errors
    ///
    /// The kit is not installed, or a queue is full.
    pub fn submit(&mut self, ctx: &mut Context<'_>, entry: Order, exits: Exits) -> Result<(), Failure> {
        self.kept.push(Kept { entry: entry.id, exits, out: Vec::new() });
        ctx.trade(TradingCommand::Submit(Box::new(entry)))
    }

    /// Cancels all entries and exits that are still out, and keeps nothing up any more.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn end_all(&mut self, ctx: &mut Context<'_>) -> Result<(), Failure> {
        for kept in std::mem::take(&mut self.kept) {
            for id in kept.out.into_iter().chain([kept.entry]) {
                // One that the engine does not know yet has been sent just now: the cancellation comes behind it.
                if ctx.cache()?.order(id).is_none_or(OrderRecord::is_open) {
                    ctx.trade(TradingCommand::Cancel(id))?;
                }
            }
        }
        Ok(())
    }

    /// Brackets that are kept up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Does what an order event asks for.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit).
    pub fn on_event(&mut self, ctx: &mut Context<'_>, event: &OrderEvent) -> Result<(), Failure> {
        let Some(at) =
            self.kept.iter().position(|kept| kept.entry == event.id || kept.out.contains(&event.id))
        else {
            return Ok(());
        };
        let is_fill = matches!(event.news, OrderNews::Filled { .. });
        if self.kept[at].entry == event.id {
            if is_fill {
                return self.on_entry_fill(ctx, at, event);
            }
            if is_over(event.state) && self.kept[at].out.is_empty() {
                self.kept.remove(at);
            }
        } else if is_fill {
            return self.on_exit_fill(ctx, at, event);
        }
        Ok(())
    }

    fn on_entry_fill(&mut self, ctx: &mut Context<'_>, at: usize, event: &OrderEvent) -> Result<(), Failure> {
        let OrderNews::Filled { price, .. } = event.news else { return Ok(()) };
        let filled = ctx.cache()?.order(event.id).map_or(Quantity::ZERO, OrderRecord::filled);
        if self.kept[at].out.is_empty() {
            let exits = self.exits(ctx, at, event, price)?;
            for (id, kind) in exits {
                self.kept[at].out.push(id);
                let exit = exit(event, id, kind, filled);
                ctx.trade(TradingCommand::Submit(Box::new(exit)))?;
            }
            return Ok(());
        }
        for &id in &self.kept[at].out {
            let kind =
                ctx.cache()?.order(id).filter(|record| record.is_open()).map(|record| record.order.kind);
            if let Some(kind) = kind {
                ctx.trade(TradingCommand::Modify(id, kind, filled))?;
            }
        }
        Ok(())
    }

    /// The exits' numbers and prices, on the instrument's steps.
    fn exits(
        &self,
        ctx: &mut Context<'_>,
        at: usize,
        event: &OrderEvent,
        price: Price,
    ) -> Result<Vec<(OrderId, OrderKind)>, Failure> {
        let Exits { stop_percent, take_percent } = self.kept[at].exits;
        let long = event.side == Side::Buy;
        let level = |percent: Decimal, up: bool| {
            let change = price.value() * percent / Decimal::ONE_HUNDRED;
            let level = price.plus(if up { change } else { -change })?;
            let toward = if up { Toward::Up } else { Toward::Down };
            let instrument = ctx.cache().ok()?.instrument(&event.symbol)?;
            instrument.round_price(level, toward)
        };
        let stop = stop_percent.and_then(|percent| level(percent, !long)).map(OrderKind::Stop);
        let take = take_percent.and_then(|percent| level(percent, long)).map(OrderKind::Limit);
        let mut exits = Vec::new();
        for kind in [stop, take].into_iter().flatten() {
            exits.push((ctx.order_id()?, kind));
        }
        Ok(exits)
    }

    fn on_exit_fill(&mut self, ctx: &mut Context<'_>, at: usize, event: &OrderEvent) -> Result<(), Failure> {
        let left = ctx.cache()?.order(event.id).map_or(Quantity::ZERO, OrderRecord::left);
        for &id in self.kept[at].out.iter().filter(|&&id| id != event.id) {
            let Some(record) = ctx.cache()?.order(id).filter(|record| record.is_open()) else { continue };
            let (kind, done) = (record.order.kind, record.filled());
            let command = if left.is_zero() {
                TradingCommand::Cancel(id)
            } else {
                TradingCommand::Modify(id, kind, done.plus(left))
            };
            ctx.trade(command)?;
        }
        if left.is_zero() {
            self.kept.remove(at);
        }
        Ok(())
    }
}

fn is_over(state: OrderState) -> bool {
    use OrderState::{Cancelled, Denied, Expired, Filled, Rejected};
    matches!(state, Cancelled | Denied | Expired | Filled | Rejected)
}

/// An exit of the position that the event has made.
fn exit(event: &OrderEvent, id: OrderId, kind: OrderKind, quantity: Quantity) -> Order {
    Order {
        id,
        trader: event.trader.clone(),
        symbol: event.symbol.clone(),
        side: event.side.other(),
        quantity,
        kind,
        good_till_ns: None,
        // The entry's number names the group.
        group: Some(event.id.0),
    }
}
