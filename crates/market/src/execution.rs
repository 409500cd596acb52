//! The execution engine: it checks orders, gives them to the venue, and keeps orders, positions and account.

use turnkeep_bus::{Commanding, Component, ComponentId, Context, Failure, Handle, On, Schedule, Timer};

use crate::cache::Cache;
use crate::command::TradingCommand;
use crate::order::{Order, OrderId, OrderNews, OrderRecord};
use crate::report::{LimitsEvent, OrderEvent, PositionEvent, Report};
use crate::risk::{Denial, RiskLimits};
use crate::value::Symbol;
use crate::venue::Venue;

/// The topic of a trader's order events.
#[must_use]
pub fn order_topic(trader: &Symbol) -> String {
    format!("events.order.{trader}")
}

/// The topic of a trader's position events.
#[must_use]
pub fn position_topic(trader: &Symbol) -> String {
    format!("events.position.{trader}")
}

/// The execution engine.
#[derive(Debug)]
pub struct ExecutionEngine {
    venue: ComponentId<Venue>,
    limits: RiskLimits,
}

impl ExecutionEngine {
    /// An engine that trades at a venue within limits.
    #[must_use]
    pub const fn new(venue: ComponentId<Venue>, limits: RiskLimits) -> Self {
        Self { venue, limits }
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &RiskLimits {
        &self.limits
    }

    fn submit(&mut self, ctx: &mut Commanding<'_, TradingCommand>, order: Order) -> Result<(), Failure> {
        let id = order.id;
        if self.accept(ctx, order)? {
            // The venue is asked in a step of its own, before the next command.
            ctx.capture(TradingCommand::Route(id)).map_err(|_| "the queue takes no children")?;
        }
        Ok(())
    }

    /// Checks an order and keeps it; whether it may go to the venue.
    fn accept(&mut self, ctx: &mut Context<'_>, order: Order) -> Result<bool, Failure> {
        let now_ns = ctx.now_ns();
        let id = order.id;
        let cache = cache(ctx)?;
        if cache.order(id).is_some() {
            let record = OrderRecord::new(order);
            return publish(ctx, &record, OrderNews::Denied, now_ns, Denial::NumberTaken.to_string())
                .map(|()| false);
        }
        let checked = self.limits.check(&order, cache, now_ns);
        let good_till_ns = order.good_till_ns;
        cache.add_order(OrderRecord::new(order));
        match checked {
            Ok(()) => {
                if let Some(last_ns) = good_till_ns {
                    // The timer fires after the data of the last instant: that instant is included.
                    let schedule =
                        Schedule { first_ns: last_ns.max(now_ns), interval_ns: None, stop_ns: None };
                    ctx.set_timer(&timer_name(id), schedule)?;
                }
                self.apply(ctx, id, OrderNews::Submitted, now_ns, String::new())?;
                Ok(true)
            }
            Err(denial) => {
                self.apply(ctx, id, OrderNews::Denied, now_ns, denial.to_string())?;
                Ok(false)
            }
        }
    }

    fn route(&mut self, ctx: &mut Context<'_>, id: OrderId) -> Result<(), Failure> {
        let now_ns = ctx.now_ns();
        let Some(order) = cache(ctx)?.order(id).map(|record| record.order.clone()) else { return Ok(()) };
        let report = ctx.with(self.venue, |venue, _| venue.submit(order, now_ns))?;
        self.take(ctx, report)
    }

    fn cancel(&mut self, ctx: &mut Context<'_>, id: OrderId) -> Result<(), Failure> {
        let now_ns = ctx.now_ns();
        let is_open = cache(ctx)?.order(id).is_some_and(OrderRecord::is_open);
        if !is_open {
            return Ok(());
        }
        self.apply(ctx, id, OrderNews::CancelAsked, now_ns, String::new())?;
        let report = ctx.with(self.venue, |venue, _| venue.cancel(id, now_ns))?;
        self.take(ctx, report)
    }

    fn cancel_where(&mut self, ctx: &mut Context<'_>, which: impl Fn(&Order) -> bool) -> Result<(), Failure> {
        let open = cache(ctx)?.open_orders().filter(|record| which(&record.order));
        let ids: Vec<OrderId> = open.map(|record| record.order.id).collect();
        ids.into_iter().try_for_each(|id| self.cancel(ctx, id))
    }

    fn take(&mut self, ctx: &mut Context<'_>, report: Report) -> Result<(), Failure> {
        let Report { id, time_ns, news, reason } = report;
        self.apply(ctx, id, news, time_ns, reason)
    }

    /// Changes order, position and account at once, then tells (COMP-5).
    fn apply(
        &mut self,
        ctx: &mut Context<'_>,
        id: OrderId,
        news: OrderNews,
        time_ns: u64,
        reason: String,
    ) -> Result<(), Failure> {
        let cache = cache(ctx)?;
        let record = cache.order_mut(id).ok_or("news of an order that nobody knows")?;
        if !record.on(news)? {
            return Ok(());
        }
        let record = record.clone();
        let ended = !record.is_open();
        if ended {
            cache.on_ended(id);
        }
        let position = fill_position(cache, &record, news, time_ns);
        if ended && record.order.good_till_ns.is_some() {
            ctx.cancel_timer(&timer_name(id));
        }
        publish(ctx, &record, news, time_ns, reason)?;
        if let Some(event) = position {
            ctx.publish_to(&position_topic(&record.order.trader), event)?;
        }
        Ok(())
    }
}

fn timer_name(id: OrderId) -> String {
    format!("good-till-{}", id.0)
}

fn fill_position(
    cache: &mut Cache,
    record: &OrderRecord,
    news: OrderNews,
    time_ns: u64,
) -> Option<PositionEvent> {
    let OrderNews::Filled { quantity, price, fee } = news else { return None };
    let Order { trader, symbol, side, .. } = &record.order;
    cache.account_mut().fill(*side, quantity, price, fee);
    let position = cache.position_mut(trader, symbol);
    let change = position.fill(*side, quantity, price, fee);
    let (quantity, realized) = (position.quantity(), position.realized());
    Some(PositionEvent {
        trader: trader.clone(),
        symbol: symbol.clone(),
        time_ns,
        change,
        quantity,
        realized,
    })
}

fn publish(
    ctx: &mut Context<'_>,
    record: &OrderRecord,
    news: OrderNews,
    time_ns: u64,
    reason: String,
) -> Result<(), Failure> {
    let Order { id, trader, symbol, side, .. } = record.order.clone();
    let topic = order_topic(&trader);
    let state = record.state();
    Ok(ctx.publish_to(&topic, OrderEvent { id, trader, symbol, side, time_ns, news, state, reason })?)
}

fn cache<'a>(ctx: &'a mut Context<'_>) -> Result<&'a mut Cache, Failure> {
    ctx.resource_mut::<Cache>().ok_or_else(|| "the bus has no cache; install the kit first".into())
}

impl Component for ExecutionEngine {
    fn on_timer(&mut self, ctx: &mut Context<'_>, timer: &Timer) -> Result<(), Failure> {
        let Some(number) = timer.name.strip_prefix("good-till-").and_then(|number| number.parse().ok())
        else {
            return Ok(());
        };
        let due_ns = timer.due_ns;
        match ctx.with(self.venue, |venue, _| venue.expire(OrderId(number), due_ns))? {
            Some(report) => self.take(ctx, report),
            None => Ok(()),
        }
    }
}

impl On<Report> for ExecutionEngine {
    fn on(&mut self, ctx: &mut Context<'_>, report: &Report) -> Result<(), Failure> {
        self.take(ctx, report.clone())
    }
}

impl On<LimitsEvent> for ExecutionEngine {
    fn on(&mut self, _: &mut Context<'_>, limits: &LimitsEvent) -> Result<(), Failure> {
        self.limits.order_quantity = Some(limits.order_quantity);
        self.limits.killed = !limits.entries;
        Ok(())
    }
}

impl Handle<TradingCommand> for ExecutionEngine {
    fn handle(
        &mut self,
        ctx: &mut Commanding<'_, TradingCommand>,
        command: TradingCommand,
    ) -> Result<(), Failure> {
        match command {
            TradingCommand::Submit(order) => self.submit(ctx, *order),
            TradingCommand::Route(id) => self.route(ctx, id),
            TradingCommand::Cancel(id) => self.cancel(ctx, id),
            TradingCommand::CancelAll(trader) => self.cancel_where(ctx, |order| order.trader == trader),
            TradingCommand::Kill => {
                self.limits.killed = true;
                self.cancel_where(ctx, |_| true)
            }
            TradingCommand::Modify(id, kind, quantity) => {
                let now_ns = ctx.now_ns();
                match ctx.with(self.venue, |venue, _| venue.modify(id, kind, quantity, now_ns))? {
                    Some(report) => self.take(ctx, report),
                    None => Ok(()),
                }
            }
        }
    }
}
