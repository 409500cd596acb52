//! An exhaustive search: every state that a world can come to, what must hold in each, and whether each can end.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Instant;

/// A world of machines and what surrounds them.
pub(crate) trait World: Clone + Eq + Hash + Debug {
    /// One thing that can happen.
    type Step: Clone + Debug;

    /// What can happen now.
    fn steps(&self) -> Vec<Self::Step>;

    /// It happens. The error names the clause that this broke.
    fn take(&mut self, step: &Self::Step) -> Result<(), String>;

    /// Nothing is left to do; from every state one of these must be in reach.
    fn is_at_rest(&self) -> bool;
}

/// What a search has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) states: usize,
    pub(crate) steps: usize,
    pub(crate) at_rest: usize,
}

/// Looks at every state that can be reached from `first`, the nearest ones first, so that the way to a fault is a
/// shortest one.
///
/// # Errors
///
/// The fault, and the steps that lead to it.
pub(crate) fn explore<W: World>(first: W, states_max: usize) -> Result<Seen, String> {
    let mut numbers = HashMap::from([(first.clone(), 0_u32)]);
    let mut states = vec![first];
    let mut came_by: Vec<Option<(u32, W::Step)>> = vec![None];
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let (mut next, mut steps) = (0, 0);
    while next < states.len() {
        for step in states[next].steps() {
            steps += 1;
            let mut after = states[next].clone();
            if let Err(fault) = after.take(&step) {
                return Err(format!("{fault}\n{}  {step:?}", way_to(&came_by, next)));
            }
            let number = *numbers.entry(after).or_insert_with_key(|state| {
                states.push(state.clone());
                came_by.push(Some((next as u32, step.clone())));
                before.push(Vec::new());
                states.len() as u32 - 1
            });
            before[number as usize].push(next as u32);
            assert!(
                states.len() <= states_max,
                "the world is larger than {states_max} states: make it smaller"
            );
        }
        next += 1;
    }
    let rests: Vec<u32> = (0..states.len() as u32).filter(|at| states[*at as usize].is_at_rest()).collect();
    match without_end(&before, &rests) {
        Some(at) => Err(format!("this can never end: {:?}\n{}", states[at], way_to(&came_by, at))),
        None => Ok(Seen { states: states.len(), steps, at_rest: rests.len() }),
    }
}

/// A state from which none of `rests` can be reached.
fn without_end(before: &[Vec<u32>], rests: &[u32]) -> Option<usize> {
    let mut can_end = vec![false; before.len()];
    let mut open = rests.to_vec();
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut can_end[at as usize], true) {
            open.extend(&before[at as usize]);
        }
    }
    can_end.iter().position(|can| !can)
}

fn way_to<S: Debug>(came_by: &[Option<(u32, S)>], mut at: usize) -> String {
    let mut way = Vec::new();
    while let Some((from, step)) = &came_by[at] {
        way.push(format!("  {step:?}\n"));
        at = *from as usize;
    }
    way.into_iter().rev().collect()
}

/// Explores and tells what was seen.
pub(crate) fn prove<W: World>(name: &str, first: W) -> Seen {
    let began = Instant::now();
    match explore(first, 5_000_000) {
        Ok(seen) => {
            println!(
                "{name}: {} states, {} steps, {} at rest, {} ms",
                seen.states,
                seen.steps,
                seen.at_rest,
                began.elapsed().as_millis()
            );
            seen
        }
        Err(fault) => panic!("{name}: {fault}"),
    }
}

/// How large a world is: the bound of every day, or the larger one of `TURNKEEP_MODEL=large`.
pub(crate) fn bound(small: u8, large: u8) -> u8 {
    if std::env::var("TURNKEEP_MODEL").is_ok_and(|size| size == "large") { large } else { small }
}

/// Two processes that raise a number by reading and writing it, with a lock or without.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Toy {
    locks: bool,
    holder: Option<usize>,
    number: u8,
    /// Before the lock, with it, with the number read, done.
    at: [u8; 2],
    read: [u8; 2],
    forgets: bool,
}

impl World for Toy {
    type Step = usize;

    fn steps(&self) -> Vec<usize> {
        let can = |who: &usize| match self.at[*who] {
            0 => !self.locks || self.holder.is_none(),
            1 | 2 => true,
            _ => false,
        };
        (0..2).filter(can).collect()
    }

    fn take(&mut self, &who: &usize) -> Result<(), String> {
        match self.at[who] {
            0 => self.holder = Some(who),
            1 => self.read[who] = self.number,
            _ => {
                self.number = self.read[who] + 1;
                if !self.forgets {
                    self.holder = None;
                }
            }
        }
        self.at[who] += 1;
        let done = self.at.iter().filter(|at| **at == 3).count() as u8;
        if self.number < done { Err("an increment is lost".to_owned()) } else { Ok(()) }
    }

    fn is_at_rest(&self) -> bool {
        self.at == [3, 3]
    }
}

fn toy(locks: bool, forgets: bool) -> Toy {
    Toy { locks, holder: None, number: 0, at: [0; 2], read: [0; 2], forgets }
}

#[test]
fn explorer_finds_the_shortest_way_to_a_lost_increment_and_none_with_a_lock() {
    let fault = explore(toy(false, false), 1000).unwrap_err();
    assert!(fault.starts_with("an increment is lost\n"), "{fault}");
    assert_eq!(fault.lines().count(), 1 + 6, "{fault}");
    let seen = explore(toy(true, false), 1000).unwrap();
    assert!(seen.at_rest > 0 && seen.steps >= seen.states - 1, "{seen:?}");
}

#[test]
fn explorer_finds_a_state_that_can_never_end() {
    let fault = explore(toy(true, true), 1000).unwrap_err();
    assert!(fault.starts_with("this can never end"), "{fault}");
}
