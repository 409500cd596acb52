//! The time of a Sim: it stands until it is moved, and what waits for a moment is woken at that moment.

use std::time::{Duration, Instant};

use turnkeep::prelude::*;
use turnkeep::testing::{Door, Log, Signal, Sim, explore, within};
use turnkeep::{Clock, OnTick, Tick, Timer};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Default)]
struct Sleeper;
impl Spot for Sleeper {
    type Mode = SpotWide;
}

/// Never answers.
#[derive(Message, Clone)]
struct Ignore;

#[derive(Message, Clone)]
#[message(reply = u64)]
struct Left;

impl Handles<Ignore> for Sleeper {
    async fn handle(_: &mut Turn<'_, Self>, _: Ignore) -> Result<(), Never> {
        std::future::pending().await
    }
}

impl Handles<Left> for Sleeper {
    async fn handle(turn: &mut Turn<'_, Self>, _: Left) -> Result<u64, Never> {
        Ok(turn.time_left().map_or(0, |left| left.as_secs()))
    }
}

fn stage(sim: &Sim) -> (Node, SpotRef<Sleeper>) {
    let node = sim.node(Node::builder().spot::<Sleeper>("sleeper"));
    let spot = sim.run(node.spot::<Sleeper>("s").create()).unwrap();
    (node, spot)
}

#[test]
fn sim_time_jumps_to_a_deadline_when_nothing_is_ready() {
    explore(0..50, |sim| {
        let (_node, spot) = stage(sim);
        let began = Instant::now();
        let error = sim.run(spot.ask(Ignore).timeout(5 * HOUR)).unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
        assert_eq!(sim.elapsed(), 5 * HOUR);
        assert!(began.elapsed() < HOUR, "nobody waited for real");
    });
}

#[test]
fn sim_time_stands_while_anything_is_ready() {
    let sim = Sim::new(1);
    let (_node, spot) = stage(&sim);
    for _ in 0..100 {
        assert_eq!(sim.run(spot.ask(Left).timeout(HOUR)).unwrap(), 3600);
    }
    assert_eq!(sim.elapsed(), Duration::ZERO);
}

#[test]
fn sim_advance_goes_from_moment_to_moment_and_no_further() {
    explore(0..50, |sim| {
        let (node, spot) = stage(sim);
        let ended = Log::new();
        for hours in [3_u32, 1, 2, 5] {
            let (spot, ended) = (spot.clone(), ended.clone());
            drop(node.spawn(async move {
                let _ = spot.ask(Ignore).timeout(hours * HOUR).await;
                ended.push(hours);
            }));
        }
        sim.advance(HOUR - Duration::from_nanos(1));
        assert!(ended.is_empty());
        sim.advance(Duration::from_nanos(1));
        assert_eq!(ended.entries(), [1]);
        sim.advance(2 * HOUR);
        assert_eq!(ended.entries(), [1, 2, 3]);
        assert_eq!(sim.elapsed(), 3 * HOUR);
        sim.advance(HOUR);
        assert_eq!(ended.len(), 3);
    });
}

#[test]
fn sim_within_is_a_limit_of_its_own_time() {
    let sim = Sim::new(1);
    assert_eq!(sim.run(within(HOUR, async { 7 })), 7);
    let late = std::panic::AssertUnwindSafe(|| sim.run(within(HOUR, std::future::pending::<()>())));
    let panic = std::panic::catch_unwind(late).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("3600s"));
    assert_eq!(sim.elapsed(), HOUR);
}

#[test]
fn sim_probes_are_awaited_in_its_order() {
    explore(0..20, |sim| {
        let (node, _) = stage(sim);
        let (signal, door, log) = (Signal::new(), Door::new(), Log::new());
        for number in 0..3 {
            let (signal, door, log) = (signal.clone(), door.clone(), log.clone());
            drop(node.spawn(async move {
                signal.wait().await;
                door.pass().await;
                log.push(number);
            }));
        }
        sim.run_until_idle();
        assert!(door.waiting() == 0 && log.is_empty());
        signal.set();
        sim.run(door.wait_for_waiting(3));
        assert!(log.is_empty());
        door.open();
        sim.run(log.wait_for_len(3));
        assert_eq!(door.waiting(), 0);
    });
}

#[test]
fn sim_two_at_once_have_times_of_their_own() {
    let (one, other) = (Sim::new(1), Sim::new(2));
    let ((_one, first), (_other, second)) = (stage(&one), stage(&other));
    one.advance(HOUR);
    assert_eq!((one.elapsed(), other.elapsed()), (HOUR, Duration::ZERO));
    assert_eq!(one.run(first.ask(Left).timeout(HOUR)).unwrap(), 3600);
    assert_eq!(other.run(second.ask(Left).timeout(2 * HOUR)).unwrap(), 7200);
}

/// Ticks every hour.
struct Bell(Log<(String, Duration)>);
impl Spot for Bell {
    type Mode = SpotWide;

    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.timer("bell", Timer::every(HOUR))?;
        Ok(())
    }
}

impl OnTick for Bell {
    async fn on_tick(turn: &mut Turn<'_, Self>, tick: Tick) -> Result<(), Failure> {
        let entry = (turn.id().to_owned(), tick.due());
        turn.0.push(entry);
        Ok(())
    }
}

fn bells(sim: &Sim, builder: turnkeep::Builder) -> (Node, Log<(String, Duration)>) {
    let log = Log::new();
    let bell = log.clone();
    let bells = Options::new().factory(move |_| Ok(Bell(bell.clone())));
    let node = sim.node(builder.spot_with("bell", bells));
    for id in ["a", "b", "c"] {
        sim.run(node.spot::<Bell>(id).create()).unwrap();
    }
    (node, log)
}

#[test]
fn sim_timers_follow_its_time() {
    let run = |seed| {
        let sim = Sim::new(seed);
        let (node, log) = bells(&sim, Node::builder());
        sim.advance(10 * HOUR);
        sim.run(node.shutdown()).unwrap();
        log.take()
    };
    let ticks = run(1);
    assert_eq!(ticks.len(), 30);
    assert!((0..30).all(|at| ticks[at].1 == (at as u32 / 3 + 1) * HOUR), "{ticks:?}");
    assert_eq!(ticks, run(1));
    assert!((2..20).any(|seed| run(seed) != ticks), "the three of an hour come in any order");
}

#[test]
fn sim_timers_of_a_clock_moved_by_hand_follow_that() {
    let sim = Sim::new(1);
    let clock = Clock::manual();
    let (_node, log) = bells(&sim, Node::builder().clock(clock.clone()));
    sim.advance(10 * HOUR);
    assert!(log.is_empty());
    clock.advance(HOUR);
    sim.run_until_idle();
    assert_eq!(log.len(), 3);
}
