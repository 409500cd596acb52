//! Domains (DOM): what goes on while every worker is blocked, and which calls belong where.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use support::{Log, Signal, within};
use turnkeep::prelude::*;
use turnkeep::{Locate, ObjectKind};

/// Blocks the worker that runs it.
#[derive(Default)]
struct Blocker;
impl Spot for Blocker {
    type Mode = SpotWide;
}

#[derive(Message)]
#[message(reply = u64)]
struct Ping(u64);
#[derive(Message)]
struct Block(#[message(no_heap)] Signal, #[message(no_heap)] Signal);

impl Handles<Ping> for Blocker {
    async fn handle(_: &mut Turn<'_, Self>, ping: Ping) -> Result<u64, Never> {
        Ok(ping.0)
    }
}
impl Handles<Block> for Blocker {
    async fn handle(_: &mut Turn<'_, Self>, block: Block) -> Result<(), Never> {
        block.0.set();
        block.1.wait_blocking();
        Ok(())
    }
}

/// A node whose workers are all blocked until the signal is set, and a Spot that is not.
struct Blocked {
    node: Node,
    free: SpotRef<Blocker>,
    release: Signal,
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.release.set();
    }
}

async fn blocked(workers: usize) -> Blocked {
    let made = Arc::new(AtomicUsize::new(0));
    blocked_with(workers, &made).await
}

async fn blocked_with(workers: usize, made: &Arc<AtomicUsize>) -> Blocked {
    let counted = made.clone();
    let options = Options::new().factory(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(Blocker)
    });
    let node =
        Node::builder().workers(workers).spot_with::<Blocker>("blocker", options).start().await.unwrap();
    let free = node.spot::<Blocker>("free").create().await.unwrap();
    let release = Signal::new();
    let mut entered = Vec::new();
    for n in 0..workers {
        let spot = node.spot::<Blocker>(&format!("b{n}")).create().await.unwrap();
        let inside = Signal::new();
        spot.send(Block(inside.clone(), release.clone())).await.unwrap();
        entered.push(inside);
    }
    for inside in entered {
        inside.wait().await;
    }
    made.store(0, Ordering::SeqCst);
    Blocked { node, free, release }
}

