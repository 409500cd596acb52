//! Reads flights from a CSV file, plain or gzipped, one row at a time and within fixed memory.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

mod error;
pub(crate) mod records;
mod row;
#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub(crate) use error::{Excerpt, Fault, InputError};
use records::{Records, Stop};
use row::Header;

/// How much is read from a file, and unpacked from gzip, at once.
const BUFFER_BYTES: usize = 64 * 1024;
/// The two bytes that begin every gzip member.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// The first bytes of packed or encoded files that people take for CSV, with a word on each.
const STRANGERS: [(&[u8], &str); 6] = [
    (b"PK\x03\x04", "it is a zip archive"),
    (b"BZh", "it is packed with bzip2"),
    (b"\xfd7zXZ", "it is packed with xz"),
    (b"\x28\xb5\x2f\xfd", "it is packed with zstd"),
    (b"\xff\xfe", "it is UTF-16 text"),
    (b"\xfe\xff", "it is UTF-16 text"),
];

/// One row of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Flight {
    /// The line of the file on which the row begins.
    pub(crate) line: u64,
    /// The airport it was to leave.
    pub(crate) origin: Airport,
    /// The airport it was bound for.
    pub(crate) destination: Airport,
    /// When it is handed out, in minutes since 1970 by the local clock: at its actual departure, or when it should
    /// have left if it never did.
    pub(crate) release_min: i64,
    /// What became of it.
    pub(crate) fate: Fate,
}

/// What became of a flight.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// It never left: the row has no `dep_time`.
    Cancelled,
    /// It left, in the aircraft of that tail number.
    Departed {
        /// The aircraft, never empty, at most 255 bytes.
        tailnum: Arc<str>,
        /// Minutes late at the destination, negative when early; none if the flight was diverted.
        arr_delay: Option<i32>,
    },
}

/// An airport's code: 1 to 8 ASCII letters or digits.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Airport([u8; 8]);

impl Airport {
    /// The airport of that code; none if it is not a code.
    pub(crate) fn new(code: &str) -> Option<Self> {
        let mut bytes = [0; 8];
        let fits = (1..=bytes.len()).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphanumeric());
        fits.then(|| {
            bytes[..code.len()].copy_from_slice(code.as_bytes());
            Self(bytes)
        })
    }

    /// The code.
    pub(crate) fn as_str(&self) -> &str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}

impl fmt::Display for Airport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Airport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The flights of a file in its order, up to a limit; the first error is the last item.
pub(crate) struct Reader {
    path: Arc<Path>,
    records: Records<Box<dyn BufRead + Send>>,
    header: Header,
    gzip: bool,
    /// How many rows may still be given out; zero after an error or the end.
    left: u64,
}

impl Reader {
    /// Opens the file and reads its header. At most `limit` rows will be given out.
    pub(crate) fn open(path: &Path, limit: Option<u64>) -> Result<Self, InputError> {
        let file = open_file(path).map_err(|fault| InputError { path: path.into(), fault })?;
        Self::new(path, file, limit)
    }

    fn new(path: &Path, source: impl Read + Send + 'static, limit: Option<u64>) -> Result<Self, InputError> {
        let error = |fault| InputError { path: path.into(), fault };
        let (source, gzip) = unpack(source).map_err(error)?;
        let mut records = Records::new(source);
        let more = records.advance().map_err(|stop| {
            error(match stop {
                Stop::TooLong => Fault::NotCsv("the first line does not end"),
                Stop::Read(cause) => read_fault(cause, gzip, 1),
            })
        })?;
        let header = if more { Header::read(&records) } else { Err(Fault::Empty) };
        let header = header.map_err(error)?;
        Ok(Self { path: path.into(), records, header, gzip, left: limit.unwrap_or(u64::MAX) })
    }

    fn read(&mut self) -> Result<Option<Flight>, Fault> {
        match self.records.advance() {
            Ok(true) => self.header.flight(&self.records).map(Some),
            Ok(false) => Ok(None),
            Err(Stop::TooLong) => Err(Fault::RowTooLong { line: self.records.line() }),
            Err(Stop::Read(cause)) => Err(read_fault(cause, self.gzip, self.records.line())),
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Flight, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let read = self.read();
        if !matches!(read, Ok(Some(_))) {
            self.left = 0;
        }
        read.map_err(|fault| InputError { path: self.path.to_path_buf(), fault }).transpose()
    }
}

/// The records of any CSV file, plain or gzipped, with the first one read; and whether it was gzipped.
pub(crate) fn open_records(path: &Path) -> Result<(Records<Box<dyn BufRead + Send>>, bool), Fault> {
    let (source, gzip) = unpack(open_file(path)?)?;
    let mut records = Records::new(source);
    match records.advance() {
        Ok(true) => Ok((records, gzip)),
        Ok(false) => Err(Fault::Empty),
        Err(stop) => Err(stop_fault(stop, gzip, 1)),
    }
}

/// What it means that no record could be cut.
pub(crate) fn stop_fault(stop: Stop, gzip: bool, line: u64) -> Fault {
    match stop {
        Stop::TooLong => Fault::RowTooLong { line },
        Stop::Read(cause) => read_fault(cause, gzip, line),
    }
}

fn open_file(path: &Path) -> Result<File, Fault> {
    // Looked at first: opening a pipe would wait for its writer.
    let kind = fs::metadata(path).map_err(open_fault)?.file_type();
    if kind.is_dir() {
        return Err(Fault::Directory);
    }
    if !kind.is_file() {
        return Err(Fault::NotOrdinary);
    }
    File::open(path).map_err(open_fault)
}

fn open_fault(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Fault::NotFound,
        io::ErrorKind::IsADirectory => Fault::Directory,
        _ => Fault::Read(error),
    }
}

/// The text behind `source`, and whether it was gzipped.
fn unpack(mut source: impl Read + Send + 'static) -> Result<(Box<dyn BufRead + Send>, bool), Fault> {
    let mut head = Vec::new();
    source.by_ref().take(8).read_to_end(&mut head).map_err(Fault::Read)?;
    if let Some((_, what)) = STRANGERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(Fault::NotCsv(what));
    }
    let gzip = head.starts_with(GZIP);
    let whole = BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(head).chain(source));
    if !gzip {
        return Ok((Box::new(whole), gzip));
    }
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))), gzip))
}

fn read_fault(cause: io::Error, gzip: bool, line: u64) -> Fault {
    match cause.kind() {
        io::ErrorKind::UnexpectedEof if gzip => Fault::Truncated { line },
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput if gzip => Fault::Damaged { line, cause },
        _ => Fault::Read(cause),
    }
}
