//! The log of a bus: its checker's findings as text or JSON.

use std::fs::File;
use std::io::BufReader;

use serde::Serialize;
use turnkeep::bus::check::{Checked, check};

use super::{BROKEN, Options, Unreadable};

pub(super) fn look(options: &Options, file: File) -> Result<(String, u8), Unreadable> {
    if options.why.is_some() {
        return Err(Unreadable(
            "it is the log of a bus, which has no objects to be stuck; --why is for traces".into(),
        ));
    }
    let checked = check(BufReader::new(file))?;
    let code = if checked.count == 0 { 0 } else { BROKEN };
    let text = if options.json { as_json(&checked)? } else { as_text(&checked) };
    Ok((text, code))
}

fn as_text(checked: &Checked) -> String {
    let mut text: String = checked.breaches.iter().map(|breach| format!("{breach}\n")).collect();
    let more = checked.count - checked.breaches.len() as u64;
    if more > 0 {
        text += &format!("and {more} more\n");
    }
    text += &format!("{} records, {} callbacks: ", checked.records, checked.callbacks);
    text += &match checked.count {
        0 => "no breach of the clauses that a bus log shows\n".to_owned(),
        1 => "1 breach\n".to_owned(),
        many => format!("{many} breaches\n"),
    };
    text
}

#[derive(Serialize)]
struct Json<'a> {
    clean: bool,
    records: u64,
    callbacks: u64,
    findings: Vec<JsonFinding<'a>>,
    more_findings: u64,
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    clause: &'a str,
    record: u64,
    text: &'a str,
}

fn as_json(checked: &Checked) -> Result<String, serde_json::Error> {
    let findings = checked.breaches.iter();
    let findings: Vec<_> = findings
        .map(|breach| JsonFinding { clause: breach.clause, record: breach.record, text: &breach.text })
        .collect();
    let json = Json {
        clean: checked.count == 0,
        records: checked.records,
        callbacks: checked.callbacks,
        more_findings: checked.count - findings.len() as u64,
        findings,
    };
    serde_json::to_string(&json).map(|text| text + "\n")
}
