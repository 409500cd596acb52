//! A mixed load for as long as one likes: objects that send, ask, yield, move, tick, come and go, and a bus in one of
//! them; memory and latency every ten seconds, and a recorded sample that the checker looks at.
//!
//! Ends with 1 if a sample breaks a clause, if memory grows, if nothing moves for ten seconds, or if a call fails in a way
//! that this load does not explain.
#![allow(clippy::unwrap_used, reason = "a soak ends by it")]

use std::fs::File;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use turnkeep::bus::{Bus, Component, ComponentId, Context, Hosted, On, Progress};
use turnkeep::prelude::*;
use turnkeep::testing::Random;
use turnkeep::trace::check;
use turnkeep::{OnTick, Task, Tick, Timer};

const ROOMS: u64 = 50;
const PLAYERS: u64 = 200;
const CLIENTS: u64 = 8;
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// How much memory may grow after the first reports, in MiB: what the allocator keeps for later.
const GROWTH_MAX: f64 = 48.0;

/// What the load has done; shared by everything.
#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    ticks: AtomicU64,
    bus: AtomicU64,
    unexplained: AtomicU64,
    /// Latencies of asks by powers of two of a microsecond.
    latency: [AtomicU64; 32],
    stop: AtomicBool,
}

impl Counts {
    fn asked(&self, since: Instant) {
        let micros = since.elapsed().as_micros().max(1) as u64;
        self.latency[(63 - micros.leading_zeros()).min(31) as usize].fetch_add(1, Relaxed);
    }

    /// The upper end of the power of two that holds the share, and forgets.
    fn percentiles(&self, shares: [f64; 3]) -> [u64; 3] {
        let counts: Vec<u64> = self.latency.iter().map(|count| count.swap(0, Relaxed)).collect();
        let all = counts.iter().sum::<u64>() as f64;
        shares.map(|share| {
            let mut left = (all * share).ceil() as u64;
            let at = counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            2 << at.unwrap_or(31)
        })
    }

    fn ended<T>(&self, result: Result<T, Option<ErrorKind>>) {
        self.calls.fetch_add(1, Relaxed);
        let explained = match result {
            Ok(_) => true,
            // Rooms come and go, circles are refused, and the end of a sample ends what is under way.
            Err(Some(kind)) => matches!(
                kind,
                ErrorKind::NotFound
                    | ErrorKind::InvalidOperation
                    | ErrorKind::ShuttingDown
                    | ErrorKind::Unavailable
                    | ErrorKind::AlreadyExists
            ),
            Err(None) => false,
        };
        if !explained && self.unexplained.fetch_add(1, Relaxed) < 10 {
            eprintln!("a call has failed: {:?}", result.err());
        }
    }
}

struct Room(Arc<Counts>, u64);
struct Player(u64);
struct Cache(u64);
struct Engine {
    bus: Hosted,
    counter: ComponentId<Counter>,
    counts: Arc<Counts>,
}

#[derive(Message)]
struct Say(u64);
#[derive(Message)]
#[message(reply = u64, error = Failure)]
struct Greet(u64);
#[derive(Message)]
#[message(error = Failure)]
struct GoTo(String);
#[derive(Message)]
#[message(reply = u64)]
struct Read(u64);
#[derive(Message)]
struct Ticks(u64);
#[derive(Message)]
struct Work;
#[derive(Message)]
#[message(reply = u64)]
struct Sum;

impl Spot for Room {
    type Mode = SpotWide;

    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.timer("beat", Timer::every(Duration::from_millis(50)))?;
        Ok(())
    }
}
impl OnTick for Room {
    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
        turn.0.ticks.fetch_add(1 + tick.skipped(), Relaxed);
        Ok(())
    }
}
impl Actor for Player {}
impl Spot for Cache {
    type Mode = Instance;
}
impl Spot for Engine {
    type Mode = SpotWide;
}

