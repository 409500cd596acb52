//! The run itself: the kit on a bus, the strategy, and the bars through a replay or a live channel.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use turnkeep::bus::{Bus, Clock, Context, Failure, Halt, Live, Metrics, Replay};
use turnkeep::market::{
    Bar, CrossoverOptions, Decimal, Exits, Instrument, Kit, KitOptions, OrderEvent, OrderNews, Quantity,
    Symbol, Trading,
};

use super::input::{BadFile, Bars};
use super::options::{Mode, Options, Speed};
use super::tally::Tally;

/// Bars on their way from the reading thread to the bus.
const CHANNEL: usize = 1024;

/// Why a run came to nothing.
#[derive(Debug)]
pub(crate) enum JobError {
    /// The input cannot be used.
    Input(BadFile),
    /// The log cannot be written.
    Log(io::Error),
    /// The bus has halted.
    Halt(Halt),
    /// An engine or a strategy has failed.
    Failed(String),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(bad) => bad.fmt(f),
            Self::Log(error) => write!(f, "cannot write the log: {error}"),
            Self::Halt(halt) => halt.fmt(f),
            Self::Failed(text) => f.write_str(text),
        }
    }
}

impl From<BadFile> for JobError {
    fn from(bad: BadFile) -> Self {
        Self::Input(bad)
    }
}

impl From<Halt> for JobError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<Failure> for JobError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

/// What a run has come to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) symbol: Symbol,
    pub(crate) tally: Tally,
    pub(crate) closed_trades: u64,
    pub(crate) pnl_closed: Decimal,
    pub(crate) pnl_open: Decimal,
    pub(crate) open_position: Decimal,
    pub(crate) metrics: Metrics,
    pub(crate) digest: u64,
    pub(crate) wall: Duration,
}

/// What the run counts, shared with a raw subscriber and the feed.
type Shared = Arc<Mutex<Tally>>;

fn lock(tally: &Shared) -> MutexGuard<'_, Tally> {
    // Counts are right after each single change, whoever panicked.
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the strategy over the file.
pub(crate) fn run(options: &Options, path: &Path) -> Result<Outcome, JobError> {
    let bars = Bars::open(path)?;
    let symbol = bars.symbol().clone();
    let mut builder = Bus::builder().digest();
    if let Some(path) = &options.log {
        builder = builder.log(File::create(path).map_err(JobError::Log)?);
    }
    let mut bus = builder.build();
    let tally = Shared::default();
    set_up(&mut bus.context(), options, &symbol, &tally)?;
    let began = Instant::now();
    match options.mode {
        Mode::Replay => replay(bus, bars, &symbol, tally, began),
        Mode::Live => live(bus, bars, &symbol, tally, began, options.speed),
    }
}

fn set_up(ctx: &mut Context<'_>, options: &Options, symbol: &Symbol, tally: &Shared) -> Result<(), Failure> {
    let instruments = vec![Instrument::new(symbol.clone())];
    Kit::install(ctx, KitOptions { instruments, ..KitOptions::default() })?;
    let count = tally.clone();
    ctx.subscribe_raw("tally", "events.order.*", 0, move |_, event| {
        let Some(order) = event.get::<OrderEvent>() else { return };
        match order.news {
            OrderNews::Submitted => lock(&count).orders += 1,
            OrderNews::Filled { quantity, price, .. } => {
                lock(&count).fill(order.time_ns, order.side, quantity, price)
            }
            _ => {}
        }
    })?;
    let exits = Exits { stop_percent: options.stop, take_percent: options.take };
    let options = CrossoverOptions {
        trader: Symbol::new("crossover")?,
        symbol: symbol.clone(),
        fast: options.fast as usize,
        slow: options.slow as usize,
        quantity: Quantity::ONE,
        exits,
    };
    Kit::crossover(ctx, options)?;
    Ok(())
}

/// Feeds one bar, after noting what the bars before have come to.
fn feed(ctx: &mut Context<'_>, bar: &Bar, tally: &Shared) -> Result<(), Failure> {
    let gain = ctx.cache()?.gain();
    let mut counts = lock(tally);
    if counts.bars > 0 {
        counts.gain(gain);
    }
    counts.bars += 1;
    drop(counts);
    Ok(Kit::bar(ctx, bar)?)
}

fn replay(bus: Bus, bars: Bars, symbol: &Symbol, tally: Shared, began: Instant) -> Result<Outcome, JobError> {
    let mut replay = Replay::new(bus);
    replay.start()?;
    let mut last_ns = 0;
    for bar in bars {
        let bar = bar?;
        last_ns = bar.time_ns;
        let mut fed = Ok(());
        replay.step(bar.time_ns, |ctx| fed = feed(ctx, &bar, &tally))?;
        fed?;
    }
    replay.finish(last_ns)?;
    replay.flush_log().map_err(JobError::Log)?;
    conclude(&mut replay.context(), symbol, &tally, began)
}

fn live(
    bus: Bus,
    bars: Bars,
    symbol: &Symbol,
    tally: Shared,
    began: Instant,
    speed: Speed,
) -> Result<Outcome, JobError> {
    let failed = Arc::new(Mutex::new(None));
    let (count, note) = (tally.clone(), failed.clone());
    let mut live = Live::new(bus, CHANNEL, Clock::Events, move |ctx, bar: Bar| {
        if let Err(failure) = feed(ctx, &bar, &count) {
            note.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        }
    });
    live.start()?;
    let sender = live.sender();
    let reading = thread::spawn(move || {
        for (at, bar) in (0_u32..).zip(bars) {
            let bar = bar?;
            if let Speed::Bars(a_second) = speed {
                let due = Duration::from_secs_f64(f64::from(at) / a_second);
                thread::sleep(due.saturating_sub(began.elapsed()));
            }
            if sender.send(Some(bar.time_ns), bar).is_err() {
                // The bus has halted, and says why itself.
                break;
            }
        }
        Ok::<(), BadFile>(())
    });
    let ran = live.run(|| {});
    let flushed = live.flush_log();
    let outcome = conclude(&mut live.context(), symbol, &tally, began);
    // The channel closes with the bus, so that the reading thread ends.
    drop(live);
    match reading.join() {
        Ok(read) => read?,
        Err(_) => return Err(JobError::Failed("the thread that reads the file panicked".into())),
    }
    ran?;
    flushed.map_err(JobError::Log)?;
    if let Some(failure) = failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(failure.into());
    }
    outcome
}

fn conclude(
    ctx: &mut Context<'_>,
    symbol: &Symbol,
    tally: &Shared,
    began: Instant,
) -> Result<Outcome, JobError> {
    if let Some(failure) = ctx.failures().next() {
        return Err(JobError::Failed(failure.to_string()));
    }
    let cache = ctx.cache()?;
    let last = cache.last(symbol);
    let mut tally = lock(tally).clone();
    tally.gain(cache.gain());
    let sum = |of: &dyn Fn(&turnkeep::market::Position) -> Decimal| {
        cache.positions().map(|(_, _, position)| of(position)).sum::<Decimal>()
    };
    Ok(Outcome {
        symbol: symbol.clone(),
        closed_trades: cache.positions().map(|(_, _, position)| position.closed()).sum(),
        pnl_closed: sum(&|position| position.realized()),
        pnl_open: sum(&|position| last.map_or(Decimal::ZERO, |price| position.unrealized(price))),
        open_position: sum(&|position| position.quantity()),
        metrics: ctx.metrics(),
        digest: ctx.digest().unwrap_or_default(),
        wall: began.elapsed(),
        tally,
    })
}
