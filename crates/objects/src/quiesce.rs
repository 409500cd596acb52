//! Waiting until no accepted work is left: two sums of counters that only grow, looked at now and then.
//!
//! The sums prove quiescence (see [`turnkeep_scheduler::counters`]); no turn pays for telling that it was the
//! last. So the wait looks at them every millisecond; on a driven node, whose time jumps, less and less often.

use std::sync::Arc;

use turnkeep_scheduler::deadline::sleep_until;
use turnkeep_scheduler::owner::Count;
use turnkeep_scheduler::ticks;

use crate::call::is_turn_of;
use crate::error::{Error, ErrorKind};
use crate::node::NodeInner;

const LOOK_EVERY_NS: u64 = 1_000_000;
/// A driven node, whose time costs nothing to wait for, is looked at whenever this share of the wait has gone by.
const DRIVEN_SHARE: u64 = 64;

/// Whether nothing accepted was unfinished at one moment of this call.
pub(crate) fn is_quiet(node: &NodeInner) -> bool {
    let finished = node.counters.sum(Count::Finished as usize);
    let accepted = node.counters.sum(Count::Accepted as usize);
    finished == accepted
}

/// Waits for that moment.
pub(crate) async fn quiesce(node: Arc<NodeInner>) -> Result<(), Error> {
    if is_turn_of(&node) {
        let text = "a turn of the node would wait for its own end; wait from outside";
        return Err(Error::new(ErrorKind::InvalidOperation, "node", "quiesce", text));
    }
    let (began_ns, is_driven) = (ticks::now(), node.pool.driver().is_some());
    while !is_quiet(&node) {
        let waited_ns = if is_driven { ticks::now() - began_ns } else { 0 };
        sleep_until(ticks::after(LOOK_EVERY_NS.max(waited_ns / DRIVEN_SHARE))).await;
    }
    Ok(())
}
