//! A seed repeats a run: in this process, in others, turn by turn; and other seeds try other orders.

use std::collections::BTreeSet;
use std::process::Command;

use turnkeep::testing::{Sim, explore, find};

use crate::world::{CALM, Traits, WILD, World};

/// Says in a process of its own which seed to run.
const CHILD: &str = "TURNKEEP_SIM_CHILD";

/// 10,000 turns and more of everything: the objects' own list of them, and the driver's.
fn long_run(seed: u64) -> (Vec<String>, String, u64) {
    let sim = Sim::new(seed);
    let world = World::new(Traits { clients: 24, calls: 150, lane: 8, ..WILD });
    world.play(&sim, 1);
    let log = sim.log();
    let turns = std::mem::take(&mut world.seen().turns);
    (turns, log.to_string(), log.fingerprint())
}

fn short_run(seed: u64) -> (u64, Vec<String>) {
    let sim = Sim::new(seed);
    let world = World::new(CALM);
    world.play(&sim, 1);
    let turns = std::mem::take(&mut world.seen().turns);
    (sim.log().fingerprint(), turns)
}

#[test]
fn sim_repeats_ten_thousand_turns_in_one_process() {
    let (turns, log, fingerprint) = long_run(7);
    assert!(log.lines().count() > 10_000, "{} events", log.lines().count());
    assert!(turns.len() > 3_000, "{} turns of messages", turns.len());
    for _ in 0..2 {
        // Something between the runs that moves addresses and numbers of the process.
        let _other = short_run(1);
        let again = long_run(7);
        assert!(turns == again.0, "the objects saw another order");
        assert!(log == again.1, "the driver ran another order");
        assert_eq!(fingerprint, again.2);
    }
}

#[test]
fn sim_repeats_ten_thousand_turns_in_fresh_processes() {
    let here = fingerprint_of(7);
    let there = [child(7), child(7)];
    assert_eq!([&here, &here], [&there[0], &there[1]]);
    assert_ne!(here, child(8));
}

fn fingerprint_of(seed: u64) -> String {
    let (turns, log, fingerprint) = long_run(seed);
    format!("{} turns, {} events, {fingerprint:016x}", turns.len(), log.lines().count())
}

fn child(seed: u64) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "repeat::sim_repeat_the_child_process", "--nocapture"])
        .env(CHILD, seed.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| Some(line.split_once("child: ")?.1.to_owned()));
    line.unwrap_or_else(|| panic!("the child said: {text}"))
}

/// What a child process runs; by itself it is nothing.
#[test]
fn sim_repeat_the_child_process() {
    if let Ok(seed) = std::env::var(CHILD) {
        println!("child: {}", fingerprint_of(seed.parse().unwrap()));
    }
}

#[test]
fn sim_other_seeds_try_other_orders() {
    let runs: Vec<_> = (0..50).map(short_run).collect();
    let logs: BTreeSet<_> = runs.iter().map(|(fingerprint, _)| fingerprint).collect();
    let orders: BTreeSet<_> = runs.iter().map(|(_, turns)| turns).collect();
    assert_eq!((logs.len(), orders.len()), (50, 50));
}

#[test]
fn sim_explore_and_find_run_the_seeds_in_order_and_name_the_one_that_fails() {
    let mut seen = Vec::new();
    explore(3..6, |sim| seen.push(sim.seed()));
    assert_eq!(seen, [3, 4, 5]);
    let found = find(0..100, |sim| {
        if sim.seed() == 42 {
            std::panic::resume_unwind(Box::new("the answer"));
        }
    });
    let found = found.unwrap();
    assert_eq!((found.seed, found.text.as_str()), (42, "the answer"));
    assert_eq!(find(0..10, |_| {}), None);
}
