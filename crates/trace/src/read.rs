//! The reader: any bytes in, events in the order of time out, or a typed error. Nothing in the file is trusted.
//!
//! A first pass looks at the blocks only and remembers where each thread's lie; a second one merges the threads by
//! (time, thread, place) with one block of each in memory. A file that was cut is read up to its last mark: what
//! lies behind it may lack what other threads did at the same time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, Read, Seek, SeekFrom};

use hashbrown::HashMap;

use crate::event::Event;
use crate::field::{Fields, Malformed};
use crate::record::{BLOCK, END, MARK, PAGE_BYTES};
use crate::{MAGIC, VERSION};

/// The longest block: a page and the one event that filled it.
const BLOCK_BYTES_MAX: u64 = PAGE_BYTES as u64 + (1 << 16) + 2;
/// The most threads a trace may have.
const THREADS_MAX: usize = 1 << 20;

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It begins with something else.
    #[error("the file is no trace: it does not begin as one; give a file that was written with `--trace`")]
    NotATrace,
    /// It was written by another version.
    #[error("the trace has version {found}, this program reads {VERSION}; use the program that wrote it")]
    Version {
        /// The version it has.
        found: u16,
    },
    /// Its bytes make no sense.
    #[error("the trace is damaged at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// One event of the merged trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When, in nanoseconds of the recorder's clock.
    pub time_ns: u64,
    /// The number of the thread that recorded it.
    pub thread: u64,
    /// What happened.
    pub event: Event,
}

/// Whether bytes begin as a trace does.
#[must_use]
pub fn is_trace(head: &[u8]) -> bool {
    head.starts_with(&MAGIC)
}

/// A trace, event by event.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    threads: HashMap<u64, Stream>,
    /// The next time of each thread that has something left.
    heads: BinaryHeap<Reverse<(u64, u64)>>,
    /// Events at or behind this time are not given out.
    horizon_ns: u64,
    is_whole: bool,
}

/// What is left of one thread.
#[derive(Debug, Default)]
struct Stream {
    blocks: VecDeque<Block>,
    bytes: Vec<u8>,
    /// How far `bytes` is read, and where it begins in the file.
    at: usize,
    origin: u64,
    time_ns: u64,
    ready: Option<Event>,
}

#[derive(Debug)]
struct Block {
    at: u64,
    bytes: u64,
    base_ns: u64,
}

impl<R: Read + Seek> Reader<R> {
    /// Looks a trace over.
    ///
    /// # Errors
    ///
    /// If it is none, or damaged. A trace that was cut is none the less one: see [`is_whole`](Self::is_whole).
    pub fn open(mut source: R) -> Result<Self, ReadError> {
        let length = source.seek(SeekFrom::End(0))?;
        source.seek(SeekFrom::Start(0))?;
        let mut source = io::BufReader::new(source);
        let mut index = Index { at: 0, length, threads: HashMap::new(), horizon_ns: 0, is_whole: false };
        index.header(&mut source)?;
        while index.record(&mut source)? {}
        let Index { threads, horizon_ns, is_whole, .. } = index;
        let first = |(thread, stream): (&u64, &Stream)| {
            stream.blocks.front().map(|block| Reverse((block.base_ns, *thread)))
        };
        Ok(Self {
            heads: threads.iter().filter_map(first).collect(),
            source: source.into_inner(),
            threads,
            horizon_ns: if is_whole { u64::MAX } else { horizon_ns },
            is_whole,
        })
    }

    /// Whether the trace was ended in order. If not, it is whole up to its last mark and read that far.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The next event in time, or none at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is damaged here.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        while let Some(Reverse((time_ns, thread))) = self.heads.pop() {
            if time_ns >= self.horizon_ns {
                continue;
            }
            let Some(stream) = self.threads.get_mut(&thread) else { continue };
            if let Some(event) = stream.ready.take() {
                stream.advance()?;
                if stream.ready.is_some() {
                    self.heads.push(Reverse((stream.time_ns, thread)));
                } else if let Some(block) = stream.blocks.front() {
                    self.heads.push(Reverse((block.base_ns, thread)));
                }
                return Ok(Some(Entry { time_ns, thread, event }));
            }
            stream.load(&mut self.source)?;
            stream.advance()?;
            if stream.ready.is_some() {
                self.heads.push(Reverse((stream.time_ns, thread)));
            }
        }
        Ok(None)
    }
}

impl Stream {
    /// Brings the next block in.
    fn load(&mut self, source: &mut (impl Read + Seek)) -> Result<(), ReadError> {
        let Some(block) = self.blocks.pop_front() else { return Ok(()) };
        if block.base_ns < self.time_ns {
            return Err(ReadError::Damaged {
                at: block.at,
                what: "a block is earlier than the one before it",
            });
        }
        source.seek(SeekFrom::Start(block.at))?;
        self.bytes.clear();
        let read = source.by_ref().take(block.bytes).read_to_end(&mut self.bytes)?;
        if read as u64 != block.bytes {
            return Err(ReadError::Damaged { at: block.at, what: "the file became shorter" });
        }
        (self.at, self.origin, self.time_ns) = (0, block.at, block.base_ns);
        Ok(())
    }

