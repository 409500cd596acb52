//! Reads a bus log, record by record, within a fixed length a record.

use std::io::{self, Read};

use serde::Deserialize;

use super::entry::{Entry, FORMAT, Header, VERSION};

/// The longest record that a reader takes.
const RECORD_BYTES_MAX: u32 = 1 << 20;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The source failed.
    #[error("record {record}: cannot be read: {cause}; check the file and the disk")]
    Read {
        /// The record, the first one being 0.
        record: u64,
        /// What the source says.
        cause: io::Error,
    },
    /// The source ends in the middle of a record.
    #[error("record {record}: the log ends in the middle of it; it was cut short, write it again")]
    Truncated {
        /// The record.
        record: u64,
    },
    /// The record is longer than any that is written.
    #[error(
        "record {record}: {bytes} bytes are more than a record has; this is no bus log, or a damaged one"
    )]
    TooLong {
        /// The record.
        record: u64,
        /// Its stated length.
        bytes: u32,
    },
    /// The record is not what a log consists of.
    #[error("record {record}: {cause}; this is no bus log, or a damaged one")]
    Malformed {
        /// The record.
        record: u64,
        /// What the decoder says.
        cause: String,
    },
    /// Another version wrote it.
    #[error("the log has version {found}, and this program reads up to {VERSION}; use a newer one")]
    Version {
        /// The log's version.
        found: u32,
    },
}

/// The entries of a log in their order; the first error is the last item.
pub struct LogReader<R> {
    source: R,
    /// The record that is read next.
    record: u64,
    buffer: Vec<u8>,
    over: bool,
}

/// Whether a file that begins with these bytes, 32 are enough, may be a bus log.
#[must_use]
pub fn is_log(head: &[u8]) -> bool {
    // Behind the record's length, the array's and the string's: the first thing in the header.
    head.get(..32.min(head.len()))
        .is_some_and(|head| head.windows(FORMAT.len()).any(|it| it == FORMAT.as_bytes()))
}

impl<R: Read> LogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// The source holds no bus log of a version that is known.
    pub fn new(source: R) -> Result<Self, LogError> {
        let mut reader = Self { source, record: 0, buffer: Vec::new(), over: false };
        let header: Header = match reader.read()? {
            Some(header) => header,
            None => return Err(LogError::Truncated { record: 0 }),
        };
        if header.format != FORMAT {
            let cause = format!("the format is {:?}", header.format);
            return Err(LogError::Malformed { record: 0, cause });
        }
        if header.version > VERSION {
            return Err(LogError::Version { found: header.version });
        }
        Ok(reader)
    }

    fn read<T: for<'de> Deserialize<'de>>(&mut self) -> Result<Option<T>, LogError> {
        let record = self.record;
        let mut length = [0; 4];
        let got = self.fill(&mut length, record)?;
        if got == 0 {
            return Ok(None);
        }
        if got < length.len() {
            return Err(LogError::Truncated { record });
        }
        let bytes = u32::from_be_bytes(length);
        if bytes > RECORD_BYTES_MAX {
            return Err(LogError::TooLong { record, bytes });
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(bytes as usize, 0);
        let got = self.fill(&mut buffer, record)?;
        if got < buffer.len() {
            return Err(LogError::Truncated { record });
        }
        let value = rmp_serde::from_slice(&buffer)
            .map_err(|error| LogError::Malformed { record, cause: error.to_string() })?;
        self.buffer = buffer;
        self.record += 1;
        Ok(Some(value))
    }

    /// Reads until the buffer is full or the source ends.
    fn fill(&mut self, buffer: &mut [u8], record: u64) -> Result<usize, LogError> {
        let mut got = 0;
        while got < buffer.len() {
            match self.source.read(&mut buffer[got..]) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(LogError::Read { record, cause }),
            }
        }
        Ok(got)
    }
}

impl<R: Read> Iterator for LogReader<R> {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read();
        self.over = !matches!(read, Ok(Some(_)));
        read.transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::writer::Writer;
    use super::*;

    #[derive(Clone, Default)]
    struct Bytes(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Bytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(entries: &[Entry]) -> Vec<u8> {
        let bytes = Bytes::default();
        let mut writer = Writer::new(Box::new(bytes.clone()));
        entries.iter().for_each(|entry| writer.write(entry));
        writer.flush().unwrap();
        bytes.0.lock().unwrap().clone()
    }

    #[test]
    fn what_was_written_is_read() {
        let entries = [Entry::TeardownBegan, Entry::Sent { queue: 1, command: 2, root: None }];
        let bytes = log(&entries);
        let read: Vec<Entry> = LogReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn what_is_no_log_is_refused_with_its_record() {
        let bytes = log(&[Entry::TeardownBegan]);
        let cut = &bytes[..bytes.len() - 1];
        let last = LogReader::new(cut).unwrap().last();
        assert!(matches!(last, Some(Err(LogError::Truncated { record: 1 }))));
        assert!(matches!(LogReader::new(&b""[..]), Err(LogError::Truncated { record: 0 })));
        assert!(matches!(LogReader::new(&[255; 9][..]), Err(LogError::TooLong { record: 0, .. })));
        assert!(matches!(LogReader::new(&b"\0\0\0\x01x"[..]), Err(LogError::Malformed { record: 0, .. })));
    }
}
