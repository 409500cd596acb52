//! Where ids live: the seam through which a node asks whether it may own an object.

use crate::id::ObjectKind;

/// Confirms and gives back the ownership of ids.
///
/// The node calls it in the infrastructure domain, while it holds the entry of that id in its directory: it
/// must not block, and calls to objects from it are refused with `InvalidOperation` (DOM-2).
pub trait Locate: Send + Sync + 'static {
    /// May this node make the object of that id? Called before its factory runs.
    ///
    /// # Errors
    ///
    /// Why not; the creation ends with `Unavailable` and this text.
    fn claim(&self, kind: ObjectKind, id: &str) -> Result<(), String>;

    /// The object of that id has ended.
    fn release(&self, kind: ObjectKind, id: &str);
}

/// One process: every id is this node's.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InProcess;

impl Locate for InProcess {
    fn claim(&self, _: ObjectKind, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn release(&self, _: ObjectKind, _: &str) {}
}
