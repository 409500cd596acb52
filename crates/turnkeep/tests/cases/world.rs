//! Objects whose handlers, ticks and callbacks are written in the tests, on a clock that a test moves.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Builder, Clock, HeapSize, OnTick, Tick};

use crate::support::{Signal, within};

/// Longer than any test may last: whoever ends before was not saved by a deadline.
pub const NEVER: Duration = Duration::from_secs(600);

pub type Play<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;
type Done<'a> = Play<'a, Result<(), Failure>>;
type Script<T, R> = Box<dyn for<'a, 't> FnOnce(&'a mut Turn<'t, T>) -> Play<'a, R> + Send>;
type LifeScript<T> = Box<dyn for<'a, 't> FnOnce(&'a mut Lifecycle<'t, T>) -> Done<'a> + Send>;
type TickScript<T> = Box<dyn for<'a, 't> FnMut(&'a mut Turn<'t, T>, Tick) -> Done<'a> + Send>;

/// A message that brings its own handler.
pub struct Act<T: 'static, R>(Script<T, R>);

impl<T, R> HeapSize for Act<T, R> {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl<T: 'static, R: Send + 'static> Message for Act<T, R> {
    type Reply = R;
    type Error = Failure;
}

pub fn script<T, R>(
    script: impl for<'a, 't> FnOnce(&'a mut Turn<'t, T>) -> Play<'a, R> + Send + 'static,
) -> Act<T, R> {
    Act(Box::new(script))
}

/// A lifecycle callback of one object.
pub struct Life<T: 'static>(LifeScript<T>);

pub fn life<T>(
    script: impl for<'a, 't> FnOnce(&'a mut Lifecycle<'t, T>) -> Done<'a> + Send + 'static,
) -> Option<Life<T>> {
    Some(Life(Box::new(script)))
}

/// What an object does at each tick.
pub struct Ticks<T: 'static>(TickScript<T>);

pub fn ticks<T>(
    script: impl for<'a, 't> FnMut(&'a mut Turn<'t, T>, Tick) -> Done<'a> + Send + 'static,
) -> Option<Ticks<T>> {
    Some(Ticks(Box::new(script)))
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

/// What every tick does, in the same way.
macro_rules! ticks {
    ($type:ty, [$($kept:ident),*], |$turn:ident, $tick:ident| $body:expr) => {{
        $(let $kept = $kept.clone();)*
        $crate::world::ticks::<$type>(move |$turn, $tick| {
            $(let $kept = $kept.clone();)*
            Box::pin(async move { $body; Ok(()) })
        })
    }};
}

macro_rules! inhabitants {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $({ $mode:ty })?;)*) => {$(
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name {
            pub n: u64,
            pub on_create: Option<Life<$name>>,
            pub on_closing: Option<Life<$name>>,
            pub on_tick: Option<Ticks<$name>>,
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
        impl OnTick for $name {
            async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
                // Ticks of two names overlap only if one of them yields; none here yields with another name around.
                let Some(mut script) = turn.on_tick.take() else { return Ok(()) };
                let done = (script.0)(turn, tick).await;
                turn.on_tick = Some(script);
                done
            }
        }
        impl<R: Send + 'static> Handles<Act<$name, R>> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, act: Act<$name, R>) -> Result<R, Failure> {
                Ok((act.0)(turn).await)
            }
        }
    )*};
}

inhabitants! {
    /// A Spot that shares its gate with its members.
    Room: Spot { SpotWide };
    /// The Actor.
    Player: Actor;
}

/// The handler of a channel.
pub struct News;
impl Handler for News {}

/// Milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A node where everybody of this world can live, on a clock that stands still until it is moved.
pub async fn world(workers: usize) -> (Node, Clock) {
    world_of(Node::builder().workers(workers)).await
}

/// The same with an application lane of so many records for every type.
pub async fn world_with_lane(workers: usize, records: u32) -> (Node, Clock) {
    let lane = Lane { records, ..Lane::APPLICATION };
    world_of(Node::builder().workers(workers).application_lane(lane)).await
}

async fn world_of(builder: Builder) -> (Node, Clock) {
    let clock = Clock::manual();
    (real_world_of(builder.clock(clock.clone())).await, clock)
}

/// A node on the clock of the process.
pub async fn real_world_of(builder: Builder) -> Node {
    builder.spot::<Room>("room").actor::<Player>("player").channel("news", News).start().await.unwrap()
}

/// Runs a test's body on nodes of one, two and four workers; each must end in peace.
pub async fn everywhere(body: impl AsyncFn(Node, Clock)) {
    for workers in [1, 2, 4] {
        let (node, clock) = world(workers).await;
        within(body(node.clone(), clock)).await;
        end(node).await;
    }
}

pub async fn end(node: Node) {
    assert!(!within(node.shutdown()).await.unwrap().forced, "something was left over");
}

pub async fn room(node: &Node, id: &str) -> SpotRef<Room> {
    node.spot::<Room>(id).get_or_create().await.unwrap()
}

pub async fn player(node: &Node, id: &str) -> ActorRef<Player> {
    node.actor::<Player>(id).get_or_create().await.unwrap()
}

/// An Actor in a Spot.
pub async fn member(node: &Node, id: &str, spot: &SpotRef<Room>) -> ActorRef<Player> {
    let member = node.actor::<Player>(id).create_in(Player::default(), spot).await.unwrap();
    node.quiesce().await.unwrap();
    member
}

/// A message through the application lane of a Spot and back.
pub async fn ping(spot: &SpotRef<Room>) {
    spot.ask(act!(Room, [], |_turn| ())).await.unwrap();
}

/// The same of an Actor.
pub async fn ping_player(player: &ActorRef<Player>) {
    player.ask(act!(Player, [], |_turn| ())).await.unwrap();
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

/// Waits until something is so.
pub async fn until(so: impl Fn() -> bool) {
    within(async {
        while !so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until so many records are accepted and not finished.
pub async fn until_under_way(node: &Node, records: u64) {
    until(|| node.status().under_way == records).await;
}

/// Moves the clock to each moment until `by` is over, and lets the node settle in between.
pub async fn pass(node: &Node, clock: &Clock, by: Duration) {
    let until = clock.now() + by;
    within(async {
        while let Some(next) = clock.next().filter(|next| *next <= until) {
            clock.advance_to(next);
            node.quiesce().await.unwrap();
        }
        clock.advance_to(until);
        node.quiesce().await.unwrap();
    })
    .await;
}
