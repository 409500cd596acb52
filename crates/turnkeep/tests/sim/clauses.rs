//! The orders that a driver makes are legal ones: fairness between gates, members and lanes.

use std::collections::BTreeMap;
use std::time::Duration;

use turnkeep::HeapSize;
use turnkeep::prelude::*;
use turnkeep::testing::{Log, Overlap, Signal, Sim, explore};

#[derive(Message, Clone)]
struct Note(u64);

/// Sends itself the next one, for ever.
#[derive(Message, Clone)]
struct Again;

#[derive(Clone)]
struct Room {
    log: Log<(String, u64)>,
    inside: Overlap,
}

impl Spot for Room {
    type Mode = SpotWide;
}

impl Handles<Note> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, note: Note) -> Result<(), Never> {
        let _inside = turn.inside.enter();
        turn.log.push((turn.id().to_owned(), note.0));
        crate::world::yield_now().await;
        Ok(())
    }
}

impl Handles<Again> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, again: Again) -> Result<(), Never> {
        turn.log.push((turn.id().to_owned(), 0));
        drop(turn.this_spot().try_send(again));
        Ok(())
    }
}

struct Guest(Room);
impl Actor for Guest {}

impl Handles<Note> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, note: Note) -> Result<(), Never> {
        let _inside = turn.0.inside.enter();
        turn.0.log.push((turn.id().to_owned(), note.0));
        crate::world::yield_now().await;
        Ok(())
    }
}

fn stage(sim: &Sim) -> (Node, Log<(String, u64)>, Overlap) {
    let (log, inside) = (Log::new(), Overlap::new());
    let room = Room { log: log.clone(), inside: inside.clone() };
    let rooms = Options::new().factory(move |_| Ok(room.clone()));
    let node =
        sim.node(Node::builder().spot_with("room", rooms).actor_with("guest", Options::<Guest>::new()));
    (node, log, inside)
}

fn room(sim: &Sim, node: &Node, id: &str) -> SpotRef<Room> {
    sim.run(async { node.spot::<Room>(id).create().await }).unwrap()
}

#[test]
fn sim_gate_8_lane_12_members_take_turns_in_rounds_and_each_in_its_order() {
    explore(0..100, |sim| {
        let (node, log, inside) = stage(sim);
        let host = room(sim, &node, "host");
        let state = Room { log: log.clone(), inside: inside.clone() };
        let guests: Vec<_> = (0..3)
            .map(|number| {
                let address = node.actor::<Guest>(&format!("g{number}"));
                sim.run(address.create_in(Guest(state.clone()), &host)).unwrap()
            })
            .collect();
        // All there before anything runs: nine of the first, three of the others.
        let floods = [9, 3, 3];
        for (guest, count) in guests.iter().zip(floods) {
            (0..count).for_each(|number| guest.try_send(Note(number)).unwrap());
        }
        (0..3).for_each(|number| host.try_send(Note(number)).unwrap());
        sim.run(node.quiesce()).unwrap();
        let turns = log.take();
        assert_eq!((turns.len(), inside.most()), (18, 1));
        let mut orders: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        turns.iter().for_each(|(who, number)| orders.entry(who).or_default().push(*number));
        assert!(orders.values().all(|numbers| numbers.is_sorted()), "{turns:?}");
        // Between two turns of a member every other one that is ready has one.
        let of = |who: &str| turns.iter().rposition(|(other, _)| other == who).unwrap();
        let flood: Vec<usize> = (0..18).filter(|at| turns[*at].0 == "g0").collect();
        assert!(of("g1") < flood[3] && of("g2") < flood[3], "a flood overtook the others: {turns:?}");
    });
}

#[test]
fn sim_lane_10_a_gate_that_never_rests_lets_the_others_run() {
    explore(0..50, |sim| {
        let (node, log, _) = stage(sim);
        let busy: Vec<_> = (0..3).map(|number| room(sim, &node, &format!("busy{number}"))).collect();
        let quiet = room(sim, &node, "quiet");
        busy.iter().for_each(|room| room.try_send(Again).unwrap());
        for number in 0..20 {
            let before = log.len();
            sim.run(quiet.ask(Note(number))).unwrap();
            assert!(log.len() - before < 400, "{} turns of others came first", log.len() - before);
        }
        let turns = log.take();
        for room in &busy {
            assert!(turns.iter().filter(|(who, _)| who == room.id()).count() > 5, "{} starved", room.id());
        }
        sim.run(async { busy.iter().for_each(|room| drop(room.request_close())) });
    });
}

