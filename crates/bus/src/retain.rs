//! Retained work: values that are kept for later under the root they came from, and batches of direct calls.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::dispatch::Refusal;
use turnkeep_machines::bus::frame::Kind;
use turnkeep_machines::bus::root::Root;

use crate::ambient::{self, Owed, Shared};
use crate::component::{ComponentId, Object};
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::log::Entry;
use crate::reserve::Refused;

/// A value that is kept for later, with the root it came from (KEEP-1). Its destructor runs under that root (KEEP-3).
pub struct Retained<T> {
    /// Taken when it is resumed.
    value: Option<T>,
    root: Root,
    units: u32,
    bytes: u64,
    shared: Arc<Shared>,
}

impl<T> fmt::Debug for Retained<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retained").finish_non_exhaustive()
    }
}

impl<T> Drop for Retained<T> {
    fn drop(&mut self) {
        let around = ambient::enter(self.shared.bus, Some(self.root));
        let Self { value, root, units, bytes, shared } = self;
        let (root, units, bytes) = (*root, *units, *bytes);
        // The root must outlive the destructor, and also be let go if that panics.
        struct LetGo<'a>(&'a Shared, Root, u32, u64);
        impl Drop for LetGo<'_> {
            fn drop(&mut self) {
                self.0.owe(Owed::LetGo(self.1, self.2, self.3));
            }
        }
        let _let_go = LetGo(shared, root, units, bytes);
        drop(value.take());
        drop(around);
    }
}

/// Values that are kept together, each under the root that was active when it came.
pub struct Batch<T> {
    values: Vec<Retained<T>>,
    /// Places that were reserved and are still free.
    free: u32,
    bytes_each: u64,
    shared: Arc<Shared>,
}

impl<T> Drop for Batch<T> {
    fn drop(&mut self) {
        let bytes = u64::from(self.free) * self.bytes_each;
        self.shared.owe(Owed::GiveBack(self.free, bytes));
    }
}

impl<T> fmt::Debug for Batch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("values", &self.values.len())
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}

impl<T> Batch<T> {
    /// Values in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether the batch has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl Core {
    /// A refusal of retained work: counted, and an overflow is latched.
    fn refuse_retained(&mut self, refusal: Refusal) -> Refused {
        let publication = self.open(NONE);
        self.refuse(publication, NONE, refusal, 1);
        self.close(publication);
        refusal.into()
    }

