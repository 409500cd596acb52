//! A case for every clause: told as it should be the trace is clean, told wrongly that clause is named alone.

use std::collections::BTreeSet;

use turnkeep_trace::clauses::CLAUSES;
use turnkeep_trace::field::{JoinId, Lane, Late, ObjectId, Outcome, RecordId, Scope, Stage, TimerId, Why};
use turnkeep_trace::{Checker, Event, Finding};

use crate::script::{ANN, BOB, HALL, LONE, SPOT, Script};

type Case = (&'static str, fn(&mut Script, bool));

const GATES: &[Case] = &[
    ("GATE-1", |s, bad| {
        s.send(SPOT, 1);
        s.send(SPOT, 2);
        s.begin(SPOT, 1);
        if bad {
            s.begin(SPOT, 2);
            s.set_grant(SPOT, 1);
            s.forced = true;
        } else {
            s.end(1);
            s.turn(SPOT, 2);
        }
    }),
    ("GATE-1", |s, bad| {
        // One object, two gates.
        s.send(LONE, 1);
        s.send(LONE, 2);
        s.begin(LONE, 1);
        if bad {
            s.say(Event::Entered { object: LONE, from: HALL, spot: SPOT });
            s.place(LONE);
            s.begin_under(SPOT, LONE, 2);
            s.forced = true;
        } else {
            s.end(1);
            s.turn(LONE, 2);
        }
    }),
    ("GATE-3", |s, bad| {
        s.send(ANN, 1);
        if bad {
            s.begin_under(ANN, ANN, 1);
        } else {
            s.place(ANN);
            s.begin(ANN, 1);
        }
        s.end(1);
    }),
    ("GATE-5", |s, bad| {
        s.send(LONE, 1);
        if bad {
            s.say(Event::MemberPlaced { gate: HALL, object: LONE });
            s.begin_under(HALL, LONE, 1);
        } else {
            s.begin(LONE, 1);
        }
        s.end(1);
    }),
    ("GATE-7", |s, bad| {
        s.send(SPOT, 1);
        s.send(SPOT, 2);
        s.begin(SPOT, 1);
        s.keep(1);
        if bad {
            s.begin(SPOT, 2);
            s.forced = true;
        } else {
            s.go_on(1);
            s.end(1);
            s.turn(SPOT, 2);
        }
    }),
    ("GATE-8", |s, bad| {
        s.send(HALL, 1);
        s.send(HALL, 2);
        let (first, second) = if bad { (2, 1) } else { (1, 2) };
        s.turn(HALL, first);
        s.turn(HALL, second);
    }),
    ("GATE-8", |s, bad| {
        // One thread's records, appended in another order.
        s.accept(HALL, Lane::Application, 1);
        s.accept(HALL, Lane::Application, 2);
        let order = if bad { [2, 1] } else { [1, 2] };
        order.iter().for_each(|record| s.append(*record));
        order.iter().for_each(|record| s.turn(HALL, *record));
    }),
    ("GATE-9", |s, bad| {
        s.run(SPOT, 1);
        s.run(SPOT, 2);
        if bad {
            s.set_grant(SPOT, 0);
        }
        s.run(SPOT, 3);
    }),
    ("GATE-9", |s, bad| {
        s.run(SPOT, 1);
        s.send(SPOT, 2);
        s.begin(SPOT, 2);
        s.keep(2);
        s.set_grant(SPOT, if bad { 1 } else { 2 });
        s.go_on(2);
        s.set_grant(SPOT, 2);
        s.end(2);
    }),
];

const LANES: &[Case] = &[
    ("LANE-1", |s, bad| {
        let all = if bad { 5 } else { 4 };
        (1..=all).for_each(|record| s.send(HALL, record));
        (1..=all).for_each(|record| s.turn(HALL, record));
    }),
    ("LANE-1", |s, bad| {
        let bytes = if bad { 1300 } else { 1200 };
        s.accept_with(HALL, Lane::Application, 1, bytes, false);
        s.append(1);
        s.begin(HALL, 1);
        s.give_back_bytes(1, bytes);
        s.end_unreturned(1);
    }),
    ("LANE-2", |s, bad| {
        let bytes = if bad { 255 } else { 256 };
        s.accept_with(HALL, Lane::Application, 1, bytes, false);
        s.append(1);
        s.begin(HALL, 1);
        s.give_back_bytes(1, bytes);
        s.end_unreturned(1);
    }),
    ("LANE-3", |s, bad| {
        s.send(HALL, 1);
        s.begin(HALL, 1);
        if bad { s.end_unreturned(1) } else { s.end(1) }
    }),
    ("LANE-3", |s, bad| {
        s.send(HALL, 1);
        s.begin(HALL, 1);
        if bad {
            s.give_back(1);
        }
        s.end(1);
    }),
    ("LANE-3", |s, bad| {
        s.send(HALL, 1);
        s.begin(HALL, 1);
        s.give_back_bytes(1, if bad { 299 } else { 300 });
        s.end_unreturned(1);
    }),
    ("LANE-3", |s, bad| {
        // Back while the handler waits.
        s.send(HALL, 1);
        s.begin(HALL, 1);
        s.keep(1);
        if bad {
            s.give_back(1);
        }
        s.go_on(1);
        if bad { s.end_unreturned(1) } else { s.end(1) }
    }),
    ("LANE-5", |s, bad| {
        s.run(HALL, 1);
        s.say(Event::Refused { object: HALL, lane: Lane::Application, record: RecordId(2), why: Why::Full });
        if bad {
            s.say(Event::Appended { object: HALL, record: RecordId(2) });
        }
    }),
    ("LANE-6", |s, bad| {
        for record in [1, 2] {
            s.say(Event::Waiting {
                object: HALL,
                lane: Lane::Application,
                record: RecordId(record),
                by: RecordId(0),
            });
        }
        let order = if bad { [2, 1] } else { [1, 2] };
        for record in order {
            s.accept_with(HALL, Lane::Application, record, 300, true);
            s.append(record);
        }
        order.iter().for_each(|record| s.turn(HALL, *record));
    }),
    ("LANE-6", |s, bad| {
        // A waiter that has left is passed; one that has not is not.
        for record in [1, 2] {
            s.say(Event::Waiting {
                object: HALL,
                lane: Lane::Application,
                record: RecordId(record),
                by: RecordId(0),
            });
        }
        let left = Event::LeftLine { object: HALL, lane: Lane::Application, record: RecordId(1) };
        if !bad {
            s.say(left.clone());
        }
        s.accept_with(HALL, Lane::Application, 2, 300, true);
        s.append(2);
        s.turn(HALL, 2);
        if bad {
            s.say(left);
        }
    }),
    ("LANE-7", |s, bad| {
        // Accepted and never run.
        s.send(HALL, 1);
        if !bad {
            s.turn(HALL, 1);
        }
    }),
    ("LANE-7", |s, bad| {
        // Something is left when the last record begins.
        s.send(HALL, 1);
        if !bad {
            s.turn(HALL, 1);
        }
        s.close(HALL, 9);
        if bad {
            s.give_back(1);
            s.say(Event::Discarded { object: HALL, record: RecordId(1), why: Why::Ended });
        }
    }),
    ("LANE-7", |s, bad| {
        // Run after the end, instead of refused.
        s.send(HALL, 1);
        s.ended(HALL);
        if bad {
            s.turn(HALL, 1);
        } else {
            s.give_back(1);
            s.say(Event::Discarded { object: HALL, record: RecordId(1), why: Why::Ended });
        }
    }),
    ("LANE-7", |s, bad| {
        // Handed over only under a seal.
        s.send(HALL, 1);
        if !bad {
            s.say(Event::Sealed { object: HALL });
        }
        s.say(Event::HandedOver { object: HALL, record: RecordId(1) });
    }),
    ("LANE-8", |s, bad| {
        s.send(HALL, 1);
        s.lifecycle(HALL, 2);
        let (first, second) = if bad { (1, 2) } else { (2, 1) };
        s.turn(HALL, first);
        s.turn(HALL, second);
    }),
    ("LANE-9", |s, bad| {
        s.send(HALL, 1);
        (2..=10).for_each(|record| s.lifecycle(HALL, record));
        (2..=9).for_each(|record| s.turn(HALL, record));
        let (first, second) = if bad { (10, 1) } else { (1, 10) };
        s.turn(HALL, first);
        s.turn(HALL, second);
    }),
    ("LANE-9", |s, bad| {
        // Nothing to pay with: the debt is kept, and paid when there is.
        (2..=11).for_each(|record| s.lifecycle(HALL, record));
        (2..=10).for_each(|record| s.turn(HALL, record));
        s.send(HALL, 1);
        let (first, second) = if bad { (11, 1) } else { (1, 11) };
        s.turn(HALL, first);
        s.turn(HALL, second);
    }),
    ("LANE-8", |s, bad| {
        // A turn of the application lane has cleared the debt.
        (2..=9).for_each(|record| s.lifecycle(HALL, record));
        (2..=9).for_each(|record| s.turn(HALL, record));
        s.run(HALL, 1);
        s.send(HALL, 20);
        s.lifecycle(HALL, 21);
        let (first, second) = if bad { (20, 21) } else { (21, 20) };
        s.turn(HALL, first);
        s.turn(HALL, second);
    }),
    ("LANE-11", |s, bad| {
        // The Spot's own message passes a member that was placed first.
        s.send(ANN, 1);
        s.place(ANN);
        s.send(SPOT, 2);
        if bad {
            s.turn(SPOT, 2);
        }
        s.begin(ANN, 1);
        s.end(1);
        if !bad {
            s.turn(SPOT, 2);
        }
    }),
    ("LANE-11", |s, bad| {
        s.accept(HALL, Lane::Application, 1);
        if !bad {
            s.append(1);
        }
        s.turn(HALL, 1);
    }),
    ("LANE-12", |s, bad| {
        // A member runs two records for one place.
        s.send(ANN, 1);
        s.send(ANN, 2);
        s.place(ANN);
        s.begin(ANN, 1);
        s.end(1);
        if !bad {
            s.place(ANN);
        }
        s.begin(ANN, 2);
        s.end(2);
    }),
    ("LANE-12", |s, bad| {
        s.send(ANN, 1);
        s.send(BOB, 2);
        s.place(ANN);
        s.place(BOB);
        let order = if bad { [(BOB, 2), (ANN, 1)] } else { [(ANN, 1), (BOB, 2)] };
        for (member, record) in order {
            s.begin(member, record);
            s.end(record);
        }
    }),
];

const YIELDS: &[Case] = &[
    ("YIELD-1", |s, bad| {
        let object = if bad { HALL } else { SPOT };
        s.send(object, 1);
        s.begin(object, 1);
        s.yields(1);
        s.wake(1);
        s.place_resume(1);
        s.resume(1);
        s.end(1);
    }),
    ("YIELD-5", |s, bad| {
        s.send(ANN, 1);
        s.send(ANN, 2);
        s.place(ANN);
        s.begin(ANN, 1);
        s.yields(1);
        if bad {
            s.turn(ANN, 2);
        }
        s.wake(1);
        s.place_resume(1);
        s.resume(1);
        s.end(1);
        if !bad {
            s.turn(ANN, 2);
        }
    }),
    ("YIELD-5", |s, bad| {
        // The claim given up at the yield.
        s.send(ANN, 1);
        s.place(ANN);
        s.begin(ANN, 1);
        s.yields(1);
        s.say(Event::ClaimTaken { object: ANN, record: RecordId(1) });
        if bad {
            s.say(Event::ClaimReleased { object: ANN });
        }
        s.wake(1);
        s.place_resume(1);
        s.resume(1);
        s.end(1);
        if !bad {
            s.say(Event::ClaimReleased { object: ANN });
        }
    }),
    ("YIELD-6", |s, bad| {
        // The resume goes to the front.
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.yields(1);
        s.send(SPOT, 2);
        s.wake(1);
        s.place_resume(1);
        if !bad {
            s.turn(SPOT, 2);
        }
        s.resume(1);
        s.end(1);
        if bad {
            s.turn(SPOT, 2);
        }
    }),
    ("YIELD-6", |s, bad| {
        // Resumed without having stood in the queue.
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.yields(1);
        s.wake(1);
        if !bad {
            s.place_resume(1);
        }
        s.resume(1);
        s.end(1);
    }),
    ("YIELD-6", |s, bad| {
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.yields(1);
        s.wake(1);
        if bad {
            s.wake(1);
        }
        s.place_resume(1);
        s.resume(1);
        s.end(1);
    }),
    ("YIELD-8", |s, bad| {
        // Polled after the gate was given up.
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.yields(1);
        s.wake(1);
        s.place_resume(1);
        if bad {
            s.go_on(1);
            s.forced = true;
        } else {
            s.resume(1);
            s.end(1);
        }
    }),
    ("YIELD-9", |s, bad| {
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.yields(1);
        s.wake(1);
        s.place_resume(1);
        if !bad {
            s.resume(1);
            s.end(1);
        }
        s.ended(SPOT);
        if bad {
            s.resume(1);
            s.end(1);
        }
    }),
    ("YIELD-10", |s, bad| {
        s.send(ANN, 1);
        s.place(ANN);
        s.begin(ANN, 1);
        s.yields(1);
        s.say(Event::ClaimTaken { object: ANN, record: RecordId(1) });
        s.wake(1);
        s.place_resume(1);
        s.resume(1);
        s.end(1);
        if !bad {
            s.say(Event::ClaimReleased { object: ANN });
        }
    }),
];

const WAITS: &[Case] = &[
    ("REENT-1", |s, bad| {
        s.send(ANN, 1);
        s.place(ANN);
        s.begin(ANN, 1);
        s.wait(1, 2, if bad { ANN } else { BOB }, true);
        s.wait_ended(2);
        s.end(1);
    }),
    ("REENT-2", |s, bad| {
        s.send(SPOT, 1);
        s.begin(SPOT, 1);
        s.wait(1, 2, if bad { ANN } else { HALL }, false);
        s.wait_ended(2);
        s.end(1);
    }),
    ("REENT-5", |s, bad| {
        // HALL waits for LONE, LONE asks HALL.
        s.send(HALL, 1);
        s.send(LONE, 2);
        s.begin(HALL, 1);
        s.wait(1, 3, LONE, false);
        s.send(LONE, 3);
        s.keep(1);
        s.begin(LONE, 2);
        if bad {
            s.wait(2, 4, HALL, false);
            s.wait_ended(4);
        }
        s.end(2);
        s.turn(LONE, 3);
        s.go_on(1);
        s.wait_ended(3);
        s.end(1);
    }),
    ("REENT-5", |s, bad| {
        // Members that yield for each other.
        s.send(ANN, 1);
        s.send(BOB, 2);
        s.place(ANN);
        s.place(BOB);
        s.begin(ANN, 1);
        s.wait(1, 3, BOB, true);
        s.send(BOB, 3);
        s.yields(1);
        s.begin(BOB, 2);
        if bad {
            s.wait(2, 4, ANN, true);
            s.wait_ended(4);
        }
        s.end(2);
        s.turn(BOB, 3);
        s.wake(1);
        s.place_resume(1);
        s.resume(1);
        s.wait_ended(3);
        s.end(1);
    }),
    ("DONE-1", |s, bad| {
        s.send(HALL, 1);
        s.begin(HALL, 1);
        s.wait(1, 2, LONE, false);
        s.run(LONE, 2);
        s.wait_ended(2);
        if bad {
            s.wait_ended(2);
        }
        s.end(1);
    }),
];

/// A handler of LONE that registers Joins 1 and 2 and ends; both are held.
fn handler(s: &mut Script, scope: Scope) {
    s.send(LONE, 1);
    s.begin(LONE, 1);
    s.register(1, &[1, 2], Some(scope));
    if scope == Scope::Well {
        s.hold(1);
        s.hold(2);
    }
    s.end(1);
}

/// Join 1 and 2 of LONE, rejected both.
fn rejected(s: &mut Script, join: u64) {
    s.join_began(join);
    s.join_asked(join, SPOT);
    s.completed(join, Outcome::Rejected);
    s.release(join);
}

const JOINS: &[Case] = &[
    ("JOIN-2", |s, bad| {
        s.send(LONE, 1);
        s.begin(LONE, 1);
        s.register(1, &[1], None);
        s.hold(1);
        if bad {
            s.join_began(1);
        }
        s.register(1, &[], Some(Scope::Well));
        s.end(1);
        if !bad {
            s.join_began(1);
        }
        s.completed(1, Outcome::Failed);
        s.release(1);
    }),
    ("JOIN-3", |s, bad| {
        handler(s, if bad { Scope::Badly } else { Scope::Well });
        if bad {
            s.join_began(1);
        } else {
            rejected(s, 1);
            rejected(s, 2);
        }
    }),
    ("JOIN-3", |s, bad| {
        s.send(LONE, 1);
        s.begin(LONE, 1);
        s.register(1, &[1], Some(if bad { Scope::Badly } else { Scope::Well }));
        if bad {
            s.join_began(1);
        }
        s.hold(1);
        s.end(1);
        if !bad {
            rejected(s, 1);
        } else {
            s.release(1);
        }
    }),
    ("JOIN-4", |s, bad| {
        handler(s, Scope::Well);
        s.join_began(1);
        if !bad {
            s.completed(1, Outcome::Failed);
        }
        s.release(1);
        rejected(s, 2);
        s.run(LONE, 5);
    }),
    ("JOIN-4", |s, bad| {
        // An Actor that ends in the midst owes no completion; one that goes on does.
        handler(s, Scope::Well);
        s.join_began(1);
        s.release(1);
        s.release(2);
        if !bad {
            s.ended(LONE);
        }
    }),
    ("JOIN-6", |s, bad| {
        handler(s, Scope::Well);
        s.join_began(1);
        s.join_asked(1, SPOT);
        s.committed(1, HALL, SPOT);
        if bad {
            s.left(1);
            s.joined(1);
        } else {
            s.joined(1);
            s.left(1);
        }
        s.completed(1, Outcome::Accepted);
        s.release(1);
        s.release(2);
    }),
    ("JOIN-6", |s, bad| {
        // In one Spot at a time.
        s.say(Event::Entered { object: LONE, from: if bad { SPOT } else { HALL }, spot: SPOT });
    }),
    ("JOIN-6", |s, bad| {
        handler(s, Scope::Well);
        s.join_began(1);
        s.join_asked(1, SPOT);
        s.committed(1, HALL, SPOT);
        s.joined(1);
        if bad {
            s.joined(1);
        }
        s.left(1);
        s.completed(1, Outcome::Accepted);
        s.release(1);
        s.release(2);
    }),
    ("JOIN-7", |s, bad| {
        handler(s, Scope::Well);
        s.release(2);
        s.join_began(1);
        s.send(LONE, 7);
        if bad {
            s.turn(LONE, 7);
        }
        s.completed(1, Outcome::Failed);
        s.release(1);
        if !bad {
            s.turn(LONE, 7);
        }
    }),
    ("JOIN-8", |s, bad| {
        handler(s, Scope::Well);
        s.release(2);
        s.join_began(1);
        if bad {
            s.join_asked(1, HALL);
            s.completed(1, Outcome::Rejected);
        } else {
            s.completed(1, Outcome::Accepted);
        }
        s.release(1);
    }),
    ("JOIN-11", |s, bad| {
        s.send(LONE, 7);
        s.send(LONE, 8);
        s.begin(LONE, 7);
        s.register(7, &[1], Some(Scope::Well));
        s.hold(1);
        s.end(7);
        if bad {
            s.turn(LONE, 8);
        }
        rejected(s, 1);
        if !bad {
            s.turn(LONE, 8);
        }
    }),
    ("JOIN-11", |s, bad| {
        handler(s, Scope::Well);
        for join in if bad { [2, 1] } else { [1, 2] } {
            rejected(s, join);
        }
    }),
];

fn timer(s: &mut Script) {
    let late = Late::Skip;
    let (timer, name) = (TimerId(1), "tick".into());
    s.say(Event::TimerRegistered { timer, object: HALL, name, first_ns: 10, period_ns: 10, late });
}

fn tick_of(s: &mut Script, record: u64, numbers: [u64; 3]) {
    s.say(Event::TickQueued { timer: TimerId(1), record: RecordId(record) });
    s.send(HALL, record);
    s.begin(HALL, record);
    s.tick(record, numbers[0], numbers[1], numbers[2]);
}

const TIMERS: &[Case] = &[
    ("TIMER-1", |s, bad| {
        timer(s);
        tick_of(s, 1, [0, 0, 0]);
        if bad {
            s.tick(2, 1, 1, 0);
        }
        s.end(1);
    }),
    ("TIMER-2", |s, bad| {
        timer(s);
        tick_of(s, 1, [0, 0, 0]);
        s.end(1);
        tick_of(s, 2, [1, if bad { 3 } else { 4 }, 3]);
        s.end(2);
    }),
    ("TIMER-2", |s, bad| {
        timer(s);
        tick_of(s, 1, [0, 0, 0]);
        s.end(1);
        tick_of(s, 2, [if bad { 0 } else { 1 }, 1, 0]);
        s.end(2);
    }),
    ("TIMER-3", |s, bad| {
        timer(s);
        let cancelled = Event::TimerCancelled { timer: TimerId(1) };
        if bad {
            s.say(cancelled.clone());
        }
        tick_of(s, 1, [0, 0, 0]);
        s.end(1);
        s.say(cancelled);
    }),
    ("TIMER-3", |s, bad| {
        timer(s);
        let replaced = Event::TimerReplaced { timer: TimerId(1), by: TimerId(2) };
        if bad {
            s.say(replaced.clone());
        }
        tick_of(s, 1, [0, 0, 0]);
        s.end(1);
        s.say(replaced);
    }),
    ("TIMER-4", |s, bad| {
        timer(s);
        for record in [1, 2] {
            s.say(Event::TickQueued { timer: TimerId(1), record: RecordId(record) });
            s.send(HALL, record);
            if !bad {
                s.turn(HALL, record);
            }
        }
        if bad {
            s.turn(HALL, 1);
            s.turn(HALL, 2);
        }
    }),
];

fn cases() -> impl Iterator<Item = &'static Case> {
    [GATES, LANES, YIELDS, WAITS, JOINS, TIMERS].into_iter().flatten()
}

