//! How long accepted work waits before it starts, recorded by many threads at once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Threads spread over this many histograms, so that two seldom meet at one lock.
const SHARDS: usize = 16;
/// The longest wait that is told apart from longer ones.
const WAIT_NS_MAX: u64 = 600_000_000_000;
/// Two digits of every wait are kept: an error of at most one in a hundred.
const DIGITS: u8 = 2;

/// A recorder of waits; about half a megabyte, whatever is recorded.
pub(crate) struct Latency {
    shards: [Mutex<Histogram<u64>>; SHARDS],
}

/// The two quantiles that are shown, and of how many waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Quantiles {
    /// How many waits were recorded.
    pub(crate) count: u64,
    /// Half of them were no longer than this.
    pub(crate) p50: Duration,
    /// All but one in a hundred were no longer than this.
    pub(crate) p99: Duration,
}

impl Latency {
    pub(crate) fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::new(empty())) }
    }

    /// Counts one wait.
    pub(crate) fn record(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        lock(&self.shards[shard()]).saturating_record(wait_ns.clamp(1, WAIT_NS_MAX));
    }

    /// The quantiles of all that was recorded so far.
    pub(crate) fn quantiles(&self) -> Quantiles {
        let mut all = empty();
        for shard in &self.shards {
            // Every histogram has the same bounds, so that adding cannot fail.
            let _ = all.add(&*lock(shard));
        }
        let at = |quantile| Duration::from_nanos(all.value_at_quantile(quantile));
        Quantiles { count: all.len(), p50: at(0.5), p99: at(0.99) }
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, WAIT_NS_MAX, DIGITS).expect("bounds of a histogram")
}

fn lock(shard: &Mutex<Histogram<u64>>) -> MutexGuard<'_, Histogram<u64>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shard of this thread.
fn shard() -> usize {
    thread_local! {
        static SHARD: usize = {
            let mut hasher = DefaultHasher::new();
            thread::current().id().hash(&mut hasher);
            (hasher.finish() % SHARDS as u64) as usize
        };
    }
    SHARD.with(|shard| *shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Duration, want_us: f64) -> bool {
        (found.as_secs_f64() * 1e6 / want_us - 1.0).abs() < 0.02
    }

    #[test]
    fn nothing_recorded_is_no_wait() {
        assert_eq!(Latency::new().quantiles(), Quantiles::default());
    }

    #[test]
    fn quantiles_cover_what_all_threads_recorded() {
        let latency = Latency::new();
        thread::scope(|scope| {
            for part in 0..4 {
                let latency = &latency;
                scope.spawn(move || {
                    (0..250).for_each(|at| latency.record(Duration::from_micros(4 * at + part + 1)));
                });
            }
        });
        let found = latency.quantiles();
        assert_eq!(found.count, 1000);
        assert!(near(found.p50, 500.0) && near(found.p99, 990.0), "{found:?}");
    }

    #[test]
    fn extreme_waits_are_counted_too() {
        let latency = Latency::new();
        latency.record(Duration::ZERO);
        latency.record(Duration::MAX);
        assert_eq!(latency.quantiles().count, 2);
    }
}
