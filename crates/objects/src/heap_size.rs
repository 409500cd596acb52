//! How many bytes of heap a value owns, so that a lane can be bounded in bytes.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque};
use std::ffi::{CString, OsStr, OsString};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The heap that a value owns beyond its own `size_of`, in bytes.
///
/// Buffers count with their capacity, filled or not. What a value only borrows counts nothing. The target of
/// an [`Arc`] counts in full at every handle, so a shared target may be charged more than once. Hash and tree
/// containers hide their layout: for them the number is an estimate, never zero for a container with entries.
#[diagnostic::on_unimplemented(
    message = "the heap owned by `{Self}` is not known",
    note = "derive `HeapSize` for it, or mark the field `#[message(no_heap)]` (in a `HeapSize` derive: \
            `#[heap_size(skip)]`) so that it counts nothing"
)]
pub trait HeapSize {
    /// Bytes of heap owned by this value, its own `size_of` not included.
    fn heap_bytes(&self) -> u64;
}

/// Types whose values own no heap, whatever they hold.
macro_rules! no_heap {
    ($($(#[$attribute:meta])* $type:ty),+ $(,)?) => {$(
        $(#[$attribute])*
        impl HeapSize for $type {
            #[inline]
            fn heap_bytes(&self) -> u64 { 0 }
        }
    )+};
}

no_heap!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char, ());
no_heap!(NonZero<u8>, NonZero<u16>, NonZero<u32>, NonZero<u64>, NonZero<u128>, NonZero<usize>);
no_heap!(NonZero<i8>, NonZero<i16>, NonZero<i32>, NonZero<i64>, NonZero<i128>, NonZero<isize>);
no_heap!(str, OsStr, Path, RangeFull, std::cmp::Ordering, std::convert::Infallible);
no_heap!(std::time::Duration, std::time::Instant, std::time::SystemTime);
no_heap!(std::net::IpAddr, std::net::Ipv4Addr, std::net::Ipv6Addr);
no_heap!(std::net::SocketAddr, std::net::SocketAddrV4, std::net::SocketAddrV6);
no_heap!(std::any::TypeId, std::thread::ThreadId, std::alloc::Layout);

/// Atomics, each on the targets that have it.
macro_rules! no_heap_atomics {
    ($($width:literal: $($name:ident),+;)+) => {$($(
        #[cfg(target_has_atomic = $width)]
        no_heap!(std::sync::atomic::$name);
    )+)+};
}

no_heap_atomics! {
    "8": AtomicBool, AtomicU8, AtomicI8;
    "16": AtomicU16, AtomicI16;
    "32": AtomicU32, AtomicI32;
    "64": AtomicU64, AtomicI64;
    "ptr": AtomicUsize, AtomicIsize;
}

impl<T: ?Sized> HeapSize for &T {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        0
    }
}

impl<T: ?Sized> HeapSize for PhantomData<T> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        0
    }
}

/// Types that hold their parts inline: the heap of a value is the heap of its parts.
macro_rules! inline_parts {
    ($($type:ident<$param:ident>: $value:ident => $($part:expr),+;)+) => {$(
        impl<$param: HeapSize> HeapSize for $type<$param> {
            #[inline]
            fn heap_bytes(&self) -> u64 {
                let $value = self;
                sum([$($part.heap_bytes()),+])
            }
        }
    )+};
}

inline_parts! {
    Wrapping<T>: it => it.0;
    Saturating<T>: it => it.0;
    Reverse<T>: it => it.0;
    Range<T>: it => it.start, it.end;
    RangeFrom<T>: it => it.start;
    RangeTo<T>: it => it.end;
    RangeInclusive<T>: it => it.start(), it.end();
    RangeToInclusive<T>: it => it.end;
}

macro_rules! tuples {
    ($($($name:ident $index:tt),+;)+) => {$(
        impl<$($name: HeapSize),+> HeapSize for ($($name,)+) {
            #[inline]
            fn heap_bytes(&self) -> u64 { sum([$(self.$index.heap_bytes()),+]) }
        }
    )+};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

impl<T: HeapSize> HeapSize for Option<T> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: HeapSize, E: HeapSize> HeapSize for Result<T, E> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        self.as_ref().map_or_else(E::heap_bytes, T::heap_bytes)
    }
}

impl<T: HeapSize> HeapSize for Bound<T> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        match self {
            Self::Included(end) | Self::Excluded(end) => end.heap_bytes(),
            Self::Unbounded => 0,
        }
    }
}

impl<T: HeapSize> HeapSize for [T] {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        of_all(self)
    }
}

impl<T: HeapSize, const N: usize> HeapSize for [T; N] {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        of_all(self)
    }
}

impl<T: HeapSize + ?Sized> HeapSize for Box<T> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        bytes(size_of_val::<T>(self)).saturating_add(T::heap_bytes(self))
    }
}

