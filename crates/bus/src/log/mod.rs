//! The log of a bus: everything that its rules are about, one record an event, and a digest of its callbacks.

mod digest;
mod entry;
mod reader;
mod writer;

pub use digest::Digest;
pub use entry::{Entry, FORMAT, Header, VERSION};
pub use reader::{LogError, LogReader, is_log};
pub(crate) use writer::Writer;

use std::io::{self, Write};

/// Where a bus notes what it does: a log, a digest, both.
#[derive(Default)]
pub(crate) struct Journal {
    writer: Option<Writer>,
    digest: Option<Digest>,
    /// Filled anew for each event.
    record: Vec<u8>,
}

impl Journal {
    pub(crate) fn new(log: Option<Box<dyn Write + Send>>, digest: bool) -> Option<Self> {
        if log.is_none() && !digest {
            return None;
        }
        let digest = digest.then(Digest::default);
        Some(Self { writer: log.map(Writer::new), digest, record: Vec::new() })
    }

    /// Writes an entry, if there is a log.
    pub(crate) fn note(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(writer) = &mut self.writer {
            writer.write(&entry());
        }
    }

    /// Takes one callback into the digest; the digest of its event.
    pub(crate) fn callback(
        &mut self,
        names: [&str; 3],
        numbers: [u64; 4],
        event: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        self.record.clear();
        event(&mut self.record);
        let mut own = Digest::default();
        own.bytes(&self.record);
        let event = own.value();
        if let Some(digest) = &mut self.digest {
            names.iter().for_each(|name| digest.bytes(name.as_bytes()));
            digest.number(event);
            numbers.iter().for_each(|&number| digest.number(number));
        }
        event
    }

    pub(crate) fn digest(&self) -> Option<u64> {
        self.digest.as_ref().map(Digest::value)
    }

    /// Writes out what is buffered; the first error of the log, if there was one.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Writer::flush)
    }
}
