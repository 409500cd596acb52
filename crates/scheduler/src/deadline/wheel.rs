//! A hierarchical timing wheel: which entries are due, told the time, without a clock of its own.
//!
//! After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), scheme 7: eight wheels
//! of 64 slots, each slot of one as long as a whole turn of the one below. A slot is a doubly linked list through
//! a slab, so that insert and cancel are O(1); a word of bits a wheel finds the next slot in use without a
//! walk over ticks.
//!
//! # Invariants
//!
//! * WHEEL-a: an entry lies on the level of the highest digit (base 64) in which its tick differs from `now`, in
//!   the slot of that digit. So within a level the lowest slot in use is the earliest, and none wraps round.
//! * WHEEL-b: `now` never passes the first tick of a slot in use.
//! * WHEEL-c: a generation is never given twice.

use std::num::NonZeroU64;

use super::slab::Slab;

/// Bits of a digit: 64 slots a level.
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
/// Enough for every `u64` of nanoseconds in ticks of a millisecond.
const LEVELS: usize = 8;
/// The last tick that a slot has.
const TICK_MAX: u64 = (1 << (DIGIT_BITS * LEVELS as u32)) - 1;
/// End of a list.
const NONE: u32 = u32::MAX;

/// An entry's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) index: u32,
    pub(super) generation: NonZeroU64,
}

/// Entries by the tick at which they are due.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    /// All that was due up to here has left, save what `advance` had no steps left for.
    now: u64,
    levels: Box<[Level; LEVELS]>,
    nodes: Slab<Node<T>>,
    /// Of the last entry.
    generation: u64,
}

#[derive(Debug)]
struct Level {
    /// Bit for bit the slots that are not empty.
    in_use: u64,
    /// First node of each slot.
    heads: [u32; SLOTS],
}

#[derive(Debug)]
struct Node<T> {
    due: u64,
    generation: u64,
    previous: u32,
    next: u32,
    level: u8,
    slot: u8,
    value: T,
}

