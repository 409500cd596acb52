//! `turnkeep market`: daily bars of an index through a moving-average crossover on the ordered bus.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

mod date;
mod input;
mod job;
mod options;
mod report;
mod tally;

use job::{JobError, Outcome};
pub(crate) use options::Options;

/// The run itself has failed.
const BAD_RUN: u8 = 1;
/// The input or the options cannot be used.
const BAD_INPUT: u8 = 2;

/// Runs the command and tells how it ended: 0 for a good run, else one of the codes above.
pub(crate) fn run(options: &Options) -> ExitCode {
    let (fast, slow) = (options.fast, options.slow);
    if fast >= slow {
        tell(&format_args!(
            "error: --fast {fast} is not below --slow {slow}\n  help: the fast average needs the shorter period"
        ));
        return ExitCode::from(BAD_INPUT);
    }
    let path = options.input();
    match job::run(options, &path) {
        Ok(outcome) => print(options, &outcome),
        Err(JobError::Input(bad)) => {
            tell(&format_args!("error: {bad}\n  help: {}", bad.help()));
            ExitCode::from(BAD_INPUT)
        }
        Err(error) => {
            tell(&format_args!("error: {error}"));
            ExitCode::from(BAD_RUN)
        }
    }
}

fn print(options: &Options, outcome: &Outcome) -> ExitCode {
    let path = options.input();
    let text = if options.json {
        outcome.json(options, &path).map(|text| text + "\n")
    } else {
        Ok(outcome.text(options, &path))
    };
    let printed = text.map_err(io::Error::from).and_then(|text| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
    });
    match printed {
        // A reader that has seen enough, such as `head`, is no error.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            tell(&format_args!("error: cannot write the result: {error}"));
            ExitCode::from(BAD_RUN)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Everything but the result is for stderr.
fn tell(text: &dyn Display) {
    // With stderr closed there is no one left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}
