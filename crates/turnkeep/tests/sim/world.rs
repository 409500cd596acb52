//! A world for random scenarios: objects of every kind that do what a number says, and what they saw.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use turnkeep::prelude::*;
use turnkeep::testing::{Random, Sim};
use turnkeep::{Builder, Generation, Mode, ObjectKind};

/// What scenarios may do.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    /// Handlers fail, panic, close and destroy objects.
    pub(crate) ends: bool,
    /// Asks go upwards in rank only, so that none closes a circle.
    pub(crate) ranked: bool,
    /// Actors move.
    pub(crate) joins: bool,
    /// How many records a lane takes.
    pub(crate) lane: u32,
    /// How many clients there are, and how much each of them does.
    pub(crate) clients: u64,
    pub(crate) calls: u64,
}

/// Everything, with tiny lanes.
pub(crate) const WILD: Traits =
    Traits { ends: true, ranked: false, joins: true, lane: 3, clients: 4, calls: 12 };
/// Nothing that could fail or wait for ever.
pub(crate) const CALM: Traits =
    Traits { ends: false, ranked: true, joins: false, lane: 1000, clients: 4, calls: 20 };

/// What was seen, beside the runtime's own counters.
#[derive(Default)]
pub(crate) struct Seen {
    /// Who is inside which gate.
    inside: BTreeMap<Gate, String>,
    /// The last number of each sender at each object.
    last: HashMap<(String, u64), u64>,
    /// Every turn, in order.
    pub(crate) turns: Vec<String>,
    /// What must not be.
    pub(crate) faults: Vec<String>,
    /// Handlers that have begun and not ended.
    pub(crate) alive: i64,
    pub(crate) handled: u64,
    pub(crate) accepted_sends: u64,
    /// Calls begun and not answered.
    pub(crate) unanswered: i64,
    /// Answers by kind.
    pub(crate) answers: BTreeMap<String, u64>,
}

type Gate = (String, Option<Generation>);

pub(crate) struct World {
    pub(crate) traits: Traits,
    pub(crate) seen: Mutex<Seen>,
    senders: AtomicU64,
}

impl World {
    pub(crate) fn new(traits: Traits) -> Arc<Self> {
        Arc::new(Self { traits, seen: Mutex::default(), senders: AtomicU64::new(1) })
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    /// A sender with numbers of its own.
    fn sender(&self) -> Sender {
        Sender { id: self.senders.fetch_add(1, Ordering::Relaxed), number: 0 }
    }

    pub(crate) fn builder(self: &Arc<Self>) -> Builder {
        let lane = Lane { records: self.traits.lane, bytes: 1 << 20 };
        Node::builder()
            .application_lane(lane)
            .spot_with("wide", self.room::<SpotWide>())
            .spot_with("single", self.room::<PerActor>())
            .spot_with("cell", self.room::<Instance>())
            .actor_with("walker", {
                let world = self.clone();
                Options::new().factory(move |_| Ok(Walker(world.clone())))
            })
    }

    fn room<M: Mode>(self: &Arc<Self>) -> Options<Room<M>> {
        let world = self.clone();
        Options::new().factory(move |_| Ok(Room(world.clone(), PhantomData)))
    }

    /// Runs the clients of a scenario, then checks that nothing is left.
    pub(crate) fn play(self: &Arc<Self>, sim: &Sim, scenario: u64) {
        let node = sim.node(self.builder());
        sim.run(self.clients(&node, scenario));
        sim.run(node.quiesce()).unwrap();
        let metrics = node.metrics();
        let mut seen = self.seen();
        if metrics.accepted != metrics.finished {
            let text = format!("{} accepted, {} finished", metrics.accepted, metrics.finished);
            seen.faults.push(text);
        }
        for (what, left) in [("handlers", seen.alive), ("calls", seen.unanswered)] {
            if left != 0 {
                seen.faults.push(format!("{left} {what} left"));
            }
        }
        drop(seen);
        sim.run(node.shutdown()).unwrap();
        for kind in [ObjectKind::Spot, ObjectKind::Actor, ObjectKind::Task] {
            if node.count(kind) != 0 {
                self.seen().faults.push(format!("{} objects of kind {kind} left", node.count(kind)));
            }
        }
    }

    pub(crate) async fn clients(self: &Arc<Self>, node: &Node, scenario: u64) {
        let clients: Vec<_> = (0..self.traits.clients)
            .map(|number| {
                let (world, inner) = (self.clone(), node.clone());
                let random = Random::new(scenario.wrapping_mul(1_000_003) + number);
                node.spawn(async move { world.client(&inner, random).await })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    }

    async fn client(&self, node: &Node, mut random: Random) {
        let mut sender = self.sender();
        for _ in 0..self.traits.calls {
            let target = Target::any(&mut random, 0);
            target.make(node).await;
            self.call(node, target, &mut sender, &mut random, 3).await;
        }
    }

    /// One call, without a turn or keeping the turn's gate.
    async fn call(&self, node: &Node, target: Target, sender: &mut Sender, random: &mut Random, depth: u64) {
        let work = sender.work(random, depth);
        if random.one_in(2) {
            let sent = target.send(node, work).await;
            let mut seen = self.seen();
            seen.accepted_sends += u64::from(sent.is_none());
            seen.answer(sent.as_deref().unwrap_or("sent"));
        } else {
            let pending = Pending::new(self);
            let answer = target.ask(node, work).await;
            drop(pending);
            self.seen().answer(&answer);
        }
    }
}

impl Seen {
    fn answer(&mut self, what: &str) {
        *self.answers.entry(what.to_owned()).or_default() += 1;
    }

    pub(crate) fn count(&self, what: &str) -> u64 {
        self.answers.get(what).copied().unwrap_or(0)
    }
}

/// Whoever sends, with rising numbers.
struct Sender {
    id: u64,
    number: u64,
}

impl Sender {
    fn work(&mut self, random: &mut Random, depth: u64) -> Do {
        self.number += 1;
        Do { sender: self.id, number: self.number, seed: random.number(), depth }
    }
}

#[derive(Message, Clone)]
#[message(reply = u64, error = Failure)]
pub(crate) struct Do {
    sender: u64,
    number: u64,
    seed: u64,
    depth: u64,
}

pub(crate) struct Room<M>(Arc<World>, PhantomData<fn() -> M>);

impl<M: Mode> Spot for Room<M> {
    type Mode = M;

    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        let refuses = turn.0.traits.ends && joining.actor().generation().to_string().ends_with('3');
        Ok(if refuses { Admission::reject() } else { Admission::Accept })
    }
}

pub(crate) struct Walker(Arc<World>);

impl Actor for Walker {}

impl<M: Mode> Handles<Do> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, work: Do) -> Result<u64, Failure> {
        act(turn, work).await
    }
}

