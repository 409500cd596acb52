//! The kit through its public face: fills, partial fills, brackets, races, risk, several instruments, several
//! strategies.
#![allow(clippy::unwrap_used, reason = "tests end by it")]

use std::sync::{Arc, Mutex};

use turnkeep_bus::{Bus, Component, ComponentId, Context, Failure, On, Replay};
use turnkeep_market::{
    Account, Bar, Book, ChainSlice, CrossoverOptions, DataCommand, Decimal, Exits, Feed, Instrument, Kit,
    KitOptions, Level, LimitsEvent, Monitor, OptionQuote, Order, OrderEvent, OrderId, OrderKind, OrderNews,
    OrderState, Price, Quantity, Quote, Right, RiskLimits, Side, Symbol, Trade, Trading, TradingCommand,
    VenueOptions, decimal, order_topic,
};

fn symbol(text: &str) -> Symbol {
    Symbol::new(text).unwrap()
}

fn price(text: &str) -> Price {
    text.parse().unwrap()
}

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// What a trader has heard of its orders.
type Heard = Arc<Mutex<Vec<(u64, OrderState, String)>>>;

/// A trader that only listens; the test trades for it.
struct Ear(Heard);

impl Component for Ear {}

impl On<OrderEvent> for Ear {
    fn on(&mut self, _: &mut Context<'_>, event: &OrderEvent) -> Result<(), Failure> {
        let what = match event.news {
            OrderNews::Filled { quantity, price, fee } => format!("{quantity}@{price} fee {fee}"),
            _ => event.reason.clone(),
        };
        self.0.lock().unwrap().push((event.id.0, event.state, what));
        Ok(())
    }
}

impl On<Bar> for Ear {
    fn on(&mut self, _: &mut Context<'_>, _: &Bar) -> Result<(), Failure> {
        Ok(())
    }
}

struct Market {
    replay: Replay,
    kit: Kit,
    heard: Heard,
    ear: ComponentId<Ear>,
    now_ns: u64,
    orders: u64,
}

impl Market {
    fn new(options: KitOptions) -> Self {
        let mut replay = Replay::new(Bus::builder().digest().build());
        let kit = Kit::install(&mut replay.context(), options).unwrap();
        let heard = Heard::default();
        let ear = replay.context().register("ear", Ear(heard.clone())).unwrap();
        replay.context().subscribe::<Ear, OrderEvent>(ear, &order_topic(&symbol("T")), 0).unwrap();
        replay.context().start(ear).unwrap();
        Self { replay, kit, heard, ear, now_ns: 0, orders: 0 }
    }

    fn plain(venue: VenueOptions) -> Self {
        let instruments = vec![Instrument::new(symbol("A")).with_tick(decimal("0.5").unwrap())];
        Self::new(KitOptions { instruments, venue, ..KitOptions::default() })
    }

    fn order(&mut self, side: Side, size: &str, kind: OrderKind) -> Order {
        self.orders += 1;
        Order {
            id: OrderId(1_000 + self.orders),
            trader: symbol("T"),
            symbol: symbol("A"),
            side,
            quantity: quantity(size),
            kind,
            good_till_ns: None,
            group: None,
        }
    }

    fn submit(&mut self, order: Order) {
        self.replay.context().trade(TradingCommand::Submit(Box::new(order))).unwrap();
    }

    /// A bar of A one second later: open, high, low, close, volume.
    fn bar(&mut self, values: [&str; 4], volume: &str) {
        self.now_ns += 1_000_000_000;
        let [open, high, low, close] = values.map(price);
        let bar = Bar {
            symbol: symbol("A"),
            time_ns: self.now_ns,
            open,
            high,
            low,
            close,
            volume: quantity(volume),
        };
        let mut fed = Ok(());
        self.replay.step(self.now_ns, |ctx| fed = Kit::bar(ctx, &bar)).unwrap();
        fed.unwrap();
        assert_eq!(self.replay.context().failures().count(), 0);
    }

    fn heard(&mut self) -> Vec<(u64, OrderState, String)> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// The fills that were heard of.
    fn fills(&mut self) -> Vec<(u64, String)> {
        let fills = self.heard().into_iter().filter(|(.., what)| what.contains('@'));
        fills.map(|(id, _, what)| (id, what)).collect()
    }

    fn held(&mut self) -> Decimal {
        self.replay.context().cache().unwrap().position(&symbol("T"), &symbol("A")).quantity()
    }
}

