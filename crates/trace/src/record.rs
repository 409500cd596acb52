//! The recorder: a buffer a thread, one thread that writes.
//!
//! Each thread appends to a buffer of its own, whose lock nobody else wants but the writer, a few times a second.
//! A buffer has at most [`PAGES_MAX`] full pages of [`PAGE_BYTES`]; a thread that is faster than the disk waits
//! there. A trace is for checking and must have no gaps, so back-pressure it is, and never loss.
//!
//! # The mark
//!
//! The writer sweeps all buffers: it reads the time *T*, takes what each buffer has, writes it, and then writes a
//! mark: "everything before *T* is above". That is so because an event's time is read with its buffer locked: an
//! event that the sweep has not found was recorded after the sweep had the lock, so its time is not before *T*.
//! Whatever becomes of the process, a reader knows up to where the trace is whole.
//!
//! # Order
//!
//! Times of different threads are compared, so the clock that is given must be read in order: a reading that
//! happens after another one is not smaller.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::event::Event;
use crate::field::{JoinId, RecordId, TimerId, put_uint};
use crate::{MAGIC, VERSION};

/// A page is handed to the writer when it has grown to this many bytes.
pub(crate) const PAGE_BYTES: usize = 64 << 10;
/// How many full pages a thread may have before it waits.
const PAGES_MAX: usize = 16;
/// How often the writer looks when nobody calls it.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

/// The codes of what is no event: see `docs/trace.md`.
pub(crate) const BLOCK: u64 = 0;
pub(crate) const MARK: u64 = 1;
pub(crate) const END: u64 = 2;

/// Nanoseconds since any origin, read in order.
pub type Clock = fn() -> u64;

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Bytes of the file.
    pub bytes: u64,
}

/// Why there is no whole trace.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file, or the thread that writes it, cannot be made.
    #[error("the trace cannot be begun: {0}; give a path that can be written")]
    Begin(Arc<io::Error>),
    /// The file cannot be written to its end; what came after is lost.
    #[error("the trace cannot be written: {0}; free some room, or write it elsewhere")]
    Write(Arc<io::Error>),
    /// The writing thread is gone.
    #[error("the thread that writes the trace has panicked; the file ends where it was")]
    Panicked,
}

/// Writes what happens. Shared by whoever has something to say; [`finish`](Self::finish) ends it.
pub struct Recorder {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<Result<Summary, TraceError>>>>,
    outcome: OnceLock<Result<Summary, TraceError>>,
    /// Whether a node writes here.
    taken: AtomicBool,
}

struct Shared {
    /// Tells recorders apart in thread storage; never used again in a process.
    number: u64,
    clock: Clock,
    buffers: Mutex<Buffers>,
    writer: OnceLock<Thread>,
    ending: AtomicBool,
    records: AtomicU64,
    joins: AtomicU64,
    timers: AtomicU64,
}

struct Buffers {
    all: Vec<Arc<Buffer>>,
    next_thread: u64,
    /// Nothing is recorded any more.
    closed: bool,
}

/// What one thread has recorded and nobody has written.
struct Buffer {
    thread: u64,
    pages: Mutex<Pages>,
    room: Condvar,
}

#[derive(Default)]
struct Pages {
    open: Page,
    full: VecDeque<Page>,
    last_ns: u64,
    closed: bool,
}

#[derive(Default)]
struct Page {
    base_ns: u64,
    bytes: Vec<u8>,
}

