//! The memory of those who wait for room is bounded, and comes back after the wave (LANE-6).
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

#[path = "gate/play.rs"]
mod play;
mod support;

use std::alloc::System;

use cap::Cap;
use turnkeep::prelude::*;
use turnkeep::{Send, WAITERS_MAX};

use crate::play::*;
use crate::support::within;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const MIB: usize = 1 << 20;

/// What a waiting send may take, itself included.
const BYTES_EACH_MAX: usize = 1024;

/// As many senders as may wait, polled once each; what they took.
async fn wave(wide: &SpotRef<Wide>) -> (Vec<Send<Wide, Play>>, usize) {
    let before = ALLOCATOR.allocated();
    let mut waiters = Vec::with_capacity(WAITERS_MAX);
    for _ in 0..WAITERS_MAX {
        let mut send = wide.send(Play(Vec::new()));
        assert!(futures_util::poll!(&mut send).is_pending());
        waiters.push(send);
    }
    assert_eq!(wide.waiting().0, WAITERS_MAX);
    (waiters, ALLOCATOR.allocated().saturating_sub(before))
}

#[tokio::test]
async fn lane_6_e_the_memory_of_waiters_is_bounded_and_returns_after_the_wave() {
    within(async {
        let lane = Lane { records: 16, ..Lane::APPLICATION };
        let stage = Stage::with(2, |builder| builder.application_lane(lane)).await;
        let wide = stage.wide("w").await;
        let mut after = Vec::new();
        for round in 0..6 {
            let kept = keep(|play| async { wide.send(play).await.unwrap() }).await;
            for _ in 1..16 {
                wide.try_send(Play(Vec::new())).unwrap();
            }
            let (waiters, taken) = wave(&wide).await;
            assert!(taken <= WAITERS_MAX * BYTES_EACH_MAX, "{} bytes a waiter", taken / WAITERS_MAX);
            // Gone unserved, and served.
            if round % 2 == 0 {
                drop(waiters);
                kept.go.set();
            } else {
                kept.go.set();
                for waiter in waiters {
                    waiter.await.unwrap();
                }
            }
            stage.node.quiesce().await.unwrap();
            assert_eq!((wide.waiting().0, wide.queued().0), (0, 0));
            after.push(ALLOCATOR.allocated());
        }
        let (first, last) = (after[1], after[after.len() - 1]);
        assert!(last <= first + MIB, "{after:?}: it grows from wave to wave");
        assert!(after.iter().all(|bytes| *bytes < 16 * MIB), "{after:?}: waves leave memory behind");
    })
    .await;
}
