//! More messages than a lane holds: each is accepted or refused to its sender, and no queue grows.
//!
//! CB-25, the memory of those who wait for room, counts the bytes of the whole process and is a test of its own:
//! `cases_memory.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep::prelude::*;

use crate::support::within;
use crate::world::{Room, end, hold, real_world_of, room, until};

const SENDERS: u64 = 4;
const EACH: u64 = 20_000;
const RECORDS: u32 = 256;

#[tokio::test]
async fn cb_26_a_in_a_surge_every_message_is_accepted_or_refused_to_its_sender() {
    for workers in [1, 2] {
        let lane = Lane { records: RECORDS, ..Lane::APPLICATION };
        let node = real_world_of(Node::builder().workers(workers).application_lane(lane)).await;
        let spot = room(&node, "spot").await;
        let refused_before = node.metrics().refused;
        let counts = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        // Held at first, so that the lane does get full.
        let go = within(hold(&spot)).await;
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let (spot, counts) = (spot.clone(), counts.clone());
                std::thread::spawn(move || {
                    for _ in 0..EACH {
                        let which = match spot.try_send(act!(Room, [], |turn| turn.n += 1)) {
                            Ok(()) => &counts.0,
                            Err(refused) => {
                                assert_eq!(refused.kind(), ErrorKind::CapacityExceeded);
                                // The message comes back, and may be sent again.
                                drop(refused.message);
                                &counts.1
                            }
                        };
                        which.fetch_add(1, Ordering::SeqCst);
                        assert!(spot.queued().0 <= RECORDS, "never reads fuller than it can be");
                    }
                })
            })
            .collect();
        until(|| counts.1.load(Ordering::SeqCst) > 0).await;
        assert_eq!(spot.queued().0, RECORDS, "full, the handler that holds included, and not one more");
        go.set();
        until(|| senders.iter().all(std::thread::JoinHandle::is_finished)).await;
        for sender in senders {
            sender.join().unwrap();
        }
        within(node.quiesce()).await.unwrap();
        let (accepted, refused) = (counts.0.load(Ordering::SeqCst), counts.1.load(Ordering::SeqCst));
        assert_eq!(accepted + refused, SENDERS * EACH);
        assert_eq!(spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap(), accepted, "handled");
        assert_eq!(node.metrics().refused - refused_before, refused, "what the node counts");
        end(node).await;
    }
}