#[test]
fn a_market_order_fills_at_the_next_open_with_slippage_and_fee() {
    let venue =
        VenueOptions { slippage_ticks: 2, fee_unit: decimal("0.1").unwrap(), ..VenueOptions::default() };
    let mut market = Market::plain(venue);
    market.bar(["10", "11", "9", "10"], "100");
    let order = market.order(Side::Buy, "2", OrderKind::Market);
    market.submit(order);
    market.bar(["12", "13", "11", "12"], "100");
    assert_eq!(market.fills(), []);
    market.bar(["14", "15", "13", "14"], "100");
    assert_eq!(market.fills(), [(1_001, "2@15.0 fee 0.2".into())], "14 and two ticks of 0.5");
}

#[test]
fn limits_and_stops_fill_at_their_price_or_a_better_open() {
    let mut market = Market::plain(VenueOptions::default());
    market.bar(["10", "10", "10", "10"], "100");
    let (limit, stop) = (OrderKind::Limit(price("9")), OrderKind::Stop(price("12")));
    let orders = [market.order(Side::Buy, "1", limit), market.order(Side::Buy, "1", stop)];
    orders.into_iter().for_each(|order| market.submit(order));
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["10", "11", "9.5", "10"], "100");
    assert_eq!(market.fills(), []);
    market.bar(["10", "12.5", "8.5", "10"], "100");
    assert_eq!(
        market.fills(),
        [(1_002, "1@12 fee 0".into()), (1_001, "1@9 fee 0".into())],
        "stops before limits"
    );
    let (limit, stop) = (OrderKind::Limit(price("11")), OrderKind::Stop(price("9")));
    let orders = [market.order(Side::Sell, "1", limit), market.order(Side::Sell, "1", stop)];
    orders.into_iter().for_each(|order| market.submit(order));
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["11.5", "12", "11.5", "12"], "100");
    market.bar(["8", "8", "8", "8"], "100");
    assert_eq!(
        market.fills(),
        [(1_003, "1@11.5 fee 0".into()), (1_004, "1@8 fee 0".into())],
        "gaps fill at the open"
    );
}

#[test]
fn partial_fills_are_bounded_by_a_share_of_the_volume_and_rounded_to_the_lot() {
    let venue = VenueOptions { volume_share: Some(decimal("0.1").unwrap()), ..VenueOptions::default() };
    let instruments = vec![Instrument::new(symbol("A")).with_lot(Decimal::TWO)];
    let mut market = Market::new(KitOptions { instruments, venue, ..KitOptions::default() });
    market.bar(["10", "10", "10", "10"], "100");
    let order = market.order(Side::Buy, "10", OrderKind::Market);
    market.submit(order);
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["10", "10", "10", "10"], "50");
    market.bar(["10", "10", "10", "10"], "19");
    market.bar(["10", "10", "10", "10"], "100");
    let sizes: Vec<String> = market.fills().into_iter().map(|(_, fill)| fill).collect();
    assert_eq!(sizes, ["4@10 fee 0", "6@10 fee 0"], "5 and 1.9 are rounded down, the rest is done at last");
    assert_eq!(market.held(), Decimal::from(10));
}

#[test]
fn quotes_and_trades_fill_orders_too() {
    let mut market = Market::plain(VenueOptions::default());
    let order = market.order(Side::Buy, "1", OrderKind::Market);
    market.submit(order);
    market.bar(["10", "10", "10", "10"], "100");
    let order = market.order(Side::Sell, "1", OrderKind::Limit(price("10")));
    market.submit(order);
    market.bar(["9", "9", "9", "9"], "100");
    market.fills();
    let time_ns = market.now_ns + 1;
    let (bid, ask) = (price("10.5"), price("11"));
    let size = quantity("5");
    let quote = Quote { symbol: symbol("A"), time_ns, bid, ask, bid_size: size, ask_size: size };
    market.replay.step(time_ns, |ctx| Kit::quote(ctx, &quote).unwrap()).unwrap();
    assert_eq!(market.fills(), [(1_002, "1@10.5 fee 0".into())], "a sell meets the bid");
    let order = market.order(Side::Buy, "1", OrderKind::Stop(price("12")));
    market.submit(order);
    let trade =
        |at, text: &str| Trade { symbol: symbol("A"), time_ns: time_ns + at, price: price(text), size };
    for (at, text) in [(1, "11"), (2, "11.5"), (3, "12.5")] {
        let trade = trade(at, text);
        market.replay.step(trade.time_ns, |ctx| Kit::trade(ctx, &trade).unwrap()).unwrap();
    }
    assert_eq!(market.fills(), [(1_003, "1@12.5 fee 0".into())]);
}

