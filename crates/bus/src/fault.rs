//! What is told about a fault of the bus, and about failures that fault only their component.

use std::fmt;
use std::sync::Arc;

pub use turnkeep_machines::bus::fault::Kind as FaultKind;

/// The first fault of a bus, told in full (FAULT-3).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultReport {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// The component or callable in whose work it came up.
    pub component: Option<Arc<str>>,
    /// The topic of the event that was at work.
    pub topic: Option<Arc<str>>,
    /// The publication's ordinal.
    pub publication: Option<u64>,
    /// The slot's admission ordinal.
    pub admission: Option<u64>,
    /// The number of the root.
    pub root: Option<u64>,
    /// The topic with which the root began.
    pub origin: Option<Arc<str>>,
    /// Deliveries that the root has paid for.
    pub deliveries: u64,
    /// Slots in the queue.
    pub depth: u32,
    /// What happened, in words: a panic's text, a limit, the topics that repeat.
    pub detail: String,
}

impl FaultReport {
    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self.kind {
            FaultKind::Overflow => {
                "publish less at once, or raise the bus's limits; then tear down and start again"
            }
            FaultKind::Runaway => {
                "find the callbacks that answer each other without end, or raise the root's limit; then tear down"
            }
            FaultKind::Stalled => "give the component's access up before the bus drains; then tear down",
            FaultKind::Panicked | FaultKind::Unwound => {
                "mend the code that panicked; then tear down and start again"
            }
            FaultKind::Failed => {
                "mend the callback that failed, or set another reaction to failures; then tear down"
            }
        }
    }
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kind {
            FaultKind::Overflow => "overflow",
            FaultKind::Runaway => "runaway",
            FaultKind::Stalled => "stalled",
            FaultKind::Panicked => "panic",
            FaultKind::Unwound => "panic through a publication",
            FaultKind::Failed => "failed callback",
        };
        write!(f, "bus fault, {word}: {}", self.detail)?;
        if let Some(component) = &self.component {
            write!(f, "; component {component}")?;
        }
        if let Some(topic) = &self.topic {
            write!(f, "; topic {topic}")?;
        }
        if let (Some(publication), Some(admission)) = (self.publication, self.admission) {
            write!(f, "; ordinal {publication}/{admission}")?;
        }
        if let Some(root) = self.root {
            write!(f, "; root {root}")?;
        }
        if let Some(origin) = &self.origin {
            write!(f, " that began with {origin}")?;
        }
        write!(f, "; {} deliveries so far, {} in the queue; {}", self.deliveries, self.depth, self.advice())
    }
}

impl std::error::Error for FaultReport {}

/// A callback that failed, and what that led to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureReport {
    /// The component.
    pub component: Arc<str>,
    /// What it was doing: a topic, an address, a lifecycle callback, a command.
    pub during: Arc<str>,
    /// What its error says.
    pub text: String,
    /// What the failure led to.
    pub led_to: crate::component::OnFailure,
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed at {}: {}", self.component, self.during, self.text)
    }
}

/// The text of a panic.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&'static str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).into(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a text".into(),
    }
}
