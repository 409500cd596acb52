//! Admission to one lane: two axes, one decision, packed into two words.
//!
//! # States
//!
//! ```text
//!  taken     63      62       61 ........ 40   39 ........ 0
//!          sealed  waiting   records, ever     bytes, ever
//!  returned   -       -      records, ever     bytes, ever
//! ```
//!
//! `taken` is advanced by whoever admits a record, `returned` by the holder when a handler has ended. Both
//! only count upwards and wrap in their own field; what is outstanding is the difference. A stale copy of
//! `returned` therefore never shows less use than there is, so a decision made with one is safe and at worst
//! has to be made again with a fresh one.
//!
//! # Invariants
//!
//! * **L1** outstanding records and bytes never exceed the limits (LANE-1, LANE-2).
//! * **L2** a refused attempt returns no new word, so it changes nothing (LANE-5).
//! * **L3** nothing is admitted past the sealed bit, nor past waiters except on their behalf (LANE-6, LANE-7).
//! * **L4** records taken minus records appended is the number of admissions under way; a seal is complete
//!   when it is zero (LANE-7).
//!
//! # Not here
//!
//! The atomics, the waiters, the queue itself.

/// What a record costs a lane beside its payload bytes (LANE-2).
pub const RECORD_OVERHEAD: u64 = 256;
/// The largest record limit a lane can have: half of what its field can count.
pub const RECORDS_MAX: u32 = (1 << (RECORD_BITS - 1)) - 1;
/// The largest byte limit a lane can have: half of what its field can count.
pub const BYTES_MAX: u64 = (1 << (BYTE_BITS - 1)) - 1;

const BYTE_BITS: u32 = 40;
const RECORD_BITS: u32 = 22;
const BYTE_MASK: u64 = (1 << BYTE_BITS) - 1;
const RECORD_MASK: u64 = (1 << RECORD_BITS) - 1;
const WAITING: u64 = 1 << 62;
const SEALED: u64 = 1 << 63;

/// The limits of one lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    records: u32,
    bytes: u64,
}

/// Why limits were refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BadLimits {
    /// The record limit is outside 1 to [`RECORDS_MAX`].
    Records,
    /// The byte limit is outside [`RECORD_OVERHEAD`] to [`BYTES_MAX`].
    Bytes,
}

impl Limits {
    /// The application lane's default: 1,024 records, 64 MiB.
    pub const APPLICATION: Self = Self { records: 1024, bytes: 64 << 20 };
    /// The lifecycle lane's default: 128 records, 4 MiB.
    pub const LIFECYCLE: Self = Self { records: 128, bytes: 4 << 20 };

    /// Limits of `records` records and `bytes` bytes.
    ///
    /// # Errors
    ///
    /// A limit that is zero, too small for one empty record, or more than a word can count.
    pub const fn new(records: u32, bytes: u64) -> Result<Self, BadLimits> {
        if records == 0 || records > RECORDS_MAX {
            return Err(BadLimits::Records);
        }
        if bytes < RECORD_OVERHEAD || bytes > BYTES_MAX {
            return Err(BadLimits::Bytes);
        }
        Ok(Self { records, bytes })
    }

    /// The most records that may be outstanding.
    #[must_use]
    pub const fn records(self) -> u32 {
        self.records
    }

    /// The most bytes that may be outstanding.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Why a record was not admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The owner no longer accepts.
    Sealed,
    /// Others wait for room and come first.
    Behind,
    /// The lane has its full number of records.
    Records,
    /// The lane has not enough bytes left.
    Bytes,
    /// The record alone is over the lane's byte limit: waiting cannot help.
    TooLarge,
}

/// What is outstanding in a lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Use {
    /// Records admitted whose handler has not ended.
    pub records: u32,
    /// Their bytes, overhead included.
    pub bytes: u64,
}

