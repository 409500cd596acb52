//! Good inputs in every dress, and bad ones of every kind.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use super::samples::{HEADER, gzip, read, three_flights};
use super::*;

fn airport(code: &str) -> Airport {
    Airport::new(code).unwrap()
}

fn departed(line: u64, origin: &str, tailnum: &str, arr_delay: Option<i32>) -> Flight {
    let fate = Fate::Departed { tailnum: Arc::from(tailnum), arr_delay };
    // 05:17 and 05:33 on 1 January 2013.
    let release_min = 15_706 * 1440 + if line == 2 { 317 } else { 333 };
    Flight { line, origin: airport(origin), destination: airport("IAH"), release_min, fate }
}

fn the_three() -> Vec<Flight> {
    let (origin, destination) = (airport("EWR"), airport("RDU"));
    // At schedule: 16:30 on 2 January.
    let release_min = 15_707 * 1440 + 990;
    let cancelled = Flight { line: 4, origin, destination, release_min, fate: Fate::Cancelled };
    vec![departed(2, "EWR", "N14228", Some(11)), departed(3, "LGA", "N14228", None), cancelled]
}

/// The error of a file in which a row follows the header.
fn refused(row: &str) -> String {
    refused_file(format!("{HEADER}{row}\n"))
}

fn refused_file(bytes: impl Into<Vec<u8>>) -> String {
    read(bytes).unwrap_err().to_string()
}

/// A good row with one value changed.
fn row_with(column: &str, value: &str) -> String {
    let good = "2013,1,1,517,515,2,830,11,UA,1545,N14228,EWR,IAH".split(',');
    let changed =
        HEADER.trim().split(',').zip(good).map(|(name, old)| if name == column { value } else { old });
    changed.collect::<Vec<_>>().join(",")
}

#[test]
fn plain_and_packed_text_read_the_same() {
    let text = three_flights();
    assert_eq!(read(text.as_str()).unwrap(), the_three());
    assert_eq!(read(gzip(text.as_bytes())).unwrap(), the_three());
}

#[test]
fn members_of_a_gzip_file_are_read_one_after_the_other() {
    let text = three_flights();
    for cut in 0..text.len() {
        let (first, second) = text.as_bytes().split_at(cut);
        assert_eq!(read([gzip(first), gzip(second)].concat()).unwrap(), the_three(), "cut at {cut}");
    }
}

#[test]
fn line_ends_marks_spaces_and_a_missing_last_line_end_do_no_harm() {
    let text = three_flights();
    assert_eq!(read(text.replace('\n', "\r\n")).unwrap(), the_three());
    assert_eq!(read(text.trim_end()).unwrap(), the_three());
    assert_eq!(read(format!("\u{feff}{text}")).unwrap(), the_three());
    assert_eq!(read(text.replace(',', " , ")).unwrap(), the_three());
}

#[test]
fn columns_may_stand_in_any_order_and_among_others() {
    let turned = |line: &str| {
        let fields: Vec<_> = line.split(',').rev().collect();
        format!("\"more, or less\",{}\n", fields.join(","))
    };
    let text: String = three_flights().lines().map(turned).collect();
    assert_eq!(read(text).unwrap(), the_three());
}

#[test]
fn a_header_alone_is_a_file_without_flights() {
    assert_eq!(read(HEADER).unwrap(), []);
}

#[test]
fn the_limit_ends_the_rows_before_a_later_fault() {
    let text = format!("{}x", three_flights());
    for limit in 0..=3 {
        let reader = Reader::new(Path::new("a"), Cursor::new(text.clone()), Some(limit)).unwrap();
        let found: Vec<_> = reader.collect::<Result<_, _>>().unwrap();
        assert_eq!(found, the_three()[..limit as usize]);
    }
}

