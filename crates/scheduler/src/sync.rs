//! The one loom switch: every atomic, cell and lock of this crate's protocols comes from here.

#[cfg(turnkeep_loom)]
pub(crate) use self::model::*;
#[cfg(not(turnkeep_loom))]
pub(crate) use self::real::*;

#[cfg(not(turnkeep_loom))]
mod real {
    pub(crate) use std::sync::atomic;

    pub(crate) use parking_lot::Mutex;

    /// `std::cell::UnsafeCell` with the access shape that loom checks.
    #[derive(Debug, Default)]
    #[repr(transparent)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

#[cfg(turnkeep_loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    #[cfg(test)]
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic;

    /// loom's lock with the shape of parking_lot's.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            match self.0.lock() {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            }
        }
    }
}