#[test]
fn a_good_till_date_order_is_good_on_its_last_instant_and_expires_after_it() {
    for (last, wanted) in [(3, OrderState::Filled), (2, OrderState::Expired)] {
        let mut market = Market::plain(VenueOptions::default());
        market.bar(["10", "10", "10", "10"], "100");
        let mut order = market.order(Side::Buy, "1", OrderKind::Limit(price("9")));
        order.good_till_ns = Some(last * 1_000_000_000);
        market.submit(order);
        market.bar(["10", "10", "10", "10"], "100");
        market.bar(["9", "9", "9", "9"], "100");
        market.bar(["9", "9", "9", "9"], "100");
        assert_eq!(market.heard().last().map(|(_, state, _)| *state), Some(wanted));
        assert_eq!(market.replay.context().timers(), 0);
    }
}

#[test]
fn a_cancellation_that_crosses_a_fill_keeps_the_fill() {
    let venue = VenueOptions { volume_share: Some(decimal("0.1").unwrap()), ..VenueOptions::default() };
    let mut market = Market::plain(venue);
    market.bar(["10", "10", "10", "10"], "100");
    let order = market.order(Side::Buy, "15", OrderKind::Market);
    let id = order.id;
    market.submit(order);
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["10", "10", "10", "10"], "100");
    market.replay.context().trade(TradingCommand::Cancel(id)).unwrap();
    market.bar(["10", "10", "10", "10"], "20");
    assert_eq!(market.held(), Decimal::from(12), "10, then 2 on the way of the cancellation");
    assert_eq!(market.heard().last().map(|(_, state, _)| *state), Some(OrderState::Cancelled));
    market.replay.context().trade(TradingCommand::Cancel(id)).unwrap();
    market.bar(["10", "10", "10", "10"], "100");
    assert_eq!(market.heard(), [], "too late, and nothing more is told");
}

fn denied(options: KitOptions, make: impl Fn(&mut Market) -> Order) -> String {
    let mut market = Market::new(options);
    market.bar(["10", "10", "10", "10"], "100");
    let order = make(&mut market);
    market.submit(order);
    market.bar(["10", "10", "10", "10"], "100");
    let (_, state, reason) = market.heard().swap_remove(0);
    assert_eq!(state, OrderState::Denied);
    reason
}

#[test]
fn the_risk_check_refuses_with_a_reason() {
    let instrument =
        || Instrument::new(symbol("A")).with_tick(decimal("0.5").unwrap()).with_lot(Decimal::ONE);
    let with = |risk| KitOptions { instruments: vec![instrument()], risk, ..KitOptions::default() };
    let buy = |size: &'static str, kind| move |market: &mut Market| market.order(Side::Buy, size, kind);
    let market = OrderKind::Market;
    let risk = RiskLimits { order_quantity: Some(quantity("5")), ..RiskLimits::default() };
    assert!(denied(with(risk), buy("6", market)).starts_with("the quantity is over the limit of 5"));
    let risk = RiskLimits { order_value: Some(Decimal::from(50)), ..RiskLimits::default() };
    assert!(denied(with(risk), buy("6", market)).starts_with("the value is over the limit of 50"));
    assert!(
        denied(with(RiskLimits { killed: true, ..RiskLimits::default() }), buy("1", market))
            .contains("kill switch")
    );
    assert!(denied(with(RiskLimits::default()), buy("1.5", market)).contains("lot"));
    let odd = OrderKind::Limit(price("9.7"));
    assert!(denied(with(RiskLimits::default()), buy("1", odd)).contains("tick"));
    let poor = KitOptions { account: Account::with_cash(Decimal::from(15)), ..with(RiskLimits::default()) };
    assert!(denied(poor, buy("2", market)).contains("not enough"));
    let short = KitOptions { account: Account::with_cash(Decimal::from(15)), ..with(RiskLimits::default()) };
    assert!(denied(short, |market| market.order(Side::Sell, "1", OrderKind::Market)).contains("not enough"));
}

#[test]
fn the_kill_switch_cancels_what_is_open_and_lets_positions_come_down() {
    let mut market = Market::plain(VenueOptions::default());
    market.bar(["10", "10", "10", "10"], "100");
    let bought = market.order(Side::Buy, "2", OrderKind::Market);
    let waiting = market.order(Side::Buy, "1", OrderKind::Limit(price("5")));
    market.submit(bought);
    market.submit(waiting);
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["10", "10", "10", "10"], "100");
    market.replay.context().trade(TradingCommand::Kill).unwrap();
    let more = market.order(Side::Buy, "1", OrderKind::Market);
    let less = market.order(Side::Sell, "2", OrderKind::Market);
    market.submit(more);
    market.submit(less);
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["10", "10", "10", "10"], "100");
    let ends: Vec<(u64, OrderState)> = market.heard().into_iter().map(|(id, state, _)| (id, state)).collect();
    assert!(ends.contains(&(1_002, OrderState::Cancelled)) && ends.contains(&(1_003, OrderState::Denied)));
    assert_eq!(market.held(), Decimal::ZERO);
}