/// A running total of records and bytes, each wrapping in its own field.
const fn advance(word: u64, bytes: u64) -> u64 {
    let records = ((word >> BYTE_BITS) + 1) & RECORD_MASK;
    let total = word.wrapping_add(bytes) & BYTE_MASK;
    (word & (SEALED | WAITING)) | (records << BYTE_BITS) | total
}

/// The word that the returning side advances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Returned(u64);

impl Returned {
    /// The word behind a stored value.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The value to store.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The word after one reservation of `bytes` has come back.
    #[must_use]
    pub const fn give_back(self, bytes: u64) -> Self {
        Self(advance(self.0, bytes))
    }
}

/// The word that the admitting side advances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Taken(u64);

impl Taken {
    /// The word behind a stored value.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The value to store.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The word after admitting a record that reserves `bytes`, for a newcomer.
    ///
    /// # Errors
    ///
    /// Sealed, others waiting, no room on one axis, or too large for the lane ever.
    pub fn admit(self, returned: Returned, limits: Limits, bytes: u64) -> Result<Self, Refused> {
        if self.is_sealed() {
            return Err(Refused::Sealed);
        }
        if bytes > limits.bytes {
            return Err(Refused::TooLarge);
        }
        if self.has_waiters() {
            return Err(Refused::Behind);
        }
        self.fit(returned, limits, bytes)
    }

    /// The word after admitting a record for the first of the waiters.
    ///
    /// # Errors
    ///
    /// Sealed, or no room on one axis yet.
    pub fn admit_waiter(self, returned: Returned, limits: Limits, bytes: u64) -> Result<Self, Refused> {
        if self.is_sealed() {
            return Err(Refused::Sealed);
        }
        self.fit(returned, limits, bytes)
    }

    fn fit(self, returned: Returned, limits: Limits, bytes: u64) -> Result<Self, Refused> {
        let used = self.outstanding(returned);
        if used.records >= limits.records {
            return Err(Refused::Records);
        }
        if bytes > limits.bytes.saturating_sub(used.bytes) {
            return Err(Refused::Bytes);
        }
        Ok(Self(advance(self.0, bytes)))
    }

    /// What is outstanding, given what has come back.
    #[must_use]
    pub const fn outstanding(self, returned: Returned) -> Use {
        let records = ((self.0 >> BYTE_BITS).wrapping_sub(returned.0 >> BYTE_BITS)) & RECORD_MASK;
        let bytes = self.0.wrapping_sub(returned.0) & BYTE_MASK;
        Use { records: records as u32, bytes }
    }

    /// How many admitted records have not been appended yet, given how many the holder has seen ever.
    #[must_use]
    pub const fn under_way(self, appended: u32) -> u32 {
        (((self.0 >> BYTE_BITS) & RECORD_MASK).wrapping_sub(appended as u64) & RECORD_MASK) as u32
    }

    /// Whether the owner no longer accepts.
    #[must_use]
    pub const fn is_sealed(self) -> bool {
        self.0 & SEALED != 0
    }

    /// Whether somebody waits for room.
    #[must_use]
    pub const fn has_waiters(self) -> bool {
        self.0 & WAITING != 0
    }

    /// The bit to set or clear for a seal.
    #[must_use]
    pub const fn sealed_bit() -> u64 {
        SEALED
    }

