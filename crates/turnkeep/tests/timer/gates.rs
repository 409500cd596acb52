//! Under which gate a tick runs, beside whom, and what it may do there.

use turnkeep::Timer;
use turnkeep::prelude::*;

use crate::support::{LIMIT, within};
use crate::world::{
    Apart, Board, Go, Hall, Hold, Names, OWN_TICK, Player, Set, Shared, Then, Wide, end, ms, pass,
    until_under_way, world,
};

/// The handler keeps the gate; the tick, due meanwhile, comes after it.
macro_rules! a_tick_waits_for_the_gate {
    ($node:ident, $clock:ident, $shared:ident, $ticker:expr, $holder:expr) => {{
        let (ticker, holder) = ($ticker, $holder);
        ticker.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
        within($node.quiesce()).await.unwrap();
        let held = tokio::spawn(holder.ask(Hold));
        within($shared.entered.wait()).await;
        $clock.advance(ms(10));
        until_under_way(&$node, 2).await;
        assert_eq!($shared.said.len(), 0, "a tick beside a handler under one gate");
        $shared.go.set();
        held.await.unwrap().unwrap();
        within($node.quiesce()).await.unwrap();
        assert_eq!(($shared.said.len(), $shared.inside.most()), (1, 1));
    }};
}

#[tokio::test]
async fn gate_3_timers_share_the_gate_of_a_spot_wide_or_instance_spot() {
    for workers in [1, 2, 8] {
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        a_tick_waits_for_the_gate!(node, clock, shared, spot.clone(), spot.clone());
        end(node).await;
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        let member = node.actor::<Player>("member").get_or_create().await.unwrap();
        member.ask(Go::to(&spot)).await.unwrap();
        node.quiesce().await.unwrap();
        // A member's handler against the Spot's timer, and the other way round.
        a_tick_waits_for_the_gate!(node, clock, shared, spot.clone(), member.clone());
        end(node).await;
        let (node, clock, shared) = world(workers).await;
        let board = node.spot::<Board>("board").create().await.unwrap();
        a_tick_waits_for_the_gate!(node, clock, shared, board.clone(), board.clone());
        end(node).await;
    }
}

#[tokio::test]
async fn gate_4_the_entry_spots_timers_share_its_gate_and_entry_actors_tick_beside_it() {
    let (node, clock, shared) = world(2).await;
    let hall = node.entry::<Hall>().unwrap();
    a_tick_waits_for_the_gate!(node, clock, shared, hall.clone(), hall.clone());
    end(node).await;
    let (node, clock, shared) = world(2).await;
    let (hall, player) = (node.entry::<Hall>().unwrap(), node.actor::<Player>("p").create().await.unwrap());
    player.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    let held = tokio::spawn(hall.ask(Hold));
    within(shared.entered.wait()).await;
    clock.advance(ms(10));
    until_under_way(&node, 1).await;
    assert_eq!(
        (shared.said.len(), shared.inside.most()),
        (1, 2),
        "the Actor ticks beside the Spot's handler"
    );
    shared.go.set();
    held.await.unwrap().unwrap();
    end(node).await;
}

