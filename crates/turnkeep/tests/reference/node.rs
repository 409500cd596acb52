//! The same calls on the real node.

use std::collections::BTreeMap;
use std::path::Path;

use turnkeep::prelude::*;
use turnkeep::{Mode, PanicPolicy};

use super::runtime::{ENTRY, Left, Outcome, Told, place_number};
use super::scenario::{CLIENTS, LEAF, Op, SHARED, Scenario, actor, own_spot};
use crate::support::within;

/// Sums by client.
pub struct Room<M>(BTreeMap<u64, u64>, std::marker::PhantomData<fn() -> M>);
impl<M> Default for Room<M> {
    fn default() -> Self {
        Self(BTreeMap::new(), std::marker::PhantomData)
    }
}
#[derive(Default)]
pub struct Walker;
#[derive(Default)]
pub struct Hall;

impl<M: Mode> Spot for Room<M> {
    type Mode = M;
}
impl Actor for Walker {}
impl Spot for Hall {
    type Mode = Entry;
}

#[derive(Message)]
#[message(reply = u64)]
struct Add(u64, u64);
#[derive(Message)]
#[message(reply = u64, error = Failure)]
struct Both(u64, u64);
#[derive(Message)]
struct Break;
#[derive(Message)]
#[message(reply = u64, error = Failure)]
struct Relay(u64, u64);
#[derive(Message)]
#[message(reply = u64, error = Failure)]
struct Own(u64, u64, String);
#[derive(Message)]
#[message(error = Failure)]
struct Go(String, bool);

impl<M: Mode> Room<M> {
    fn add(&mut self, add: &Add) -> u64 {
        let sum = self.0.entry(add.0).or_default();
        *sum += add.1;
        *sum
    }
}
impl<M: Mode> Handles<Add> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        Ok(turn.state().add(&add))
    }
}
impl<M: Mode> Handles<Both> for Room<M> {
    async fn handle(turn: &mut Turn<'_, Self>, both: Both) -> Result<u64, Failure> {
        turn.state().add(&Add(both.0, both.1));
        let asked = turn.spot::<Room<Instance>>(LEAF).ask(Add(both.0, both.1));
        let leaf = match turn.try_yielding(asked).await {
            Ok(leaf) => leaf,
            Err(error) => return Err(Failure::new(format!("{:?}", error.kind().unwrap()))),
        };
        // Others have had their turns meanwhile, but none for this client.
        Ok(leaf + turn.state().add(&Add(both.0, 0)))
    }
}
impl<M: Mode> Handles<Break> for Room<M> {
    async fn handle(_: &mut Turn<'_, Self>, _: Break) -> Result<(), Never> {
        panic!("on purpose");
    }
}
impl Handles<Relay> for Walker {
    async fn handle(turn: &mut Turn<'_, Self>, relay: Relay) -> Result<u64, Failure> {
        Ok(turn.spot::<Room<Instance>>(LEAF).ask(Add(relay.0, relay.1)).await?)
    }
}
impl Handles<Own> for Walker {
    async fn handle(turn: &mut Turn<'_, Self>, own: Own) -> Result<u64, Failure> {
        let add = Add(own.0, own.1);
        let told = match own.2.as_str() {
            wide if wide.starts_with("wide") => turn.spot::<Room<SpotWide>>(wide).ask(add).await,
            single => turn.spot::<Room<PerActor>>(single).ask(add).await,
        };
        told.map_err(|error| Failure::new(format!("{:?}", error.kind().unwrap())))
    }
}
impl Handles<Go> for Walker {
    async fn handle(turn: &mut Turn<'_, Self>, go: Go) -> Result<(), Failure> {
        let join = match go.0.as_str() {
            wide if wide.starts_with("wide") => turn.join(turn.spot::<Room<SpotWide>>(wide)),
            single => turn.join(turn.spot::<Room<PerActor>>(single)),
        };
        turn.defer(join)?;
        if go.1 { Err(Failure::new("Application")) } else { Ok(()) }
    }
}

/// What is done with a Spot, whichever of the two types it has.
macro_rules! on {
    ($node:expr, $id:expr, |$spot:ident| $do:expr) => {
        if $id.starts_with("wide") {
            let $spot = $node.spot::<Room<SpotWide>>($id);
            $do
        } else {
            let $spot = $node.spot::<Room<PerActor>>($id);
            $do
        }
    };
}

