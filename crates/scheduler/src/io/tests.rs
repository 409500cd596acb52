//! The I/O runtimes: where work runs, how it ends, and that a full CPU pool is nothing to it.
#![cfg(not(turnkeep_loom))]

use std::sync::mpsc;

use super::*;
use crate::completion::completion;
use crate::cpu::{CpuOutcome, CpuPool};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Tells when it is dropped.
struct Tell(mpsc::Sender<()>);

impl Drop for Tell {
    fn drop(&mut self) {
        let _gone = self.0.send(());
    }
}

async fn for_ever(held: Tell) {
    std::future::pending::<()>().await;
    drop(held);
}

#[test]
fn work_1_io_work_runs_on_its_runtime_and_returns_its_value() {
    let name = block_on(spawn_work(async { std::thread::current().name().map(str::to_owned) }, None));
    assert_eq!(name, IoOutcome::Done(Some("turnkeep-io".to_owned())));
    let infra = infra_handle().spawn(async { std::thread::current().name().map(str::to_owned) });
    assert_eq!(block_on(infra).unwrap().as_deref(), Some("turnkeep-infra"));
}

#[test]
fn work_1_waiting_io_holds_no_thread() {
    let (completers, waits): (Vec<_>, Vec<_>) = (0..200).map(|_| completion::<u32>()).unzip();
    let tasks: Vec<_> = waits.into_iter().map(|wait| handle().spawn(spawn_work(wait, None))).collect();
    assert_eq!(block_on(spawn_work(async { 1 }, None)), IoOutcome::Done(1));
    for completer in completers {
        completer.complete(2).unwrap();
    }
    for task in tasks {
        assert_eq!(block_on(task).unwrap(), IoOutcome::Done(crate::completion::Outcome::Done(2)));
    }
}

#[test]
fn work_3_a_saturated_cpu_pool_delays_no_io_completion() {
    let pool = CpuPool::new(1, 1);
    let (release, released) = mpsc::channel::<()>();
    let (start, started) = mpsc::channel();
    let work = move || {
        start.send(()).unwrap();
        let _released = released.recv();
    };
    let running = handle().spawn(pool.submit(None, work));
    started.recv().unwrap();
    let more: Vec<_> = (0..10).map(|_| handle().spawn(pool.submit(None, || ()))).collect();
    // The release comes after this: it ends only because nothing in the pool is in its way.
    assert_eq!(block_on(spawn_work(async { 7 }, None)), IoOutcome::Done(7));
    drop(release);
    assert_eq!(block_on(running).unwrap(), CpuOutcome::Done(()));
    for task in more {
        assert_eq!(block_on(task).unwrap(), CpuOutcome::Done(()));
    }
}

#[test]
fn work_3_expired_io_work_is_aborted_and_completes_nothing() {
    let (told, heard) = mpsc::channel();
    let outcome = block_on(spawn_work(for_ever(Tell(told)), Some(ticks::after(3_000_000))));
    assert_eq!(outcome, IoOutcome::Expired);
    assert_eq!(heard.recv(), Ok(()), "the future is dropped");
    assert_eq!(block_on(spawn_work(async { unreachable!("too late") }, Some(0))), IoOutcome::<()>::Expired);
}

#[test]
fn done_4_dropped_wait_aborts_the_io_task() {
    let (told, heard) = mpsc::channel();
    let mut wait = Box::pin(spawn_work(for_ever(Tell(told)), None));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    drop(wait);
    assert_eq!(heard.recv(), Ok(()));
}

#[test]
fn work_1_panic_in_io_work_is_an_outcome() {
    let panics = async { std::panic::resume_unwind(Box::new("broken")) };
    assert_eq!(block_on(spawn_work::<_>(panics, None)), IoOutcome::<()>::Panicked("broken".to_owned()));
}