fn findings_of(bad: bool, tell: fn(&mut Script, bool)) -> Vec<Finding> {
    let mut script = Script::new();
    tell(&mut script, bad);
    script.check().findings
}

#[test]
fn stat_3_a_a_broken_clause_is_named_alone_and_the_whole_one_is_clean() {
    let mut wrong = String::new();
    for (at, (clause, tell)) in cases().enumerate() {
        for finding in findings_of(false, *tell) {
            wrong += &format!("case {at} of {clause}, told well: {finding}\n");
        }
        let found = findings_of(true, *tell);
        if found.is_empty() {
            wrong += &format!("case {at} of {clause} is not found\n");
        }
        for finding in found.iter().filter(|finding| finding.clause != *clause || finding.events.is_empty()) {
            wrong += &format!("case {at} of {clause}: {finding}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn stat_3_b_every_clause_that_is_claimed_has_a_broken_trace() {
    let claimed: BTreeSet<&str> = CLAUSES.iter().map(|clause| clause.id).collect();
    let shown: BTreeSet<&str> = cases().map(|(clause, _)| *clause).collect();
    assert_eq!(claimed, shown);
    assert_eq!(claimed.len(), CLAUSES.len());
}

#[test]
fn stat_3_c_a_cut_trace_is_checked_except_for_what_the_end_shows() {
    let mut script = Script::new();
    script.send(HALL, 1);
    let mut checker = Checker::new();
    script.entries().iter().cloned().for_each(|entry| checker.on(entry));
    let report = checker.finish(false);
    assert!(report.is_clean() && !report.to_the_end, "{report:?}");

    script.begin(HALL, 1);
    script.end_unreturned(1);
    let mut checker = Checker::new();
    script.entries().iter().cloned().for_each(|entry| checker.on(entry));
    assert_eq!(checker.finish(false).findings[0].clause, "LANE-3");
}

#[test]
fn stat_3_d_the_checker_remembers_what_lives_and_no_more() {
    let mut script = Script::new();
    let before = {
        let mut checker = Checker::new();
        script.entries().iter().cloned().for_each(|entry| checker.on(entry));
        checker.remembered()
    };
    for record in 1..=2_000 {
        script.run(if record % 2 == 0 { ANN } else { HALL }, record);
    }
    for object in 100..1_100 {
        let object = ObjectId(object);
        let mut named = script.entries()[1].event.clone();
        if let Event::Named { object: it, .. } = &mut named {
            *it = object;
        }
        script.say(named);
        script.stage(object, 10_000 + object.0, Stage::Last);
        script.begin(object, 10_000 + object.0);
        script.end_unreturned(10_000 + object.0);
        script.ended(object);
        script.say(Event::JoinRegistered { join: JoinId(object.0), object: LONE, by: RecordId(0) });
        script.hold(object.0);
        script.release(object.0);
    }
    let mut checker = Checker::new();
    script.entries().iter().cloned().for_each(|entry| checker.on(entry));
    assert_eq!(checker.remembered(), before);
    let report = checker.finish(true);
    assert!(report.is_clean(), "{:?}", report.findings);
}
