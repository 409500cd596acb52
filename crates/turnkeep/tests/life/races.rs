//! Many at once: creators, closers and senders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Barrier;
use turnkeep::prelude::*;

use crate::stage::{Add, Cell, Guest, Single, Wide, node};
use crate::support::within;

/// Counts its incarnations and their closings.
struct Lamp(Arc<Counts>, u64);
#[derive(Default)]
struct Counts {
    made: AtomicUsize,
    closed: AtomicUsize,
    handled: AtomicUsize,
}
impl Spot for Lamp {
    type Mode = SpotWide;
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        turn.0.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
impl Handles<Add> for Lamp {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        turn.0.handled.fetch_add(1, Ordering::SeqCst);
        turn.1 += add.0;
        Ok(turn.1)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn life_closers_senders_and_creators_at_once_lose_nothing() {
    const ROUNDS: usize = 100;
    within(async {
        for workers in [1, 2] {
            let counts = Arc::new(Counts::default());
            let counted = counts.clone();
            let options = Options::<Lamp>::new().factory(move |_| {
                counted.made.fetch_add(1, Ordering::SeqCst);
                Ok(Lamp(counted.clone(), 0))
            });
            let node =
                Node::builder().workers(workers).spot_with::<Lamp>("lamp", options).start().await.unwrap();
            let address = node.spot::<Lamp>("L");
            let (mut accepted, mut closed) = (0, 0);
            for _ in 0..ROUNDS {
                let lamp = address.get_or_create().await.unwrap();
                let start = Arc::new(Barrier::new(64 + 64 + 16));
                let closers: Vec<_> = (0..64)
                    .map(|_| {
                        let (lamp, start) = (lamp.clone(), start.clone());
                        tokio::spawn(async move {
                            start.wait().await;
                            lamp.close().await.map_err(|error| error.kind())
                        })
                    })
                    .collect();
                let senders: Vec<_> = (0..64)
                    .map(|_| {
                        let (address, start) = (address.clone(), start.clone());
                        tokio::spawn(async move {
                            start.wait().await;
                            address.ask(Add(1)).await.map_err(|error| error.kind())
                        })
                    })
                    .collect();
                let creators: Vec<_> = (0..16)
                    .map(|_| {
                        let (address, start) = (address.clone(), start.clone());
                        tokio::spawn(async move {
                            start.wait().await;
                            address.get_or_create().await.map_err(|error| error.kind())
                        })
                    })
                    .collect();
                let mut well = 0;
                for closer in closers {
                    match closer.await.unwrap() {
                        Ok(()) => well += 1,
                        Err(kind) => assert_eq!(kind, ErrorKind::NotFound),
                    }
                }
                assert_eq!(well, 1, "one of them closed it");
                closed += 1;
                for sender in senders {
                    match sender.await.unwrap() {
                        Ok(_) => accepted += 1,
                        Err(kind) => assert_eq!(kind, Some(ErrorKind::NotFound), "refused, never lost"),
                    }
                }
                for creator in creators {
                    creator.await.unwrap().unwrap();
                }
                assert!(lamp.has_ended());
            }
            node.quiesce().await.unwrap();
            assert_eq!(counts.handled.load(Ordering::SeqCst), accepted);
            assert_eq!(counts.closed.load(Ordering::SeqCst), closed);
            let made = counts.made.load(Ordering::SeqCst);
            assert!(made == closed || made == closed + 1, "{made} made, {closed} closed");
            if let Ok(last) = address.find() {
                last.close().await.unwrap();
            }
            assert_eq!(counts.closed.load(Ordering::SeqCst), counts.made.load(Ordering::SeqCst));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn life_many_creators_of_one_id_make_it_once() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            for round in 0..100 {
                let id = format!("r{round}");
                let start = Arc::new(Barrier::new(32));
                let creators: Vec<_> = (0..32)
                    .map(|n| {
                        let (node, id, start) = (node.clone(), id.clone(), start.clone());
                        tokio::spawn(async move {
                            start.wait().await;
                            let address = node.spot::<Wide>(&id);
                            if n % 2 == 0 { address.create().await } else { address.get_or_create().await }
                        })
                    })
                    .collect();
                let (mut made, mut existed) = (Vec::new(), 0);
                for creator in creators {
                    match creator.await.unwrap() {
                        Ok(spot) => made.push(spot),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
                            existed += 1;
                        }
                    }
                }
                assert!(made.windows(2).all(|pair| pair[0] == pair[1]), "one life only");
                assert!(existed == 15 || existed == 16, "{existed}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn life_closed_and_created_again_at_once_is_never_two() {
    within(async {
        let node = node(2).await;
        let address = node.actor::<Guest>("g");
        let mut before = None;
        for _ in 0..500 {
            let guest = address.get_or_create().await.unwrap();
            assert!(before.is_none_or(|before| guest.generation() > before));
            before = Some(guest.generation());
            let closing = tokio::spawn(guest.close());
            let other = address.get_or_create().await.unwrap();
            closing.await.unwrap().unwrap();
            if other != guest {
                assert!(guest.has_ended());
                other.close().await.unwrap();
                before = Some(other.generation());
            }
        }
        node.quiesce().await.unwrap();
        assert!(node.entry::<turnkeep::Hall>().unwrap().members().is_empty());
        let _ = (node.spot::<Single>("s"), node.spot::<Cell>("c"));
    })
    .await;
}

/// The end comes while the member's turn is just over and its place in the Spot's queue is being decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn life_members_destroyed_as_their_turn_ends_do_end() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("W").create().await.unwrap();
        let mut ends = Vec::new();
        for n in 0..4 {
            let (node, wide) = (node.clone(), wide.clone());
            ends.push(tokio::spawn(async move {
                for round in 0..1500 {
                    let address = node.actor::<Guest>(&format!("g{n}"));
                    let guest = address.create_in(Guest::default(), &wide).await.unwrap();
                    // The answer is given inside the turn; a little later or earlier, the turn is over.
                    let asked = tokio::spawn(guest.ask(Add(1)));
                    if round % 2 == 0 {
                        let _ = asked.await.unwrap();
                    } else {
                        tokio::task::yield_now().await;
                    }
                    let end = tokio::time::timeout(std::time::Duration::from_secs(20), guest.destroy()).await;
                    assert!(end.is_ok(), "it has not ended in round {round}");
                }
            }));
        }
        for end in ends {
            end.await.unwrap();
        }
        node.quiesce().await.unwrap();
        assert!(wide.members().is_empty());
    })
    .await;
}
