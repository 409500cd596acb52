//! STOP-3: rounds of create, use and end leave everything where it was.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use turnkeep::prelude::*;
use turnkeep::{ObjectKind, PanicPolicy};

use crate::support::within;
use crate::world::*;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const ROUNDS: usize = 10_000;

/// One round: each kind of object made, used in each way, and ended in another.
async fn round(node: &Node, n: usize) {
    let spot = node.spot::<Room>("spot").create().await.unwrap();
    let cache = node.spot::<Cache>("cache");
    cache.ask(act!(Cache, [], |turn| turn.n += 1)).or_create().await.unwrap();
    let cache = cache.find().unwrap();
    let player = node.actor::<Player>("player").create().await.unwrap();
    let watch = player.watch();
    let other = cache.clone();
    spot.ask(act!(Room, [other], |turn| {
        let asked = other.ask(act!(Cache, [], |_turn| ()));
        turn.yielding(asked).await.unwrap();
        other.ask(act!(Cache, [], |_turn| ())).await.unwrap();
    }))
    .await
    .unwrap();
    player.ask(act!(Player, [spot], |turn| turn.defer(turn.join(&spot)).unwrap())).await.unwrap();
    player.ask(act!(Player, [], |turn| turn.n += 1)).await.unwrap();
    // Given up half-way: a watch, an ask, a send.
    drop(watch);
    drop(spot.ask(act!(Room, [], |_turn| ())));
    let mut watched = spot.watch();
    assert!(futures_util::poll!(&mut watched).is_pending());
    let failed = spot.ask(act!(Room, [], |_turn| assert_eq!(1, 2, "again")));
    if n.is_multiple_of(64) {
        failed.await.unwrap_err();
        let sealed = spot.seal().await.unwrap();
        sealed.undo().await;
    }
    let ended = tokio::spawn(player.watch());
    if n.is_multiple_of(2) {
        player.close().await.unwrap()
    } else {
        player.destroy().await.unwrap()
    }
    ended.await.unwrap().unwrap();
    drop(watched);
    node.quiesce().await.unwrap();
    if n.is_multiple_of(3) {
        spot.destroy().await.unwrap()
    } else {
        spot.close().await.unwrap()
    }
    cache.close().await.unwrap();
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

#[tokio::test]
async fn stop_3_a_ten_thousand_rounds_leave_memory_and_descriptors_where_they_were() {
    std::panic::set_hook(Box::new(|_| ()));
    within(async {
        let room = Options::<Room>::new().factory(|_| Ok(Room::default())).on_panic(PanicPolicy::Restart);
        let cache =
            Options::<Cache>::new().factory(|_| Ok(Cache::default())).idle_after(Duration::from_secs(3600));
        let builder = Node::builder().workers(2).spot_with("room", room).spot_with("cache", cache);
        let node = builder.actor::<Player>("player").start().await.unwrap();
        let mut after = Vec::new();
        let mut before = (0, 0);
        for n in 0..ROUNDS {
            round(&node, n).await;
            if n % 1000 == 999 {
                node.quiesce().await.unwrap();
                let kinds = [ObjectKind::Spot, ObjectKind::Actor];
                assert_eq!(kinds.map(|kind| node.count(kind)), [1, 0], "only the Entry Spot is left");
                after.push(ALLOCATOR.allocated());
                if n == 999 {
                    before = (descriptors(), threads());
                }
            }
        }
        assert_eq!((descriptors(), threads()), before);
        println!("bytes after each thousand rounds: {after:?}");
        let (first, last) = (after[1], after[after.len() - 1]);
        assert!(last <= first + 64 * 1024, "{after:?}: it grows");
    })
    .await;
}
