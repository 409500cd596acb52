//! `turnkeep check` on what `turnkeep flights` has recorded, and on files that are no traces.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn turnkeep(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnkeep")).args(arguments).output().unwrap()
}

/// A path of this test alone.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}.trace", std::process::id()))
}

fn record(name: &str, options: &[&str]) -> PathBuf {
    let path = path(name);
    let output =
        turnkeep(&[&["flights", "--limit", "500", "--trace", path.to_str().unwrap()], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn stat_3_o_flights_are_recorded_and_found_clean_in_both_modes() {
    for mode in ["spotwide", "peractor"] {
        let path = record(mode, &["--mode", mode, "--workers", "2", "--lane", "2"]);
        let output = turnkeep(&["check", "--json", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        let object: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!((&object["clean"], &object["to_the_end"]), (&true.into(), &true.into()));
        assert!(object["turns"].as_u64().unwrap() > 2_000, "{object}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn stat_3_p_a_cut_trace_is_checked_and_a_broken_one_is_told() {
    let path = record("cut", &[]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("was not checked"), "{}", text(&output.stdout));

    // The first grant of a later turn, taken back by one: the number is used again.
    let broken = break_a_grant(&bytes);
    std::fs::write(&path, broken).unwrap();
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).starts_with("GATE-9: "), "{}", text(&output.stdout));
    std::fs::remove_file(path).unwrap();
}

/// Makes the grant of some later turn 1, in place: a number that was used before.
fn break_a_grant(bytes: &[u8]) -> Vec<u8> {
    const HEADER: usize = 10;
    const TURN_BEGUN: u8 = 40;
    let mut bytes = bytes.to_vec();
    let mut at = HEADER;
    while at < bytes.len() {
        let length = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let code = at + 3;
        if bytes[code] == TURN_BEGUN {
            // The code, the time, the gate, the grant.
            let grant = (0..3).fold(code, |at, _| at + integer_bytes(bytes[at]));
            if (2..0x80).contains(&bytes[grant]) {
                bytes[grant] = 1;
                return bytes;
            }
        }
        at += 2 + length;
    }
    panic!("no object had a second turn");
}

/// How long a MessagePack integer is that begins with this byte.
fn integer_bytes(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0xcc => 2,
        0xcd => 3,
        0xce => 5,
        0xcf => 9,
        _ => panic!("{first:#x} begins no number"),
    }
}

#[test]
fn stat_3_q_what_is_no_trace_is_unreadable() {
    let path = path("other");
    std::fs::write(&path, "year,month,day\n").unwrap();
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("neither a trace nor"), "{}", text(&output.stderr));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(turnkeep(&["check", path.to_str().unwrap()]).status.code(), Some(2));
    let clauses = turnkeep(&["check", "--clauses"]);
    assert_eq!(clauses.status.code(), Some(0));
    assert!(text(&clauses.stdout).contains("GATE-1    no turn begins"), "{}", text(&clauses.stdout));
}

#[test]
fn stat_4_an_object_of_a_trace_is_explained() {
    // Cut in half, so that objects are alive at the end.
    let path = record("why", &["--workers", "1"]);
    let missing = turnkeep(&["check", "--why", "NOWHERE", path.to_str().unwrap()]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("no object NOWHERE"), "{}", text(&missing.stderr));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn pub_6_z_the_log_of_a_bus_is_told_by_its_first_bytes_and_checked() {
    let path = path("bus");
    let output = turnkeep(&["market", "--log", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("no breach"), "{}", text(&output.stdout));
    let output = turnkeep(&["check", "--json", path.to_str().unwrap()]);
    let object: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(object["clean"], true);
    assert!(object["callbacks"].as_u64().unwrap() > 5_000, "{object}");

    // One record taken out of the middle: what comes behind it does not fit any more.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, without_a_delivery(&bytes)).unwrap();
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));

    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let output = turnkeep(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let output = turnkeep(&["check", "--why", "x", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    std::fs::remove_file(path).unwrap();
}

/// A bus log without its thousandth record: an array length before each tells where it ends.
fn without_a_delivery(bytes: &[u8]) -> Vec<u8> {
    let mut at = 0;
    let mut next = || {
        let from = at;
        at += 4 + u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        from..at
    };
    let left_out = (0..1000).map(|_| next()).last().unwrap();
    [&bytes[..left_out.start], &bytes[left_out.end..]].concat()
}
