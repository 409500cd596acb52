//! The pool as its callers see it: every task once, nothing lost, nothing left waiting beside an idle worker.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::{Pool, PoolConfig, Run};

mod ending;

/// No test waits longer than this for anything.
const LIMIT: Duration = Duration::from_secs(5);
/// For tests that move a million tasks, on a machine that may be busy and in a debug build.
const LONG_LIMIT: Duration = Duration::from_secs(120);

fn pool(workers: usize) -> (Runtime, Pool) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let config = PoolConfig { workers, name: "test".into(), ..PoolConfig::default() };
    let pool = Pool::start(config, runtime.handle().clone()).unwrap();
    (runtime, pool)
}

/// A task out of a closure, which may run any number of times.
struct Fun<F>(F);

impl<F: Fn() + Send + Sync + 'static> Run for Fun<F> {
    fn run(self: Arc<Self>) -> u64 {
        (self.0)();
        1
    }
}

fn task(f: impl Fn() + Send + Sync + 'static) -> Arc<dyn Run> {
    Arc::new(Fun(f))
}

/// A task out of a closure that runs once.
fn once(f: impl FnOnce() + Send + 'static) -> Arc<dyn Run> {
    let f = Mutex::new(Some(f));
    task(move || {
        let f = f.lock().unwrap().take();
        f.expect("a task that was scheduled once ran twice")();
    })
}

/// A task that schedules itself again until its count is used up, then says so.
struct Ping {
    pool: Pool,
    left: AtomicUsize,
    done: Sender<()>,
}

impl Run for Ping {
    fn run(self: Arc<Self>) -> u64 {
        if self.left.fetch_sub(1, SeqCst) == 1 {
            self.done.send(()).unwrap();
        } else {
            self.pool.clone().schedule(self);
        }
        1
    }
}

/// Eight tasks take turns on the pool until they have run `runs` times in all.
fn ping(workers: usize, runs: usize) {
    let (_runtime, pool) = pool(workers);
    let (done, finished) = channel();
    for _ in 0..8 {
        let ping = Ping { pool: pool.clone(), left: AtomicUsize::new(runs / 8), done: done.clone() };
        pool.schedule(Arc::new(ping));
    }
    (0..8).for_each(|_| finished.recv_timeout(LONG_LIMIT).unwrap());
    pool.stop();
}

#[test]
fn pool_ping_a_million_slices_on_one_worker() {
    ping(1, 1_000_000);
}

#[test]
fn pool_ping_a_million_slices_on_two_workers() {
    ping(2, 1_000_000);
}

#[test]
fn pool_ping_a_million_slices_on_eight_workers() {
    ping(8, 1_000_000);
}

/// The first task makes a second one ready and then blocks until that has run.
fn block_on_a_local_push(pool: &Pool) {
    let (told, finished) = channel();
    let inner = pool.clone();
    pool.schedule(once(move || {
        assert!(inner.on_worker());
        let (ran, blocked) = channel();
        inner.schedule(once(move || ran.send(()).unwrap()));
        blocked.recv_timeout(LIMIT).unwrap();
        told.send(()).unwrap();
    }));
    finished.recv_timeout(LIMIT).unwrap();
}

#[test]
fn lane_14_a_local_push_of_a_worker_that_blocks_runs_on_the_other() {
    let (_runtime, pool) = pool(2);
    (0..200).for_each(|_| block_on_a_local_push(&pool));
    pool.stop();
}

#[test]
fn lane_14_local_pushes_of_blocking_workers_pass_down_all_workers() {
    let (_runtime, pool) = pool(4);
    for _ in 0..100 {
        // Three blocked tasks on three workers; the last one frees them all.
        let barrier = Arc::new(std::sync::Barrier::new(4));
        let (told, finished) = channel();
        let inner = pool.clone();
        pool.schedule(once(move || {
            for _ in 0..3 {
                let (barrier, told) = (Arc::clone(&barrier), told.clone());
                inner.schedule(once(move || {
                    barrier.wait();
                    told.send(()).unwrap();
                }));
            }
            barrier.wait();
            told.send(()).unwrap();
        }));
        (0..4).for_each(|_| finished.recv_timeout(LIMIT).unwrap());
    }
    pool.stop();
}

#[test]
fn lane_14_a_push_behind_by_a_worker_that_blocks_runs_on_the_other() {
    let (_runtime, pool) = pool(2);
    for _ in 0..100 {
        let (told, finished) = channel();
        let inner = pool.clone();
        pool.schedule(once(move || {
            let (ran, blocked) = channel();
            inner.schedule_behind(once(move || ran.send(()).unwrap()));
            blocked.recv_timeout(LIMIT).unwrap();
            told.send(()).unwrap();
        }));
        finished.recv_timeout(LIMIT).unwrap();
    }
    pool.stop();
}

