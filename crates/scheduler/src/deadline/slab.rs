//! Storage with stable numbers in chunks, which gives its memory back when a chunk is empty.

/// Slots a chunk.
const CHUNK_LEN: usize = 256;
/// End of a free list.
const NONE: u32 = u32::MAX;

/// Values by number. O(1) to put and to take.
#[derive(Debug)]
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Every chunk with room, each once; the last is filled next.
    open: Vec<u32>,
    /// The empty chunk that keeps its memory, so that a single value that comes and goes is cheap: the one
    /// that was emptied last.
    spare: Option<u32>,
    /// Values in all chunks.
    len: usize,
}

#[derive(Debug)]
struct Chunk<T> {
    /// Empty while the chunk has no memory.
    slots: Vec<Slot<T>>,
    /// First free slot of those that were used before.
    free: u32,
    used: usize,
    /// Whether it is in `open`.
    is_open: bool,
}

#[derive(Debug)]
enum Slot<T> {
    Used(T),
    /// The next free slot of the chunk.
    Free(u32),
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab { chunks: Vec::new(), open: Vec::new(), spare: None, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, index: u32) -> Option<&T> {
        match self.chunks.get(index as usize / CHUNK_LEN)?.slots.get(index as usize % CHUNK_LEN)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.chunks.get_mut(index as usize / CHUNK_LEN)?.slots.get_mut(index as usize % CHUNK_LEN)? {
            Slot::Used(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(super) fn put(&mut self, value: T) -> u32 {
        let number = self.open_chunk();
        let chunk = &mut self.chunks[number as usize];
        if self.spare == Some(number) {
            self.spare = None;
        }
        self.len += 1;
        let offset = chunk.put(value);
        if chunk.used == CHUNK_LEN {
            chunk.is_open = false;
            self.open.pop();
        }
        number * CHUNK_LEN as u32 + offset
    }

    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        let number = index as usize / CHUNK_LEN;
        let chunk = self.chunks.get_mut(number)?;
        let value = chunk.take((index as usize % CHUNK_LEN) as u32)?;
        let is_empty = chunk.used == 0;
        if !chunk.is_open {
            chunk.is_open = true;
            self.open.push(number as u32);
        }
        self.len -= 1;
        if is_empty {
            self.emptied(number as u32);
        }
        Some(value)
    }

    /// The last of `open`, which stays there.
    fn open_chunk(&mut self) -> u32 {
        if let Some(number) = self.open.last() {
            return *number;
        }
        let number = self.chunks.len() as u32;
        self.chunks.push(Chunk { slots: Vec::new(), free: NONE, used: 0, is_open: true });
        self.open.push(number);
        number
    }

    fn emptied(&mut self, number: u32) {
        let Some(older) = self.spare.replace(number) else { return };
        if self.len == 0 {
            *self = Slab::new();
        } else if let Some(chunk) = self.chunks.get_mut(older as usize) {
            chunk.slots = Vec::new();
            chunk.free = NONE;
        }
    }

    /// Slots that have memory.
    #[cfg(all(test, not(turnkeep_loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.slots.capacity()).sum()
    }
}

impl<T> Chunk<T> {
    fn put(&mut self, value: T) -> u32 {
        self.used += 1;
        if self.free == NONE {
            if self.slots.capacity() == 0 {
                self.slots.reserve_exact(CHUNK_LEN);
            }
            self.slots.push(Slot::Used(value));
            return self.slots.len() as u32 - 1;
        }
        let offset = self.free;
        if let Slot::Free(next) = std::mem::replace(&mut self.slots[offset as usize], Slot::Used(value)) {
            self.free = next;
        }
        offset
    }

    fn take(&mut self, offset: u32) -> Option<T> {
        let slot = self.slots.get_mut(offset as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(self.free)) else { return None };
        self.free = offset;
        self.used -= 1;
        Some(value)
    }
}

#[cfg(all(test, not(turnkeep_loom)))]
mod tests {
    use super::*;

    #[test]
    fn slab_numbers_stay_and_are_used_again() {
        let mut slab = Slab::new();
        let numbers: Vec<u32> = (0..1_000).map(|value| slab.put(value)).collect();
        for (value, number) in numbers.iter().enumerate() {
            assert_eq!(slab.get(*number), Some(&(value as i32)));
        }
        assert_eq!(slab.take(numbers[300]), Some(300));
        assert_eq!(slab.take(numbers[300]), None);
        assert_eq!(slab.get_mut(numbers[300]), None);
        let again = slab.put(7);
        assert_eq!(slab.take(again), Some(7));
    }

    #[test]
    fn slab_memory_goes_back_after_a_wave_also_beside_a_lasting_value() {
        let mut slab = Slab::new();
        let lasting = slab.put(0);
        let wave: Vec<u32> = (0..100_000).map(|value| slab.put(value)).collect();
        assert!(slab.capacity() >= 100_000);
        for number in wave {
            assert!(slab.take(number).is_some());
        }
        assert!(slab.capacity() <= 2 * CHUNK_LEN, "{}", slab.capacity());
        assert_eq!(slab.take(lasting), Some(0));
        assert!(slab.capacity() <= CHUNK_LEN);
    }
}
