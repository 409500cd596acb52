//! Why an object is stuck, from a trace.

use turnkeep_trace::Checker;

use crate::script::{ANN, BOB, HALL, LONE, SPOT, Script};

fn why(script: &Script, id: &str) -> String {
    let mut checker = Checker::new();
    script.entries().iter().cloned().for_each(|entry| checker.on(entry));
    let found = checker.situations(id);
    assert_eq!(found.len(), 1, "{id}: {found:?}");
    found[0].to_string()
}

#[test]
fn stat_4_a_gate_that_a_waiting_handler_keeps_is_told_with_what_it_waits_for() {
    let mut script = Script::new();
    script.send(SPOT, 1);
    script.begin(SPOT, 1);
    script.wait(1, 2, HALL, false);
    script.send(HALL, 2);
    script.keep(1);
    script.send(ANN, 3);
    script.place(ANN);
    let text = why(&script, "ann");
    for part in [
        "Actor ann (type): its work waits for the gate, which a waiting handler of Spot jfk (type) keeps.",
        "It is under the gate of Spot jfk (type). Spot jfk (type) holds it with record 1",
        "It asked Spot hall (type)",
        "In the queue of the gate 0 places stand before it.",
        "application lane has 1 of 4 records and 300 of 1200 bytes, 1 not begun",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert_eq!(text, why(&script, "#2"));
    assert!(why(&script, "lone").contains("it has nothing to do"));
}

#[test]
fn stat_4_a_ring_of_waits_is_told_from_each_of_its_objects() {
    let mut script = Script::new();
    script.send(HALL, 1);
    script.send(LONE, 2);
    script.begin(HALL, 1);
    script.begin(LONE, 2);
    script.wait(1, 3, LONE, false);
    script.send(LONE, 3);
    script.keep(1);
    script.wait(2, 4, HALL, false);
    script.send(HALL, 4);
    script.keep(2);
    let ring = |from: &str, to: &str| format!("They wait for each other: {from} → {to} → {from}.");
    let (hall, lone) = ("Spot hall (type)", "Actor lone (type)");
    assert!(why(&script, "hall").contains(&ring(hall, lone)), "{}", why(&script, "hall"));
    assert!(why(&script, "lone").contains(&ring(lone, hall)), "{}", why(&script, "lone"));
}

#[test]
fn stat_4_a_claim_is_told_with_the_handler_that_keeps_it() {
    let mut script = Script::new();
    script.send(ANN, 1);
    script.send(ANN, 5);
    script.place(ANN);
    script.begin(ANN, 1);
    script.wait(1, 2, BOB, true);
    script.send(BOB, 2);
    script.yields(1);
    let text = why(&script, "ann");
    assert!(text.contains("its work waits for its own yielded handler"), "{text}");
    assert!(text.contains("Its handler of record 1 has yielded"), "{text}");
    assert!(text.contains("It asked Actor bob (type)"), "{text}");
}
