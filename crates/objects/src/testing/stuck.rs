//! Why a driven run cannot go on: who waits for what, in words.

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use turnkeep_scheduler::owner::{Identity, Owner};
use turnkeep_scheduler::waits;

use crate::id::ObjectKind;
use crate::node::NodeInner;
use crate::object::object_of;

/// How many objects a report names.
const NAMED_MAX: usize = 100;

/// What kind of standstill it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Why {
    /// Nothing is ready and nobody waits for a moment: what is waited for never comes.
    NothingReady,
    /// The time was moved on 100,000 times and nothing but the test's own future ever ran.
    OnlyTime,
    /// More steps than the Sim allows, and still not at the end.
    Endless,
}

/// A run that cannot end. Printed, it says who waits for what, and the seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    why: Why,
    waits: String,
    repeat: String,
}

impl Stuck {
    pub(super) fn new(why: Why, waits: String, repeat: String) -> Self {
        Self { why, waits, repeat }
    }

    /// What kind of standstill it is.
    #[must_use]
    pub fn why(&self) -> Why {
        self.why
    }

    /// Who waits for what: one line for each object with a handler that has begun and not ended.
    #[must_use]
    pub fn waits(&self) -> &str {
        &self.waits
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Why::NothingReady => "the run is stuck: nothing is ready, and nobody waits for a moment in time",
            Why::OnlyTime => "the run is stuck: time passes, and no object takes a turn",
            Why::Endless => "the run does not end: it has made more steps than the Sim allows",
        })?;
        if self.waits.is_empty() {
            f.write_str("\nno handler waits; the test's own future waits for something else")?;
        } else {
            write!(f, "\n{}", self.waits.trim_end())?;
        }
        write!(f, "\n{}", self.repeat)
    }
}

impl std::error::Error for Stuck {}

/// Who waits for what on these nodes, in the order in which the objects were made.
pub(super) fn waits(nodes: &[Arc<NodeInner>]) -> String {
    let mut text = String::new();
    let all = nodes.iter().flat_map(owners);
    for owner in all.filter(|owner| owner.suspended() > 0).take(NAMED_MAX) {
        // Writing to a string does not fail.
        let _ = describe(&mut text, &owner);
    }
    text
}

fn owners(node: &Arc<NodeInner>) -> Vec<Arc<Owner>> {
    let kinds = [ObjectKind::Spot, ObjectKind::Actor, ObjectKind::NodeHandler, ObjectKind::ChannelHandler];
    kinds.iter().flat_map(|kind| node.directory.all(*kind)).chain(node.tasks.all()).collect()
}

fn describe(text: &mut String, owner: &Owner) -> fmt::Result {
    let (name, waits) = (object_of(owner).name(), waits::of(owner));
    for (target, keeps) in &waits {
        let gate = if *keeps { "keeps its gate" } else { "has given its gate up" };
        writeln!(text, "{name} waits for {} and {gate}", object_of(target).name())?;
    }
    match owner.suspended().saturating_sub(waits.len()) {
        0 => Ok(()),
        1 => writeln!(text, "{name} waits for something that is no object"),
        count => writeln!(text, "{name}: {count} handlers wait for something that is no object"),
    }
}
