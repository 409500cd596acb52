//! A small trading kit on the ordered bus of Turnkeep: market data, orders, a simulated venue, strategies.
//!
//! Prices and quantities are exact decimals. A *venue* matches orders against replayed bars, quotes and trades; the
//! *execution engine* checks orders before they are sent and keeps orders, positions and account; the *data engine*
//! publishes what somebody has subscribed to. All three change the [`Cache`] at once and tell about it in the order of
//! the bus. Strategies are components like any other.
//!
//! ```
//! use turnkeep_bus::{Bus, Replay};
//! use turnkeep_market::{Bar, CrossoverOptions, Exits, Instrument, Kit, KitOptions, Quantity, Symbol, Trading};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let symbol = Symbol::new("SPX")?;
//! let mut replay = Replay::new(Bus::default());
//! let instruments = vec![Instrument::new(symbol.clone())];
//! Kit::install(&mut replay.context(), KitOptions { instruments, ..KitOptions::default() })?;
//! let trader = Symbol::new("crossover")?;
//! let (quantity, exits) = (Quantity::ONE, Exits::default());
//! let options = CrossoverOptions { trader, symbol: symbol.clone(), fast: 1, slow: 2, quantity, exits };
//! Kit::crossover(&mut replay.context(), options)?;
//! replay.start()?;
//! for (time_ns, price) in [(1, "10"), (2, "9"), (3, "11"), (4, "12"), (5, "8"), (6, "7")] {
//!     let price = price.parse()?;
//!     let bar = Bar { symbol: symbol.clone(), time_ns, open: price, high: price, low: price, close: price,
//!                     volume: Quantity::ONE };
//!     let mut fed = Ok(());
//!     replay.step(time_ns, |ctx| fed = Kit::bar(ctx, &bar))?;
//!     fed?;
//! }
//! let gain = replay.context().cache()?.gain();
//! assert_eq!(gain.to_string(), "-5", "bought at 12, sold at 7");
//! # Ok(())
//! # }
//! ```

mod account;
mod bracket;
mod cache;
mod command;
mod crossover;
mod data;
mod data_engine;
mod execution;
mod indicator;
mod instrument;
mod kit;
mod monitor;
mod order;
mod position;
mod report;
mod risk;
mod trend;
mod value;
mod venue;

pub use account::{Account, AccountKind};
pub use bracket::{Brackets, Exits};
pub use cache::{BARS_MAX, Cache, ENDED_MAX, Known};
pub use command::{DataCommand, Desk, Feed, Trading, TradingCommand};
pub use crossover::{Crossover, CrossoverOptions};
pub use data::{Bar, Book, ChainSlice, Level, OptionQuote, Quote, Right, Trade};
pub use data_engine::{DataEngine, History};
pub use execution::{ExecutionEngine, order_topic, position_topic};
pub use indicator::{Average, BadPeriod, Exponential, PERIOD_MAX, Rough};
pub use instrument::{Instrument, Toward};
pub use kit::{Kit, KitOptions};
pub use monitor::{LIMITS, Monitor};
pub use order::{Order, OrderError, OrderId, OrderKind, OrderNews, OrderRecord, OrderState, Side};
pub use position::Position;
pub use report::{LimitsEvent, OrderEvent, PositionChange, PositionEvent, Report};
pub use risk::{Denial, RiskLimits};
pub use trend::Trend;
pub use value::{Decimal, Price, Quantity, Symbol, ValueError, decimal};
pub use venue::{REPORTS, Venue, VenueOptions};
