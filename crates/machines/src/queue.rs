//! The queue of a gate: places in order of arrival, with the owner's lifecycle lane let in first.
//!
//! # States
//!
//! The queue is a list of places that the driver keeps in order. A place is one of:
//!
//! ```text
//!  Own        one application record of the gate's own object
//!  Marker     "the own object has lifecycle records": at most one at a time
//!  Member     a ready member Actor; stands for the head of its own two lanes: at most one each
//!  Resume     a yielded handler whose wait has ended
//! ```
//!
//! # Transitions
//!
//! | head | lifecycle ready | choice |
//! |---|---|---|
//! | nothing | - | `Idle` |
//! | `Own` | no, or a debt is owed | the application record at the head |
//! | `Own` | yes | the first lifecycle record; the head keeps its place |
//! | `Held` | no | `Idle`, whatever stands behind |
//! | `Held` | yes | the first lifecycle record, whatever the debt |
//! | `Marker` | no | drop the marker |
//! | `Marker` | yes, a debt is owed and an application record waits | the marker goes to the back |
//! | `Marker` | yes | the first lifecycle record; the marker goes to the back while more remain |
//! | `Member`, `Resume` | - | the head |
//!
//! # Invariants
//!
//! * **Q1** a place never moves ahead of a place that was there before it (GATE-8, YIELD-6, LANE-11).
//! * **Q2** a lifecycle record of the own object is passed by no application record of it without a debt
//!   (LANE-8, LANE-9).
//! * **Q3** members are served one record a round (LANE-12).

use crate::pair::{Lane, Pair};

/// What stands at the head of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Head {
    /// The queue is empty.
    Nothing,
    /// An application record of the own object.
    Own,
    /// An application record of the own object that may not start yet: the object is about to move (JOIN-11).
    Held,
    /// The stand-in for the own object's lifecycle lane.
    Marker,
    /// A ready member Actor.
    Member,
    /// A yielded handler whose wait has ended.
    Resume,
}

/// What the driver has to do at this turn boundary.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use]
pub enum Choice {
    /// Nothing is ready: try to give the gate up.
    Idle,
    /// Take the head off the queue and run it.
    Head,
    /// Run the first lifecycle record; the head stays where it is.
    LifecycleFirst,
    /// Take the marker off and run the first lifecycle record; put the marker at the back if more remain.
    Lifecycle,
    /// Take the marker off: its lane is empty.
    DropMarker,
    /// Move the marker to the back: an application record of the object is owed a turn.
    MarkerToBack,
}

