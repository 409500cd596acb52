//! Faults of growing memory that runtimes of this kind have had, each counted in the bytes of the whole process.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use turnkeep::WAITERS_MAX;
use turnkeep::prelude::*;

use support::{Signal, within};
use world::{Room, hold, ping, room, world, world_with_lane};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;
/// What a waiting send may take, itself included.
const BYTES_EACH_MAX: usize = 1024;

/// The measurements are of the process: one test at a time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Nothing grows from the second round to the last, and the last is near the first.
fn is_level(after: &[usize]) {
    let (second, last) = (after[1], after[after.len() - 1]);
    assert!(last <= second + MIB / 4, "{after:?}: it grows from round to round");
    assert!(after.iter().all(|bytes| *bytes <= after[0] + MIB), "{after:?}");
}

async fn end_in_peace(node: &Node) {
    assert!(!node.shutdown().await.unwrap().forced);
}

#[tokio::test]
async fn cb_25_a_waiters_are_bounded_in_number_and_bytes_and_leave_nothing() {
    let _alone = ALONE.lock().await;
    within(async {
        let node = world_with_lane(2, 16).await;
        let spot = room(&node, "spot").await;
        let mut after = Vec::new();
        for _ in 0..ROUNDS {
            let go = hold(&spot).await;
            for _ in 1..16 {
                spot.try_send(act!(Room, [], |_turn| ())).unwrap();
            }
            let before = ALLOCATOR.allocated();
            let mut waiters = Vec::with_capacity(WAITERS_MAX);
            for _ in 0..WAITERS_MAX {
                let mut send = spot.send(act!(Room, [], |_turn| ()));
                assert!(futures_util::poll!(&mut send).is_pending());
                waiters.push(send);
            }
            let taken = ALLOCATOR.allocated().saturating_sub(before);
            assert!(taken <= WAITERS_MAX * BYTES_EACH_MAX, "{} bytes a waiter", taken / WAITERS_MAX);
            let refused = spot.send(act!(Room, [], |_turn| ())).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::CapacityExceeded, "one more than may wait");
            drop(refused);
            drop(waiters);
            assert_eq!(spot.waiting(), (0, 0));
            go.set();
            node.quiesce().await.unwrap();
            after.push(ALLOCATOR.allocated());
        }
        is_level(&after);
        end_in_peace(&node).await;
    })
    .await;
}

/// Calls that were given up, and whose answers come late (CB-33).
#[tokio::test]
async fn cb_33_c_calls_that_were_given_up_leave_no_bytes() {
    const CALLS: usize = 800;
    let _alone = ALONE.lock().await;
    within(async {
        let node = world(2).await;
        let spot = room(&node, "spot").await;
        let mut after = Vec::new();
        for _ in 0..ROUNDS {
            let go: Signal = hold(&spot).await;
            let mut asks = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                // All at once, and each in a task of its own.
                asks.push(tokio::spawn(
                    spot.ask(act!(Room, [], |_turn| ())).timeout(Duration::from_millis(1)),
                ));
            }
            for ask in asks {
                assert_eq!(ask.await.unwrap().unwrap_err().kind(), Some(ErrorKind::DeadlineExceeded));
            }
            go.set();
            node.quiesce().await.unwrap();
            after.push(ALLOCATOR.allocated());
        }
        is_level(&after);
        end_in_peace(&node).await;
    })
    .await;
}

/// One long request that makes many calls of all kinds (CB-44).
#[tokio::test]
async fn cb_44_b_a_long_request_gathers_no_bytes_for_its_many_calls() {
    const CALLS: usize = 2000;
    let _alone = ALONE.lock().await;
    within(async {
        let node = world(2).await;
        let (spot, other) = (room(&node, "spot").await, room(&node, "other").await);
        let after = spot.ask(act!(Room, [other], |turn| {
            let mut after = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                for _ in 0..CALLS {
                    ping(&other).await;
                    turn.cpu(|| ()).await.unwrap();
                    turn.yielding(turn.io(async {})).await.unwrap();
                }
                after.push(ALLOCATOR.allocated());
            }
            after
        }));
        is_level(&after.timeout(Duration::from_secs(600)).await.unwrap());
        end_in_peace(&node).await;
    })
    .await;
}