thread_local! {
    /// This thread's buffers, by recorder. Bounded: those of recorders that are gone go with the next new one.
    static MINE: RefCell<Vec<(u64, Arc<Buffer>)>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    /// Begins a trace in a new file; an existing one is replaced.
    ///
    /// # Errors
    ///
    /// [`TraceError::Begin`].
    pub fn create(path: impl AsRef<Path>, clock: Clock) -> Result<Self, TraceError> {
        let file = File::create(path).map_err(begin)?;
        Self::to(file, clock)
    }

    /// Begins a trace in anything that can be written to.
    ///
    /// # Errors
    ///
    /// [`TraceError::Begin`] if no thread can be started.
    pub fn to(sink: impl Write + Send + 'static, clock: Clock) -> Result<Self, TraceError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let shared = Arc::new(Shared {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            clock,
            buffers: Mutex::new(Buffers { all: Vec::new(), next_thread: 1, closed: false }),
            writer: OnceLock::new(),
            ending: AtomicBool::new(false),
            records: AtomicU64::new(1),
            joins: AtomicU64::new(1),
            timers: AtomicU64::new(1),
        });
        let writer = Writer { shared: shared.clone(), sink: Box::new(sink), bytes: 0, failed: None };
        let thread = std::thread::Builder::new().name("turnkeep-trace".to_owned());
        let thread = thread.spawn(move || writer.run()).map_err(begin)?;
        let _ = shared.writer.set(thread.thread().clone());
        Ok(Self {
            shared,
            writer: Mutex::new(Some(thread)),
            outcome: OnceLock::new(),
            taken: AtomicBool::new(false),
        })
    }

    /// Records an event at the time it is now. It waits if this thread has 1 MiB that is not written yet; after
    /// the end, or once writing has failed, it does nothing.
    pub fn record(&self, event: &Event) {
        let recorded = MINE.try_with(|mine| match mine.try_borrow_mut() {
            Ok(mut mine) => self.shared.push(self.shared.mine(&mut mine), event),
            Err(_) => self.shared.push(&self.shared.enlist(), event),
        });
        if recorded.is_err() {
            // The thread is ending: a buffer for this event alone.
            self.shared.push(&self.shared.enlist(), event);
        }
    }

    /// A number for a record.
    pub fn next_record(&self) -> RecordId {
        RecordId(self.shared.records.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for a Join.
    pub fn next_join(&self) -> JoinId {
        JoinId(self.shared.joins.fetch_add(1, Ordering::Relaxed))
    }

    /// A number for a timer.
    pub fn next_timer(&self) -> TimerId {
        TimerId(self.shared.timers.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes the recorder for one node, whose numbers would mix with another's. `false`: it is taken.
    #[must_use]
    pub fn take_for_node(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }

    /// Ends the trace: what is recorded is written, the file says that it is whole. Blocks until then. Called
    /// again it says the same again.
    ///
    /// # Errors
    ///
    /// The first error of writing, if there was one.
    pub fn finish(&self) -> Result<Summary, TraceError> {
        let mut writer = self.writer.lock();
        if let Some(thread) = writer.take() {
            self.shared.ending.store(true, Ordering::Release);
            thread.thread().unpark();
            let _ = self.outcome.set(thread.join().unwrap_or(Err(TraceError::Panicked)));
        }
        self.outcome.get().cloned().unwrap_or(Err(TraceError::Panicked))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("number", &self.shared.number).finish_non_exhaustive()
    }
}

fn begin(error: io::Error) -> TraceError {
    TraceError::Begin(Arc::new(error))
}

impl Shared {
    /// This thread's buffer.
    fn mine<'a>(&self, mine: &'a mut Vec<(u64, Arc<Buffer>)>) -> &'a Arc<Buffer> {
        let at = match mine.iter().position(|(number, _)| *number == self.number) {
            Some(at) => at,
            None => {
                mine.retain(|(_, buffer)| Arc::strong_count(buffer) > 1);
                mine.push((self.number, self.enlist()));
                mine.len() - 1
            }
        };
        &mine[at].1
    }

    fn enlist(&self) -> Arc<Buffer> {
        let mut buffers = self.buffers.lock();
        let thread = buffers.next_thread;
        buffers.next_thread += 1;
        let pages = Mutex::new(Pages { closed: buffers.closed, ..Pages::default() });
        let buffer = Arc::new(Buffer { thread, pages, room: Condvar::new() });
        if !buffers.closed {
            buffers.all.push(buffer.clone());
        }
        buffer
    }

    fn push(&self, buffer: &Buffer, event: &Event) {
        let mut pages = buffer.pages.lock();
        if pages.closed {
            return;
        }
        // With the lock held: see the head of this file.
        pages.append((self.clock)(), event);
        if pages.open.bytes.len() >= PAGE_BYTES {
            self.turn_page(buffer, pages);
        }
    }

    #[cold]
    fn turn_page(&self, buffer: &Buffer, mut pages: MutexGuard<'_, Pages>) {
        let full = std::mem::take(&mut pages.open);
        pages.full.push_back(full);
        if let Some(writer) = self.writer.get() {
            writer.unpark();
        }
        while pages.full.len() >= PAGES_MAX && !pages.closed {
            buffer.room.wait(&mut pages);
        }
    }

    /// Everything that is recorded and not taken yet, thread by thread; the last time, if asked to `close`.
    fn sweep(&self, close: bool, mut take: impl FnMut(u64, Page)) {
        let all = {
            let mut buffers = self.buffers.lock();
            buffers.closed |= close;
            buffers.all.clone()
        };
        for buffer in &all {
            let taken = {
                let mut pages = buffer.pages.lock();
                pages.closed |= close;
                let mut taken = std::mem::take(&mut pages.full);
                if !pages.open.bytes.is_empty() {
                    taken.push_back(std::mem::take(&mut pages.open));
                }
                taken
            };
            buffer.room.notify_all();
            taken.into_iter().for_each(|page| take(buffer.thread, page));
        }
        drop(all);
        // Threads that have ended leave nothing behind.
        let is_used = |buffer: &Arc<Buffer>| {
            Arc::strong_count(buffer) > 1 || !buffer.pages.lock().open.bytes.is_empty()
        };
        self.buffers.lock().all.retain(is_used);
    }
}

impl Pages {
    fn append(&mut self, now_ns: u64, event: &Event) {
        let now_ns = now_ns.max(self.last_ns);
        if self.open.bytes.is_empty() {
            self.open.base_ns = now_ns;
            self.last_ns = now_ns;
            self.open.bytes.reserve(PAGE_BYTES + 4096);
        }
        write_record(&mut self.open.bytes, event.code(), now_ns - self.last_ns, event.parts(), |into| {
            event.put(into);
        });
        self.last_ns = now_ns;
    }
}

/// Appends one length-prefixed record: an array of code, nanoseconds since the one before, and parts.
#[inline]
pub(crate) fn write_record(
    into: &mut Vec<u8>,
    code: u64,
    since_ns: u64,
    parts: u8,
    put: impl FnOnce(&mut Vec<u8>),
) {
    let start = into.len();
    into.extend_from_slice(&[0, 0]);
    match parts + 2 {
        few @ 0..16 => into.push(0x90 | few),
        many => {
            let _ = rmp::encode::write_array_len(into, many.into());
        }
    }
    put_uint(into, code);
    put_uint(into, since_ns);
    put(into);
    let length = u16::try_from(into.len() - start - 2).unwrap_or(u16::MAX);
    debug_assert!(length < u16::MAX, "an event has a few numbers and two texts");
    into[start..start + 2].copy_from_slice(&length.to_le_bytes());
}

struct Writer {
    shared: Arc<Shared>,
    sink: Box<dyn Write + Send>,
    bytes: u64,
    failed: Option<Arc<io::Error>>,
}

/// However the writing thread ends, nobody waits for it any more.
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.sweep(true, |_, page| drop(page));
    }
}