/// Decides what comes next.
pub const fn next(pair: Pair, head: Head, application: bool, lifecycle: bool) -> Choice {
    match head {
        Head::Nothing => Choice::Idle,
        Head::Member | Head::Resume => Choice::Head,
        Head::Own => match pair.choose(true, lifecycle) {
            Some(Lane::Lifecycle) => Choice::LifecycleFirst,
            _ => Choice::Head,
        },
        Head::Held if lifecycle => Choice::LifecycleFirst,
        Head::Held => Choice::Idle,
        Head::Marker => match (lifecycle, pair.choose(application, lifecycle)) {
            (false, _) => Choice::DropMarker,
            (true, Some(Lane::Application)) => Choice::MarkerToBack,
            (true, _) => Choice::Lifecycle,
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn lane_8_own_head_lets_lifecycle_in_first_and_keeps_its_place() {
        assert_eq!(next(Pair::default(), Head::Own, true, true), Choice::LifecycleFirst);
        assert_eq!(next(Pair::default(), Head::Own, true, false), Choice::Head);
    }

    #[test]
    fn lane_9_a_debt_sends_the_marker_behind_the_owed_record() {
        let mut pair = Pair::default();
        (0..8).for_each(|_| pair.on_turn(Lane::Lifecycle));
        assert_eq!(next(pair, Head::Own, true, true), Choice::Head);
        assert_eq!(next(pair, Head::Marker, true, true), Choice::MarkerToBack);
        assert_eq!(next(pair, Head::Marker, false, true), Choice::Lifecycle);
    }

    #[test]
    fn join_11_a_held_record_waits_whatever_the_debt() {
        let mut pair = Pair::default();
        (0..8).for_each(|_| pair.on_turn(Lane::Lifecycle));
        assert_eq!(next(pair, Head::Held, false, true), Choice::LifecycleFirst);
        assert_eq!(next(pair, Head::Held, false, false), Choice::Idle);
    }

    #[test]
    fn lane_12_members_and_resumes_run_at_their_place() {
        assert_eq!(next(Pair::default(), Head::Member, true, true), Choice::Head);
        assert_eq!(next(Pair::default(), Head::Resume, true, true), Choice::Head);
    }

    /// A driver in miniature over ids, to explore every short arrival order.
    #[derive(Clone, Default)]
    struct Toy {
        queue: VecDeque<(Head, u8)>,
        lifecycle: VecDeque<u8>,
        pair: Pair,
        log: Vec<(Head, u8)>,
    }

    impl Toy {
        fn arrive(&mut self, kind: Head, id: u8) {
            if kind == Head::Marker {
                if self.lifecycle.is_empty() {
                    self.queue.push_back((Head::Marker, 0));
                }
                self.lifecycle.push_back(id);
            } else {
                self.queue.push_back((kind, id));
            }
        }

        fn boundary(&mut self) -> bool {
            let head = self.queue.front().map_or(Head::Nothing, |place| place.0);
            let application = self.queue.iter().any(|place| place.0 == Head::Own);
            match next(self.pair, head, application, !self.lifecycle.is_empty()) {
                Choice::Idle => return false,
                Choice::Head => {
                    let place = self.queue.pop_front().expect("head");
                    if place.0 != Head::Member {
                        self.pair.on_turn(Lane::Application);
                    }
                    self.log.push(place);
                }
                Choice::LifecycleFirst => self.run_lifecycle(),
                Choice::Lifecycle => {
                    self.queue.pop_front();
                    self.run_lifecycle();
                    if !self.lifecycle.is_empty() {
                        self.queue.push_back((Head::Marker, 0));
                    }
                }
                Choice::DropMarker => {
                    self.queue.pop_front();
                }
                Choice::MarkerToBack => {
                    let marker = self.queue.pop_front().expect("marker");
                    self.queue.push_back(marker);
                }
            }
            true
        }

        fn run_lifecycle(&mut self) {
            self.pair.on_turn(Lane::Lifecycle);
            let id = self.lifecycle.pop_front().expect("lifecycle record");
            self.log.push((Head::Marker, id));
        }
    }

    #[test]
    fn model_yield_6_gate_8_places_keep_their_order_in_every_arrival_order() {
        let kinds = [Head::Own, Head::Marker, Head::Member, Head::Resume];
        for code in 0..4_usize.pow(7) {
            let mut toy = Toy::default();
            let mut pending = 0;
            for step in 0..7 {
                let kind = kinds[code / 4_usize.pow(step) % 4];
                // The toy stands for a driver that keeps one marker: an empty lane means no live marker.
                toy.arrive(kind, step as u8);
                pending += 1;
                if step % 2 == 1 {
                    toy.boundary();
                }
            }
            while toy.boundary() {}
            assert_eq!(toy.log.len(), pending, "every place is served once");
            for kind in kinds {
                let of_kind: Vec<u8> = toy.log.iter().filter(|p| p.0 == kind).map(|p| p.1).collect();
                assert!(of_kind.is_sorted(), "{kind:?} out of order: {:?}", toy.log);
            }
            let places: Vec<u8> = toy.log.iter().filter(|p| p.0 != Head::Marker).map(|p| p.1).collect();
            assert!(places.is_sorted(), "a place overtook another: {:?}", toy.log);
        }
    }
}