impl Handles<Do> for Walker {
    async fn handle(turn: &mut Turn<'_, Self>, work: Do) -> Result<u64, Failure> {
        let to = format!("w{}", work.seed % 2);
        let world = turn.0.clone();
        if world.traits.joins && work.seed.is_multiple_of(4) {
            let join = if work.seed.is_multiple_of(8) {
                turn.join(turn.spot::<Room<SpotWide>>(&to))
            } else {
                turn.join(turn.spot::<Room<PerActor>>("s0"))
            };
            turn.defer(join).map_err(|error| Failure::new(format!("{error:?}")))?;
        }
        act(turn, work).await
    }
}

/// Anything that has the world in it.
pub(crate) trait Inhabitant: std::any::Any + Send {
    fn world(&self) -> &Arc<World>;
}

impl<M: Mode> Inhabitant for Room<M> {
    fn world(&self) -> &Arc<World> {
        &self.0
    }
}

impl Inhabitant for Walker {
    fn world(&self) -> &Arc<World> {
        &self.0
    }
}

/// Does what the number says.
async fn act<T: Inhabitant>(turn: &mut Turn<'_, T>, work: Do) -> Result<u64, Failure> {
    let world = turn.state().world().clone();
    let node = turn.node();
    let mut random = Random::new(work.seed);
    let mut sender = world.sender();
    let _alive = Alive::new(&world);
    world.note(&format!("{} {}", turn.id(), turn.generation()), &work);
    let mut inside = Some(Inside::enter(&world, turn));
    let rank = rank_of(turn.id());
    for _ in 0..random.below(4) {
        let target = Target::any(&mut random, if world.traits.ranked { rank + 1 } else { 0 });
        match random.below(if world.traits.ends { 24 } else { 20 }) {
            0..5 => yield_now().await,
            5..9 if work.depth > 0 && (!world.traits.ranked || rank < TOP) => {
                world.call(&node, target, &mut sender, &mut random, work.depth - 1).await;
            }
            9..14 if work.depth > 0 && (!world.traits.ranked || rank < TOP) => {
                let asked = sender.work(&mut random, work.depth - 1);
                drop(inside.take());
                let pending = Pending::new(&world);
                let answer = target.ask_yielding(&node, turn, asked).await;
                drop(pending);
                inside = Some(Inside::enter(&world, turn));
                world.seen().answer(&answer);
            }
            14 => drop(turn.cpu(|| 1).await),
            15 => drop(turn.io(yield_now()).await),
            16 => {
                let computing = turn.cpu(|| 2);
                drop(inside.take());
                drop(turn.try_yielding(computing).await);
                inside = Some(Inside::enter(&world, turn));
            }
            20 => return Err(Failure::new("on purpose")),
            // Without the hook's report.
            21 if random.one_in(3) => std::panic::resume_unwind(Box::new("on purpose")),
            22 => target.close(&node),
            23 if random.one_in(3) => target.destroy(&node).await,
            _ => {}
        }
    }
    drop(inside);
    Ok(work.number)
}

