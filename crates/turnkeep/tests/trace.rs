//! STAT-3 and STAT-4 with real nodes: what they do is recorded, and the checker finds it in order.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use support::{Signal, expect_clean, within};
use turnkeep::prelude::*;
use turnkeep::trace::check;

/// What a room and its members share.
#[derive(Clone, Default)]
struct Common {
    open: Signal,
}

struct Room(Common);

impl Spot for Room {
    type Mode = SpotWide;
}

struct Store;

impl Spot for Store {
    type Mode = PerActor;
}

struct Player;

impl Actor for Player {}

#[derive(Message, Clone)]
#[message(reply = u64, error = Failure)]
enum Do {
    Nothing,
    /// Yields for an answer of the store.
    Fetch,
    /// Waits for it with the gate kept.
    FetchKept,
    /// Waits for the signal with the gate kept.
    Stall,
    Go(&'static str),
    Fail,
    Panic,
}

impl Handles<Do> for Store {
    async fn handle(_: &mut Turn<'_, Self>, _: Do) -> Result<u64, Failure> {
        tokio::task::yield_now().await;
        Ok(1)
    }
}

impl Handles<Do> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, what: Do) -> Result<u64, Failure> {
        let store = turn.spot::<Store>("store");
        match what {
            Do::Fetch => Ok(turn.yielding(store.ask(Do::Nothing)).await?),
            Do::FetchKept => Ok(store.ask(Do::Nothing).await?),
            Do::Stall => {
                let open = turn.0.open.clone();
                open.wait().await;
                Ok(0)
            }
            _ => Ok(0),
        }
    }
}

impl Handles<Do> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, what: Do) -> Result<u64, Failure> {
        let store = turn.spot::<Store>("store");
        match what {
            Do::Fetch => match turn.within::<Room>() {
                Some(mut turn) => Ok(turn.yielding(store.ask(Do::Nothing)).await?),
                None => Ok(store.ask(Do::Nothing).await?),
            },
            Do::FetchKept => Ok(store.ask(Do::Nothing).await?),
            Do::Go("store") => {
                turn.defer(turn.join(store))?;
                Ok(0)
            }
            Do::Go(room) => {
                turn.defer(turn.join(turn.spot::<Room>(room)))?;
                turn.defer(turn.join(turn.spot::<Room>("a")))?;
                Ok(0)
            }
            Do::Fail => {
                turn.defer(turn.join(turn.spot::<Room>("b")))?;
                Err(Failure::new("on purpose"))
            }
            Do::Panic => panic!("on purpose"),
            _ => Ok(0),
        }
    }
}

fn path(name: &str) -> String {
    format!("{}/{name}.trace", env!("CARGO_TARGET_TMPDIR"))
}

async fn start(path: &str, workers: usize, records: u32) -> (Node, Arc<turnkeep::trace::Recorder>, Common) {
    let recorder = turnkeep::recorder(path).unwrap();
    let common = Common::default();
    let rooms = common.clone();
    let lane = Lane { records, bytes: 1 << 20 };
    let node = Node::builder()
        .workers(workers)
        .application_lane(lane)
        .budget(Duration::from_micros(100))
        .recorder(recorder.clone())
        .spot_with("room", Options::new().factory(move |_| Ok(Room(rooms.clone()))))
        .spot_with("store", Options::new().factory(|_| Ok(Store)))
        .actor_with("player", Options::new().factory(|_| Ok(Player)))
        .start()
        .await
        .unwrap();
    for room in ["a", "b"] {
        node.spot::<Room>(room).create().await.unwrap();
    }
    node.spot::<Store>("store").create().await.unwrap();
    (node, recorder, common)
}

/// Messages of every sort from four senders to a few objects.
async fn play(node: &Node) {
    let senders = (0..4_usize).map(|sender| {
        let node = node.clone();
        tokio::spawn(async move {
            for round in 0..60 {
                let what = match (sender + round) % 12 {
                    0..4 => Do::Fetch,
                    4 => Do::FetchKept,
                    5 => Do::Go("b"),
                    6 => Do::Go("store"),
                    7 => Do::Go("a"),
                    8 => Do::Fail,
                    9 if round % 20 == 9 => Do::Panic,
                    _ => Do::Nothing,
                };
                let player = node.actor::<Player>(&format!("p{}", round % 3));
                if player.get_or_create().await.is_ok() {
                    let _ = player.send(what.clone()).await;
                    let _ = player.send(Do::Nothing).await;
                }
                let room = node.spot::<Room>(if round % 2 == 0 { "a" } else { "b" });
                let _ = room.send(what).await;
                // Another sender may have destroyed it, or a panic stopped it.
                if let Some(player) = player.find().ok().filter(|_| round % 15 == 14) {
                    let _ = player.destroy().await;
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
}

async fn a_node_is_clean(workers: usize) {
    for records in [1024, 3, 1] {
        let path = path(&format!("stat-3-{workers}-{records}"));
        let (node, recorder, _) = start(&path, workers, records).await;
        within(play(&node)).await;
        node.quiesce().await.unwrap();
        assert!(!node.shutdown().await.unwrap().forced);
        expect_clean(&recorder, &path);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_3_l_one_worker_makes_a_clean_trace() {
    a_node_is_clean(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_3_l_two_workers_make_a_clean_trace() {
    a_node_is_clean(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_3_l_eight_workers_make_a_clean_trace() {
    a_node_is_clean(8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_3_m_the_node_ends_a_trace_of_its_own() {
    let path = path("stat-3-own");
    let node = Node::builder().trace(&path).spot_with("store", Options::new().factory(|_| Ok(Store)));
    let node = node.start().await.unwrap();
    node.spot::<Store>("store").get_or_create().await.unwrap().ask(Do::Nothing).await.unwrap();
    assert!(!node.shutdown().await.unwrap().forced);
    let (report, _) = check(File::open(&path).unwrap()).unwrap();
    assert!(report.is_clean() && report.to_the_end, "{report:?}");
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn stat_3_n_a_recorder_is_for_one_node_and_a_bad_path_is_told() {
    let path = path("stat-3-one");
    let recorder = turnkeep::recorder(&path).unwrap();
    let node = Node::builder().recorder(recorder.clone()).start().await.unwrap();
    let second = Node::builder().recorder(recorder.clone()).start().await;
    assert_eq!(second.unwrap_err().kind(), ErrorKind::InvalidOperation);
    node.shutdown().await.unwrap();
    recorder.finish().unwrap();
    std::fs::remove_file(path).unwrap();
    let nowhere = Node::builder().trace("/nowhere/at/all.trace").start().await;
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stat_4_a_stuck_room_is_explained_from_its_trace() {
    let path = path("stat-4-stuck");
    let (node, recorder, common) = start(&path, 2, 2).await;
    let room = node.spot::<Room>("a").find().unwrap();
    room.send(Do::Stall).await.unwrap();
    room.send(Do::Nothing).await.unwrap();
    recorder.finish().unwrap();
    let (report, checker) = check(File::open(&path).unwrap()).unwrap();
    assert!(report.is_clean() && !report.to_the_end, "{report:?}");
    let text = checker.situations("a")[0].to_string();
    assert!(text.contains("has 2 of 2 records"), "{text}");
    // Whether the stalled turn had begun when the trace ended is the workers' business.
    assert!(text.contains("holds it with record") || text.contains("ready to run"), "{text}");
    common.open.set();
    node.shutdown().await.unwrap();
    std::fs::remove_file(path).unwrap();
}
