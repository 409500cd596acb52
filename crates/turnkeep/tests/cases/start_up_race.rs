//! Messages that reach an object before its first turn has ended: handled after it in order, or refused, never lost.
//!
//! CB-105 is about plug-ins that register in parallel; here all types are registered before a node starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turnkeep::prelude::*;
use turnkeep::{HeapSize, Options};

use crate::support::{Log, Signal, within};
use crate::world::{NEVER, Room, end, room, until};

/// What the objects of a test share.
#[derive(Clone, Default)]
struct Shared {
    begun: Signal,
    go: Signal,
    fails: Arc<AtomicBool>,
    log: Log<usize>,
}

/// Takes its time to start, writes to itself and asks another meanwhile.
struct Starter(Shared);

/// Number 0 is the one that it sends itself.
struct Number(usize);
impl HeapSize for Number {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Number {
    type Reply = ();
    type Error = Never;
}

impl Spot for Starter {
    type Mode = Instance;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        let shared = turn.0.clone();
        shared.begun.set();
        shared.go.wait().await;
        // Where outsiders have filled the lane, this is refused at once: to wait for it would be to wait for itself.
        let to_itself = turn.this_spot().send(Number(0)).await;
        assert!(to_itself.map_or_else(|refused| refused.kind() == ErrorKind::CapacityExceeded, |()| true));
        turn.spot::<Room>("other").ask(act!(Room, [], |_turn| ())).timeout(NEVER).await.unwrap();
        if shared.fails.load(Ordering::SeqCst) {
            return Err(Failure::new("on purpose"));
        }
        Ok(())
    }
}
impl Handles<Number> for Starter {
    async fn handle(turn: &mut Turn<'_, Self>, number: Number) -> Result<(), Never> {
        turn.0.log.push(number.0);
        Ok(())
    }
}

const OUTSIDERS: usize = 10;

/// Ten ask at once while the first turn waits; how each ended.
async fn start(lane: u32, fails: bool) -> (Node, Shared, Vec<Result<(), Option<ErrorKind>>>) {
    let shared = Shared::default();
    shared.fails.store(fails, Ordering::SeqCst);
    let kept = shared.clone();
    let starter = Options::new().factory(move |_| Ok(Starter(kept.clone())));
    let lane = Lane { records: lane, ..Lane::APPLICATION };
    let builder = Node::builder().workers(2).application_lane(lane);
    let node = builder.spot::<Room>("room").spot_with("starter", starter).start().await.unwrap();
    room(&node, "other").await;
    let mut asks = Vec::new();
    for number in 1..=OUTSIDERS {
        let ask = node.spot::<Starter>("s").ask(Number(number)).or_create().timeout(NEVER);
        asks.push(tokio::spawn(ask));
        if number == 1 {
            within(shared.begun.wait()).await;
        }
    }
    // Each one is in the lane, stands in line or has been refused.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    shared.go.set();
    let mut ends = Vec::new();
    for ask in asks {
        ends.push(within(ask).await.unwrap().map_err(|error| error.kind()));
    }
    within(node.quiesce()).await.unwrap();
    (node, shared, ends)
}

#[tokio::test]
async fn cb_104_a_a_start_is_not_held_up_by_those_who_fill_its_lane() {
    for lane in [1, 2] {
        let (node, shared, ends) = start(lane, false).await;
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
        let outside: Vec<usize> = shared.log.take().into_iter().filter(|number| *number > 0).collect();
        assert_eq!(outside, (1..=OUTSIDERS).collect::<Vec<_>>(), "after the start, in order, once each");
        end(node).await;
    }
}

#[tokio::test]
async fn cb_104_b_a_start_that_fails_is_told_to_everyone_who_waits() {
    for lane in [1, 2] {
        let (node, shared, ends) = start(lane, true).await;
        assert!(ends.iter().all(Result::is_err), "{ends:?}");
        assert!(shared.log.is_empty(), "nothing was handled");
        assert!(node.spot::<Starter>("s").find().is_err());
        until(|| node.status().under_way == 0).await;
        end(node).await;
    }
}
