//! Multicast to the subscribers of a topic: fixed targets, each once, in the publisher's order, nobody waited for.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "a test may share and unwrap what it likes")]

mod support;

use turnkeep::prelude::*;
use turnkeep::{Lane, Published};

use support::{Log, Signal, within};

/// What is published.
#[derive(Clone, Message)]
struct Price(u64);

/// Another kind of message on the same topics.
#[derive(Clone, Message)]
struct Note(u64);

#[derive(Message)]
struct Subscribe(&'static str);
#[derive(Message)]
#[message(reply = bool)]
struct Unsubscribe(&'static str);
#[derive(Message)]
struct Hold(#[message(no_heap)] Signal, #[message(no_heap)] Signal);
#[derive(Message)]
#[message(reply = usize)]
struct PublishTwice(&'static str);

/// A Spot that notes what it gets.
struct Desk(Log<(String, u64)>);
impl Spot for Desk {
    type Mode = SpotWide;
}
impl Handles<Subscribe> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, subscribe: Subscribe) -> Result<(), Never> {
        turn.subscribe::<Price>("prices", subscribe.0).unwrap();
        Ok(())
    }
}
impl Handles<Unsubscribe> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, unsubscribe: Unsubscribe) -> Result<bool, Never> {
        Ok(turn.unsubscribe::<Price>("prices", unsubscribe.0))
    }
}
impl Handles<Price> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, price: Price) -> Result<(), Never> {
        let id = turn.id().to_owned();
        turn.0.push((id, price.0));
        Ok(())
    }
}
impl Handles<Note> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, note: Note) -> Result<(), Never> {
        turn.0.push(("note".to_owned(), note.0));
        Ok(())
    }
}
impl Handles<Hold> for Desk {
    async fn handle(_: &mut Turn<'_, Self>, hold: Hold) -> Result<(), Never> {
        hold.0.set();
        hold.1.wait().await;
        Ok(())
    }
}
impl Handles<PublishTwice> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, publish: PublishTwice) -> Result<usize, Never> {
        let one = turn.publish("prices", publish.0, Price(1)).await.unwrap();
        let two = turn.publish("prices", publish.0, Price(2)).await.unwrap();
        Ok(one.accepted() + two.accepted())
    }
}

/// The channel needs a handler; nothing is sent to it.
struct Prices;
impl Handler for Prices {}

async fn world(lane: u32) -> (Node, Log<(String, u64)>) {
    let log = Log::new();
    let kept = log.clone();
    let options = turnkeep::Options::new().factory(move |_| Ok(Desk(kept.clone())));
    let lane = Lane { records: lane, ..Lane::APPLICATION };
    let builder = Node::builder().workers(2).application_lane(lane).spot_with("desk", options);
    (builder.channel("prices", Prices).start().await.unwrap(), log)
}

