//! What is logged of failures (ERR-2): in a process of its own, because the subscriber is the process's.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, Once};

use support::within;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turnkeep::prelude::*;

type Entry = HashMap<&'static str, String>;

static ENTRIES: LazyLock<Mutex<Vec<Entry>>> = LazyLock::new(Mutex::default);

/// Keeps what is logged; panics over objects whose id says so.
struct Keeper;

#[derive(Default)]
struct Fields(Entry);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), value.to_string());
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let object = fields.0.get("object").cloned().unwrap_or_default();
        ENTRIES.lock().unwrap().push(fields.0);
        assert!(!object.contains("dangerous"), "the log is broken");
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn entries_of(id: &str) -> Vec<Entry> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Keeper).unwrap());
    let all = ENTRIES.lock().unwrap();
    let part = format!(" {id} ");
    all.iter()
        .filter(|entry| entry.get("object").is_some_and(|object| object.contains(&part)))
        .cloned()
        .collect()
}

#[derive(Default)]
struct Till(u64);
impl Actor for Till {
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        if turn.0 > 0 { Ok(()) } else { Err(Failure::new("nothing was sold")) }
    }
}

#[derive(Debug)]
struct Empty;

#[derive(Message)]
#[message(reply = u64, error = Empty)]
struct Sell(u8);

impl Handles<Sell> for Till {
    async fn handle(turn: &mut Turn<'_, Self>, sell: Sell) -> Result<u64, Empty> {
        match sell.0 {
            0 => Err(Empty),
            1 => panic!("the drawer is stuck"),
            _ => {
                turn.0 += 1;
                Ok(turn.flow())
            }
        }
    }
}

/// Sends on, so that the flow of the failure is that of the first message.
#[derive(Message)]
#[message(reply = u64)]
struct Through(String);
impl Handles<Through> for Till {
    async fn handle(turn: &mut Turn<'_, Self>, through: Through) -> Result<u64, Never> {
        turn.actor::<Till>(&through.0).send(Sell(0)).await.unwrap();
        Ok(turn.flow())
    }
}

async fn node() -> Node {
    entries_of("");
    Node::builder().workers(2).actor::<Till>("till").start().await.unwrap()
}

#[tokio::test]
async fn err_2_b_a_failed_send_is_logged_with_object_message_and_flow() {
    within(async {
        let node = node().await;
        let till = node.actor::<Till>("north").create().await.unwrap();
        let clerk = node.actor::<Till>("clerk").create().await.unwrap();
        let flow = clerk.ask(Through("north".into())).await.unwrap();
        assert!(flow > 0);
        node.quiesce().await.unwrap();
        let entries = entries_of("north");
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert!(entries[0]["object"].contains("north"));
        assert!(
            entries[0]["message"].contains("Sell") || entries[0].values().any(|text| text.contains("Sell"))
        );
        assert_eq!(entries[0]["flow"], flow.to_string(), "the flow of the message that began it");
        assert!(entries[0]["error"].contains("Empty"));
        assert_eq!(node.metrics().failed_sends, 1);
        // A failed request is answered and not logged as a failed send.
        assert!(till.ask(Sell(0)).await.is_err());
        node.quiesce().await.unwrap();
        assert_eq!(entries_of("north").len(), 1);
    })
    .await;
}

#[tokio::test]
async fn err_3_g_a_panic_is_reported_with_object_and_text() {
    within(async {
        let node = node().await;
        let till = node.actor::<Till>("south").create().await.unwrap();
        assert!(till.ask(Sell(1)).await.is_err());
        node.quiesce().await.unwrap();
        let entries = entries_of("south");
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0]["panic"], "the drawer is stuck");
    })
    .await;
}

#[tokio::test]
async fn err_2_c_a_panicking_log_changes_no_result() {
    within(async {
        let node = node().await;
        let till = node.actor::<Till>("dangerous").create().await.unwrap();
        for n in 1..=5 {
            till.send(Sell(0)).await.unwrap();
            assert!(till.ask(Sell(2)).await.is_ok());
            assert_eq!(node.metrics().failed_sends, n);
        }
        assert_eq!(entries_of("dangerous").len(), 5, "the log was called, and panicked");
        assert!(!till.has_ended());
        assert_eq!(node.metrics().panics, 0);
        // A panic is answered, a failing on_closing is told, whatever the log does.
        let error = till.ask(Sell(1)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        let other = node.actor::<Till>("dangerous too").create().await.unwrap();
        let error = other.close().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure);
        assert!(error.to_string().contains("nothing was sold"));
        assert!(!node.shutdown().await.unwrap().forced);
    })
    .await;
}

/// An error that would fill the log by itself.
struct Wordy;

impl Debug for Wordy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (0..10_000).try_for_each(|number| write!(f, "message {number}, "))
    }
}

#[derive(Message)]
#[message(reply = (), error = Wordy)]
struct Flood {
    panics: bool,
}

impl Handles<Flood> for Till {
    async fn handle(_: &mut Turn<'_, Self>, flood: Flood) -> Result<(), Wordy> {
        assert!(!flood.panics, "{Wordy:?}");
        Err(Wordy)
    }
}

/// The log's part of a surge (CB-26): few lines, short ones, and nothing uncounted.
#[tokio::test]
async fn err_2_d_a_flood_of_failures_writes_few_short_lines_that_say_what_was_left_out() {
    within(async {
        const PER_SECOND: u64 = 10;
        let node = node().await;
        let till = node.actor::<Till>("flooded").create().await.unwrap();
        let began = std::time::Instant::now();
        let mut failures = 0;
        let told = |entry: &Entry| entry["left_out"].parse::<u64>().unwrap();
        let entries = loop {
            for _ in 0..50 {
                till.send(Flood { panics: false }).await.unwrap();
            }
            node.quiesce().await.unwrap();
            failures += 50;
            let entries = entries_of("flooded");
            // It goes on until the first line after a pause.
            if entries.iter().any(|entry| told(entry) > 0) {
                break entries;
            }
            assert_eq!(entries.len() as u64, PER_SECOND, "the first ones are told");
        };
        let seconds = began.elapsed().as_secs() + 1;
        assert!(entries.len() as u64 <= seconds * PER_SECOND, "{} lines in {seconds} s", entries.len());
        let told: u64 = entries.iter().map(|entry| 1 + told(entry)).sum();
        assert!(told > failures - 50 && told <= failures, "{told} of {failures}");
        assert_eq!(node.metrics().failed_sends, failures);
        // Another kind of event has lines of its own; neither has long ones.
        till.send(Flood { panics: true }).await.unwrap();
        node.quiesce().await.unwrap();
        let entries = entries_of("flooded");
        assert!(entries.iter().any(|entry| entry.contains_key("panic")));
        for entry in entries {
            let bytes: usize = entry.iter().map(|(name, text)| name.len() + text.len()).sum();
            assert!(bytes <= 1024, "a line of {bytes} bytes");
        }
    })
    .await;
}
