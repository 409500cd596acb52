//! YIELD-9 with timers: a tick that is queued when its unit is sealed keeps its place.

use crate::support::within;
use crate::world::*;
use turnkeep::Timer;

#[tokio::test]
async fn yield_9_q_a_queued_tick_is_no_message_and_runs_once_after_the_undo() {
    for workers in [1, 2] {
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
        within(node.quiesce()).await.unwrap();
        let held = tokio::spawn(spot.ask(Hold));
        within(shared.entered.wait()).await;
        clock.advance(ms(10));
        until_under_way(&node, 2).await;
        let names = tokio::spawn(spot.ask(Names));
        until_under_way(&node, 3).await;
        let sealing = tokio::spawn(spot.seal());
        until_under_way(&node, 4).await;
        shared.go.set();
        held.await.unwrap().unwrap();
        let sealed = within(sealing).await.unwrap().unwrap();
        let messages: Vec<_> = sealed.parts()[0].records.iter().map(|record| record.message).collect();
        assert!(matches!(messages[..], [name] if name.ends_with("Names")), "{messages:?}");
        assert!(sealed.look(0, 0, |_: &Names| ()).is_some());
        // Time goes on meanwhile: one tick is out, so no other is queued.
        clock.advance(ms(25));
        assert_eq!(shared.said.len(), 0);
        within(sealed.undo()).await;
        assert_eq!(within(names).await.unwrap().unwrap(), ["t"]);
        within(node.quiesce()).await.unwrap();
        let ran: Vec<_> =
            shared.said.take().iter().map(|tick| (tick.delivery, tick.due, tick.skipped)).collect();
        assert_eq!(ran, [(0, ms(30), 2)], "the one that was queued, once, for all that was missed");
        end(node).await;
    }
}

#[tokio::test]
async fn yield_9_r_a_tick_that_comes_while_the_unit_is_sealed_stands_behind_what_is_out() {
    for workers in [1, 2] {
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
        within(node.quiesce()).await.unwrap();
        let held = tokio::spawn(spot.ask(Hold));
        within(shared.entered.wait()).await;
        let unset = tokio::spawn(spot.ask(Unset("t")));
        until_under_way(&node, 2).await;
        let sealing = tokio::spawn(spot.seal());
        until_under_way(&node, 3).await;
        shared.go.set();
        held.await.unwrap().unwrap();
        let sealed = within(sealing).await.unwrap().unwrap();
        // The seal is under way as well.
        clock.advance(ms(10));
        until_under_way(&node, 3).await;
        within(sealed.undo()).await;
        assert!(within(unset).await.unwrap().unwrap(), "it came before the tick");
        within(node.quiesce()).await.unwrap();
        assert_eq!(shared.said.len(), 0, "a cancelled timer starts no tick that was queued");
        end(node).await;
    }
}