    /// The bit to set or clear for waiters.
    #[must_use]
    pub const fn waiting_bit() -> u64 {
        WAITING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { records: 2, bytes: 1000 };

    #[test]
    fn lane_1_defaults_are_the_documented_ones() {
        assert_eq!(Limits::APPLICATION, Limits::new(1024, 64 * 1024 * 1024).unwrap());
        assert_eq!(Limits::LIFECYCLE, Limits::new(128, 4 * 1024 * 1024).unwrap());
    }

    #[test]
    fn lane_1_limits_out_of_range_are_refused() {
        assert_eq!(Limits::new(0, 1000), Err(BadLimits::Records));
        assert_eq!(Limits::new(RECORDS_MAX + 1, 1000), Err(BadLimits::Records));
        assert_eq!(Limits::new(1, RECORD_OVERHEAD - 1), Err(BadLimits::Bytes));
        assert_eq!(Limits::new(1, BYTES_MAX + 1), Err(BadLimits::Bytes));
    }

    #[test]
    fn lane_2_each_axis_refuses_by_itself() {
        let mut taken = Taken::default();
        taken = taken.admit(Returned::default(), SMALL, 256).unwrap();
        assert_eq!(taken.admit(Returned::default(), SMALL, 800), Err(Refused::Bytes));
        taken = taken.admit(Returned::default(), SMALL, 744).unwrap();
        assert_eq!(taken.outstanding(Returned::default()), Use { records: 2, bytes: 1000 });
        assert_eq!(taken.admit(Returned::default(), SMALL, 0), Err(Refused::Records));
    }

    #[test]
    fn lane_2_a_record_over_the_limit_never_fits() {
        assert_eq!(Taken::default().admit(Returned::default(), SMALL, 1001), Err(Refused::TooLarge));
    }

    #[test]
    fn lane_6_a_newcomer_stands_behind_waiters_also_when_room_has_come_back() {
        let one = Taken::default().admit(Returned::default(), SMALL, 256).unwrap();
        let taken = Taken::from_bits(one.bits() | Taken::waiting_bit());
        let returned = Returned::default().give_back(256);
        assert_eq!(taken.outstanding(returned), Use { records: 0, bytes: 0 });
        assert_eq!(taken.admit(returned, SMALL, 256), Err(Refused::Behind));
        assert!(taken.admit_waiter(returned, SMALL, 256).is_ok());
    }

    #[test]
    fn lane_3_what_comes_back_makes_room_again_across_the_wrap() {
        let mut taken = Taken::default();
        let mut returned = Returned::default();
        let limits = Limits::new(1, BYTES_MAX).unwrap();
        for round in 0..5_000_000_u64 {
            let bytes = 256 + (round % 7) * 1_000_003;
            taken = taken.admit(returned, limits, bytes).unwrap();
            assert_eq!(taken.outstanding(returned), Use { records: 1, bytes });
            returned = returned.give_back(bytes);
            assert_eq!(taken.outstanding(returned), Use { records: 0, bytes: 0 });
        }
    }

    #[test]
    fn lane_5_a_stale_returned_word_never_shows_room_that_is_not_there() {
        let stale = Returned::default();
        let fresh = stale.give_back(256);
        let taken = Taken::default().admit(stale, SMALL, 256).unwrap();
        let taken = taken.admit(stale, SMALL, 256).unwrap();
        assert_eq!(taken.admit(stale, SMALL, 256), Err(Refused::Records));
        assert!(taken.admit(fresh, SMALL, 256).is_ok());
    }

    #[test]
    fn lane_6_newcomers_stay_behind_waiters() {
        let waiting = Taken::from_bits(Taken::waiting_bit());
        assert_eq!(waiting.admit(Returned::default(), SMALL, 256), Err(Refused::Behind));
        let after = waiting.admit_waiter(Returned::default(), SMALL, 256).unwrap();
        assert!(after.has_waiters());
    }

    #[test]
    fn lane_7_a_seal_knows_the_admissions_under_way() {
        let taken = Taken::default().admit(Returned::default(), SMALL, 256).unwrap();
        let sealed = Taken::from_bits(taken.bits() | Taken::sealed_bit());
        assert_eq!(sealed.under_way(0), 1);
        assert_eq!(sealed.under_way(1), 0);
        assert_eq!(sealed.admit(Returned::default(), SMALL, 256), Err(Refused::Sealed));
        assert_eq!(sealed.admit_waiter(Returned::default(), SMALL, 256), Err(Refused::Sealed));
    }
}
