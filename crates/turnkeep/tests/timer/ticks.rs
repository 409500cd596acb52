//! What a tick says, and what becomes of late ones.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Clock, Late, Timer};

use crate::support::within;
use crate::world::{
    Board, Hold, Names, Player, Set, Shared, Then, Unset, Wide, build, end, ms, pass, until_under_way, world,
};

/// Clock, moment, skipped.
fn brief(shared: &Shared) -> Vec<(u64, u64, u64)> {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    shared.said.take().iter().map(|said| (millis(said.at), millis(said.due), said.skipped)).collect()
}

#[tokio::test]
async fn timer_2_a_ticks_carry_delivery_schedule_and_moment() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    pass(&node, &clock, ms(5)).await;
    spot.ask(Set("hour", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    spot.ask(Set("once", Timer::after(ms(25)), Then::Nothing)).await.unwrap();
    pass(&node, &clock, ms(40)).await;
    let said = shared.said.take();
    let hours: Vec<_> = said.iter().filter(|said| said.name == "hour").collect();
    assert_eq!(hours.len(), 4);
    for (number, said) in hours.iter().enumerate() {
        let number = number as u64;
        assert_eq!((said.delivery, said.scheduled, said.skipped), (number, number, 0));
        assert_eq!((said.due, said.at), (ms(15 + 10 * number), said.due), "exact on a manual clock");
        assert_eq!(said.by, "spot");
    }
    let once: Vec<_> = said.iter().filter(|said| said.name == "once").collect();
    assert_eq!((once.len(), once[0].due), (1, ms(30)));
    assert_eq!(spot.ask(Names).await.unwrap(), ["hour"], "one that fires once is gone then");
    assert!(spot.ask(Unset("hour")).await.unwrap());
    assert!(!spot.ask(Unset("hour")).await.unwrap());
    pass(&node, &clock, ms(100)).await;
    assert_eq!((shared.said.len(), clock.pending()), (0, 0));
    end(node).await;
}

/// A period of 10; the first tick waits from 10 until 105.
async fn long_first(late: Late) -> Vec<(u64, u64, u64)> {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)).late(late), Then::Wait)).await.unwrap();
    clock.advance_to(ms(10));
    within(shared.entered.wait()).await;
    clock.advance_to(ms(105));
    shared.go.set();
    within(node.quiesce()).await.unwrap();
    pass(&node, &clock, ms(20)).await;
    end(node).await;
    brief(&shared)
}

#[tokio::test]
async fn timer_2_b_a_late_tick_that_skips_stands_for_all_it_missed() {
    assert_eq!(long_first(Late::Skip).await, [(10, 10, 0), (105, 100, 8), (110, 110, 0), (120, 120, 0)]);
}

#[tokio::test]
async fn timer_2_c_late_ticks_are_made_up_for_without_a_pause() {
    let wanted = [(10, 10, 0), (105, 80, 6), (105, 90, 0), (105, 100, 0), (110, 110, 0), (120, 120, 0)];
    assert_eq!(long_first(Late::CatchUp(3)).await, wanted);
}

#[tokio::test]
async fn timer_2_d_a_delayed_tick_comes_a_period_after_the_end() {
    assert_eq!(long_first(Late::Delay).await, [(10, 10, 0), (115, 115, 0), (125, 125, 0)]);
}

#[tokio::test]
async fn timer_2_e_a_bad_timer_is_refused_with_a_reason() {
    let (node, _, _) = world(1).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    let year = Duration::from_secs(366 * 24 * 3600);
    let bad = [
        ("t", Timer::every(Duration::ZERO), "under 1 ms"),
        ("t", Timer::every(Duration::from_nanos(1)), "under 1 ms"),
        ("t", Timer::every(year), "over a year"),
        ("t", Timer::after(year), "over a year"),
        ("t", Timer::every(ms(1)).stop_after(year), "over a year"),
        ("", Timer::every(ms(1)), "empty"),
    ];
    for (name, timer, why) in bad {
        let refused = spot.ask(Set(name, timer, Then::Nothing)).await.unwrap_err();
        let text = format!("{refused:?}");
        assert!(text.contains(why), "{text}");
    }
    assert!(spot.ask(Names).await.unwrap().is_empty());
    end(node).await;
}

#[tokio::test]
async fn timer_3_a_a_name_registered_again_replaces_the_timer_also_its_queued_tick() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    let held = spot.ask(Hold);
    let held = tokio::spawn(held);
    within(shared.entered.wait()).await;
    // The tick is queued behind the handler that has the gate, and the new registration behind the tick.
    clock.advance_to(ms(10));
    until_under_way(&node, 2).await;
    let again = tokio::spawn(spot.ask(Set("t", Timer::every(ms(100)), Then::Nothing)));
    until_under_way(&node, 3).await;
    shared.go.set();
    held.await.unwrap().unwrap();
    again.await.unwrap().unwrap();
    node.quiesce().await.unwrap();
    assert_eq!(brief(&shared), [(10, 10, 0)], "the tick was before the registration");
    for _ in 0..1000 {
        spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    }
    assert_eq!(clock.pending(), 1, "a thousand replaced ones are gone");
    pass(&node, &clock, ms(50)).await;
    assert_eq!(brief(&shared).len(), 5);
    end(node).await;
}

