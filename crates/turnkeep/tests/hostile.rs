//! Cases that a hostile review found: panics, wakers and races where nobody expects them.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "a test fails by it; support is shared"
)]
mod support;
use std::future::Future;
use std::pin::Pin;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use support::Signal;
use turnkeep::prelude::*;
use turnkeep::{HeapSize, ObjectKind};

type Fut<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
struct Do<T>(Box<dyn for<'a, 'b> FnOnce(&'a mut Turn<'b, T>) -> Fut<'a> + Send>);
impl<T> HeapSize for Do<T> {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl<T: 'static> Message for Do<T> {
    type Reply = ();
    type Error = Never;
}
fn act<T>(f: impl for<'a, 'b> FnOnce(&'a mut Turn<'b, T>) -> Fut<'a> + Send + 'static) -> Do<T> {
    Do(Box::new(f))
}

macro_rules! handles { ($($t:ty),*) => {$(impl Handles<Do<$t>> for $t {
    async fn handle(turn: &mut Turn<'_, Self>, m: Do<$t>) -> Result<(), Never> { (m.0)(turn).await; Ok(()) }
})*}}
#[derive(Default)]
struct Room {
    bomb: Option<DropBomb>,
    n: u32,
    wait_join: Option<(Signal, Signal)>,
}
#[derive(Default)]
struct Hall_;
#[derive(Default)]
struct Player {
    done: Vec<String>,
}
struct Lobby;
handles!(Room, Player, Lobby);
impl Spot for Room {
    type Mode = SpotWide;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        if let Some((a, b)) = turn.wait_join.clone() {
            a.set();
            b.wait().await;
        }
        Ok(Admission::Accept)
    }
}
impl Spot for Lobby {
    type Mode = Entry;
}
impl Actor for Player {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, d: JoinCompleted) -> Result<(), Failure> {
        turn.done.push(format!("joined {} {:?}", d.target(), d.outcome()));
        Ok(())
    }
}
async fn node() -> Node {
    Node::builder()
        .workers(2)
        .spot::<Room>("room")
        .actor::<Player>("player")
        .entry(Lobby)
        .start()
        .await
        .unwrap()
}
async fn soon<F: Future>(f: F) -> Option<F::Output> {
    tokio::time::timeout(Duration::from_secs(2), f).await.ok()
}

