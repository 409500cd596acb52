//! The comparison: many seeds, all workers, wide and narrow lanes; a failure is made smaller and says how to repeat it.

use std::fs::File;

use turnkeep::trace::check;

use super::scenario::{Scenario, scenario};
use super::{node, runtime};

/// How many runs a removed call must still fail in, at most, to count: what fails now and then is tried again.
const TRIES: usize = 5;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Whether the node and the reference differ, and how.
async fn differs(scenario: &Scenario, workers: usize, records: u32) -> Option<String> {
    let (expected, found) = (runtime::run(scenario), node::run(scenario, workers, records, None).await);
    if expected == found {
        return None;
    }
    let told = expected.told.iter().zip(&found.told).enumerate().flat_map(|(client, (wanted, got))| {
        let differ = wanted.iter().zip(got).enumerate().filter(|(_, (wanted, got))| wanted != got);
        differ.map(move |(at, (wanted, got))| {
            format!("client {client}, call {at}: {got:?} in place of {wanted:?}")
        })
    });
    let first = told.take(3).collect::<Vec<_>>().join("\n");
    Some(format!("{first}\nleft {:?}\nin place of {:?}", found.left, expected.left))
}

/// Leaves out what is not needed for the difference.
async fn shrink(mut scenario: Scenario, workers: usize, records: u32) -> Scenario {
    for client in 0..scenario.len() {
        let mut at = 0;
        while at < scenario[client].len() {
            let mut smaller = scenario.clone();
            smaller[client].remove(at);
            let mut still = false;
            for _ in 0..TRIES {
                still |= differs(&smaller, workers, records).await.is_some();
            }
            if still {
                scenario = smaller;
            } else {
                at += 1;
            }
        }
    }
    scenario
}

async fn compare(seeds: std::ops::Range<u64>, length: u64) {
    let seeds = variable("TURNKEEP_SEED").map_or(seeds, |seed| seed..seed + 1);
    for seed in seeds {
        let scenario = scenario(seed, length);
        for (workers, records) in [(1, 1024), (2, 1024), (8, 1024), (1, 1), (2, 2), (8, 1)] {
            let Some(difference) = differs(&scenario, workers, records).await else { continue };
            let small = shrink(scenario, workers, records).await;
            panic!(
                "seed {seed}, {workers} workers, lane {records}: {difference}\nthe calls that it takes: {small:#?}\n\
                 repeat: TURNKEEP_SEED={seed} cargo test -p turnkeep --test reference prop_done_1"
            );
        }
    }
}

#[tokio::test]
async fn prop_done_1_gate_8_join_11_a_node_tells_every_client_what_the_reference_tells() {
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("on purpose") {
            eprintln!("{panic}");
        }
    }));
    compare(0..variable("TURNKEEP_SEEDS").unwrap_or(30), 40).await;
}

#[tokio::test]
async fn prop_stat_3_the_trace_of_a_scenario_is_clean() {
    for seed in 100..100 + variable("TURNKEEP_SEEDS").unwrap_or(5) {
        let path = std::env::temp_dir().join(format!("turnkeep-prop-{}-{seed}.trace", std::process::id()));
        let scenario = scenario(seed, 60);
        for (workers, records) in [(1, 2), (2, 1024), (8, 1)] {
            let found = node::run(&scenario, workers, records, Some(&path)).await;
            assert_eq!(found, runtime::run(&scenario), "seed {seed}");
            let (report, _) = check(File::open(&path).unwrap()).unwrap();
            assert!(report.is_clean() && report.to_the_end, "seed {seed}: {:#?}", report.findings.first());
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// The comparison can fail: a reference that forgets one call of one client is told apart, and made small.
#[tokio::test]
async fn reference_a_difference_is_found_and_made_small() {
    use super::scenario::Op;
    let mut one = scenario(1, 10);
    one[0].push(Op::Ask("wide 0".to_owned(), 5));
    let mut other = one.clone();
    other[0].push(Op::Ask("wide 0".to_owned(), 5));
    assert_ne!(runtime::run(&one), node::run(&other, 2, 1024, None).await);
    assert!(differs(&one, 2, 1024).await.is_none());
}
