//! The registration scope of one handler: what may start after its end, and whether it does.
//!
//! # States
//!
//! ```text
//!  Scope::new ──► Open ──seal(ending)──► Closed ◄── Scope::closed
//!                 │  ▲                   │    ▲
//!                 └──┘ register          └────┘ register: refused
//! ```
//!
//! # Transitions
//!
//! | state | verb | result |
//! |---|---|---|
//! | Open | `register` within every limit | the next [`Ticket`], from 0 |
//! | Open | `register` over a limit | [`Refused`], nothing changed |
//! | Open | `seal(Succeeded)` | [`Verdict::Start`] of all tickets; Closed |
//! | Open | `seal` of any other ending | [`Verdict::Drop`] of all tickets; Closed |
//! | Closed | `register` | [`Refused::Closed`] |
//! | Closed | `seal` | a verdict over no tickets |
//!
//! # Invariants
//!
//! * **D1** every ticket is in exactly one verdict: the tickets of a verdict are `0..count`, in the order they
//!   were registered (JOIN-2, JOIN-11).
//! * **D2** tickets start only if the handler succeeded, its reply encoded (JOIN-3).
//! * **D3** a scope never holds more than its limits, and a refusal changes nothing (JOIN-5).
//! * **D4** a closed scope stays closed (JOIN-5).
//!
//! # Not here
//!
//! What was registered, its deadline and the order of its steps: the driver keeps the values beside their
//! tickets, `join` has the steps. Whether the reply was *delivered*: that drops nothing.

/// The limits of one scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// The most registrations of one handler.
    pub registrations: u32,
    /// The most bytes of one registration.
    pub one_bytes: u64,
    /// The most bytes of all registrations of one handler together.
    pub all_bytes: u64,
}

impl Limits {
    /// 64 registrations, 1 MiB each, 8 MiB together.
    pub const STANDARD: Self = Self { registrations: 64, one_bytes: 1 << 20, all_bytes: 8 << 20 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// The order number of a registration in its scope, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u32);

/// Why a registration was not taken. The scope is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refused {
    /// The code that asks is in no handler, or the handler has ended.
    Closed,
    /// The handler has registered as often as it may.
    TooMany,
    /// This registration alone is over the limit.
    TooLarge,
    /// Together with the earlier ones it is over the limit.
    TooLargeTogether,
}

/// How a handler ended, the encoding of its reply included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ending {
    /// It returned its reply, and the reply is encoded where it has to be.
    Succeeded,
    /// It returned its error.
    Failed,
    /// It panicked.
    Panicked,
    /// Its owner was destroyed or shutdown was forced.
    Cancelled,
    /// It returned a reply that cannot be encoded.
    ReplyNotEncoded,
}

/// What the driver now owes the registrations: `0..count`, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "the registrations are started or dropped by the driver"]
pub enum Verdict {
    /// Start this many.
    Start(u32),
    /// Drop this many, unstarted.
    Drop(u32),
}

/// The registration scope of one handler.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    /// Set once, at the start.
    limits: Limits,
    /// Grows by one with every ticket; zero again once sealed.
    registered: u32,
    /// Grows with every ticket; never over `limits.all_bytes`.
    bytes: u64,
    /// Until `seal`.
    open: bool,
}

