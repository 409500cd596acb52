//! The CPU pool: room, order, deadlines, cancellation, panics, stop.
#![cfg(not(turnkeep_loom))]

use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Waker};

use super::*;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

type Submission<T> = Pin<Box<dyn Future<Output = CpuOutcome<T>> + Send>>;

/// A submission that was polled once.
fn begun<T: Send + 'static>(
    pool: &CpuPool,
    deadline_ns: Option<u64>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Submission<T> {
    let mut future: Submission<T> = Box::pin(pool.submit(deadline_ns, work));
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    future
}

/// A job that is running when this returns, and runs until the sender is dropped.
fn busy(pool: &CpuPool) -> (mpsc::Sender<()>, Submission<()>) {
    let (release, released) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    let work = move || {
        start.send(()).unwrap();
        let _released = released.recv();
    };
    let future = begun(pool, None, work);
    started.recv().unwrap();
    (release, future)
}

#[test]
fn work_1_cpu_work_runs_on_a_thread_of_the_pool() {
    let name = || std::thread::current().name().map(str::to_owned);
    let CpuOutcome::Done(Some(name)) = block_on(CpuPool::global().submit(None, name)) else {
        panic!("not done")
    };
    assert!(name.starts_with("turnkeep-cpu-"), "{name}");
}

#[test]
fn work_1_full_queue_makes_the_submission_wait_for_room_in_order() {
    let pool = CpuPool::new(1, 1);
    let (release, running) = busy(&pool);
    let (told, heard) = mpsc::channel();
    let tell = |number: u32| {
        let told = told.clone();
        move || told.send(number).unwrap()
    };
    let queued = begun(&pool, None, tell(1));
    let waiting = [2, 3, 4].map(|number| begun(&pool, None, tell(number)));
    assert_eq!(pool.shared.queue.lock().jobs.len(), 1, "CPU-a");
    drop(release);
    block_on(async {
        assert_eq!(running.await, CpuOutcome::Done(()));
        assert_eq!(queued.await, CpuOutcome::Done(()));
        for future in waiting {
            assert_eq!(future.await, CpuOutcome::Done(()));
        }
    });
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn work_1_full_queue_waits_until_the_deadline() {
    let pool = CpuPool::new(1, 1);
    let (release, running) = busy(&pool);
    let _queued = begun(&pool, None, || ());
    let expired = block_on(pool.submit(Some(ticks::after(3_000_000)), || unreachable!("there was no room")));
    assert_eq!(expired, CpuOutcome::<()>::Expired);
    drop(release);
    assert_eq!(block_on(running), CpuOutcome::Done(()));
}

#[test]
fn work_3_queued_and_passed_deadlines_complete_nothing() {
    let pool = CpuPool::new(1, 4);
    let (release, running) = busy(&pool);
    let expired =
        block_on(pool.submit(Some(ticks::after(3_000_000)), || unreachable!("expired in the queue")));
    assert_eq!(expired, CpuOutcome::<()>::Expired);
    assert_eq!(block_on(pool.submit(Some(0), || ())), CpuOutcome::Expired);
    drop(release);
    block_on(running);
    assert_eq!(block_on(pool.submit(None, || 3)), CpuOutcome::Done(3), "the skipped job left its place");
}

#[test]
fn work_3_work_that_ends_after_its_deadline_completes_nothing() {
    let pool = CpuPool::new(1, 1);
    let at_ns = ticks::after(3_000_000);
    let slow = move || {
        while ticks::now() < at_ns {
            std::thread::yield_now();
        }
    };
    assert_eq!(block_on(pool.submit(Some(at_ns), slow)), CpuOutcome::Expired);
}

#[test]
fn done_4_dropped_submission_is_skipped_and_a_running_one_ends() {
    let pool = CpuPool::new(1, 4);
    let (release, running) = busy(&pool);
    let (told, heard) = mpsc::channel();
    let skipped = begun(&pool, None, move || told.send(()).unwrap());
    drop((running, skipped));
    drop(release);
    assert_eq!(block_on(pool.submit(None, || 5)), CpuOutcome::Done(5));
    assert!(heard.recv().is_err(), "dropped unrun");
}

#[test]
fn work_1_panic_is_an_outcome_and_the_thread_goes_on() {
    let pool = CpuPool::new(1, 1);
    let panics = || std::panic::resume_unwind(Box::new("broken".to_owned()));
    assert_eq!(block_on(pool.submit(None, panics)), CpuOutcome::<()>::Panicked("broken".to_owned()));
    assert_eq!(block_on(pool.submit(None, || 1)), CpuOutcome::Done(1));
}

#[test]
fn done_1_stop_ends_every_submission() {
    let pool = CpuPool::new(1, 1);
    let (release, running) = busy(&pool);
    let queued = begun(&pool, None, || ());
    let waiting = begun(&pool, None, || ());
    pool.stop();
    assert_eq!(block_on(queued), CpuOutcome::Stopped);
    assert_eq!(block_on(waiting), CpuOutcome::Stopped);
    assert_eq!(block_on(pool.submit(None, || ())), CpuOutcome::Stopped);
    drop(release);
    assert_eq!(block_on(running), CpuOutcome::Done(()));
}