    /// Makes the next event of the block ready, if there is one.
    fn advance(&mut self) -> Result<(), ReadError> {
        if self.at >= self.bytes.len() {
            self.bytes = Vec::new();
            self.at = 0;
            return Ok(());
        }
        let at = self.origin + self.at as u64;
        let damaged = |what: Malformed| ReadError::Damaged { at, what: what.0 };
        let rest = &self.bytes[self.at..];
        let body = body(rest).ok_or(ReadError::Damaged { at, what: "an event is longer than its block" })?;
        let (code, since_ns, mut fields, parts) = open(body).map_err(damaged)?;
        let event = Event::take(code, &mut fields).map_err(damaged)?;
        if parts != u32::from(event.parts()) + 2 || !fields.is_empty() {
            return Err(ReadError::Damaged { at, what: "an event has too many or too few parts" });
        }
        let late = ReadError::Damaged { at, what: "a time is later than time can be" };
        self.time_ns = self.time_ns.checked_add(since_ns).ok_or(late)?;
        self.at += 2 + body.len();
        self.ready = Some(event);
        Ok(())
    }
}

/// The bytes of the record that begins here.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.get(..u16::from_le_bytes(*length).into())
}

/// Code, time and the rest of a record, and how many parts it says it has.
fn open(body: &[u8]) -> Result<(u64, u64, Fields<'_>, u32), Malformed> {
    let mut fields = Fields(body);
    let parts = fields.array()?;
    let code = fields.uint()?;
    let since_ns = fields.uint()?;
    Ok((code, since_ns, fields, parts))
}

/// The first pass.
struct Index {
    at: u64,
    length: u64,
    threads: HashMap<u64, Stream>,
    horizon_ns: u64,
    is_whole: bool,
}

impl Index {
    fn header(&mut self, source: &mut impl Read) -> Result<(), ReadError> {
        let mut head = [0; MAGIC.len() + 2];
        match source.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(ReadError::NotATrace),
            read => read?,
        }
        if !is_trace(&head) {
            return Err(ReadError::NotATrace);
        }
        let found = u16::from_le_bytes([head[8], head[9]]);
        if found != VERSION {
            return Err(ReadError::Version { found });
        }
        self.at = head.len() as u64;
        Ok(())
    }

    /// Looks at one record of the outer level. `false` at the end, or where the file was cut.
    fn record(&mut self, source: &mut io::BufReader<impl Read + Seek>) -> Result<bool, ReadError> {
        let mut length = [0; 2];
        if self.is_whole {
            return match self.length == self.at {
                true => Ok(false),
                false => Err(self.damaged("there is something behind the end")),
            };
        }
        if self.length - self.at < 2 {
            return Ok(false);
        }
        source.read_exact(&mut length)?;
        let length = u64::from(u16::from_le_bytes(length));
        if length > 64 {
            return Err(self.damaged("neither a block nor a mark is that long"));
        }
        if self.length - self.at - 2 < length {
            return Ok(false);
        }
        let mut head = [0; 64];
        let head = &mut head[..length as usize];
        source.read_exact(head)?;
        let at = self.at;
        self.at += 2 + length;
        match self.outer(head) {
            Ok(Some(skipped)) => match self.length - self.at < skipped {
                true => Ok(false),
                false => self.skip(source, skipped),
            },
            Ok(None) => Ok(true),
            Err(what) => Err(ReadError::Damaged { at, what: what.0 }),
        }
    }

    fn skip(&mut self, source: &mut io::BufReader<impl Read + Seek>, bytes: u64) -> Result<bool, ReadError> {
        source.seek_relative(i64::try_from(bytes).unwrap_or(0))?;
        self.at += bytes;
        Ok(true)
    }

    /// A block (its length is returned), a mark, or the end.
    fn outer(&mut self, head: &[u8]) -> Result<Option<u64>, Malformed> {
        let (code, _, mut fields, _) = open(head)?;
        match code {
            BLOCK => {
                let (thread, base_ns, bytes) = (fields.uint()?, fields.uint()?, fields.uint()?);
                if bytes == 0 || bytes > BLOCK_BYTES_MAX {
                    return Err(Malformed("no block has that length"));
                }
                if self.length - self.at >= bytes {
                    if self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread) {
                        return Err(Malformed("no trace has that many threads"));
                    }
                    let block = Block { at: self.at, bytes, base_ns };
                    self.threads.entry(thread).or_default().blocks.push_back(block);
                }
                Ok(Some(bytes))
            }
            MARK => {
                self.horizon_ns = self.horizon_ns.max(fields.uint()?);
                Ok(None)
            }
            END => {
                self.is_whole = true;
                Ok(None)
            }
            _ => Err(Malformed("neither a block nor a mark")),
        }
    }

    fn damaged(&self, what: &'static str) -> ReadError {
        ReadError::Damaged { at: self.at, what }
    }
}