/// The target with its two counters, charged to every handle.
impl<T: HeapSize + ?Sized> HeapSize for Arc<T> {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        // The counters stand before the target, which begins at its own alignment.
        let counters = (2 * size_of::<usize>()).next_multiple_of(align_of_val::<T>(self));
        bytes(counters + size_of_val::<T>(self)).saturating_add(T::heap_bytes(self))
    }
}

impl<B: ToOwned + ?Sized> HeapSize for Cow<'_, B>
where
    B::Owned: HeapSize,
{
    #[inline]
    fn heap_bytes(&self) -> u64 {
        match self {
            Self::Borrowed(_) => 0,
            Self::Owned(owned) => owned.heap_bytes(),
        }
    }
}

/// Strings that know the capacity of their buffer.
macro_rules! byte_buffers {
    ($($type:ty),+) => {$(
        impl HeapSize for $type {
            #[inline]
            fn heap_bytes(&self) -> u64 { bytes(self.capacity()) }
        }
    )+};
}

byte_buffers!(String, OsString, PathBuf);

impl HeapSize for CString {
    #[inline]
    fn heap_bytes(&self) -> u64 {
        bytes(self.as_bytes_with_nul().len())
    }
}

/// Containers with one buffer of `capacity` entries.
macro_rules! entry_buffers {
    ($($type:ident),+) => {$(
        impl<T: HeapSize> HeapSize for $type<T> {
            #[inline]
            fn heap_bytes(&self) -> u64 { sum([buffer(self.capacity(), size_of::<T>()), of_all(self)]) }
        }
    )+};
}

entry_buffers!(Vec, VecDeque, BinaryHeap);

impl<T: HeapSize> HeapSize for LinkedList<T> {
    fn heap_bytes(&self) -> u64 {
        sum([buffer(self.len(), size_of::<(usize, usize, T)>()), of_all(self)])
    }
}

impl<K: HeapSize, V: HeapSize, S> HeapSize for HashMap<K, V, S> {
    fn heap_bytes(&self) -> u64 {
        sum([table(self.capacity(), size_of::<(K, V)>()), of_all(self.keys()), of_all(self.values())])
    }
}

impl<T: HeapSize, S> HeapSize for HashSet<T, S> {
    fn heap_bytes(&self) -> u64 {
        sum([table(self.capacity(), size_of::<T>()), of_all(self)])
    }
}

impl<K: HeapSize, V: HeapSize> HeapSize for BTreeMap<K, V> {
    fn heap_bytes(&self) -> u64 {
        let nodes = tree(self.len(), size_of::<K>() + size_of::<V>());
        sum([nodes, of_all(self.keys()), of_all(self.values())])
    }
}

impl<T: HeapSize> HeapSize for BTreeSet<T> {
    fn heap_bytes(&self) -> u64 {
        sum([tree(self.len(), size_of::<T>()), of_all(self)])
    }
}

#[inline]
fn bytes(size: usize) -> u64 {
    size as u64
}

/// A buffer of `capacity` entries. (The capacity of a `Vec` of zero-sized entries is `usize::MAX`: the product
/// is zero, it does not overflow.)
#[inline]
fn buffer(capacity: usize, entry: usize) -> u64 {
    bytes(capacity) * bytes(entry)
}

/// A hash table: every entry has a control byte. Its spare buckets are not visible from outside.
fn table(capacity: usize, entry: usize) -> u64 {
    buffer(capacity, entry + 1)
}

/// A B-tree: nodes of eleven entries, allocated whole, of which eight are in use on average once it has grown
/// past one node.
fn tree(len: usize, entry: usize) -> u64 {
    let nodes = match len {
        0 => 0,
        1..=11 => 1,
        _ => len.div_ceil(8),
    };
    buffer(nodes, 11 * entry + 2 * size_of::<usize>())
}

/// What the entries of a container own. A value with nothing to drop owns no heap, so a large plain buffer is
/// not walked, not even in a debug build.
#[inline]
fn of_all<'a, T: HeapSize + 'a>(values: impl IntoIterator<Item = &'a T>) -> u64 {
    if needs_drop::<T>() { sum(values.into_iter().map(T::heap_bytes)) } else { 0 }
}

