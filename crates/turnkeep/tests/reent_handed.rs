//! Waits that are polled elsewhere than where they were begun: who polls a wait now is who waits.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;
#[macro_use]
#[path = "yields/world.rs"]
mod world;

use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use turnkeep::prelude::*;

use support::{Signal, within};
use world::{Player, Room, everywhere, player_in, room, world_with_lane};

/// Longer than any test may last: whoever ends before was not saved by a deadline.
const NEVER: Duration = Duration::from_secs(600);

/// How a wait ended: as it should, or with that error.
type Came = Result<(), ErrorKind>;
type Wait = Pin<Box<dyn Future<Output = Came> + Send>>;

#[derive(Message, Clone)]
#[message(reply = ())]
struct News;

impl Handles<News> for Room {
    async fn handle(_: &mut Turn<'_, Self>, _: News) -> Result<(), Never> {
        Ok(())
    }
}

async fn ask(of: SpotRef<Room>) -> Came {
    of.ask(News).timeout(NEVER).await.map_err(|error| error.kind().unwrap())
}

async fn send(to: SpotRef<Room>) -> Came {
    to.send(News).timeout(NEVER).await.map_err(|refused| refused.error.kind())
}

/// A node of so many workers, whose lanes take one record.
async fn narrow(body: impl AsyncFn(Node)) {
    for workers in [1, 2, 8] {
        let node = world_with_lane(workers, 1).await;
        within(body(node.clone())).await;
        assert!(!within(node.shutdown()).await.unwrap().forced);
    }
}

/// A handler of `one` awaits what was begun outside of every turn; it has begun, and keeps its gate.
async fn awaited_by(one: &SpotRef<Room>, wait: Wait) -> tokio::task::JoinHandle<Came> {
    let begun = Signal::new();
    let awaits = act!(Room, [begun], |_turn| {
        begun.set();
        wait.await
    });
    let awaits = one.ask(awaits).timeout(NEVER);
    let awaits = tokio::spawn(async move { awaits.await.unwrap() });
    begun.wait().await;
    awaits
}

/// A wait for `other`, begun outside of every turn, is awaited by `one`, for which `other` waits: a circle, and one
/// of the two is refused.
async fn crosses(node: Node, begin: impl FnOnce(SpotRef<Room>) -> Wait) {
    let (one, other) = (room(&node, "one").await, room(&node, "other").await);
    let (entered, go) = (Signal::new(), Signal::new());
    let busy = act!(Room, [one, entered, go], |_turn| {
        entered.set();
        go.wait().await;
        ask(one).await
    });
    let busy = tokio::spawn(other.ask(busy).timeout(NEVER));
    entered.wait().await;
    let mut wait = begin(other);
    assert!(poll!(&mut wait).is_pending());
    let awaits = awaited_by(&one, wait).await;
    go.set();
    let came = [awaits.await.unwrap(), busy.await.unwrap().unwrap()];
    let refused = [Ok(()), Err(ErrorKind::InvalidOperation)];
    assert!(refused.iter().all(|which| came.contains(which)), "{came:?}");
}

#[tokio::test]
async fn reent_5_n_an_ask_in_line_for_room_is_a_wait_of_who_awaits_it() {
    narrow(async |node| crosses(node, |other| Box::pin(ask(other))).await).await;
}

#[tokio::test]
async fn reent_5_n_a_send_in_line_for_room_is_a_wait_of_who_awaits_it() {
    narrow(async |node| crosses(node, |other| Box::pin(send(other))).await).await;
}

#[tokio::test]
async fn reent_5_n_a_close_is_a_wait_of_who_awaits_it() {
    let close = |other: SpotRef<Room>| -> Wait {
        Box::pin(async move { other.close().await.map_err(|error| error.kind()) })
    };
    everywhere(async |node| crosses(node, close).await).await;
}

#[tokio::test]
async fn reent_5_n_a_publication_in_line_for_room_is_a_wait_of_who_awaits_it() {
    narrow(async |node| {
        let other = room(&node, "other").await;
        other.ask(act!(Room, [], |turn| turn.subscribe::<News>("desk", "news").unwrap())).await.unwrap();
        let publisher = node.clone();
        let publish = async move {
            let published = publisher.publish_within("desk", "news", News, NEVER).await.unwrap();
            published.named().first().map_or(Ok(()), |missed| Err(missed.error.kind()))
        };
        crosses(node, |_| Box::pin(publish)).await;
    })
    .await;
}

