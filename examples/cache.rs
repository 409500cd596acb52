//! A yielding cache: an Instance Spot in front of a slow call. A hundred callers, one call for each key.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use turnkeep::prelude::*;

/// How often the slow thing was really asked.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// What is known, and what is being fetched.
#[derive(Default)]
struct Cache {
    known: HashMap<String, String>,
    fetching: HashMap<String, Vec<tokio::sync::oneshot::Sender<String>>>,
}

impl Spot for Cache {
    type Mode = Instance;
}

#[derive(Message)]
#[message(reply = String, error = Failure)]
struct Get(String);

impl Handles<Get> for Cache {
    async fn handle(turn: &mut Turn<'_, Self>, get: Get) -> Result<String, Failure> {
        let key = get.0;
        if let Some(value) = turn.known.get(&key) {
            return Ok(value.clone());
        }
        if let Some(others) = turn.fetching.get_mut(&key) {
            let (told, wait) = tokio::sync::oneshot::channel();
            others.push(told);
            let io = turn.io(wait);
            return Ok(turn.yielding(io).await??); // somebody fetches it: wait with the gate open
        }
        turn.fetching.insert(key.clone(), Vec::new());
        let slow = turn.io(fetch(key.clone()));
        let value = turn.yielding(slow).await?; // the gate is open: the others come in meanwhile
        for told in turn.fetching.remove(&key).unwrap_or_default() {
            let _ = told.send(value.clone());
        }
        turn.known.insert(key, value.clone());
        Ok(value)
    }
}

/// Something slow at the other end of a wire.
async fn fetch(key: String) -> String {
    CALLS.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(20)).await;
    format!("the value of {key}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let node = Node::builder().spot::<Cache>("cache").start().await?;
    let callers: Vec<_> = (0..100)
        .map(|n| {
            let cache = node.spot::<Cache>("weather");
            // The first message makes the Spot.
            node.spawn(async move { cache.ask(Get(format!("key-{}", n % 5))).or_create().await })
        })
        .collect();
    let mut answers = 0;
    for caller in callers {
        let value = caller.await??;
        assert!(value.starts_with("the value of key-"));
        answers += 1;
    }
    println!(
        "{answers} answers from {} slow calls, {} yields",
        CALLS.load(Ordering::Relaxed),
        node.metrics().yields
    );
    assert_eq!(CALLS.load(Ordering::Relaxed), 5);
    node.shutdown().await?;
    Ok(())
}
