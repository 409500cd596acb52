//! Threads (DOM-3): in a process of its own, because it counts all of them.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::time::Duration;

use turnkeep::prelude::*;

#[derive(Default)]
struct Idle(u64);
impl Spot for Idle {
    type Mode = SpotWide;
}
#[derive(Default)]
struct Sleeper;
impl Actor for Sleeper {}

#[derive(Message)]
#[message(reply = u64)]
struct Count;
impl Handles<Count> for Idle {
    async fn handle(turn: &mut Turn<'_, Self>, _: Count) -> Result<u64, Never> {
        turn.0 += 1;
        let counted = turn.cpu(|| 0).await.unwrap();
        Ok(turn.0 + counted)
    }
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// What they are called.
fn names() -> Vec<String> {
    let all = std::fs::read_dir("/proc/self/task").unwrap();
    let mut names: Vec<_> = all
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    names.sort_unstable();
    names
}

/// Waits until as many threads are left as there should be: a thread that was told to end takes a moment.
async fn settle(wanted: usize) -> usize {
    for _ in 0..2000 {
        if threads() <= wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    threads()
}

/// One test, because another one beside it would be counted too.
#[tokio::test]
async fn dom_3_threads_depend_on_no_number_of_spots_actors_and_nodes() {
    let start = || Node::builder().spot::<Idle>("idle").actor::<Sleeper>("sleeper").start();
    let node = start().await.unwrap();
    let make = async |from: u64, to: u64| {
        for n in from..to {
            let spot = node.spot::<Idle>(&format!("s{n}")).create().await.unwrap();
            if n % 1000 == 0 {
                assert_eq!(spot.ask(Count).await.unwrap(), 1);
            }
        }
    };
    // Threads that are started when they are first needed.
    node.spawn_infrastructure(async {}).await.unwrap();
    make(0, 10).await;
    let with_ten = threads();
    let first = names();
    make(10, 100_000).await;
    for n in 0..1000 {
        node.actor::<Sleeper>(&format!("a{n}")).create().await.unwrap();
    }
    assert_eq!(node.count(turnkeep::ObjectKind::Spot), 100_001, "the Entry Spot is one");
    assert_eq!(threads(), with_ten);
    // Ten more nodes share the workers of the process.
    let mut nodes = Vec::new();
    for _ in 0..10 {
        let other = start().await.unwrap();
        let spot = other.spot::<Idle>("x").create().await.unwrap();
        assert_eq!(spot.ask(Count).await.unwrap(), 1);
        nodes.push(other);
    }
    assert_eq!(threads(), with_ten);
    drop(nodes);
    // A node with workers of its own gives them back, shut down or dropped.
    for round in 0..10 {
        let own = Node::builder().workers(3).spot::<Idle>("idle").start().await.unwrap();
        assert_eq!(own.spot::<Idle>("x").create().await.unwrap().ask(Count).await.unwrap(), 1);
        assert!(threads() >= with_ten + 3);
        if round % 2 == 0 {
            assert!(!own.shutdown().await.unwrap().forced);
        }
        drop(own);
    }
    assert_eq!(settle(with_ten).await, with_ten, "{first:?} became {:?}", names());
}
