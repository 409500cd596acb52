//! One cast for many tests: objects of every kind that play the steps they are sent, and a shared log.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Builder, HeapSize};

use crate::support::{Log, Overlap, Signal};

/// What the objects of one node share.
#[derive(Clone, Default)]
pub struct Cue {
    pub log: Log<String>,
    /// Entered by every lifecycle callback of a [`Wide`] and of a member of one.
    pub inside: Overlap,
    /// Entered by every lifecycle callback of the [`Lobby`].
    pub lobby: Overlap,
}

impl Cue {
    pub fn note(&self, entry: impl Into<String>) {
        self.log.push(entry.into());
    }
}

/// One thing for a handler to do.
#[derive(Clone)]
pub enum Step {
    /// Writes a line.
    Note(String),
    /// It happens.
    Set(Signal),
    /// Blocks the worker.
    Block(Signal),
    /// An ordinary wait.
    Wait(Signal),
    /// A wait with the gate given up.
    Yield(Signal),
    /// Inside, until `Leave`, a `Yield` or the end.
    Enter(Overlap),
    Leave,
    /// Pending once, and awake at once.
    Pause,
    /// Keeps the worker busy.
    Spin(Duration),
    /// Writes the number of the grant.
    Grant(Log<u64>),
    Panic,
}

pub fn note(entry: impl Into<String>) -> Step {
    Step::Note(entry.into())
}

/// Plays steps; the answer says how many plays the object had begun.
#[derive(Message)]
#[message(reply = u64)]
pub struct Play(#[message(no_heap)] pub Vec<Step>);

/// A play of one line.
pub fn line(entry: impl Into<String>) -> Play {
    Play(vec![note(entry)])
}

/// What a Join carries: steps for the admission and for the completion callback.
#[derive(Clone, Default)]
pub struct Script {
    pub admission: Vec<Step>,
    pub completion: Vec<Step>,
    pub heap: u64,
}

impl HeapSize for Script {
    fn heap_bytes(&self) -> u64 {
        self.heap
    }
}

/// The Actor defers a Join to a [`Wide`] (or, if there is none of that name, to a [`Per`]).
#[derive(Message)]
#[message(reply = ())]
pub struct Go {
    pub to: String,
    #[message(no_heap)]
    pub script: Script,
    #[message(no_heap)]
    pub timeout: Duration,
}

impl Go {
    pub fn to(to: &str) -> Self {
        Self::with(to, Script::default())
    }

    pub fn with(to: &str, script: Script) -> Self {
        Self { to: to.to_owned(), script, timeout: Duration::from_secs(50) }
    }
}

/// Reads a number, waits for a truly pending answer, and writes the number plus one.
#[derive(Message)]
#[message(reply = ())]
pub struct Bump;

/// The number.
#[derive(Message)]
#[message(reply = u64)]
pub struct Total;

macro_rules! cast {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        pub struct $name {
            pub cue: Cue,
            pub plays: u64,
            pub total: u64,
        }
        impl $name {
            pub fn new(cue: &Cue) -> Self {
                Self { cue: cue.clone(), plays: 0, total: 0 }
            }
        }
        impl Handles<Play> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, play: Play) -> Result<u64, Never> {
                turn.plays += 1;
                let number = turn.plays;
                let cue = turn.cue.clone();
                let mut inside = None;
                for step in play.0 {
                    match step {
                        Step::Enter(overlap) => inside = Some(overlap.enter()),
                        Step::Leave => inside = None,
                        Step::Grant(log) => log.push(turn.grant()),
                        Step::Yield(signal) => {
                            inside = None;
                            let work = turn.io(async move { signal.wait().await });
                            turn.try_yielding(work).await.unwrap();
                        }
                        other => plain(other, &cue).await,
                    }
                }
                drop(inside);
                Ok(number)
            }
        }
        impl Handles<Total> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, _: Total) -> Result<u64, Never> {
                Ok(turn.total)
            }
        }
    )+};
}

macro_rules! bumps {
    ($($name:ident),+) => {$(
        impl Handles<Bump> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, _: Bump) -> Result<(), Never> {
                let read = turn.total;
                far_answer(turn.handler::<Desk>("far")).await;
                turn.total = read + 1;
                Ok(())
            }
        }
    )+};
}

