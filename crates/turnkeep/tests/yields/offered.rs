//! Where a Yield is offered and for what, and what the dynamic call does where it is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use turnkeep::prelude::*;

use crate::support::Signal;
use crate::world::{Cabin, Cache, Desk, Lobby, Player, Room, everywhere, player_in, room};

/// A test for each kind of call: its handler yields in a Spot, in a member and in an Instance Spot, and each
/// time the call ends only after a competitor has had the gate.
macro_rules! offered {
    ($($name:ident: |$turn:ident, $go:ident| $call:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            everywhere(async |node| {
                let spot = room(&node, "spot").await;
                let member = player_in(&node, "member", &spot).await;
                let cache = node.spot::<Cache>("cache").create().await.unwrap();
                for context in 0..3 {
                    let ($go, started) = (Signal::new(), Signal::new());
                    let slow = being_made(&node, &$go).await;
                    let yields = node.metrics().yields;
                    let competitor = async {
                        started.wait().await;
                        match context {
                            2 => cache.ask(act!(Cache, [], |turn| turn.n += 1)).await.unwrap(),
                            _ => spot.ask(act!(Room, [], |turn| turn.n += 1)).await.unwrap(),
                        }
                        $go.set();
                    };
                    let asked = async {
                        match context {
                            0 => spot.ask(act!(Room, [started, $go], |$turn| {
                                started.set();
                                let call = $call;
                                $turn.yielding(call).await.is_ok()
                            })).await.unwrap(),
                            1 => member.ask(act!(Player, [started, $go], |turn| {
                                started.set();
                                let mut $turn = turn.within::<Room>().unwrap();
                                let call = $call;
                                $turn.yielding(call).await.is_ok()
                            })).await.unwrap(),
                            _ => cache.ask(act!(Cache, [started, $go], |$turn| {
                                started.set();
                                let call = $call;
                                $turn.yielding(call).await.is_ok()
                            })).await.unwrap(),
                        }
                    };
                    let (well, ()) = tokio::join!(asked, competitor);
                    assert!(well, "context {context}");
                    assert_eq!(node.metrics().yields, yields + 1, "context {context}");
                    slow.await.unwrap().unwrap();
                }
            })
            .await;
        }
    )*};
}

/// A Spot and an Actor called `slow`, which are made when `go` is set; the ones before them are gone.
async fn being_made(node: &Node, go: &Signal) -> turnkeep::Task<Result<(), Error>> {
    if let Ok(before) = node.spot::<Room>("slow").find() {
        before.destroy().await.unwrap();
    }
    if let Ok(before) = node.actor::<Player>("slow").find() {
        before.destroy().await.unwrap();
    }
    let begun = [Signal::new(), Signal::new()];
    let [spot_begun, actor_begun] = &begun;
    let room = Room {
        on_create: life!(Room, [go, spot_begun], |_turn| {
            spot_begun.set();
            go.wait().await
        }),
        ..Room::default()
    };
    let player = Player {
        on_create: life!(Player, [go, actor_begun], |_turn| {
            actor_begun.set();
            go.wait().await
        }),
        ..Player::default()
    };
    let (spot, actor) = (node.spot::<Room>("slow"), node.actor::<Player>("slow"));
    let making = node.spawn(async move {
        let (spot, actor) = futures_util::join!(spot.create_with(room), actor.create_with(player));
        spot.map(drop).and(actor.map(drop))
    });
    spot_begun.wait().await;
    actor_begun.wait().await;
    making
}

