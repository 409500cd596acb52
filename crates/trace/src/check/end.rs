//! What only the end shows: nothing is left over.

use super::Checker;
use crate::field::{ObjectId, RecordId};

impl Checker {
    /// The node has ended in order and so has the trace.
    pub(super) fn at_end(&mut self) {
        let mut left: Vec<RecordId> = self.world.records.keys().copied().collect();
        left.sort_unstable();
        for id in left {
            let Some(record) = self.world.records.get(&id) else { continue };
            let (accepted, last) = (record.accepted.clone(), record.last.clone());
            let text = format!("record {id} of {} was never run nor told", self.world.name(record.object));
            self.now = None;
            self.broken("LANE-7", text, [Some(&accepted), Some(&last)]);
        }
        let mut objects: Vec<ObjectId> = self.world.objects.keys().copied().collect();
        objects.sort_unstable();
        for id in objects {
            let Some(object) = self.world.objects.get(&id) else { continue };
            let (claim, owed, name) =
                (object.claim.clone(), object.owed_completion.clone(), object.name.clone());
            if claim.is_some() && object.yielded.is_empty() {
                self.broken("YIELD-10", format!("the claim of {name} was never released"), [claim.as_ref()]);
            }
            if owed.is_some() {
                let text = format!("a Join of {name} is over without its completion callback");
                self.broken("JOIN-4", text, [owed.as_ref()]);
            }
        }
    }
}
