//! Small blocks that come and go with every message: each thread keeps a few of those it has given back.
//!
//! A block that is given back on another thread than the one that took it stays there, up to a bound, and goes to the
//! allocator beyond it: so nothing here grows with time, and nothing is shared.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// Sizes are rounded up to a multiple of this.
const STEP: usize = 64;
/// How many sizes are kept.
const CLASSES: usize = 5;
/// How many blocks of a size a thread keeps: none where a sanitizer is to see each use of one that was given back.
const KEPT_MAX: u32 = if cfg!(turnkeep_asan) { 0 } else { 128 };
/// No stricter alignment is kept.
const ALIGN_MAX: usize = 16;

/// A block that is kept: the first word of its memory.
struct Free {
    next: *mut Free,
}

/// The blocks of one size.
struct Class {
    first: Cell<*mut Free>,
    kept: Cell<u32>,
}

struct Kept([Class; CLASSES]);

thread_local! {
    /// Memory that nobody uses. It belongs to no turn.
    static KEPT: Kept = const {
        Kept([const { Class { first: Cell::new(ptr::null_mut()), kept: Cell::new(0) } }; CLASSES])
    };
}

impl Class {
    fn pop(&self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first.get())?;
        // SAFETY: a kept block is alive, ours alone, and `push` wrote its first word.
        self.first.set(unsafe { first.as_ref() }.next);
        self.kept.set(self.kept.get() - 1);
        Some(first.cast())
    }

    /// `false`: enough are kept already.
    ///
    /// # Safety
    ///
    /// The block has the size of this class, and the caller gives it up.
    unsafe fn push(&self, block: NonNull<u8>) -> bool {
        if self.kept.get() >= KEPT_MAX {
            return false;
        }
        let block = block.cast::<Free>().as_ptr();
        // SAFETY: every class is larger than a word and aligned for one; the block is ours by this contract.
        unsafe { block.write(Free { next: self.first.get() }) };
        self.first.set(block);
        self.kept.set(self.kept.get() + 1);
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for (number, class) in self.0.iter().enumerate() {
            while let Some(block) = class.pop() {
                // SAFETY: allocated with the layout of its class, and popped.
                unsafe { dealloc(block.as_ptr(), layout_of(number)) };
            }
        }
    }
}

/// Which class a value of that layout belongs to, if any. Known when this is compiled.
const fn class_of(layout: Layout) -> Option<usize> {
    let fits = layout.size() > 0 && layout.size() <= STEP * CLASSES && layout.align() <= ALIGN_MAX;
    if fits { Some(layout.size().div_ceil(STEP) - 1) } else { None }
}

const fn layout_of(class: usize) -> Layout {
    match Layout::from_size_align((class + 1) * STEP, ALIGN_MAX) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

/// A value in a block of its own, as `Box::leak(Box::new(value))` gives one. It goes back by [`take`].
#[inline]
pub(crate) fn leak<T>(value: T) -> NonNull<T> {
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        return NonNull::from(Box::leak(Box::new(value)));
    };
    let kept = KEPT.try_with(|kept| kept.0[class].pop()).ok().flatten();
    let block = kept.unwrap_or_else(|| allocate(class)).cast::<T>();
    // SAFETY: the block is ours alone, and its class is of a size and an alignment that hold a `T`.
    unsafe { block.as_ptr().write(value) };
    block
}

#[cold]
fn allocate(class: usize) -> NonNull<u8> {
    let layout = layout_of(class);
    // SAFETY: no class has size zero.
    let block = unsafe { alloc(layout) };
    NonNull::new(block).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Takes a value out of its block, which is given back.
///
/// # Safety
///
/// The pointer came from [`leak`], and is used once.
#[inline]
pub(crate) unsafe fn take<T>(block: NonNull<T>) -> T {
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        // SAFETY: a `T` without a class is in a `Box`.
        return *unsafe { Box::from_raw(block.as_ptr()) };
    };
    // SAFETY: the value is there, and moves out once.
    let value = unsafe { block.as_ptr().read() };
    // SAFETY: nothing is left in the block.
    unsafe { give_back(block.cast(), class) };
    value
}

/// Drops a value where it is and gives its block back.
///
/// # Safety
///
/// As for [`take`].
pub(crate) unsafe fn discard<T>(block: NonNull<T>) {
    /// Gives the block back also if the drop panics.
    struct Empty(NonNull<u8>, usize);
    impl Drop for Empty {
        fn drop(&mut self) {
            // SAFETY: the value has been dropped, or has panicked in it: nothing is left either way.
            unsafe { give_back(self.0, self.1) };
        }
    }
    let Some(class) = (const { class_of(Layout::new::<T>()) }) else {
        // SAFETY: a `T` without a class is in a `Box`.
        return drop(unsafe { Box::from_raw(block.as_ptr()) });
    };
    let _empty = Empty(block.cast(), class);
    // SAFETY: the value is there, and is dropped once.
    unsafe { ptr::drop_in_place(block.as_ptr()) };
}

/// # Safety
///
/// The block is of that class, and nothing is left in it.
#[inline]
unsafe fn give_back(block: NonNull<u8>, class: usize) {
    // SAFETY: passed on.
    let is_kept = KEPT.try_with(|kept| unsafe { kept.0[class].push(block) }).unwrap_or(false);
    if !is_kept {
        // SAFETY: allocated with the layout of its class.
        unsafe { dealloc(block.as_ptr(), layout_of(class)) };
    }
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn blocks_a_block_is_used_again_and_values_are_dropped_once() {
        let counted = Arc::new(());
        let first = leak((counted.clone(), [7_u64; 9]));
        // SAFETY: from `leak`, used once.
        let (again, numbers) = unsafe { take(first) };
        assert_eq!((Arc::strong_count(&again), numbers), (2, [7; 9]));
        drop(again);
        let second = leak((counted.clone(), [8_u64; 9]));
        assert!(first == second || KEPT_MAX == 0);
        // SAFETY: as above.
        unsafe { discard(second) };
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn blocks_large_and_strictly_aligned_values_have_boxes() {
        #[repr(align(64))]
        struct Strict(u8);
        let (large, strict) = (leak([1_u8; 4096]), leak(Strict(3)));
        assert!(strict.addr().get().is_multiple_of(64));
        // SAFETY: from `leak`, used once.
        assert_eq!(unsafe { (take(large)[4095], take(strict).0) }, (1, 3));
    }

    #[test]
    fn blocks_a_thread_keeps_a_bounded_number_of_those_of_others() {
        std::thread::scope(|scope| {
            let made: Vec<_> = (0..1000).map(|n: u64| leak(n).as_ptr().expose_provenance()).collect();
            scope.spawn(move || {
                for block in made {
                    let block = NonNull::new(ptr::with_exposed_provenance_mut::<u64>(block)).unwrap();
                    // SAFETY: from `leak`, handed over, used once.
                    unsafe { discard(block) };
                }
                KEPT.with(|kept| assert_eq!(kept.0[0].kept.get(), KEPT_MAX));
            });
        });
    }
}