offered! {
    yield_1_a_an_ask_of_a_channel_is_waited_for_with_the_gate_free: |turn, go| {
        turn.channel::<Desk>("desk").ask(act!(Desk, [go], |_turn| go.wait().await))
    };
    yield_1_b_an_ask_of_a_spot_is_waited_for_with_the_gate_free: |turn, go| {
        turn.spot::<Lobby>(&turn.node().entry_id()).ask(act!(Lobby, [go], |_turn| go.wait().await))
    };
    yield_1_c_an_ask_of_an_actor_is_waited_for_with_the_gate_free: |turn, go| {
        turn.node().spot::<Cabin>("c").get_or_create().await.unwrap();
        turn.node().actor::<Player>("far").get_or_create().await.unwrap()
            .ask(act!(Player, [go], |_turn| go.wait().await))
    };
    yield_1_d_cpu_work_is_waited_for_with_the_gate_free: |turn, go| {
        let go = go.clone();
        turn.cpu(move || go.wait_blocking())
    };
    yield_1_e_io_work_is_waited_for_with_the_gate_free: |turn, go| {
        let go = go.clone();
        turn.io(async move { go.wait().await })
    };
    yield_1_f_the_creation_of_a_spot_is_waited_for_with_the_gate_free: |turn, go| {
        let made = Room { on_create: life!(Room, [go], |_turn| go.wait().await), ..Room::default() };
        turn.spot::<Room>(&format!("made-by-{}", turn.id())).create_with(made)
    };
    yield_1_g_the_creation_of_an_actor_is_waited_for_with_the_gate_free: |turn, go| {
        let made = Player { on_create: life!(Player, [go], |_turn| go.wait().await), ..Player::default() };
        turn.actor::<Player>(&format!("made-by-{}", turn.id())).create_with(made)
    };
    yield_1_h_get_or_create_of_a_spot_is_waited_for_with_the_gate_free: |turn, go| {
        let _ = &go;
        turn.spot::<Room>("slow").get_or_create()
    };
    yield_1_i_get_or_create_of_an_actor_is_waited_for_with_the_gate_free: |turn, go| {
        let _ = &go;
        turn.actor::<Player>("slow").get_or_create()
    };
}

/// What a handler that tried to yield where it cannot found.
#[derive(Debug, PartialEq, Eq)]
struct Tried {
    ask: Option<ErrorKind>,
    message_is_back: bool,
    cpu: Option<ErrorKind>,
    io: Option<ErrorKind>,
    create: Option<ErrorKind>,
}

const REFUSED: Tried = Tried {
    ask: Some(ErrorKind::InvalidOperation),
    message_is_back: true,
    cpu: Some(ErrorKind::InvalidOperation),
    io: Some(ErrorKind::InvalidOperation),
    create: Some(ErrorKind::InvalidOperation),
};

/// Tries each kind of call with `try_yielding`.
macro_rules! try_all {
    ($turn:ident, $ran:ident) => {{
        let (in_ask, in_cpu, in_io) = ($ran.clone(), $ran.clone(), $ran.clone());
        let ask = $turn
            .spot::<Room>("target")
            .ask(act!(Room, [in_ask], |_turn| in_ask.store(true, Ordering::SeqCst)));
        let ask = $turn.try_yielding(ask).await.unwrap_err();
        let cpu = $turn.cpu(move || in_cpu.store(true, Ordering::SeqCst));
        let cpu = $turn.try_yielding(cpu).await.unwrap_err().kind();
        let io = $turn.io(async move { in_io.store(true, Ordering::SeqCst) });
        let io = $turn.try_yielding(io).await.unwrap_err().kind();
        let create = $turn.spot::<Room>("never").create();
        let create = $turn.try_yielding(create).await.unwrap_err().kind();
        Tried {
            ask: ask.kind(),
            message_is_back: ask.into_message().is_some(),
            cpu: Some(cpu),
            io: Some(io),
            create: Some(create),
        }
    }};
}

/// Checks that what a context found was a refusal and that nothing happened.
async fn nothing_happened(node: &Node, ran: &Arc<AtomicBool>, tried: Tried, context: &str) {
    node.quiesce().await.unwrap();
    assert_eq!(tried, REFUSED, "{context}");
    assert!(!ran.load(Ordering::SeqCst), "{context}: something ran");
    assert_eq!(node.metrics().yields, 0, "{context}");
    assert!(node.spot::<Room>("never").find().is_err(), "{context}: the object was made");
    let target = node.spot::<Room>("target").find().unwrap();
    assert_eq!((target.queued(), target.waiting()), ((0, 0), (0, 0)), "{context}");
}