#[test]
fn several_instruments_at_one_instant_keep_the_order_of_the_feed() {
    let run = || {
        let instruments = vec![Instrument::new(symbol("A")), Instrument::new(symbol("B"))];
        let mut replay = Replay::new(Bus::builder().digest().build());
        Kit::install(&mut replay.context(), KitOptions { instruments, ..KitOptions::default() }).unwrap();
        for name in ["A", "B"] {
            let options = CrossoverOptions {
                trader: symbol(&format!("trader{name}")),
                symbol: symbol(name),
                fast: 1,
                slow: 3,
                quantity: Quantity::ONE,
                exits: Exits::default(),
            };
            Kit::crossover(&mut replay.context(), options).unwrap();
        }
        replay.start().unwrap();
        for at in 1..200_u64 {
            for (name, swing) in [("A", 7), ("B", 11)] {
                let price = Price::new(Decimal::from(100 + (at * swing) % 13)).unwrap();
                let volume = Quantity::ONE;
                let bar = Bar {
                    symbol: symbol(name),
                    time_ns: at,
                    open: price,
                    high: price,
                    low: price,
                    close: price,
                    volume,
                };
                replay.step(at, |ctx| Kit::bar(ctx, &bar).unwrap()).unwrap();
            }
        }
        let ctx = replay.context();
        let positions = ctx.cache().unwrap().positions().count();
        (positions, ctx.digest())
    };
    let first = run();
    assert_eq!(first.0, 2, "both have traded");
    assert!((0..20).all(|_| run() == first));
}

/// Bars that rise so that the crossover buys, and then go on as told.
fn entered(exits: Exits) -> Market {
    let mut market = Market::plain(VenueOptions::default());
    let options = CrossoverOptions {
        trader: symbol("T"),
        symbol: symbol("A"),
        fast: 1,
        slow: 2,
        quantity: Quantity::ONE,
        exits,
    };
    Kit::crossover(&mut market.replay.context(), options).unwrap();
    market.replay.start().unwrap();
    for close in ["100", "99", "101"] {
        market.bar([close; 4], "100");
    }
    market.bar(["100", "102", "100", "102"], "100");
    assert_eq!(market.fills(), [(1, "1@100 fee 0".into())]);
    market
}

fn bracket() -> Exits {
    Exits { stop_percent: Some(Decimal::TWO), take_percent: Some(Decimal::from(5)) }
}

#[test]
fn a_bracket_gets_out_at_its_stop_and_cancels_the_other_exit() {
    let mut market = entered(bracket());
    market.bar(["102", "103", "101", "103"], "100");
    assert_eq!(market.held(), Decimal::ONE);
    market.bar(["99", "99", "97", "99"], "100");
    assert_eq!(market.fills(), [(2, "1@98.0 fee 0".into())]);
    assert_eq!(market.held(), Decimal::ZERO);
    assert_eq!(market.replay.context().cache().unwrap().open_orders().count(), 0);
}

#[test]
fn a_bracket_gets_out_at_its_profit_and_a_bar_that_meets_both_exits_takes_the_stop() {
    let mut market = entered(bracket());
    market.bar(["102", "106", "101", "106"], "100");
    assert_eq!(market.fills(), [(3, "1@105.0 fee 0".into())]);
    let mut market = entered(bracket());
    market.bar(["101", "110", "90", "101"], "100");
    assert_eq!(market.fills(), [(2, "1@98.0 fee 0".into())]);
    assert_eq!(market.held(), Decimal::ZERO, "and never both");
}

#[test]
fn a_risk_monitor_publishes_limits_that_strategies_and_engine_obey() {
    let mut market = entered(Exits::default());
    let kit = market.kit;
    let monitor = Monitor::new(quantity("1"), Decimal::ONE);
    kit.monitor(&mut market.replay.context(), monitor).unwrap();
    market.bar(["100", "100", "90", "90"], "100");
    market.bar(["90", "90", "90", "90"], "100");
    assert_eq!(market.held(), Decimal::ZERO, "sold at a loss of 10, over the limit of 1");
    for close in ["80", "95", "95", "95"] {
        market.bar([close; 4], "100");
    }
    assert_eq!(market.held(), Decimal::ZERO, "the crossing was there, and no entry was allowed");
}