#[test]
fn nothing_follows_an_error() {
    let mut reader = samples::reader(format!("{HEADER}x\n{}\n", row_with("day", "2"))).unwrap();
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_bad_value_is_told_with_file_line_column_and_value() {
    for (column, value, problem) in [
        ("year", "MMXIII", "is not a year"),
        ("month", "13", "is not a month from 1 to 12"),
        ("day", "0", "is not a day from 1 to 31"),
        ("dep_time", "5:17", "is not a clock reading such as 517 or 2359"),
        ("dep_time", "2460", "is not a clock reading such as 517 or 2359"),
        ("sched_dep_time", "1575", "is not a clock reading such as 517 or 2359"),
        ("arr_time", "-1", "is not a clock reading such as 517 or 2359"),
        ("dep_delay", "1.5", "is not a whole number of minutes"),
        ("arr_delay", "x7", "is not a whole number of minutes"),
        ("arr_delay", "2147483648", "is not a whole number of minutes"),
        ("flight", "UA1", "is not a flight number"),
        ("carrier", "", "is no value, and every row needs one"),
        ("tailnum", "NA", "is no value, and a row with a dep_time needs one"),
        ("tailnum", "N1\u{7}", "has a control character in it"),
        ("origin", "", "is no value, and every row needs one"),
        ("origin", "J-K", "is not an airport code"),
        ("dest", "TOOLONGCODE", "is not an airport code"),
        ("dest", "Zürich", "is not an airport code"),
    ] {
        let want = format!("sample.csv: line 2, column {column}: {value:?} {problem}");
        assert_eq!(refused(&row_with(column, value)), want);
    }
}

#[test]
fn a_long_value_is_refused_with_its_length() {
    let error = refused(&row_with("tailnum", &"N".repeat(256)));
    assert!(error.starts_with("sample.csv: line 2, column tailnum: \"NNN"), "{error}");
    assert!(error.ends_with("\"… is 256 bytes long, more than 255"), "{error}");
    let longest = read(format!("{HEADER}{}\n", row_with("tailnum", &"N".repeat(255)))).unwrap();
    assert_eq!(longest.len(), 1);
}

#[test]
fn bytes_that_are_no_utf_8_are_refused_where_they_matter() {
    let mut bytes = format!("{HEADER}{}\n", row_with("tailnum", "N?")).into_bytes();
    let at = bytes.iter().position(|&byte| byte == b'?').unwrap();
    bytes[at] = 0xff;
    assert_eq!(refused_file(bytes), "sample.csv: line 2, column tailnum: \"N\u{fffd}\" is not valid UTF-8");
}

#[test]
fn a_diverted_flight_to_its_own_origin_is_refused() {
    let row = "2013,1,1,517,515,2,830,,UA,1545,N14228,EWR,EWR";
    let want =
        "sample.csv: line 2, column dest: \"EWR\" is also the origin, though the flight has no arr_delay";
    assert_eq!(refused(row), want);
    let round_trip = row.replace("830,,", "830,3,");
    assert_eq!(read(format!("{HEADER}{round_trip}\n")).unwrap().len(), 1);
}

#[test]
fn a_row_of_another_width_is_refused() {
    assert_eq!(refused("1,2"), "sample.csv: line 2: the row has 2 fields, the header 13");
    let wide = format!("\n\n{},", row_with("day", "3"));
    assert_eq!(refused(&wide), "sample.csv: line 4: the row has 14 fields, the header 13");
}

#[test]
fn a_header_that_does_not_serve_is_refused() {
    let text = three_flights();
    let without = text.replace("arr_delay", "delay").replace("tailnum", "tail");
    assert_eq!(refused_file(without), "sample.csv: line 1: the header has no column arr_delay, tailnum");
    let twice = text.replace("carrier", "origin");
    assert_eq!(refused_file(twice), "sample.csv: line 1: the header has the column origin twice");
}

#[test]
fn what_is_no_table_at_all_is_refused() {
    let neither = "sample.csv: is neither gzip nor CSV: ";
    for (bytes, why) in [
        (&b"PK\x03\x04rest"[..], "it is a zip archive"),
        (b"\x28\xb5\x2f\xfdrest", "it is packed with zstd"),
        (b"\xff\xfey\0", "it is UTF-16 text"),
        (b"\x7fELF\0\0\0\n", "the first line holds binary data"),
        (b"Dear reader,\n", "the first line names none of the columns"),
        (&[b'x'; 70_000], "the first line does not end"),
    ] {
        assert_eq!(refused_file(bytes), format!("{neither}{why}"));
    }
    for nothing in ["", "\n", "\r\n\r\n"] {
        assert_eq!(refused_file(nothing), "sample.csv: is empty");
        assert_eq!(refused_file(gzip(nothing.as_bytes())), "sample.csv: is empty");
    }
}

#[test]
fn a_row_without_end_stops_in_bounded_memory() {
    let endless = Cursor::new(format!("{HEADER}2013,\"")).chain(std::io::repeat(b'7'));
    let mut reader = Reader::new(Path::new("a"), endless, None).unwrap();
    let error = reader.next().unwrap().unwrap_err();
    assert!(matches!(error.fault, Fault::RowTooLong { line: 2 }), "{error}");
}

#[test]
fn gzip_cut_anywhere_is_called_truncated() {
    let whole = gzip(three_flights().as_bytes());
    for length in GZIP.len()..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        assert!(matches!(error.fault, Fault::Truncated { .. }), "at {length}: {error}");
    }
}

#[test]
fn no_flipped_bit_and_no_cut_panics() {
    let text = three_flights().into_bytes();
    for whole in [gzip(&text), text] {
        for at in 0..whole.len() {
            let _ = read(&whole[..at]);
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                let _ = read(flipped);
            }
        }
    }
}

#[test]
fn no_random_bytes_panic() {
    let mut random = Random(0x5eed);
    for round in 0..500 {
        let noise: Vec<u8> = (0..random.below(400)).map(|_| random.below(256) as u8).collect();
        let _ = read(noise.clone());
        let _ = read([GZIP, &noise].concat());
        let _ = read([HEADER.as_bytes(), &noise].concat());
        let _ = read(gzip(&[HEADER.as_bytes(), &noise].concat()));
        let _ = read(mixed(&mut random, round));
    }
}

/// A header and bytes that mean something to a CSV parser more often than chance would have it.
fn mixed(random: &mut Random, length: usize) -> Vec<u8> {
    const PIECES: &[u8] = b",,,,,,\"\n\r0123456789NAxJFK -.\0\xff";
    let noise = (0..length).map(|_| PIECES[random.below(PIECES.len() as u64) as usize]);
    HEADER.bytes().chain(noise).collect()
}

/// A xorshift generator: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
