//! Bad inputs and options, through the program itself: exit status, place and way out.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;

const HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,arr_delay,carrier,flight,tailnum,origin,dest\n";
const ROW: &str = "2013,1,1,517,515,2,830,11,UA,1545,N14228,EWR,IAH\n";

fn file(name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn flights(path: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_turnkeep")).arg("flights").arg(path).args(options).output().unwrap()
}

/// What a refused file is told: one line of error, one of help, nothing on stdout.
fn refused(path: &Path) -> String {
    let output = flights(path, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty());
    let (error, help) = stderr.split_once("\n  help: ").expect("a line of help");
    assert_eq!(help.lines().count(), 1, "{stderr}");
    let error = error.strip_prefix("error: ").and_then(|error| error.strip_prefix(path.to_str().unwrap()));
    error.and_then(|error| error.strip_prefix(": ")).expect("the file's name").to_owned()
}

#[test]
fn what_cannot_be_opened_is_refused() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    assert_eq!(refused(&folder.join("no-such.csv")), "no such file");
    assert_eq!(refused(folder), "is a directory, not a file");
    assert_eq!(refused(&file("plain.csv", "").join("inside.csv")), "no such file");
    #[cfg(unix)]
    assert_eq!(refused(Path::new("/dev/null")), "is not an ordinary file");
}

#[test]
fn what_is_no_table_is_refused() {
    assert_eq!(refused(&file("empty.csv", "")), "is empty");
    assert_eq!(refused(&file("empty.csv.gz", gzip(""))), "is empty");
    let zip = file("packed.zip", b"PK\x03\x04\x14\0\0\0");
    assert_eq!(refused(&zip), "is neither gzip nor CSV: it is a zip archive");
    let binary = file("program.csv", b"\x7fELF\x02\x01\x01\0\0\0");
    assert_eq!(refused(&binary), "is neither gzip nor CSV: the first line holds binary data");
    let prose = file("letter.csv", "Dear Sir or Madam,\n");
    assert_eq!(refused(&prose), "is neither gzip nor CSV: the first line names none of the columns");
}

#[test]
fn a_missing_column_is_named() {
    let path = file("column.csv", HEADER.replace("arr_delay", "lateness") + ROW);
    assert_eq!(refused(&path), "line 1: the header has no column arr_delay");
}

#[test]
fn a_bad_number_is_told_with_line_column_and_value() {
    let text = format!("{HEADER}{ROW}{}", ROW.replace(",11,", ",x7,"));
    let want = "line 3, column arr_delay: \"x7\" is not a whole number of minutes";
    assert_eq!(refused(&file("number.csv", &text)), want);
    // Neither the packing nor the name changes that.
    assert_eq!(refused(&file("number.txt", gzip(&text))), want);
}

#[test]
fn bad_rows_and_values_are_told_with_their_place() {
    let row = |name: &str, row: &str| refused(&file(name, format!("{HEADER}{row}")));
    assert_eq!(row("short.csv", "2013,1,1\n"), "line 2: the row has 3 fields, the header 13");
    let tail = ROW.replace("N14228", "NA");
    let want = "line 2, column tailnum: \"NA\" is no value, and a row with a dep_time needs one";
    assert_eq!(row("tail.csv", &tail), want);
    let long = row("long.csv", &ROW.replace("EWR", &"E".repeat(300)));
    assert!(long.starts_with("line 2, column origin: \"EEEE"), "{long}");
    assert!(long.ends_with("… is 300 bytes long, more than 255"), "{long}");
    let endless = row("endless.csv", &format!("{ROW}2013,\"{}", "1\n".repeat(100_000)));
    assert!(endless.starts_with("line 3: the row that begins here is longer than"), "{endless}");
}

#[test]
fn invalid_utf_8_is_refused() {
    let mut bytes = format!("{HEADER}{ROW}").into_bytes();
    let at = bytes.len() - 2;
    bytes[at] = 0xe9;
    let want = "line 2, column dest: \"IA\u{fffd}\" is not valid UTF-8";
    assert_eq!(refused(&file("latin.csv", bytes)), want);
}

#[test]
fn damaged_gzip_is_told_with_the_line_it_reached() {
    let whole = gzip(&(HEADER.to_owned() + &ROW.repeat(3)));
    let cut = refused(&file("cut.csv.gz", &whole[..whole.len() - 9]));
    assert!(cut.ends_with("the gzip data ends too early, the file is truncated"), "{cut}");
    let mut wrong_sum = whole.clone();
    let at = whole.len() - 8;
    wrong_sum[at] ^= 1;
    let damaged = refused(&file("damaged.csv.gz", wrong_sum));
    assert!(damaged.starts_with("line 5: the gzip data is damaged: "), "{damaged}");
}

#[test]
fn no_damage_to_a_file_makes_the_program_panic() {
    let text = format!("{HEADER}{ROW}");
    for (name, whole) in [("mangled.csv.gz", gzip(&text)), ("mangled.csv", text.into_bytes())] {
        for at in (0..whole.len()).step_by(3) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            for bytes in [&whole[..at], &flipped] {
                let output = flights(&file(name, bytes), &[]);
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(matches!(output.status.code(), Some(0..=2)), "{at}: {:?} {stderr}", output.status);
                assert!(!stderr.contains("panicked"), "{at}: {stderr}");
            }
        }
    }
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let path = file("options.csv", format!("{HEADER}{ROW}"));
    for (options, range) in [
        (["--workers", "0"], "1..=1024"),
        (["--workers", "1025"], "1..=1024"),
        (["--workers", "-1"], "1..=1024"),
        (["--lane", "0"], "1..=1000000"),
        (["--repeat", "0"], "1.."),
        (["--limit", "0"], "1.."),
        (["--limit", "ten"], "invalid digit"),
        (["--mode", "both"], "spotwide, peractor"),
    ] {
        let output = flights(&path, &options);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {stderr}");
        assert!(stderr.contains(options[0]) && stderr.contains(options[1]), "{stderr}");
        assert!(stderr.contains(range), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}