impl Scope {
    /// The scope of a handler that starts.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self { limits, registered: 0, bytes: 0, open: true }
    }

    /// The scope of code that is no handler: lifecycle callbacks, factories, plain tasks.
    #[must_use]
    pub const fn closed() -> Self {
        Self { limits: Limits::STANDARD, registered: 0, bytes: 0, open: false }
    }

    /// Whether a registration can succeed at all.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// How many registrations wait for the handler's end.
    #[must_use]
    pub const fn registered(&self) -> u32 {
        self.registered
    }

    /// Takes a registration that carries `bytes` bytes.
    ///
    /// # Errors
    ///
    /// The scope is closed or a limit would be passed; then nothing has changed.
    pub fn register(&mut self, bytes: u64) -> Result<Ticket, Refused> {
        if !self.open {
            return Err(Refused::Closed);
        }
        if self.registered >= self.limits.registrations {
            return Err(Refused::TooMany);
        }
        if bytes > self.limits.one_bytes {
            return Err(Refused::TooLarge);
        }
        if bytes > self.limits.all_bytes.saturating_sub(self.bytes) {
            return Err(Refused::TooLargeTogether);
        }
        let ticket = Ticket(self.registered);
        self.registered += 1;
        self.bytes += bytes;
        Ok(ticket)
    }

    /// Closes the scope at the handler's end. Sealed again, it owes nothing more.
    pub fn seal(&mut self, ending: Ending) -> Verdict {
        self.open = false;
        self.bytes = 0;
        let count = core::mem::take(&mut self.registered);
        match ending {
            Ending::Succeeded => Verdict::Start(count),
            Ending::Failed | Ending::Panicked | Ending::Cancelled | Ending::ReplyNotEncoded => {
                Verdict::Drop(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ENDINGS: [Ending; 5] =
        [Ending::Succeeded, Ending::Failed, Ending::Panicked, Ending::Cancelled, Ending::ReplyNotEncoded];
    const SMALL: Limits = Limits { registrations: 3, one_bytes: 4, all_bytes: 7 };

    /// Every sequence of up to `depth` sizes out of 0 to 5.
    fn sequences(depth: usize) -> Vec<Vec<u64>> {
        let mut all = Vec::from([Vec::new()]);
        let mut from = 0;
        for _ in 0..depth {
            let to = all.len();
            for index in from..to {
                for size in 0..=5 {
                    let mut longer = all[index].clone();
                    longer.push(size);
                    all.push(longer);
                }
            }
            from = to;
        }
        all
    }

    /// The rule of the limits, said again over the whole history.
    fn wanted(taken: &[u64], size: u64) -> Result<Ticket, Refused> {
        let after = taken.iter().sum::<u64>() + size;
        match size {
            _ if taken.len() == 3 => Err(Refused::TooMany),
            5.. => Err(Refused::TooLarge),
            _ if after > 7 => Err(Refused::TooLargeTogether),
            _ => Ok(Ticket(taken.len() as u32)),
        }
    }

    #[test]
    fn join_5_every_sequence_of_registrations_keeps_the_limits() {
        for sizes in sequences(5) {
            let mut scope = Scope::new(SMALL);
            let mut taken = Vec::new();
            for &size in &sizes {
                let before = scope.clone();
                let result = scope.register(size);
                assert_eq!(result, wanted(&taken, size), "{taken:?} then {size}");
                match result {
                    Ok(_) => taken.push(size),
                    Err(_) => assert_eq!(scope, before, "a refusal changes nothing"),
                }
            }
            assert_eq!(scope.registered() as usize, taken.len());
        }
    }

    #[test]
    fn join_3_every_sequence_starts_only_after_success() {
        for sizes in sequences(3) {
            for ending in ENDINGS {
                let mut scope = Scope::new(SMALL);
                let count = sizes.iter().filter(|&&size| scope.register(size).is_ok()).count() as u32;
                let verdict = scope.seal(ending);
                let start = ending == Ending::Succeeded;
                assert_eq!(verdict, if start { Verdict::Start(count) } else { Verdict::Drop(count) });
            }
        }
    }

    #[test]
    fn join_3_a_second_seal_owes_nothing() {
        for first in ENDINGS {
            for second in ENDINGS {
                let mut scope = Scope::new(SMALL);
                assert_eq!(scope.register(1), Ok(Ticket(0)));
                assert!(matches!(scope.seal(first), Verdict::Start(1) | Verdict::Drop(1)));
                assert!(matches!(scope.seal(second), Verdict::Start(0) | Verdict::Drop(0)));
            }
        }
    }

    #[test]
    fn join_5_a_sealed_scope_refuses_every_size() {
        for ending in ENDINGS {
            for size in [0, 1, u64::MAX] {
                let mut scope = Scope::new(SMALL);
                let _ = scope.seal(ending);
                assert!(!scope.is_open());
                assert_eq!(scope.register(size), Err(Refused::Closed));
                assert_eq!(scope.registered(), 0);
            }
        }
    }

    #[test]
    fn join_5_code_outside_a_handler_has_a_closed_scope() {
        let mut scope = Scope::closed();
        assert!(!scope.is_open());
        assert_eq!(scope.register(0), Err(Refused::Closed));
        assert_eq!(scope.seal(Ending::Succeeded), Verdict::Start(0));
    }

    #[test]
    fn join_5_the_standard_limits_are_64_of_1_mib_and_8_mib_together() {
        const MIB: u64 = 1 << 20;
        let mut scope = Scope::new(Limits::default());
        assert_eq!(scope.register(MIB + 1), Err(Refused::TooLarge));
        assert_eq!(scope.register(u64::MAX), Err(Refused::TooLarge));
        for order in 0..8 {
            assert_eq!(scope.register(MIB), Ok(Ticket(order)));
        }
        assert_eq!(scope.register(1), Err(Refused::TooLargeTogether));
        for order in 8..64 {
            assert_eq!(scope.register(0), Ok(Ticket(order)));
        }
        assert_eq!(scope.register(0), Err(Refused::TooMany));
        assert_eq!(scope.seal(Ending::Succeeded), Verdict::Start(64));
    }
}
