//! Objects that keep themselves busy for ever take no turn away from the others (LANE-13).
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::within;
use turnkeep::prelude::*;

/// Goes on until it is told to stop.
#[derive(Clone, Default)]
struct Until(Arc<(AtomicBool, AtomicU64)>);

impl Until {
    fn goes_on(&self) -> bool {
        self.0.1.fetch_add(1, Ordering::Relaxed);
        !self.0.0.load(Ordering::Acquire)
    }
    fn stop(&self) {
        self.0.0.store(true, Ordering::Release);
    }
    fn turns(&self) -> u64 {
        self.0.1.load(Ordering::Relaxed)
    }
}

/// Sends itself on in every turn.
#[derive(Message)]
struct OnAndOn(#[message(no_heap)] Until);
/// Yields for itself in every turn, for ever.
#[derive(Message)]
struct YieldOn(#[message(no_heap)] Until);
#[derive(Message)]
struct Nothing;
#[derive(Message)]
struct Ping;

#[derive(Default)]
struct Busy;
impl Spot for Busy {
    type Mode = SpotWide;
}
impl Handles<OnAndOn> for Busy {
    async fn handle(turn: &mut Turn<'_, Self>, on: OnAndOn) -> Result<(), Never> {
        if on.0.goes_on() {
            let _ = turn.this_spot().try_send(on);
        }
        Ok(())
    }
}
impl Handles<YieldOn> for Busy {
    async fn handle(turn: &mut Turn<'_, Self>, on: YieldOn) -> Result<(), Never> {
        while on.0.goes_on() {
            let ask = turn.this_spot().ask(Nothing);
            let _ = turn.yielding(ask).await;
        }
        Ok(())
    }
}
impl Handles<Nothing> for Busy {
    async fn handle(_: &mut Turn<'_, Self>, _: Nothing) -> Result<(), Never> {
        Ok(())
    }
}

#[derive(Default)]
struct Idle;
impl Actor for Idle {}
impl Handles<Ping> for Idle {
    async fn handle(_: &mut Turn<'_, Self>, _: Ping) -> Result<(), Never> {
        Ok(())
    }
}
impl Handles<OnAndOn> for Idle {
    async fn handle(turn: &mut Turn<'_, Self>, on: OnAndOn) -> Result<(), Never> {
        if on.0.goes_on() {
            let _ = turn.this_actor().try_send(on);
        }
        Ok(())
    }
}

/// A budget that the busy ones use up again and again.
const BUDGET: Duration = Duration::from_millis(2);
const PINGS: usize = 40;

/// How long an idle Actor's first turn takes to begin, beside whoever is busy: all measured, sorted.
async fn beside(workers: usize, busy: impl AsyncFn(&Node, &Until)) -> (Vec<Duration>, u64) {
    let builder = Node::builder().workers(workers).budget(BUDGET);
    let node = builder.spot::<Busy>("busy").actor::<Idle>("idle").start().await.unwrap();
    let until = Until::default();
    busy(&node, &until).await;
    // Whoever is to be busy may be a thread that has not begun.
    let begun = async {
        while until.turns() <= PINGS as u64 {
            tokio::task::yield_now().await;
        }
    };
    within(begun).await;
    let mut waits = Vec::with_capacity(PINGS);
    for number in 0..PINGS {
        let idle = node.actor::<Idle>(&format!("idle {number}")).create().await.unwrap();
        let asked = Instant::now();
        within(idle.ask(Ping)).await.unwrap();
        waits.push(asked.elapsed());
    }
    let turns = until.turns();
    until.stop();
    assert!(!within(node.shutdown()).await.unwrap().forced);
    waits.sort();
    (waits, turns)
}

/// Two budgets a worker on two workers are 8 ms. The machine of a test is shared, so the statement is made of the
/// median, with room for other programs, and of everybody being served at all.
fn is_served(waits: &[Duration], turns: u64, who: &str) {
    assert!(turns > PINGS as u64, "{who}: they were not busy: {turns} turns");
    let median = waits[waits.len() / 2];
    assert!(median < 50 * BUDGET, "{who}: median {median:?}");
}

#[tokio::test]
async fn lane_13_a_objects_that_send_to_themselves_for_ever_let_others_in() {
    for workers in [1, 2] {
        let (waits, turns) = beside(workers, async |node, until| {
            for number in 0..2 {
                let busy = node.spot::<Busy>(&format!("b{number}")).create().await.unwrap();
                busy.send(OnAndOn(until.clone())).await.unwrap();
                let actor = node.actor::<Idle>(&format!("a{number}")).create().await.unwrap();
                actor.send(OnAndOn(until.clone())).await.unwrap();
            }
        })
        .await;
        is_served(&waits, turns, "senders to themselves");
    }
}

#[tokio::test]
async fn lane_13_b_handlers_that_yield_for_their_own_spot_for_ever_let_others_in() {
    for workers in [1, 2] {
        let (waits, turns) = beside(workers, async |node, until| {
            for number in 0..2 {
                let busy = node.spot::<Busy>(&format!("b{number}")).create().await.unwrap();
                for _ in 0..4 {
                    busy.send(YieldOn(until.clone())).await.unwrap();
                }
            }
        })
        .await;
        is_served(&waits, turns, "yielders");
    }
}

#[tokio::test]
async fn lane_13_c_a_flood_from_outside_lets_others_in() {
    for workers in [1, 2] {
        let (waits, turns) = beside(workers, async |node, until| {
            for number in 0..2 {
                let busy = node.spot::<Busy>(&format!("b{number}")).create().await.unwrap();
                let until = until.clone();
                std::thread::spawn(move || {
                    while until.goes_on() {
                        let _ = busy.try_send(Nothing);
                    }
                });
            }
        })
        .await;
        is_served(&waits, turns, "a flood");
    }
}

/// In turns instead of time: while one object sends to itself for ever, another waits for no more of its turns than
/// a budget holds.
#[tokio::test]
async fn lane_13_d_nobody_waits_for_more_turns_than_a_budget_holds() {
    let builder = Node::builder().workers(1).budget(Duration::ZERO);
    let node = builder.spot::<Busy>("busy").actor::<Idle>("idle").start().await.unwrap();
    let until = Until::default();
    let busy = node.spot::<Busy>("b").create().await.unwrap();
    busy.send(OnAndOn(until.clone())).await.unwrap();
    let idle = node.actor::<Idle>("i").create().await.unwrap();
    // Both from a task on the node's one worker, so that nothing but turns passes between the sends.
    let (turns, asked) = (until.clone(), idle.clone());
    let most = node.spawn(async move {
        let mut most = 0;
        for _ in 0..500 {
            let before = turns.turns();
            asked.ask(Ping).await.unwrap();
            most = most.max(turns.turns() - before);
        }
        most
    });
    let most = within(most).await.unwrap();
    until.stop();
    assert!(most <= 4, "{most} turns of the busy one before one of the other, with a budget of none");
    assert!(!within(node.shutdown()).await.unwrap().forced);
}
