//! A small world whose handlers are written in the tests themselves: each message carries its handler.
#![allow(dead_code, unused_macros, reason = "each test file uses its own part")]

use std::pin::Pin;

use turnkeep::prelude::*;
use turnkeep::{Ask, HeapSize};

use crate::support::{Signal, within};

pub type Play<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;
type Script<T, R> = Box<dyn for<'a, 't> FnOnce(&'a mut Turn<'t, T>) -> Play<'a, R> + Send>;
type LifeScript<T> =
    Box<dyn for<'a, 't> FnOnce(&'a mut Lifecycle<'t, T>) -> Play<'a, Result<(), Failure>> + Send>;

/// A message that brings its own handler.
pub struct Act<T: 'static, R>(Script<T, R>);

impl<T, R> HeapSize for Act<T, R> {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl<T: 'static, R: Send + 'static> Message for Act<T, R> {
    type Reply = R;
    type Error = Never;
}

pub fn script<T, R>(
    script: impl for<'a, 't> FnOnce(&'a mut Turn<'t, T>) -> Play<'a, R> + Send + 'static,
) -> Act<T, R> {
    Act(Box::new(script))
}

/// A lifecycle callback of one object.
pub struct Life<T: 'static>(LifeScript<T>);

pub fn life<T>(
    script: impl for<'a, 't> FnOnce(&'a mut Lifecycle<'t, T>) -> Play<'a, Result<(), Failure>> + Send + 'static,
) -> Option<Life<T>> {
    Some(Life(Box::new(script)))
}

/// A handler of a type, with clones of what it uses: `act!(Room, [log], |turn| { … })`.
macro_rules! act {
    ($type:ty, [$($kept:ident),*], |$turn:ident| $body:expr) => {{
        $(let $kept = $kept.clone();)*
        $crate::world::script::<$type, _>(move |$turn| Box::pin(async move { $body }))
    }};
}

/// A lifecycle callback, in the same way.
macro_rules! life {
    ($type:ty, [$($kept:ident),*], |$turn:ident| $body:expr) => {{
        $(let $kept = $kept.clone();)*
        $crate::world::life::<$type>(move |$turn| Box::pin(async move { $body; Ok(()) }))
    }};
}

macro_rules! inhabitants {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $({ $mode:ty })?;)*) => {$(
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            pub n: u64,
            pub names: Vec<&'static str>,
            pub on_create: Option<Life<$name>>,
            pub on_closing: Option<Life<$name>>,
        }
        impl $kind for $name {
            $(type Mode = $mode;)?
            async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
                let script = turn.on_create.take();
                match script {
                    Some(script) => (script.0)(turn).await,
                    None => Ok(()),
                }
            }
            async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
                let script = turn.on_closing.take();
                match script {
                    Some(script) => (script.0)(turn).await,
                    None => Ok(()),
                }
            }
        }
        impl<R: Send + 'static> Handles<Act<$name, R>> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, act: Act<$name, R>) -> Result<R, Never> {
                Ok((act.0)(turn).await)
            }
        }
    )*};
}

inhabitants! {
    /// A Spot that shares its gate with its members.
    Room: Spot { SpotWide };
    /// A Spot whose members have gates of their own.
    Cabin: Spot { PerActor };
    /// A Spot without members.
    Cache: Spot { Instance };
    /// Where Actors are made.
    Lobby: Spot { Entry };
    /// The Actor.
    Player: Actor;
}

/// The handler of a channel and of the node.
#[derive(Default)]
pub struct Desk {
    pub n: u64,
}

impl Handler for Desk {}

impl<R: Send + 'static> Handles<Act<Desk, R>> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, act: Act<Desk, R>) -> Result<R, Never> {
        Ok((act.0)(turn).await)
    }
}

/// A node where everybody of this world can live.
pub async fn world(workers: usize) -> Node {
    build(Node::builder().workers(workers)).await
}

/// The same with an application lane of so many records for every type.
pub async fn world_with_lane(workers: usize, records: u32) -> Node {
    let lane = Lane { records, ..Lane::APPLICATION };
    build(Node::builder().workers(workers).application_lane(lane)).await
}

async fn build(builder: turnkeep::Builder) -> Node {
    builder
        .spot::<Room>("room")
        .spot::<Cabin>("cabin")
        .spot::<Cache>("cache")
        .actor::<Player>("player")
        .entry(Lobby::default())
        .channel("desk", Desk::default())
        .handler("desk", Desk::default())
        .start()
        .await
        .unwrap()
}

/// Runs a test's body on nodes of one, two and four workers; each must end in peace.
pub async fn everywhere(body: impl AsyncFn(Node)) {
    on_workers(&[1, 2, 4], body).await;
}

pub async fn on_workers(counts: &[usize], body: impl AsyncFn(Node)) {
    for &workers in counts {
        let node = world(workers).await;
        within(body(node.clone())).await;
        let report = within(node.shutdown()).await.unwrap();
        assert!(!report.forced, "something was left over on {workers} workers");
    }
}

pub async fn room(node: &Node, id: &str) -> SpotRef<Room> {
    node.spot::<Room>(id).get_or_create().await.unwrap()
}

/// An Actor in a Spot, on a node with nothing under way.
pub async fn player_in<S: Spot<Mode: turnkeep::Admits>>(
    node: &Node,
    id: &str,
    spot: &SpotRef<S>,
) -> ActorRef<Player> {
    let player = newcomer(node, id, spot).await;
    node.quiesce().await.unwrap();
    player
}

/// An Actor in a Spot where others may be waiting.
pub async fn newcomer<S: Spot<Mode: turnkeep::Admits>>(
    node: &Node,
    id: &str,
    spot: &SpotRef<S>,
) -> ActorRef<Player> {
    let player = node.actor::<Player>(id).create_in(Player::default(), spot).await.unwrap();
    assert_eq!(player.place().as_deref(), Some(spot.id()));
    player
}

/// An ask of another Spot that is answered when `go` is set and not before.
pub fn far(far: &SpotRef<Room>, go: &Signal) -> Ask<Room, Act<Room, ()>> {
    far.ask(act!(Room, [go], |_turn| go.wait().await))
}

/// Lets a far ask be answered, and comes back when the answer has been given.
pub async fn answer(far: &SpotRef<Room>, go: &Signal) {
    go.set();
    ping(far).await;
}

/// A message through the application lane of a Spot and back.
pub async fn ping(spot: &SpotRef<Room>) {
    spot.ask(act!(Room, [], |_turn| ())).await.unwrap();
}

/// Keeps the gate of a Spot with an ordinary wait until the signal that it returns.
pub async fn hold(spot: &SpotRef<Room>) -> Signal {
    let (held, go) = (Signal::new(), Signal::new());
    spot.send(act!(Room, [held, go], |_turn| {
        held.set();
        go.wait().await;
    }))
    .await
    .unwrap();
    held.wait().await;
    go
}

/// Gives everything that is ready on the node many chances to run.
pub async fn chances(node: &Node) {
    let elsewhere = room(node, "elsewhere").await;
    for _ in 0..200 {
        ping(&elsewhere).await;
    }
}

/// Ends its first poll as pending and is ready at the second, which it asks for at once.
pub async fn once_more() {
    let mut polled = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
