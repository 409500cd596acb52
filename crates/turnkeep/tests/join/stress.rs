//! Fifty Actors join eight Spots of both modes at random while messages rain; sums tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use turnkeep::prelude::*;

use crate::support::within;
use crate::world::Tale;

/// A Spot that keeps its own idea of who is in it, and counts what its members report.
struct Hub<M> {
    present: Vec<String>,
    reports: u64,
    faults: Tale,
    _mode: std::marker::PhantomData<fn() -> M>,
}

impl<M: turnkeep::Mode> Spot for Hub<M> {
    type Mode = M;
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, joining: &Joining) -> Result<Admission, Failure> {
        // One in five is turned away, by what its Join carries.
        Ok(if joining.request::<u64>().unwrap().is_multiple_of(5) {
            Admission::reject_with(turn.reports)
        } else {
            Admission::Accept
        })
    }
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        if turn.present.iter().any(|id| id == actor.id()) {
            turn.faults.push(format!("{} came twice", actor.id()));
        }
        turn.present.push(actor.id().to_owned());
        Ok(())
    }
    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, actor: &Member) -> Result<(), Failure> {
        let before = turn.present.len();
        turn.present.retain(|id| id != actor.id());
        if turn.present.len() + 1 != before {
            turn.faults.push(format!("{} left and was not there", actor.id()));
        }
        Ok(())
    }
}

#[derive(Message)]
struct Report;
#[derive(Message)]
#[message(reply = (Vec<String>, u64))]
struct Read;

impl<M: turnkeep::Mode> Handles<Report> for Hub<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: Report) -> Result<(), Never> {
        turn.reports += 1;
        Ok(())
    }
}
impl<M: turnkeep::Mode> Handles<Read> for Hub<M> {
    async fn handle(turn: &mut Turn<'_, Self>, _: Read) -> Result<(Vec<String>, u64), Never> {
        let mut present = turn.present.clone();
        present.sort_unstable();
        Ok((present, turn.reports))
    }
}

struct Rover {
    random: u64,
    handled: u64,
    reported: u64,
    last: u64,
    accepted: u64,
    rejected: u64,
    moving: u64,
    faults: Tale,
}

impl Rover {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn hub(n: u64) -> String {
    format!("hub{n}")
}

impl Actor for Rover {
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        turn.moving -= 1;
        match done.outcome() {
            JoinOutcome::Accepted => {
                turn.accepted += 1;
                if turn.place().as_deref() != Some(done.target()) {
                    let fault = format!("accepted by {} and in {:?}", done.target(), turn.place());
                    turn.faults.push(fault);
                }
            }
            JoinOutcome::Rejected(_) => turn.rejected += 1,
            other => {
                let fault = format!("{other:?}");
                turn.faults.push(fault);
            }
        }
        Ok(())
    }
}

/// The number grows by one with every message to the same Actor.
#[derive(Message)]
struct Step(u64);
#[derive(Message)]
#[message(reply = (u64, u64, u64, u64))]
struct Sums;

impl Handles<Step> for Rover {
    async fn handle(turn: &mut Turn<'_, Self>, step: Step) -> Result<(), Never> {
        if step.0 != turn.last + 1 || turn.moving != 0 {
            let fault = format!("{} after {}, {} Joins open", step.0, turn.last, turn.moving);
            turn.faults.push(fault);
        }
        turn.last = step.0;
        turn.handled += 1;
        let mut members = turn.within::<Hub<SpotWide>>();
        if let Some((rover, hub)) = members.as_mut().and_then(|member| member.try_both()) {
            hub.reports += 1;
            rover.reported += 1;
        }
        for _ in 0..turn.next() % 3 {
            let (to, tag) = (turn.next() % 8, turn.next());
            let join = if to < 4 {
                turn.join(turn.spot::<Hub<SpotWide>>(&hub(to)))
            } else {
                turn.join(turn.spot::<Hub<PerActor>>(&hub(to)))
            };
            turn.moving += 1;
            turn.defer(join.with(tag)).unwrap();
        }
        if turn.next().is_multiple_of(4) {
            let to = turn.next() % 4;
            // Not `send`: members of two Spots with full lanes would wait for each other with their gates kept.
            if turn.spot::<Hub<SpotWide>>(&hub(to)).try_send(Report).is_ok() {
                turn.reported += 1;
            }
        }
        Ok(())
    }
}
impl Handles<Sums> for Rover {
    async fn handle(turn: &mut Turn<'_, Self>, _: Sums) -> Result<(u64, u64, u64, u64), Never> {
        Ok((turn.handled, turn.reported, turn.accepted, turn.rejected))
    }
}

