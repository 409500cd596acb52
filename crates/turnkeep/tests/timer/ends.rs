//! No tick starts after the end of its object, whichever way that comes, and nothing is left in the clock.

use turnkeep::Timer;
use turnkeep::prelude::*;

use crate::support::within;
use crate::world::{
    Apart, Hold, OWN_TICK, Player, Set, Shared, Then, Wide, end, ms, pass, until_under_way, world,
};

#[tokio::test]
async fn timer_3_d_close_destroy_panic_and_shutdown_end_all_timers() {
    let (node, clock, shared) = world(2).await;
    let spot = async |id: &str, then| {
        let spot = node.spot::<Wide>(id).create().await.unwrap();
        spot.ask(Set("t", Timer::every(ms(10)), then)).await.unwrap();
        spot
    };
    let (closed, destroyed) = (spot("closed", Then::Nothing).await, spot("destroyed", Then::Nothing).await);
    let panics = spot("panics", Then::Panic).await;
    let player = node.actor::<Player>("player").create().await.unwrap();
    player.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    assert_eq!(clock.pending(), 4);
    within(closed.close()).await.unwrap();
    within(destroyed.destroy()).await.unwrap();
    within(player.close()).await.unwrap();
    assert_eq!(clock.pending(), 1);
    pass(&node, &clock, ms(10)).await;
    assert!(panics.has_ended());
    assert_eq!((clock.pending(), shared.said.take().len()), (0, 1));
    pass(&node, &clock, ms(100)).await;
    assert_eq!(shared.said.len(), 0);
    spot("last", Then::Nothing).await;
    end(node).await;
    assert_eq!(clock.pending(), 0);
    clock.advance(ms(100));
    assert_eq!(shared.said.len(), 0);
}

#[tokio::test]
async fn timer_3_e_a_tick_queued_before_the_close_does_not_start_after_it() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    let held = tokio::spawn(spot.ask(Hold));
    within(shared.entered.wait()).await;
    clock.advance(ms(10));
    until_under_way(&node, 2).await;
    let close = tokio::spawn(spot.close());
    until_under_way(&node, 3).await;
    shared.go.set();
    held.await.unwrap().unwrap();
    within(close).await.unwrap().unwrap();
    assert_eq!((shared.said.len(), clock.pending()), (0, 0));
    end(node).await;
}

#[tokio::test]
async fn timer_3_f_a_spot_closes_after_the_tick_that_runs_under_a_gate_of_its_own() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Apart>("timer 3").create().await.unwrap();
    let ticks = Shared::default();
    OWN_TICK.expect("timer 3", &ticks);
    spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    clock.advance(ms(10));
    within(ticks.entered.wait()).await;
    let mut close = tokio::spawn(spot.close());
    // From its seal on the Spot refuses messages; the close waits for the tick.
    within(async { while spot.ask(crate::world::Names).await.is_ok() {} }).await;
    assert!(!spot.has_ended());
    ticks.go.set();
    within(&mut close).await.unwrap().unwrap();
    within(node.quiesce()).await.unwrap();
    assert!(spot.has_ended());
    assert_eq!((clock.pending(), shared.said.len()), (0, 0), "its message to the closing Spot was refused");
    end(node).await;
}

#[tokio::test]
async fn timer_3_g_a_destroyed_spot_takes_the_ticks_of_its_own_timers_with_it() {
    let (node, clock, _) = world(2).await;
    let spot = node.spot::<Apart>("timer 3 g").create().await.unwrap();
    let ticks = Shared::default();
    OWN_TICK.expect("timer 3 g", &ticks);
    spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    clock.advance(ms(10));
    within(ticks.entered.wait()).await;
    within(spot.destroy()).await.unwrap();
    within(node.quiesce()).await.unwrap();
    assert_eq!(clock.pending(), 0);
    end(node).await;
}

#[tokio::test]
async fn timer_3_h_a_closing_object_takes_no_new_timer() {
    #[derive(Default)]
    struct Late;
    impl Spot for Late {
        type Mode = SpotWide;
        async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: turnkeep::Closing) -> Result<(), Failure> {
            match turn.timer("t", Timer::every(ms(10))) {
                Err(error) if error.kind() == ErrorKind::InvalidOperation => Ok(()),
                other => Err(Failure::new(format!("{other:?}"))),
            }
        }
    }
    impl turnkeep::OnTick for Late {
        async fn on_tick(_: &mut Turn<'_, Self>, _: turnkeep::Tick) -> Result<(), Failure> {
            Ok(())
        }
    }
    let node = Node::builder().workers(1).spot::<Late>("late").start().await.unwrap();
    let spot = node.spot::<Late>("spot").create().await.unwrap();
    within(spot.close()).await.unwrap();
    end(node).await;
}