impl Writer {
    fn run(mut self) -> Result<Summary, TraceError> {
        let _last = Last(self.shared.clone());
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&VERSION.to_le_bytes());
        self.write(&header);
        while !self.shared.ending.load(Ordering::Acquire) {
            std::thread::park_timeout(SWEEP_EVERY);
            self.sweep(false);
        }
        self.sweep(true);
        let mut end = Vec::new();
        write_record(&mut end, END, 0, 0, |_| {});
        self.write(&end);
        if self.failed.is_none()
            && let Err(error) = self.sink.flush()
        {
            self.fail(error);
        }
        match self.failed {
            None => Ok(Summary { bytes: self.bytes }),
            Some(error) => Err(TraceError::Write(error)),
        }
    }

    fn sweep(&mut self, close: bool) {
        let shared = self.shared.clone();
        let complete_to_ns = (shared.clock)();
        let mut any = false;
        shared.sweep(close, |thread, page| {
            any = true;
            let mut head = Vec::with_capacity(32);
            write_record(&mut head, BLOCK, 0, 3, |into| {
                [thread, page.base_ns, page.bytes.len() as u64].iter().for_each(|part| put_uint(into, *part));
            });
            self.write(&head);
            self.write(&page.bytes);
        });
        if any && !close {
            let mut mark = Vec::with_capacity(16);
            write_record(&mut mark, MARK, 0, 1, |into| put_uint(into, complete_to_ns));
            self.write(&mark);
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            // The pages are taken all the same, so that nobody waits for room.
            return;
        }
        match self.sink.write_all(bytes) {
            Ok(()) => self.bytes += bytes.len() as u64,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: io::Error) {
        let report = || tracing::error!(%error, "the trace cannot be written; the rest of it is lost");
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
        self.failed = Some(Arc::new(error));
    }
}
