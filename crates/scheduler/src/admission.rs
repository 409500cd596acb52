//! The admission words of one lane, shared between senders and the holder.
//!
//! Whether a record fits is the machine's decision ([`turnkeep_machines::lane`]); this file makes that
//! decision in one compare-exchange. Two words, on different cache lines of the owner:
//!
//! * `taken`: senders advance it; the sealed and the waiting bit are in it, so that room, seal and waiters
//!   are one decision (LANE-7).
//! * `returned`: the holder advances it with a plain store, for it alone writes it. Senders work with `seen`,
//!   a stale copy beside `taken`, and look at the original only when the copy says "full": acceptance touches
//!   one line, and a refusal is exact.
//!
//! # The race that must not happen
//!
//! A sender finds the lane full and starts to wait; the holder gives room back and sees no waiter; nobody
//! ever serves it. The sender sets the waiting bit (an exchange) and then reads `returned` again; the holder
//! stores `returned`, passes a full fence and then reads the bit. One of the two sees the other (Dekker 1965,
//! with the fences that C11 needs).

use turnkeep_machines::lane::{Limits, Refused, Returned, Taken, Use};

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// How often a reader of both words looks for a moment in which nothing came back.
const LOOKS_MAX: u32 = 8;

/// The senders' side of a lane.
#[derive(Debug)]
pub(crate) struct Front {
    /// The running total of admissions, with the sealed and the waiting bit.
    taken: AtomicU64,
    /// A copy of `Back::returned`, refreshed when it looks full.
    seen: AtomicU64,
}

/// The holder's side of a lane.
#[derive(Debug)]
pub(crate) struct Back {
    /// The running total of what came back.
    returned: AtomicU64,
}

impl Back {
    pub(crate) fn new() -> Self {
        Self { returned: AtomicU64::new(0) }
    }

    /// Gives one reservation back. Only the holder may.
    pub(crate) fn give_back(&self, bytes: u64) {
        let now = Returned::from_bits(self.returned.load(Ordering::Relaxed));
        self.returned.store(now.give_back(bytes).bits(), Ordering::Release);
    }

    fn load(&self) -> Returned {
        Returned::from_bits(self.returned.load(Ordering::Acquire))
    }
}

impl Front {
    pub(crate) fn new() -> Self {
        Self { taken: AtomicU64::new(0), seen: AtomicU64::new(0) }
    }

    /// Admits one record that reserves `bytes`.
    pub(crate) fn admit(&self, back: &Back, limits: Limits, bytes: u64) -> Result<(), Refused> {
        self.advance(back, |taken, returned| taken.admit(returned, limits, bytes))
    }

    /// Admits one record for the first of the waiters.
    pub(crate) fn admit_waiter(&self, back: &Back, limits: Limits, bytes: u64) -> Result<(), Refused> {
        self.advance(back, |taken, returned| taken.admit_waiter(returned, limits, bytes))
    }

