//! Log lines about what may happen often: bounded in number, by the kind of event and node, and in length (ERR-2).
//!
//! The counters of [`Metrics`](crate::Metrics) have every event; a line has the field `left_out`, how many of its kind
//! were not said since the line before. Lines of different kinds do not take each other's places.

use std::fmt::{self, Write};

use parking_lot::Mutex;
use turnkeep_machines::rate::Rate;
use turnkeep_scheduler::ticks;

use crate::node::NodeInner;
use crate::object::report;

/// Lines of one kind that a node writes within a second.
const LINES_PER_SECOND: usize = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Bytes of a text that the program made: an error, a panic, a name of a type.
const TEXT_BYTES_MAX: usize = 256;

/// What may happen often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Often {
    FailedSend,
    FailedTick,
    FailedCallback,
    Panic,
    PanicAside,
    RefusedJoin,
}

const KINDS: usize = Often::RefusedJoin as usize + 1;

/// What a node remembers of its lines.
#[derive(Debug, Default)]
pub(crate) struct Reports([Mutex<Rate<LINES_PER_SECOND>>; KINDS]);

impl Reports {
    /// `Some`: a line may be written now; so many of its kind were left out before it.
    fn on_event(&self, kind: Often) -> Option<u64> {
        self.0[kind as usize].lock().on_event(ticks::now(), SECOND_NS)
    }
}

/// Runs a log call if the node may write a line of that kind; it is given the number of those left out.
pub(crate) fn report_often(node: &NodeInner, kind: Often, log: impl FnOnce(u64)) {
    if let Some(left_out) = node.reports.on_event(kind) {
        report(|| log(left_out));
    }
}

/// The beginning of what something has to say, never more than fits in a line. What it would say after that is not
/// asked for.
pub(crate) fn brief(what: impl fmt::Display) -> String {
    let mut brief = Brief(String::new());
    if write!(brief, "{what}").is_err() {
        brief.0.push('…');
    }
    brief.0
}

struct Brief(String);

impl Write for Brief {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_BYTES_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(&text[..text.floor_char_boundary(room)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_2_a_long_text_is_cut_between_two_characters_and_its_rest_is_not_made() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("äöü")?;
                }
            }
        }
        let text = brief(Endless);
        assert_eq!(text.chars().last(), Some('…'));
        assert_eq!(text.len(), TEXT_BYTES_MAX + '…'.len_utf8());
        assert_eq!(brief("short"), "short");
        let exact = "x".repeat(TEXT_BYTES_MAX);
        assert_eq!(brief(&exact), exact);
    }
}
