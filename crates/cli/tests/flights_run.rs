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

/// A day and more at 20,000 simulated minutes a second: the same totals, and a real time that no faster clock has.
#[test]
fn a_paced_clock_gives_the_same_totals() {
    let begin = std::time::Instant::now();
    for mode in ["spotwide", "peractor"] {
        let output = flights(&["--json", "--limit", "900", "--clock", "20000", "--mode", mode]);
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&object["matches_reference"], &object["interrupted"]), (&true.into(), &false.into()));
        assert!(object["hours_closed"].as_u64().unwrap() > 60, "{object}");
        assert!(object["wall_s"].as_f64().unwrap() > 0.05, "{object}");
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(60));
}

#[cfg(unix)]
mod interrupted {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Child, Command, Stdio};

    /// A run that would take hours, under way: its first line on stderr has come.
    fn under_way() -> (Child, BufReader<impl Read>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_turnkeep"))
            .args(["flights", "--json", "--clock", "1"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("27,004 flights"), "{line}");
        (child, stderr)
    }

    fn interrupt(child: &Child) {
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    #[test]
    fn ctrl_c_drains_and_prints_what_there_is() {
        let (child, stderr) = under_way();
        interrupt(&child);
        // The pipe is kept open: a program that cannot write to it would not be at fault.
        let output = child.wait_with_output().unwrap();
        drop(stderr);
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{object}");
        assert_eq!((&object["matches_reference"], &object["interrupted"]), (&true.into(), &true.into()));
        assert!(object["flights"].as_u64().unwrap() < 27_004);
    }
}

#[test]
fn the_metrics_of_a_run_can_be_scraped() {
    use std::io::{BufRead, BufReader, Read, Write};
    let mut child = Command::new(env!("CARGO_BIN_EXE_turnkeep"))
        .args(["flights", "--clock", "1", "--metrics", "127.0.0.1:0"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line
        .trim()
        .strip_prefix("metrics at http://")
        .and_then(|rest| rest.strip_suffix("/metrics"))
        .unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.contains("turnkeep_turns_total ") && !answer.contains("JFK"), "{answer}");
}