#[test]
fn lane_14_an_outside_push_beside_a_blocked_worker_runs_on_the_other() {
    let (_runtime, pool) = pool(2);
    let (free, blocked) = channel::<()>();
    let (told, finished) = channel();
    pool.schedule(once(move || {
        let _ = blocked.recv();
    }));
    for _ in 0..1_000 {
        let told = told.clone();
        pool.schedule(once(move || told.send(()).unwrap()));
        finished.recv_timeout(LIMIT).unwrap();
    }
    drop(free);
    pool.stop();
}

#[test]
fn lane_14_pushes_from_four_threads_each_run_once() {
    const EACH: usize = 25_000;
    for workers in [1, 2, 8] {
        let (_runtime, pool) = pool(workers);
        let ran = Arc::new(AtomicUsize::new(0));
        let (done, finished) = channel();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let (ran, done) = (Arc::clone(&ran), done.clone());
                        pool.schedule(once(move || {
                            if ran.fetch_add(1, SeqCst) + 1 == 4 * EACH {
                                done.send(()).unwrap();
                            }
                        }));
                    }
                });
            }
        });
        finished.recv_timeout(LONG_LIMIT).unwrap();
        pool.stop();
        assert_eq!(ran.load(SeqCst), 4 * EACH);
    }
}

#[test]
fn lane_14_one_outside_push_after_another_finds_a_sleeping_pool() {
    for workers in [1, 2, 8] {
        let (_runtime, pool) = pool(workers);
        let (told, finished) = channel();
        for _ in 0..2_000 {
            let told = told.clone();
            pool.schedule(once(move || told.send(()).unwrap()));
            finished.recv_timeout(LIMIT).unwrap();
        }
        pool.stop();
    }
}

/// Keeps its worker busy for ever with slices of `slice`, scheduling itself on the local queue.
struct Hog {
    pool: Pool,
    slice: Duration,
    stopped: Arc<AtomicBool>,
    behind: bool,
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Run for Hog {
    fn run(self: Arc<Self>) -> u64 {
        spin(self.slice);
        if self.stopped.load(SeqCst) {
            return 1;
        }
        let pool = self.pool.clone();
        if self.behind {
            pool.schedule_behind(self)
        } else {
            pool.schedule(self)
        }
        1
    }
}

/// Beside `hogs`, tasks from outside still run, one after another.
fn beside_hogs(workers: usize, slice: Duration, behind: bool) {
    let (_runtime, pool) = pool(workers);
    let stopped = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let hog = Hog { pool: pool.clone(), slice, stopped: Arc::clone(&stopped), behind };
        pool.schedule(Arc::new(hog));
    }
    let (told, finished) = channel();
    for _ in 0..100 {
        let told = told.clone();
        pool.schedule(once(move || told.send(()).unwrap()));
        finished.recv_timeout(LIMIT).unwrap();
    }
    stopped.store(true, SeqCst);
    pool.stop();
}

#[test]
fn pool_shared_tasks_run_beside_short_self_scheduling_ones() {
    beside_hogs(1, Duration::ZERO, false);
    beside_hogs(2, Duration::ZERO, false);
}

#[test]
fn pool_shared_tasks_run_beside_long_self_scheduling_ones() {
    beside_hogs(1, Duration::from_micros(200), false);
    beside_hogs(2, Duration::from_micros(200), false);
}

#[test]
fn lane_10_shared_tasks_run_beside_those_that_go_behind() {
    beside_hogs(1, Duration::from_micros(200), true);
    beside_hogs(2, Duration::from_micros(200), true);
}

#[test]
fn pool_local_tasks_run_beside_a_shared_queue_that_is_never_empty() {
    let (_runtime, pool) = pool(1);
    let stopped = Arc::new(AtomicBool::new(false));
    for _ in 0..4 {
        let slice = Duration::from_micros(200);
        let hog = Hog { pool: pool.clone(), slice, stopped: Arc::clone(&stopped), behind: true };
        pool.schedule(Arc::new(hog));
    }
    let (done, finished) = channel();
    let ping = Ping { pool: pool.clone(), left: AtomicUsize::new(100), done };
    pool.schedule(Arc::new(ping));
    finished.recv_timeout(LIMIT).unwrap();
    stopped.store(true, SeqCst);
    pool.stop();
}

#[test]
fn pool_local_tasks_run_in_the_order_of_their_pushes() {
    let (_runtime, pool) = pool(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let (told, finished) = channel();
    let (inner, log) = (pool.clone(), Arc::clone(&order));
    pool.schedule(once(move || {
        let note = |name: &'static str, told: Sender<()>| {
            let log = Arc::clone(&log);
            once(move || {
                log.lock().unwrap().push(name);
                told.send(()).unwrap();
            })
        };
        inner.schedule(note("first", told.clone()));
        inner.schedule(note("second", told.clone()));
    }));
    (0..2).for_each(|_| finished.recv_timeout(LIMIT).unwrap());
    assert_eq!(*order.lock().unwrap(), ["first", "second"]);
    pool.stop();
}
