//! Chains of waits that come back to where they began: refused where they would close, whatever their length.
//!
//! The kind has three cases (CB-03, CB-05, CB-06), and all apply.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use turnkeep::prelude::*;
use turnkeep::{HeapSize, ObjectKind, Options};

use crate::support::{Log, Signal, within};
use crate::world::{Act, NEVER, Player, Room, end, everywhere, member, ping, ping_player, player, room};

/// Who runs, and how the ask of the next one ended: the kind of the refusal that went through.
type Came = Result<(), ErrorKind>;

/// Each asks the next and keeps its gate, the last one asks the first.
fn ring(ring: &[ActorRef<Player>], at: usize, ran: &Log<usize>) -> Act<Player, Came> {
    let (all, me) = (ring.to_vec(), at);
    act!(Player, [all, ran], |_turn| {
        ran.push(me);
        let next = (me + 1) % all.len();
        came(all[next].ask(self::ring(&all, next, &ran)).timeout(NEVER).await)
    })
}

/// The same with a yield at each step.
fn yielding_ring(ring: &[ActorRef<Player>], at: usize, ran: &Log<usize>) -> Act<Player, Came> {
    let (all, me) = (ring.to_vec(), at);
    act!(Player, [all, ran], |turn| {
        ran.push(me);
        let next = (me + 1) % all.len();
        let ask = all[next].ask(yielding_ring(&all, next, &ran)).timeout(NEVER);
        came(turn.within::<Room>().unwrap().yielding(ask).await)
    })
}

fn came(answered: Result<Came, AskError<Act<Player, Came>>>) -> Came {
    answered.unwrap_or_else(|error| Err(error.kind().unwrap()))
}

