//! CPU and I/O work: pools apart from the workers, bounded, with one result however they are awaited.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turnkeep::Work;
use turnkeep::prelude::*;

use support::{Overlap, Signal, within};
use world::{Room, everywhere, ping, room, world};

/// The CPU pool belongs to the process: tests that fill it take turns.
static POOL: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The places of the pool's queue, beside one job a thread.
const QUEUE: usize = 1_024;

/// As many as the pool has threads.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// A pool with a job on every thread, which block until `go`, and so many more in its queue.
struct Full {
    go: Signal,
    jobs: Vec<tokio::task::JoinHandle<Result<(), Error>>>,
    queued_ran: Arc<AtomicUsize>,
}

impl Full {
    async fn with_queued(node: &Node, queued: usize) -> Self {
        let (go, queued_ran) = (Signal::new(), Arc::new(AtomicUsize::new(0)));
        let mut jobs = Vec::new();
        for _ in 0..threads() {
            let (busy, until) = (Signal::new(), go.clone());
            let on = busy.clone();
            jobs.push(tokio::spawn(node.cpu(move || {
                on.set();
                until.wait_blocking();
            })));
            busy.wait().await;
        }
        // Without tokio's budget, so that each job has its place in the queue before the next is made.
        tokio::task::unconstrained(async {
            for _ in 0..queued {
                let ran = queued_ran.clone();
                let mut job = Box::pin(node.cpu(move || {
                    ran.fetch_add(1, Ordering::SeqCst);
                }));
                assert!(futures_util::poll!(&mut job).is_pending());
                jobs.push(tokio::spawn(job));
            }
        })
        .await;
        Self { go, jobs, queued_ran }
    }

    /// Lets them go on, and comes back when all have ended well.
    async fn empty(self) {
        self.go.set();
        let queued = self.jobs.len() - threads();
        for job in self.jobs {
            job.await.unwrap().unwrap();
        }
        assert_eq!(self.queued_ran.load(Ordering::SeqCst), queued);
    }
}

/// Asks a fresh Spot of the node for a piece of work, awaited ordinarily and yielding.
macro_rules! both_ways {
    ($node:ident, |$turn:ident| $work:expr) => {{
        let spot = room(&$node, "asker").await;
        let ordinary = spot.ask(act!(Room, [], |$turn| {
            let work = $work;
            work.await
        }));
        let ordinary = ordinary.await.unwrap();
        let yields = $node.metrics().yields;
        let yielding = spot.ask(act!(Room, [], |$turn| {
            let work = $work;
            $turn.yielding(work).await
        }));
        let yielding = yielding.await.unwrap();
        assert_eq!($node.metrics().yields, yields + 1);
        (ordinary, yielding)
    }};
}

/// What can be compared of a result: the value, or kind and text.
fn plain<R>(result: Result<R, Error>) -> Result<R, (ErrorKind, String)> {
    result.map_err(|error| (error.kind(), error.to_string()))
}

#[tokio::test]
async fn work_1_a_cpu_work_takes_no_worker_and_ordinary_waits_for_it_hold_no_other_gate() {
    let _mine = POOL.lock().await;
    let node = world(1).await;
    within(async {
        let (waiting, other) = (room(&node, "waiting").await, room(&node, "other").await);
        let (busy, go) = (Signal::new(), Signal::new());
        let asked = waiting.ask(act!(Room, [busy, go], |turn| {
            turn.cpu(move || {
                busy.set();
                go.wait_blocking();
                std::thread::current().name().unwrap_or_default().to_owned()
            })
            .await
            .unwrap()
        }));
        let others = async {
            busy.wait().await;
            for _ in 0..100 {
                ping(&other).await;
            }
            go.set();
        };
        let (thread, ()) = tokio::join!(asked, others);
        let thread = thread.unwrap();
        assert!(thread.contains("cpu"), "ran on {thread}");
    })
    .await;
}

#[tokio::test]
async fn work_1_b_no_more_cpu_jobs_run_at_once_than_the_pool_has_threads() {
    let _mine = POOL.lock().await;
    let node = world(2).await;
    within(async {
        let overlap = Overlap::new();
        let all_in = Arc::new(std::sync::Barrier::new(threads()));
        let rounds = 20;
        let jobs = (0..threads() * rounds).map(|_| {
            let (overlap, all_in) = (overlap.clone(), all_in.clone());
            node.cpu(move || {
                let _inside = overlap.enter();
                // A rendezvous of a full pool: nobody passes unless every thread has a job.
                all_in.wait();
            })
        });
        for job in futures_util::future::join_all(jobs).await {
            job.unwrap();
        }
        assert_eq!(overlap.most(), threads());
    })
    .await;
}

#[tokio::test]
async fn work_1_c_a_full_cpu_queue_makes_the_call_wait_until_its_deadline() {
    let _mine = POOL.lock().await;
    let node = world(2).await;
    within(async {
        let full = Full::with_queued(&node, QUEUE).await;
        let ran = Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = ran.clone();
            node.cpu(move || ran.fetch_add(1, Ordering::SeqCst))
        };
        let limit = Duration::from_millis(50);
        let begun = std::time::Instant::now();
        let late = count().timeout(limit).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
        assert!(begun.elapsed() >= limit, "it waited");
        let mut patient = Box::pin(count());
        assert!(futures_util::poll!(&mut patient).is_pending());
        full.empty().await;
        patient.await.unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1, "the one that was late has not run");
    })
    .await;
}