#[test]
fn sim_lane_10_a_budget_of_nothing_ends_each_slice() {
    let longest = |budget| {
        let sim = Sim::new(3);
        let (log, inside) = (Log::new(), Overlap::new());
        let state = Room { log: log.clone(), inside };
        let rooms = Options::new().factory(move |_| Ok(state.clone())).budget(budget);
        let node = sim.node(Node::builder().spot_with("room", rooms));
        let two = ["one", "other"].map(|id| room(&sim, &node, id));
        for room in &two {
            (0..50).for_each(|_| room.try_send(Again).unwrap());
        }
        (0..400).for_each(|_| drop(sim.try_run(crate::world::yield_now())));
        let turns: Vec<String> = log.take().into_iter().map(|(who, _)| who).collect();
        turns.chunk_by(|one, other| one == other).map(<[String]>::len).max().unwrap()
    };
    // Both stand behind, and two workers could take them in either order: the last may be the next.
    assert!(longest(Duration::ZERO) <= 2);
    assert!(longest(Duration::from_millis(10)) > 2);
}

/// Asks down a list of Spots and Actors, each of which asks the next, and waits for the signal at its end.
#[derive(Clone)]
struct Chain(Vec<&'static str>, Signal);

impl HeapSize for Chain {
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl Message for Chain {
    type Reply = ();
    type Error = Failure;
}

/// `!` before a name: with the gate given up.
async fn follow<T: std::any::Any + Send>(turn: &mut Turn<'_, T>, chain: Chain) -> Result<(), Failure> {
    let Some((next, rest)) = chain.0.split_first() else {
        chain.1.wait().await;
        return Ok(());
    };
    let (name, rest) = (next.trim_start_matches('!'), Chain(rest.to_vec(), chain.1.clone()));
    let yields = name.len() < next.len();
    if name.starts_with('g') {
        let ask = turn.actor::<Guest>(name).ask(rest);
        if yields { turn.try_yielding(ask).await? } else { ask.await? }
    } else {
        let ask = turn.spot::<Room>(name).ask(rest);
        if yields { turn.try_yielding(ask).await? } else { ask.await? }
    }
    Ok(())
}

impl Handles<Chain> for Room {
    async fn handle(turn: &mut Turn<'_, Self>, chain: Chain) -> Result<(), Failure> {
        follow(turn, chain).await
    }
}

impl Handles<Chain> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, chain: Chain) -> Result<(), Failure> {
        follow(turn, chain).await
    }
}

#[test]
fn sim_reent_5_a_yielded_members_gate_is_needed_for_its_callers_to_go_on() {
    explore(0..50, |sim| {
        let (node, log, inside) = stage(sim);
        let [host, desk, far] = ["host", "desk", "far"].map(|id| room(sim, &node, id));
        let guest = node.actor::<Guest>("g").create_in(Guest(Room { log, inside }), &host);
        sim.run(guest).unwrap();
        let go = Signal::new();
        // The desk keeps its gate for the guest, which has given up the host's gate for somebody far away.
        desk.try_send(Chain(vec!["g", "!far"], go.clone())).unwrap();
        sim.run_until_idle();
        assert!(!far.has_ended() && sim.waits().contains("Actor g #5 waits for Spot far"), "{}", sim.waits());
        // The host would keep the gate that the guest needs to go on.
        let refused = sim.run(host.ask(Chain(vec!["desk"], go.clone()))).unwrap_err();
        assert!(refused.to_string().contains("circle"), "{refused}");
        assert_eq!(sim.elapsed(), Duration::ZERO);
        go.set();
        sim.run(node.quiesce()).unwrap();
        sim.run(host.ask(Chain(vec!["desk"], go))).unwrap();
    });
}