/// The first turn of an object asks whoever waits for it to be made.
#[tokio::test]
async fn reent_5_n_a_creation_is_a_wait_of_who_awaits_it() {
    everywhere(async |node| {
        let one = room(&node, "one").await;
        let (entered, go) = (Signal::new(), Signal::new());
        let on_create = life!(Room, [one, entered, go], |_turn| {
            entered.set();
            go.wait().await;
            ask(one).await.map_err(|kind| Failure::new(format!("{kind:?}")))?;
        });
        let state = Room { on_create, ..Room::default() };
        let made = node.spot::<Room>("new").create_with(state).timeout(NEVER);
        let mut made: Wait = Box::pin(made.map(|made| made.map(drop).map_err(|error| error.kind())));
        assert!(poll!(&mut made).is_pending());
        entered.wait().await;
        let awaits = awaited_by(&one, made).await;
        go.set();
        // Either its first turn was refused, and it was not made, or who waits for it was.
        let came = awaits.await.unwrap().unwrap_err();
        assert!(matches!(came, ErrorKind::Rejected | ErrorKind::InvalidOperation), "{came:?}");
    })
    .await;
}

/// Who awaits a creation may be refused when the first turn waits for it already. That says nothing of the object.
#[tokio::test]
async fn reent_5_n_a_creation_is_refused_to_who_awaits_it_and_goes_on() {
    everywhere(async |node| {
        let one = room(&node, "one").await;
        let asked = Signal::new();
        let on_create = life!(Room, [one, asked], |_turn| {
            let mut asks = Box::pin(ask(one));
            assert!(poll!(&mut asks).is_pending());
            asked.set();
            asks.await.map_err(|kind| Failure::new(format!("{kind:?}")))?;
        });
        let state = Room { on_create, ..Room::default() };
        let (give, take) = tokio::sync::oneshot::channel::<Wait>();
        let held = Signal::new();
        let awaits = act!(Room, [held, asked], |_turn| {
            held.set();
            let made = take.await.unwrap();
            asked.wait().await;
            made.await
        });
        let awaits = tokio::spawn(one.ask(awaits).timeout(NEVER));
        held.wait().await;
        let made = node.spot::<Room>("new").create_with(state).timeout(NEVER);
        let mut made: Wait = Box::pin(made.map(|made| made.map(drop).map_err(|error| error.kind())));
        assert!(poll!(&mut made).is_pending());
        give.send(made).ok().unwrap();
        assert_eq!(awaits.await.unwrap().unwrap(), Err(ErrorKind::InvalidOperation));
        let made = node.spot::<Room>("new").get_or_create().timeout(NEVER).await.unwrap();
        ask(made).await.unwrap();
    })
    .await;
}

/// What a send waits for is told apart, however many a handler has begun.
#[tokio::test]
async fn reent_5_o_of_two_sends_in_line_the_one_that_is_left_is_still_a_wait() {
    narrow(async |node| {
        let one = room(&node, "one").await;
        let (entered, go) = (Signal::new(), Signal::new());
        let left = room(&node, "left").await;
        let busy = act!(Room, [one, entered, go], |_turn| {
            entered.set();
            go.wait().await;
            ask(one).await
        });
        let busy = tokio::spawn(left.ask(busy).timeout(NEVER));
        entered.wait().await;
        let over = room(&node, "over").await;
        let free = world::hold(&over).await;
        let sends = act!(Room, [left, over, go, free], |_turn| {
            let (mut first, mut second) = (Box::pin(send(left)), Box::pin(send(over)));
            assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
            free.set();
            second.await.unwrap();
            go.set();
            first.await
        });
        assert_eq!(within(one.ask(sends).timeout(NEVER)).await.unwrap(), Ok(()));
        assert_eq!(busy.await.unwrap().unwrap(), Err(ErrorKind::InvalidOperation));
    })
    .await;
}

