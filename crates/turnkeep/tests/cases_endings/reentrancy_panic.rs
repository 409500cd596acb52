//! Kind "reentrancy panic": an object that ends itself, or what it lives in, from within its own turn.
//!
//! Of the seven things of case 55 those with timers and subscriptions belong to the tests of those; an object's
//! handler cannot be exchanged here, its state can. The four places are a message, a wait with the gate kept, one
//! with the gate given up, and the result of work.

use turnkeep::prelude::*;

use crate::support::{Log, within};
use crate::world::*;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Deed {
    RequestClose,
    Close,
    Destroy,
    DropLastHandle,
    ReplaceState,
    CloseOwnSpotAsMember,
    Shutdown,
}

const DEEDS: [Deed; 7] = [
    Deed::RequestClose,
    Deed::Close,
    Deed::Destroy,
    Deed::DropLastHandle,
    Deed::ReplaceState,
    Deed::CloseOwnSpotAsMember,
    Deed::Shutdown,
];

async fn place(turn: &mut Turn<'_, Room>, which: usize) {
    let other = turn.spot::<Room>("other");
    match which {
        0 => {}
        1 => other.ask(act!(Room, [], |_turn| ())).await.unwrap(),
        2 => turn.yielding(other.ask(act!(Room, [], |_turn| ()))).await.unwrap(),
        _ => turn.cpu(|| ()).await.unwrap(),
    }
}

async fn commit(turn: &mut Turn<'_, Room>, deed: Deed) -> Option<ErrorKind> {
    let me = turn.this_spot();
    match deed {
        Deed::RequestClose => me.request_close().err().map(|error| error.kind()),
        Deed::Close => me.close().await.err().map(|error| error.kind()),
        Deed::Destroy => me.destroy().await.err().map(|error| error.kind()),
        Deed::Shutdown => turn.node().shutdown().await.err().map(|error| error.kind()),
        Deed::ReplaceState => {
            let on_closing = turn.on_closing.take();
            *turn.state() = Room { n: 7, on_closing, ..Room::default() };
            None
        }
        Deed::DropLastHandle | Deed::CloseOwnSpotAsMember => None,
    }
}

#[tokio::test]
async fn cb_55_an_object_that_ends_itself_in_its_own_turn_ends_after_it() {
    within(async {
        for workers in [1, 2] {
            for deed in DEEDS {
                for which in 0..4 {
                    let node = world(workers).await;
                    room(&node, "other").await;
                    let log = Log::new();
                    let state = Room {
                        on_closing: life!(Room, [log], |_turn| log.push("on_closing")),
                        ..Room::default()
                    };
                    let spot = node.spot::<Room>("r").create_with(state).await.unwrap();
                    let watch = spot.watch();
                    if deed == Deed::CloseOwnSpotAsMember {
                        let player = player_in(&node, "p", &spot).await;
                        let asked = spot.clone();
                        let told = player.ask(act!(Player, [asked], |_turn| {
                            let close = asked.close().await.map_err(|error| error.kind());
                            (close, asked.request_close().is_ok())
                        }));
                        assert_eq!(told.await.unwrap(), (Err(ErrorKind::InvalidOperation), true));
                        node.quiesce().await.unwrap();
                        assert!(!spot.has_ended(), "somebody is in it");
                        continue;
                    }
                    let ended = {
                        let log = log.clone();
                        let asked = spot.ask(act!(Room, [log], |turn| {
                            place(turn, which).await;
                            let told = commit(turn, deed).await;
                            turn.n += 1;
                            log.push("the turn ran on");
                            told
                        }));
                        // From here on only the message knows it, and the directory.
                        if deed == Deed::DropLastHandle {
                            drop(spot.clone());
                        }
                        asked.await.unwrap()
                    };
                    let refused = matches!(deed, Deed::Close | Deed::Destroy | Deed::Shutdown);
                    assert_eq!(ended, refused.then_some(ErrorKind::InvalidOperation), "{deed:?} {which}");
                    if deed != Deed::RequestClose {
                        assert!(!spot.has_ended());
                        spot.close().await.unwrap();
                    }
                    watch.await.unwrap();
                    assert_eq!(log.take(), ["the turn ran on", "on_closing"], "{deed:?} {which}");
                    assert_eq!(node.metrics().panics, 0);
                }
            }
        }
    })
    .await;
}