impl World {
    fn note(&self, me: &str, work: &Do) {
        let mut seen = self.seen();
        seen.handled += 1;
        seen.turns.push(format!("{me}: {} of {}", work.number, work.sender));
        let before = seen.last.insert((me.to_owned(), work.sender), work.number);
        if before.is_some_and(|before| before >= work.number) {
            seen.faults.push(format!("{me}: {} of {} after {before:?}", work.number, work.sender));
        }
    }
}

/// The gate that an object's turn holds: that of its place if the members share it.
fn gate_of(node: &Node, id: &str, generation: Generation) -> Gate {
    let walker = node.actor::<Walker>(id).find().ok().filter(|walker| walker.generation() == generation);
    let shared = walker.and_then(|walker| walker.place()).filter(|place| place.starts_with('w'));
    let spot = shared.and_then(|place| node.spot::<Room<SpotWide>>(&place).find().ok());
    match spot {
        Some(spot) => (spot.id().to_owned(), Some(spot.generation())),
        None => (id.to_owned(), Some(generation)),
    }
}

/// One that holds a gate.
struct Inside(Arc<World>, Gate);

impl Inside {
    fn enter<T: Inhabitant>(world: &Arc<World>, turn: &Turn<'_, T>) -> Self {
        let gate = gate_of(&turn.node(), turn.id(), turn.generation());
        let who = format!("{} {}", turn.id(), turn.generation());
        let mut seen = world.seen();
        if let Some(other) = seen.inside.insert(gate.clone(), who.clone()) {
            seen.faults.push(format!("{who} is in gate {gate:?} with {other}"));
        }
        drop(seen);
        Self(world.clone(), gate)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.seen().inside.remove(&self.1);
    }
}

/// A call that is not answered.
struct Pending<'a>(&'a World);

impl<'a> Pending<'a> {
    fn new(world: &'a World) -> Self {
        world.seen().unanswered += 1;
        Self(world)
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.seen().unanswered -= 1;
    }
}

/// A handler that has begun.
struct Alive(Arc<World>);

impl Alive {
    fn new(world: &Arc<World>) -> Self {
        world.seen().alive += 1;
        Self(world.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.seen().alive -= 1;
    }
}

const NAMES: [&str; 10] = ["w0", "w1", "s0", "s1", "c0", "c1", "a0", "a1", "a2", "a3"];
const TOP: u64 = NAMES.len() as u64 - 1;

fn rank_of(id: &str) -> u64 {
    NAMES.iter().position(|name| *name == id).map_or(0, |at| at as u64)
}

/// Whom a call goes to.
#[derive(Clone, Copy)]
struct Target(&'static str);

macro_rules! on {
    ($target:expr, $node:expr, |$address:ident| $do:expr) => {
        match $target.0.as_bytes()[0] {
            b'w' => {
                let $address = $node.spot::<Room<SpotWide>>($target.0);
                $do
            }
            b's' => {
                let $address = $node.spot::<Room<PerActor>>($target.0);
                $do
            }
            b'c' => {
                let $address = $node.spot::<Room<Instance>>($target.0);
                $do
            }
            _ => {
                let $address = $node.actor::<Walker>($target.0);
                $do
            }
        }
    };
}

impl Target {
    /// One of at least that rank.
    fn any(random: &mut Random, rank: u64) -> Self {
        let rank = rank.min(TOP);
        Self(NAMES[(rank + random.below(TOP + 1 - rank)) as usize])
    }

    async fn make(self, node: &Node) {
        on!(self, node, |address| drop(address.get_or_create().await));
    }

    async fn send(self, node: &Node, work: Do) -> Option<String> {
        on!(self, node, |address| address.send(work).await.err().map(|error| format!("{:?}", error.kind())))
    }

    async fn ask(self, node: &Node, work: Do) -> String {
        on!(self, node, |address| told(address.ask(work).await))
    }

    async fn ask_yielding<T: Inhabitant>(self, node: &Node, turn: &mut Turn<'_, T>, work: Do) -> String {
        on!(self, node, |address| told(turn.try_yielding(address.ask(work)).await))
    }

    fn close(self, node: &Node) {
        on!(self, node, |address| drop(address.find().map(|found| found.request_close())));
    }

    async fn destroy(self, node: &Node) {
        on!(self, node, |address| if let Ok(found) = address.find() {
            drop(found.destroy().await);
        });
    }
}

fn told(answer: Result<u64, AskError<Do>>) -> String {
    match answer {
        Ok(_) => "answered".to_owned(),
        Err(AskError::Application(_)) => "failed".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Wakes itself once.
pub(crate) async fn yield_now() {
    let mut is_first = true;
    std::future::poll_fn(|cx| {
        if std::mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(())
    })
    .await;
}
