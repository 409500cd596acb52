//! Kind "panic poisons object": one panic, and more than its object suffers.
//!
//! The part of case 50 about a bus and its subscribers belongs to the tests of publish; here is the part about
//! objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use turnkeep::prelude::*;
use turnkeep::{BadReply, HeapSize, PanicPolicy};

use crate::support::{Log, Signal, within};
use crate::world::*;

const ACTORS: usize = 1000;
const FAILING: usize = 8;

#[tokio::test]
async fn cb_48_eight_of_a_thousand_actors_panic_and_nobody_else_notices() {
    for policy in [PanicPolicy::Keep, PanicPolicy::Restart, PanicPolicy::Stop] {
        within(async {
            let options = Options::<Player>::new().factory(|_| Ok(Player::default())).on_panic(policy);
            let node = Node::builder().workers(4).actor_with("player", options).start().await.unwrap();
            let mut actors = Vec::new();
            for n in 0..ACTORS {
                actors.push(node.actor::<Player>(&format!("p{n}")).create().await.unwrap());
            }
            let handled: Arc<Vec<AtomicUsize>> = Arc::new((0..ACTORS).map(|_| AtomicUsize::new(0)).collect());
            let mut panics = 0;
            for message in 1..=20_usize {
                for (n, actor) in actors.iter().enumerate() {
                    let handled = handled.clone();
                    let asked = actor.ask(act!(Player, [handled], |turn| {
                        assert!(n >= FAILING || message != 10, "message 10");
                        turn.n += 1;
                        handled[n].fetch_add(1, SeqCst);
                        turn.n
                    }));
                    match asked.await {
                        Ok(count) if n < FAILING && message > 10 => {
                            let before = if policy == PanicPolicy::Restart { 10 } else { 1 };
                            assert_eq!(count, (message - before) as u64, "{policy:?}");
                        }
                        Ok(count) => assert_eq!(count, message as u64),
                        Err(error) if message == 10 => {
                            assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
                            panics += 1;
                        }
                        Err(error) => {
                            assert!(policy == PanicPolicy::Stop && message > 10 && n < FAILING, "{error}");
                        }
                    }
                }
            }
            assert_eq!(panics, FAILING);
            let wanted = |n: usize| match policy {
                PanicPolicy::Stop if n < FAILING => 9,
                _ if n < FAILING => 19,
                _ => 20,
            };
            for n in 0..ACTORS {
                assert_eq!(handled[n].load(SeqCst), wanted(n), "actor {n}, {policy:?}");
            }
            assert_eq!(node.workers(), 4);
            // All four threads still take turns: four handlers that meet.
            let meeting = Arc::new(std::sync::Barrier::new(4));
            let meets = actors[500..504].iter().map(|actor| {
                let meeting = meeting.clone();
                tokio::spawn(actor.ask(act!(Player, [meeting], |_turn| _ = meeting.wait())))
            });
            for meet in meets.collect::<Vec<_>>() {
                meet.await.unwrap().unwrap();
            }
        })
        .await;
    }
}

/// Panics where the runtime calls it: when it is measured, checked or dropped.
#[derive(Clone, Copy, PartialEq)]
enum Where {
    Measured,
    Checked,
    Dropped,
}
struct Trap(Where);
impl HeapSize for Trap {
    fn heap_bytes(&self) -> u64 {
        assert!(self.0 != Where::Measured, "measured");
        0
    }
}
impl Message for Trap {
    type Reply = bool;
    type Error = Never;
    fn check_reply(reply: &bool) -> Result<(), BadReply> {
        assert!(!*reply, "checked");
        Ok(())
    }
}
impl Drop for Trap {
    fn drop(&mut self) {
        assert!(self.0 != Where::Dropped || std::thread::panicking(), "dropped");
    }
}
impl Handles<Trap> for Room {
    async fn handle(_: &mut Turn<'_, Self>, trap: Trap) -> Result<bool, Never> {
        Ok(trap.0 == Where::Checked)
    }
}

