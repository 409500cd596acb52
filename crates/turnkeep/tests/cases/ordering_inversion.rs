//! Publications made while one is being handled: every subscriber gets the outer one before the inner one.
//!
//! CB-18 in full, one order over all subscribers, and CB-19, data and timers at one instant, are about a bus. CB-21 and
//! CB-22 are about links and relocation between nodes. Objects run side by side, so there is no order over all of
//! them; and two publishers at the same time have no order between them (CHAN-2), which a publication made in the
//! handling of another one has on one thread.

use turnkeep::prelude::*;
use turnkeep::testing::explore;
use turnkeep::{HeapSize, Options};

use crate::support::{Log, Overlap};
use crate::world::News;

#[derive(Clone)]
struct X(u64);
impl HeapSize for X {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for X {
    type Reply = ();
    type Error = Failure;
}
/// Begins to listen.
struct Listen;
impl HeapSize for Listen {
    fn heap_bytes(&self) -> u64 {
        0
    }
}
impl Message for Listen {
    type Reply = ();
    type Error = Failure;
}

/// Notes what it hears; `s1` answers the first with the second, `s2` that one with the third.
struct Listener {
    heard: Log<(String, u64)>,
    inside: Overlap,
}
impl Spot for Listener {
    type Mode = SpotWide;
}
impl Handles<Listen> for Listener {
    async fn handle(turn: &mut Turn<'_, Self>, _: Listen) -> Result<(), Failure> {
        Ok(turn.subscribe::<X>("news", "*")?)
    }
}
impl Handles<X> for Listener {
    async fn handle(turn: &mut Turn<'_, Self>, x: X) -> Result<(), Failure> {
        let _inside = turn.inside.enter();
        let id = turn.id().to_owned();
        turn.heard.push((id.clone(), x.0));
        if (id.as_str(), x.0) == ("s1", 1) || (id.as_str(), x.0) == ("s2", 2) {
            let published = turn.publish("news", "y", X(x.0 + 1)).await?;
            assert_eq!(published.accepted(), 3);
        }
        Ok(())
    }
}

#[test]
fn cb_18_a_who_publishes_while_it_listens_is_heard_after_what_it_heard() {
    explore(0..100, |sim| {
        let (heard, inside) = (Log::new(), Overlap::new());
        let kept = (heard.clone(), inside.clone());
        let listener =
            Options::new().factory(move |_| Ok(Listener { heard: kept.0.clone(), inside: kept.1.clone() }));
        let node = sim.node(Node::builder().spot_with("listener", listener).channel("news", News));
        sim.run(async {
            for id in ["s1", "s2", "s3"] {
                node.spot::<Listener>(id).create().await.unwrap().ask(Listen).await.unwrap();
            }
            assert_eq!(node.publish("news", "x", X(1)).await.unwrap().accepted(), 3);
            node.quiesce().await.unwrap();
        });
        let heard = heard.take();
        for id in ["s1", "s2", "s3"] {
            let of_one: Vec<u64> = heard.iter().filter(|(by, _)| by == id).map(|(_, x)| *x).collect();
            assert_eq!(of_one, [1, 2, 3], "{id}");
        }
        assert_eq!(inside.most(), 1, "no handler runs inside another");
        assert!(!sim.run(node.shutdown()).unwrap().forced);
    });
}

/// With several workers a subscriber still gets what one publisher says in its order, each once.
#[tokio::test]
async fn cb_18_b_on_several_workers_every_subscriber_hears_each_once() {
    let (heard, inside) = (Log::new(), Overlap::new());
    let kept = (heard.clone(), inside.clone());
    let listener =
        Options::new().factory(move |_| Ok(Listener { heard: kept.0.clone(), inside: kept.1.clone() }));
    let builder = Node::builder().workers(4).spot_with("listener", listener).channel("news", News);
    let node = builder.start().await.unwrap();
    for id in ["s1", "s2", "s3"] {
        node.spot::<Listener>(id).create().await.unwrap().ask(Listen).await.unwrap();
    }
    for _ in 0..100 {
        let _ = node.publish("news", "x", X(1)).await.unwrap();
        crate::support::within(node.quiesce()).await.unwrap();
        let mut heard = heard.take();
        heard.sort();
        let all = ["s1", "s2", "s3"].into_iter().flat_map(|id| (1..=3).map(move |x| (id.to_owned(), x)));
        assert_eq!(heard, all.collect::<Vec<_>>());
    }
    crate::world::end(node).await;
}
