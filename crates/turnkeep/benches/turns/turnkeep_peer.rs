//! Turnkeep as a peer: Spots on a node with two workers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use turnkeep::prelude::*;

use crate::peer::{BOUND, Count, Goal, Peer, WORKERS};

/// `RECORDED`: with all that the node does written to a file.
pub(crate) struct Turnkeep<const RECORDED: bool = false> {
    node: Node,
    trace: std::path::PathBuf,
    /// Runs what is awaited from outside of the node.
    outside: tokio::runtime::Runtime,
}

#[derive(Message)]
#[message(reply = u64)]
pub(crate) struct Add(u64);
#[derive(Message)]
pub(crate) struct Hop(u64);
#[derive(Message)]
struct Link(#[message(no_heap)] SpotRef<Relay>);

pub(crate) struct Counter(Count);
pub(crate) struct Relay {
    next: Option<SpotRef<Relay>>,
    hops: u64,
    goal: Arc<Goal>,
}

impl Spot for Counter {
    type Mode = SpotWide;
}
impl Spot for Relay {
    type Mode = SpotWide;
}

impl Handles<Add> for Counter {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        Ok(turn.0.take(add.0))
    }
}
impl Handles<Link> for Relay {
    async fn handle(turn: &mut Turn<'_, Self>, link: Link) -> Result<(), Never> {
        turn.next = Some(link.0);
        Ok(())
    }
}
impl Handles<Hop> for Relay {
    async fn handle(turn: &mut Turn<'_, Self>, hop: Hop) -> Result<(), Never> {
        let relay = turn.state();
        relay.hops += 1;
        if hop.0 == 1 {
            relay.goal.report(1, 0);
        } else if let Some(next) = &relay.next {
            let sent = next.send(Hop(hop.0 - 1));
            sent.await.unwrap();
        }
        Ok(())
    }
}

impl<const RECORDED: bool> Peer for Turnkeep<RECORDED> {
    const NAME: &'static str = if RECORDED { "turnkeep_rec" } else { "turnkeep" };
    type Counter = SpotRef<Counter>;
    type Relay = SpotRef<Relay>;

    fn start() -> Self {
        let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lane = Lane { records: BOUND as u32, ..Lane::APPLICATION };
        let builder = Node::builder()
            .workers(std::env::var("TURNS_WORKERS").map_or(WORKERS, |n| n.parse().unwrap()))
            .application_lane(lane);
        let builder = builder.spot_with("counter", Options::<Counter>::new());
        let builder = builder.spot_with("relay", Options::<Relay>::new());
        let trace = std::env::temp_dir().join(format!("turns-{}.trace", std::process::id()));
        let builder = if RECORDED { builder.trace(&trace) } else { builder };
        let node = outside.block_on(builder.start()).unwrap();
        Self { node, trace, outside }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        drop(self.node.spawn(task));
    }

    fn counters(&self, count: usize, work: Duration, goal: &Arc<Goal>) -> Vec<SpotRef<Counter>> {
        let make = async |n: usize| {
            let counter = Counter(Count::new(work, goal.clone()));
            self.node.spot(&format!("counter-{n}")).create_with(counter).await.unwrap()
        };
        self.outside.block_on(async {
            let mut made = Vec::with_capacity(count);
            for n in 0..count {
                made.push(make(n).await);
            }
            made
        })
    }

    fn relays(&self, count: usize, goal: &Arc<Goal>) -> Vec<SpotRef<Relay>> {
        self.outside.block_on(async {
            let mut made: Vec<SpotRef<Relay>> = Vec::with_capacity(count);
            for n in 0..count {
                let relay = Relay { next: None, hops: 0, goal: goal.clone() };
                made.push(self.node.spot(&format!("relay-{n}")).create_with(relay).await.unwrap());
            }
            for n in 0..count {
                made[n].send(Link(made[(n + 1) % count].clone())).await.unwrap();
            }
            self.node.quiesce().await.unwrap();
            made
        })
    }

    async fn send(counter: &SpotRef<Counter>, number: u64) {
        counter.send(Add(number)).await.unwrap();
    }

    async fn ask(counter: &SpotRef<Counter>, number: u64) -> u64 {
        counter.ask(Add(number)).await.unwrap()
    }

    async fn hop(relay: &SpotRef<Relay>, hops: u64) {
        relay.send(Hop(hops)).await.unwrap();
    }
}

impl<const RECORDED: bool> Drop for Turnkeep<RECORDED> {
    fn drop(&mut self) {
        let _report = self.outside.block_on(self.node.shutdown());
        if RECORDED {
            let _ = std::fs::remove_file(&self.trace);
        }
    }
}