async fn stress(workers: usize, lane: u32) {
    const ROVERS: u64 = 50;
    const STEPS: u64 = 60;
    let lane = Lane { records: lane, bytes: 1 << 20 };
    let builder = Node::builder().workers(workers).application_lane(lane).lifecycle_lane(lane);
    let node = builder
        .spot_with::<Hub<SpotWide>>("wide", Options::new())
        .spot_with::<Hub<PerActor>>("single", Options::new())
        .actor_with::<Rover>("rover", Options::new())
        .start()
        .await
        .unwrap();
    let faults = Tale::default();
    let (mut wide, mut single) = (Vec::new(), Vec::new());
    let mark = std::marker::PhantomData;
    for n in 0..4 {
        let state = Hub { present: Vec::new(), reports: 0, faults: faults.clone(), _mode: mark };
        wide.push(node.spot::<Hub<SpotWide>>(&hub(n)).create_with(state).await.unwrap());
    }
    let mark = std::marker::PhantomData;
    for n in 4..8 {
        let state = Hub { present: Vec::new(), reports: 0, faults: faults.clone(), _mode: mark };
        single.push(node.spot::<Hub<PerActor>>(&hub(n)).create_with(state).await.unwrap());
    }
    let mut rovers = Vec::new();
    for n in 0..ROVERS {
        let rover = Rover {
            random: 0x9E37_79B9_7F4A_7C15 ^ (n + 1),
            handled: 0,
            reported: 0,
            last: 0,
            accepted: 0,
            rejected: 0,
            moving: 0,
            faults: faults.clone(),
        };
        rovers.push(node.actor::<Rover>(&format!("r{n}")).create_with(rover).await.unwrap());
    }
    let sent = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> = rovers
        .iter()
        .map(|rover| {
            let (rover, sent) = (rover.clone(), sent.clone());
            tokio::spawn(async move {
                for n in 1..=STEPS {
                    rover.send(Step(n)).timeout(std::time::Duration::from_secs(50)).await.unwrap();
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for sender in senders {
        sender.await.unwrap();
    }
    node.quiesce().await.unwrap();
    assert_eq!(faults.take(), Vec::<String>::new());
    let (mut handled, mut reported, mut accepted, mut rejected) = (0, 0, 0, 0);
    for rover in &rovers {
        let sums = rover.ask(Sums).await.unwrap();
        handled += sums.0;
        reported += sums.1;
        accepted += sums.2;
        rejected += sums.3;
    }
    assert_eq!((handled, sent.load(Ordering::Relaxed)), (ROVERS * STEPS, ROVERS * STEPS));
    let metrics = node.metrics();
    assert_eq!(
        (metrics.joins_accepted, metrics.joins_rejected, metrics.joins_failed),
        (accepted, rejected, 0)
    );
    assert!(accepted > 500 && rejected > 100, "it did move: {accepted} {rejected}");
    let (mut counted, mut present) = (0, 0);
    for hub in &wide {
        let (inside, reports) = hub.ask(Read).await.unwrap();
        let mut members = hub.members();
        members.sort_unstable();
        assert_eq!(inside, members, "the Spot knows who is in it");
        counted += reports;
        present += inside.len() as u64;
    }
    for hub in &single {
        let (inside, _) = hub.ask(Read).await.unwrap();
        let mut members = hub.members();
        members.sort_unstable();
        assert_eq!(inside, members);
        present += inside.len() as u64;
    }
    let entry = node.entry_id();
    let at_home = rovers.iter().filter(|rover| rover.place().as_deref() == Some(&*entry)).count() as u64;
    assert_eq!(present + at_home, ROVERS);
    assert_eq!(counted, reported);
    let report = node.shutdown().await.unwrap();
    assert!(!report.forced, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_7_c_random_joins_of_fifty_actors_over_eight_spots_lose_nothing() {
    within(async {
        for workers in [1, 2, 4] {
            stress(workers, 1024).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_7_d_random_joins_with_lanes_of_two_lose_nothing() {
    within(async {
        for workers in [1, 2] {
            stress(workers, 2).await;
        }
    })
    .await;
}