#[tokio::test]
async fn timer_3_b_a_cancelled_timer_starts_no_tick_that_was_queued() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    within(node.quiesce()).await.unwrap();
    let held = tokio::spawn(spot.ask(Hold));
    within(shared.entered.wait()).await;
    let cancel = tokio::spawn(spot.ask(Unset("t")));
    until_under_way(&node, 2).await;
    clock.advance_to(ms(10));
    until_under_way(&node, 3).await;
    shared.go.set();
    held.await.unwrap().unwrap();
    assert!(cancel.await.unwrap().unwrap());
    node.quiesce().await.unwrap();
    assert_eq!(shared.said.len(), 0);
    end(node).await;
}

#[tokio::test]
async fn timer_3_c_a_tick_may_cancel_and_register_itself() {
    let (node, clock, shared) = world(2).await;
    let board = node.spot::<Board>("board").create().await.unwrap();
    board.ask(Set("t", Timer::every(ms(10)), Then::Cancel)).await.unwrap();
    pass(&node, &clock, ms(50)).await;
    assert_eq!(shared.said.take().len(), 1);
    // One that is due at once, again and again, starves nobody.
    let player = node.actor::<Player>("player").create().await.unwrap();
    player.ask(Set("t", Timer::after(Duration::ZERO), Then::Again)).await.unwrap();
    for _ in 0..100 {
        within(player.ask(Names)).await.unwrap();
    }
    assert!(within(player.ask(Unset("t"))).await.is_ok());
    within(player.close()).await.unwrap();
    assert!(shared.said.len() > 50, "it ticked beside the asks");
    end(node).await;
}

#[tokio::test]
async fn timer_4_a_a_full_or_slow_owner_delays_no_other_and_has_one_tick_pending() {
    let (clock, shared) = (Clock::manual(), Shared::default());
    let lane = turnkeep::Lane { records: 1, ..turnkeep::Lane::APPLICATION };
    let node = build(Node::builder().workers(2).clock(clock.clone()).application_lane(lane), &shared).await;
    let slow = node.spot::<Wide>("slow").create().await.unwrap();
    slow.ask(Set("t", Timer::every(ms(50)), Then::Nothing)).await.unwrap();
    for number in 0..100 {
        let spot = node.spot::<Wide>(&format!("s{number}")).create().await.unwrap();
        spot.ask(Set("t", Timer::every(ms(50)), Then::Nothing)).await.unwrap();
    }
    within(node.quiesce()).await.unwrap();
    // Its lane is full of the handler that keeps its gate.
    let held = tokio::spawn(slow.ask(Hold));
    within(shared.entered.wait()).await;
    for round in 1..=20 {
        clock.advance_to(ms(50 * round));
        until_under_way(&node, 2).await;
        assert_eq!(shared.said.len() as u64, 100 * round);
    }
    shared.go.set();
    held.await.unwrap().unwrap();
    node.quiesce().await.unwrap();
    let mut said = shared.said.take();
    assert!(said[..2000].iter().all(|said| said.by != "slow" && said.skipped == 0));
    let of_slow = said.split_off(2000);
    assert_eq!(of_slow.len(), 1);
    assert_eq!((of_slow[0].skipped, of_slow[0].due), (19, ms(1000)));
    end(node).await;
}

#[tokio::test]
async fn timer_4_b_an_object_has_a_bounded_number_of_timers() {
    let (node, clock, _) = world(1).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    let names: Vec<&'static str> =
        (0..turnkeep::TIMERS_MAX + 1).map(|number| &*format!("t{number}").leak()).collect();
    for name in &names[..turnkeep::TIMERS_MAX] {
        spot.ask(Set(name, Timer::every(ms(10)), Then::Nothing)).await.unwrap();
    }
    let refused = spot.ask(Set(names[turnkeep::TIMERS_MAX], Timer::every(ms(10)), Then::Nothing)).await;
    assert!(format!("{refused:?}").contains("1,024 timers"), "{refused:?}");
    spot.ask(Set(names[0], Timer::every(ms(20)), Then::Nothing)).await.unwrap();
    assert_eq!(clock.pending(), turnkeep::TIMERS_MAX);
    spot.close().await.unwrap();
    assert_eq!(clock.pending(), 0);
    end(node).await;
}

/// The same on the process's clock: never early, and no more ticks than moments.
#[tokio::test]
async fn timer_4_c_the_real_clock_ticks_never_early() {
    let shared = Shared::default();
    let node = build(Node::builder().workers(2), &shared).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(5)).stop_after(ms(50)), Then::Nothing)).await.unwrap();
    within(async {
        while !spot.ask(Names).await.unwrap().is_empty() {
            tokio::time::sleep(ms(1)).await;
        }
    })
    .await;
    let said = shared.said.take();
    let moments: u64 = said.iter().map(|said| 1 + said.skipped).sum();
    assert_eq!(moments, 10, "each moment up to the stop is delivered or skipped");
    assert!(said.iter().all(|said| said.at >= said.due), "{said:?}");
    end(node).await;
}

#[tokio::test]
async fn err_2_a_tick_that_fails_is_counted_and_the_timer_goes_on() {
    let (node, clock, shared) = world(2).await;
    let spot = node.spot::<Wide>("spot").create().await.unwrap();
    spot.ask(Set("t", Timer::every(ms(10)), Then::Fail)).await.unwrap();
    pass(&node, &clock, ms(30)).await;
    assert_eq!((shared.said.len(), node.metrics().failed_sends), (3, 3));
    end(node).await;
}
