//! The stage of the Join tests: Spots whose callbacks can be told to wait, fail or panic, Actors that do what
//! messages say, and one log of all that happened.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{BadReply, HeapSize, Join, Mode};

use crate::support::{Overlap, Signal};

/// What happened, in order, one line each.
#[derive(Clone, Default)]
pub struct Tale(Arc<Mutex<Vec<String>>>);

impl Tale {
    pub fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|other| other == line)
    }

    pub fn has_any(&self, part: &str) -> bool {
        self.0.lock().unwrap().iter().any(|other| other.contains(part))
    }
}

/// What a callback does when it is called.
#[derive(Clone, Default)]
pub enum Step {
    #[default]
    Go,
    /// Tells that it was entered, then waits with its gate kept.
    Wait(Signal, Signal),
    Fail,
    Panic,
}

impl Step {
    /// A step that waits: tells through the first signal that it is there, goes on with the second.
    pub fn wait() -> (Self, Signal, Signal) {
        let (entered, go) = (Signal::new(), Signal::new());
        (Self::Wait(entered.clone(), go.clone()), entered, go)
    }

    async fn run(&self) -> Result<(), Failure> {
        match self {
            Self::Go => Ok(()),
            Self::Wait(entered, go) => {
                entered.set();
                go.wait().await;
                Ok(())
            }
            Self::Fail => Err(Failure::new("told to fail")),
            Self::Panic => panic!("told to panic"),
        }
    }
}

/// What a Room's callbacks do.
#[derive(Clone, Default)]
pub struct Manners {
    pub admit: Step,
    pub joined: Step,
    pub left: Step,
    pub closing: Step,
    /// Whoever asks is rejected; with this number as a reply, if there is one.
    pub reject: Option<Option<u64>>,
}

/// A Spot of any mode.
pub struct Room<M> {
    pub log: Tale,
    pub manners: Manners,
    pub inside: Overlap,
    pub notes: Vec<u64>,
    _mode: PhantomData<fn() -> M>,
}

pub type Wide = Room<SpotWide>;
pub type Single = Room<PerActor>;
pub type Lobby = Room<Entry>;

impl<M> Room<M> {
    pub fn new(log: &Tale, manners: Manners) -> Self {
        Self { log: log.clone(), manners, inside: Overlap::new(), notes: Vec::new(), _mode: PhantomData }
    }
}

impl<M: Mode> Spot for Room<M> {
    type Mode = M;

    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        let _inside = turn.inside.enter();
        let tag = joining.request::<Carried>().map_or(0, |carried| carried.tag);
        turn.log.push(format!("{} admits {} {tag}", turn.id(), joining.actor().id()));
        let step = turn.manners.admit.clone();
        step.run().await?;
        Ok(match turn.manners.reject {
            None => Admission::Accept,
            Some(None) => Admission::reject(),
            Some(Some(number)) => Admission::reject_with(number),
        })
    }

    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        let _inside = turn.inside.enter();
        turn.log.push(format!("{} joined {}", turn.id(), actor.id()));
        let step = turn.manners.joined.clone();
        step.run().await
    }

    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        let _inside = turn.inside.enter();
        turn.log.push(format!("{} left {}", turn.id(), actor.id()));
        let step = turn.manners.left.clone();
        step.run().await
    }

    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        turn.log.push(format!("{} closing", turn.id()));
        let step = turn.manners.closing.clone();
        step.run().await
    }
}

/// What a Join carries: a number, and a count that goes up when it is dropped.
pub struct Carried {
    pub tag: u64,
    dropped: Arc<AtomicUsize>,
}

impl Carried {
    pub fn new(tag: u64, dropped: &Arc<AtomicUsize>) -> Self {
        Self { tag, dropped: dropped.clone() }
    }
}