/// Plays a scenario on a node with so many workers and records a lane; it writes a trace if it is told where.
pub async fn run(scenario: &Scenario, workers: usize, records: u32, trace: Option<&Path>) -> Outcome {
    let lane = Lane { records, ..Lane::APPLICATION };
    let mut builder = Node::builder().workers(workers).application_lane(lane);
    if let Some(path) = trace {
        builder = builder.trace(path);
    }
    let node = builder
        .spot_with(
            "wide",
            Options::<Room<SpotWide>>::new().factory(|_| Ok(Room::default())).on_panic(PanicPolicy::Keep),
        )
        .spot_with(
            "single",
            Options::<Room<PerActor>>::new().factory(|_| Ok(Room::default())).on_panic(PanicPolicy::Keep),
        )
        .spot_with("leaf", Options::<Room<Instance>>::new().factory(|_| Ok(Room::default())))
        .actor::<Walker>("walker")
        .entry(Hall)
        .start()
        .await
        .unwrap();
    node.spot::<Room<Instance>>(LEAF).create().await.unwrap();
    let own = (0..CLIENTS).flat_map(|client| [own_spot(client, 0), own_spot(client, 1)]);
    for id in SHARED.iter().map(|id| (*id).to_owned()).chain(own) {
        on!(node, &id, |spot| drop(spot.create().await.unwrap()));
    }
    for client in 0..CLIENTS {
        for number in 0..2 {
            node.actor::<Walker>(&actor(client, number)).create().await.unwrap();
        }
    }
    let clients: Vec<_> = scenario
        .iter()
        .enumerate()
        .map(|(client, script)| {
            let (inner, script) = (node.clone(), script.clone());
            tokio::spawn(async move {
                let mut told = Vec::new();
                for op in &script {
                    told.push(within(call(&inner, client as u64, op)).await);
                }
                told
            })
        })
        .collect();
    let mut told = Vec::new();
    for client in clients {
        told.push(client.await.unwrap());
    }
    within(node.quiesce()).await.unwrap();
    let left = left(&node).await;
    assert!(!within(node.shutdown()).await.unwrap().forced);
    Outcome { told, left }
}

fn kind_of<M: Message<Error = Never>>(error: AskError<M>) -> String {
    format!("{:?}", error.kind().unwrap())
}

/// A handler's own failure says which kind it means.
fn said<M: Message<Error = Failure>>(error: AskError<M>) -> String {
    match error {
        AskError::Application(failure) => failure.to_string(),
        other => format!("{:?}", other.kind().unwrap()),
    }
}

async fn call(node: &Node, client: u64, op: &Op) -> Told {
    let walker = |id: &str| node.actor::<Walker>(id);
    match op {
        Op::Send(id, number) => {
            let sent = on!(node, id, |spot| spot.send(Add(client, *number)).await);
            sent.map(|()| 0).map_err(|error| format!("{:?}", error.kind()))
        }
        Op::Ask(id, number) => on!(node, id, |spot| spot.ask(Add(client, *number)).await).map_err(kind_of),
        Op::Yield(id, number) => on!(node, id, |spot| spot.ask(Both(client, *number)).await).map_err(said),
        Op::Relay(id, number) => walker(id).ask(Relay(client, *number)).await.map_err(said),
        Op::Own(id, number) => {
            let place = place(node, id).await;
            if place == ENTRY {
                return Err("NotFound".to_owned());
            }
            walker(id).ask(Own(client, *number, place)).await.map_err(said)
        }
        Op::Go(id, to) => {
            let went = walker(id).ask(Go(to.clone(), false)).await.map(|()| 0).map_err(said);
            // The move is over before the client does anything else: it may close or make the target.
            place(node, id).await;
            went
        }
        Op::GoAndFail(id, to) => walker(id).ask(Go(to.clone(), true)).await.map(|()| 0).map_err(said),
        Op::Where(id) => Ok(place_number(&place(node, id).await)),
        Op::Panic(id) => on!(node, id, |spot| spot.ask(Break).await).map(|()| 0).map_err(kind_of),
        Op::Create(id) => {
            let made = on!(node, id, |spot| spot.create().await.map(drop));
            made.map(|()| 0).map_err(|error| format!("{:?}", error.kind()))
        }
        Op::Close(id) => {
            let closed = on!(node, id, |spot| match spot.find() {
                Ok(spot) => spot.close().await,
                Err(error) => Err(error),
            });
            closed.map(|()| 0).map_err(|error| format!("{:?}", error.kind()))
        }
    }
}

/// Where an Actor is once its moves are over: a message waits for them (JOIN-11).
async fn place(node: &Node, id: &str) -> String {
    let walker = node.actor::<Walker>(id);
    walker.ask(Relay(u64::MAX, 0)).await.unwrap();
    let place = walker.find().unwrap().place().unwrap();
    if place == node.entry_id() { ENTRY.to_owned() } else { place }
}

async fn left(node: &Node) -> Left {
    let mut left = Left::default();
    let own = (0..CLIENTS).flat_map(|client| [own_spot(client, 0), own_spot(client, 1)]);
    for id in SHARED.iter().map(|id| (*id).to_owned()).chain(own) {
        for client in 0..CLIENTS {
            let sum = on!(node, &id, |spot| spot.ask(Add(client, 0)).await).unwrap_or(0);
            if sum > 0 {
                left.sums.insert((id.clone(), client), sum);
            }
        }
    }
    for client in 0..CLIENTS {
        let sum = node.spot::<Room<Instance>>(LEAF).ask(Add(client, 0)).await.unwrap();
        if sum > 0 {
            left.sums.insert((LEAF.to_owned(), client), sum);
        }
        for number in 0..2 {
            let id = actor(client, number);
            let place = place(node, &id).await;
            left.places.insert(id, place);
        }
    }
    left
}