// Locate::release panics
struct Loc;
impl turnkeep::Locate for Loc {
    fn claim(&self, _: ObjectKind, _: &str) -> Result<(), String> {
        Ok(())
    }
    fn release(&self, _: ObjectKind, id: &str) {
        if id == "bad" {
            panic!("release failed")
        }
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn err_3_a_panicking_location_service_holds_no_gate() {
    let node = Node::builder()
        .workers(2)
        .spot::<Room>("room")
        .actor::<Player>("player")
        .locate(Loc)
        .start()
        .await
        .unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let bad = node.actor::<Player>("bad").create_in(Player::default(), &room).await.unwrap();
    let _ = soon(bad.destroy()).await;
    let asked = soon(room.ask(act(|_| Box::pin(async {})))).await;
    std::mem::forget(node);
    assert!(asked.is_some(), "the whole Spot hangs");
}

// a panic payload that panics when dropped
struct Payload;
impl Drop for Payload {
    fn drop(&mut self) {
        panic!("payload")
    }
}
struct DropBomb;
impl Drop for DropBomb {
    fn drop(&mut self) {
        std::panic::panic_any(Payload)
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn err_3_a_panic_payload_that_panics_when_dropped_holds_no_gate() {
    let node = node().await;
    let room =
        node.spot::<Room>("r").create_with(Room { bomb: Some(DropBomb), ..Room::default() }).await.unwrap();
    let ended = soon(room.destroy()).await;
    std::mem::forget(node);
    assert!(ended.is_some(), "destroy hangs");
}
#[tokio::test(flavor = "multi_thread")]
async fn err_3_a_payload_of_a_cancelled_handler_holds_no_gate() {
    let node = node().await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    let p = node.actor::<Player>("p").create_in(Player::default(), &room).await.unwrap();
    let (inn, go) = (Signal::new(), Signal::new());
    let i = inn.clone();
    p.send(act(move |_| {
        Box::pin(async move {
            let _b = DropBomb;
            i.set();
            go.wait().await;
        })
    }))
    .await
    .unwrap();
    inn.wait().await;
    let ended = soon(p.destroy()).await;
    let asked = soon(room.ask(act(|_| Box::pin(async {})))).await;
    std::mem::forget(node);
    assert!(ended.is_some(), "destroy hangs; room answers: {:?}", asked.is_some());
}

// a yield that completes inline
#[tokio::test(flavor = "multi_thread")]
async fn yield_6_a_wait_that_has_ended_is_not_taken_in_the_turn_it_began_in() {
    let node = node().await;
    let a = node.spot::<Room>("a").create().await.unwrap();
    let b = node.spot::<Room>("b").create().await.unwrap();
    let seen = Arc::new(Mutex::new((0, 0)));
    let s = seen.clone();
    a.ask(act(move |turn: &mut Turn<'_, Room>| {
        Box::pin(async move {
            let before = turn.grant();
            let mut y = turn.yielding(b.ask(act(|_| Box::pin(async {}))));
            // polled twice within one poll of the handler, as `select!` in a loop, FuturesUnordered or join! do
            let mut first = true;
            std::future::poll_fn(|cx| {
                if first {
                    first = false;
                    if Pin::new(&mut y).poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
                Pin::new(&mut y).poll(cx).map(|_| ())
            })
            .await;
            drop(y);
            *s.lock().unwrap() = (before, turn.grant());
        })
    }))
    .await
    .unwrap();
    let (before, after) = *seen.lock().unwrap();
    assert_ne!(before, after, "YIELD-6: the completion was taken inline, in the same turn");
}

// a Join to a Spot of another node
#[tokio::test(flavor = "multi_thread")]
async fn join_12_a_spot_of_another_node_is_no_target() {
    let (n1, n2) = (node().await, node().await);
    let other = n2.spot::<Room>("there").create().await.unwrap();
    let p = n1.actor::<Player>("p").create().await.unwrap();
    let o = other.clone();
    p.ask(act(move |turn: &mut Turn<'_, Player>| {
        Box::pin(async move {
            let j = turn.join(&o);
            turn.defer(j).unwrap();
        })
    }))
    .await
    .unwrap();
    n1.quiesce().await.unwrap();
    let done = Arc::new(Mutex::new(vec![]));
    let d = done.clone();
    p.ask(act(move |turn: &mut Turn<'_, Player>| {
        Box::pin(async move {
            *d.lock().unwrap() = turn.done.clone();
        })
    }))
    .await
    .unwrap();
    println!("{:?} place {:?} members there {:?}", done.lock().unwrap(), p.place(), other.members());
    p.close().await.unwrap();
    println!("after its end: members there {:?}, close {:?}", other.members(), soon(other.close()).await);
    assert!(other.members().is_empty(), "an ended Actor is a member for ever");
}

// the Entry Spot stopped by a panic
#[tokio::test(flavor = "multi_thread")]
async fn join_6_the_entry_spot_survives_a_panic_of_its_handler() {
    let node = node().await;
    let lobby = node.entry::<Lobby>().unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let _ = lobby.ask(act(|_| Box::pin(async { panic!("boom") }))).await;
    let _ = soon(async {
        while !lobby.has_ended() {
            tokio::task::yield_now().await
        }
    })
    .await;
    let p = node.actor::<Player>("p").create().await.unwrap();
    let place = p.place();
    let r = room.clone();
    p.ask(act(move |turn: &mut Turn<'_, Player>| {
        Box::pin(async move {
            let j = turn.join(&r);
            turn.defer(j).unwrap();
        })
    }))
    .await
    .unwrap();
    node.quiesce().await.unwrap();
    let done = Arc::new(Mutex::new(vec![]));
    let d = done.clone();
    p.ask(act(move |turn: &mut Turn<'_, Player>| {
        Box::pin(async move {
            *d.lock().unwrap() = turn.done.clone();
        })
    }))
    .await
    .unwrap();
    let done = done.lock().unwrap().clone();
    assert!(place.is_some() && !done.is_empty(), "place {place:?}, completions {done:?}");
}

