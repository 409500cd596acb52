//! Objects that fail on demand.

use turnkeep::BadReply;
use turnkeep::prelude::*;

use crate::support::Signal;

#[derive(Default)]
pub struct Room {
    pub handled: u64,
}
impl Spot for Room {
    type Mode = SpotWide;
    async fn on_actor_join(_: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        Ok(if joining.actor().id() == "unwanted" { Admission::reject() } else { Admission::Accept })
    }
}
#[derive(Default)]
pub struct Pool;
impl Spot for Pool {
    type Mode = PerActor;
}
pub struct Bare;
impl Spot for Bare {
    type Mode = Instance;
}
#[derive(Default)]
pub struct Person {
    pub handled: u64,
}
impl Actor for Person {}

/// The application's own error.
#[derive(Debug, PartialEq, Eq)]
pub struct TooDear(pub u64);

/// What a handler does.
pub enum Do {
    Well,
    Refuse,
    Panic,
    PanicAfterAWait(Signal),
    PanicAfterAYield,
    BadReply,
    /// Keeps the gate until told.
    Wait(Signal, Signal),
    /// Waits with the gate given up until told.
    Yield(Signal, Signal),
}

#[derive(Message)]
#[message(reply = u64, error = TooDear, check_reply = not_13)]
pub struct Buy(#[message(no_heap)] pub Do);

fn not_13(reply: &u64) -> Result<(), BadReply> {
    if *reply == 1313 { Err(BadReply("1313 cannot be written down".into())) } else { Ok(()) }
}

impl Handles<Buy> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, buy: Buy) -> Result<u64, TooDear> {
        turn.handled += 1;
        match buy.0 {
            Do::Well => {}
            Do::Refuse => return Err(TooDear(99)),
            Do::Panic => panic!("the till is empty"),
            Do::PanicAfterAWait(go) => {
                go.wait().await;
                panic!("the till is empty")
            }
            Do::PanicAfterAYield => {
                let io = turn.io(tokio::task::yield_now());
                turn.yielding(io).await.unwrap();
                panic!("the till is empty")
            }
            Do::BadReply => return Ok(1313),
            Do::Wait(entered, go) => {
                entered.set();
                go.wait().await;
            }
            Do::Yield(entered, go) => {
                let io = turn.io(async move { go.wait().await });
                entered.set();
                let _ = turn.yielding(io).await;
            }
        }
        Ok(turn.handled)
    }
}

impl Handles<Buy> for Person {
    async fn handle(turn: &mut Turn<'_, Self>, buy: Buy) -> Result<u64, TooDear> {
        turn.handled += 1;
        match buy.0 {
            Do::Refuse => Err(TooDear(99)),
            Do::Panic => panic!("the purse is empty"),
            Do::Wait(entered, go) => {
                entered.set();
                go.wait().await;
                Ok(turn.handled)
            }
            _ => Ok(turn.handled),
        }
    }
}

impl Handles<Buy> for Pool {
    async fn handle(_: &mut Turn<'_, Self>, _: Buy) -> Result<u64, TooDear> {
        Ok(0)
    }
}

#[derive(Message)]
#[message(reply = u64)]
pub struct Blob(pub Vec<u8>);
impl Handles<Blob> for Room {
    async fn handle(_: &mut Turn<'_, Self>, blob: Blob) -> Result<u64, Never> {
        Ok(blob.0.len() as u64)
    }
}

pub fn held() -> (Buy, Signal, Signal) {
    let (entered, go) = (Signal::new(), Signal::new());
    (Buy(Do::Wait(entered.clone(), go.clone())), entered, go)
}

pub async fn node(workers: usize) -> Node {
    Node::builder()
        .workers(workers)
        .spot_with::<Room>(
            "room",
            Options::new()
                .factory(|_| Ok(Room::default()))
                .application_lane(Lane { records: 3, bytes: 1 << 16 }),
        )
        .spot::<Pool>("pool")
        .spot_with::<Bare>("bare", Options::new())
        .actor::<Person>("person")
        .start()
        .await
        .unwrap()
}
