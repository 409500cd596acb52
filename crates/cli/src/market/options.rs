//! The options of `turnkeep market` and the input file they lead to.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use turnkeep::market::{Decimal, decimal};

/// Where the bundled index lies, from the project's root.
const BUNDLED: &str = "data/sp500-daily-1999-2018.csv.gz";

/// What the user asked for; every number is within its range.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A CSV file of daily bars, plain or gzipped [default: the bundled S&P 500, 1999 to 2018]
    pub(crate) file: Option<PathBuf>,

    /// The period of the fast average, in bars
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) fast: u32,

    /// The period of the slow average, in bars
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) slow: u32,

    /// How the bars come to the bus
    #[arg(long, value_enum, default_value_t = Mode::Replay)]
    pub(crate) mode: Mode,

    /// How fast a live run is fed: max, or so many bars a second
    #[arg(long, value_name = "max|N", default_value = "max", value_parser = speed)]
    pub(crate) speed: Speed,

    /// Get out at a loss of so many percent of the entry's price
    #[arg(long, value_name = "PCT", allow_negative_numbers = true, value_parser = stop)]
    pub(crate) stop: Option<Decimal>,

    /// Get out at a profit of so many percent of the entry's price
    #[arg(long, value_name = "PCT", allow_negative_numbers = true, value_parser = percent)]
    pub(crate) take: Option<Decimal>,

    /// Write a log of everything the bus does
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,

    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the bars come to the bus.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Mode {
    /// A virtual clock; everything settles before it moves
    Replay,
    /// Sent by another thread, in bounded batches; the events' own times drive the clock
    Live,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replay => "replay",
            Self::Live => "live",
        })
    }
}

/// How fast a live run is fed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// As fast as the bus takes them.
    Max,
    /// So many bars a second.
    Bars(f64),
}

fn speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    match text.parse::<f64>() {
        Ok(bars) if bars.is_finite() && bars >= 0.001 => Ok(Speed::Bars(bars)),
        _ => Err("write max, or a number of bars a second of at least 0.001".into()),
    }
}

fn percent(text: &str) -> Result<Decimal, String> {
    match decimal(text) {
        Ok(percent) if percent > Decimal::ZERO && percent <= Decimal::from(1000) => Ok(percent),
        _ => Err("write a number of percent above 0 and up to 1000".into()),
    }
}

fn stop(text: &str) -> Result<Decimal, String> {
    match percent(text) {
        Ok(percent) if percent < Decimal::ONE_HUNDRED => Ok(percent),
        _ => Err("write a number of percent above 0 and below 100".into()),
    }
}

impl Options {
    /// The file that was named, else the bundled index below this directory or below the project.
    pub(crate) fn input(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(bundled)
    }
}

fn bundled() -> PathBuf {
    let here = PathBuf::from(BUNDLED);
    if here.is_file() {
        return here;
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new(""));
    let there = project.join(BUNDLED);
    if there.is_file() { there } else { here }
}