// a task that waits when the pool stops
static TASK: Mutex<Option<turnkeep::Task<()>>> = Mutex::new(None);
static GO: std::sync::OnceLock<Signal> = std::sync::OnceLock::new();
#[derive(Default)]
struct Closer;
impl Spot for Closer {
    type Mode = SpotWide;
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        let go = GO.get().unwrap().clone();
        *TASK.lock().unwrap() = Some(turn.node().spawn(async move { go.wait().await }));
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn done_1_a_task_ends_with_its_node() {
    GO.set(Signal::new()).ok();
    let node = Node::builder().workers(2).spot::<Closer>("closer").start().await.unwrap();
    node.spot::<Closer>("c").create().await.unwrap();
    let report = node.shutdown().await.unwrap();
    GO.get().unwrap().set();
    let task = TASK.lock().unwrap().take().unwrap();
    assert!(soon(task).await.is_some(), "the Task hangs for ever: {report:?}");
}

// wakers
struct Wk(Box<dyn Fn() + Send + Sync>);
impl Wake for Wk {
    fn wake(self: Arc<Self>) {
        (self.0)()
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn lane_6_a_panicking_waker_of_a_waiter_holds_no_gate() {
    let node = Node::builder()
        .workers(2)
        .spot_with::<Room>(
            "room",
            Options::new()
                .factory(|_| Ok(Room::default()))
                .application_lane(Lane { records: 1, bytes: 1 << 20 }),
        )
        .actor::<Player>("player")
        .start()
        .await
        .unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let (inn, go) = (Signal::new(), Signal::new());
    let (i, g) = (inn.clone(), go.clone());
    room.send(act(move |_| {
        Box::pin(async move {
            i.set();
            g.wait().await;
        })
    }))
    .await
    .unwrap();
    inn.wait().await;
    let mut waiting = Box::pin(room.send(act(|_| Box::pin(async {}))));
    let waker = Waker::from(Arc::new(Wk(Box::new(|| panic!("a waker panics")))));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go.set();
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::mem::forget(waiting);
    let asked = soon(room.ask(act(|_| Box::pin(async {})))).await;
    std::mem::forget(node);
    assert!(asked.is_some(), "the Spot hangs");
}
#[tokio::test(flavor = "multi_thread")]
async fn lane_7_a_waker_may_look_at_the_lane_that_is_being_sealed() {
    let node = Node::builder()
        .workers(2)
        .spot_with::<Room>(
            "room",
            Options::new()
                .factory(|_| Ok(Room::default()))
                .application_lane(Lane { records: 1, bytes: 1 << 20 }),
        )
        .start()
        .await
        .unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let (inn, go) = (Signal::new(), Signal::new());
    let (i, g) = (inn.clone(), go.clone());
    room.send(act(move |_| {
        Box::pin(async move {
            i.set();
            g.wait().await;
        })
    }))
    .await
    .unwrap();
    inn.wait().await;
    let mut waiting = Box::pin(room.send(act(|_| Box::pin(async {}))));
    let r = room.clone();
    let waker = Waker::from(Arc::new(Wk(Box::new(move || {
        let _ = r.waiting();
    }))));
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let ended = soon(room.destroy()).await;
    std::mem::forget((node, waiting));
    assert!(ended.is_some(), "destroy hangs: the waker ran under the lock of the lines");
}

// JOIN-11, the reply goes out before the hold
#[tokio::test(flavor = "multi_thread")]
async fn join_11_the_answer_comes_after_the_hold() {
    let node = node().await;
    let source = node.spot::<Room>("s").create().await.unwrap();
    let target = node.spot::<Room>("t").create().await.unwrap();
    let p = node.actor::<Player>("p").create().await.unwrap();
    let done = Arc::new(Mutex::new(None));
    let (p2, t2) = (p.clone(), target.clone());
    let go = Signal::new();
    let g = go.clone();
    let mut ask = Box::pin(source.ask(act(move |turn: &mut Turn<'_, Room>| {
        Box::pin(async move {
            g.wait().await;
            let j = p2.join(&t2);
            turn.defer(j).unwrap();
        })
    })));
    let (p3, d3) = (p.clone(), done.clone());
    // whoever has the reply sends to the Actor: that message stands behind the Join
    let waker = Waker::from(Arc::new(Wk(Box::new(move || {
        let d = d3.clone();
        p3.try_send(act(move |turn: &mut Turn<'_, Player>| {
            Box::pin(async move {
                *d.lock().unwrap() = Some(turn.done.clone());
            })
        }))
        .map_err(|e| e.error)
        .unwrap();
        std::thread::sleep(Duration::from_millis(100)); // the worker is preempted here
    }))));
    assert!(ask.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    go.set();
    tokio::time::sleep(Duration::from_millis(500)).await;
    node.quiesce().await.unwrap();
    let seen = done.lock().unwrap().clone().unwrap();
    assert_eq!(
        seen.len(),
        1,
        "JOIN-4/JOIN-11: an application record ran after the handler's end and before the completion callback"
    );
}
// the same without any trick: a loop with real tasks
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_11_nobody_gets_between_the_answer_and_the_move() {
    let node = node().await;
    let source = node.spot::<Room>("s").create().await.unwrap();
    let (t1, t2) =
        (node.spot::<Room>("t1").create().await.unwrap(), node.spot::<Room>("t2").create().await.unwrap());
    let mut bad = 0;
    for round in 0..20000usize {
        let p = node.actor::<Player>(&format!("p{round}")).create().await.unwrap();
        let target = if round % 2 == 0 { t1.clone() } else { t2.clone() };
        let p2 = p.clone();
        source
            .ask(act(move |turn: &mut Turn<'_, Room>| {
                Box::pin(async move {
                    let j = p2.join(&target);
                    turn.defer(j).unwrap();
                })
            }))
            .await
            .unwrap();
        let done = Arc::new(Mutex::new(vec![]));
        let d = done.clone();
        p.ask(act(move |turn: &mut Turn<'_, Player>| {
            Box::pin(async move {
                *d.lock().unwrap() = turn.done.clone();
            })
        }))
        .await
        .unwrap();
        if done.lock().unwrap().is_empty() {
            bad += 1;
        }
        p.close().await.unwrap();
    }
    assert_eq!(bad, 0, "messages sent after the reply that ran before the completion callback");
}