    /// Runs code under a root that the caller holds.
    pub(crate) fn in_chain_of<R>(&mut self, root: Root, work: impl FnOnce(&mut Context<'_>) -> R) -> R {
        self.in_chain(Kind::Chain, root, |core| work(&mut Context::new(core, NONE, NONE)))
    }

    fn in_chain<R>(&mut self, kind: Kind, root: Root, work: impl FnOnce(&mut Self) -> R) -> R {
        let number = self.machine.roots().number(root);
        self.machine.begin_chain(kind, root);
        self.note(|| Entry::ChainOpened { root: number });
        let around = ambient::enter(self.shared.bus, Some(root));
        let result = catch_unwind(AssertUnwindSafe(|| work(self)));
        drop(around);
        self.settle_owed();
        self.note(|| Entry::ChainClosed { root: number });
        let freed = self.machine.end_chain(kind);
        self.on_freed(freed);
        result.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Context<'_> {
    /// Keeps a value that owns `heap_bytes` beyond its size for later, under the active root, or a new one.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit, which faults the bus. The value is dropped then.
    pub fn retain<T>(&mut self, value: T, heap_bytes: usize) -> Result<Retained<T>, Refused> {
        self.retain_paid(value, 1, (size_of::<T>() + heap_bytes) as u64)
    }

    fn retain_paid<T>(&mut self, value: T, units: u32, bytes: u64) -> Result<Retained<T>, Refused> {
        let before = self.core.machine.roots().made();
        let root = self
            .core
            .machine
            .retain(units, bytes, NONE)
            .map_err(|refusal| self.core.refuse_retained(refusal))?;
        self.core.note_roots(before);
        Ok(Retained { value: Some(value), root, units, bytes, shared: self.core.shared.clone() })
    }

    /// The value has grown by so many bytes of heap; it keeps its root.
    ///
    /// # Errors
    ///
    /// As [`retain`](Self::retain); nothing has changed then.
    pub fn grow<T>(&mut self, retained: &mut Retained<T>, heap_bytes: usize) -> Result<(), Refused> {
        let bytes = heap_bytes as u64;
        self.core.machine.grow(0, bytes).map_err(|refusal| self.core.refuse_retained(refusal))?;
        retained.bytes += bytes;
        Ok(())
    }

    /// Runs code under the root of a retained value; the root around it is active again when `work` returns, or
    /// unwinds. It is no delivery (KEEP-1).
    ///
    /// # Panics
    ///
    /// If `work` does, or the value is another bus's.
    pub fn with_chain<T, R>(
        &mut self,
        retained: &Retained<T>,
        work: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        assert!(
            retained.shared.bus == self.core.shared.bus,
            "the value is retained by another bus; use it there"
        );
        let me = self.me();
        self.core.in_chain(Kind::Chain, retained.root, |core| work(&mut Context::new(core, me, NONE)))
    }

    /// Takes a retained value out and has it used under its root.
    ///
    /// # Panics
    ///
    /// As [`with_chain`](Self::with_chain).
    pub fn resume_with<T, R>(
        &mut self,
        mut retained: Retained<T>,
        work: impl FnOnce(&mut Context<'_>, T) -> R,
    ) -> Option<R> {
        let value = retained.value.take();
        let result = self.with_chain(&retained, |ctx| value.map(|value| work(ctx, value)));
        drop(retained);
        self.core.settle_owed();
        result
    }

    /// Reserves places for `places` values, each with `heap_bytes` beyond its size.
    ///
    /// # Errors
    ///
    /// As [`retain`](Self::retain).
    pub fn batch<T>(&mut self, places: u32, heap_bytes: usize) -> Result<Batch<T>, Refused> {
        let bytes_each = (size_of::<T>() + heap_bytes) as u64;
        let bytes = u64::from(places) * bytes_each;
        self.core.machine.take_units(places, bytes).map_err(|refusal| self.core.refuse_retained(refusal))?;
        let values = Vec::with_capacity(places as usize);
        Ok(Batch { values, free: places, bytes_each, shared: self.core.shared.clone() })
    }

    /// Adds a value to a batch, under the active root, or a new one. It takes a reserved place while there is one.
    ///
    /// # Errors
    ///
    /// As [`retain`](Self::retain).
    pub fn add<T>(&mut self, batch: &mut Batch<T>, value: T) -> Result<(), Refused> {
        let reserved = batch.free > 0;
        if reserved {
            // The value pays for itself from here on, with what its place had paid for.
            batch.free -= 1;
            self.core.machine.give_back(1, batch.bytes_each);
        }
        let kept = self.retain_paid(value, 1, batch.bytes_each)?;
        batch.values.push(kept);
        Ok(())
    }

    /// Has each value of a batch used under its own root, in order.
    ///
    /// # Panics
    ///
    /// As [`with_chain`](Self::with_chain); the rest of the batch is dropped then, each under its own root.
    pub fn resume_batch<T>(&mut self, mut batch: Batch<T>, mut work: impl FnMut(&mut Context<'_>, T)) {
        for retained in std::mem::take(&mut batch.values) {
            self.resume_with(retained, &mut work);
        }
        drop(batch);
        self.core.settle_owed();
    }

    /// Calls several components at once, outside the queue, each with a capture of its own: first all captures are
    /// reserved, then built, then access to all components is taken, then they are called in order. If that is
    /// refused or unwinds, access is given up before the captures are dropped (KEEP-2).
    ///
    /// # Errors
    ///
    /// A refusal as for [`retain`](Self::retain), with nothing built; or a component in use or gone, with everything
    /// given back.
    ///
    /// # Panics
    ///
    /// If `build` or `call` does; everything is given back first.
    pub fn invoke<C: 'static, T>(
        &mut self,
        components: &[ComponentId<C>],
        heap_bytes: usize,
        mut build: impl FnMut(usize) -> T,
        mut call: impl FnMut(&mut C, &mut Context<'_>, &T),
    ) -> Result<(), Refused> {
        let units = u32::try_from(components.len()).unwrap_or(u32::MAX);
        let bytes = (size_of::<T>() + heap_bytes) as u64 * u64::from(units);
        self.core.machine.take_units(units, bytes).map_err(|refusal| self.core.refuse_retained(refusal))?;
        self.core.machine.begin_invocation();
        let mut captures = Vec::with_capacity(components.len());
        let core = &mut *self.core;
        let result = catch_unwind(AssertUnwindSafe(|| {
            captures.extend((0..components.len()).map(&mut build));
            core.call_each(components, &captures, &mut call)
        }));
        // Every guard is gone by now; the captures go next, under the root they were built for.
        let around = ambient::enter(self.core.shared.bus, self.core.machine.active());
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(captures)));
        drop(around);
        self.core.machine.give_back(units, bytes);
        self.core.settle_owed();
        let freed = self.core.machine.end_chain(Kind::Invocation);
        self.core.on_freed(freed);
        if self.core.machine.is_outside() {
            self.core.serve_requests();
        }
        match (result, dropped) {
            (Ok(result), Ok(())) => result,
            (Err(panic), _) | (_, Err(panic)) => resume_unwind(panic),
        }
    }
}

impl Core {
    fn call_each<C: 'static, T>(
        &mut self,
        components: &[ComponentId<C>],
        captures: &[T],
        call: &mut impl FnMut(&mut C, &mut Context<'_>, &T),
    ) -> Result<(), Refused> {
        let mut guards = Vec::with_capacity(components.len());
        let mut refused = None;
        for component in components {
            match self.guard(component.key()) {
                Ok(object) => guards.push(object),
                Err(refusal) => {
                    refused = Some(refusal);
                    break;
                }
            }
        }
        let result = if refused.is_some() {
            Ok(())
        } else {
            catch_unwind(AssertUnwindSafe(|| {
                for ((component, object), capture) in components.iter().zip(&mut guards).zip(captures) {
                    let any: &mut dyn Any = object.as_mut();
                    if let Some(state) = any.downcast_mut::<C>() {
                        call(state, &mut Context::new(self, component.key().index, NONE), capture);
                    }
                }
            }))
        };
        for (component, object) in components.iter().zip(guards) {
            let key = component.key();
            self.bring_home(key.index, key.registration, object);
        }
        match (result, refused) {
            (Err(panic), _) => resume_unwind(panic),
            (Ok(()), Some(refusal)) => Err(refusal),
            (Ok(()), None) => Ok(()),
        }
    }

    fn guard(&mut self, key: crate::component::ComponentKey) -> Result<Box<dyn Object>, Refused> {
        self.cell(key).ok_or(Refused::Gone)?;
        self.cells[key.index as usize].object.take().ok_or(Refused::Busy)
    }
}