    fn advance(
        &self,
        back: &Back,
        decide: impl Fn(Taken, Returned) -> Result<Taken, Refused>,
    ) -> Result<(), Refused> {
        let mut returned = Returned::from_bits(self.seen.load(Ordering::Relaxed));
        let mut bits = self.taken.load(Ordering::Relaxed);
        loop {
            match decide(Taken::from_bits(bits), returned) {
                Ok(next) => {
                    let swap = self.taken.compare_exchange_weak(
                        bits,
                        next.bits(),
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    match swap {
                        Ok(_) => return Ok(()),
                        Err(now) => bits = now,
                    }
                }
                // Refuse only with a `returned` that did not change while `taken` was read.
                Err(refused @ (Refused::Records | Refused::Bytes)) => {
                    let latest = self.refresh(back);
                    if latest == returned {
                        return Err(refused);
                    }
                    returned = latest;
                    bits = self.taken.load(Ordering::Relaxed);
                }
                Err(refused) => return Err(refused),
            }
        }
    }

    fn refresh(&self, back: &Back) -> Returned {
        let returned = back.load();
        self.seen.store(returned.bits(), Ordering::Relaxed);
        returned
    }

    /// Seals the lane: nothing more is admitted. Returns whether this call sealed it.
    pub(crate) fn seal(&self) -> bool {
        !Taken::from_bits(self.taken.fetch_or(Taken::sealed_bit(), Ordering::AcqRel)).is_sealed()
    }

    /// Takes a seal off again.
    pub(crate) fn open(&self) {
        self.taken.fetch_and(!Taken::sealed_bit(), Ordering::AcqRel);
    }

    pub(crate) fn is_sealed(&self) -> bool {
        self.load().is_sealed()
    }

    /// Announces a waiter; room that came back before is seen by the caller's next look at the lane.
    pub(crate) fn announce_waiter(&self) {
        self.taken.fetch_or(Taken::waiting_bit(), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// The last waiter is gone.
    pub(crate) fn withdraw_waiters(&self) {
        self.taken.fetch_and(!Taken::waiting_bit(), Ordering::AcqRel);
    }

    /// Whether somebody waits. The holder passes a sequentially consistent fence between giving back and this
    /// look.
    pub(crate) fn has_waiters(&self) -> bool {
        self.load().has_waiters()
    }

    /// Admissions that are reserved and not yet appended, given how many the holder has seen.
    pub(crate) fn under_way(&self, appended: u32) -> u32 {
        Taken::from_bits(self.taken.load(Ordering::Acquire)).under_way(appended)
    }

    /// What is outstanding at one moment, if there is a quiet one in a few looks; else a little more than it was.
    /// Returned first: a record that comes back in between is counted, never missed.
    pub(crate) fn outstanding(&self, back: &Back) -> Use {
        let mut returned = back.load();
        let mut looks = 0;
        loop {
            let taken = Taken::from_bits(self.taken.load(Ordering::Acquire));
            let latest = back.load();
            looks += 1;
            if latest.bits() == returned.bits() || looks == LOOKS_MAX {
                return taken.outstanding(returned);
            }
            returned = latest;
        }
    }

    fn load(&self) -> Taken {
        Taken::from_bits(self.taken.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use super::*;

    #[test]
    fn lane_5_refusals_are_exact_with_a_stale_copy() {
        let (front, back) = (Front::new(), Back::new());
        let limits = Limits::new(2, 10_000).unwrap();
        for _ in 0..1000 {
            assert_eq!(front.admit(&back, limits, 300), Ok(()));
            assert_eq!(front.admit(&back, limits, 300), Ok(()));
            assert_eq!(front.admit(&back, limits, 300), Err(Refused::Records));
            back.give_back(300);
            back.give_back(300);
        }
        assert_eq!(front.outstanding(&back), Use { records: 0, bytes: 0 });
    }
}

#[cfg(all(test, turnkeep_loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn loom_lane_6_a_waiter_that_announces_itself_while_room_comes_back_is_seen_by_one_side() {
        loom::model(|| {
            let lane = Arc::new((Front::new(), Back::new()));
            let limits = Limits::new(1, 10_000).unwrap();
            assert!(lane.0.admit(&lane.1, limits, 256).is_ok());
            let sender = {
                let lane = lane.clone();
                loom::thread::spawn(move || {
                    lane.0.announce_waiter();
                    lane.0.admit_waiter(&lane.1, limits, 256).is_ok()
                })
            };
            lane.1.give_back(256);
            fence(SeqCst);
            let holder_saw = lane.0.has_waiters();
            let sender_got_room = sender.join().unwrap();
            assert!(holder_saw || sender_got_room, "a waiter nobody serves");
        });
    }

    #[test]
    fn loom_lane_7_a_seal_knows_of_every_admission() {
        loom::model(|| {
            let lane = Arc::new((Front::new(), Back::new()));
            let appended = Arc::new(AtomicUsize::new(0));
            let limits = Limits::new(2, 10_000).unwrap();
            let sender = {
                let (lane, appended) = (lane.clone(), appended.clone());
                loom::thread::spawn(move || {
                    let accepted = lane.0.admit(&lane.1, limits, 256).is_ok();
                    if accepted {
                        appended.fetch_add(1, SeqCst);
                    }
                    accepted
                })
            };
            assert!(lane.0.seal());
            let early = appended.load(SeqCst) as u32;
            let under_way = lane.0.under_way(early);
            let accepted = sender.join().unwrap();
            assert_eq!(u32::from(accepted), early + under_way, "the seal missed an admission");
        });
    }

    /// A sender that decides, then appends, against a holder that seals, then drains until nothing is under way:
    /// after that nothing comes any more. An undo follows, and lets admissions through again.
    #[test]
    fn loom_lane_7_a_seal_that_is_settled_gets_no_further_record() {
        loom::model(|| {
            let lane = Arc::new((Front::new(), Back::new()));
            let inbox = Arc::new(AtomicUsize::new(0));
            let limits = Limits::new(2, 10_000).unwrap();
            let sender = {
                let (lane, inbox) = (lane.clone(), inbox.clone());
                loom::thread::spawn(move || {
                    let accepted = lane.0.admit(&lane.1, limits, 256).is_ok();
                    if accepted {
                        inbox.fetch_add(1, SeqCst);
                    }
                    accepted
                })
            };
            lane.0.seal();
            let mut appended = 0;
            loop {
                appended += inbox.swap(0, SeqCst) as u32;
                if lane.0.under_way(appended) == 0 {
                    break;
                }
                loom::thread::yield_now();
            }
            let accepted = sender.join().unwrap();
            assert_eq!(inbox.load(SeqCst), 0, "a record came after the seal was settled");
            assert_eq!(u32::from(accepted), appended);
            lane.0.open();
            assert!(lane.0.admit(&lane.1, limits, 256).is_ok(), "open again");
        });
    }

    #[test]
    fn loom_lane_1_two_senders_never_exceed_the_limit() {
        loom::model(|| {
            let lane = Arc::new((Front::new(), Back::new()));
            let limits = Limits::new(1, 10_000).unwrap();
            let other = lane.clone();
            let sender = loom::thread::spawn(move || other.0.admit(&other.1, limits, 256).is_ok());
            let mine = lane.0.admit(&lane.1, limits, 256).is_ok();
            let theirs = sender.join().unwrap();
            assert!(mine ^ theirs, "exactly one fits");
        });
    }
}
