//! Everything at once: sends, asks, yields, Joins, panics, closes, destroys, tiny lanes; and then the sums.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::{Overlap, within};
use turnkeep::prelude::*;

/// A small generator of random numbers (xorshift64*, Vigna 2016), so that a seed repeats a run's choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }
}

/// What the objects saw, independent of the runtime's own counters.
#[derive(Default)]
struct Seen {
    handled: AtomicU64,
    panicked: AtomicU64,
    out_of_order: AtomicU64,
    overlaps: AtomicU64,
}

static SEEN: [std::sync::OnceLock<Arc<Seen>>; 3] = [const { std::sync::OnceLock::new() }; 3];

struct Room<M> {
    seen: Arc<Seen>,
    inside: Overlap,
    last: HashMap<u64, u64>,
    mode: std::marker::PhantomData<fn() -> M>,
}

impl<M: turnkeep::Mode> Spot for Room<M> {
    type Mode = M;
}

struct Walker {
    seen: Arc<Seen>,
    inside: Overlap,
    last: HashMap<u64, u64>,
}

impl Actor for Walker {}

#[derive(Message, Clone)]
#[message(reply = u64, error = Failure)]
struct Work {
    sender: u64,
    number: u64,
    what: u64,
    target: u64,
}

impl Seen {
    /// Numbers of one sender only rise at one object.
    fn note(&self, last: &mut HashMap<u64, u64>, work: &Work) {
        self.handled.fetch_add(1, Ordering::SeqCst);
        if work.sender == BY_AN_OBJECT {
            return; // asks of handlers have no order among each other
        }
        let before = last.insert(work.sender, work.number);
        if before.is_some_and(|before| before >= work.number) {
            self.out_of_order.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn check(&self, inside: &Overlap) {
        if inside.most() > 1 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl<M: turnkeep::Mode> Handles<Work> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, work: Work) -> Result<u64, Failure> {
        let inside = turn.inside.enter();
        let state = turn.state();
        state.seen.note(&mut state.last, &work);
        match work.what % 40 {
            0 => {
                turn.seen.panicked.fetch_add(1, Ordering::SeqCst);
                panic!("on purpose");
            }
            1 => return Err(Failure::new("on purpose")),
            2..6 => {
                // A yield where it is allowed, an error where not.
                let ask = turn.spot::<Room<PerActor>>(&format!("p{}", work.target % 4)).ask(Work {
                    what: 39,
                    sender: BY_AN_OBJECT,
                    number: 0,
                    ..work
                });
                drop(inside);
                let answered = turn.try_yielding(ask.timeout(Duration::from_secs(20))).await;
                let _inside = turn.inside.enter();
                let _ = answered;
                let state = turn.state();
                state.seen.check(&state.inside);
                return Ok(1);
            }
            6..9 => tokio::task::yield_now().await,
            _ => {}
        }
        let state = turn.state();
        state.seen.check(&state.inside);
        drop(inside);
        Ok(work.number)
    }
}

impl Handles<Work> for Walker {
    async fn handle(turn: &mut Turn<'_, Self>, work: Work) -> Result<u64, Failure> {
        let inside = turn.inside.enter();
        let state = turn.state();
        state.seen.note(&mut state.last, &work);
        let to = work.target % 4;
        match work.what % 40 {
            0 => {
                turn.seen.panicked.fetch_add(1, Ordering::SeqCst);
                panic!("on purpose");
            }
            1..5 => {
                let join = turn.join(turn.spot::<Room<SpotWide>>(&format!("w{to}")));
                turn.defer(join.timeout(Duration::from_secs(20)))?;
            }
            5..8 => {
                let join = turn.join(turn.spot::<Room<PerActor>>(&format!("p{to}")));
                turn.defer(join.timeout(Duration::from_secs(20)))?;
            }
            8..12 => {
                if let Some(mut turn) = turn.within::<Room<SpotWide>>() {
                    let (_, room) = turn.both();
                    let room_inside = room.inside.enter();
                    room.seen.check(&room.inside);
                    drop(room_inside);
                    let ask = turn.spot::<Room<PerActor>>(&format!("p{to}")).ask(Work {
                        what: 39,
                        sender: BY_AN_OBJECT,
                        number: 0,
                        ..work
                    });
                    let _ = turn.yielding(ask.timeout(Duration::from_secs(20))).await;
                }
            }
            12..15 => tokio::task::yield_now().await,
            _ => {}
        }
        let state = turn.state();
        state.seen.check(&state.inside);
        drop(inside);
        Ok(work.number)
    }
}

async fn chaos(run: usize, workers: usize, records: u32, seed: u64) {
    let seen = SEEN[run].get_or_init(Arc::default).clone();
    let lane = |records| Lane { records, bytes: 1 << 20 };
    let (spotwide, peractor, walker) = (seen.clone(), seen.clone(), seen.clone());
    fn room<M>(seen: &Arc<Seen>) -> Result<Room<M>, Failure> {
        Ok(Room {
            seen: seen.clone(),
            inside: Overlap::new(),
            last: HashMap::new(),
            mode: std::marker::PhantomData,
        })
    }
    // The smallest lanes go unrecorded, so that the race of the product alone is in the test too.
    let path = format!("{}/chaos-{workers}-{records}.trace", env!("CARGO_TARGET_TMPDIR"));
    let recorder = (records > 1).then(|| turnkeep::recorder(&path).unwrap());
    let mut builder = Node::builder();
    if let Some(recorder) = &recorder {
        builder = builder.recorder(recorder.clone());
    }
    let node = builder
        .workers(workers)
        .application_lane(lane(records))
        .lifecycle_lane(lane(records.max(2)))
        .budget(Duration::from_micros(200))
        .spot_with::<Room<SpotWide>>("wide", Options::new().factory(move |_| room(&spotwide)))
        .spot_with::<Room<PerActor>>("per", Options::new().factory(move |_| room(&peractor)))
        .actor_with::<Walker>(
            "walker",
            Options::new().factory(move |_| {
                Ok(Walker { seen: walker.clone(), inside: Overlap::new(), last: HashMap::new() })
            }),
        )
        .start()
        .await
        .unwrap();
    let senders: Vec<_> = (0..6_u64)
        .map(|sender| {
            let node = node.clone();
            tokio::spawn(async move { attack(&node, sender, seed).await })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    node.quiesce().await.unwrap();
    let metrics = node.metrics();
    assert_eq!(metrics.accepted, metrics.finished, "{metrics:?}");
    for actor in node.ids(turnkeep::ObjectKind::Actor) {
        let found = node.actor::<Walker>(&actor).find().unwrap();
        let place = found.place().expect("an Actor is somewhere");
        let wide = node.spot::<Room<SpotWide>>(&place).find().map(|room| room.members());
        let per = node.spot::<Room<PerActor>>(&place).find().map(|room| room.members());
        let members = wide.or(per).unwrap_or_default();
        assert!(place == node.entry_id() || members.contains(&actor), "{actor} in {place}: {members:?}");
    }
    let report = node.shutdown().await.unwrap();
    assert!(!report.forced, "{report:?}");
    assert_eq!(seen.out_of_order.load(Ordering::SeqCst), 0, "numbers of one sender fell");
    assert_eq!(seen.overlaps.load(Ordering::SeqCst), 0, "two turns under one gate");
    assert!(seen.handled.load(Ordering::SeqCst) > 1000);
    assert!(seen.panicked.load(Ordering::SeqCst) > 0);
    if let Some(recorder) = recorder {
        support::expect_clean(&recorder, &path);
    }
}

/// One sender's random calls. Every one must end.
async fn attack(node: &Node, sender: u64, seed: u64) {
    let mut random = Random(seed ^ (sender + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let timeout = Duration::from_secs(20);
    for number in 0..1500 {
        let work = Work { sender, number, what: random.below(1000), target: random.below(8) };
        let id = random.below(4);
        match random.below(100) {
            0..30 => {
                let spot = node.spot::<Room<SpotWide>>(&format!("w{id}"));
                if spot.get_or_create().await.is_ok() {
                    let _ = spot.send(work).timeout(timeout).await;
                }
            }
            30..45 => {
                let spot = node.spot::<Room<PerActor>>(&format!("p{id}"));
                if spot.get_or_create().await.is_ok() {
                    let _ = spot.ask(work).timeout(timeout).await;
                }
            }
            45..85 => {
                let actor = node.actor::<Walker>(&format!("a{}", random.below(10)));
                if actor.get_or_create().await.is_ok() {
                    let _ = actor.send(work).timeout(timeout).await;
                }
            }
            85..92 => {
                let spot = node.spot::<Room<SpotWide>>(&format!("w{id}"));
                // A caller that gives up at once.
                let _ = tokio::time::timeout(Duration::from_micros(50), spot.ask(work)).await;
            }
            92..95 => {
                if let Ok(actor) = node.actor::<Walker>(&format!("a{}", random.below(10))).find() {
                    let _ = actor.destroy().await;
                }
            }
            95..97 => {
                if let Ok(spot) = node.spot::<Room<SpotWide>>(&format!("w{id}")).find() {
                    let _ = if random.below(2) == 0 { spot.close().await } else { spot.destroy().await };
                }
            }
            _ => {
                let _ = node.actor::<Walker>("a1").try_send(work);
            }
        }
    }
}

fn seed() -> u64 {
    std::env::var("CHAOS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0xC0FFEE)
}

/// The sender of asks that handlers make.
const BY_AN_OBJECT: u64 = u64::MAX;

/// Panics on purpose are not printed.
fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if info.payload().downcast_ref::<&str>() != Some(&"on purpose") {
                loud(info);
            }
        }));
    });
}

async fn run(run: usize, workers: usize) {
    quiet();
    let seed = seed();
    println!("repeat with CHAOS_SEED={seed}");
    for (at, records) in [1, 2, 1024].into_iter().enumerate() {
        within(chaos(run, workers, records, seed.wrapping_add(at as u64))).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prop_gate_1_chaos_on_one_worker_ends_with_the_right_sums() {
    run(0, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prop_gate_1_chaos_on_two_workers_ends_with_the_right_sums() {
    run(1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prop_gate_1_chaos_on_eight_workers_ends_with_the_right_sums() {
    run(2, 8).await;
}
