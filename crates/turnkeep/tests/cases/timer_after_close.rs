//! No tick after the end of its object, whichever way the end comes, and no end in the middle of a tick.
//!
//! CB-39: ways that do not exist here: a handler's error never stops an object, and nothing relocates an object to
//! another node; a parent Spot refuses to close while it has members. CB-41 and CB-42 are about the components and
//! the bounded timers of a bus.

use turnkeep::prelude::*;
use turnkeep::{Clock, Timer};

use crate::support::{Log, Overlap, Signal, within};
use crate::world::{Life, NEVER, Room, end, hold, ms, pass, player, room, world};

/// A Spot that ticks each 10 ms.
async fn ticking(node: &Node, ticked: &Log<u64>, on_closing: Option<Life<Room>>) -> SpotRef<Room> {
    let on_tick = ticks!(Room, [ticked], |_turn, tick| ticked.push(tick.delivery()));
    let state = Room { on_tick, on_closing, ..Room::default() };
    let spot = node.spot::<Room>("ticks").create_with(state).await.unwrap();
    spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(10))).unwrap())).await.unwrap();
    spot
}

/// Ticks a few times, ends in the given way, and never ticks again.
async fn ends_by(on_closing: Option<Life<Room>>, way: impl AsyncFn(&SpotRef<Room>)) {
    let (node, clock) = world(2).await;
    let ticked = Log::new();
    let spot = ticking(&node, &ticked, on_closing).await;
    pass(&node, &clock, ms(30)).await;
    assert_eq!((ticked.take(), clock.pending()), (vec![0, 1, 2], 1));
    within(way(&spot)).await;
    within(node.quiesce()).await.unwrap();
    assert!(spot.has_ended());
    assert_eq!(clock.pending(), 0, "nothing is left in the clock");
    pass(&node, &clock, ms(100)).await;
    assert!(ticked.is_empty());
    end(node).await;
}

#[tokio::test]
async fn cb_39_a_after_a_close() {
    ends_by(None, async |spot| spot.close().await.unwrap()).await;
}

#[tokio::test]
async fn cb_39_b_after_a_destruction() {
    ends_by(None, async |spot| spot.destroy().await.unwrap()).await;
}

#[tokio::test]
async fn cb_39_c_after_its_own_request_in_a_turn() {
    ends_by(None, async |spot| {
        spot.ask(act!(Room, [], |turn| turn.this_spot().request_close().unwrap())).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn cb_39_d_after_a_panic() {
    ends_by(None, async |spot| {
        let error: Result<(), _> = spot.ask(act!(Room, [], |_turn| panic!("on purpose"))).await;
        assert_eq!(error.unwrap_err().kind(), Some(ErrorKind::InternalFailure));
    })
    .await;
}

#[tokio::test]
async fn cb_39_e_after_a_close_whose_callback_fails() {
    let fails = life!(Room, [], |_turn| Err(Failure::new("on purpose"))?);
    ends_by(fails, async |spot| drop(spot.close().await)).await;
}

#[tokio::test]
async fn cb_39_f_after_a_close_whose_callback_panics() {
    let panics = life!(Room, [], |turn| assert_eq!(turn.n, 1, "on purpose"));
    ends_by(panics, async |spot| drop(spot.close().await)).await;
}

#[tokio::test]
async fn cb_39_g_after_the_shutdown_of_the_node() {
    let (node, clock) = world(2).await;
    let ticked = Log::new();
    ticking(&node, &ticked, None).await;
    pass(&node, &clock, ms(30)).await;
    end(node).await;
    assert_eq!((ticked.take().len(), clock.pending()), (3, 0));
    clock.advance(ms(100));
    assert!(ticked.is_empty());
}

/// The tick cancels its own timer and waits for a reply; the close comes in the middle of the wait.
async fn cancels_itself(node: &Node, clock: &Clock, yields: bool) {
    let far = room(node, "far").await;
    let go = hold(&far).await;
    let (inside, entered, log) = (Overlap::new(), Signal::new(), Log::new());
    let on_tick = ticks!(Room, [inside, entered, log, far], |turn, tick| {
        let _inside = inside.enter();
        assert!(turn.cancel_timer(tick.name()));
        entered.set();
        let ask = far.ask(act!(Room, [], |_turn| 7)).timeout(NEVER);
        let reply = if yields { turn.yielding(ask).await } else { ask.await };
        // A wait with the gate given up ends with an error when its Spot closes.
        assert_eq!(reply.is_ok(), !yields);
        turn.n += reply.unwrap_or_default();
        log.push(("tick", turn.n));
    });
    let on_closing = life!(Room, [inside, log], |turn| {
        let _inside = inside.enter();
        log.push(("closing", turn.n));
    });
    let state = Room { n: 1, on_tick, on_closing, ..Room::default() };
    let spot = node.spot::<Room>("one").create_with(state).await.unwrap();
    spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(10))).unwrap())).await.unwrap();
    clock.advance(ms(10));
    entered.wait().await;
    assert_eq!(clock.pending(), 0, "its timer is gone");
    let close = tokio::spawn(spot.close());
    crate::world::until(|| spot.queued().1 == 1 || spot.status().is_closing).await;
    // The handler that holds, and the ask of the tick.
    crate::world::until(|| far.queued().0 == 2).await;
    if !yields {
        assert!(log.is_empty() && !spot.has_ended(), "it waits for the tick");
        go.set();
    }
    close.await.unwrap().unwrap();
    go.set();
    let n = if yields { 1 } else { 8 };
    assert_eq!((log.take(), inside.most()), (vec![("tick", n), ("closing", n)], 1));
}

#[tokio::test]
async fn cb_40_a_a_tick_that_has_ended_its_own_timer_ends_before_the_close() {
    for workers in [1, 2] {
        for yields in [false, true] {
            let (node, clock) = world(workers).await;
            within(cancels_itself(&node, &clock, yields)).await;
            assert_eq!(node.metrics().failed_sends, 0);
            end(node).await;
        }
    }
}

/// An Actor does the same in its own way: it asks to be closed in the tick that ends its timer.
#[tokio::test]
async fn cb_40_b_a_tick_may_end_its_timer_and_its_actor_and_still_finish() {
    let (node, clock) = world(2).await;
    let far = room(&node, "far").await;
    let go = hold(&far).await;
    let (entered, log) = (Signal::new(), Log::new());
    let on_tick = ticks!(crate::world::Player, [entered, log, far], |turn, tick| {
        assert!(turn.cancel_timer(tick.name()));
        turn.this_actor().request_close().unwrap();
        entered.set();
        log.push(far.ask(act!(Room, [], |_turn| 7)).await.unwrap());
    });
    let actor = player(&node, "actor").await;
    actor
        .ask(act!(crate::world::Player, [], |turn| {
            turn.on_tick = on_tick;
            turn.timer("t", Timer::every(ms(10))).unwrap();
        }))
        .await
        .unwrap();
    clock.advance(ms(10));
    within(entered.wait()).await;
    assert!(!actor.has_ended());
    go.set();
    within(node.quiesce()).await.unwrap();
    assert_eq!((log.take(), actor.has_ended(), clock.pending()), (vec![7], true, 0));
    end(node).await;
}