// members of a destroyed Spot stay under its gate
#[tokio::test(flavor = "multi_thread")]
async fn gate_4_members_of_a_destroyed_spot_get_gates_of_their_own() {
    let node = node().await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    let other = node.spot::<Room>("o").create().await.unwrap();
    let m1 = node.actor::<Player>("m1").create_in(Player::default(), &room).await.unwrap();
    let m2 = node.actor::<Player>("m2").create_in(Player::default(), &room).await.unwrap();
    let (inn, go, inn2, go2) = (Signal::new(), Signal::new(), Signal::new(), Signal::new());
    let (i, g, i2, g2) = (inn.clone(), go.clone(), inn2.clone(), go2.clone());
    m1.send(act(move |turn: &mut Turn<'_, Player>| {
        Box::pin(async move {
            let asked = other.ask(act(move |_| {
                Box::pin(async move {
                    i.set();
                    g.wait().await;
                })
            }));
            turn.within::<Room>().unwrap().yielding(asked).await.unwrap();
            i2.set();
            g2.wait().await; // an ordinary wait
        })
    }))
    .await
    .unwrap();
    inn.wait().await;
    room.destroy().await.unwrap();
    go.set();
    inn2.wait().await;
    println!("m2 is in {:?}, entry {:?}", m2.place(), node.entry_id());
    let asked = soon(m2.ask(act(|_| Box::pin(async {})))).await;
    go2.set();
    assert!(asked.is_some(), "GATE-4: m2 is in the Entry Spot and waits for m1");
}