#[tokio::test]
async fn work_1_d_io_work_holds_no_slot_while_it_waits() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let met = Arc::new(tokio::sync::Barrier::new(2_000));
        let works = (0..1_000).map(|_| {
            let met = met.clone();
            node.io(async move {
                met.wait().await;
            })
        });
        let asks = (0..1_000).map(|_| {
            spot.ask(act!(Room, [met], |turn| {
                let work = turn.io(async move {
                    met.wait().await;
                });
                turn.yielding(work).await
            }))
        });
        let (works, asks) =
            tokio::join!(futures_util::future::join_all(works), futures_util::future::join_all(asks));
        assert!(works.into_iter().all(|ended| ended.is_ok()));
        assert!(asks.into_iter().all(|ended| ended.unwrap().is_ok()));
    })
    .await;
}

/// Jobs that ask objects whose handlers offload work of their own do not wait for each other for ever.
#[tokio::test]
async fn work_1_e_jobs_that_wait_for_jobs_of_others_end_when_a_deadline_or_a_place_comes() {
    let _mine = POOL.lock().await;
    let node = world(2).await;
    within(async {
        let spot = room(&node, "spot").await;
        // One job less than threads asks back; then all of them, which only the deadline can end.
        for jobs in [threads().saturating_sub(1).max(1), threads()] {
            let works = (0..jobs).map(|_| {
                let spot = spot.clone();
                node.cpu(move || {
                    let inner = spot.ask(act!(Room, [], |turn| {
                        let work = turn.cpu(|| 1).timeout(Duration::from_millis(500));
                        turn.yielding(work).await.map_err(|error| error.kind())
                    }));
                    block_on(inner).unwrap()
                })
            });
            for ended in futures_util::future::join_all(works).await {
                let ended = ended.unwrap();
                assert!(matches!(ended, Ok(1) | Err(ErrorKind::DeadlineExceeded)), "{ended:?}");
            }
            ping(&spot).await;
        }
    })
    .await;
}

