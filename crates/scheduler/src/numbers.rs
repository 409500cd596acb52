//! Numbers that the process never gives twice, cheap to take: a thread takes a block of them at a time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many numbers a thread takes at a time.
const BLOCK: u64 = 1024;

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The thread's block of unused numbers: the next one, and the end. It belongs to no turn.
    static BLOCK_OF_THREAD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// A number nobody has had; never 0.
#[must_use]
pub fn fresh() -> u64 {
    BLOCK_OF_THREAD
        .try_with(|block| {
            let (next, end) = block.get();
            let next = if next == end { NEXT.fetch_add(BLOCK, Ordering::Relaxed) } else { next };
            let end = if next + 1 > end { next + BLOCK } else { end };
            block.set((next + 1, end));
            next
        })
        .unwrap_or_else(|_| NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn err_2_flow_ids_are_never_given_twice() {
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..5000).map(|_| fresh()).collect::<Vec<_>>())).collect();
        let all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 20_000);
    }
}
