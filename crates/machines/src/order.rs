//! Which of several ready gates goes next when one thread runs them all: an order that a seed repeats.
//!
//! # States
//!
//! ```text
//!            add                      next
//!  (outside) ───► ready ─────────────────────► (given out)
//!            add_behind        ▲
//!  (outside) ───► behind ──────┘ when all that were ready before it are gone
//! ```
//!
//! # Transitions
//!
//! | event | effect |
//! |---|---|
//! | `add(item)` | it is ready, the youngest of all |
//! | `add_behind(item)` | it becomes ready when everything that is ready now has been given out |
//! | `take_next()` | a ready item, chosen by the generator, or the oldest if it was passed over too often |
//!
//! # Invariants
//!
//! * ORDER-a: what is given out depends on the seed and on the calls so far, and on nothing else.
//! * ORDER-b: every item is given out once.
//! * ORDER-c: the oldest ready item is passed over at most [`PASSES_MAX`] times as often as there are ready ones.
//! * ORDER-d: an item added behind is given out after everything that was ready when it was added; those behind that
//!   become ready together have no order among each other.
//!
//! # Not here
//!
//! What the items are, and how they are run.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// How often the oldest item may be passed over for each item that is ready.
pub const PASSES_MAX: u64 = 8;

/// A generator of numbers that look random and that a seed repeats on every machine (splitmix64, Steele, Lea and
/// Flood 2014). Not for secrets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of that seed. Neighbouring seeds have sequences that do not resemble each other.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of 64 bits.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number, from 0 up to but not including `bound`; 0 when `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product: no division, and a bias too small to be seen.
        ((self.number() as u128 * bound as u128) >> 64) as u64
    }

    /// True once in `times`, on the average.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Ready<T> {
    /// How many had arrived before it.
    arrival: u64,
    item: T,
}

/// Items that are ready, and those that come after them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order<T> {
    random: Random,
    /// The oldest first.
    ready: Vec<Ready<T>>,
    /// Each with the number of arrivals before it: all of those go first.
    behind: VecDeque<Ready<T>>,
    arrivals: u64,
    /// How often the oldest ready item was passed over since it became the oldest.
    passes: u64,
}

impl<T> Order<T> {
    /// Nothing ready, choices by `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), ready: Vec::new(), behind: VecDeque::new(), arrivals: 0, passes: 0 }
    }

    /// An item is ready.
    pub fn add(&mut self, item: T) {
        self.ready.push(Ready { arrival: self.arrivals, item });
        self.arrivals += 1;
    }

    /// An item is ready, and everything that is ready now goes first.
    pub fn add_behind(&mut self, item: T) {
        self.behind.push_back(Ready { arrival: self.arrivals, item });
    }

    /// Takes the next item out.
    pub fn take_next(&mut self) -> Option<T> {
        self.let_in();
        let count = self.ready.len() as u64;
        if count == 0 {
            return None;
        }
        let oldest = self.passes >= PASSES_MAX * count;
        let at = if oldest { 0 } else { self.random.below(count) as usize };
        self.passes = if at == 0 { 0 } else { self.passes + 1 };
        Some(self.ready.remove(at).item)
    }

    /// Whether a run of turns ends at this boundary although its gate has more: one time in two.
    pub const fn ends_slice(&mut self) -> bool {
        self.random.one_in(2)
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len() + self.behind.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those behind whose time has come become ready.
    fn let_in(&mut self) {
        loop {
            let oldest = self.ready.first().map_or(u64::MAX, |ready| ready.arrival);
            match self.behind.front() {
                Some(behind) if behind.arrival <= oldest => {}
                _ => return,
            }
            if let Some(Ready { item, .. }) = self.behind.pop_front() {
                self.add(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drained(order: &mut Order<u32>) -> Vec<u32> {
        core::iter::from_fn(|| order.take_next()).collect()
    }

    fn with_ten(seed: u64) -> Order<u32> {
        let mut order = Order::new(seed);
        (0..10).for_each(|item| order.add(item));
        order
    }

    #[test]
    fn order_a_a_seed_repeats_the_order_and_another_changes_it() {
        let first = drained(&mut with_ten(7));
        assert_eq!(first, drained(&mut with_ten(7)));
        let others = (0..100).filter(|seed| drained(&mut with_ten(*seed)) != first).count();
        assert!(others >= 99, "ten items have 3,628,800 orders");
        let known: Vec<u64> = {
            let mut random = Random::new(1234567);
            (0..3).map(|_| random.number()).collect()
        };
        assert_eq!(known, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn order_b_every_item_comes_out_once() {
        for seed in 0..100 {
            let mut order = with_ten(seed);
            order.add_behind(10);
            let mut all = drained(&mut order);
            all.sort_unstable();
            assert_eq!(all, (0..11).collect::<Vec<_>>());
            assert!(order.is_empty());
        }
    }

    #[test]
    fn order_c_the_oldest_is_not_passed_over_for_ever() {
        for seed in 0..200 {
            let mut order = with_ten(seed);
            let mut since = 0;
            let mut left = (0..10).collect::<Vec<u32>>();
            while !left.is_empty() {
                let item = order.take_next().expect("ten stay ready");
                order.add(item + 100);
                since = if left[0] == item { 0 } else { since + 1 };
                left.retain(|other| *other != item);
                assert!(since <= PASSES_MAX * 10, "seed {seed}");
            }
        }
    }

    #[test]
    fn order_d_what_is_added_behind_comes_after_what_was_ready() {
        for seed in 0..200 {
            let mut order = with_ten(seed);
            order.add_behind(100);
            order.add(11);
            order.add_behind(101);
            let all = drained(&mut order);
            let place = |item: u32| all.iter().position(|other| *other == item).expect("it came out");
            assert!((0..10).all(|before| place(before) < place(100)), "seed {seed}: {all:?}");
            assert!(place(11) < place(101), "seed {seed}: {all:?}");
        }
    }

    #[test]
    fn order_the_youngest_may_overtake_what_was_added_behind() {
        let overtakes = |seed: &u64| {
            let mut order = with_ten(*seed);
            order.add_behind(100);
            order.add(11);
            let all = drained(&mut order);
            all.iter().position(|item| *item == 11) < all.iter().position(|item| *item == 100)
        };
        assert!((0..100).filter(overtakes).count() > 50, "being behind is no place in a line of later ones");
    }
}
