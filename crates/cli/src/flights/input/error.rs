//! What can be wrong with an input file, where, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::records::{RECORD_BYTES_MAX, RECORD_FIELDS_MAX};

/// A file that cannot be used; the text names the place, `help` the way out.
#[derive(Debug)]
pub(crate) struct InputError {
    pub(crate) path: PathBuf,
    pub(crate) fault: Fault,
}

/// The fault itself, with its place in the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Fault {
    /// Nothing of that name exists.
    #[error("no such file")]
    NotFound,
    /// The name is a directory's.
    #[error("is a directory, not a file")]
    Directory,
    /// A pipe or a device: the job reads its input more than once.
    #[error("is not an ordinary file")]
    NotOrdinary,
    /// The operating system refuses.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// No byte at all, or nothing but line ends.
    #[error("is empty")]
    Empty,
    /// The first line is no header of any kind.
    #[error("is neither gzip nor CSV: {0}")]
    NotCsv(&'static str),
    /// The header lacks columns.
    #[error("line {line}: the header has no column {}", .columns.join(", "))]
    MissingColumns {
        /// The header's line.
        line: u64,
        /// Every needed name that was not found.
        columns: Vec<&'static str>,
    },
    /// The header has a needed column twice.
    #[error("line {line}: the header has the column {column} twice")]
    ColumnTwice {
        /// The header's line.
        line: u64,
        /// The doubled name.
        column: &'static str,
    },
    /// The gzip stream stops before its end.
    #[error("line {line}: the gzip data ends too early, the file is truncated")]
    Truncated {
        /// The line that was being read.
        line: u64,
    },
    /// The gzip stream contradicts itself.
    #[error("line {line}: the gzip data is damaged: {cause}")]
    Damaged {
        /// The line that was being read.
        line: u64,
        /// What the decoder says.
        cause: io::Error,
    },
    /// A record that would not fit the buffer.
    #[error(
        "line {line}: the row that begins here is longer than {RECORD_BYTES_MAX} bytes or {RECORD_FIELDS_MAX} fields"
    )]
    RowTooLong {
        /// The record's first line.
        line: u64,
    },
    /// A record that does not match the header.
    #[error("line {line}: the row has {found} fields, the header {expected}")]
    FieldCount {
        /// The record's first line.
        line: u64,
        /// Its number of fields.
        found: usize,
        /// The header's number of fields.
        expected: usize,
    },
    /// A field whose value cannot be used.
    #[error("line {line}, column {column}: {value} {problem}")]
    Value {
        /// The record's first line.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// The start of the value, quoted and escaped.
        value: Excerpt,
        /// What is wrong and what would be right.
        problem: Problem,
    },
}

/// What is wrong with one value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Problem {
    /// No whole number of this kind.
    Number(&'static str),
    /// Longer than a name may be.
    TooLong(usize),
    /// Not UTF-8.
    Encoding,
    /// No airport code.
    Code,
    /// No name for an aircraft or a carrier.
    Name,
    /// Nothing there where something must be.
    Missing(&'static str),
    /// A flight without arrival that had nowhere else to go.
    Nowhere,
}

/// The start of a value as it may be shown on a terminal.
#[derive(Debug)]
pub(crate) struct Excerpt(String);

/// How much of a value an error shows.
const EXCERPT_CHARS_MAX: usize = 40;

impl Excerpt {
    pub(crate) fn of(value: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&value[..value.len().min(4 * EXCERPT_CHARS_MAX)]);
        let shown: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
        let more = if shown.len() < value.len() && text.len() > shown.len() { "…" } else { "" };
        Self(format!("{shown:?}{more}"))
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(kind) => write!(f, "is not {kind}"),
            Self::TooLong(bytes) => write!(f, "is {bytes} bytes long, more than 255"),
            Self::Encoding => f.write_str("is not valid UTF-8"),
            Self::Code => f.write_str("is not an airport code"),
            Self::Name => f.write_str("has a control character in it"),
            Self::Missing(who) => write!(f, "is no value, and {who} needs one"),
            Self::Nowhere => f.write_str("is also the origin, though the flight has no arr_delay"),
        }
    }
}

impl Problem {
    fn help(self) -> &'static str {
        match self {
            Self::Number(_) => "write a whole number, or NA where the value is missing",
            Self::TooLong(_) => "shorten the value, or look for a quote that is not closed",
            Self::Encoding => "save the file as UTF-8",
            Self::Code => "write 1 to 8 letters or digits, such as JFK",
            Self::Name => "remove the control character",
            Self::Missing(_) => "fill the value in, or remove the row",
            Self::Nowhere => "give the flight its arr_delay, or the airport it was bound for",
        }
    }
}

impl Fault {
    /// What the user can do.
    pub(crate) fn help(&self) -> &'static str {
        match self {
            Self::NotFound => "name a CSV file of flights; without a name, run inside the project",
            Self::Directory => "name a file inside it",
            Self::NotOrdinary => "save the rows to a file first and name that",
            Self::Read(_) => "check the file's permissions and the disk",
            Self::Empty => "a header line with column names must come first",
            Self::NotCsv(_) => "pack the CSV file with gzip, or give it unpacked",
            Self::MissingColumns { .. } => "name the columns in the first line, in any order",
            Self::ColumnTwice { .. } => "rename or remove one of the two",
            Self::Truncated { .. } | Self::Damaged { .. } => {
                "fetch or pack the file again; `gzip -t FILE` checks it"
            }
            Self::RowTooLong { .. } => "look for a quote that is not closed, or a file without line ends",
            Self::FieldCount { .. } => "look for a missing or extra comma, or one that needs quotes",
            Self::Value { problem, .. } => problem.help(),
        }
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.fault)
    }
}

impl std::error::Error for InputError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_carries_no_terminal_codes() {
        assert_eq!(Excerpt::of(b"x7").to_string(), "\"x7\"");
        assert_eq!(Excerpt::of(b"\x1b[2J").to_string(), "\"\\u{1b}[2J\"");
        assert_eq!(Excerpt::of(&[b'a'; 500]).to_string(), format!("\"{}\"…", "a".repeat(40)));
        assert_eq!(Excerpt::of(b"caf\xe9").to_string(), "\"caf\u{fffd}\"");
        assert_eq!(Excerpt::of(&[b'a'; 40]).to_string(), format!("\"{}\"", "a".repeat(40)));
    }
}
