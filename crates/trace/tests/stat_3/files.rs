//! Files: what is recorded is read back in order, and what is not a trace is an error, never a panic.

use std::io::{self, Cursor, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use turnkeep_trace::event::LAYOUT;
use turnkeep_trace::{Entry, Event, ReadError, Reader, Recorder, TraceError, check};

use crate::script::{ANN, HALL, Script};

/// A clock that goes on by one with each look.
fn clock() -> u64 {
    static NOW: AtomicU64 = AtomicU64::new(1);
    NOW.fetch_add(1, Ordering::SeqCst)
}

/// A file in memory.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn recorded(events: impl IntoIterator<Item = Event>) -> Vec<u8> {
    let file = File::default();
    let recorder = Recorder::to(file.clone(), clock).unwrap();
    events.into_iter().for_each(|event| recorder.record(&event));
    let summary = recorder.finish().unwrap();
    let bytes = file.0.lock().clone();
    assert_eq!(summary.bytes, bytes.len() as u64);
    bytes
}

fn sample() -> Vec<Event> {
    let mut script = Script::new();
    script.run(ANN, 1);
    (2..30).for_each(|record| script.run(HALL, record));
    script.say(Event::NodeEnded { forced: false });
    script.entries().iter().map(|entry| entry.event.clone()).collect()
}

fn read(bytes: &[u8]) -> Result<(Vec<Entry>, bool), ReadError> {
    let mut reader = Reader::open(Cursor::new(bytes))?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok((entries, reader.is_whole()))
}

#[test]
fn stat_3_e_what_is_recorded_is_read_back_in_order() {
    let events = sample();
    let (entries, whole) = read(&recorded(events.clone())).unwrap();
    assert!(whole);
    assert_eq!(entries.into_iter().map(|entry| entry.event).collect::<Vec<_>>(), events);
}

#[test]
fn stat_3_f_threads_are_merged_by_time_and_none_loses_an_event() {
    const EACH: u64 = 40_000;
    let file = File::default();
    let recorder = Recorder::to(file.clone(), clock).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..EACH).for_each(|workers| recorder.record(&Event::NodeBegan { workers })));
        }
    });
    recorder.finish().unwrap();
    recorder.record(&Event::NodeBegan { workers: 0 });
    let (entries, _) = read(&file.0.lock()).unwrap();
    assert_eq!(entries.len() as u64, 4 * EACH);
    assert!(entries.is_sorted_by_key(|entry| entry.time_ns));
    let mut next = std::collections::HashMap::new();
    for entry in entries {
        let next: &mut u64 = next.entry(entry.thread).or_default();
        assert_eq!(entry.event, Event::NodeBegan { workers: *next });
        *next += 1;
    }
}

#[test]
fn stat_3_g_a_trace_cut_anywhere_is_read_to_its_last_mark_or_refused() {
    let bytes = recorded(sample());
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Ok((_, whole)) => assert!(!whole, "cut at {length} of {}", bytes.len()),
            Err(error) => assert!(matches!(error, ReadError::NotATrace), "cut at {length}: {error}"),
        }
    }
}

#[test]
fn stat_3_h_flipped_bytes_are_errors_or_findings_and_never_a_panic() {
    let bytes = recorded(sample());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            match check(Cursor::new(&bytes[..])) {
                Ok((report, checker)) => {
                    assert!(report.events < 10_000);
                    let _ = checker.situations("hall").iter().map(ToString::to_string).count();
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

#[test]
fn stat_3_i_other_files_and_versions_are_refused() {
    let mut bytes = recorded(sample());
    bytes[8] = 2;
    assert!(matches!(read(&bytes), Err(ReadError::Version { found: 2 })));
    assert!(matches!(read(b"year,month,day\n2013,1,1\n"), Err(ReadError::NotATrace)));
    assert!(matches!(read(b""), Err(ReadError::NotATrace)));
    bytes[8] = 1;
    bytes.push(0);
    assert!(matches!(read(&bytes), Err(ReadError::Damaged { .. })));
    // A block that says it is longer than any block can be.
    let mut huge = b"TKTRACE\n\x01\x00".to_vec();
    huge.extend_from_slice(&[10, 0, 0x95, 0, 0, 1, 1, 0xce, 0xff, 0xff, 0xff, 0xff]);
    assert!(matches!(read(&huge), Err(ReadError::Damaged { .. })));
}

/// A disk that is full from the start.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stat_3_j_a_full_disk_is_told_at_the_end_and_stops_nobody() {
    let recorder = Recorder::to(Full, clock).unwrap();
    // More than a thread may have unwritten.
    (0..400_000).for_each(|workers| recorder.record(&Event::NodeBegan { workers }));
    let told = recorder.finish();
    assert!(matches!(told, Err(TraceError::Write(_))), "{told:?}");
    assert!(matches!(recorder.finish(), Err(TraceError::Write(_))));
}

/// Panics when it is to write a lot.
struct Bomb(u64);

impl Write for Bomb {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        assert!(self.0 < 100_000, "on purpose");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn stat_3_l_a_writer_that_panics_is_told_at_the_end_and_nobody_waits_for_it() {
    let recorder = Recorder::to(Bomb(0), clock).unwrap();
    // More than a thread may have unwritten: it would wait for room that never comes.
    (0..400_000).for_each(|workers| recorder.record(&Event::NodeBegan { workers }));
    std::thread::scope(|scope| {
        // A thread that has not recorded before.
        scope.spawn(|| recorder.record(&Event::NodeBegan { workers: 1 }));
    });
    assert!(matches!(recorder.finish(), Err(TraceError::Panicked)));
    assert!(matches!(recorder.finish(), Err(TraceError::Panicked)), "the same again");
}

#[test]
fn stat_3_k_the_documents_list_every_event_as_it_is_written() {
    let text = include_str!("../../../../docs/trace.md");
    for (code, name, fields) in LAYOUT {
        let fields: Vec<String> = fields.iter().map(|(name, of)| format!("{name}: {of}")).collect();
        let row = format!("| {code} | {name} | {} |", fields.join(", "));
        assert!(text.contains(&row), "docs/trace.md has no row {row}");
    }
    for clause in turnkeep_trace::clauses::CLAUSES {
        let row = format!("| {} | {} |", clause.id, clause.checked);
        assert!(text.contains(&row), "docs/trace.md has no row {row}");
    }
}