#[tokio::test]
async fn dom_1_a_deadlines_of_calls_pass_while_every_worker_is_blocked() {
    within(async {
        for workers in [1, 2] {
            let blocked = blocked(workers).await;
            let begun = Instant::now();
            let asks: Vec<_> = (0..50)
                .map(|n| tokio::spawn(blocked.free.ask(Ping(n)).timeout(Duration::from_millis(20 + n))))
                .collect();
            for ask in asks {
                let error = ask.await.unwrap().unwrap_err();
                assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
            assert!(!blocked.release.is_set());
            blocked.release.set();
            assert_eq!(blocked.free.ask(Ping(7)).await.unwrap(), 7);
            blocked.node.quiesce().await.unwrap();
            assert_eq!(blocked.node.metrics().late, 50);
        }
    })
    .await;
}

#[tokio::test]
async fn dom_1_b_cpu_and_io_work_completes_while_every_worker_is_blocked() {
    within(async {
        for workers in [1, 2] {
            let blocked = blocked(workers).await;
            assert_eq!(blocked.node.cpu(|| 6 * 7).await.unwrap(), 42);
            let slept = blocked.node.io(tokio::time::sleep(Duration::from_millis(5)));
            slept.await.unwrap();
            let late = blocked.node.io(std::future::pending::<()>()).timeout(Duration::from_millis(20));
            assert_eq!(late.await.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
            let infrastructure = blocked.node.spawn_infrastructure(async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                5
            });
            assert_eq!(infrastructure.await, Some(5));
        }
    })
    .await;
}

#[tokio::test]
async fn dom_1_c_shutdown_ends_by_its_deadline_while_every_worker_is_blocked() {
    within(async {
        for workers in [1, 2] {
            let blocked = blocked(workers).await;
            let begun = Instant::now();
            let report = blocked.node.shutdown_within(Duration::from_millis(100)).await.unwrap();
            let took = begun.elapsed();
            assert!(report.forced);
            assert!(report.cancelled > workers, "{report:?}");
            assert!(took >= Duration::from_millis(95) && took < Duration::from_secs(20), "{took:?}");
            let refused = blocked.free.ask(Ping(1)).await.unwrap_err();
            assert_eq!(refused.kind(), Some(ErrorKind::ShuttingDown));
        }
    })
    .await;
}

#[tokio::test]
async fn dom_1_d_a_wait_for_room_ends_while_every_worker_is_blocked() {
    within(async {
        let blocked = blocked(1).await;
        // The lane of the blocker itself is filled up.
        let block = || Block(Signal::new(), blocked.release.clone());
        let spot = blocked.node.spot::<Blocker>("b0").find().unwrap();
        while spot.try_send(block()).is_ok() {}
        let late = spot.send(block()).timeout(Duration::from_millis(20)).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
        assert_eq!(spot.waiting(), (0, 0));
        blocked.release.set();
        blocked.node.quiesce().await.unwrap();
        assert_eq!(spot.queued(), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn dom_4_a_creation_reserves_its_id_at_once_while_every_worker_is_blocked() {
    within(async {
        for workers in [1, 2] {
            let made = Arc::new(AtomicUsize::new(0));
            let blocked = blocked_with(workers, &made).await;
            let address = blocked.node.spot::<Blocker>("new");
            let mut creation = Box::pin(address.create());
            assert!(futures_util::poll!(&mut creation).is_pending());
            let found = address.find().unwrap();
            assert_eq!(found.id(), "new");
            assert!(blocked.node.ids(ObjectKind::Spot).contains(&"new".to_owned()));
            let second = address.create().await.unwrap_err();
            assert_eq!(second.kind(), ErrorKind::AlreadyExists);
            let mut waiting = Box::pin(address.get_or_create());
            assert!(futures_util::poll!(&mut waiting).is_pending(), "it waits until the Spot is made");
            let late = address.get_or_create().timeout(Duration::from_millis(20)).await.unwrap_err();
            assert_eq!(late.kind(), ErrorKind::DeadlineExceeded);
            assert_eq!(made.load(Ordering::SeqCst), 0, "a factory is an application turn");
            blocked.release.set();
            let created = creation.await.unwrap();
            assert_eq!(created, found);
            assert_eq!(waiting.await.unwrap(), found);
            assert_eq!(made.load(Ordering::SeqCst), 1);
        }
    })
    .await;
}

/// Notes which domain its factory and its handlers run in, by what they may do there.
#[tokio::test]
async fn dom_4_b_factories_run_as_application_turns() {
    #[derive(Default)]
    struct Made(Option<ErrorKind>);
    #[derive(Message)]
    #[message(reply = Option<ErrorKind>)]
    struct Look;
    impl Spot for Made {
        type Mode = PerActor;
    }
    impl Handles<Look> for Made {
        async fn handle(turn: &mut Turn<'_, Self>, _: Look) -> Result<Option<ErrorKind>, Never> {
            Ok(turn.0)
        }
    }
    within(async {
        let target: Arc<std::sync::OnceLock<SpotRef<Blocker>>> = Arc::default();
        let inside = target.clone();
        let options = Options::new().factory(move |_| {
            // Blocking calls are refused in a turn; in plain code this one would work.
            let error = inside.get().unwrap().ask_blocking(Ping(1)).unwrap_err();
            Ok(Made(error.kind()))
        });
        let node = Node::builder()
            .workers(2)
            .spot::<Blocker>("blocker")
            .spot_with::<Made>("made", options)
            .start()
            .await
            .unwrap();
        target.set(node.spot::<Blocker>("b").create().await.unwrap()).unwrap();
        let made = node.spot::<Made>("m").create().await.unwrap();
        assert_eq!(made.ask(Look).await.unwrap(), Some(ErrorKind::InvalidOperation));
        node.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn dom_2_a_an_infrastructure_task_calls_no_object() {
    within(async {
        let blocked = blocked(1).await;
        let (node, spot) = (blocked.node.clone(), blocked.free.clone());
        let accepted = node.metrics().accepted;
        // The worker is blocked: a call that passed would wait.
        let kinds = blocked.node.spawn_infrastructure(async move {
            let address = node.spot::<Blocker>("free");
            let mut kinds = Vec::new();
            kinds.push(("ask", spot.ask(Ping(1)).await.err().and_then(|error| error.kind())));
            kinds.push(("ask by id", address.ask(Ping(1)).await.err().and_then(|error| error.kind())));
            kinds.push(("try_ask", spot.try_ask(Ping(1)).await.err().and_then(|error| error.kind())));
            let block = || Block(Signal::new(), Signal::new());
            kinds.push(("send", spot.send(block()).await.err().map(|error| error.kind())));
            kinds.push(("try_send", spot.try_send(block()).err().map(|error| error.kind())));
            kinds.push(("ask_blocking", spot.ask_blocking(Ping(1)).err().and_then(|error| error.kind())));
            kinds.push(("create", node.spot::<Blocker>("c").create().await.err().map(|error| error.kind())));
            kinds.push(("get_or_create", address.get_or_create().await.err().map(|error| error.kind())));
            kinds.push(("close", spot.close().await.err().map(|error| error.kind())));
            kinds.push(("request_close", spot.request_close().err().map(|error| error.kind())));
            kinds.push(("destroy", spot.destroy().await.err().map(|error| error.kind())));
            kinds.push(("cpu", node.cpu(|| 1).await.err().map(|error| error.kind())));
            kinds.push(("io", node.io(async {}).await.err().map(|error| error.kind())));
            kinds.push(("shutdown", node.shutdown().await.err().map(|error| error.kind())));
            kinds
        });
        for (call, kind) in kinds.await.unwrap() {
            assert_eq!(kind, Some(ErrorKind::InvalidOperation), "{call}");
        }
        assert!(!blocked.free.has_ended());
        assert_eq!(blocked.node.metrics().accepted, accepted);
        assert_eq!(blocked.node.spot::<Blocker>("c").find().unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn dom_2_b_the_mark_follows_the_code_and_not_the_thread() {
    within(async {
        let node = Node::builder().workers(1).spot::<Blocker>("blocker").start().await.unwrap();
        let spot = node.spot::<Blocker>("s").create().await.unwrap();
        let outer = spot.clone();
        // Infrastructure code polled by hand on this thread is refused, the code around it is not.
        let (tell, told) = tokio::sync::oneshot::channel();
        let task = node.spawn_infrastructure(async move {
            let before = outer.try_send(Block(Signal::new(), Signal::new())).unwrap_err().kind();
            // After a wait, perhaps on another thread, it is still what it was.
            tokio::time::sleep(Duration::from_millis(2)).await;
            let after = outer.ask(Ping(1)).await.unwrap_err().kind();
            // A plain task that it starts is plain.
            let plain = tokio::spawn(outer.ask(Ping(3))).await.unwrap().unwrap();
            let _ = tell.send(());
            (before, after, plain)
        });
        told.await.unwrap();
        assert_eq!(spot.ask(Ping(2)).await.unwrap(), 2);
        let invalid = ErrorKind::InvalidOperation;
        assert_eq!(task.await.unwrap(), (invalid, Some(invalid), 3));
    })
    .await;
}

/// A location service that tries to call objects.
struct Meddler {
    target: Arc<std::sync::OnceLock<(Node, SpotRef<Blocker>)>>,
    kinds: Log<ErrorKind>,
}

impl Locate for Meddler {
    fn claim(&self, _: ObjectKind, id: &str) -> Result<(), String> {
        if let Some((node, spot)) = self.target.get() {
            self.kinds.push(spot.try_send(Block(Signal::new(), Signal::new())).unwrap_err().kind());
            self.kinds.push(spot.ask_blocking(Ping(1)).unwrap_err().kind().unwrap());
            self.kinds.push(spot.request_close().unwrap_err().kind());
            let mut creation = Box::pin(node.spot::<Blocker>("other").create());
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            match creation.as_mut().poll(&mut cx) {
                std::task::Poll::Ready(Err(error)) => self.kinds.push(error.kind()),
                other => panic!("not refused at once: {other:?}"),
            }
        }
        if id == "forbidden" { Err("it is another node's".into()) } else { Ok(()) }
    }

    fn release(&self, _: ObjectKind, _: &str) {
        if let Some((_, spot)) = self.target.get() {
            self.kinds.push(spot.try_send(Block(Signal::new(), Signal::new())).unwrap_err().kind());
        }
    }
}

#[tokio::test]
async fn dom_2_c_a_location_service_calls_no_object() {
    within(async {
        let (target, kinds) = (Arc::new(std::sync::OnceLock::new()), Log::new());
        let meddler = Meddler { target: target.clone(), kinds: kinds.clone() };
        let node =
            Node::builder().workers(2).locate(meddler).spot::<Blocker>("blocker").start().await.unwrap();
        let spot = node.spot::<Blocker>("s").create().await.unwrap();
        assert!(target.set((node.clone(), spot.clone())).is_ok());
        let made = node.spot::<Blocker>("m").create().await.unwrap();
        assert_eq!(kinds.take(), [ErrorKind::InvalidOperation; 4]);
        made.close().await.unwrap();
        assert_eq!(kinds.take(), [ErrorKind::InvalidOperation]);
        assert_eq!(spot.ask(Ping(1)).await.unwrap(), 1);
        let refused = node.spot::<Blocker>("forbidden").create().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert_eq!(node.spot::<Blocker>("forbidden").find().unwrap_err().kind(), ErrorKind::NotFound);
        node.shutdown().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn dom_2_d_a_turn_may_not_do_what_only_plain_code_may() {
    #[derive(Message)]
    #[message(reply = (ErrorKind, Option<ErrorKind>))]
    struct Try;
    impl Handles<Try> for Blocker {
        async fn handle(turn: &mut Turn<'_, Self>, _: Try) -> Result<(ErrorKind, Option<ErrorKind>), Never> {
            let shutdown = turn.node().shutdown().await.unwrap_err().kind();
            let other = turn.spot::<Blocker>("other").find().unwrap();
            Ok((shutdown, other.ask_blocking(Ping(1)).unwrap_err().kind()))
        }
    }
    within(async {
        let node = Node::builder().workers(2).spot::<Blocker>("blocker").start().await.unwrap();
        let spot = node.spot::<Blocker>("s").create().await.unwrap();
        node.spot::<Blocker>("other").create().await.unwrap();
        let invalid = ErrorKind::InvalidOperation;
        assert_eq!(spot.ask(Try).await.unwrap(), (invalid, Some(invalid)));
        assert_eq!(spot.ask(Ping(1)).await.unwrap(), 1, "the node is as it was");
    })
    .await;
}
