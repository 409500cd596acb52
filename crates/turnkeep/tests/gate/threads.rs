//! A turn goes on on another thread with everything the runtime keeps for it (GATE-10).

use std::thread::ThreadId;
use std::time::{Duration, Instant};

use turnkeep::ErrorKind;
use turnkeep::prelude::*;

use crate::play::*;
use crate::support::{Log, Signal, within};

/// What the runtime keeps for a turn, looked at from inside.
#[derive(Clone, PartialEq, Debug)]
struct Seen {
    thread: ThreadId,
    flow: u64,
    /// In seconds from half a second before the test's start.
    deadline: Option<u64>,
    /// How an ask of the own object is refused.
    self_ask: Option<ErrorKind>,
}

/// Looks, waits, and looks again.
#[derive(Message)]
#[message(reply = (u64, u64))]
struct Look {
    #[message(no_heap)]
    seen: Log<Seen>,
    #[message(no_heap)]
    waits_for: Signal,
    start: Instant,
}

async fn look(turn: &Turn<'_, Pawn>, start: Instant) -> Seen {
    let myself = turn.this_actor().ask(line("never")).await;
    Seen {
        thread: std::thread::current().id(),
        flow: turn.flow(),
        deadline: turn.deadline().map(|at| at.duration_since(start).as_secs()),
        self_ask: myself.err().and_then(|error| error.kind()),
    }
}

impl Handles<Look> for Pawn {
    async fn handle(turn: &mut Turn<'_, Self>, ask: Look) -> Result<(u64, u64), Never> {
        ask.seen.push(look(turn, ask.start).await);
        let before = turn.grant();
        let join = turn.join(turn.spot::<Wide>("w"));
        ask.waits_for.wait().await;
        ask.seen.push(look(turn, ask.start).await);
        // The registration scope is the turn's, whatever thread it is on.
        turn.defer(join).unwrap();
        Ok((before, turn.grant()))
    }
}

/// Says on which thread it runs and blocks it.
#[derive(Message)]
struct Occupy {
    #[message(no_heap)]
    on: Log<(ThreadId, u64)>,
    #[message(no_heap)]
    until: Signal,
}

impl Handles<Occupy> for Inst {
    async fn handle(turn: &mut Turn<'_, Self>, occupy: Occupy) -> Result<(), Never> {
        occupy.on.push((std::thread::current().id(), turn.flow()));
        occupy.until.wait_blocking();
        Ok(())
    }
}

async fn next<T: Clone>(log: &Log<T>) -> T {
    until(|| !log.is_empty()).await;
    log.take().remove(0)
}

#[tokio::test]
async fn gate_10_a_turn_that_goes_on_on_another_thread_has_all_that_is_kept_for_it() {
    within(async {
        let stage = Stage::new(2).await;
        stage.wide("w").await;
        let pawn = stage.pawn("p").await;
        let start = Instant::now() - Duration::from_millis(500);
        let (seen, waits_for) = (Log::new(), Signal::new());
        let ask = pawn.ask(Look { seen: seen.clone(), waits_for: waits_for.clone(), start });
        let ask = tokio::spawn(ask.timeout(Duration::from_secs(50)));
        let first = next(&seen).await;
        // Occupies the thread the turn was on, and only that one.
        let (on, mut release) = (Log::new(), Vec::new());
        let mut occupied = None;
        for id in ["x", "y"] {
            let until = Signal::new();
            stage.inst(id).await.send(Occupy { on: on.clone(), until: until.clone() }).await.unwrap();
            let (thread, flow) = next(&on).await;
            assert_ne!(flow, first.flow, "the thread's next turn has a flow of its own");
            if thread == first.thread {
                occupied = Some(until);
                break;
            }
            release.push(until);
        }
        release.iter().for_each(Signal::set);
        waits_for.set();
        let grants = ask.await.unwrap().unwrap();
        let second = next(&seen).await;
        assert_ne!(second.thread, first.thread, "the thread was occupied");
        assert_eq!(grants.0, grants.1, "the same turn has the same grant");
        assert_eq!(first.self_ask, Some(ErrorKind::InvalidOperation));
        assert!(first.deadline.is_some());
        assert_eq!(Seen { thread: first.thread, ..second }, first);
        occupied.unwrap().set();
        let lines = stage.lines().await;
        assert_eq!(lines, ["join p", "leave p", "arrived p"], "the Join started after the turn");
    })
    .await;
}

/// Reads the flow, waits in several ways, reads it again, and asks on.
#[derive(Message)]
#[message(reply = Vec<u64>)]
struct Flow(u32);

impl Handles<Flow> for Inst {
    async fn handle(turn: &mut Turn<'_, Self>, flow: Flow) -> Result<Vec<u64>, Never> {
        let mut seen = vec![turn.flow()];
        pause().await;
        seen.push(turn.flow());
        let work = turn.io(pause());
        turn.yielding(work).await.unwrap();
        seen.push(turn.flow());
        let work = turn.cpu(|| 1);
        work.await.unwrap();
        seen.push(turn.flow());
        if flow.0 > 0 {
            let next = format!("f{}", (flow.0 - 1) % 7);
            let ask = turn.spot::<Inst>(&next).ask(Flow(flow.0 - 1));
            seen.extend(turn.yielding(ask).await.unwrap());
        }
        Ok(seen)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gate_10_no_turn_sees_the_flow_of_another_that_ran_on_its_thread() {
    within(async {
        let stage = Stage::new(8).await;
        for number in 0..8 {
            stage.inst(&format!("f{number}")).await;
        }
        let first = stage.node.spot::<Inst>("f7");
        let asks: Vec<_> = (0..200).map(|number| tokio::spawn(first.ask(Flow(number % 6)))).collect();
        let mut flows = Vec::new();
        for ask in asks {
            let seen = ask.await.unwrap().unwrap();
            assert!(seen.iter().all(|flow| *flow == seen[0]), "{seen:?}");
            flows.push(seen[0]);
        }
        flows.sort_unstable();
        flows.dedup();
        assert_eq!(flows.len(), 200, "each request has a flow of its own");
    })
    .await;
}