/// Blocks a thread of the CPU pool on a future.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[tokio::test]
async fn work_2_a_a_result_is_the_same_awaited_ordinarily_and_yielding() {
    let _mine = POOL.lock().await;
    everywhere(async |node| {
        let (ordinary, yielding) = both_ways!(node, |turn| turn.cpu(|| (1..=10).product::<u64>()));
        assert_eq!((plain(ordinary), plain(yielding)), (Ok(3_628_800), Ok(3_628_800)));
        let (ordinary, yielding) = both_ways!(node, |turn| turn.io(async { "read".to_owned() }));
        assert_eq!(plain(ordinary), Ok("read".to_owned()));
        assert_eq!(plain(yielding), Ok("read".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn work_2_b_a_panic_is_the_same_error_awaited_ordinarily_and_yielding() {
    let _mine = POOL.lock().await;
    everywhere(async |node| {
        let (ordinary, yielding) = both_ways!(node, |turn| turn.cpu(|| -> u64 { panic!("burnt") }));
        let (ordinary, yielding) = (plain(ordinary).unwrap_err(), plain(yielding).unwrap_err());
        assert_eq!(ordinary.0, ErrorKind::InternalFailure);
        assert!(ordinary.1.contains("burnt"), "{}", ordinary.1);
        assert_eq!(ordinary, yielding);
        let (ordinary, yielding) = both_ways!(node, |turn| turn.io(async { panic!("drowned") }));
        let (ordinary, yielding): (Result<(), _>, Result<(), _>) = (plain(ordinary), plain(yielding));
        assert_eq!(ordinary.as_ref().unwrap_err().0, ErrorKind::InternalFailure);
        assert_eq!(ordinary, yielding);
        ping(&node.spot::<Room>("asker").find().unwrap()).await;
    })
    .await;
}

#[tokio::test]
async fn work_2_c_a_deadline_is_the_same_error_awaited_ordinarily_and_yielding() {
    let _mine = POOL.lock().await;
    everywhere(async |node| {
        let short = Duration::from_millis(20);
        let (ordinary, yielding) =
            both_ways!(node, |turn| turn.io(std::future::pending::<()>()).timeout(short));
        let ordinary = plain(ordinary);
        assert_eq!(ordinary.as_ref().unwrap_err().0, ErrorKind::DeadlineExceeded);
        assert_eq!(ordinary, plain(yielding));
        let full = Full::with_queued(&node, 0).await;
        let (ordinary, yielding) = both_ways!(node, |turn| turn.cpu(|| ()).timeout(short));
        let ordinary = plain(ordinary);
        assert_eq!(ordinary.as_ref().unwrap_err().0, ErrorKind::DeadlineExceeded);
        assert_eq!(ordinary, plain(yielding));
        full.empty().await;
    })
    .await;
}

#[tokio::test]
async fn work_3_a_a_saturated_cpu_pool_delays_no_io_completion() {
    let _mine = POOL.lock().await;
    let node = world(1).await;
    within(async {
        let spot = room(&node, "spot").await;
        let full = Full::with_queued(&node, QUEUE).await;
        let met = Arc::new(tokio::sync::Barrier::new(100));
        let asks = (0..100).map(|_| {
            spot.ask(act!(Room, [met], |turn| {
                let work = turn.io(async move {
                    met.wait().await;
                });
                turn.yielding(work).await
            }))
        });
        for ended in futures_util::future::join_all(asks).await {
            ended.unwrap().unwrap();
        }
        assert_eq!(full.queued_ran.load(Ordering::SeqCst), 0, "the pool was saturated all the while");
        full.empty().await;
    })
    .await;
}

/// Counts where it is dropped.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn work_3_b_cpu_work_that_ends_after_its_deadline_completes_nothing() {
    let _mine = POOL.lock().await;
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        // A busy machine may not start the work in time; then it is skipped and the next attempt counts.
        for attempt in 1_u32.. {
            let (busy, go, over) = (Signal::new(), Signal::new(), Signal::new());
            let dropped = Arc::new(AtomicUsize::new(0));
            let limit = Duration::from_millis(20) * attempt;
            let outcome = spot.ask(act!(Room, [busy, go, over, dropped], |turn| {
                let work: Work<Dropped> = turn.cpu(move || {
                    busy.set();
                    go.wait_blocking();
                    over.set();
                    Dropped(dropped)
                });
                let kind = turn.yielding(work.timeout(limit)).await.err().map(|error| error.kind());
                turn.n += 1;
                kind
            }));
            assert_eq!(outcome.await.unwrap(), Some(ErrorKind::DeadlineExceeded));
            node.quiesce().await.unwrap();
            let (turns, started) = (node.metrics().turns, busy.is_set());
            go.set();
            if !started {
                continue;
            }
            over.wait().await;
            while dropped.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            node.quiesce().await.unwrap();
            assert_eq!(node.metrics().turns, turns, "the late result made no turn");
            assert_eq!(dropped.load(Ordering::SeqCst), 1);
            let n = spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap();
            assert_eq!(n, u64::from(attempt), "each handler went on once");
            break;
        }
    })
    .await;
}

#[tokio::test]
async fn work_3_c_cpu_work_given_up_before_it_began_is_skipped() {
    let _mine = POOL.lock().await;
    let node = world(2).await;
    within(async {
        let full = Full::with_queued(&node, 0).await;
        let ran = Arc::new(AtomicUsize::new(0));
        let (dropped, expired) = (ran.clone(), ran.clone());
        let mut job = Box::pin(node.cpu(move || dropped.fetch_add(1, Ordering::SeqCst)));
        assert!(futures_util::poll!(&mut job).is_pending());
        drop(job);
        let late =
            node.cpu(move || expired.fetch_add(1, Ordering::SeqCst)).timeout(Duration::from_millis(20));
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        full.empty().await;
        // Jobs start in order, so both had their chance when a later one has run on every thread.
        let met = Arc::new(std::sync::Barrier::new(threads()));
        let behind = (0..threads()).map(|_| {
            let met = met.clone();
            node.cpu(move || {
                met.wait();
            })
        });
        futures_util::future::join_all(behind).await;
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    })
    .await;
}

#[tokio::test]
async fn work_3_d_io_work_given_up_or_too_late_is_dropped_and_completes_nothing() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let (dropped, begun) = (Arc::new(AtomicUsize::new(0)), Signal::new());
        let guard = Dropped(dropped.clone());
        let started = begun.clone();
        let mut work = Box::pin(node.io(async move {
            let _guard = guard;
            started.set();
            std::future::pending::<()>().await;
        }));
        assert!(futures_util::poll!(&mut work).is_pending());
        begun.wait().await;
        drop(work);
        let guard = Dropped(dropped.clone());
        let outcome = spot.ask(act!(Room, [], |turn| {
            let work = turn.io(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            turn.yielding(work.timeout(Duration::from_millis(20))).await.unwrap_err().kind()
        }));
        assert_eq!(outcome.await.unwrap(), ErrorKind::DeadlineExceeded);
        while dropped.load(Ordering::SeqCst) < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn work_3_e_work_of_a_destroyed_handler_completes_nothing() {
    let _mine = POOL.lock().await;
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let (busy, go, over) = (Signal::new(), Signal::new(), Signal::new());
        let asked = spot.ask(act!(Room, [busy, go, over], |turn| {
            let work = turn.cpu(move || {
                busy.set();
                go.wait_blocking();
                over.set();
            });
            turn.yielding(work).await
        }));
        let destroy = async {
            busy.wait().await;
            spot.destroy().await.unwrap();
        };
        let (asked, ()) = tokio::join!(asked, destroy);
        assert_eq!(asked.unwrap_err().kind(), Some(ErrorKind::Unavailable));
        let again = room(&node, "spot").await;
        go.set();
        over.wait().await;
        ping(&again).await;
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().panics, 0);
    })
    .await;
}
