//! The intrusive link by which a record, an owner or a handler stands in a queue without an allocation.
//!
//! A link is in at most one list at a time. Whoever pushes it gives its pointer away, and with the pointer
//! whatever keeps the thing around it alive; whoever pops it gets both back.

use std::ptr::NonNull;

use crate::sync::UnsafeCell;

/// What the link is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A record; the pointer owns it.
    Record,
    /// A member Actor that is ready; the pointer owns a strong count of it.
    Member,
    /// A yielded handler whose wait has ended; its owner keeps it alive.
    Resume,
    /// The stand-in for an owner's lifecycle lane; part of that owner.
    Marker,
    /// News for the holder that needs no room (an end is wanted); part of an owner, with a strong count.
    Control,
}

/// The link itself: first field of everything that can be queued.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Link {
    /// The next link. Written by the one thread that has the link, before it is published or after it was
    /// taken.
    next: UnsafeCell<*const Link>,
    /// Fixed at creation.
    kind: Kind,
}

impl Link {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { next: UnsafeCell::new(std::ptr::null()), kind }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Sets what follows.
    ///
    /// # Safety
    ///
    /// The caller has the link to itself: not yet published, or taken off its list.
    pub(crate) unsafe fn set_next(&self, next: *const Link) {
        // SAFETY: exclusive by this function's contract.
        self.next.with_mut(|slot| unsafe { *slot = next });
    }

    /// What follows.
    ///
    /// # Safety
    ///
    /// As for `set_next`.
    pub(crate) unsafe fn next(&self) -> *const Link {
        // SAFETY: exclusive by this function's contract.
        self.next.with(|slot| unsafe { *slot })
    }
}

/// A first-in-first-out list of links that one thread has to itself.
#[derive(Debug)]
pub(crate) struct Fifo {
    /// Changes with every pop, and with a push onto an empty list.
    head: *const Link,
    /// Changes with every push.
    tail: *const Link,
}

impl Fifo {
    pub(crate) const fn new() -> Self {
        Self { head: std::ptr::null(), tail: std::ptr::null() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_null()
    }

    /// The kind of the first link.
    pub(crate) fn peek(&self) -> Option<Kind> {
        // SAFETY: links in this list are alive (the list owns what keeps them so), `kind` never changes.
        NonNull::new(self.head.cast_mut()).map(|link| unsafe { link.as_ref() }.kind)
    }

    /// Appends a link.
    ///
    /// # Safety
    ///
    /// The link is alive until it is popped, and in no list.
    pub(crate) unsafe fn push_back(&mut self, link: NonNull<Link>) {
        // SAFETY: the caller hands the link over; it is ours until popped.
        unsafe { link.as_ref().set_next(std::ptr::null()) };
        if self.head.is_null() {
            self.head = link.as_ptr();
        } else {
            // SAFETY: the tail is a link of this list, alive and ours.
            unsafe { (*self.tail).set_next(link.as_ptr()) };
        }
        self.tail = link.as_ptr();
    }

    /// Takes the first link off.
    pub(crate) fn pop_front(&mut self) -> Option<NonNull<Link>> {
        let link = NonNull::new(self.head.cast_mut())?;
        // SAFETY: the head is a link of this list, alive and ours.
        self.head = unsafe { link.as_ref().next() };
        Some(link)
    }
}
