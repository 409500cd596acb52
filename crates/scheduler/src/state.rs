//! The erased state of an object: one allocation, its type, and how it is dropped.

use std::any::{Any, TypeId};
use std::ptr::NonNull;

/// A value of a type only its user knows.
#[derive(Debug)]
pub(crate) struct State {
    value: NonNull<()>,
    table: &'static Table,
}

/// What is known of a type of state.
#[derive(Debug)]
struct Table {
    type_id: fn() -> TypeId,
    drop: unsafe fn(NonNull<()>),
}

struct TableOf<T>(T);

impl<T: Any + Send> TableOf<T> {
    const TABLE: Table = Table { type_id: TypeId::of::<T>, drop: Self::drop };

    unsafe fn drop(value: NonNull<()>) {
        // SAFETY: called once, by `State::drop`, with the pointer that `Box::leak` gave for a `T`.
        drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
    }
}

// SAFETY: only values of `Send` types are put in, and the value is reached only through the one who has the
// `State` to itself (the holder of the gate).
unsafe impl Send for State {}

impl State {
    pub(crate) fn new<T: Any + Send>(value: T) -> Self {
        let value = NonNull::from(Box::leak(Box::new(value))).cast();
        Self { value, table: &TableOf::<T>::TABLE }
    }

    /// A pointer to the value, if it is a `T`. Using it is the caller's argument.
    pub(crate) fn pointer<T: Any>(&self) -> Option<NonNull<T>> {
        ((self.table.type_id)() == TypeId::of::<T>()).then_some(self.value.cast())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the pointer is ours since `new`, and this runs once.
        unsafe { (self.table.drop)(self.value) };
    }
}
