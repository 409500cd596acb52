//! Splits a byte stream into CSV records within a fixed buffer, so that no input can grow the memory.

use std::io::{self, BufRead};

use csv_core::ReadRecordResult;

/// The longest record, in bytes, without its quotes and commas.
pub(super) const RECORD_BYTES_MAX: usize = 64 * 1024;
/// The most fields of one record.
pub(super) const RECORD_FIELDS_MAX: usize = 1024;

/// A stream of records of which the current one can be looked at.
pub(crate) struct Records<R> {
    source: R,
    parser: csv_core::Reader,
    /// The current record's fields, one behind the other; refilled by `advance`.
    text: Box<[u8]>,
    /// Where each field ends in `text`; refilled by `advance`.
    ends: Box<[usize]>,
    /// How many of `ends` belong to the current record.
    fields: usize,
    /// The line on which the current record begins.
    line: u64,
    lines: Lines,
}

/// Why no record could be cut from the stream.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The record does not fit the buffer.
    TooLong,
    /// The stream itself failed.
    Read(io::Error),
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            parser: csv_core::Reader::new(),
            text: vec![0; RECORD_BYTES_MAX].into(),
            ends: vec![0; RECORD_FIELDS_MAX].into(),
            fields: 0,
            line: 1,
            lines: Lines { current: 1, after_return: false },
        }
    }

    /// Moves to the next record; false at the end of the stream.
    pub(crate) fn advance(&mut self) -> Result<bool, Stop> {
        self.fields = 0;
        let more = self.skip_blank_lines();
        self.line = self.lines.current;
        if more? { self.cut() } else { Ok(false) }
    }

    /// The line on which the current record begins, the first one being 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The number of fields of the current record.
    pub(crate) fn len(&self) -> usize {
        self.fields
    }

    /// A field of the current record, empty if there is none of that number.
    pub(crate) fn field(&self, index: usize) -> &[u8] {
        if index >= self.fields {
            return &[];
        }
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        self.text.get(start..self.ends[index]).unwrap_or_default()
    }

    /// Passes over line ends; false if nothing else follows.
    fn skip_blank_lines(&mut self) -> Result<bool, Stop> {
        loop {
            let input = fill(&mut self.source)?;
            if input.is_empty() {
                return Ok(false);
            }
            let blank = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let more = blank < input.len();
            self.lines.pass(&input[..blank]);
            self.source.consume(blank);
            if more {
                return Ok(true);
            }
        }
    }

    fn cut(&mut self) -> Result<bool, Stop> {
        let mut length = 0;
        loop {
            let input = fill(&mut self.source)?;
            let (result, taken, written, ended) =
                self.parser.read_record(input, &mut self.text[length..], &mut self.ends[self.fields..]);
            self.lines.pass(&input[..taken]);
            self.source.consume(taken);
            length += written;
            self.fields += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => return Err(Stop::TooLong),
                ReadRecordResult::Record => return Ok(true),
                ReadRecordResult::End => return Ok(false),
            }
        }
    }
}

/// Counts lines that end in `\n`, `\r\n` or `\r`.
struct Lines {
    current: u64,
    /// Whether the last byte was a `\r`, so that a `\n` now ends no further line.
    after_return: bool,
}

impl Lines {
    fn pass(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\r' || (byte == b'\n' && !self.after_return) {
                self.current += 1;
            }
            self.after_return = byte == b'\r';
        }
    }
}

fn fill<R: BufRead>(source: &mut R) -> Result<&[u8], Stop> {
    // Asked twice because a borrow that is returned cannot also be retried.
    loop {
        match source.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Stop::Read(error)),
        }
    }
    source.fill_buf().map_err(Stop::Read)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    fn cut_all(text: &[u8], capacity: usize) -> Vec<(u64, Vec<String>)> {
        let mut records = Records::new(BufReader::with_capacity(capacity, text));
        let mut found = Vec::new();
        while records.advance().unwrap() {
            let fields = (0..records.len()).map(|at| String::from_utf8_lossy(records.field(at)).into());
            found.push((records.line(), fields.collect()));
        }
        found
    }

    fn record(line: u64, fields: &[&str]) -> (u64, Vec<String>) {
        (line, fields.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_record_knows_the_line_it_begins_on_whatever_ends_the_lines() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["a,b", "", "1,\"x", "y\"", "", "", "2,z"].join(end);
            let quoted = format!("x{end}y");
            let want = [record(1, &["a", "b"]), record(3, &["1", &quoted]), record(7, &["2", "z"])];
            for capacity in 1..text.len() + 1 {
                assert_eq!(cut_all(text.as_bytes(), capacity), want, "{end:?}, {capacity}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_field() {
        assert_eq!(cut_all(b"\xef\xbb\xbfa,b\n", 64), [record(1, &["a", "b"])]);
    }

    #[test]
    fn an_endless_record_stops_at_the_buffer() {
        for head in [&b""[..], b"\"", b"a,\"b\n"] {
            let mut records = Records::new(BufReader::new(head.chain(std::io::repeat(b'x'))));
            assert!(matches!(records.advance(), Err(Stop::TooLong)));
        }
        let mut commas = Records::new(BufReader::new(std::io::repeat(b',')));
        assert!(matches!(commas.advance(), Err(Stop::TooLong)));
    }

    #[test]
    fn a_field_past_the_last_is_empty() {
        let mut records = Records::new(&b"a,b"[..]);
        assert!(records.advance().unwrap());
        assert_eq!((records.field(1), records.field(2)), (&b"b"[..], &b""[..]));
        assert!(!records.advance().unwrap());
        assert_eq!(records.field(0), b"");
    }
}
