//! Spans of turns: in a process of its own, because the subscriber is the process's.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use support::within;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use turnkeep::prelude::*;

type Fields = HashMap<&'static str, String>;

static SPANS: LazyLock<Mutex<Vec<Fields>>> = LazyLock::new(Mutex::default);
static ENTERED: AtomicU64 = AtomicU64::new(0);
static BROKEN: AtomicBool = AtomicBool::new(false);

/// Keeps the spans; panics at every call if it is broken.
struct Keeper(AtomicU64);

struct Collect<'a>(&'a mut Fields);
impl Visit for Collect<'_> {
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

fn may_break() {
    assert!(!BROKEN.load(Ordering::SeqCst), "the subscriber is broken");
}

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        may_break();
        let mut fields = Fields::default();
        attributes.record(&mut Collect(&mut fields));
        fields.insert("name", attributes.metadata().name().to_owned());
        SPANS.lock().unwrap().push(fields);
        Id::from_u64(self.0.fetch_add(1, Ordering::SeqCst))
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {
        may_break();
        ENTERED.fetch_add(1, Ordering::SeqCst);
    }
    fn exit(&self, _: &Id) {
        may_break();
    }
}

#[derive(Default)]
struct Link;
impl Actor for Link {}

/// Asks the next one, as long as there is one.
#[derive(Message)]
#[message(reply = u64)]
struct Pass(u64);

impl Handles<Pass> for Link {
    async fn handle(turn: &mut Turn<'_, Self>, pass: Pass) -> Result<u64, Never> {
        if pass.0 > 0 {
            let next = turn.actor::<Link>(&format!("secret-{}", pass.0 - 1));
            let flow = next.ask(Pass(pass.0 - 1)).await.unwrap();
            assert_eq!(flow, turn.flow());
        }
        Ok(turn.flow())
    }
}

async fn node(spans: bool) -> Node {
    let node = Node::builder().workers(2).turn_spans(spans).actor::<Link>("link").start().await.unwrap();
    for number in 0..4 {
        node.actor::<Link>(&format!("secret-{number}")).create().await.unwrap();
    }
    node
}

/// One test, because the subscriber is one: off, on, broken.
#[tokio::test]
async fn stat_2_b_turns_have_spans_with_flows_and_no_ids_only_if_asked_for() {
    tracing::subscriber::set_global_default(Keeper(AtomicU64::new(1))).unwrap();
    let quiet = node(false).await;
    within(quiet.actor::<Link>("secret-3").ask(Pass(3))).await.unwrap();
    assert!(SPANS.lock().unwrap().is_empty(), "off by default");
    assert!(!quiet.shutdown().await.unwrap().forced);

    let told = node(true).await;
    let flow = within(told.actor::<Link>("secret-3").ask(Pass(3))).await.unwrap();
    let other = within(told.actor::<Link>("secret-0").ask(Pass(0))).await.unwrap();
    assert_ne!(flow, other, "another call from outside is another flow");
    let spans = std::mem::take(&mut *SPANS.lock().unwrap());
    let of_flow = |flow: u64| spans.iter().filter(|span| span["flow"] == flow.to_string()).count();
    assert_eq!((of_flow(flow), of_flow(other)), (4, 1), "{spans:?}");
    for span in &spans {
        assert_eq!((span["name"].as_str(), span["object"].as_str()), ("turn", "link"));
        assert!(span["message"].contains("Pass"));
        assert!(!span.values().any(|value| value.contains("secret")), "{span:?}");
    }
    assert!(ENTERED.load(Ordering::SeqCst) >= 5);

    BROKEN.store(true, Ordering::SeqCst);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let answered = within(told.actor::<Link>("secret-3").ask(Pass(3))).await;
    std::panic::set_hook(hook);
    assert!(answered.is_ok(), "a broken subscriber changes no result");
    BROKEN.store(false, Ordering::SeqCst);
    assert!(!told.shutdown().await.unwrap().forced);
}
