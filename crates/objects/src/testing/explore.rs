//! Running a test with many seeds.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::sim::Sim;
use crate::caught::text_of;

/// The environment variable that has [`explore`] and [`find`] run one seed only.
pub const SEED_VARIABLE: &str = "TURNKEEP_SEED";

/// Runs `test` once for each seed, each time with a Sim of its own.
///
/// With the variable [`SEED_VARIABLE`] set to a number, that seed alone is run: so a failure of a test in CI is
/// repeated without changing it.
///
/// # Panics
///
/// With the first panic of `test`; then the seed and the last events are printed to standard error.
pub fn explore(seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(&Sim)) {
    match chosen() {
        Some(seed) => test(&Sim::new(seed)),
        None => seeds.into_iter().for_each(|seed| test(&Sim::new(seed))),
    }
}

/// Runs `test` once for each seed until it panics, and returns that seed; `None` if all went well. The variable
/// [`SEED_VARIABLE`] counts as for [`explore`].
pub fn find(seeds: impl IntoIterator<Item = u64>, mut test: impl FnMut(&Sim)) -> Option<Found> {
    let mut failure = |seed| {
        let run = AssertUnwindSafe(|| test(&Sim::new(seed)));
        catch_unwind(run).err().map(|panic| Found { seed, text: text_of(&*panic) })
    };
    match chosen() {
        Some(seed) => failure(seed),
        None => seeds.into_iter().find_map(failure),
    }
}

fn chosen() -> Option<u64> {
    std::env::var(SEED_VARIABLE).ok()?.trim().parse().ok()
}

/// A seed with which a test fails.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The text of the panic.
    pub text: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it fails with seed {}: {}", self.seed, self.text)
    }
}