// a Join deferred by an accepted message of a closing Actor
#[tokio::test(flavor = "multi_thread")]
async fn join_4_a_closing_actor_still_completes_its_join() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    struct Mover;
    impl Actor for Mover {
        async fn on_join_completed(_: &mut Lifecycle<'_, Self>, _: JoinCompleted) -> Result<(), Failure> {
            TOLD.store(true, SeqCst);
            Ok(())
        }
    }
    impl Handles<Do<Mover>> for Mover {
        async fn handle(t: &mut Turn<'_, Self>, m: Do<Mover>) -> Result<(), Never> {
            (m.0)(t).await;
            Ok(())
        }
    }
    let node = Node::builder()
        .workers(2)
        .spot::<Room>("room")
        .actor_with::<Mover>("mover", Options::new())
        .start()
        .await
        .unwrap();
    let room = node.spot::<Room>("r").create().await.unwrap();
    let p = node.actor::<Mover>("p").create_with(Mover).await.unwrap();
    let (inn, go) = (Signal::new(), Signal::new());
    let (i, g, r) = (inn.clone(), go.clone(), room.clone());
    p.send(act(move |_| {
        Box::pin(async move {
            i.set();
            g.wait().await;
        })
    }))
    .await
    .unwrap();
    p.send(act(move |turn: &mut Turn<'_, Mover>| {
        Box::pin(async move {
            let j = turn.join(&r);
            turn.defer(j).unwrap();
        })
    }))
    .await
    .unwrap();
    inn.wait().await;
    p.request_close().unwrap();
    go.set();
    let _ = soon(async {
        while !p.has_ended() {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert!(TOLD.load(SeqCst), "JOIN-4: the Join was dropped without an outcome");
}

// REENT-2, the window between the end of the announcement and the change of host
#[tokio::test(flavor = "multi_thread")]
async fn reent_2_an_arriving_member_is_refused_until_it_is_there() {
    let node = node().await;
    let room = node.spot::<Room>("r").create().await.unwrap();
    let mut bad = 0;
    let mut hits = 0;
    for round in 0..400 {
        let p = node.actor::<Player>(&format!("p{round}")).create().await.unwrap();
        let r = room.clone();
        p.ask(act(move |turn: &mut Turn<'_, Player>| {
            Box::pin(async move {
                let j = turn.join(&r);
                turn.defer(j).unwrap();
            })
        }))
        .await
        .unwrap();
        let out = Arc::new(Mutex::new(String::new()));
        let o = out.clone();
        let p2 = p.clone();
        room.ask(act(move |turn: &mut Turn<'_, Room>| {
            Box::pin(async move {
                if !turn.members().iter().any(|m| m == p2.id()) {
                    return;
                }
                let started = std::time::Instant::now();
                loop {
                    if started.elapsed() > Duration::from_millis(500) {
                        *o.lock().unwrap() = "spun".into();
                        return;
                    }
                    let mut ask = p2.ask(act(|_| Box::pin(async {}))).timeout(Duration::from_millis(150));
                    let first = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut ask).poll(cx))).await;
                    match first {
                        Poll::Ready(Err(e)) if e.to_string().contains("about to join") => {}
                        Poll::Ready(Err(_)) => {
                            *o.lock().unwrap() = "own gate".into();
                            return;
                        }
                        Poll::Ready(Ok(())) => {
                            *o.lock().unwrap() = "answered".into();
                            return;
                        }
                        Poll::Pending => {
                            let e = ask.await;
                            *o.lock().unwrap() = format!("submitted: {:?}", e.err().and_then(|e| e.kind()));
                            return;
                        }
                    }
                }
            })
        }))
        .await
        .unwrap();
        let out = out.lock().unwrap().clone();
        if !out.is_empty() {
            hits += 1;
        }
        if out.starts_with("submitted: Some(Dead") {
            bad += 1;
            println!("round {round}: {out}");
        }
        p.close().await.unwrap();
    }
    println!("rounds in the move: {hits}, deadlocked till the deadline: {bad}");
    assert_eq!(bad, 0);
}
// ---- T12
#[tokio::test(flavor = "multi_thread")]
async fn done_1_a_task_refused_after_the_end_is_told() {
    let node = node().await;
    node.shutdown().await.unwrap();
    println!("{:?}", soon(node.spawn(async {})).await);
    println!("{:?}", node.metrics());
    assert!(soon(node.quiesce()).await.is_some(), "quiesce hangs");
}
// ---- T13
static CLOSED: AtomicBool = AtomicBool::new(false);
#[derive(Default)]
struct Closer2;
impl Spot for Closer2 {
    type Mode = SpotWide;
    async fn on_closing(_: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        CLOSED.store(true, SeqCst);
        Ok(())
    }
}
#[tokio::test(flavor = "multi_thread")]
async fn done_1_a_long_task_does_not_keep_a_shutdown() {
    let node = Node::builder().workers(2).spot::<Closer2>("closer").start().await.unwrap();
    node.spot::<Closer2>("c").create().await.unwrap();
    let _task = node.spawn(std::future::pending::<()>());
    let report = node.shutdown_within(Duration::from_secs(1)).await.unwrap();
    assert!(CLOSED.load(SeqCst), "on_closing never ran: {report:?}");
}
