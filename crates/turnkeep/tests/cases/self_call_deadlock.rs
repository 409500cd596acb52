//! An object that waits for itself: refused at once, with nothing left behind.
//!
//! The kind has one case (CB-01), and it applies.

use turnkeep::prelude::*;

use crate::support::{Log, Signal};
use crate::world::{NEVER, Player, Room, everywhere, member, ping, ping_player, player, room};

/// Asks itself in a turn; returns how that ended and whether anything was left in a lane.
macro_rules! asks_itself {
    ($type:ty, $this:ident, $runs:ident, |$turn:ident, $ask:ident| $error:expr) => {
        act!($type, [$runs], |$turn| {
            let me = $turn.$this();
            let $ask = me.ask(act!($type, [$runs], |_turn| $runs.push("inner"))).timeout(NEVER);
            let error = $error;
            // One record: the turn that asks.
            (error.kind(), me.queued(), me.waiting())
        })
    };
}

const REFUSED: (Option<ErrorKind>, (u32, u32), (usize, usize)) =
    (Some(ErrorKind::InvalidOperation), (1, 0), (0, 0));

#[tokio::test]
async fn cb_01_a_an_actor_with_its_own_gate_is_refused() {
    everywhere(async |node, _| {
        let (actor, runs) = (player(&node, "a").await, Log::new());
        let found = actor
            .ask(asks_itself!(Player, this_actor, runs, |turn, ask| ask.await.unwrap_err()))
            .await
            .unwrap();
        assert_eq!(found, REFUSED);
        ping_player(&actor).await;
        assert_eq!((runs.len(), actor.queued()), (0, (0, 0)));
    })
    .await;
}

#[tokio::test]
async fn cb_01_b_a_member_of_a_shared_gate_is_refused_with_and_without_a_yield() {
    everywhere(async |node, _| {
        let spot = room(&node, "spot").await;
        let (actor, runs) = (member(&node, "m", &spot).await, Log::new());
        let held = actor
            .ask(asks_itself!(Player, this_actor, runs, |turn, ask| ask.await.unwrap_err()))
            .await
            .unwrap();
        let yields = actor.ask(asks_itself!(Player, this_actor, runs, |turn, ask| {
            turn.within::<Room>().unwrap().yielding(ask).await.unwrap_err()
        }));
        assert_eq!((held, yields.await.unwrap()), (REFUSED, REFUSED));
        ping_player(&actor).await;
        assert_eq!((runs.len(), actor.queued(), spot.queued()), (0, (0, 0), (0, 0)));
    })
    .await;
}

/// A Spot that gives up its gate may well answer itself: that is no wait for itself.
#[tokio::test]
async fn cb_01_c_a_spot_is_refused_if_it_keeps_its_gate_and_answered_if_it_yields() {
    everywhere(async |node, _| {
        let (spot, runs) = (room(&node, "spot").await, Log::new());
        let held =
            spot.ask(asks_itself!(Room, this_spot, runs, |turn, ask| ask.await.unwrap_err())).await.unwrap();
        assert_eq!(held, REFUSED);
        ping(&spot).await;
        assert_eq!((runs.len(), spot.queued()), (0, (0, 0)));
        let yields = spot.ask(act!(Room, [], |turn| {
            let ask = turn.this_spot().ask(act!(Room, [], |turn| turn.grant())).timeout(NEVER);
            (turn.grant(), turn.yielding(ask).await.unwrap())
        }));
        let (outer, inner) = yields.await.unwrap();
        assert!(inner > outer, "a turn of its own, later");
    })
    .await;
}

#[tokio::test]
async fn cb_01_d_a_send_to_itself_runs_once_after_the_sender_has_ended() {
    everywhere(async |node, _| {
        let (actor, log, end) = (player(&node, "a").await, Log::new(), Signal::new());
        let outer = actor.ask(act!(Player, [log, end], |turn| {
            turn.this_actor().send(act!(Player, [log], |_turn| log.push("inner"))).await.unwrap();
            end.wait().await;
            log.push("outer ends");
        }));
        let outer = tokio::spawn(outer);
        crate::world::until(|| actor.queued() == (2, 0)).await;
        end.set();
        outer.await.unwrap().unwrap();
        node.quiesce().await.unwrap();
        assert_eq!(log.take(), ["outer ends", "inner"]);
    })
    .await;
}
