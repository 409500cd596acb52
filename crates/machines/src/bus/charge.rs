//! The charge: how many units a bus retains, how many bytes it knows of, and what is still allowed.
//!
//! # Invariants
//!
//! * **H1** neither axis ever passes its limit; reaching it is allowed (FAULT-1).
//! * **H2** a refused request changes nothing (ADM-1).
//! * **H3** giving back more than was taken breaks the machine, and it says why for ever.
//!
//! # Not here
//!
//! What a refusal means: the caller latches the fault.

/// The limits of one bus.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Queued slots, invocation captures and batch reservations that may be retained at once.
    pub units: u32,
    /// Bytes of storage that may be known at once.
    pub bytes: u64,
    /// Deliveries that one root pays for.
    pub deliveries: u64,
    /// Commands that one root pays for.
    pub commands: u64,
    /// Attempts at a head that is held elsewhere before it counts as stalled.
    pub stalls: u32,
    /// Timer firings at one instant.
    pub firings: u64,
}

impl Default for Limits {
    /// 65,536 units, 64 MiB, 1,048,576 deliveries and as many commands a root, 1,000 attempts, 1,000,000 firings.
    fn default() -> Self {
        Self {
            units: 65_536,
            bytes: 64 << 20,
            deliveries: 1_048_576,
            commands: 1_048_576,
            stalls: 1_000,
            firings: 1_000_000,
        }
    }
}

/// Which axis had no room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Full {
    /// The number of retained units.
    Units,
    /// The known bytes.
    Bytes,
}

/// What a bus retains now.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Charge {
    units: u32,
    bytes: u64,
    broken: Option<&'static str>,
}

impl Charge {
    /// Takes units and bytes, both or neither.
    ///
    /// # Errors
    ///
    /// The axis without room; nothing has changed then.
    #[inline]
    pub const fn take(&mut self, limits: &Limits, units: u32, bytes: u64) -> Result<(), Full> {
        if units > limits.units.saturating_sub(self.units) {
            return Err(Full::Units);
        }
        if bytes > limits.bytes.saturating_sub(self.bytes) {
            return Err(Full::Bytes);
        }
        self.units += units;
        self.bytes += bytes;
        Ok(())
    }

    /// Gives units and bytes back.
    #[inline]
    pub const fn give_back(&mut self, units: u32, bytes: u64) {
        if units > self.units || bytes > self.bytes {
            self.broken = Some("FAULT-4: more was given back than had been taken");
            return;
        }
        self.units -= units;
        self.bytes -= bytes;
    }

    /// Units retained.
    #[must_use]
    pub const fn units(&self) -> u32 {
        self.units
    }

    /// Bytes known.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why the machine is broken, if it is.
    #[must_use]
    pub const fn broken(&self) -> Option<&'static str> {
        self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { units: 2, bytes: 100, deliveries: 1, commands: 1, stalls: 1, firings: 1 };

    #[test]
    fn fault_1_the_limit_itself_is_allowed_and_the_next_request_is_refused() {
        let mut charge = Charge::default();
        assert_eq!(charge.take(&LIMITS, 2, 100), Ok(()));
        let full = charge;
        assert_eq!(charge.take(&LIMITS, 1, 0), Err(Full::Units));
        assert_eq!(charge.take(&LIMITS, 0, 1), Err(Full::Bytes));
        assert_eq!(charge, full, "a refusal changes nothing");
        charge.give_back(1, 100);
        assert_eq!(charge.take(&LIMITS, 1, 100), Ok(()));
    }

    #[test]
    fn fault_1_the_defaults_are_the_documented_ones() {
        let limits = Limits::default();
        assert_eq!((limits.units, limits.bytes), (65_536, 64 * 1024 * 1024));
        assert_eq!((limits.deliveries, limits.commands), (1_048_576, 1_048_576));
        assert_eq!(limits.firings, 1_000_000);
    }

    #[test]
    fn fault_4_giving_back_too_much_breaks_the_machine_for_ever() {
        let mut charge = Charge::default();
        charge.give_back(1, 0);
        assert!(charge.broken().is_some());
        assert_eq!(charge.take(&LIMITS, 1, 1), Ok(()));
        charge.give_back(1, 1);
        assert!(charge.broken().is_some());
    }
}