impl HeapSize for Carried {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Where a Join goes.
#[derive(Clone)]
pub enum To {
    Wide(&'static str),
    Single(&'static str),
    /// The Entry Spot, by its id.
    Lobby(String),
    /// An Instance Spot has no members; a Spot of a type that the id is not.
    WrongType(&'static str),
}

impl To {
    pub fn id(&self) -> &str {
        match self {
            Self::Wide(id) | Self::Single(id) | Self::WrongType(id) => id,
            Self::Lobby(id) => id,
        }
    }
}

/// One Join to defer.
#[derive(Clone)]
pub struct Plan {
    pub to: To,
    pub tag: u64,
    pub timeout: Duration,
    pub dropped: Arc<AtomicUsize>,
}

impl Plan {
    pub fn new(to: To, tag: u64) -> Self {
        Self { to, tag, timeout: Duration::from_secs(30), dropped: Arc::default() }
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// How a handler ends.
#[derive(Clone, Default)]
pub enum End {
    #[default]
    Well,
    Error,
    Panic,
    BadReply,
    BadReplyPanics,
    /// Waits with the gate kept, then ends well.
    Wait(Signal, Signal),
    /// Waits with the gate given up, then ends well. Only in a `SpotWide` Spot.
    Yield(Signal, Signal),
}

/// What a handler that moves answers; whether it can be given out is up to it.
pub enum Receipt {
    Good,
    Bad,
    Panics,
    /// The check blocks its worker until it is told to go on.
    Checked(Signal, Signal),
}

#[derive(Message)]
#[message(reply = Receipt, error = Told, check_reply = check)]
pub struct Go {
    #[message(no_heap)]
    pub plans: Vec<Plan>,
    #[message(no_heap)]
    pub end: End,
    #[message(no_heap)]
    pub reply: Option<(Signal, Signal)>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Told;

fn check(receipt: &Receipt) -> Result<(), BadReply> {
    match receipt {
        Receipt::Good => Ok(()),
        Receipt::Bad => Err(BadReply("told to be bad".into())),
        Receipt::Panics => panic!("told to panic in the check"),
        Receipt::Checked(entered, go) => {
            entered.set();
            go.wait_blocking();
            Ok(())
        }
    }
}

impl Go {
    pub fn to(to: To, tag: u64) -> Self {
        Self::plan(Plan::new(to, tag))
    }

    pub fn plan(plan: Plan) -> Self {
        Self { plans: vec![plan], end: End::Well, reply: None }
    }

    pub fn all(plans: Vec<Plan>) -> Self {
        Self { plans, end: End::Well, reply: None }
    }

    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

/// A number for the log; the answer is where it was handled.
#[derive(Message)]
#[message(reply = Option<String>)]
pub struct Note(pub u64);

/// Keeps the gate until told.
#[derive(Message)]
pub struct Hold(#[message(no_heap)] pub Signal, #[message(no_heap)] pub Signal);

impl Hold {
    pub fn new() -> (Self, Signal, Signal) {
        let (entered, go) = (Signal::new(), Signal::new());
        (Self(entered.clone(), go.clone()), entered, go)
    }
}

/// An Actor.
#[derive(Clone)]
pub struct Mover {
    pub log: Tale,
    pub completion: Step,
    /// What it has been through; travels with it.
    pub seen: u64,
}

impl Mover {
    pub fn new(log: &Tale) -> Self {
        Self { log: log.clone(), completion: Step::Go, seen: 0 }
    }
}

pub fn outcome_text(outcome: &JoinOutcome) -> String {
    match outcome {
        JoinOutcome::Accepted => "accepted".into(),
        JoinOutcome::Rejected(reply) => match reply.as_ref().and_then(|reply| reply.get::<u64>()) {
            Some(number) => format!("rejected {number}"),
            None => "rejected".into(),
        },
        JoinOutcome::Failed(kind) => format!("failed {kind:?}"),
        other => format!("{other:?}"),
    }
}

impl Actor for Mover {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        let tag = done.request::<Carried>().map_or(0, |carried| carried.tag);
        turn.log.push(format!(
            "{} completed {} {tag} {} at {}",
            turn.id(),
            done.target(),
            outcome_text(done.outcome()),
            turn.place().unwrap_or_default()
        ));
        turn.seen += 1;
        let step = turn.completion.clone();
        let inside =
            turn.within::<Wide>().and_then(|mut turn| turn.try_both().map(|(_, room)| room.inside.enter()));
        let ended = step.run().await;
        drop(inside);
        ended
    }
}

pub fn join_of(turn: &Turn<'_, Mover>, plan: &Plan) -> Join {
    plan_join(&turn.this_actor(), &turn.node(), plan)
}

/// The Join of an Actor that a plan describes.
pub fn plan_join(actor: &ActorRef<Mover>, node: &Node, plan: &Plan) -> Join {
    let join = match &plan.to {
        To::Wide(id) => actor.join(node.spot::<Wide>(id)),
        To::Single(id) => actor.join(node.spot::<Single>(id)),
        To::Lobby(id) => actor.join(node.spot::<Lobby>(id)),
        To::WrongType(id) => actor.join(node.spot::<Room<Entry>>(id)),
    };
    join.with(Carried::new(plan.tag, &plan.dropped)).timeout(plan.timeout)
}

impl Handles<Go> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, go: Go) -> Result<Receipt, Told> {
        let grant = turn.grant();
        for plan in &go.plans {
            let join = join_of(turn, plan);
            turn.defer(join).unwrap();
        }
        assert_eq!(turn.grant(), grant, "to defer keeps the gate");
        match go.end {
            End::Well => {}
            End::Error => return Err(Told),
            End::Panic => panic!("told to panic"),
            End::BadReply => return Ok(Receipt::Bad),
            End::BadReplyPanics => return Ok(Receipt::Panics),
            End::Wait(entered, go) => {
                entered.set();
                go.wait().await;
            }
            End::Yield(entered, go) => {
                let io = turn.io(async move { go.wait().await });
                let mut member = turn.within::<Wide>().expect("a member of a SpotWide Spot");
                entered.set();
                let _ = member.yielding(io).await;
            }
        }
        let (log, id) = (turn.log.clone(), turn.id().to_owned());
        log.push(format!("{id} went"));
        Ok(go.reply.map_or(Receipt::Good, |(entered, go)| Receipt::Checked(entered, go)))
    }
}

impl Handles<Note> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, note: Note) -> Result<Option<String>, Never> {
        let place = turn.place();
        turn.log.push(format!("{} note {} at {}", turn.id(), note.0, place.clone().unwrap_or_default()));
        turn.seen += 1;
        Ok(place)
    }
}

impl Handles<Hold> for Mover {
    async fn handle(_: &mut Turn<'_, Self>, hold: Hold) -> Result<(), Never> {
        hold.0.set();
        hold.1.wait().await;
        Ok(())
    }
}

impl<M: Mode> Handles<Note> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, note: Note) -> Result<Option<String>, Never> {
        let _inside = turn.inside.enter();
        turn.notes.push(note.0);
        turn.log.push(format!("{} note {}", turn.id(), note.0));
        Ok(Some(turn.id().to_owned()))
    }
}

impl<M: Mode> Handles<Hold> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, hold: Hold) -> Result<(), Never> {
        let _inside = turn.inside.enter();
        hold.0.set();
        hold.1.wait().await;
        Ok(())
    }
}

