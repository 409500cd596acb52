//! Flow ids: which work belongs together. Work made in a turn is in that turn's flow, other work starts one.

use turnkeep_scheduler::ambient::with_turn;
use turnkeep_scheduler::numbers::fresh;

/// The flow of work that the running code makes.
pub(crate) fn flow() -> u64 {
    match with_turn(|turn| turn.map_or(0, |turn| turn.flow())) {
        0 => fresh(),
        flow => flow,
    }
}
