//! Objects whose callbacks wait or fail on demand and that tell when they are freed.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep::prelude::*;

use crate::support::{Log, Signal};

/// Counts the living.
#[derive(Clone, Default)]
pub struct Alive(Arc<AtomicUsize>);
pub struct Life(Alive);
impl Alive {
    pub fn one(&self) -> Life {
        self.0.fetch_add(1, Ordering::SeqCst);
        Life(self.clone())
    }
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
impl Drop for Life {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone, Default)]
pub enum Step {
    #[default]
    Go,
    Wait(Signal, Signal),
    Fail,
    Panic,
}

impl Step {
    pub fn wait() -> (Self, Signal, Signal) {
        let (entered, go) = (Signal::new(), Signal::new());
        (Self::Wait(entered.clone(), go.clone()), entered, go)
    }

    pub async fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Go => Ok(()),
            Self::Wait(entered, go) => {
                entered.set();
                go.wait().await;
                Ok(())
            }
            Self::Fail => Err(Failure::new("the paint was wet")),
            Self::Panic => panic!("the roof fell in"),
        }
    }
}

pub struct House<M> {
    pub log: Log<String>,
    pub create: Step,
    pub closing: Step,
    pub admits: bool,
    pub number: u64,
    /// References it holds, to itself too.
    pub kept: Vec<SpotRef<House<M>>>,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub life: Option<Life>,
    pub mode: PhantomData<fn() -> M>,
}

pub type Wide = House<SpotWide>;
pub type Single = House<PerActor>;
pub type Cell = House<Instance>;

impl<M> Default for House<M> {
    fn default() -> Self {
        Self {
            log: Log::new(),
            create: Step::Go,
            closing: Step::Go,
            admits: true,
            number: 0,
            kept: Vec::new(),
            life: None,
            mode: PhantomData,
        }
    }
}

impl<M> House<M> {
    pub fn logged(log: &Log<String>) -> Self {
        Self { log: log.clone(), ..Self::default() }
    }
}

impl<M: turnkeep::Mode> Spot for House<M> {
    type Mode = M;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.log.push(format!("{} created", turn.id()));
        let step = turn.create.clone();
        step.run().await
    }
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        Ok(if turn.admits { Admission::Accept } else { Admission::reject() })
    }
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        turn.log.push(format!("{} joined {}", turn.id(), actor.id()));
        Ok(())
    }
    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        turn.log.push(format!("{} left {}", turn.id(), actor.id()));
        Ok(())
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, why: Closing) -> Result<(), Failure> {
        let members = turn.this_spot().members().len();
        turn.log.push(format!("{} closing {:?} {members}", turn.id(), why.reason()));
        let step = turn.closing.clone();
        step.run().await
    }
}

/// Adds one; the answer is the sum.
#[derive(Message)]
#[message(reply = u64)]
pub struct Add(pub u64);
impl<M: turnkeep::Mode> Handles<Add> for House<M> {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        turn.number += add.0;
        turn.log.push(format!("{} add {}", turn.id(), add.0));
        Ok(turn.number)
    }
}

/// Keeps the gate until told.
#[derive(Message)]
#[message(reply = u64)]
pub struct Hold(#[message(no_heap)] pub Signal, #[message(no_heap)] pub Signal);
impl Hold {
    pub fn new() -> (Self, Signal, Signal) {
        let (entered, go) = (Signal::new(), Signal::new());
        (Self(entered.clone(), go.clone()), entered, go)
    }
}
impl<M: turnkeep::Mode> Handles<Hold> for House<M> {
    async fn handle(turn: &mut Turn<'_, Self>, hold: Hold) -> Result<u64, Never> {
        hold.0.set();
        hold.1.wait().await;
        turn.number += 1;
        Ok(turn.number)
    }
}

/// Waits with the gate given up.
#[derive(Message)]
#[message(reply = u64)]
pub struct Rest(#[message(no_heap)] pub Signal, #[message(no_heap)] pub Signal);
impl<M: turnkeep::SharesGate> Handles<Rest> for House<M> {
    async fn handle(turn: &mut Turn<'_, Self>, rest: Rest) -> Result<u64, Never> {
        let wait = turn.io(async move { rest.1.wait().await });
        rest.0.set();
        let _ = turn.try_yielding(wait).await;
        turn.number += 1;
        Ok(turn.number)
    }
}

/// Keeps a reference to itself.
#[derive(Message)]
pub struct KeepSelf;
impl<M: turnkeep::Mode> Handles<KeepSelf> for House<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: KeepSelf) -> Result<(), Never> {
        let me = turn.this_spot();
        turn.kept.push(me);
        Ok(())
    }
}

/// Closes or destroys itself in its own turn.
#[derive(Message)]
#[message(reply = (Option<ErrorKind>, Option<ErrorKind>, bool))]
pub struct EndSelf;
impl<M: turnkeep::Mode> Handles<EndSelf> for House<M> {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        _: EndSelf,
    ) -> Result<(Option<ErrorKind>, Option<ErrorKind>, bool), Never> {
        let me = turn.this_spot();
        let close = me.close().await.err().map(|error| error.kind());
        let destroy = me.destroy().await.err().map(|error| error.kind());
        Ok((close, destroy, me.request_close().is_ok()))
    }
}

pub struct Guest {
    pub log: Log<String>,
    pub create: Step,
    pub closing: Step,
    pub number: u64,
    pub kept: Vec<ActorRef<Guest>>,
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub life: Option<Life>,
}

impl Default for Guest {
    fn default() -> Self {
        Self::logged(&Log::new())
    }
}

impl Guest {
    pub fn logged(log: &Log<String>) -> Self {
        let log = log.clone();
        Self { log, create: Step::Go, closing: Step::Go, number: 0, kept: Vec::new(), life: None }
    }
}

impl Actor for Guest {
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.log.push(format!("{} created in {}", turn.id(), turn.place().unwrap_or_default()));
        let step = turn.create.clone();
        step.run().await
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, why: Closing) -> Result<(), Failure> {
        turn.log.push(format!("{} closing {:?}", turn.id(), why.reason()));
        let step = turn.closing.clone();
        step.run().await
    }
}

impl Handles<Add> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        turn.number += add.0;
        turn.log.push(format!("{} add {} at {}", turn.id(), add.0, turn.place().unwrap_or_default()));
        Ok(turn.number)
    }
}
impl Handles<Hold> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, hold: Hold) -> Result<u64, Never> {
        hold.0.set();
        hold.1.wait().await;
        Ok(turn.number)
    }
}
impl Handles<KeepSelf> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, _: KeepSelf) -> Result<(), Never> {
        let me = turn.this_actor();
        turn.kept.push(me);
        Ok(())
    }
}

pub fn builder(workers: usize) -> turnkeep::Builder {
    Node::builder()
        .workers(workers)
        .spot::<Wide>("wide")
        .spot::<Single>("single")
        .spot::<Cell>("cell")
        .actor::<Guest>("guest")
}

pub async fn node(workers: usize) -> Node {
    builder(workers).start().await.unwrap()
}
