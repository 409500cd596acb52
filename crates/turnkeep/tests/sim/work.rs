//! CPU and I/O work, tasks and infrastructure tasks of a driven node run on the driving thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::testing::{Signal, Sim, explore};

#[test]
fn sim_work_runs_on_the_driving_thread() {
    explore(0..20, |sim| {
        let node = sim.node(Node::builder());
        let here = thread::current().id();
        let ids = sim.run(async {
            let cpu: ThreadId = node.cpu(|| thread::current().id()).await.unwrap();
            let io = node
                .io(async {
                    crate::world::yield_now().await;
                    thread::current().id()
                })
                .await
                .unwrap();
            let task = node.spawn(async { thread::current().id() }).await.unwrap();
            let infra = node.spawn_infrastructure(async { thread::current().id() }).await.unwrap();
            [cpu, io, task, infra]
        });
        assert_eq!(ids, [here; 4]);
        assert_eq!(sim.run(node.shutdown()).unwrap().cancelled, 0);
    });
}

fn panics() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

#[test]
fn sim_work_that_panics_is_an_error() {
    let sim = Sim::new(1);
    let node = sim.node(Node::builder());
    let errors = sim.run(async {
        let cpu = node.cpu(panics).await.unwrap_err();
        let io = node.io(async move { panics() }).await.unwrap_err();
        [cpu.kind(), io.kind()]
    });
    assert_eq!(errors, [ErrorKind::InternalFailure; 2]);
    assert!(sim.run(node.spawn_infrastructure(async move { panics() })).is_none());
}

/// Says when it is dropped.
struct Dropped(Arc<AtomicBool>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn sim_work_given_up_or_too_late_is_dropped() {
    let sim = Sim::new(1);
    let node = sim.node(Node::builder());
    let dropped = Arc::new(AtomicBool::new(false));
    let guard = Dropped(dropped.clone());
    let endless = node.io(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    });
    let error = sim.run(endless.timeout(Duration::from_secs(9))).unwrap_err();
    assert_eq!((error.kind(), sim.elapsed().as_secs()), (ErrorKind::DeadlineExceeded, 9));
    sim.run_until_idle();
    assert!(dropped.load(Ordering::SeqCst));
    // Given up before it was chosen: never run.
    let ran = Signal::new();
    let told = ran.clone();
    let mut work = Box::pin(node.cpu(move || told.set()));
    sim.run(std::future::poll_fn(|cx| {
        assert!(work.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    }));
    drop(work);
    sim.run_until_idle();
    assert!(!ran.is_set());
}
