//! The options of `turnkeep flights` and the input file they lead to.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};

/// Where the bundled month lies, from the project's root.
const BUNDLED: &str = "data/flights-2013-01.csv.gz";

/// What the user asked for; every number is within its range.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A CSV file of flights, plain or gzipped [default: the bundled January 2013]
    pub(crate) file: Option<PathBuf>,

    /// How an airport shares its gate with the aircraft in it
    #[arg(long, value_enum, default_value_t = Mode::Spotwide)]
    pub(crate) mode: Mode,

    /// Application workers, 1 to 1024 [default: one a core]
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) workers: Option<u16>,

    /// Only the first N rows of the file
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit: Option<u64>,

    /// Do the whole job N times, each on a fresh node; the first bad run ends it
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// Records that the application and the lifecycle lane hold each, 1 to 1000000
    #[arg(long, value_name = "N", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) lane: Option<u32>,

    /// Simulated minutes a real second, 1 to 1000000, or `max`: as fast as the rows are taken
    #[arg(long, value_name = "N", default_value_t = Speed::Max)]
    pub(crate) clock: Speed,

    /// Serve the metrics of the running node at http://ADDR/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Record what the node does in FILE, for `turnkeep check`; with --repeat, the last run's
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which of the two kinds of airport the job runs on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Mode {
    /// One gate for an airport and every aircraft in it
    Spotwide,
    /// A gate for the airport and one for each aircraft
    Peractor,
}

/// How fast the simulated clock goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Speed {
    /// As fast as the rows are taken.
    Max,
    /// So many minutes a second.
    Minutes(u32),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse() {
            Ok(minutes @ 1..=1_000_000) => Ok(Self::Minutes(minutes)),
            _ => Err("give it 1 to 1000000 simulated minutes a second, or `max`".into()),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Minutes(minutes) => minutes.fmt(f),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spotwide => "spotwide",
            Self::Peractor => "peractor",
        })
    }
}

impl Options {
    /// The file that was named, else the bundled month below this directory or below the project.
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
