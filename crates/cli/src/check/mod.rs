//! `turnkeep check`: reads what a run recorded and says which clauses of the contract it breaks.

mod bus_log;

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use turnkeep::bus::log::is_log;
use turnkeep::trace::{Checker, Finding, Report, check, clauses::CLAUSES, is_trace};

/// A clause is broken, or nothing was found that could be explained.
const BROKEN: u8 = 1;
/// The file cannot be read.
const UNREADABLE: u8 = 2;

/// What the user asked for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// A trace of a node (`flights --trace`) or the log of a bus (`market --log`)
    #[arg(required_unless_present = "clauses")]
    file: Option<PathBuf>,

    /// Explain why the object of that id (or number, as #12) was stuck at the end of the trace
    #[arg(long, value_name = "ID")]
    why: Option<String>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,

    /// Print the clauses that are checked, and what of each
    #[arg(long, exclusive = true)]
    clauses: bool,
}

/// Runs the command: 0 clean, 1 broken, 2 unreadable.
pub(crate) fn run(options: &Options) -> ExitCode {
    let result = match &options.file {
        None => print(&list()).map(|()| 0),
        Some(file) => match File::open(file).map_err(Unreadable::from).and_then(|file| look(options, file)) {
            Ok((text, code)) => print(&text).map(|()| code),
            Err(Unreadable(why)) => {
                tell(&format_args!("error: {}: {why}", file.display()));
                Ok(UNREADABLE)
            }
        },
    };
    result.map_or_else(
        |error| {
            tell(&format_args!("error: cannot write the result: {error}"));
            ExitCode::from(BROKEN)
        },
        ExitCode::from,
    )
}

/// Why there is no result.
struct Unreadable(String);

impl<E: std::error::Error> From<E> for Unreadable {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// What the file holds is told by its first bytes: each format has a checker of its own.
fn look(options: &Options, mut file: File) -> Result<(String, u8), Unreadable> {
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(32).read_to_end(&mut head)?;
    file.rewind()?;
    match &head {
        head if is_trace(head) => look_at_trace(options, file),
        head if is_log(head) => bus_log::look(options, file),
        _ => Err(Unreadable(
            "it is neither a trace nor a bus log; give a file that `flights --trace`, `market --log`, a node's \
             recorder or a bus has written"
                .into(),
        )),
    }
}

fn look_at_trace(options: &Options, file: File) -> Result<(String, u8), Unreadable> {
    let (report, checker) = check(file)?;
    if let Some(id) = &options.why {
        return explain(&checker, id, options.json);
    }
    let code = if report.is_clean() { 0 } else { BROKEN };
    let text = if options.json { as_json(&report)? } else { as_text(&report) };
    Ok((text, code))
}

fn explain(checker: &Checker, id: &str, json: bool) -> Result<(String, u8), Unreadable> {
    let found: Vec<String> = checker.situations(id).iter().map(ToString::to_string).collect();
    if found.is_empty() {
        tell(&format_args!("error: no object {id} was alive at the end of the trace"));
        return Ok((String::new(), BROKEN));
    }
    let text = if json { serde_json::to_string(&found)? + "\n" } else { found.join("\n") };
    Ok((text, 0))
}

fn list() -> String {
    CLAUSES.iter().map(|clause| format!("{:9} {}\n", clause.id, clause.checked)).collect()
}

fn as_text(report: &Report) -> String {
    let mut text: String = report.findings.iter().map(|finding| format!("{finding}\n")).collect();
    if report.more > 0 {
        text += &format!("and {} more\n", report.more);
    }
    text += &format!("{} events, {} turns: ", report.events, report.turns);
    match report.findings.len() as u64 + report.more {
        0 => text += &format!("no breach of the {} clauses that are checked\n", CLAUSES.len()),
        1 => text += "1 breach\n",
        many => text += &format!("{many} breaches\n"),
    }
    if !report.to_the_end {
        text +=
            "the trace does not reach an orderly end of its node: what only the end shows was not checked\n";
    }
    text
}

#[derive(Serialize)]
struct Json<'a> {
    clean: bool,
    events: u64,
    turns: u64,
    to_the_end: bool,
    findings: Vec<JsonFinding<'a>>,
    more_findings: u64,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    clause: &'a str,
    text: &'a str,
    events: Vec<JsonEvent>,
}

#[derive(Serialize)]
struct JsonEvent {
    number: u64,
    time_ns: u64,
    thread: u64,
    text: String,
}

fn as_json(report: &Report) -> Result<String, serde_json::Error> {
    let finding = |finding: &'_ Finding| -> Vec<JsonEvent> {
        let event = |seen: &turnkeep::trace::Seen| JsonEvent {
            number: seen.number,
            time_ns: seen.time_ns,
            thread: seen.thread,
            text: seen.event.to_string(),
        };
        finding.events.iter().map(event).collect()
    };
    let findings = report.findings.iter();
    let findings =
        findings.map(|found| JsonFinding { clause: found.clause, text: &found.text, events: finding(found) });
    let json = Json {
        clean: report.is_clean(),
        events: report.events,
        turns: report.turns,
        to_the_end: report.to_the_end,
        findings: findings.collect(),
        more_findings: report.more,
    };
    serde_json::to_string(&json).map(|text| text + "\n")
}

/// Data for stdout. A reader that has seen enough, such as `head`, is no error.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Everything else for stderr.
fn tell(text: &dyn Display) {
    // With stderr closed there is no one left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}
