//! Random scenarios, each with many seeds: no clause is broken in any order.

use turnkeep::testing::{Sim, explore};

use crate::world::{CALM, Traits, WILD, World};

/// How many scenarios and seeds a run tries: a number, or what the environment says.
fn many(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn scenarios(count: u64, traits: Traits, check: impl Fn(&World, &Sim)) {
    let first = many("TURNKEEP_SCENARIO", 0);
    for scenario in first..first + many("TURNKEEP_SCENARIOS", count) {
        explore(0..many("TURNKEEP_SEEDS", 20), |sim| {
            let world = World::new(traits);
            world.play(sim, scenario);
            check(&world, sim);
            let faults = std::mem::take(&mut world.seen().faults);
            assert!(faults.is_empty(), "scenario {scenario}, seed {}: {faults:#?}", sim.seed());
        });
    }
}

#[test]
fn sim_gate_1_gate_8_done_1_hold_in_wild_scenarios() {
    scenarios(200, WILD, |_, _| {});
}

#[test]
fn sim_wild_scenarios_with_wide_lanes() {
    scenarios(40, Traits { lane: 1000, ..WILD }, |_, _| {});
}

#[test]
fn sim_lane_6_in_calm_scenarios_with_narrow_lanes_whoever_waits_gets_room() {
    scenarios(40, Traits { lane: 1, ..CALM }, is_calm);
}

#[test]
fn sim_join_6_reent_5_in_calm_scenarios_with_moves_nothing_is_lost() {
    scenarios(40, Traits { joins: true, ..CALM }, is_calm);
}

/// Not calm: a wait for room behind yielded handlers may close a circle, which its timeout opens again: scenario 0 with
/// seed 12 has one, of two handlers that wait for an Actor about to join the Spot that waits for their room.
#[test]
fn sim_join_6_in_scenarios_with_moves_and_narrow_lanes_all_ends() {
    scenarios(40, Traits { joins: true, lane: 2, ..CALM }, |_, _| {});
}

#[test]
fn sim_done_1_in_calm_scenarios_everything_is_handled_and_no_time_passes() {
    scenarios(40, CALM, is_calm);
}

/// Asks go everywhere and close circles: each is refused, so no time passes.
const CIRCLES: Traits = Traits { ranked: false, ..CALM };

#[test]
fn sim_reent_5_circles_of_asks_are_never_left_to_a_deadline() {
    scenarios(30, CIRCLES, no_time_passes);
}

#[test]
fn sim_reent_5_circles_through_moving_actors_are_never_left_to_a_deadline() {
    scenarios(30, Traits { joins: true, ..CIRCLES }, no_time_passes);
}

fn no_time_passes(world: &World, sim: &Sim) {
    let mut seen = world.seen();
    let lost = seen.count("DeadlineExceeded");
    if lost > 0 || sim.elapsed().as_secs() > 0 {
        let text = format!("{lost} calls were lost in {:?}: {:?}", sim.elapsed(), seen.answers);
        seen.faults.push(text);
    }
}

/// Every call was handled, and nobody waited for a deadline.
fn is_calm(world: &World, sim: &Sim) {
    let mut seen = world.seen();
    let lost = seen.count("DeadlineExceeded");
    if lost > 0 {
        seen.faults.push(format!("{lost} calls were lost"));
    }
    if sim.elapsed().as_secs() > 0 {
        seen.faults.push(format!("{:?} went by", sim.elapsed()));
    }
    let expected = seen.accepted_sends + seen.count("answered") + seen.count("failed");
    if seen.handled != expected {
        let text = format!("{} handled, {expected} accepted: {:?}", seen.handled, seen.answers);
        seen.faults.push(text);
    }
}
