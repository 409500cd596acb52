//! The sleep protocol under loom: every interleaving (within a preemption bound) of small pools.
//!
//! The queues are counters here. A worker of these models takes one task and never comes back from it, as
//! one that blocks in user code: so a task that is lost, or left unwatched, leaves its worker asleep for
//! ever, and loom reports the deadlock.

use std::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{Owed, Sleep};

/// A pool whose queues only count.
struct Model {
    sleep: Sleep,
    shared: AtomicUsize,
    local: Box<[AtomicUsize]>,
    /// How many local tasks the first taken shared task makes ready.
    spawns: AtomicUsize,
}

impl Model {
    fn new(workers: usize, spawns: usize) -> Arc<Self> {
        Arc::new(Self {
            sleep: Sleep::new(workers),
            shared: AtomicUsize::new(0),
            local: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            spawns: AtomicUsize::new(spawns),
        })
    }

    fn push_from_outside(&self) {
        self.shared.fetch_add(1, Ordering::Relaxed);
        self.sleep.announce();
    }

    fn has_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed) > 0
    }

    /// Takes any task: a shared one, else one that some worker has queued for itself.
    fn search(&self) -> Option<Taken> {
        if take(&self.shared) {
            return Some(Taken::Shared);
        }
        self.local.iter().any(take).then_some(Taken::Local)
    }

    /// The loop of the real worker, up to and including its first task.
    fn work(&self, me: usize) {
        let taken = loop {
            let found = self.search().or_else(|| self.linger(me));
            if let Some(taken) = found.or_else(|| self.sleep_until_work(me)) {
                break taken;
            }
        };
        if taken == Taken::Shared {
            let spawns = self.spawns.swap(0, Ordering::Relaxed);
            for _ in 0..spawns {
                self.local[me].fetch_add(1, Ordering::Relaxed);
                self.sleep.fill_post();
            }
        }
    }

    /// One look on the way to sleep.
    fn linger(&self, me: usize) -> Option<Taken> {
        if !self.sleep.linger(me) {
            return None;
        }
        let taken = self.search();
        if taken.is_some() {
            self.settle(self.sleep.get_up(me));
        }
        taken
    }

    fn sleep_until_work(&self, me: usize) -> Option<Taken> {
        loop {
            let rest = self.sleep.lie_down(me);
            if self.has_shared() {
                self.settle(self.sleep.get_up(me));
                return None;
            }
            self.sleep.rest(me, rest, Duration::ZERO);
            if let Some(taken) = self.search() {
                self.settle(self.sleep.get_up(me));
                return Some(taken);
            }
        }
    }

    fn settle(&self, owed: Owed) {
        if owed == Owed::SecondLook && self.has_shared() {
            self.sleep.call();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Shared,
    Local,
}

fn take(queue: &AtomicUsize) -> bool {
    queue.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |queued| queued.checked_sub(1)).is_ok()
}

fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

/// Starts all `workers` of the model, pushes `pushes` tasks from outside and waits until every worker has
/// taken its one task.
fn run(workers: usize, spawns: usize, pushes: usize) {
    let pool = Model::new(workers, spawns);
    let threads: Vec<_> = (0..workers)
        .map(|me| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || pool.work(me))
        })
        .collect();
    (0..pushes).for_each(|_| pool.push_from_outside());
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(pool.search().is_none());
}

#[test]
fn loom_sleep_a_push_from_outside_while_the_last_worker_lies_down_is_not_lost() {
    model(3, || run(1, 0, 1));
}

#[test]
fn loom_sleep_two_pushes_reach_two_workers_although_the_second_finds_one_called() {
    model(3, || run(2, 0, 2));
}

#[test]
fn loom_sleep_pushes_of_two_threads_reach_two_workers() {
    model(2, || {
        let pool = Model::new(2, 0);
        let mut threads: Vec<_> = (0..2)
            .map(|me| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || pool.work(me))
            })
            .collect();
        let other = Arc::clone(&pool);
        threads.push(thread::spawn(move || other.push_from_outside()));
        pool.push_from_outside();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn loom_lane_14_a_task_queued_by_a_worker_that_never_returns_is_found_by_the_watcher() {
    model(3, || run(2, 1, 1));
}

#[test]
fn loom_lane_14_the_watch_is_handed_on_when_the_watcher_finds_work() {
    model(1, || run(3, 2, 1));
}

#[test]
fn loom_lane_14_the_watch_stands_when_an_outside_push_calls_the_watcher_away() {
    model(1, || run(3, 1, 2));
}

#[test]
fn loom_sleep_rousing_all_ends_every_sleep() {
    model(3, || {
        let pool = Model::new(2, 0);
        let stopped = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let (pool, stopped) = (Arc::clone(&pool), Arc::clone(&stopped));
                thread::spawn(move || sleep_until_stopped(&pool.sleep, me, &stopped))
            })
            .collect();
        stopped.store(1, Ordering::SeqCst);
        pool.sleep.rouse_all();
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn sleep_until_stopped(sleep: &Sleep, me: usize, stopped: &AtomicUsize) {
    loop {
        let rest = sleep.lie_down(me);
        if stopped.load(Ordering::Acquire) == 1 {
            let _ = sleep.get_up(me);
            return;
        }
        sleep.rest(me, rest, Duration::ZERO);
    }
}
