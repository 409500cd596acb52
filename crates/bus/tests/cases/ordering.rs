//! Ordering inversion: nested events must not overtake, timers must not fire late.

use turnkeep_bus::{Bus, Replay, Schedule};

use crate::support::{Player, Record, Stage, say};

/// Three listeners on a topic; the first answers 1 with 2, the second answers 2 with 3.
fn three(stage: &mut Stage, topics: [&'static str; 2]) {
    let listen: Vec<(&str, i32)> = topics.iter().map(|topic| (*topic, 0)).collect();
    let listen = if topics[0] == topics[1] { &listen[..1] } else { &listen[..] };
    stage.player("s1", listen, move |ctx, event| {
        if event.0 == "1" {
            say(ctx, topics[1], "2");
        }
        Ok(())
    });
    stage.player("s2", listen, move |ctx, event| {
        if event.0 == "2" {
            say(ctx, topics[1], "3");
        }
        Ok(())
    });
    stage.listener("s3", listen);
}

#[test]
fn cb_18_every_listener_sees_the_same_history() {
    let mut stage = Stage::default();
    three(&mut stage, ["x", "x"]);
    stage.publish("x", "1");
    assert_eq!(stage.settle(), "s1(1) s2(1) s3(1) s1(2) s2(2) s3(2) s1(3) s2(3) s3(3)");
}

#[test]
fn cb_18_also_over_two_topics_with_a_wildcard_listener() {
    let mut stage = Stage::default();
    three(&mut stage, ["x", "y"]);
    stage.listener("w", &[("*", 0)]);
    stage.publish("x", "1");
    assert_eq!(stage.settle(), "s1(1) s2(1) s3(1) w(1) s1(2) s2(2) s3(2) w(2) s1(3) s2(3) s3(3) w(3)");
}

#[test]
fn cb_19_alerts_set_inside_callbacks_fire_before_the_next_data_with_the_clock_at_their_time() {
    let once = || {
        let record = Record::default();
        let alert = |at: u64| Schedule { first_ns: at, interval_ns: None, stop_ns: None };
        let mut firings = 0;
        let play: crate::support::Play = Box::new(move |ctx, event| {
            let now = ctx.now_ns();
            if event.0 == "timer" {
                assert_eq!(event.1, now, "the clock is at the time of the firing");
                firings += 1;
            }
            match (event.0, firings) {
                ("data", 0) => ctx.set_timer("a", alert(60))?,
                ("timer", 1) => ctx.set_timer("b", alert(120))?,
                ("timer", 2) => ctx.set_timer("c", alert(120))?,
                _ => {}
            }
            Ok(())
        });
        let mut bus = Bus::default();
        let id = bus.context().register("S", Player { name: "S", record: record.clone(), play }).unwrap();
        bus.context().start(id).unwrap();
        bus.context().subscribe::<Player, _>(id, "x", 0).unwrap();
        let mut replay = Replay::new(bus);
        replay.step(0, |ctx| say(ctx, "x", "data")).unwrap();
        replay.step(86_400, |ctx| say(ctx, "x", "data")).unwrap();
        record.line()
    };
    let first = once();
    assert_eq!(first, "S(data) S(a@60) S(b@120) S(c@120) S(data)");
    assert!((0..100).all(|_| once() == first));
}
