//! The erased state of an object: one allocation, its type, and how it is dropped.

use std::any::{Any, TypeId};
use std::ptr::NonNull;

/// A value of a type only its user knows.
#[derive(Debug)]
pub(crate) struct State {
    value: NonNull<()>,
    type_id: TypeId,
    drop: unsafe fn(NonNull<()>),
}

// SAFETY: only values of `Send` types are put in, and the value is reached only through the one who has the
// `State` to itself (the holder of the gate).
unsafe impl Send for State {}

impl State {
    pub(crate) fn new<T: Any + Send>(value: T) -> Self {
        unsafe fn drop_as<T>(value: NonNull<()>) {
            // SAFETY: called once, by `State::drop`, with the pointer that `Box::into_raw` gave for a `T`.
            drop(unsafe { Box::from_raw(value.cast::<T>().as_ptr()) });
        }
        let value = NonNull::from(Box::leak(Box::new(value))).cast();
        Self { value, type_id: TypeId::of::<T>(), drop: drop_as::<T> }
    }

    /// A pointer to the value, if it is a `T`. Using it is the caller's argument.
    pub(crate) fn pointer<T: Any>(&self) -> Option<NonNull<T>> {
        (self.type_id == TypeId::of::<T>()).then_some(self.value.cast())
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the pointer is ours since `new`, and this runs once.
        unsafe { (self.drop)(self.value) };
    }
}