#[tokio::test]
async fn yield_2_a_the_dynamic_call_is_refused_in_a_per_actor_spot_and_its_actors() {
    everywhere(async |node| {
        room(&node, "target").await;
        let ran = Arc::new(AtomicBool::new(false));
        let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
        let player = player_in(&node, "player", &cabin).await;
        let accepted = node.metrics().accepted;
        let tried = cabin.ask(act!(Cabin, [ran], |turn| try_all!(turn, ran))).await.unwrap();
        nothing_happened(&node, &ran, tried, "Spot").await;
        let tried = player.ask(act!(Player, [ran], |turn| try_all!(turn, ran))).await.unwrap();
        nothing_happened(&node, &ran, tried, "Actor").await;
        assert_eq!(node.metrics().accepted, accepted + 2, "the two handlers, and nothing they asked for");
    })
    .await;
}

#[tokio::test]
async fn yield_2_b_the_dynamic_call_is_refused_in_the_entry_spot_and_its_actors() {
    everywhere(async |node| {
        room(&node, "target").await;
        let ran = Arc::new(AtomicBool::new(false));
        let lobby = node.entry::<Lobby>().unwrap();
        let player = node.actor::<Player>("player").create().await.unwrap();
        let accepted = node.metrics().accepted;
        let tried = lobby.ask(act!(Lobby, [ran], |turn| try_all!(turn, ran))).await.unwrap();
        nothing_happened(&node, &ran, tried, "Entry Spot").await;
        let tried = player.ask(act!(Player, [ran], |turn| try_all!(turn, ran))).await.unwrap();
        nothing_happened(&node, &ran, tried, "Entry Actor").await;
        assert_eq!(node.metrics().accepted, accepted + 2);
    })
    .await;
}

#[tokio::test]
async fn yield_2_c_the_dynamic_call_is_refused_in_channel_and_node_handlers() {
    everywhere(async |node| {
        room(&node, "target").await;
        let ran = Arc::new(AtomicBool::new(false));
        for desk in [node.channel::<Desk>("desk"), node.handler::<Desk>("desk")] {
            let tried = desk.ask(act!(Desk, [ran], |turn| try_all!(turn, ran))).await.unwrap();
            nothing_happened(&node, &ran, tried, &format!("{desk:?}")).await;
        }
    })
    .await;
}

#[tokio::test]
async fn yield_2_d_the_dynamic_call_yields_where_the_context_allows_it() {
    everywhere(async |node| {
        let spot = room(&node, "spot").await;
        let member = player_in(&node, "member", &spot).await;
        let (started, go) = (Signal::new(), Signal::new());
        let competitor = async {
            started.wait().await;
            spot.ask(act!(Room, [], |turn| turn.n += 1)).await.unwrap();
            go.set();
        };
        let asked = member.ask(act!(Player, [started, go], |turn| {
            started.set();
            let io = turn.io(async move { go.wait().await });
            turn.try_yielding(io).await
        }));
        let (answer, ()) = tokio::join!(asked, competitor);
        answer.unwrap().unwrap();
        assert_eq!(node.metrics().yields, 1);
    })
    .await;
}

/// A call that was begun as an ordinary wait is no way round the rule: the gate stays where it is.
#[tokio::test]
async fn yield_2_e_a_call_begun_ordinarily_releases_nothing_where_the_context_cannot_yield() {
    everywhere(async |node| {
        let cabin = node.spot::<Cabin>("cabin").create().await.unwrap();
        let lobby = node.entry::<Lobby>().unwrap();
        let order = crate::support::Log::new();
        let (begun, go) = (Signal::new(), Signal::new());
        let asked = cabin.ask(act!(Cabin, [order, begun, go], |turn| {
            let mut call = turn.io(async move { go.wait().await });
            assert!(futures_util::poll!(&mut call).is_pending());
            begun.set();
            let _ = turn.try_yielding(call).await;
            order.push("end of the first");
        }));
        let rival = async {
            begun.wait().await;
            cabin.send(act!(Cabin, [order], |_turn| order.push("rival"))).await.unwrap();
            for _ in 0..200 {
                lobby.ask(act!(Lobby, [], |_turn| ())).await.unwrap();
            }
            go.set();
        };
        let (asked, ()) = tokio::join!(asked, rival);
        asked.unwrap();
        node.quiesce().await.unwrap();
        assert_eq!(order.take(), ["end of the first", "rival"]);
        assert_eq!(node.metrics().yields, 0);
    })
    .await;
}
