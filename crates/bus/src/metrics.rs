//! What a bus counts about itself.

/// Counts of one bus, as [`Context::metrics`](crate::Context::metrics) tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Slots in the queue now.
    pub depth: u32,
    /// Units retained now: slots, captures, places in batches.
    pub units: u32,
    /// Bytes of storage known now.
    pub bytes: u64,
    /// Publications so far.
    pub publications: u64,
    /// Deliveries completed so far.
    pub deliveries: u64,
    /// Slots cancelled so far.
    pub cancelled: u64,
    /// Admissions refused so far.
    pub refused: u64,
    /// Faults told so far, later ones included.
    pub faults: u64,
    /// Callbacks that have failed so far.
    pub failures: u64,
    /// Commands handled so far.
    pub commands: u64,
    /// Timers that have fired so far.
    pub timers: u64,
    /// Roots made so far.
    pub roots: u64,
    /// Roots alive now.
    pub roots_alive: u32,
    /// Roots that have ended, by the deliveries they paid for: place `n` counts those with 2^(n-1) to 2^n - 1, place
    /// 0 those with none.
    pub chains: [u64; CHAINS],
    /// The most deliveries that a root which has ended paid for.
    pub max_chain: u64,
}

/// The places of the histogram of chains.
pub const CHAINS: usize = 34;

/// The counts that no machine keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) publications: u64,
    pub(crate) deliveries: u64,
    pub(crate) cancelled: u64,
    pub(crate) refused: u64,
    pub(crate) failures: u64,
    pub(crate) commands: u64,
    pub(crate) timers: u64,
    pub(crate) chains: [u64; CHAINS],
    pub(crate) max_chain: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            publications: 0,
            deliveries: 0,
            cancelled: 0,
            refused: 0,
            failures: 0,
            commands: 0,
            timers: 0,
            chains: [0; CHAINS],
            max_chain: 0,
        }
    }
}

impl Counts {
    /// A root has ended after so many deliveries.
    #[inline]
    pub(crate) fn on_freed(&mut self, deliveries: u64) {
        let place = (u64::BITS - deliveries.leading_zeros()) as usize;
        self.chains[place.min(CHAINS - 1)] += 1;
        self.max_chain = self.max_chain.max(deliveries);
    }
}
