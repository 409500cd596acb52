//! A reservation: a place that is granted before its capture is built.
//!
//! # States
//!
//! ```text
//!             fill
//!  Reserved ─────────► Ready        the capture is in; a drain may deliver it
//!     │      abandon
//!     └──────────────► Abandoned    a cancelled slot; only a drain or a teardown takes it out
//! ```
//!
//! # Invariants
//!
//! * **V1** a reservation is settled once, by a fill or by an abandonment (ADM-3).
//! * **V2** a granted one can always be filled: nothing that happens to the bus is an argument here (ADM-2).

/// How far a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Granted, its capture still to come.
    Reserved,
    /// With its capture.
    Ready,
    /// Its reservation was dropped.
    Abandoned,
}

/// How a reservation ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settlement {
    /// The capture has been built and handed over.
    Fill,
    /// There will be no capture.
    Abandon,
}

impl Stage {
    /// The stage after the settlement; none if there is nothing left to settle.
    #[must_use]
    pub const fn settle(self, how: Settlement) -> Option<Self> {
        match (self, how) {
            (Self::Reserved, Settlement::Fill) => Some(Self::Ready),
            (Self::Reserved, Settlement::Abandon) => Some(Self::Abandoned),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adm_3_a_reservation_is_settled_once() {
        for how in [Settlement::Fill, Settlement::Abandon] {
            let settled = Stage::Reserved.settle(how);
            assert!(settled.is_some());
            for again in [Settlement::Fill, Settlement::Abandon] {
                assert_eq!(settled.and_then(|stage| stage.settle(again)), None);
            }
        }
    }
}
