//! Ordinals: the numbers that fix the order on one bus, all from one counter.
//!
//! # Invariants
//!
//! * **O1** a number is given once, and each one is higher than all before it (PUB-3).
//! * **O2** keys compare by publication, then by admission, and by nothing else (PUB-4).

/// A number of one bus. Publications and admissions draw from the same counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ordinal(pub u64);

/// The place of one slot in the order of its bus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Key {
    /// The publication that the slot belongs to.
    pub publication: Ordinal,
    /// The slot's own number.
    pub admission: Ordinal,
}

/// The counter of one bus. The first number is 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ordinals {
    last: u64,
}

impl Ordinals {
    /// The next number.
    ///
    /// # Panics
    ///
    /// After 2^64 - 1 numbers, which a bus that takes one each nanosecond reaches after five centuries.
    #[inline]
    pub const fn take(&mut self) -> Ordinal {
        self.last += 1;
        Ordinal(self.last)
    }

    /// The next `count` numbers, one after another; the first of them.
    ///
    /// # Panics
    ///
    /// As [`take`](Self::take).
    #[inline]
    pub const fn take_many(&mut self, count: u32) -> Ordinal {
        let first = self.last + 1;
        self.last += count as u64;
        Ordinal(first)
    }

    /// The newest number, 0 before the first.
    #[must_use]
    pub const fn last(&self) -> Ordinal {
        Ordinal(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pub_3_numbers_rise_and_come_once() {
        let mut ordinals = Ordinals::default();
        let (first, second) = (ordinals.take(), ordinals.take());
        assert!(Ordinal(0) < first && first < second);
        assert_eq!(ordinals.last(), second);
    }

    #[test]
    fn pub_4_keys_sort_by_publication_then_admission() {
        let key =
            |publication, admission| Key { publication: Ordinal(publication), admission: Ordinal(admission) };
        assert!(key(1, 9) < key(2, 3));
        assert!(key(2, 3) < key(2, 4));
    }
}
