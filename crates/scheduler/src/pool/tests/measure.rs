//! Measurements of the pool, printed; nothing is asserted.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::super::{Pool, Run};
use super::{LIMIT, LONG_LIMIT, once, pool, spin, task};

/// As cheap as a task can be that schedules itself again, so that the pool is what is measured.
struct Bare {
    pool: &'static Pool,
    left: AtomicUsize,
    done: Sender<()>,
}

impl Run for Bare {
    fn run(self: Arc<Self>) {
        let left = self.left.load(Relaxed);
        self.left.store(left - 1, Relaxed);
        if left == 1 { self.done.send(()).unwrap() } else { self.pool.schedule(self) }
    }
}

#[test]
#[ignore = "a measurement: run it in release with --nocapture"]
fn bench_schedule_and_run() {
    for workers in [1, 2] {
        let (_runtime, pool) = pool(workers);
        let pool: &'static Pool = Box::leak(Box::new(pool));
        for tasks in [1, 8, 1_000] {
            bench_local(pool, tasks);
        }
        bench_outside(pool, workers);
        pool.stop();
    }
}

fn bench_local(pool: &'static Pool, tasks: usize) {
    const RUNS: usize = 20_000_000;
    let (done, finished) = channel();
    let begun = Instant::now();
    // One task spreads the others, so that they start out in one local queue.
    pool.schedule(once(move || {
        for _ in 0..tasks {
            pool.schedule(Arc::new(Bare { pool, left: AtomicUsize::new(RUNS / tasks), done: done.clone() }));
        }
    }));
    (0..tasks).for_each(|_| finished.recv_timeout(LONG_LIMIT).unwrap());
    let each = begun.elapsed().as_secs_f64() * 1e9 / RUNS as f64;
    println!("{} workers, local, {tasks} tasks: {each:.1} ns", pool.workers());
}

fn bench_outside(pool: &Pool, workers: usize) {
    const PUSHES: usize = 2_000_000;
    let (told, finished) = channel();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = task(move || {
        if ran.fetch_add(1, SeqCst) + 1 == PUSHES {
            told.send(()).unwrap();
        }
    });
    let begun = Instant::now();
    (0..PUSHES).for_each(|_| pool.schedule(Arc::clone(&count)));
    let pushed = begun.elapsed().as_nanos() / PUSHES as u128;
    finished.recv_timeout(LONG_LIMIT).unwrap();
    let all = begun.elapsed().as_nanos() / PUSHES as u128;
    println!("{workers} workers, outside: {pushed} ns a push, {all} ns push and run");

    let mut trips: Vec<_> = (0..20_000).map(|_| round_trip(pool)).collect();
    trips.sort();
    println!("{workers} workers, asleep to run and back: p50 {:?} p99 {:?}", trips[10_000], trips[19_800]);
    if workers > 1 {
        bench_watch(pool, Duration::ZERO);
        bench_watch(pool, Duration::from_millis(2));
    }
}

fn bench_watch(pool: &Pool, busy: Duration) {
    let mut waits: Vec<_> = (0..1_000).map(|_| watched_wait(pool, busy)).collect();
    waits.sort();
    let (p50, p99, max) = (waits[500], waits[990], waits[999]);
    println!("beside a worker that blocks after {busy:?}: p50 {p50:?} p99 {p99:?} max {max:?}");
}

fn round_trip(pool: &Pool) -> Duration {
    let (told, finished) = channel();
    let begun = Instant::now();
    pool.schedule(once(move || told.send(()).unwrap()));
    finished.recv_timeout(LIMIT).unwrap();
    begun.elapsed()
}

/// How long a local push waits whose worker has been busy (so the watcher has lost patience) and blocks at
/// once after it.
fn watched_wait(pool: &Pool, busy: Duration) -> Duration {
    let (told, finished) = channel();
    let inner = pool.clone();
    pool.schedule(once(move || {
        let (ran, blocked) = channel();
        spin(busy);
        let begun = Instant::now();
        inner.schedule(once(move || ran.send(begun.elapsed()).unwrap()));
        told.send(blocked.recv_timeout(LIMIT).unwrap()).unwrap();
    }));
    finished.recv_timeout(LIMIT).unwrap()
}