/// Makes the Room panic in a handler.
#[derive(Message)]
pub struct Break;

impl<M: Mode> Handles<Break> for Room<M> {
    async fn handle(_: &mut Turn<'_, Self>, _: Break) -> Result<(), Never> {
        panic!("told to break")
    }
}

/// A Spot's handler defers Joins of Actors that are not itself.
#[derive(Message)]
pub struct MoveAll {
    #[message(no_heap)]
    pub moves: Vec<(ActorRef<Mover>, Plan)>,
}

impl<M: Mode> Handles<MoveAll> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, all: MoveAll) -> Result<(), Never> {
        let node = turn.node();
        for (actor, plan) in &all.moves {
            turn.defer(plan_join(actor, &node, plan)).unwrap();
        }
        turn.log.push(format!("{} deferred", turn.id()));
        Ok(())
    }
}

/// The node of a test and its log.
pub struct World {
    pub node: Node,
    pub log: Tale,
}

impl World {
    pub async fn new(workers: usize) -> Self {
        Self::with(workers, |builder| builder).await
    }

    pub async fn with(workers: usize, more: impl FnOnce(turnkeep::Builder) -> turnkeep::Builder) -> Self {
        let log = Tale::default();
        let builder = Node::builder()
            .workers(workers)
            .spot_with::<Wide>("wide", Options::new())
            .spot_with::<Single>("single", Options::new())
            .actor_with::<Mover>("mover", Options::new())
            .entry(Lobby::new(&log, Manners::default()));
        let node = more(builder).start().await.unwrap();
        Self { node, log }
    }

    pub async fn wide(&self, id: &str, manners: Manners) -> SpotRef<Wide> {
        self.node.spot::<Wide>(id).create_with(Room::new(&self.log, manners)).await.unwrap()
    }

    pub async fn single(&self, id: &str, manners: Manners) -> SpotRef<Single> {
        self.node.spot::<Single>(id).create_with(Room::new(&self.log, manners)).await.unwrap()
    }

    pub async fn mover(&self, id: &str) -> ActorRef<Mover> {
        self.node.actor::<Mover>(id).create_with(Mover::new(&self.log)).await.unwrap()
    }

    /// An Actor that is in a Spot from the beginning; the log is emptied.
    pub async fn mover_in(&self, id: &str, room: &SpotRef<Wide>) -> ActorRef<Mover> {
        let made = self.node.actor::<Mover>(id).create_in(Mover::new(&self.log), room).await.unwrap();
        self.node.quiesce().await.unwrap();
        self.log.take();
        made
    }

    pub fn lobby(&self) -> To {
        To::Lobby(self.node.entry_id())
    }

    /// Waits until nothing is left to do and takes the log, the Entry Spot's entries left out.
    pub async fn story(&self) -> Vec<String> {
        self.node.quiesce().await.unwrap();
        let entry = self.node.entry_id();
        let mut story = self.log.take();
        story.retain(|line| !line.starts_with(&format!("{entry} left")));
        story
    }

    /// Waits until a line of the log has this in it.
    pub async fn until_any(&self, part: &str) {
        while !self.log.has_any(part) {
            tokio::task::yield_now().await;
        }
    }
}