async fn desk(node: &Node, id: &str, patterns: &[&'static str]) -> SpotRef<Desk> {
    let desk = node.spot::<Desk>(id).create().await.unwrap();
    for pattern in patterns {
        desk.ask(Subscribe(pattern)).await.unwrap();
    }
    desk
}

async fn end(node: Node) {
    assert!(!within(node.shutdown()).await.unwrap().forced);
}

fn count(published: &Published) -> (usize, usize) {
    (published.accepted(), published.missed())
}

#[tokio::test]
async fn chan_2_a_subscribers_of_a_matching_topic_get_it_once_each() {
    let (node, log) = world(1024).await;
    desk(&node, "a", &["prices.nyse"]).await;
    desk(&node, "b", &["prices.*", "*.nyse", "prices.nyse"]).await;
    desk(&node, "c", &["prices.lse"]).await;
    assert_eq!(count(&node.publish("prices", "prices.nyse", Price(1)).await.unwrap()), (2, 0));
    assert_eq!(count(&node.publish("prices", "prices.tse", Price(2)).await.unwrap()), (1, 0));
    assert_eq!(count(&node.publish("prices", "other", Price(3)).await.unwrap()), (0, 0));
    assert_eq!(
        count(&node.publish("prices", "prices.nyse", Note(4)).await.unwrap()),
        (0, 0),
        "another message"
    );
    within(node.quiesce()).await.unwrap();
    let mut said = log.take();
    said.sort();
    assert_eq!(said, [("a".into(), 1), ("b".into(), 1), ("b".into(), 2)]);
    end(node).await;
}

#[tokio::test]
async fn chan_2_b_each_target_gets_one_publishers_messages_in_their_order() {
    let (node, log) = world(1024).await;
    for id in ["a", "b", "c"] {
        desk(&node, id, &["*"]).await;
    }
    let publishers = (0..4_u64).map(|publisher| {
        let node = node.clone();
        tokio::spawn(async move {
            for number in 0..200 {
                let published = node.publish("prices", "t", Price(publisher * 1000 + number)).await.unwrap();
                assert_eq!(count(&published), (3, 0));
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        within(publisher).await.unwrap();
    }
    within(node.quiesce()).await.unwrap();
    let said = log.take();
    for id in ["a", "b", "c"] {
        for publisher in 0..4 {
            let of = |price: &u64| price / 1000 == publisher;
            let got: Vec<u64> = said
                .iter()
                .filter(|(by, price)| by == id && of(price))
                .map(|(_, price)| price % 1000)
                .collect();
            assert_eq!(got, (0..200).collect::<Vec<_>>(), "{id}, publisher {publisher}");
        }
    }
    end(node).await;
}

#[tokio::test]
async fn chan_2_c_a_full_target_is_waited_for_and_the_others_have_it_already() {
    let (node, log) = world(1).await;
    let full = desk(&node, "full", &["*"]).await;
    desk(&node, "free", &["*"]).await;
    let (held, go) = (Signal::new(), Signal::new());
    full.send(Hold(held.clone(), go.clone())).await.unwrap();
    within(held.wait()).await;
    let refused = node.try_publish("prices", "t", Price(1)).unwrap();
    assert_eq!(count(&refused), (1, 1));
    assert_eq!(
        (refused.named()[0].id.as_str(), refused.named()[0].error.kind()),
        ("full", ErrorKind::CapacityExceeded)
    );
    let expired =
        node.publish_within("prices", "t", Price(2), std::time::Duration::from_millis(20)).await.unwrap();
    assert_eq!(count(&expired), (1, 1));
    assert_eq!(expired.named()[0].error.kind(), ErrorKind::DeadlineExceeded);
    let mut waits = tokio::spawn(node.publish("prices", "t", Price(3)));
    within(async {
        while log.len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(log.take().iter().all(|(by, _)| by == "free"));
    assert_eq!(full.waiting().0, 1, "in line for room");
    go.set();
    assert_eq!(count(&within(&mut waits).await.unwrap().unwrap()), (2, 0));
    within(node.quiesce()).await.unwrap();
    assert_eq!(log.take(), [("full".into(), 3)]);
    end(node).await;
}

#[tokio::test]
async fn chan_2_d_a_dropped_publication_leaves_nobody_in_line() {
    let (node, log) = world(1).await;
    let full = desk(&node, "full", &["*"]).await;
    let (held, go) = (Signal::new(), Signal::new());
    full.send(Hold(held.clone(), go.clone())).await.unwrap();
    within(held.wait()).await;
    let publication = tokio::spawn(node.publish("prices", "t", Price(1)));
    within(async {
        while full.waiting().0 == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    publication.abort();
    assert!(publication.await.unwrap_err().is_cancelled());
    assert_eq!(full.waiting().0, 0);
    go.set();
    within(node.quiesce()).await.unwrap();
    assert_eq!(log.len(), 0);
    end(node).await;
}

#[tokio::test]
async fn chan_2_e_a_publisher_may_be_its_own_subscriber_and_is_not_waited_for() {
    let (node, log) = world(2).await;
    let own = desk(&node, "own", &["*"]).await;
    // One place is the handler's own: the first fits, the second is missed at once instead of waiting for itself.
    assert_eq!(within(own.ask(PublishTwice("t"))).await.unwrap(), 1);
    within(node.quiesce()).await.unwrap();
    assert_eq!(log.take(), [("own".into(), 1)]);
    end(node).await;
}

#[tokio::test]
async fn chan_2_f_subscriptions_end_with_the_spot_or_on_request() {
    let (node, log) = world(1024).await;
    let (a, b) = (desk(&node, "a", &["*"]).await, desk(&node, "b", &["*"]).await);
    let destroyed = desk(&node, "d", &["*"]).await;
    assert!(a.ask(Unsubscribe("*")).await.unwrap());
    assert!(!a.ask(Unsubscribe("*")).await.unwrap());
    within(b.close()).await.unwrap();
    within(destroyed.destroy()).await.unwrap();
    assert_eq!(count(&node.publish("prices", "t", Price(1)).await.unwrap()), (0, 0));
    // The same id again is another life, which has subscribed to nothing.
    desk(&node, "b", &[]).await;
    assert_eq!(count(&node.publish("prices", "t", Price(2)).await.unwrap()), (0, 0));
    a.ask(Subscribe("t")).await.unwrap();
    assert_eq!(count(&node.publish("prices", "t", Price(3)).await.unwrap()), (1, 0));
    within(node.quiesce()).await.unwrap();
    assert_eq!(log.take(), [("a".into(), 3)]);
    end(node).await;
}

#[tokio::test]
async fn chan_2_g_what_cannot_be_is_refused_with_a_reason() {
    let (node, _) = world(16).await;
    let kind = |result: Result<Published, turnkeep::Error>| result.unwrap_err().kind();
    assert_eq!(kind(node.publish("nowhere", "t", Price(1)).await), ErrorKind::NotFound);
    for topic in ["", "a..b", "a.*", "a b"] {
        assert_eq!(
            kind(node.publish("prices", topic, Price(1)).await),
            ErrorKind::InvalidOperation,
            "{topic:?}"
        );
    }
    struct Greedy;
    impl Spot for Greedy {
        type Mode = SpotWide;
        async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
            assert_eq!(turn.subscribe::<Price>("nowhere", "t").unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(
                turn.subscribe::<Price>("prices", "a..b").unwrap_err().kind(),
                ErrorKind::InvalidOperation
            );
            for number in 0..turnkeep::SUBSCRIPTIONS_MAX {
                turn.subscribe::<Price>("prices", &format!("t{number}"))?;
            }
            turn.subscribe::<Price>("prices", "t0")?;
            assert_eq!(
                turn.subscribe::<Price>("prices", "more").unwrap_err().kind(),
                ErrorKind::CapacityExceeded
            );
            Ok(())
        }
    }
    impl Handles<Price> for Greedy {
        async fn handle(_: &mut Turn<'_, Self>, _: Price) -> Result<(), Never> {
            Ok(())
        }
    }
    let options = turnkeep::Options::new().factory(|_| Ok(Greedy));
    let other = Node::builder()
        .workers(1)
        .channel("prices", Prices)
        .spot_with("greedy", options)
        .start()
        .await
        .unwrap();
    let greedy = other.spot::<Greedy>("g").create().await.unwrap();
    assert_eq!(count(&other.publish("prices", "t7", Price(1)).await.unwrap()), (1, 0));
    within(greedy.close()).await.unwrap();
    end(other).await;
    end(node.clone()).await;
    assert_eq!(kind(node.publish("prices", "t", Price(1)).await), ErrorKind::ShuttingDown);
}
