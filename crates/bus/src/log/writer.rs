//! Writes a bus log: a length before each record, named fields in MessagePack.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::entry::{Entry, FORMAT, Header, VERSION};

/// A log on its way to somewhere. The first error stays, and nothing is written after it.
pub(crate) struct Writer {
    out: BufWriter<Box<dyn Write + Send>>,
    /// Filled anew for each record.
    record: Vec<u8>,
    error: Option<io::Error>,
}

impl Writer {
    pub(crate) fn new(out: Box<dyn Write + Send>) -> Self {
        let mut writer = Self { out: BufWriter::new(out), record: Vec::new(), error: None };
        writer.put(&Header { format: FORMAT.into(), version: VERSION });
        writer
    }

    pub(crate) fn write(&mut self, entry: &Entry) {
        self.put(entry);
    }

    fn put(&mut self, value: &impl Serialize) {
        if self.error.is_none()
            && let Err(error) = self.try_put(value)
        {
            self.error = Some(error);
        }
    }

    fn try_put(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.record.clear();
        rmp_serde::encode::write_named(&mut self.record, value).map_err(io::Error::other)?;
        let length = u32::try_from(self.record.len()).map_err(io::Error::other)?;
        self.out.write_all(&length.to_be_bytes())?;
        self.out.write_all(&self.record)
    }

    /// Writes out what is buffered; the first error, once.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}
