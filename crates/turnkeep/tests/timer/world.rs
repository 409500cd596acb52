//! Objects with timers that note what they are told, on a clock moved from moment to moment.

use std::sync::Arc;
use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Clock, HeapSize, Instance, OnOwnTick, OnTick, Tick, Timer, TimerTurn};

use crate::support::{Log, Overlap, Signal, within};

/// Milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// What a tick said: timer, clock when it ran, moment it stands for, delivery, scheduled, skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub by: String,
    pub name: String,
    pub at: Duration,
    pub due: Duration,
    pub delivery: u64,
    pub scheduled: u64,
    pub skipped: u64,
}

/// What all objects of a test share.
#[derive(Clone, Default)]
pub struct Shared {
    pub said: Log<Said>,
    pub inside: Overlap,
    /// A tick waits here if it is told to.
    pub entered: Signal,
    pub go: Signal,
}

/// What a tick does after it has noted itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Then {
    #[default]
    Nothing,
    /// Waits for the signal and keeps its gate.
    Wait,
    /// Yields for an ask of another Spot that waits for the signal.
    Yield,
    /// Fails.
    Fail,
    /// Panics.
    Panic,
    /// Cancels its own timer.
    Cancel,
    /// Registers itself again at once.
    Again,
}

/// Registers a timer.
#[derive(Clone)]
pub struct Set(pub &'static str, pub Timer, pub Then);
/// Cancels one.
pub struct Unset(pub &'static str);
/// The names of the timers.
pub struct Names;
/// Waits for the signal with the gate kept.
pub struct Hold;
/// Joins a Spot.
pub struct Go<S: Spot>(pub SpotRef<S>);

macro_rules! messages {
    ($($name:ident $(<$s:ident>)? => $reply:ty;)*) => {$(
        impl $(<$s: Spot>)? HeapSize for $name $(<$s>)? {
            fn heap_bytes(&self) -> u64 {
                0
            }
        }
        impl $(<$s: Spot>)? Message for $name $(<$s>)? {
            type Reply = $reply;
            type Error = Failure;
        }
    )*};
}
messages! {
    Set => ();
    Unset => bool;
    Names => Vec<String>;
    Hold => ();
    Go<S> => ();
}

/// What an object keeps.
#[derive(Default)]
pub struct Kept {
    pub shared: Shared,
    pub then: Then,
    pub ticks: u64,
}

fn note(shared: &Shared, by: &str, at: Duration, tick: &Tick) {
    shared.said.push(Said {
        by: by.to_owned(),
        name: tick.name().to_owned(),
        at,
        due: tick.due(),
        delivery: tick.delivery(),
        scheduled: tick.scheduled(),
        skipped: tick.skipped(),
    });
}

macro_rules! ticking {
    ($($(#[$doc:meta])* $name:ident: $kind:ident $({ $mode:ty })?;)*) => {$(
        $(#[$doc])*
        pub struct $name(pub Kept);
        impl $kind for $name {
            $(type Mode = $mode;)?
        }
        impl OnTick for $name {
            async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
                let shared = turn.0.shared.clone();
                let _inside = shared.inside.enter();
                turn.0.ticks += 1;
                note(&shared, turn.id(), turn.now(), &tick);
                let then = turn.0.then;
                match then {
                    Then::Nothing => {}
                    Then::Wait => {
                        shared.entered.set();
                        shared.go.wait().await;
                    }
                    Then::Yield => {
                        shared.entered.set();
                        let far = turn.spot::<Wide>("far").ask(Hold);
                        turn.try_yielding(far).await.map_err(|error| Failure::new(error.to_string()))?;
                    }
                    Then::Fail => return Err(Failure::new("on purpose")),
                    Then::Panic => panic!("on purpose"),
                    Then::Cancel => assert!(turn.cancel_timer(tick.name())),
                    Then::Again => turn.timer(tick.name(), Timer::after(Duration::ZERO))?,
                }
                Ok(())
            }
        }
        impl Handles<Set> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, set: Set) -> Result<(), Failure> {
                turn.0.then = set.2;
                Ok(turn.timer(set.0, set.1)?)
            }
        }
        common!($name);
    )*};
}

macro_rules! common {
    ($name:ident) => {
        impl Handles<Unset> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, unset: Unset) -> Result<bool, Failure> {
                Ok(turn.cancel_timer(unset.0))
            }
        }
        impl Handles<Names> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, _: Names) -> Result<Vec<String>, Failure> {
                Ok(turn.timers())
            }
        }
        impl Handles<Hold> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, _: Hold) -> Result<(), Failure> {
                let shared = turn.0.shared.clone();
                let _inside = shared.inside.enter();
                shared.entered.set();
                shared.go.wait().await;
                Ok(())
            }
        }
    };
}

