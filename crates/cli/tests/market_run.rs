//! `turnkeep market` as a program: the known figures, live and replay, logs, and bad inputs.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn market(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnkeep")).arg("market").args(arguments).output().unwrap()
}

/// The object that a good run prints, and its text.
fn json(arguments: &[&str]) -> (Value, String) {
    let output = market(&[arguments, &["--json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (serde_json::from_str(&text).unwrap(), text)
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_bundled_index_gives_the_known_figures_with_all_decimals() {
    let (run, text) = json(&[]);
    assert_eq!((&run["bars"], &run["closed_trades"]), (&5031.into(), &88.into()));
    assert!(text.contains("\"pnl_closed\":562.689573,") && text.contains("\"open_position\":0,"), "{text}");
    let (run, text) = json(&["--fast", "20", "--slow", "50"]);
    assert_eq!((&run["closed_trades"], &run["fills"]), (&57.into(), &114.into()));
    assert!(text.contains("\"pnl_closed\":703.240044,"), "{text}");
    for key in
        ["orders", "callbacks", "publications", "roots", "max_chain", "digest", "wall_s", "callbacks_per_s"]
    {
        assert!(!run[key].is_null(), "{key}");
    }
}

#[test]
fn time_3_a_live_run_has_the_trades_and_the_digest_of_the_replay() {
    for exits in [&[][..], &["--stop", "2", "--take", "5"]] {
        let (replay, _) = json(exits);
        let (live, _) = json(&[exits, &["--mode", "live"]].concat());
        for key in ["digest", "closed_trades", "pnl_closed", "callbacks", "fills", "roots", "max_chain"] {
            assert_eq!(replay[key], live[key], "{key}");
        }
    }
}

#[test]
fn time_2_two_runs_write_the_same_log() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let logs = ["one.buslog", "two.buslog"].map(|name| folder.join(name));
    for log in &logs {
        json(&["--log", log.to_str().unwrap()]);
    }
    let [one, two] = logs.map(|log| fs::read(log).unwrap());
    assert!(one.len() > 1_000_000 && one == two);
    let checked = turnkeep::bus::check::check(&one[..]).unwrap();
    assert_eq!((checked.breaches, checked.callbacks), (vec![], 5_559));
}

#[test]
fn a_fed_run_takes_its_time() {
    let mut text = String::from("Date,Open,High,Low,Close,Volume\n");
    (1..=20).for_each(|day| text += &format!("1/{day}/2020,10,10,10,10,0\n"));
    let path = file("slow.csv", &text);
    let (run, _) =
        json(&[path.to_str().unwrap(), "--fast", "2", "--slow", "3", "--mode", "live", "--speed", "100"]);
    assert!(run["wall_s"].as_f64().unwrap() >= 0.19, "{run}");
    assert_eq!((&run["closed_trades"], &run["orders"]), (&0.into(), &0.into()), "flat prices never cross");
}

#[test]
fn the_text_has_trades_profit_plot_and_what_the_bus_did() {
    let output = market(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    for wanted in
        ["2018-11-23", "and 78 before", "│", "88 closed, 562.689573 points", "5,559 callbacks", "digest"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

/// What a refused file is told after its name.
fn refused(name: &str, text: &str) -> String {
    let path = file(name, text);
    let output = market(&[path.to_str().unwrap()]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    let (error, help) = stderr.split_once("\n  help: ").expect("a line of help");
    assert_eq!(help.lines().count(), 1, "{stderr}");
    error.split_once(&format!("{name}: ")).expect("the file's name").1.to_owned()
}

#[test]
fn bad_files_are_refused_with_line_and_column() {
    let rows = |rows: &str| format!("Date,Open,High,Low,Close,Volume\n1/4/1999,10,12,9,11,100\n{rows}\n");
    let told = |name: &str, row: &str| refused(&format!("{name}.csv"), &rows(row));
    assert_eq!(
        told("unordered", "1/3/1999,10,12,9,11,100"),
        "line 3, column Date: \"1/3/1999\" comes after 1999-01-04: bars must rise in time"
    );
    assert_eq!(
        told("twice", "1/4/1999,10,12,9,11,100"),
        "line 3, column Date: \"1/4/1999\" has a bar already"
    );
    assert_eq!(told("number", "1/5/1999,10,12,9,x,100"), "line 3, column Close: \"x\" is no decimal number");
    assert_eq!(
        told("negative", "1/5/1999,-10,12,9,11,100"),
        "line 3, column Open: \"-10\" is no price: a price is more than zero"
    );
    assert_eq!(
        told("range", "1/5/1999,10,9.5,9,11,100"),
        "line 3, column High: \"9.5\" does not enclose the bar's other prices"
    );
    assert_eq!(
        told("volume", "1/5/1999,10,12,9,11,-1"),
        "line 3, column Volume: \"-1\" is no volume: a volume is zero or more"
    );
    assert_eq!(
        told("date", "5/1999,10,12,9,11,1"),
        "line 3, column Date: \"5/1999\" is no date from 1970 on"
    );
    assert_eq!(told("short", "1/5/1999,10,12"), "line 3: the row has 3 fields, the header 6");
    assert_eq!(
        told("missing", "1/5/1999,10,12,9,,1"),
        "line 3, column Close: \"\" is no value, and every bar needs one"
    );
    assert_eq!(refused("none.csv", ""), "is empty");
    assert_eq!(refused("header.csv", "Date,Open,High,Low,Close,Volume\n"), "has a header and no bars");
    assert_eq!(
        refused("columns.csv", "Date,Open\n1/1/1999,1\n"),
        "line 1: the header has no column High, Low, Close, Volume"
    );
}

#[test]
fn bad_options_are_refused() {
    let output = market(&["--fast", "30", "--slow", "30"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--fast 30 is not below --slow 30"));
    for arguments in [
        ["--fast", "0"],
        ["--slow", "-1"],
        ["--speed", "0"],
        ["--stop", "100"],
        ["--take", "x"],
        ["--mode", "dead"],
    ] {
        assert_eq!(market(&arguments).status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(market(&["no-such.csv"]).status.code(), Some(2));
    assert_eq!(market(&["--log", "/no/such/folder/log"]).status.code(), Some(1));
}