impl Handles<Say> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, say: Say) -> Result<(), Never> {
        turn.1 = turn.1.wrapping_add(say.0);
        Ok(())
    }
}
impl Handles<Read> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, read: Read) -> Result<u64, Never> {
        // Others take their turns while the cache is asked.
        let cached = turn.spot::<Cache>(&format!("cache {}", read.0 % 4)).ask(Read(read.0)).or_create();
        let cached = turn.yielding(cached).await.unwrap_or_default();
        Ok(turn.1.wrapping_add(cached))
    }
}
impl Handles<Read> for Cache {
    async fn handle(turn: &mut Turn<'_, Self>, read: Read) -> Result<u64, Never> {
        turn.0 += 1;
        Ok(turn.0 ^ read.0)
    }
}
impl Handles<Greet> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, greet: Greet) -> Result<u64, Failure> {
        turn.0 += 1;
        // A place of its own: an ordinary wait, which a circle of players may refuse.
        let other = turn.actor::<Player>(&format!("player {}", greet.0 % PLAYERS));
        if greet.0 > PLAYERS {
            return Ok(turn.0);
        }
        let next = Greet(greet.0 + PLAYERS + 1);
        Ok(other.ask(next).await.unwrap_or_default() + turn.0)
    }
}
impl Handles<GoTo> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, to: GoTo) -> Result<(), Failure> {
        let join = turn.join(turn.spot::<Room>(&to.0));
        turn.defer(join)?;
        Ok(())
    }
}

/// Sums ticks, and publishes every tenth sum to itself.
#[derive(Default)]
struct Counter(u64);
impl Component for Counter {}
impl On<u64> for Counter {
    fn on(&mut self, ctx: &mut Context<'_>, tick: &u64) -> Result<(), turnkeep::bus::Failure> {
        self.0 = self.0.wrapping_add(*tick);
        if tick.is_multiple_of(10) {
            ctx.publish_to("sums", self.0)?;
        }
        Ok(())
    }
}