impl<T> Wheel<T> {
    pub(super) fn new(now: u64) -> Self {
        let level = |_| Level { in_use: 0, heads: [NONE; SLOTS] };
        let levels = Box::new(std::array::from_fn(level));
        Wheel { now, levels, nodes: Slab::new(), generation: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Has `value` leave at the first `advance` to `due` or later. `now` is the present tick.
    ///
    /// The tick that comes back is this entry's next event, as in [`Wheel::next_event`].
    pub(super) fn insert(&mut self, now: u64, due: u64, value: T) -> (Entry, u64) {
        // As near to the present as WHEEL-b allows, so that the entry lies on a low level.
        if now > self.now && self.next_event().is_none_or(|event| now < event) {
            self.now = now.min(TICK_MAX);
        }
        self.generation += 1;
        let generation = self.generation;
        let due = due.clamp(self.now.max(now), TICK_MAX);
        let node = Node { due, generation, previous: NONE, next: NONE, level: 0, slot: 0, value };
        let index = self.nodes.put(node);
        let event = self.link(index);
        (Entry { index, generation: NonZeroU64::MIN.saturating_add(generation - 1) }, event)
    }

    /// Takes an entry out before it is due; none when it has left.
    pub(super) fn remove(&mut self, entry: Entry) -> Option<T> {
        let node = self.nodes.get(entry.index)?;
        if node.generation != entry.generation.get() {
            return None;
        }
        Some(self.take(entry.index))
    }

    /// The tick at which `advance` has something to do: an entry is due, or entries move a level down. No entry
    /// is due before it.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.next_slot().map(|(tick, ..)| tick)
    }

    /// Moves the time to `to` and puts what is due by then into `due`, in the order of the ticks.
    ///
    /// At most `steps` entries are moved or put; when that is not enough, the rest is left for the next call,
    /// and `next_event` is at most `to`.
    pub(super) fn advance(&mut self, to: u64, steps: usize, due: &mut Vec<T>) {
        let to = to.min(TICK_MAX);
        let mut steps = steps;
        while let Some((tick, level, slot)) = self.next_slot().filter(|(tick, ..)| *tick <= to) {
            if steps == 0 {
                return;
            }
            steps -= 1;
            self.now = tick.max(self.now);
            let index = self.levels[level].heads[slot];
            if self.nodes.get(index).is_some_and(|node| node.due <= self.now) {
                let value = self.take(index);
                due.push(value);
            } else {
                self.unlink(index);
                self.link(index);
            }
        }
        self.now = self.now.max(to);
    }

    /// The earliest slot in use: its first tick (not before `now`), its level, its number. Of equal ticks the
    /// highest level, so that a slot is emptied before the time leaves its first tick.
    fn next_slot(&self) -> Option<(u64, usize, usize)> {
        let slots = self.levels.iter().enumerate().rev().filter(|(_, level)| level.in_use != 0);
        let starts = slots.map(|(number, level)| {
            let slot = level.in_use.trailing_zeros();
            (self.start(number as u32, u64::from(slot)), number, slot as usize)
        });
        starts.min_by_key(|(start, ..)| *start)
    }

    /// First tick of a slot, but not before `now`.
    fn start(&self, level: u32, slot: u64) -> u64 {
        let shift = DIGIT_BITS * level;
        let above = self.now >> shift >> DIGIT_BITS << DIGIT_BITS;
        ((above | slot) << shift).max(self.now)
    }

    /// Puts a node where WHEEL-a wants it; the slot's first tick comes back.
    fn link(&mut self, index: u32) -> u64 {
        let node = self.nodes.get_mut(index).expect("WHEEL: a node to link is in the slab");
        let differing = (node.due ^ self.now) | 1;
        let level = (63 - differing.leading_zeros()) / DIGIT_BITS;
        let slot = (node.due >> (DIGIT_BITS * level)) as usize % SLOTS;
        let head = &mut self.levels[level as usize].heads[slot];
        (node.level, node.slot) = (level as u8, slot as u8);
        (node.previous, node.next) = (NONE, *head);
        let next = std::mem::replace(head, index);
        self.levels[level as usize].in_use |= 1 << slot;
        if let Some(next) = self.nodes.get_mut(next) {
            next.previous = index;
        }
        self.start(level, slot as u64)
    }

    /// Takes a node out of its slot.
    fn unlink(&mut self, index: u32) {
        let Some(node) = self.nodes.get(index) else { return };
        let (previous, next) = (node.previous, node.next);
        let (level, slot) = (node.level as usize, node.slot as usize);
        match self.nodes.get_mut(previous) {
            Some(previous) => previous.next = next,
            None => self.levels[level].heads[slot] = next,
        }
        if let Some(next) = self.nodes.get_mut(next) {
            next.previous = previous;
        }
        if self.levels[level].heads[slot] == NONE {
            self.levels[level].in_use &= !(1 << slot);
        }
    }

    fn take(&mut self, index: u32) -> T {
        self.unlink(index);
        self.nodes.take(index).expect("WHEEL: a linked node is in the slab").value
    }
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Numbers that look random and are the same in every run (splitmix64).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % end
        }
    }

    fn left<T>(wheel: &mut Wheel<T>, to: u64) -> Vec<T> {
        let mut due = Vec::new();
        wheel.advance(to, usize::MAX, &mut due);
        due
    }

    #[test]
    fn wheel_entry_leaves_at_its_tick_and_not_before() {
        for distance in [1, 2, 63, 64, 65, 4_095, 4_096, 262_144, 10 * 365 * 86_400_000] {
            for start in [0, 1, 63, 64, 1_000_003] {
                let mut wheel = Wheel::new(start);
                wheel.insert(start, start + distance, 'x');
                assert!(left(&mut wheel, start + distance - 1).is_empty(), "{start}+{distance}");
                assert_eq!(left(&mut wheel, start + distance), ['x'], "{start}+{distance}");
                assert_eq!((wheel.len(), wheel.next_event()), (0, None));
            }
        }
    }

    #[test]
    fn wheel_past_due_leaves_at_once_and_the_end_of_time_stays() {
        let mut wheel = Wheel::new(500);
        wheel.insert(500, 3, 'p');
        wheel.insert(500, u64::MAX, 'e');
        assert_eq!(wheel.next_event(), Some(500));
        assert_eq!(left(&mut wheel, 500), ['p']);
        assert!(left(&mut wheel, TICK_MAX - 1).is_empty());
        assert_eq!(wheel.len(), 1);
    }

    #[test]
    fn wheel_stale_name_removes_nothing() {
        let mut wheel = Wheel::new(0);
        let (first, _) = wheel.insert(0, 10, 1);
        assert_eq!(wheel.remove(first), Some(1));
        let (second, _) = wheel.insert(0, 10, 2);
        assert_eq!(first.index, second.index);
        assert_eq!(wheel.remove(first), None);
        assert_eq!(left(&mut wheel, 10), [2]);
        assert_eq!(wheel.remove(second), None);
    }

    #[test]
    fn wheel_few_steps_leave_the_rest_for_the_next_call() {
        let mut wheel = Wheel::new(0);
        for value in 0..1_000 {
            wheel.insert(0, 70_000 + value % 3, value);
        }
        let (mut due, mut calls) = (Vec::new(), 0);
        while wheel.next_event().is_some_and(|event| event <= 80_000) {
            wheel.advance(80_000, 16, &mut due);
            calls += 1;
            assert!(due.len() <= calls * 16);
        }
        assert_eq!(due.len(), 1_000);
        assert!(due.is_sorted_by_key(|value| value % 3));
    }

    #[test]
    fn wheel_memory_goes_back_after_a_wave() {
        let mut wheel = Wheel::new(0);
        for value in 0..100_000 {
            wheel.insert(0, 1 + value % 5_000, value);
        }
        assert_eq!(left(&mut wheel, 5_000).len(), 100_000);
        assert!(wheel.nodes.capacity() <= 512);
    }

    /// Random operations beside an ordered map that does the same; the seed is in the message.
    #[test]
    fn wheel_agrees_with_an_ordered_map_on_random_operations() {
        for seed in 0..60 {
            let mut random = Random(seed);
            let mut now = random.below(1 << 40);
            let mut wheel = Wheel::new(now);
            let mut map: BTreeMap<(u64, u64), Entry> = BTreeMap::new();
            for id in 0..3_000 {
                match random.below(10) {
                    0..=4 => {
                        let reach = 1 << random.below(34);
                        let due = now + random.below(reach);
                        let (entry, event) = wheel.insert(now, due, (due, id));
                        assert!(event <= due && wheel.next_event() <= Some(event), "seed {seed}");
                        map.insert((due, id), entry);
                    }
                    5..=6 if !map.is_empty() => {
                        let skip = random.below(map.len() as u64) as usize;
                        let Some((&key, &entry)) = map.iter().nth(skip) else { continue };
                        map.remove(&key);
                        assert_eq!(wheel.remove(entry), Some(key), "seed {seed}");
                        assert_eq!(wheel.remove(entry), None, "seed {seed}");
                    }
                    _ => {
                        let reach = 1 << random.below(24);
                        now += random.below(reach);
                        let mut due = Vec::new();
                        let steps = 1 + random.below(64) as usize;
                        while wheel.next_event().is_some_and(|event| event <= now) {
                            wheel.advance(now, steps, &mut due);
                        }
                        let later = map.split_off(&(now + 1, 0));
                        let expected: Vec<_> = std::mem::replace(&mut map, later).into_keys().collect();
                        assert!(due.is_sorted_by_key(|(due, _)| *due), "seed {seed}");
                        due.sort_unstable();
                        assert_eq!(due, expected, "seed {seed}");
                    }
                }
                assert_eq!(wheel.len(), map.len(), "seed {seed}");
                let first = map.first_key_value().map(|((due, _), _)| *due);
                assert!(wheel.next_event() <= first || first.is_none(), "seed {seed}");
            }
        }
    }
}
