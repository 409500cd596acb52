//! Ticks beside handlers, late ticks and timers set twice: one turn at a time and one timer a name.
//!
//! The kind has three cases (CB-24, CB-36, CB-37), and all apply. The part of CB-37 in which an object is restarted
//! by a handler's error does not: an error keeps the object, and a new life begins with no timer.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{Clock, Late, Timer};

use crate::support::{Log, Overlap, Signal, within};
use crate::world::{Room, end, everywhere, ms, pass, room, until_under_way, world};

const ROUNDS: u64 = 30;

/// A Spot that counts its ticks into its state, one each 5 ms.
async fn counter(node: &Node, inside: &Overlap, ticked: &Log<u64>) -> SpotRef<Room> {
    let on_tick = ticks!(Room, [inside, ticked], |turn, tick| {
        let _inside = inside.enter();
        turn.n += 1;
        ticked.push(tick.delivery());
    });
    let spot = node.spot::<Room>("counter").create_with(Room { on_tick, ..Room::default() }).await.unwrap();
    spot.ask(act!(Room, [], |turn| turn.timer("t", Timer::every(ms(5))).unwrap())).await.unwrap();
    spot
}

async fn n(spot: &SpotRef<Room>) -> u64 {
    spot.ask(act!(Room, [], |turn| turn.n)).await.unwrap()
}

#[tokio::test]
async fn cb_24_a_no_tick_starts_in_a_wait_that_keeps_the_gate() {
    everywhere(async |node, clock| {
        let (inside, ticked) = (Overlap::new(), Log::new());
        let spot = counter(&node, &inside, &ticked).await;
        for round in 0..ROUNDS {
            let (entered, go) = (Signal::new(), Signal::new());
            let handler = tokio::spawn(spot.ask(act!(Room, [inside, entered, go], |turn| {
                let _inside = inside.enter();
                let read = turn.n;
                entered.set();
                turn.io(async move { go.wait().await }).await.unwrap();
                turn.n = read + 1;
            })));
            entered.wait().await;
            clock.advance(ms(5));
            until_under_way(&node, 2).await;
            assert_eq!(ticked.len() as u64, round, "the tick stands behind the handler");
            go.set();
            handler.await.unwrap().unwrap();
            node.quiesce().await.unwrap();
        }
        assert_eq!((inside.most(), ticked.len() as u64, n(&spot).await), (1, ROUNDS, 2 * ROUNDS));
    })
    .await;
}

/// A handler that yields for I/O while a tick comes; `keeps_old` writes what it read before.
async fn rounds_with_a_yield(node: &Node, clock: &Clock, keeps_old: bool) -> (SpotRef<Room>, Log<u64>) {
    let (inside, ticked) = (Overlap::new(), Log::new());
    let spot = counter(node, &inside, &ticked).await;
    for round in 0..ROUNDS {
        let (entered, go) = (Signal::new(), Signal::new());
        let handler = tokio::spawn(spot.ask(act!(Room, [entered, go], |turn| {
            let (read, grant) = (turn.n, turn.grant());
            entered.set();
            turn.yielding(turn.io(async move { go.wait().await })).await.unwrap();
            assert_ne!(grant, turn.grant(), "who looks at its grant sees that others may have come");
            turn.n = 1 + if keeps_old { read } else { turn.n };
        })));
        entered.wait().await;
        clock.advance(ms(5));
        ticked.wait_for_len(usize::try_from(round).unwrap() + 1).await;
        go.set();
        handler.await.unwrap().unwrap();
    }
    (spot, ticked)
}

#[tokio::test]
async fn cb_24_b_who_reads_again_after_a_yield_loses_no_tick() {
    everywhere(async |node, clock| {
        let (spot, ticked) = rounds_with_a_yield(&node, &clock, false).await;
        assert_eq!((ticked.len() as u64, n(&spot).await), (ROUNDS, 2 * ROUNDS));
    })
    .await;
}

/// The mistake is the program's; what the runtime owes is that the grant tells of it.
#[tokio::test]
async fn cb_24_c_who_does_not_read_again_can_see_it_by_the_grant() {
    everywhere(async |node, clock| {
        let (spot, ticked) = rounds_with_a_yield(&node, &clock, true).await;
        assert_eq!((ticked.len() as u64, n(&spot).await), (ROUNDS, ROUNDS), "each round lost its tick");
    })
    .await;
}

/// Moment of the start, moment it stands for, moments skipped; in milliseconds.
type Started = (u128, u128, u64);