ticking! {
    /// A Spot that shares its gate.
    Wide: Spot { SpotWide };
    /// One without members.
    Board: Spot { Instance };
    /// The Entry Spot.
    Hall: Spot { Entry };
    /// An Actor.
    Player: Actor;
}

/// A Spot whose timers have gates of their own.
pub struct Apart(pub Kept);
impl Spot for Apart {
    type Mode = PerActor;
}
common!(Apart);

/// A tick of an `Apart` tells it.
pub struct Told(pub Arc<Tick>);
messages! { Told => u64; }
impl Handles<Told> for Apart {
    async fn handle(turn: &mut Turn<'_, Self>, told: Told) -> Result<u64, Failure> {
        turn.0.ticks += 1;
        let (shared, at) = (turn.0.shared.clone(), turn.now());
        note(&shared, turn.id(), at, &told.0);
        Ok(turn.0.ticks)
    }
}

impl OnOwnTick for Apart {
    async fn on_tick(turn: &mut TimerTurn<Self>, tick: Tick) -> Result<(), Failure> {
        let spot = turn.this_spot();
        OWN_TICK.with(spot.id(), &tick).await;
        spot.ask(Told(Arc::new(tick))).await?;
        Ok(())
    }
}

impl Handles<Set> for Apart {
    async fn handle(turn: &mut Turn<'_, Self>, set: Set) -> Result<(), Failure> {
        Ok(turn.own_timer(set.0, set.1)?)
    }
}

/// Where ticks without a state meet their test.
pub struct Meeting(std::sync::Mutex<Vec<(String, Shared)>>);
pub static OWN_TICK: Meeting = Meeting(std::sync::Mutex::new(Vec::new()));

impl Meeting {
    /// Ticks of the Spot of that id wait for the signal of `shared`.
    pub fn expect(&self, spot: &str, shared: &Shared) {
        self.0.lock().unwrap().push((spot.to_owned(), shared.clone()));
    }

    async fn with(&self, spot: &str, _: &Tick) {
        let shared =
            self.0.lock().unwrap().iter().find(|(id, _)| id == spot).map(|(_, shared)| shared.clone());
        if let Some(shared) = shared {
            let _inside = shared.inside.enter();
            shared.entered.set();
            shared.go.wait().await;
        }
    }
}

impl Go<Wide> {
    pub fn to(spot: &SpotRef<Wide>) -> Self {
        Self(spot.clone())
    }
}

impl<S: Spot<Mode: turnkeep::Admits>> Handles<Go<S>> for Player {
    async fn handle(turn: &mut Turn<'_, Self>, go: Go<S>) -> Result<(), Failure> {
        let join = turn.join(&go.0);
        turn.defer(join)?;
        Ok(())
    }
}

/// A node on a clock that the test moves.
pub async fn world(workers: usize) -> (Node, Clock, Shared) {
    let (clock, shared) = (Clock::manual(), Shared::default());
    let builder = Node::builder().workers(workers).clock(clock.clone());
    (build(builder, &shared).await, clock, shared)
}

pub async fn build(builder: turnkeep::Builder, shared: &Shared) -> Node {
    fn with<T: 'static>(make: fn(Kept) -> T, shared: &Shared) -> turnkeep::Options<T> {
        let shared = shared.clone();
        turnkeep::Options::new()
            .factory(move |_| Ok(make(Kept { shared: shared.clone(), ..Kept::default() })))
    }
    builder
        .spot_with("wide", with(Wide, shared))
        .spot_with("board", with(Board, shared))
        .spot_with("apart", with(Apart, shared))
        .actor_with("player", with(Player, shared))
        .entry(Hall(Kept { shared: shared.clone(), ..Kept::default() }))
        .start()
        .await
        .unwrap()
}

/// Moves the clock to each moment until `by` is over, and lets the node settle in between.
pub async fn pass(node: &Node, clock: &Clock, by: Duration) {
    let until = clock.now() + by;
    within(async {
        while let Some(next) = clock.next().filter(|next| *next <= until) {
            clock.advance_to(next);
            node.quiesce().await.unwrap();
        }
    })
    .await;
    clock.advance_to(until);
    within(node.quiesce()).await.unwrap();
}

/// Waits until the node has nothing to run but what waits for a signal: so many records are under way.
pub async fn until_under_way(node: &Node, records: u64) {
    within(async {
        loop {
            let now = node.metrics();
            if now.accepted - now.finished == records {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

pub async fn end(node: Node) {
    let report = within(node.shutdown()).await.unwrap();
    assert!(!report.forced, "something was left over");
}