impl Engine {
    fn new(counts: Arc<Counts>) -> Self {
        let mut bus = Hosted::new(Bus::default());
        let mut ctx = bus.context();
        let counter = ctx.register("counter", Counter::default()).unwrap();
        ctx.subscribe::<_, u64>(counter, "ticks", 0).unwrap();
        ctx.start(counter).unwrap();
        Self { bus, counter, counts }
    }
}
impl Handles<Ticks> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, ticks: Ticks) -> Result<(), Never> {
        for tick in 1..=ticks.0 {
            let _ = turn.bus.context().publish_to("ticks", tick);
        }
        let _ = turn.this_spot().try_send(Work);
        Ok(())
    }
}
impl Handles<Work> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, _: Work) -> Result<(), Never> {
        match turn.bus.batch() {
            Ok(Progress::More) => drop(turn.this_spot().try_send(Work)),
            Ok(_) => drop(turn.counts.bus.fetch_add(1, Relaxed)),
            Err(halt) => {
                eprintln!("the bus has halted: {halt}");
                turn.counts.unexplained.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }
}
impl Handles<Sum> for Engine {
    async fn handle(turn: &mut Turn<'_, Self>, _: Sum) -> Result<u64, Never> {
        let counter = turn.counter;
        Ok(turn.bus.access(counter).map_or(0, |counter| counter.0))
    }
}

/// A node under load.
struct Load {
    node: Node,
    counts: Arc<Counts>,
    clients: Vec<Task<()>>,
}

impl Load {
    async fn start(builder: turnkeep::Builder) -> Self {
        let counts = Arc::new(Counts::default());
        let (room, engine) = (counts.clone(), counts.clone());
        let node = builder
            .spot_with("room", Options::new().factory(move |_| Ok(Room(room.clone(), 0))))
            .spot_with("cache", Options::new().factory(|_| Ok(Cache(0))).idle_after(Duration::from_secs(1)))
            .spot_with("engine", Options::new().factory(move |_| Ok(Engine::new(engine.clone()))))
            .actor_with("player", Options::new().factory(move |_| Ok(Player(0))))
            .start()
            .await
            .unwrap();
        node.spot::<Engine>("engine").create().await.unwrap();
        for room in 0..ROOMS {
            node.spot::<Room>(&format!("room {room}")).create().await.unwrap();
        }
        for player in 0..PLAYERS {
            node.actor::<Player>(&format!("player {player}")).create().await.unwrap();
        }
        let client = |number| {
            let (inner, counts) = (node.clone(), counts.clone());
            node.spawn(async move { client(&inner, &counts, Random::new(number)).await })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { node, counts, clients }
    }

    async fn end(self) {
        self.counts.stop.store(true, Relaxed);
        for client in self.clients {
            let _ = client.await;
        }
        self.node.quiesce().await.unwrap();
        assert!(!self.node.shutdown().await.unwrap().forced, "a quiet node ends in order");
    }
}

async fn client(node: &Node, counts: &Counts, mut random: Random) {
    let mut born = 0_u64;
    while !counts.stop.load(Relaxed) {
        let room = format!("room {}", random.below(ROOMS));
        let player = node.actor::<Player>(&format!("player {}", random.below(PLAYERS)));
        match random.below(20) {
            0..8 => counts
                .ended(node.spot::<Room>(&room).send(Say(random.number())).await.map_err(|e| Some(e.kind()))),
            8..13 => {
                let since = Instant::now();
                let read = node.spot::<Room>(&room).ask(Read(random.number())).await;
                counts.asked(since);
                counts.ended(read.map_err(|error| error.kind()));
            }
            13..16 => {
                // A greeting may come back as the handler's own failure.
                let greeted = player.ask(Greet(random.below(PLAYERS))).await;
                counts.ended(greeted.map_err(|error| error.kind().or(Some(ErrorKind::InvalidOperation))));
            }
            16..18 => {
                let went = player.ask(GoTo(room)).await;
                counts.ended(went.map_err(|error| error.kind().or(Some(ErrorKind::InvalidOperation))));
            }
            18 => {
                born += 1;
                let id = format!("born {} {born}", random.number());
                let made = node.spot::<Room>(&id).create().await;
                let closed = match made {
                    Ok(room) => room.close().await,
                    Err(error) => Err(error),
                };
                counts.ended(closed.map_err(|error| Some(error.kind())));
            }
            _ => {
                let engine = node.spot::<Engine>("engine");
                counts.ended(engine.send(Ticks(random.below(20))).await.map_err(|error| Some(error.kind())));
                counts.ended(engine.ask(Sum).await.map_err(|error| error.kind()));
            }
        }
    }
}

/// A second of the same load with everything recorded, and what the checker says of it.
async fn sample() -> Result<u64, String> {
    let path = std::env::temp_dir().join(format!("turnkeep-soak-{}.trace", std::process::id()));
    let load = Load::start(Node::builder().workers(2).trace(&path)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.end().await;
    let checked = check(File::open(&path).map_err(|error| error.to_string())?);
    let (report, _) = checked.map_err(|error| format!("{error}; {}", path.display()))?;
    match report.findings.first() {
        Some(finding) => Err(format!("{finding:?}; the trace is {}", path.display())),
        None => {
            let _ = std::fs::remove_file(&path);
            Ok(report.events)
        }
    }
}

/// What the process has in memory, in MiB.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / f64::from(1 << 20)
}

fn minutes() -> f64 {
    let arguments: Vec<String> = std::env::args().collect();
    let at = arguments.iter().position(|argument| argument == "--minutes");
    at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(1.0)
}

async fn soak(until: Duration) -> Result<(), String> {
    let (began, load) = (Instant::now(), Load::start(Node::builder().workers(2)).await);
    let mut resident_then = None;
    let (mut calls_before, mut reported) = (0, Instant::now());
    println!("   time      calls/s   ask p50      p99     p99.9    ticks     bus   memory   sample");
    while began.elapsed() < until {
        let events = sample().await?;
        let left = REPORT_EVERY.saturating_sub(Duration::from_secs(1));
        tokio::time::sleep(left).await;
        let counts = &load.counts;
        let calls = counts.calls.load(Relaxed);
        let [p50, p99, p999] = counts.percentiles([0.5, 0.99, 0.999]);
        let (ticks, bus, now) = (counts.ticks.load(Relaxed), counts.bus.load(Relaxed), resident());
        println!(
            "{:6.0} s {:10} <{p50:6} µs <{p99:6} µs <{p999:6} µs {ticks:8} {bus:7} {now:5.0} MiB {events} events clean",
            began.elapsed().as_secs_f64(),
            ((calls - calls_before) as f64 / reported.elapsed().as_secs_f64()) as u64,
        );
        reported = Instant::now();
        if calls == calls_before {
            return Err("nothing has moved for ten seconds".to_owned());
        }
        calls_before = calls;
        if counts.unexplained.load(Relaxed) > 0 {
            return Err("a call has failed without a reason".to_owned());
        }
        // The first reports are those of warming up.
        if began.elapsed() > REPORT_EVERY * 3 {
            let then = *resident_then.get_or_insert(now);
            if now > then + GROWTH_MAX {
                return Err(format!("memory has grown from {then:.0} to {now:.0} MiB"));
            }
        }
    }
    load.end().await;
    Ok(())
}

fn main() -> ExitCode {
    let until = Duration::from_secs_f64(minutes() * 60.0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(soak(until)) {
        Ok(()) => {
            println!("soak: {:.1} minutes, clean", minutes());
            ExitCode::SUCCESS
        }
        Err(fault) => {
            println!("soak: {fault}");
            ExitCode::FAILURE
        }
    }
}
