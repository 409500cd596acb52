//! The world of the yield tests, with what a test chooses for its types.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::time::Duration;

use turnkeep::PanicPolicy;
use turnkeep::prelude::*;

use crate::support::Log;
use crate::world::{Cabin, Cache, Player, Room};

/// A node of the world's types with a policy; the log has the ids that factories made, in order.
pub async fn node_with(workers: usize, policy: PanicPolicy) -> (Node, Log<String>) {
    let made = Log::new();
    let node = Node::builder()
        .workers(workers)
        .spot_with("room", options::<Room>(&made).on_panic(policy))
        .spot_with("cabin", options::<Cabin>(&made).on_panic(policy))
        .spot_with("cache", options::<Cache>(&made).on_panic(policy))
        .actor_with("player", options::<Player>(&made).on_panic(policy))
        .start()
        .await
        .unwrap();
    (node, made)
}

/// A type whose factory says what it makes.
pub fn options<T: Default + 'static>(made: &Log<String>) -> Options<T> {
    let made = made.clone();
    Options::new().factory(move |id| {
        made.push(id.to_owned());
        Ok(T::default())
    })
}

/// A node whose Instance Spots rest so long.
pub async fn resting(workers: usize, idle: Duration) -> (Node, Log<String>) {
    let made = Log::new();
    let node = Node::builder()
        .workers(workers)
        .spot::<Room>("room")
        .spot_with("cache", options::<Cache>(&made).idle_after(idle))
        .start()
        .await
        .unwrap();
    (node, made)
}
