//! Timers that never rest: refused, or outlived by everybody else and by the shutdown.
//!
//! CB-59 is about links to other nodes; of CB-61 the part with a component of a bus is the bus's. A negative period
//! cannot be written: `Duration` has none.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Clock, PERIOD_MIN, Timer};

use crate::support::{Log, within};
use crate::world::{Player, Room, end, ping, player, real_world_of, room, until, world};

#[tokio::test]
async fn cb_61_a_a_period_that_leaves_no_rest_is_refused_with_a_reason() {
    let (node, clock) = world(1).await;
    let spot = room(&node, "spot").await;
    for period in [Duration::ZERO, Duration::from_nanos(1), PERIOD_MIN - Duration::from_nanos(1)] {
        let refused = spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(period)).unwrap_err()));
        let refused = refused.await.unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidOperation);
        assert!(refused.to_string().contains("under 1 ms"), "{refused}");
    }
    assert_eq!(clock.pending(), 0);
    spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(PERIOD_MIN)).unwrap())).await.unwrap();
    assert_eq!(clock.pending(), 1);
    end(node).await;
}

/// Each tick registers the timer again, due at once.
async fn restless(node: &Node, ticked: &Log<()>) -> ActorRef<Player> {
    let on_tick = ticks!(Player, [ticked], |turn, tick| {
        ticked.push(());
        // Refused once the object closes.
        let _ = turn.timer(tick.name(), Timer::after(Duration::ZERO));
    });
    let actor = player(node, "restless").await;
    actor
        .ask(act!(Player, [], |turn| {
            turn.on_tick = on_tick;
            turn.timer("t", Timer::after(Duration::ZERO)).unwrap();
        }))
        .await
        .unwrap();
    actor
}

#[tokio::test]
async fn cb_61_b_a_timer_that_is_always_due_starves_nobody_and_ends_with_the_node() {
    for clock in [Clock::manual(), Clock::real()] {
        for workers in [1, 2] {
            let node = real_world_of(Node::builder().workers(workers).clock(clock.clone())).await;
            let ticked = Log::new();
            let actor = restless(&node, &ticked).await;
            let other = room(&node, "other").await;
            for _ in 0..1000 {
                within(ping(&other)).await;
            }
            let so_far = ticked.len();
            until(|| ticked.len() > so_far + 10).await;
            end(node).await;
            assert!(actor.has_ended());
            let at_the_end = ticked.len();
            // The real clock is the whole process's, and others have timers in it.
            if clock.is_manual() {
                assert_eq!(clock.pending(), 0);
                clock.advance(Duration::from_secs(1));
            }
            assert_eq!(ticked.len(), at_the_end, "no tick after the end");
        }
    }
}
