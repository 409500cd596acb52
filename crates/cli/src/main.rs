//! The program `turnkeep`: real jobs on the runtime, from the command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod flights;
mod market;

/// Real jobs on the Turnkeep runtime.
#[derive(Parser)]
#[command(name = "turnkeep", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fly a month of real departures: airports are Spots, aircraft are Actors.
    Flights(flights::Options),
    /// Trade an index through twenty years of daily bars: a moving-average crossover on the ordered bus.
    Market(market::Options),

    /// Check what a run recorded against the contract, or explain why an object was stuck at its end.
    Check(check::Options),
}

fn main() -> ExitCode {
    match Program::parse().command {
        Command::Flights(options) => flights::run(&options),
        Command::Market(options) => market::run(&options),
        Command::Check(options) => check::run(&options),
    }
}
