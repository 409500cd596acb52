//! The project's own checks, run as `cargo xtask`.

use std::env;
use std::process::ExitCode;

mod bugs;
mod clauses;
mod commands;
mod dependencies;
mod files;
mod runner;
mod source;
mod steps;
mod tidy;

use files::Tree;

const HELP: &str = "\
The project's own checks.

Usage: cargo xtask COMMAND

  test                  everything that must pass: format, lints, tidiness, dependencies, clauses,
                        tests, documentation, examples, loom models
  prove                 all of that, then what takes long: larger models, many seeds, AddressSanitizer,
                        the bugs
  clauses               compare docs/contract.md with the names of the tests
  clauses list          write the names of the tests into the rows of docs/contract.md
  tidy                  look at the files' first lines and lengths
  dependencies          look at which crate depends on which
  bench turns|idle|relay|timers|bus ...
                        run a benchmark; further arguments go to it
  soak [--minutes N]    a mixed load with recorded samples, memory and latency each ten seconds
  bugs [NAME ...]       put each bug of bugs/ into a copy; ends badly if a suite does not find it
  asan ...              the scheduler's and the objects' tests under AddressSanitizer;
                        further arguments go to the tests
  leaks                 rounds of create, use and close under LeakSanitizer
  help                  print this
";

/// A check has failed, or a command could not run.
const FAILED: u8 = 1;
/// The command line makes no sense.
const USAGE: u8 = 2;

/// What a check found wrong, a line each.
type Faults = Vec<String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let passed = match arguments.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        ["test"] => steps::test(),
        ["prove"] => steps::prove(),
        ["clauses"] => check(clauses::check(&Tree::project())),
        ["clauses", "list"] => list_clauses(),
        ["tidy"] => check(tidy::check(&Tree::project())),
        ["dependencies"] => check(dependencies::check()),
        ["bench", name @ ("turns" | "idle" | "relay" | "timers" | "bus"), rest @ ..] => {
            commands::bench(name, rest).run().is_ok()
        }
        ["bugs", names @ ..] => bugs::hunt(names),
        ["soak", rest @ ..] => commands::bench("soak", rest).run().is_ok(),
        ["leaks"] => commands::leaks().run().is_ok(),
        ["asan", rest @ ..] => commands::asan(rest).run().is_ok(),
        other => {
            eprintln!("xtask: cannot `{}`; `cargo xtask help` lists what it can", other.join(" "));
            return ExitCode::from(USAGE);
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Writes the names of the tests into the contract.
fn list_clauses() -> bool {
    let tree = Tree::project();
    let written = clauses::listed(&tree).map(|(path, text)| std::fs::write(files::root().join(path), text));
    match written {
        Some(Ok(())) => true,
        Some(Err(error)) => {
            eprintln!("docs/contract.md cannot be written: {error}");
            false
        }
        None => {
            eprintln!("docs/contract.md: there is no such file");
            false
        }
    }
}

/// Prints what a check found; true if it found nothing wrong.
fn check(found: Result<String, Faults>) -> bool {
    match found {
        Ok(summary) => {
            println!("{summary}");
            true
        }
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("{fault}"));
            false
        }
    }
}
