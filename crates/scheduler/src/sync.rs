//! The one loom switch: every atomic, cell and lock of this crate's protocols comes from here.

#[cfg(turnkeep_loom)]
pub(crate) use self::model::*;
#[cfg(not(turnkeep_loom))]
pub(crate) use self::real::*;

#[cfg(not(turnkeep_loom))]
mod real {
    #[cfg(test)]
    pub(crate) use super::counted::{Mutex, atomic};
    #[cfg(not(test))]
    pub(crate) use parking_lot::Mutex;
    #[cfg(not(test))]
    pub(crate) use std::sync::atomic;

    /// Another thread will be done in a moment.
    pub(crate) fn pause() {
        std::thread::yield_now();
    }

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

/// Atomics and locks that count what this thread does with them, for the unit tests of this crate.
#[cfg(all(test, not(turnkeep_loom)))]
pub(crate) mod counted {
    use std::cell::Cell;

    thread_local! {
        static EXCHANGES: Cell<u64> = const { Cell::new(0) };
        static LOCKS: Cell<u64> = const { Cell::new(0) };
    }

    /// How many read-modify-writes and how many locks `run` costs this thread.
    pub(crate) fn cost_of<R>(run: impl FnOnce() -> R) -> (R, u64, u64) {
        let before = (EXCHANGES.get(), LOCKS.get());
        let result = run();
        (result, EXCHANGES.get() - before.0, LOCKS.get() - before.1)
    }

    fn exchange() {
        EXCHANGES.set(EXCHANGES.get() + 1);
    }

    /// parking_lot's lock, counted.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
            LOCKS.set(LOCKS.get() + 1);
            self.0.lock()
        }
    }

    /// The standard atomics, counted.
    #[allow(dead_code, reason = "the whole shape of the atomics, whatever of it is used today")]
    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{Ordering, fence};

        use super::exchange;

        macro_rules! counted {
            ($($name:ident $(<$t:ident>)?: $value:ty { $($fetch:ident)* };)*) => {$(
                #[derive(Debug, Default)]
                #[repr(transparent)]
                pub(crate) struct $name $(<$t>)? (std::sync::atomic::$name $(<$t>)?);

                impl $(<$t>)? $name $(<$t>)? {
                    pub(crate) const fn new(value: $value) -> Self {
                        Self(std::sync::atomic::$name::new(value))
                    }
                    pub(crate) fn load(&self, order: Ordering) -> $value {
                        self.0.load(order)
                    }
                    pub(crate) fn store(&self, value: $value, order: Ordering) {
                        self.0.store(value, order);
                    }
                    pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                        exchange();
                        self.0.swap(value, order)
                    }
                    pub(crate) fn compare_exchange(
                        &self, from: $value, to: $value, good: Ordering, bad: Ordering,
                    ) -> Result<$value, $value> {
                        exchange();
                        self.0.compare_exchange(from, to, good, bad)
                    }
                    pub(crate) fn compare_exchange_weak(
                        &self, from: $value, to: $value, good: Ordering, bad: Ordering,
                    ) -> Result<$value, $value> {
                        exchange();
                        self.0.compare_exchange_weak(from, to, good, bad)
                    }
                    $(pub(crate) fn $fetch(&self, value: $value, order: Ordering) -> $value {
                        exchange();
                        self.0.$fetch(value, order)
                    })*
                }
            )*};
        }

        counted! {
            AtomicBool: bool { fetch_and fetch_or };
            AtomicU8: u8 { fetch_add fetch_sub fetch_and fetch_or };
            AtomicU32: u32 { fetch_add fetch_sub fetch_and fetch_or };
            AtomicU64: u64 { fetch_add fetch_sub fetch_and fetch_or fetch_max };
            AtomicUsize: usize { fetch_add fetch_sub fetch_and fetch_or };
            AtomicPtr<T>: *mut T { };
        }
    }
}

#[cfg(turnkeep_loom)]
mod model {
    pub(crate) use loom::cell::UnsafeCell;
    #[cfg(test)]
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic;
    pub(crate) use loom::thread::yield_now as pause;

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
