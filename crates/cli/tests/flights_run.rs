//! Good runs, through the program itself: exit status, stdout and what is in the object.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn flights(options: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_turnkeep")).arg("flights").args(options).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn json_is_one_object_on_stdout_in_both_modes() {
    for (mode, yields) in [("spotwide", 500), ("peractor", 0)] {
        let options = ["--json", "--limit", "500", "--repeat", "2", "--lane", "1", "--workers", "2"];
        let output = flights(&[&options[..], &["--mode", mode]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let object: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["matches_reference"], true);
        assert_eq!(
            (&object["mode"], &object["workers"], &object["lane"]),
            (&mode.into(), &2.into(), &1.into())
        );
        assert_eq!((&object["flights"], &object["departed"]), (&500.into(), &500.into()));
        assert_eq!(object["yields"], yields);
        assert_eq!(
            (&object["overlaps"], &object["refused"], &object["joins_failed"]),
            (&0.into(), &0.into(), &0.into())
        );
        for some in ["turns", "wall_s", "turns_per_s", "start_latency_us_p50", "start_latency_us_p99"] {
            assert!(object[some].as_f64().unwrap() > 0.0, "{some}: {text}");
        }
    }
}

#[test]
fn the_table_is_the_default_and_progress_is_kept_off_stdout() {
    let output = flights(&["--limit", "500"]);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(stdout.ends_with("reference   the plain loop finds the same\n"), "{stdout}");
    assert!(stderr.starts_with("500 of 500 flights, "), "{stderr}");
}