/// Period 20. The first tick takes from 20 until 130, the second a further 4 ms, the others no time.
async fn overrun(late: Late) -> Vec<Started> {
    let (node, clock) = world(2).await;
    let (inside, started) = (Overlap::new(), Log::new());
    let stops = [Signal::new(), Signal::new()];
    let waits = stops.clone();
    let on_tick = ticks!(Room, [inside, started, waits], |turn, tick| {
        let _inside = inside.enter();
        started.push((turn.now().as_millis(), tick.due().as_millis(), tick.skipped()));
        if let Some(stop) = waits.get(usize::try_from(tick.delivery()).unwrap()) {
            stop.wait().await;
        }
    });
    let spot = node.spot::<Room>("late").create_with(Room { on_tick, ..Room::default() }).await.unwrap();
    let timer = Timer::every(ms(20)).late(late);
    spot.ask(act!(Room, [], |turn| turn.timer("t", timer).unwrap())).await.unwrap();
    clock.advance_to(ms(20));
    within(started.wait_for_len(1)).await;
    clock.advance_to(ms(130));
    stops[0].set();
    // One that comes a period later is not under way yet.
    if late == Late::Delay {
        within(node.quiesce()).await.unwrap();
        clock.advance_to(ms(150));
    }
    within(started.wait_for_len(2)).await;
    clock.advance(ms(4));
    stops[1].set();
    within(node.quiesce()).await.unwrap();
    pass(&node, &clock, ms(180) - clock.now()).await;
    assert_eq!(inside.most(), 1, "ticks of one name never overlap");
    end(node).await;
    started.take()
}

#[tokio::test]
async fn cb_36_a_one_tick_stands_for_all_that_were_skipped_and_then_the_grid_goes_on() {
    assert_eq!(
        overrun(Late::Skip).await,
        [(20, 20, 0), (130, 120, 4), (140, 140, 0), (160, 160, 0), (180, 180, 0)]
    );
}

#[tokio::test]
async fn cb_36_b_a_bounded_number_is_made_up_for_without_a_pause() {
    let wanted = [(20, 20, 0), (130, 100, 3), (134, 120, 0), (140, 140, 0), (160, 160, 0), (180, 180, 0)];
    assert_eq!(overrun(Late::CatchUp(2)).await, wanted);
}

#[tokio::test]
async fn cb_36_c_a_delayed_timer_counts_from_the_end_of_each_tick() {
    assert_eq!(overrun(Late::Delay).await, [(20, 20, 0), (150, 150, 0), (174, 174, 0)]);
}

const PERIOD: Duration = ms(10);

/// A Spot that registers its timer in its first turn already.
async fn registered(node: &Node, ticked: &Log<u64>) -> SpotRef<Room> {
    let on_create = life!(Room, [], |turn| turn.timer("k", Timer::every(PERIOD))?);
    let on_tick = ticks!(Room, [ticked], |_turn, tick| ticked.push(tick.delivery()));
    let state = Room { on_create, on_tick, ..Room::default() };
    node.spot::<Room>("k").create_with(state).await.unwrap()
}

#[tokio::test]
async fn cb_37_a_a_timer_set_a_thousand_times_is_one_timer() {
    everywhere(async |node, clock| {
        let ticked = Log::new();
        let spot = registered(&node, &ticked).await;
        clock.advance(ms(3));
        for _ in 0..1000 {
            spot.ask(act!(Room, [], |turn| turn.timer("k", Timer::every(PERIOD)).unwrap())).await.unwrap();
        }
        assert_eq!(clock.pending(), 1);
        pass(&node, &clock, PERIOD * 100).await;
        assert_eq!(ticked.take(), (0..100).collect::<Vec<_>>(), "each counts from the last registration");
        assert_eq!(clock.pending(), 1);
    })
    .await;
}

#[tokio::test]
async fn cb_37_b_one_that_each_life_sets_in_its_first_turn_is_one_timer_too() {
    everywhere(async |node, clock| {
        let ticked = Log::new();
        for _ in 0..5 {
            registered(&node, &ticked).await.close().await.unwrap();
            room(&node, "k").await.close().await.unwrap();
        }
        registered(&node, &ticked).await;
        assert_eq!(clock.pending(), 1);
        pass(&node, &clock, PERIOD * 50).await;
        assert_eq!(ticked.take(), (0..50).collect::<Vec<_>>());
    })
    .await;
}
