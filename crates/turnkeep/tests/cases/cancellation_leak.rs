//! Calls that are given up: nothing stays behind them, and a message is handled or gone, once.
//!
//! There is no cancel source to be passed to calls: a call is cancelled by dropping it, and what many calls share for
//! long is the request in whose turn they are made (CB-44). CB-47 is about the await of another language.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnkeep::prelude::*;
use turnkeep::{HeapSize, Send};

use crate::support::{Log, Signal, within};
use crate::world::{NEVER, Room, end, everywhere, hold, ms, real_world_of, room, until};

const CALLS: u64 = 300;
const GIVEN_UP: usize = 100;

/// All kinds of calls in one long request; then as many open waits as may be, and the request is given up.
#[tokio::test]
async fn cb_44_a_long_request_keeps_nothing_of_its_many_calls_and_takes_all_open_ones_with_it() {
    everywhere(async |node, clock| {
        let (long, other) = (room(&node, "long").await, room(&node, "other").await);
        let (calm, begun) = (Signal::new(), Log::new());
        let request = tokio::spawn(
            long.ask(act!(Room, [other, calm, begun, node], |turn| {
                let mut sum = 0;
                for _ in 0..CALLS {
                    sum += other.ask(act!(Room, [], |_turn| 1)).await.unwrap();
                    let ask = other.ask(act!(Room, [], |_turn| 1));
                    sum += turn.yielding(ask).await.unwrap();
                    sum += turn.cpu(|| 1).await.unwrap();
                    sum += turn.yielding(turn.io(async { 1 })).await.unwrap();
                }
                assert_eq!(sum, 4 * CALLS);
                // Only this request is under way.
                until(|| node.status().under_way == 1).await;
                calm.set();
                let mut open = Vec::new();
                for _ in 0..GIVEN_UP {
                    let begun = begun.clone();
                    open.push(turn.io(async move {
                        let _gone = Gone(begun.clone());
                        begun.push("begun");
                        std::future::pending::<()>().await;
                    }));
                }
                futures_util::future::join_all(open).await;
            }))
            .timeout(NEVER),
        );
        calm.wait().await;
        begun.wait_for_len(GIVEN_UP).await;
        assert_eq!((other.queued(), other.status().suspended, clock.pending()), ((0, 0), 0, 0));
        long.destroy().await.unwrap();
        assert_eq!(request.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
        begun.wait_for_len(2 * GIVEN_UP).await;
        assert_eq!(begun.take().iter().filter(|said| **said == "gone").count(), GIVEN_UP);
        until(|| node.status().under_way == 0).await;
    })
    .await;
}

/// Notes that its work was dropped.
struct Gone(Log<&'static str>);
impl Drop for Gone {
    fn drop(&mut self) {
        self.0.push("gone");
    }
}

/// How many values were handled, and how many live.
#[derive(Default)]
struct Tally {
    handled: AtomicUsize,
    given_back: AtomicUsize,
    live: AtomicUsize,
}

/// A message that is counted as long as it lives.
struct Value(Arc<Tally>);

impl Value {
    fn new(tally: &Arc<Tally>) -> Self {
        tally.live.fetch_add(1, Ordering::SeqCst);
        Self(tally.clone())
    }
}
impl Drop for Value {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}
impl HeapSize for Value {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Value {
    type Reply = ();
    type Error = Never;
}
impl Handles<Value> for Room {
    async fn handle(_: &mut Turn<'_, Self>, value: Value) -> Result<(), Never> {
        value.0.handled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

const ROUNDS: usize = 1000;

async fn narrow(workers: usize) -> Node {
    let lane = Lane { records: 1, ..Lane::APPLICATION };
    real_world_of(Node::builder().workers(workers).application_lane(lane)).await
}

/// A send that stands in line for room.
async fn in_line(spot: &SpotRef<Room>, tally: &Arc<Tally>) -> Send<Room, Value> {
    let mut send = spot.send(Value::new(tally)).timeout(NEVER);
    assert!(futures_util::poll!(&mut send).is_pending());
    send
}

#[tokio::test]
async fn cb_45_a_a_send_dropped_as_room_comes_delivers_its_value_or_drops_it_once() {
    for workers in [1, 2] {
        let node = narrow(workers).await;
        let (spot, tally) = (room(&node, "spot").await, Arc::new(Tally::default()));
        for round in 0..ROUNDS {
            let go = within(hold(&spot)).await;
            let before = tally.handled.load(Ordering::SeqCst);
            let send = in_line(&spot, &tally).await;
            let drops = std::thread::spawn(move || drop(send));
            go.set();
            until(|| drops.is_finished()).await;
            drops.join().unwrap();
            within(node.quiesce()).await.unwrap();
            let handled = tally.handled.load(Ordering::SeqCst) - before;
            assert!(handled <= 1, "round {round}: delivered {handled} times");
            assert_eq!(tally.live.load(Ordering::SeqCst), 0, "round {round}");
            assert_eq!((spot.queued(), spot.waiting()), ((0, 0), (0, 0)));
        }
        end(node).await;
    }
}

/// The same with the deadline as the one that gives up: then the value comes back.
#[tokio::test]
async fn cb_45_b_a_send_whose_time_is_up_as_room_comes_delivers_its_value_or_gives_it_back() {
    const FEW: usize = 200;
    for workers in [1, 2] {
        let node = narrow(workers).await;
        let (spot, tally) = (room(&node, "spot").await, Arc::new(Tally::default()));
        for _ in 0..FEW {
            let go = within(hold(&spot)).await;
            let send = tokio::spawn(spot.send(Value::new(&tally)).timeout(ms(2)));
            tokio::time::sleep(ms(2)).await;
            go.set();
            if let Err(refused) = within(send).await.unwrap() {
                assert_eq!(refused.kind(), ErrorKind::DeadlineExceeded);
                tally.given_back.fetch_add(1, Ordering::SeqCst);
            }
            within(node.quiesce()).await.unwrap();
        }
        let of = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        assert_eq!(of(&tally.handled) + of(&tally.given_back), FEW);
        assert_eq!((of(&tally.live), spot.queued(), spot.waiting()), (0, (0, 0), (0, 0)));
        end(node).await;
    }
}