cast! {
    /// A `SpotWide` Spot.
    Wide,
    /// A `PerActor` Spot.
    Per,
    /// An Instance Spot.
    Inst,
    /// An Entry Spot.
    Lobby,
    /// An Actor.
    Pawn,
    /// A handler of a node or of a channel.
    Desk,
}
bumps!(Wide, Per, Inst, Lobby, Desk);

impl Handles<Bump> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, _: Bump) -> Result<(), Never> {
        let far = turn.handler::<Desk>("far");
        match turn.within::<Wide>() {
            Some(mut turn) => {
                let read = turn.spot_state().total;
                far_answer(far).await;
                turn.spot_state().total = read + 1;
            }
            None => {
                let read = turn.total;
                far_answer(far).await;
                turn.total = read + 1;
            }
        }
        Ok(())
    }
}

/// An answer under another gate, given only once the asker was seen to wait.
async fn far_answer(far: turnkeep::HandlerAddress<Desk>) {
    let asked = Signal::new();
    let mut ask = pin!(far.ask(Play(vec![Step::Wait(asked.clone())])));
    let answer = std::future::poll_fn(|cx| {
        let polled = ask.as_mut().poll(cx);
        if polled.is_pending() {
            asked.set();
        }
        polled
    });
    answer.await.unwrap();
}

impl Handles<Go> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, go: Go) -> Result<(), Never> {
        let wide = turn.spot::<Wide>(&go.to);
        let join = match wide.find() {
            Ok(wide) => turn.join(&wide),
            Err(_) => turn.join(turn.spot::<Per>(&go.to)),
        };
        turn.defer(join.with(go.script).timeout(go.timeout)).unwrap();
        Ok(())
    }
}

/// Plays a step that any context can play.
pub async fn plain(step: Step, cue: &Cue) {
    match step {
        Step::Note(entry) => cue.note(entry),
        Step::Set(signal) => signal.set(),
        Step::Block(signal) => signal.wait_blocking(),
        Step::Wait(signal) => signal.wait().await,
        Step::Pause => pause().await,
        Step::Spin(length) => spin(length),
        Step::Panic => panic!("as the test wants it"),
        Step::Enter(_) | Step::Leave | Step::Yield(_) | Step::Grant(_) => {
            unreachable!("a handler's step only")
        }
    }
}

async fn callback(cue: &Cue, gate: &Overlap, what: &str, who: &str, steps: &[Step]) {
    let _inside = gate.enter();
    cue.note(format!("{what} {who}"));
    pause().await;
    for step in steps {
        plain(step.clone(), cue).await;
    }
}

macro_rules! callbacks {
    ($gate:ident) => {
        async fn on_actor_join(
            turn: &mut Lifecycle<'_, Self>,
            joining: &Joining,
        ) -> Result<Admission, Failure> {
            let steps = joining.request::<Script>().map_or(&[][..], |script| &script.admission);
            callback(&turn.cue.clone(), &turn.cue.$gate.clone(), "join", joining.actor().id(), steps).await;
            Ok(Admission::Accept)
        }
        async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
            callback(&turn.cue.clone(), &turn.cue.$gate.clone(), "leave", actor.id(), &[]).await;
            Ok(())
        }
        async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
            let id = turn.id().to_owned();
            callback(&turn.cue.clone(), &turn.cue.$gate.clone(), "closing", &id, &[]).await;
            Ok(())
        }
    };
}

impl Spot for Wide {
    type Mode = SpotWide;
    callbacks!(inside);
}
impl Spot for Per {
    type Mode = PerActor;
}
impl Spot for Inst {
    type Mode = Instance;
}
impl Spot for Lobby {
    type Mode = Entry;
    callbacks!(lobby);
}
impl Handler for Desk {}

