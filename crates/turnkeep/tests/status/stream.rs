//! Status at any time, and as a stream that a slow reader may read slowly.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{NodeState, OBSERVED_MAX, OBSERVERS_MAX, Source, Status, Update};

use crate::support::{Signal, within};

#[derive(Default)]
pub struct Room;
impl Spot for Room {
    type Mode = SpotWide;
}

#[derive(Message)]
pub struct Hold(#[message(no_heap)] pub Signal, #[message(no_heap)] pub Signal);
impl Handles<Hold> for Room {
    async fn handle(_: &mut Turn<'_, Self>, hold: Hold) -> Result<(), Never> {
        hold.0.set();
        hold.1.wait().await;
        Ok(())
    }
}

#[derive(Message)]
pub struct Ping;
impl Handles<Ping> for Room {
    async fn handle(_: &mut Turn<'_, Self>, _: Ping) -> Result<(), Never> {
        Ok(())
    }
}

/// Blocks its worker until the signal.
#[derive(Message)]
pub struct Block(#[message(no_heap)] pub Signal, #[message(no_heap)] pub Signal);
impl Handles<Block> for Room {
    async fn handle(_: &mut Turn<'_, Self>, block: Block) -> Result<(), Never> {
        block.0.set();
        block.1.wait_blocking();
        Ok(())
    }
}

pub async fn node(workers: usize) -> Node {
    Node::builder().workers(workers).spot::<Room>("room").start().await.unwrap()
}

fn of_node(update: &Update) -> Option<&Status> {
    match &update.source {
        Source::Node(status) => Some(status),
        _ => None,
    }
}

#[tokio::test]
async fn stat_1_a_status_says_what_there_is_and_what_is_under_way() {
    let node = node(2).await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    node.quiesce().await.unwrap();
    let before = node.status();
    assert_eq!((before.state, before.workers, before.spots, before.under_way), (NodeState::Open, 2, 2, 0));
    let (held, go) = (Signal::new(), Signal::new());
    room.send(Hold(held.clone(), go.clone())).await.unwrap();
    within(held.wait()).await;
    room.send(Ping).await.unwrap();
    assert_eq!(node.status().under_way, 2);
    let of_room = room.status();
    assert!(of_room.is_ready && !of_room.is_closing && !of_room.has_ended);
    assert_eq!((of_room.queued, of_room.waiting, of_room.members), ((2, 0), (0, 0), 0));
    go.set();
    within(node.quiesce()).await.unwrap();
    let after = node.status();
    assert_eq!(after.metrics.finished - before.metrics.finished, 2);
    assert!(after.uptime >= before.uptime);
    within(room.close()).await.unwrap();
    assert!(room.status().has_ended && !room.status().is_ready);
    assert!(!node.shutdown().await.unwrap().forced);
    assert_eq!(node.status().state, NodeState::Stopped);
}

#[tokio::test]
async fn stat_1_b_a_status_can_be_read_while_every_worker_is_blocked() {
    let node = node(1).await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    let mut observer = node.observe_every(Duration::from_millis(1)).unwrap();
    let (blocked, go) = (Signal::new(), Signal::new());
    room.send(Block(blocked.clone(), go.clone())).await.unwrap();
    within(blocked.wait()).await;
    room.send(Ping).await.unwrap();
    within(async {
        loop {
            let update = observer.next().await.unwrap();
            if of_node(&update).is_some_and(|status| status.under_way == 2) {
                return;
            }
        }
    })
    .await;
    assert_eq!(node.status().under_way, 2);
    go.set();
    within(node.quiesce()).await.unwrap();
    assert!(!node.shutdown().await.unwrap().forced);
}

#[tokio::test]
async fn stat_1_c_a_slow_observer_gets_the_newest_of_each_source_and_how_many_were_merged() {
    let node = node(2).await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    let mut observer = node.observe_every(Duration::from_millis(1)).unwrap();
    let mut other = node.observe_every(Duration::from_millis(1)).unwrap();
    observer.add_spot(&room);
    // One that reads all the time sees that statuses were made; this one reads none of them meanwhile.
    let mut seen = 0;
    while seen < 5 {
        within(room.ask(Ping)).await.unwrap();
        node.quiesce().await.unwrap();
        let update = within(other.next()).await.unwrap();
        seen += u64::from(update.merged == 0);
    }
    within(room.close()).await.unwrap();
    node.quiesce().await.unwrap();
    let finished = node.status().metrics.finished;
    // The newest is there soon, and both sources come once each however much was missed.
    within(async {
        let (mut about_node, mut about_room) = (None, None);
        let mut merged = 0;
        while about_node != Some(finished) || about_room != Some(true) {
            let update = observer.next().await.unwrap();
            merged += update.merged;
            assert_eq!(update.dropped, 0);
            match update.source {
                Source::Node(status) => about_node = Some(status.metrics.finished),
                Source::Object(name, status) => {
                    assert!(name.contains("Spot r"), "{name}");
                    about_room = Some(status.has_ended);
                }
                _ => unreachable!(),
            }
        }
        assert!(merged > 0, "what was not read was merged");
    })
    .await;
    drop(other);
    assert!(!node.shutdown().await.unwrap().forced);
    within(async { while observer.next().await.is_some() {} }).await;
}

#[tokio::test]
async fn stat_1_d_observers_and_what_they_observe_are_bounded() {
    let node = node(1).await;
    let mut all: Vec<_> = (0..OBSERVERS_MAX).map(|_| node.observe().unwrap()).collect();
    assert_eq!(node.observe().unwrap_err().kind(), ErrorKind::CapacityExceeded);
    all.truncate(1);
    assert_eq!(node.observe_every(Duration::ZERO).unwrap_err().kind(), ErrorKind::InvalidOperation);
    let mut observer = node.observe_every(Duration::from_millis(1)).unwrap();
    for number in 0..OBSERVED_MAX + 3 {
        let room = node.spot::<Room>(&format!("r{number}")).create().await.unwrap();
        observer.add_spot(&room);
        observer.add_spot(&room);
    }
    // The last news tell how many there was no place for; each of the others comes once.
    within(async {
        let mut objects = std::collections::HashSet::new();
        let mut dropped = 0;
        while objects.len() < OBSERVED_MAX || dropped < 6 {
            let update = observer.next().await.unwrap();
            dropped = dropped.max(update.dropped);
            if let Source::Object(name, _) = update.source {
                objects.insert(name);
            } else {
                node.spot::<Room>("r0").ask(Ping).await.unwrap();
            }
        }
        assert_eq!((objects.len(), dropped), (OBSERVED_MAX, 6));
    })
    .await;
    assert!(!node.shutdown().await.unwrap().forced);
}