/// Saturates, because handles of one shared target may add up to more than there is memory.
#[inline]
fn sum(parts: impl IntoIterator<Item = u64>) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(capacity: usize) -> String {
        String::with_capacity(capacity)
    }

    #[test]
    fn lane_2_values_without_heap_count_nothing() {
        fn none<T: HeapSize>(value: T) {
            assert_eq!(value.heap_bytes(), 0, "{}", std::any::type_name::<T>());
        }
        none((1u8, 2i64, 3.0f64, true, 'x', (), NonZero::<u32>::MIN, Wrapping(1i8)));
        none(("static text", b"bytes", PhantomData::<String>, 0..9u32, .., ..=4u8));
        none((std::time::Instant::now(), std::time::Duration::ZERO, std::time::SystemTime::now()));
        none((std::net::IpAddr::from([127, 0, 0, 1]), std::net::SocketAddr::from(([0; 16], 1))));
        none((std::sync::atomic::AtomicU64::new(7), std::sync::atomic::AtomicBool::new(true)));
        none((String::new(), Vec::<String>::new(), PathBuf::new(), None::<String>, [0u64; 32]));
        none((HashMap::<u8, String>::new(), BTreeMap::<u8, String>::new(), LinkedList::<u8>::new()));
    }

    #[test]
    fn lane_2_buffers_count_their_capacity_not_their_length() {
        assert_eq!(text(100).heap_bytes(), 100);
        assert_eq!(OsString::with_capacity(40).heap_bytes(), 40);
        assert_eq!(PathBuf::with_capacity(41).heap_bytes(), 41);
        assert_eq!(Vec::<u32>::with_capacity(10).heap_bytes(), 40);
        assert_eq!(VecDeque::<u16>::with_capacity(10).heap_bytes(), 20);
        assert_eq!(BinaryHeap::<u64>::with_capacity(10).heap_bytes(), 80);
        assert_eq!(c"four".to_owned().heap_bytes(), 5);
    }

    #[test]
    fn lane_2_containers_add_what_their_entries_own() {
        let own = bytes(size_of::<String>());
        let mut lines = Vec::with_capacity(4);
        lines.extend([text(3), text(5)]);
        assert_eq!(lines.heap_bytes(), 4 * own + 8);
        assert_eq!(VecDeque::from([text(3), text(5)]).heap_bytes(), 2 * own + 8);
        assert_eq!([text(3), text(5)].heap_bytes(), 8);
        assert_eq!(Some(text(3)).heap_bytes(), 3);
        assert_eq!(Ok::<_, String>(text(3)).heap_bytes(), 3);
        assert_eq!(Err::<String, _>(text(4)).heap_bytes(), 4);
        assert_eq!((text(1), text(2), 3u8, text(4), (), text(8), text(16), text(32)).heap_bytes(), 63);
        assert_eq!((text(1)..text(2)).heap_bytes(), 3);
        assert_eq!((text(1)..=text(2)).heap_bytes(), 3);
        assert_eq!(Bound::Excluded(text(6)).heap_bytes(), 6);
        assert_eq!(LinkedList::from([text(3)]).heap_bytes(), own + 16 + 3);
    }

    #[test]
    fn lane_2_boxes_count_their_target_and_what_it_owns() {
        assert_eq!(Box::new(1u64).heap_bytes(), 8);
        assert_eq!(Box::new(text(9)).heap_bytes(), bytes(size_of::<String>()) + 9);
        assert_eq!(Box::<str>::from("four").heap_bytes(), 4);
        assert_eq!(Box::<[u32]>::from([1, 2, 3]).heap_bytes(), 12);
        assert_eq!(Box::<Path>::from(Path::new("/tmp")).heap_bytes(), 4);
    }

    #[test]
    fn lane_2_a_shared_target_is_charged_to_every_handle() {
        let shared = Arc::<[u64]>::from([1, 2, 3]);
        assert_eq!(shared.heap_bytes(), 16 + 24);
        assert_eq!((shared.clone(), shared).heap_bytes(), 2 * (16 + 24));
        #[repr(align(64))]
        struct Line;
        no_heap!(Line);
        assert_eq!(Arc::new(Line).heap_bytes(), 64);
    }

    #[test]
    fn lane_2_a_cow_counts_only_what_it_owns() {
        assert_eq!(Cow::Borrowed("borrowed").heap_bytes(), 0);
        assert_eq!(Cow::<str>::Owned(text(12)).heap_bytes(), 12);
    }

    #[test]
    fn lane_2_hash_containers_count_entries_and_control_bytes() {
        let map = HashMap::from([(1u32, text(5))]);
        let entry = bytes(size_of::<(u32, String)>()) + 1;
        assert_eq!(map.heap_bytes(), bytes(map.capacity()) * entry + 5);
        let set = HashSet::from([text(5)]);
        assert_eq!(set.heap_bytes(), bytes(set.capacity()) * (bytes(size_of::<String>()) + 1) + 5);
    }

    #[test]
    fn lane_2_tree_containers_count_whole_nodes() {
        assert_eq!(BTreeSet::from([1u64]).heap_bytes(), 11 * 8 + 16);
        assert_eq!(BTreeSet::from_iter(0..11u64).heap_bytes(), 11 * 8 + 16);
        assert_eq!(BTreeSet::from_iter(0..16u64).heap_bytes(), 2 * (11 * 8 + 16));
        let map = BTreeMap::from([(1u64, text(7))]);
        assert_eq!(map.heap_bytes(), 11 * (8 + bytes(size_of::<String>())) + 16 + 7);
    }

    #[test]
    fn lane_2_zero_sized_entries_do_not_overflow() {
        assert_eq!(vec![(); 1_000].heap_bytes(), 0);
        assert_eq!(Box::new(()).heap_bytes(), 0);
    }
}
