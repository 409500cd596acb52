//! A digest of bytes and numbers that is the same on every machine.

/// A running 64-bit digest: eight bytes a step, each mixed by a multiplication and a shift. It tells runs apart; it
/// resists no forger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    state: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { state: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    /// Takes in the bytes and their number.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
    }

    /// Takes in a number.
    #[inline]
    pub fn number(&mut self, number: u64) {
        let mixed = (self.state ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.state = mixed ^ (mixed >> 29);
    }

    /// What it comes to so far.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(parts: &[&[u8]]) -> u64 {
        let mut digest = Digest::default();
        parts.iter().for_each(|part| digest.bytes(part));
        digest.value()
    }

    #[test]
    fn bounds_order_and_every_byte_count() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
        assert_ne!(digest(&[b"a", b"b"]), digest(&[b"b", b"a"]));
        assert_ne!(digest(&[b"a\0"]), digest(&[b"a"]));
        assert_eq!(digest(&[b"the same"]), digest(&[b"the same"]));
    }
}
