//! The threads of a pool: what they know, what they survive, how they end and what becomes of leftovers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::super::{Form, Pool, PoolConfig, Run, on_any_worker};
use super::{LIMIT, once, pool};

/// Counts its drops.
struct Counted(Arc<AtomicUsize>);

impl Run for Counted {
    fn run(self: Arc<Self>) -> u64 {
        panic!("a leftover ran")
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Fills the queues of a pool of one worker, whose running task waits for `free`.
fn with_leftovers(pool: &Pool, drops: &Arc<AtomicUsize>, free: Receiver<()>) {
    let (told, filled) = channel();
    let (inner, counter) = (pool.clone(), Arc::clone(drops));
    pool.schedule(once(move || {
        (0..10).for_each(|_| inner.schedule(Arc::new(Counted(Arc::clone(&counter)))));
        (0..10).for_each(|_| inner.schedule_behind(Arc::new(Counted(Arc::clone(&counter)))));
        told.send(()).unwrap();
        let _ = free.recv();
    }));
    filled.recv_timeout(LIMIT).unwrap();
    (0..10).for_each(|_| pool.schedule(Arc::new(Counted(Arc::clone(drops)))));
}

#[test]
fn dom_3_stop_drops_what_is_left_exactly_once() {
    let (_runtime, pool) = pool(1);
    let drops = Arc::new(AtomicUsize::new(0));
    let (free, blocked) = channel();
    with_leftovers(&pool, &drops, blocked);
    let stopper = pool.clone();
    let stopping = std::thread::spawn(move || stopper.stop());
    // The running slice ends only after the pool is known to have stopped.
    while !matches!(&pool.0, Form::Threads(shared) if shared.is_stopped()) {
        std::thread::yield_now();
    }
    drop(free);
    stopping.join().unwrap();
    assert_eq!(drops.load(SeqCst), 30);
    pool.schedule(Arc::new(Counted(Arc::clone(&drops))));
    assert_eq!(drops.load(SeqCst), 31, "a task that comes too late is dropped at once");
    pool.stop();
}

#[test]
fn dom_3_stop_against_pushes_leaves_nothing_behind() {
    for _ in 0..50 {
        let (_runtime, pool) = pool(2);
        let alive = Arc::new(());
        std::thread::scope(|scope| {
            let token = &alive;
            let pusher = pool.clone();
            scope.spawn(move || {
                for _ in 0..500 {
                    let (held, again) = (Arc::clone(token), pusher.clone());
                    pusher.schedule(once(move || {
                        let held = Arc::clone(&held);
                        again.schedule(once(move || drop(held)));
                    }));
                }
            });
            pool.stop();
        });
        pool.stop();
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}

#[test]
fn dom_3_stop_from_inside_a_worker_detaches() {
    let (_runtime, pool) = pool(2);
    let (told, finished) = channel();
    let inner = pool.clone();
    pool.schedule(once(move || {
        inner.stop();
        inner.stop();
        let late = told.clone();
        inner.schedule(once(move || late.send("ran").unwrap()));
        told.send("stopped").unwrap();
    }));
    assert_eq!(finished.recv_timeout(LIMIT), Ok("stopped"));
    assert!(finished.recv_timeout(LIMIT).is_err(), "the late task is dropped, not run");
    pool.stop();
}

#[test]
fn dom_3_a_panic_costs_its_slice_only() {
    let (_runtime, pool) = pool(1);
    let (told, finished) = channel();
    pool.schedule(once(|| panic!("as the test wants it")));
    pool.schedule(once(|| std::panic::panic_any(BadPayload)));
    pool.schedule(once(move || told.send(()).unwrap()));
    finished.recv_timeout(LIMIT).unwrap();
    assert_eq!(pool.workers(), 1);
    pool.stop();
}

/// A panic's payload that panics when it is dropped.
struct BadPayload;

impl Drop for BadPayload {
    fn drop(&mut self) {
        panic!("as the test wants it, again");
    }
}

#[test]
fn dom_3_threads_know_whose_workers_they_are() {
    let (_first_runtime, first) = pool(1);
    let (_second_runtime, second) = pool(1);
    assert!(!on_any_worker());
    assert!(!first.on_worker());
    let (told, finished) = channel();
    let (one, two) = (first.clone(), second.clone());
    first.schedule(once(move || {
        told.send((on_any_worker(), one.on_worker(), two.on_worker())).unwrap();
        // A push to another pool is one from outside.
        let there = two.clone();
        two.schedule(once(move || told.send((on_any_worker(), one.on_worker(), there.on_worker())).unwrap()));
    }));
    assert_eq!(finished.recv_timeout(LIMIT), Ok((true, true, false)));
    assert_eq!(finished.recv_timeout(LIMIT), Ok((true, false, true)));
    first.stop();
    second.stop();
}

#[test]
fn dom_3_workers_have_the_runtime_at_hand() {
    let (_runtime, pool) = pool(1);
    let (told, finished) = channel();
    pool.schedule(once(move || {
        tokio::runtime::Handle::current().spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            told.send(()).unwrap();
        });
    }));
    finished.recv_timeout(LIMIT).unwrap();
    pool.stop();
}

#[test]
fn dom_3_no_pool_without_workers() {
    let (runtime, started) = pool(1);
    let config = PoolConfig { workers: 0, ..PoolConfig::default() };
    assert!(Pool::start(config, runtime.handle().clone()).is_err());
    started.stop();
}

#[test]
fn dom_3_all_workers_of_an_idle_pool_lie_down() {
    let (_runtime, pool) = pool(4);
    let begun = Instant::now();
    while pool.idle() < pool.workers() {
        assert!(begun.elapsed() < LIMIT);
        std::thread::yield_now();
    }
    pool.stop();
}
