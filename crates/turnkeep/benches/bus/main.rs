//! The ordered bus: publications, deliveries, nested chains, late recipients, and a million bars of trading.
//!
//! Each figure is the best of many short rounds, so that other work on the machine disturbs it least. Beside the bus
//! stands a *plain* synchronous one (`plain.rs`): a list of handlers a topic, called at once, without order, bounds or
//! isolation.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by it")]

mod plain;

use std::hint::black_box;
use std::time::Instant;

use turnkeep::bus::{Bus, Component, Context, Failure, Hosted, Limits, On, Replay, Topic};
use turnkeep::market::{
    Bar, CrossoverOptions, Decimal, Exits, Instrument, Kit, KitOptions, Price, Quantity, Symbol,
};

/// Recipients of one topic.
const RECIPIENTS: [usize; 7] = [0, 1, 4, 10, 64, 100, 128];
/// Bars of the trading run.
const BARS: u64 = 1_000_000;

struct Sum(u64);

impl Component for Sum {}

impl On<u64> for Sum {
    fn on(&mut self, _: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        self.0 += number;
        Ok(())
    }
}

/// Answers each number with the next lower one.
struct Chain(Topic<u64>);

impl Component for Chain {}

impl On<u64> for Chain {
    fn on(&mut self, ctx: &mut Context<'_>, number: &u64) -> Result<(), Failure> {
        if *number > 0 {
            ctx.publish(self.0, number - 1);
        }
        Ok(())
    }
}

/// The best time of one call, in nanoseconds, over many rounds of some calls.
fn best(rounds: usize, calls: usize, mut call: impl FnMut(u64)) -> f64 {
    let round = |call: &mut dyn FnMut(u64)| {
        let began = Instant::now();
        (0..calls as u64).for_each(call);
        began.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..rounds).map(|_| round(&mut call)).fold(f64::MAX, f64::min)
}

fn main() {
    fan_out();
    chains();
    late();
    trading();
}

fn fan_out() {
    println!(
        "\n| recipients | queued: ns a publication | ns a delivery | plain synchronous: ns a publication | ns a delivery |"
    );
    println!("|---|---|---|---|---|");
    for recipients in RECIPIENTS {
        let mut bus = Hosted::new(Bus::default());
        let topic = bus.context().topic::<u64>("bench.topic").unwrap();
        for number in 0..recipients {
            let id = bus.context().register(&number.to_string(), Sum(0)).unwrap();
            bus.context().start(id).unwrap();
            bus.context().subscribe::<Sum, u64>(id, "bench.topic", 0).unwrap();
        }
        let calls = 20_000 / (recipients + 1);
        let queued = best(300, calls, |number| {
            bus.context().publish(topic, number);
            black_box(bus.boundary().drain(u32::MAX));
        });
        let plain = plain::with(recipients);
        let direct = best(300, calls, |number| plain.publish("bench.topic", black_box(&number)));
        let each = recipients.max(1) as f64;
        println!(
            "| {recipients} | {queued:.1} | {:.1} | {direct:.1} | {:.1} |",
            queued / each,
            direct / each
        );
    }
}

fn chains() {
    let mut bus = Hosted::new(Bus::default());
    let topic = bus.context().topic::<u64>("bench.chain").unwrap();
    let id = bus.context().register("chain", Chain(topic)).unwrap();
    bus.context().start(id).unwrap();
    bus.context().subscribe::<Chain, u64>(id, "bench.chain", 0).unwrap();
    let whole = best(300, 20, |_| {
        bus.context().publish(topic, 999);
        black_box(bus.boundary().drain(u32::MAX));
    });
    println!(
        "\nnested chain of 1,000 publications: {:.1} ns a publication with its delivery",
        whole / 1000.0
    );
}

/// A recipient that comes after so many nested publications of the same scope.
fn late() {
    for nested in [100_u64, 10_000] {
        let mut bus = Hosted::new(Bus::builder().limits(Limits::default()).build());
        let inner = bus.context().topic::<u64>("bench.inner").unwrap();
        let id = bus.context().register("inner", Sum(0)).unwrap();
        bus.context().start(id).unwrap();
        bus.context().subscribe::<Sum, u64>(id, "bench.inner", 0).unwrap();
        let outer = bus.context().topic::<u64>("bench.outer").unwrap();
        let spent = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
        let began = std::sync::Arc::new(std::sync::Mutex::new(Instant::now()));
        let mark = began.clone();
        bus.context()
            .subscribe_raw("nest", "bench.outer", 9, move |ctx, _| {
                (0..nested).for_each(|number| ctx.publish(inner, number));
                *mark.lock().unwrap() = Instant::now();
            })
            .unwrap();
        for number in 0..100 {
            let id = bus.context().register(&number.to_string(), Sum(0)).unwrap();
            bus.context().start(id).unwrap();
            bus.context().subscribe::<Sum, u64>(id, "bench.outer", 1).unwrap();
        }
        let end = spent.clone();
        bus.context()
            .subscribe_raw("measure", "bench.outer", 0, move |_, _| {
                let took = began.lock().unwrap().elapsed().as_nanos() as u64;
                end.fetch_min(took, std::sync::atomic::Ordering::Relaxed);
            })
            .unwrap();
        for number in 0..50 {
            bus.context().publish(outer, number);
            bus.boundary().drain(u32::MAX);
        }
        let each = spent.load(std::sync::atomic::Ordering::Relaxed) as f64 / 100.0;
        println!("late recipient behind {nested} nested slots: {each:.1} ns an admission");
    }
}

/// Bars whose closes go up and down, so that the averages cross.
fn bar(symbol: &Symbol, number: u64) -> Bar {
    let price = |offset: i64| {
        let wave = (number % 97) as i64 - 48;
        Price::new(Decimal::new(100_000 + wave.abs() * 37 + offset, 2)).unwrap()
    };
    let time_ns = (number + 1) * 60_000_000_000;
    let volume = Quantity::ONE;
    Bar {
        symbol: symbol.clone(),
        time_ns,
        open: price(1),
        high: price(9),
        low: price(-9),
        close: price(0),
        volume,
    }
}

fn trading() {
    let symbol = Symbol::new("BENCH").unwrap();
    let mut replay = Replay::new(Bus::default());
    let instruments = vec![Instrument::new(symbol.clone())];
    Kit::install(&mut replay.context(), KitOptions { instruments, ..KitOptions::default() }).unwrap();
    let trader = Symbol::new("crossover").unwrap();
    let (quantity, exits) = (Quantity::ONE, Exits::default());
    let options = CrossoverOptions { trader, symbol: symbol.clone(), fast: 10, slow: 30, quantity, exits };
    Kit::crossover(&mut replay.context(), options).unwrap();
    replay.start().unwrap();
    let began = Instant::now();
    for number in 0..BARS {
        let bar = bar(&symbol, number);
        replay.step(bar.time_ns, |ctx| Kit::bar(ctx, &bar).unwrap()).unwrap();
    }
    let took = began.elapsed().as_secs_f64();
    let metrics = replay.context().metrics();
    println!(
        "{BARS} bars through the crossover: {took:.2} s, {:.0} bars a second, {:.0} callbacks a second, {} commands\n",
        BARS as f64 / took,
        metrics.deliveries as f64 / took,
        metrics.commands
    );
}