#[tokio::test]
async fn cb_03_a_a_ring_of_any_length_is_refused_at_its_last_hop_and_runs_each_handler_once() {
    everywhere(async |node, _| {
        for length in [2, 3, 4, 7] {
            let mut players = Vec::new();
            for number in 0..length {
                players.push(player(&node, &format!("p{number}")).await);
            }
            let ran = Log::new();
            let came = players[0].ask(ring(&players, 0, &ran)).timeout(NEVER).await.unwrap();
            assert_eq!(came, Err(ErrorKind::InvalidOperation));
            assert_eq!(ran.take(), (0..length).collect::<Vec<_>>());
            for player in &players {
                ping_player(player).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn cb_03_b_members_of_one_gate_that_yield_at_each_step_are_refused_too() {
    everywhere(async |node, _| {
        let spot = room(&node, "spot").await;
        let mut members = Vec::new();
        for id in ["a", "b", "c"] {
            members.push(member(&node, id, &spot).await);
        }
        let ran = Log::new();
        let came = members[0].ask(yielding_ring(&members, 0, &ran)).timeout(NEVER).await.unwrap();
        assert_eq!((came, ran.take()), (Err(ErrorKind::InvalidOperation), vec![0, 1, 2]));
        for member in &members {
            ping_player(member).await;
        }
        ping(&spot).await;
    })
    .await;
}

/// Made by whoever asks it first; its creation may call its maker back.
struct Brook {
    calls_back: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
}

impl Spot for Brook {
    type Mode = Instance;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.made.fetch_add(1, Ordering::SeqCst);
        if turn.calls_back.load(Ordering::SeqCst) {
            let maker = turn.actor::<Player>("maker");
            maker
                .ask(act!(Player, [], |_turn| ()))
                .timeout(NEVER)
                .await
                .map_err(|error| Failure::new(error.to_string()))?;
        }
        Ok(())
    }
}

struct Flow;
impl HeapSize for Flow {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Flow {
    type Reply = ();
    type Error = Never;
}
impl Handles<Flow> for Brook {
    async fn handle(_: &mut Turn<'_, Self>, _: Flow) -> Result<(), Never> {
        Ok(())
    }
}

#[tokio::test]
async fn cb_05_a_creation_that_calls_its_maker_back_fails_and_leaves_nothing_half_made() {
    for workers in [1, 2] {
        let (calls_back, made) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let (calls, counts) = (calls_back.clone(), made.clone());
        let brook =
            Options::new().factory(move |_| Ok(Brook { calls_back: calls.clone(), made: counts.clone() }));
        let builder = Node::builder().workers(workers).actor::<Player>("player").spot_with("brook", brook);
        let node = builder.start().await.unwrap();
        let maker = player(&node, "maker").await;
        let spots = node.count(ObjectKind::Spot);
        let asks = || {
            maker.ask(act!(Player, [], |turn| {
                turn.spot::<Brook>("b").ask(Flow).or_create().timeout(NEVER).await.is_ok()
            }))
        };
        assert!(!within(asks()).await.unwrap(), "the creation was refused what it waited for");
        within(node.quiesce()).await.unwrap();
        assert_eq!(node.spot::<Brook>("b").find().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(node.count(ObjectKind::Spot), spots);
        calls_back.store(false, Ordering::SeqCst);
        assert!(within(asks()).await.unwrap());
        assert_eq!((made.load(Ordering::SeqCst), node.count(ObjectKind::Spot)), (2, spots + 1));
        end(node).await;
    }
}

/// What is published: who listens asks `through`, and that one asks `publisher`.
#[derive(Clone)]
struct Event {
    publisher: SpotRef<Room>,
    through: SpotRef<Room>,
    asks: Signal,
    log: Log<&'static str>,
}

impl HeapSize for Event {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Event {
    type Reply = ();
    type Error = Failure;
}

impl Handles<Event> for Room {
    async fn handle(_: &mut Turn<'_, Self>, event: Event) -> Result<(), Failure> {
        let Event { publisher, through, asks, log } = event;
        let ask = through.ask(act!(Room, [publisher, asks, log], |_turn| {
            asks.set();
            publisher.ask(act!(Room, [log], |_turn| log.push("state"))).timeout(NEVER).await.unwrap();
        }));
        ask.timeout(NEVER).await.map_err(|error| Failure::new(error.to_string()))?;
        log.push("heard");
        Ok(())
    }
}

/// `publisher`, `listener` and the one between them, and the event.
async fn three(node: &Node) -> (SpotRef<Room>, Event) {
    let (publisher, listener, through) =
        (room(node, "a").await, room(node, "b").await, room(node, "c").await);
    let subscribe = act!(Room, [], |turn| turn.subscribe::<Event>("news", "t").unwrap());
    listener.ask(subscribe).await.unwrap();
    let event = Event { publisher: publisher.clone(), through, asks: Signal::new(), log: Log::new() };
    (publisher, event)
}

#[tokio::test]
async fn cb_06_a_a_publisher_waits_for_no_listener_that_calls_it_back() {
    everywhere(async |node, _| {
        let (publisher, event) = three(&node).await;
        let published = publisher.ask(act!(Room, [event], |turn| {
            let accepted = turn.publish("news", "t", event.clone()).await.unwrap().accepted();
            // The chain is on its way back to this very turn.
            event.asks.wait().await;
            event.log.push("published");
            accepted
        }));
        assert_eq!(published.timeout(NEVER).await.unwrap(), 1);
        node.quiesce().await.unwrap();
        assert_eq!(event.log.take(), ["published", "state", "heard"]);
        assert_eq!(node.metrics().failed_sends, 0);
    })
    .await;
}

#[tokio::test]
async fn cb_06_b_neither_does_one_outside_of_turns() {
    everywhere(async |node, _| {
        let (publisher, event) = three(&node).await;
        let go = crate::world::hold(&publisher).await;
        let published = node.publish("news", "t", event.clone()).await.unwrap();
        assert_eq!((published.accepted(), published.missed()), (1, 0));
        event.asks.wait().await;
        assert!(event.log.is_empty(), "the chain stands before the held gate");
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(event.log.take(), ["state", "heard"]);
    })
    .await;
}