#[tokio::test]
async fn gate_5_timers_of_different_names_run_at_the_same_time_and_beside_the_spot() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Apart>("gate 5").create().await.unwrap();
    let ticks = Shared::default();
    OWN_TICK.expect("gate 5", &ticks);
    spot.ask(Set("one", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    spot.ask(Set("two", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    let held = tokio::spawn(spot.ask(Hold));
    within(shared.entered.wait()).await;
    clock.advance(ms(10));
    within(async {
        while ticks.inside.most() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // The same name never overlaps itself: three more moments pass, and registering it again changes nothing.
    clock.advance(ms(30));
    assert_eq!(ticks.inside.most(), 2);
    shared.go.set();
    held.await.unwrap().unwrap();
    spot.ask(Set("one", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    clock.advance(ms(10));
    assert_eq!(ticks.inside.most(), 2, "a tick of the new timer beside one of the old under the same name");
    ticks.go.set();
    within(node.quiesce()).await.unwrap();
    let said = shared.said.take();
    assert!(said.iter().any(|said| said.name == "two" && said.skipped == 3), "{said:?}");
    assert!(ticks.inside.most() <= 2);
    within(spot.close()).await.unwrap();
    end(node).await;
}

#[tokio::test]
async fn timer_5_a_a_timer_under_the_gate_of_a_per_actor_spot_is_refused() {
    use turnkeep::{OnTick, Tick};
    struct Wrong;
    impl Spot for Wrong {
        type Mode = PerActor;
        async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
            Ok(turn.timer("t", Timer::every(ms(10)))?)
        }
    }
    impl OnTick for Wrong {
        async fn on_tick(_: &mut Turn<'_, Self>, _: Tick) -> Result<(), Failure> {
            Ok(())
        }
    }
    let options = turnkeep::Options::new().factory(|_| Ok(Wrong));
    let node = Node::builder().workers(1).spot_with("wrong", options).start().await.unwrap();
    let refused = node.spot::<Wrong>("w").create().await.unwrap_err();
    assert!(refused.to_string().contains("`own_timer`"), "{refused}");
    end(node).await;
}

#[tokio::test]
async fn join_9_an_actors_timer_travels_with_it_and_ticks_under_the_gate_of_its_place() {
    for workers in [1, 2, 8] {
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        let player = node.actor::<Player>("player").create().await.unwrap();
        player.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
        pass(&node, &clock, ms(10)).await;
        player.ask(Go::to(&spot)).await.unwrap();
        within(node.quiesce()).await.unwrap();
        pass(&node, &clock, ms(20)).await;
        assert_eq!(player.ask(Names).await.unwrap(), ["t"]);
        let said = shared.said.take();
        assert_eq!(
            said.iter().map(|said| said.delivery).collect::<Vec<_>>(),
            [0, 1, 2],
            "one timer all the way"
        );
        // The Spot's handler keeps the gate, so the member's tick waits.
        let held = tokio::spawn(spot.ask(Hold));
        within(shared.entered.wait()).await;
        clock.advance(ms(10));
        until_under_way(&node, 2).await;
        assert_eq!(shared.said.len(), 0);
        shared.go.set();
        held.await.unwrap().unwrap();
        within(node.quiesce()).await.unwrap();
        assert_eq!(shared.said.take().len(), 1);
        end(node).await;
    }
}

#[tokio::test]
async fn yield_1_a_tick_yields_where_its_context_shares_the_gate_and_is_refused_elsewhere() {
    let (node, clock, shared) = world(2).await;
    let far = node.spot::<Wide>("far").create().await.unwrap();
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    let player = node.actor::<Player>("alone").create().await.unwrap();
    spot.ask(Set("t", Timer::after(ms(10)), Then::Yield)).await.unwrap();
    player.ask(Set("t", Timer::after(ms(10)), Then::Yield)).await.unwrap();
    clock.advance(ms(10));
    // The Spot's tick has yielded (its ask waits in `far`), the Actor's has failed.
    within(async {
        while (node.metrics().yields, node.metrics().failed_sends) != (1, 1) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(spot.ask(Names).timeout(LIMIT).await.is_ok(), "the gate is free meanwhile");
    shared.go.set();
    within(node.quiesce()).await.unwrap();
    assert_eq!(node.metrics().failed_sends, 1);
    drop(far);
    end(node).await;
}

#[tokio::test]
async fn yield_4_ticks_run_while_a_handler_yields_and_a_timer_never_overlaps_its_own_yielded_tick() {
    let (node, clock, shared) = world(2).await;
    let far = node.spot::<Wide>("far").create().await.unwrap();
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)), Then::Yield)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    clock.advance(ms(10));
    until_under_way(&node, 2).await;
    assert_eq!(shared.said.len(), 1);
    // Its own next moments pass: nothing starts beside the tick that has yielded.
    clock.advance(ms(50));
    until_under_way(&node, 2).await;
    assert_eq!(shared.said.len(), 1);
    // Another timer of the same Spot ticks meanwhile.
    spot.ask(Set("other", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    until_under_way(&node, 2).await;
    clock.advance(ms(10));
    until_under_way(&node, 2).await;
    let others = shared.said.take();
    assert_eq!(others.last().map(|said| said.name.as_str()), Some("other"));
    shared.go.set();
    within(node.quiesce()).await.unwrap();
    let late = shared.said.take();
    assert_eq!((late[0].name.as_str(), late[0].skipped), ("t", 5));
    drop(far);
    end(node).await;
}

#[tokio::test]
async fn timer_1_ticks_of_one_timer_never_overlap_and_count_exactly() {
    for workers in [1, 2, 8] {
        let (node, clock, shared) = world(workers).await;
        let spot = node.spot::<Wide>("spot").create().await.unwrap();
        spot.ask(Set("t", Timer::every(ms(1)).late(turnkeep::Late::CatchUp(1000)), Then::Nothing))
            .await
            .unwrap();
        for _ in 0..100 {
            clock.advance(ms(7));
        }
        within(node.quiesce()).await.unwrap();
        assert_eq!((shared.said.take().len(), shared.inside.most()), (700, 1));
        end(node).await;
    }
}
