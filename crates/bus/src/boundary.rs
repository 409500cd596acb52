//! The safe boundary: a value that only a run loop makes, and the only way to deliver.

use std::fmt;
use std::ops::{Deref, DerefMut};

use turnkeep_machines::bus::drain::Hindrance;

use crate::command::QueueKind;
use crate::component::{Component, ComponentId, ComponentKey, Object};
use crate::context::AccessError;
use crate::core::Core;
use crate::deliver::Drained;
use crate::fault::FaultReport;

/// Proof that nothing on this thread borrows the bus: a run loop makes it between two pieces of work, and it borrows
/// the whole bus while it lives (DRAIN-4).
pub struct Boundary<'a> {
    core: &'a mut Core,
}

impl fmt::Debug for Boundary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boundary").finish_non_exhaustive()
    }
}

/// Why a teardown was refused. It may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bus cannot be torn down: {hindrance:?} is still alive; end it and try again")]
pub struct TeardownError {
    /// What is still alive.
    pub hindrance: Hindrance,
}

impl<'a> Boundary<'a> {
    pub(crate) fn new(core: &'a mut Core) -> Self {
        Self { core }
    }

    /// Delivers from the head of the queue until `budget` slots are delivered or cancelled, or something is in the
    /// way. A budget of 0 only reports (DRAIN-1).
    pub fn drain(&mut self, budget: u32) -> Drained {
        self.core.drain(budget)
    }

    /// Handles the commands of that kind that wait now, one batch a queue; how many (CMD-2).
    ///
    /// # Panics
    ///
    /// If a handler does; the rest of its batch has been destroyed then (CMD-5).
    pub fn drain_commands(&mut self, kind: QueueKind) -> u64 {
        self.core.drain_commands(kind)
    }

    /// Destroys all commands unhandled, each under its own root; how many.
    pub fn discard_commands(&mut self) -> u64 {
        self.core.drop_commands()
    }

    /// Gives up everything that is queued, without delivering it, and forgets the fault; what the fault was. The
    /// components stay, and the bus can be used again (FAULT-4).
    ///
    /// # Errors
    ///
    /// What is still alive: a publication, a reservation, retained work, access to a component, a queued command
    /// that holds a root. Nothing has changed then.
    pub fn teardown(&mut self) -> Result<Option<FaultReport>, TeardownError> {
        self.core.settle_owed();
        let report = self.core.machine.fault().cloned();
        self.core.machine.begin_teardown().map_err(|hindrance| TeardownError { hindrance })?;
        self.core.tear_down();
        Ok(report)
    }
}

/// Exclusive access to a component from outside. While it lives, nothing is delivered.
pub struct Access<'a, C: Component> {
    core: &'a mut Core,
    key: ComponentKey,
    /// Taken at the end.
    object: Option<Box<C>>,
}

impl<C: Component> fmt::Debug for Access<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<'a, C: Component> Access<'a, C> {
    pub(crate) fn new(core: &'a mut Core, id: ComponentId<C>) -> Result<Self, AccessError> {
        let key = id.key();
        let cell = core.cell(key).ok_or(AccessError::Gone)?;
        let name = cell.name.clone();
        let object: Box<dyn Object> =
            core.cells[key.index as usize].object.take().ok_or(AccessError::Busy { name: name.clone() })?;
        let any: &dyn std::any::Any = object.as_ref();
        if !any.is::<C>() {
            core.bring_home(key.index, key.registration, object);
            return Err(AccessError::Type { name });
        }
        let any: Box<dyn std::any::Any> = object;
        core.machine.on_access();
        Ok(Self { core, key, object: any.downcast().ok() })
    }
}

impl<C: Component> Drop for Access<'_, C> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            self.core.bring_home(self.key.index, self.key.registration, object);
        }
        self.core.machine.on_access_end();
    }
}

impl<C: Component> Deref for Access<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        match &self.object {
            Some(object) => object,
            None => unreachable!("COMP-1: the component is there until the access ends"),
        }
    }
}

impl<C: Component> DerefMut for Access<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        match &mut self.object {
            Some(object) => object,
            None => unreachable!("COMP-1: the component is there until the access ends"),
        }
    }
}