/// A call that was begun with the gate kept and is then yielded for keeps no gate.
#[tokio::test]
async fn reent_5_p_a_call_begun_ordinarily_and_yielded_for_keeps_no_gate() {
    everywhere(async |node| {
        let (one, other) = (room(&node, "one").await, room(&node, "other").await);
        let (entered, go) = (Signal::new(), Signal::new());
        let back = act!(Room, [one, entered, go], |_turn| {
            entered.set();
            go.wait().await;
            ask(one).await
        });
        let yields = act!(Room, [other], |turn| {
            let mut asked = other.ask(back).timeout(NEVER);
            assert!(poll!(&mut asked).is_pending());
            turn.yielding(asked).await.unwrap()
        });
        let yields = tokio::spawn(one.ask(yields).timeout(NEVER));
        entered.wait().await;
        // Handled while the other yields, so it does.
        ask(one.clone()).await.unwrap();
        go.set();
        assert_eq!(yields.await.unwrap().unwrap(), Ok(()));
    })
    .await;
}

/// A wait that is dropped, or that code outside of every turn polls, is nobody's.
#[tokio::test]
async fn reent_5_q_a_wait_dropped_or_taken_outside_is_in_nobodys_way() {
    everywhere(async |node| {
        let lobby = room(&node, "lobby").await;
        let (one, other) = (player_in(&node, "one", &lobby).await, room(&node, "other").await);
        for drops in [true, false] {
            let go = world::hold(&other).await;
            // The handler of `one` begins a call, lets go of it, and keeps its gate until `leave`.
            let (out, leave) = (Signal::new(), Signal::new());
            let (give, take) = tokio::sync::oneshot::channel();
            let begins = act!(Player, [other, one, out, leave], |_turn| {
                let mut asked = other.ask(act!(Room, [one], |_turn| one.id().to_owned())).timeout(NEVER);
                assert!((&mut asked).now_or_never().is_none());
                if drops {
                    drop((asked, give));
                } else {
                    give.send(asked).ok().unwrap();
                }
                out.set();
                leave.wait().await;
            });
            let begins = tokio::spawn(one.ask(begins).timeout(NEVER));
            out.wait().await;
            let mut taken = take.await.ok();
            if let Some(asked) = &mut taken {
                assert!(poll!(asked).is_pending());
            }
            assert_eq!(taken.is_none(), drops);
            // `other` would now wait for `one`: nobody waits for `other` there.
            let asks = act!(Room, [one], |_turn| {
                let asked = one.ask(act!(Player, [], |_turn| ())).timeout(NEVER);
                asked.await.map_err(|error| error.kind())
            });
            let asks = tokio::spawn(other.ask(asks).timeout(NEVER));
            go.set();
            world::chances(&node).await;
            leave.set();
            begins.await.unwrap().unwrap();
            assert_eq!(asks.await.unwrap().unwrap(), Ok(()));
        }
    })
    .await;
}

/// Room that only handlers which have yielded could make is no gate, no claim and no Join: it is waited for until the
/// deadline, and then all goes on.
#[tokio::test]
async fn lane_6_reent_5_r_room_behind_handlers_that_have_yielded_is_waited_for_until_the_deadline() {
    narrow(async |node| {
        let (one, full, third) =
            (room(&node, "one").await, room(&node, "full").await, room(&node, "third").await);
        let (entered, go) = (Signal::new(), Signal::new());
        let sends = act!(Room, [full, entered, go], |_turn| {
            entered.set();
            go.wait().await;
            let sent = full.send(News).timeout(Duration::from_millis(50)).await;
            sent.map_err(|refused| refused.error.kind())
        });
        let sends = tokio::spawn(one.ask(sends).timeout(NEVER));
        entered.wait().await;
        // `full` yields for the third, which asks `one`, which waits for room in `full`.
        let asks = act!(Room, [one, go], |_turn| {
            let mut asked = Box::pin(ask(one));
            assert!(poll!(&mut asked).is_pending());
            go.set();
            asked.await
        });
        let yields = act!(Room, [third], |turn| turn.yielding(third.ask(asks).timeout(NEVER)).await.unwrap());
        let yields = tokio::spawn(full.ask(yields).timeout(NEVER));
        assert_eq!(sends.await.unwrap().unwrap(), Err(ErrorKind::DeadlineExceeded));
        assert_eq!(yields.await.unwrap().unwrap(), Ok(()));
    })
    .await;
}