#[tokio::test]
async fn cb_48_b_a_panic_in_code_that_the_runtime_calls_leaves_no_lock_behind() {
    within(async {
        for place in [Where::Measured, Where::Checked, Where::Dropped] {
            let options = Options::<Room>::new().factory(|_| Ok(Room::default())).on_panic(PanicPolicy::Keep);
            let node = Node::builder().workers(2).spot_with("room", options).start().await.unwrap();
            let spot = node.spot::<Room>("r").create().await.unwrap();
            for _ in 0..10 {
                let asked = spot.clone();
                // Measuring happens in the caller: its own task panics.
                let ended = tokio::spawn(async move { asked.ask(Trap(place)).await });
                match ended.await {
                    Ok(ended) => assert_eq!(ended.unwrap_err().kind(), Some(ErrorKind::InternalFailure)),
                    Err(panic) => assert!(panic.is_panic() && place == Where::Measured),
                }
                ping(&spot).await;
            }
            node.quiesce().await.unwrap();
            assert_eq!((spot.queued(), spot.waiting()), ((0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn cb_50_an_object_that_fails_every_time_is_called_every_time() {
    within(async {
        let options = Options::<Room>::new().factory(|_| Ok(Room::default())).on_panic(PanicPolicy::Keep);
        let node = Node::builder().workers(2).spot_with("room", options).start().await.unwrap();
        let log: Log<(usize, usize)> = Log::new();
        let mut spots = Vec::new();
        for n in 0..5 {
            spots.push(node.spot::<Room>(&format!("r{n}")).create().await.unwrap());
        }
        for round in 0..10 {
            for (n, spot) in spots.iter().enumerate() {
                let log = log.clone();
                let sent = act!(Room, [log], |_turn| {
                    log.push((n, round));
                    assert_ne!(n, 1, "the second fails");
                });
                spot.send(sent).await.unwrap();
            }
        }
        node.quiesce().await.unwrap();
        let called = log.take();
        for n in 0..5 {
            let own: Vec<_> = called.iter().filter(|(at, _)| *at == n).map(|(_, round)| *round).collect();
            assert_eq!(own, (0..10).collect::<Vec<_>>(), "spot {n}");
        }
        assert_eq!((node.metrics().failed_sends, node.metrics().panics), (10, 10));
    })
    .await;
}

/// Its `on_closing` says no.
struct Sulky;
impl Spot for Sulky {
    type Mode = SpotWide;
    async fn on_closing(_: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        Err(Failure::new("not today"))
    }
}
#[derive(Message)]
struct Poke;
impl Handles<Poke> for Sulky {
    async fn handle(_: &mut Turn<'_, Self>, _: Poke) -> Result<(), Never> {
        Ok(())
    }
}

#[tokio::test]
async fn cb_52_a_failing_end_is_told_once_and_later_ends_are_refused() {
    within(async {
        let node =
            Node::builder().workers(2).spot_with("sulky", Options::<Sulky>::new()).start().await.unwrap();
        for round in 0..50 {
            let spot = node.spot::<Sulky>(&format!("s{round}")).create_with(Sulky).await.unwrap();
            let go = Signal::new();
            let closes: Vec<_> = (0..2)
                .map(|_| {
                    let (spot, go) = (spot.clone(), go.clone());
                    tokio::task::spawn_blocking(move || {
                        go.wait_blocking();
                        tokio::runtime::Handle::current().block_on(spot.close())
                    })
                })
                .collect();
            go.set();
            let mut kinds = Vec::new();
            for close in closes {
                let error = close.await.unwrap().unwrap_err();
                assert!(
                    error.kind() != ErrorKind::InternalFailure || error.to_string().contains("not today")
                );
                kinds.push(error.kind());
            }
            kinds.sort_by_key(|kind| *kind == ErrorKind::InternalFailure);
            assert_eq!(kinds, [ErrorKind::NotFound, ErrorKind::InternalFailure]);
            for _ in 0..3 {
                assert_eq!(spot.close().await.unwrap_err().kind(), ErrorKind::NotFound);
            }
            assert_eq!(spot.ask(Poke).await.unwrap_err().kind(), Some(ErrorKind::NotFound));
            assert_eq!(spot.send(Poke).await.unwrap_err().kind(), ErrorKind::NotFound);
            drop(spot);
        }
        assert_eq!(node.metrics().panics, 0);
    })
    .await;
}
