//! Jobs of the CPU pool that wait for what needs the pool itself: a typed end, and nobody else waits with them.
//!
//! CB-101, the part in which no thread can be made: the pool makes its threads when it is first used and is refused as
//! a whole if it cannot; a test of that would take the threads away from all others of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turnkeep::prelude::*;

use crate::support::{Log, within};
use crate::world::{Room, end, ms, real_world_of, room};

/// Long enough for everything but a stall.
const PATIENCE: Duration = Duration::from_secs(2);

/// As many jobs as the pool has threads and more, each of which asks a Spot that needs the pool for its answer.
#[tokio::test]
async fn cb_101_a_jobs_that_wait_for_their_own_pool_end_and_nobody_else_waits() {
    let node = real_world_of(Node::builder().workers(2)).await;
    let (needs_pool, free) = (room(&node, "needs pool").await, room(&node, "free").await);
    let jobs = 2 * std::thread::available_parallelism().unwrap().get();
    let running: Vec<_> = (0..jobs)
        .map(|_| {
            let spot = needs_pool.clone();
            tokio::spawn(node.cpu(move || {
                let needs = act!(Room, [], |turn| turn.yielding(turn.cpu(|| 7).timeout(PATIENCE)).await);
                spot.ask_blocking(needs)
            }))
        })
        .collect();
    // Replies and ticks go on beside them.
    let ticked = Log::new();
    let on_tick = ticks!(Room, [ticked], |_turn, tick| ticked.push(tick.delivery()));
    free.ask(act!(Room, [], |turn| {
        turn.on_tick = on_tick;
        turn.timer("t", turnkeep::Timer::every(ms(5))).unwrap();
    }))
    .await
    .unwrap();
    within(ticked.wait_for_len(10)).await;
    for job in running {
        match within(job).await.unwrap() {
            Ok(Ok(Ok(reply))) => assert_eq!(reply, 7),
            Ok(Ok(Err(inner))) => assert_eq!(inner.kind(), ErrorKind::DeadlineExceeded),
            Ok(Err(asked)) => assert_eq!(asked.kind(), Some(ErrorKind::DeadlineExceeded)),
            Err(job) => assert_eq!(job.kind(), ErrorKind::DeadlineExceeded),
        }
    }
    assert_eq!(within(node.cpu(|| 8)).await.unwrap(), 8, "the pool is free again");
    end(node).await;
}

#[tokio::test]
async fn cb_101_b_of_a_thousand_jobs_at_once_each_is_done_or_refused() {
    const JOBS: usize = 3000;
    let node = real_world_of(Node::builder().workers(2)).await;
    let ran = Arc::new(AtomicUsize::new(0));
    let jobs: Vec<_> = (0..JOBS)
        .map(|_| {
            let ran = ran.clone();
            tokio::spawn(node.cpu(move || ran.fetch_add(1, Ordering::SeqCst)))
        })
        .collect();
    let mut done = 0;
    for job in jobs {
        match within(job).await.unwrap() {
            Ok(_) => done += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::DeadlineExceeded),
        }
    }
    // One whose time was up may have run; one that is done has.
    let ran = ran.load(Ordering::SeqCst);
    assert!(done <= ran && ran <= JOBS && done > 0, "{done} done, {ran} ran");
    end(node).await;
}