#[test]
fn a_second_strategy_a_monitor_and_a_raw_republisher_run_beside_the_first_in_one_order() {
    let run = || {
        let mut market = entered(bracket());
        Kit::trend(&mut market.replay.context(), &symbol("trend"), &symbol("A"), 3).unwrap();
        let kit = market.kit;
        kit.monitor(&mut market.replay.context(), Monitor::new(quantity("5"), Decimal::from(1_000))).unwrap();
        let republish = |ctx: &mut Context<'_>, event: &turnkeep_bus::Arrived<'_>| {
            if let Some(bar) = event.get::<Bar>() {
                let limits = LimitsEvent { order_quantity: bar.volume, entries: true };
                ctx.publish_to("mirror.limits", limits).unwrap();
            }
        };
        market.replay.context().subscribe_raw("republish", "data.bars.*", 50, republish).unwrap();
        for at in 0..300_u32 {
            let close = (100 + (at * 17) % 29).to_string();
            market.bar([&close; 4], "100");
        }
        let ctx = market.replay.context();
        let traded = ctx.cache().unwrap().positions().filter(|(.., position)| position.closed() > 0).count();
        (traded, ctx.digest(), ctx.metrics().deliveries)
    };
    let first = run();
    assert_eq!(first.0, 2, "both strategies have traded");
    assert!((0..5).all(|_| run() == first));
}

#[test]
fn data_nobody_wants_is_cached_and_not_published_and_history_is_answered() {
    let mut market = Market::plain(VenueOptions::default());
    let ear = market.ear;
    Kit::listen::<Ear, Bar>(&mut market.replay.context(), ear, Feed::Bars, &symbol("A")).unwrap();
    let before = market.replay.context().metrics().publications;
    market.bar(["10", "10", "10", "10"], "100");
    assert_eq!(market.replay.context().metrics().publications, before);
    market.replay.context().ask_data(DataCommand::Subscribe(Feed::Bars, symbol("A"))).unwrap();
    market.replay.context().ask_data(DataCommand::RequestBars(symbol("A"), 1)).unwrap();
    market.bar(["11", "11", "11", "11"], "100");
    market.bar(["12", "12", "12", "12"], "100");
    let known = market.replay.context().cache().unwrap().known(&symbol("A")).unwrap().bars.len();
    assert_eq!(known, 3);
    assert_eq!(market.replay.context().metrics().publications, before + 2, "the history, and the last bar");
}

#[test]
fn books_and_option_chains_are_cached_and_published() {
    let mut market = Market::plain(VenueOptions::default());
    let level = Level { price: price("10"), size: Quantity::ONE };
    let book = Book { symbol: symbol("A"), time_ns: 1, bids: vec![level], asks: vec![] };
    let (strike, right) = (price("10"), Right::Call);
    let option = OptionQuote { strike, right, bid: None, ask: Some(price("1")) };
    let chain = ChainSlice { symbol: symbol("A"), time_ns: 1, expiry_ns: 9, options: vec![option] };
    market.replay.context().ask_data(DataCommand::Subscribe(Feed::Books, symbol("A"))).unwrap();
    market.replay.start().unwrap();
    market
        .replay
        .step(1, |ctx| {
            Kit::book(ctx, &book).unwrap();
            Kit::chain(ctx, &chain).unwrap();
        })
        .unwrap();
    let ctx = market.replay.context();
    let known = ctx.cache().unwrap().known(&symbol("A")).unwrap();
    assert_eq!((known.book.as_ref(), known.chain.as_ref()), (Some(&book), Some(&chain)));
    assert_eq!(ctx.metrics().publications, 1);
}

#[test]
fn a_modified_order_has_its_new_price() {
    let mut market = Market::plain(VenueOptions::default());
    market.bar(["10", "10", "10", "10"], "100");
    let order = market.order(Side::Buy, "1", OrderKind::Limit(price("5")));
    let id = order.id;
    market.submit(order);
    market.bar(["10", "10", "10", "10"], "100");
    let modify = TradingCommand::Modify(id, OrderKind::Limit(price("9")), quantity("2"));
    market.replay.context().trade(modify).unwrap();
    market.bar(["10", "10", "10", "10"], "100");
    market.bar(["9", "9", "9", "9"], "100");
    assert_eq!(market.fills(), [(1_001, "2@9 fee 0".into())]);
}
