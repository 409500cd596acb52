//! What an ask costs when a task makes it and when a handler makes it in its turn: the handler's wait is noted, so
//! that a cycle of waits can be refused.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by it")]

use std::time::Instant;

use turnkeep::prelude::*;

const ASKS: u32 = 20_000;
const ROUNDS: usize = 41;

#[derive(Default)]
struct Echo(u64);
impl Actor for Echo {}

/// One more.
#[derive(Message)]
#[message(reply = u64)]
struct One;

impl Handles<One> for Echo {
    async fn handle(turn: &mut Turn<'_, Self>, _: One) -> Result<u64, Never> {
        turn.0 += 1;
        Ok(turn.0)
    }
}

/// Asks the echo so often, one ask after the other.
#[derive(Message)]
#[message(reply = u64)]
struct Relay(#[message(no_heap)] ActorRef<Echo>);

impl Handles<Relay> for Echo {
    async fn handle(_: &mut Turn<'_, Self>, relay: Relay) -> Result<u64, Never> {
        Ok(many(&relay.0).await)
    }
}

async fn many(echo: &ActorRef<Echo>) -> u64 {
    let began = Instant::now();
    for _ in 0..ASKS {
        echo.ask(One).await.unwrap();
    }
    began.elapsed().as_nanos() as u64 / u64::from(ASKS)
}

fn median(mut all: Vec<u64>) -> (u64, u64, u64) {
    all.sort_unstable();
    (all[all.len() / 4], all[all.len() / 2], all[all.len() * 3 / 4])
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let node = Node::builder().workers(2).actor::<Echo>("echo").start().await.unwrap();
        let relay = node.actor::<Echo>("relay").create().await.unwrap();
        let echo = node.actor::<Echo>("echo").create().await.unwrap();
        let (mut by_task, mut in_turn) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let asked = echo.clone();
            by_task.push(node.spawn(async move { many(&asked).await }).await.unwrap());
            in_turn.push(relay.ask(Relay(echo.clone())).await.unwrap());
        }
        for (name, times) in [("by a task", by_task), ("in a turn", in_turn)] {
            let (low, middle, high) = median(times);
            println!("ask {name}: {middle} ns ({low} to {high})");
        }
        node.shutdown().await.unwrap();
    });
}
