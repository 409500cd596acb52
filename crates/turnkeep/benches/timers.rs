//! A hundred thousand timers of a second beside a thousand of 50 ms: how late their ticks start, and what it costs.
#![allow(clippy::unwrap_used, reason = "a benchmark ends by it")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use turnkeep::prelude::*;
use turnkeep::{OnTick, Tick, Timer};

/// Ticks by lateness, in tenths of a millisecond; the last holds all later ones.
struct Histogram([AtomicU64; 20_000]);

static SLOW: Histogram = Histogram([const { AtomicU64::new(0) }; 20_000]);
static FAST: Histogram = Histogram([const { AtomicU64::new(0) }; 20_000]);
static SKIPPED: AtomicU64 = AtomicU64::new(0);

impl Histogram {
    fn add(&self, late: Duration) {
        let tenths = usize::try_from(late.as_micros() / 100).unwrap_or(usize::MAX);
        self.0[tenths.min(self.0.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    fn print(&self, name: &str, took: Duration) {
        let counts: Vec<u64> = self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        let at = |share: f64| {
            let mut left = (all as f64 * share).ceil() as u64;
            let at = counts.iter().position(|count| {
                left = left.saturating_sub(*count);
                left == 0
            });
            at.unwrap_or(counts.len()) as f64 / 10.0
        };
        let rate = all as f64 / took.as_secs_f64();
        println!(
            "{name}: {all} ticks ({rate:.0} a second), late p50 {} ms, p99 {} ms, at most {} ms",
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

#[derive(Default)]
struct Ticker;
impl Spot for Ticker {
    type Mode = SpotWide;
}

#[derive(Message)]
struct Every(u64);

impl Handles<Every> for Ticker {
    async fn handle(turn: &mut Turn<'_, Self>, every: Every) -> Result<(), Never> {
        turn.timer("t", Timer::every(Duration::from_millis(every.0))).unwrap();
        Ok(())
    }
}

impl OnTick for Ticker {
    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
        let late = turn.now().saturating_sub(tick.due());
        if tick.name().starts_with('t') && turn.id().starts_with("fast") {
            FAST.add(late)
        } else {
            SLOW.add(late)
        }
        SKIPPED.fetch_add(tick.skipped(), Ordering::Relaxed);
        Ok(())
    }
}

/// Seconds of processor time that this process has used.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> =
        stat.rsplit(')').next().unwrap_or("").split_whitespace().flat_map(str::parse).collect();
    // After the name and the state: utime and stime are the 11th and 12th numbers, in hundredths.
    fields.get(10).zip(fields.get(11)).map_or(0.0, |(user, system)| (user + system) / 100.0)
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let node = Node::builder().workers(2).spot::<Ticker>("ticker").start().await.unwrap();
        for number in 0..100_000 {
            let spot = node.spot::<Ticker>(&format!("slow {number}")).create().await.unwrap();
            spot.ask(Every(1000)).await.unwrap();
        }
        for number in 0..1000 {
            let spot = node.spot::<Ticker>(&format!("fast {number}")).create().await.unwrap();
            spot.ask(Every(50)).await.unwrap();
        }
        // The first second is for getting there.
        tokio::time::sleep(Duration::from_secs(2)).await;
        SLOW.clear();
        FAST.clear();
        SKIPPED.store(0, Ordering::Relaxed);
        let (began, cpu) = (Instant::now(), cpu_s());
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (took, used) = (began.elapsed(), cpu_s() - cpu);
        SLOW.print("100,000 of 1 s", took);
        FAST.print("1,000 of 50 ms", took);
        println!("skipped {}, {:.2} cores", SKIPPED.load(Ordering::Relaxed), used / took.as_secs_f64());
        node.shutdown().await.unwrap();
    });
}