impl Actor for Pawn {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        let cue = turn.cue.clone();
        let id = turn.id().to_owned();
        let how = match done.outcome() {
            JoinOutcome::Accepted => "arrived".to_owned(),
            JoinOutcome::Failed(kind) => format!("failed {kind:?}"),
            other => format!("{other:?}"),
        };
        let steps = done.request::<Script>().map_or(&[][..], |script| &script.completion);
        if turn.within::<Wide>().is_some() {
            callback(&cue, &cue.inside, &how, &id, steps).await;
        } else {
            cue.note(format!("{how} {id}"));
            for step in steps {
                plain(step.clone(), &cue).await;
            }
        }
        Ok(())
    }
}

/// A node with the whole cast, and what its objects share.
pub struct Stage {
    pub node: Node,
    pub cue: Cue,
}

impl Stage {
    pub async fn new(workers: usize) -> Self {
        Self::with(workers, |builder| builder).await
    }

    pub async fn with(workers: usize, change: impl FnOnce(Builder) -> Builder) -> Self {
        let cue = Cue::default();
        let builder = Node::builder()
            .workers(workers)
            .entry(Lobby::new(&cue))
            .spot_with("wide", factory(&cue, Wide::new))
            .spot_with("per", factory(&cue, Per::new))
            .spot_with("inst", factory(&cue, Inst::new))
            .actor_with("pawn", factory(&cue, Pawn::new))
            .handler("far", Desk::new(&cue))
            .handler("one", Desk::new(&cue))
            .handler("two", Desk::new(&cue))
            .channel("one", Desk::new(&cue))
            .channel("two", Desk::new(&cue));
        let node = change(builder).start().await.unwrap();
        Self { node, cue }
    }

    pub async fn wide(&self, id: &str) -> SpotRef<Wide> {
        self.node.spot(id).get_or_create().await.unwrap()
    }

    pub async fn per(&self, id: &str) -> SpotRef<Per> {
        self.node.spot(id).get_or_create().await.unwrap()
    }

    pub async fn inst(&self, id: &str) -> SpotRef<Inst> {
        self.node.spot(id).get_or_create().await.unwrap()
    }

    /// An Actor in the Entry Spot.
    pub async fn pawn(&self, id: &str) -> ActorRef<Pawn> {
        self.node.actor(id).get_or_create().await.unwrap()
    }

    /// An Actor in a Spot; the log is left empty.
    pub async fn member(&self, id: &str, of: &str) -> ActorRef<Pawn> {
        let pawn = self.pawn(id).await;
        pawn.send(Go::to(of)).await.unwrap();
        self.node.quiesce().await.unwrap();
        assert_eq!(pawn.place().as_deref(), Some(of));
        self.cue.log.take();
        pawn
    }

    pub fn lobby(&self) -> SpotRef<Lobby> {
        self.node.entry().unwrap()
    }

    /// Everything written since, once no accepted work is left.
    pub async fn lines(&self) -> Vec<String> {
        self.node.quiesce().await.unwrap();
        self.cue.log.take()
    }

    /// A round trip under another gate: on one worker, every gate that was ready before has run.
    pub async fn round_trip(&self) {
        self.node.handler::<Desk>("far").ask(line("round")).await.unwrap();
        let mut lines = self.cue.log.take();
        lines.retain(|entry| entry != "round");
        lines.into_iter().for_each(|entry| self.cue.note(entry));
    }
}

/// Registers a type with a factory.
pub fn factory<T: 'static>(cue: &Cue, make: fn(&Cue) -> T) -> Options<T> {
    let cue = cue.clone();
    Options::new().factory(move |_| Ok(make(&cue)))
}

/// A gate kept by a handler's ordinary wait until it is let go; the worker is free.
pub struct Kept {
    pub go: Signal,
}

/// Keeps the gate that `send` sends to.
pub async fn keep<F: Future>(send: impl FnOnce(Play) -> F) -> Kept {
    let (started, go) = (Signal::new(), Signal::new());
    send(Play(vec![Step::Set(started.clone()), Step::Wait(go.clone())])).await;
    started.wait().await;
    Kept { go }
}

/// Waits until something is so.
pub async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
}

pub fn spin(length: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// Pending once, and awake at once.
pub fn pause() -> impl Future<Output = ()> {
    struct Pause(bool);
    impl Future for Pause {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
    Pause(false)
}

/// `text 1`, `text 2`, …
pub fn numbered(text: &str, numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{text}{number}")).collect()
}
