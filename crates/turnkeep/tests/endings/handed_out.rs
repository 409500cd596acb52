//! YIELD-9: the records of a sealed unit are handed out by object in order, and come back however the seal ends.

use std::time::Duration;

use turnkeep::prelude::*;
use turnkeep::{HeapSize, Sealed};

use crate::support::{Log, within};
use crate::world::*;

/// What a test finds again among the records.
struct Word {
    text: String,
    log: Log<String>,
}

impl HeapSize for Word {
    fn heap_bytes(&self) -> u64 {
        self.text.len() as u64
    }
}

impl Message for Word {
    type Reply = ();
    type Error = Never;
}

macro_rules! notes {
    ($($name:ident)*) => {$(
        impl Handles<Word> for $name {
            async fn handle(_: &mut Turn<'_, Self>, word: Word) -> Result<(), Never> {
                word.log.push(word.text);
                Ok(())
            }
        }
    )*};
}
notes! { Room Player }

fn word(log: &Log<String>, text: String) -> Word {
    Word { text, log: log.clone() }
}

/// The words of a part, found by looking.
fn words(sealed: &Sealed, part: usize) -> Vec<String> {
    let found = |record| sealed.look(part, record, |word: &Word| word.text.clone());
    (0..sealed.parts()[part].records.len()).filter_map(found).collect()
}

/// A sealed room `r` with the members `a` and `b`; each has five words behind the turn that held the gate.
async fn sealed_room(node: &Node, log: &Log<String>) -> (SpotRef<Room>, [ActorRef<Player>; 2], Sealed) {
    let spot = room(node, "r").await;
    // Made in the other order: parts are listed by id.
    let (later, sooner) = (player_in(node, "b", &spot).await, player_in(node, "a", &spot).await);
    let members = [sooner, later];
    let go = hold(&spot).await;
    let sealing = tokio::spawn(spot.seal());
    while spot.queued().1 == 0 {
        tokio::task::yield_now().await;
    }
    for n in 0..5 {
        spot.send(word(log, format!("r{n}"))).await.unwrap();
        for member in &members {
            member.send(word(log, format!("{}{n}", member.id()))).await.unwrap();
        }
    }
    go.set();
    (spot, members, sealing.await.unwrap().unwrap())
}

fn five(owner: &str) -> Vec<String> {
    (0..5).map(|n| format!("{owner}{n}")).collect()
}

#[tokio::test]
async fn yield_9_n_records_are_handed_out_by_object_in_order_and_go_back() {
    within(async {
        for workers in [1, 2, 8] {
            let (node, log) = (world(workers).await, Log::new());
            let (_spot, _members, sealed) = sealed_room(&node, &log).await;
            // The seal is ahead of the application lane: none of them has run.
            for (part, owner) in ["r", "a", "b"].into_iter().enumerate() {
                assert_eq!(words(&sealed, part), five(owner));
                let it = &sealed.parts()[part];
                assert_eq!((it.id.as_str(), it.application.records), (owner, 5));
                let bytes: u64 = it.records.iter().map(|record| record.bytes).sum();
                assert_eq!(it.application.bytes, bytes);
                assert!(it.records.iter().all(|record| record.message.ends_with("Word")), "{it:?}");
            }
            assert_eq!(sealed.look(0, 0, |_: &String| ()), None, "of another type");
            assert_eq!(sealed.look(0, 5, |_: &Word| ()), None);
            assert_eq!(sealed.look(3, 0, |_: &Word| ()), None);
            assert_eq!(log.len(), 0);
            sealed.undo().await;
            node.quiesce().await.unwrap();
            let story = log.take();
            assert_eq!(story.len(), 15);
            for owner in ["r", "a", "b"] {
                let own: Vec<_> = story.iter().filter(|line| line.starts_with(owner)).cloned().collect();
                assert_eq!(own, five(owner));
            }
        }
    })
    .await;
}

type Asked = tokio::task::JoinHandle<Result<(), turnkeep::AskError<Word>>>;

/// A sealed room `r` with a member `p`; each has been asked, and the callers wait.
async fn sealed_asks(
    node: &Node,
    log: &Log<String>,
) -> (SpotRef<Room>, ActorRef<Player>, [Asked; 2], Sealed) {
    let spot = room(node, "r").await;
    let member = player_in(node, "p", &spot).await;
    let go = hold(&spot).await;
    let sealing = tokio::spawn(spot.seal());
    while spot.queued().1 == 0 {
        tokio::task::yield_now().await;
    }
    let asked = [
        tokio::spawn(spot.ask(word(log, "r".to_owned())).into_future()),
        tokio::spawn(member.ask(word(log, "p".to_owned())).into_future()),
    ];
    while spot.queued().0 + member.queued().0 < 2 {
        tokio::task::yield_now().await;
    }
    go.set();
    let sealed = sealing.await.unwrap().unwrap();
    assert_eq!([words(&sealed, 0), words(&sealed, 1)], [["r"], ["p"]]);
    (spot, member, asked, sealed)
}

#[tokio::test]
async fn yield_9_o_records_that_are_out_when_the_unit_ends_are_refused_and_those_of_members_run() {
    within(async {
        for workers in [1, 2, 8] {
            let (node, log) = (world(workers).await, Log::new());
            let (spot, _member, [own, of_member], sealed) = sealed_asks(&node, &log).await;
            spot.destroy().await.unwrap();
            assert_eq!(own.await.unwrap().unwrap_err().kind(), Some(ErrorKind::NotFound));
            of_member.await.unwrap().unwrap();
            assert_eq!(log.take(), ["p"]);
            assert_eq!(sealed.look(0, 0, |_: &Word| ()), None, "nothing is out any more");
            assert_eq!(sealed.look(1, 0, |_: &Word| ()), None);
            sealed.undo().await;
            node.quiesce().await.unwrap();
            let now = node.metrics();
            assert_eq!(now.accepted, now.finished);
        }
    })
    .await;
}

#[tokio::test]
async fn yield_9_p_records_that_are_out_when_the_node_ends_are_answered() {
    within(async {
        for workers in [1, 2] {
            let (node, log) = (world(workers).await, Log::new());
            let (spot, member, asked, sealed) = sealed_asks(&node, &log).await;
            let report = node.shutdown_within(Duration::from_millis(50)).await.unwrap();
            assert!(report.forced);
            for ask in asked {
                let kind = ask.await.unwrap().unwrap_err().kind();
                assert!(matches!(kind, Some(ErrorKind::ShuttingDown | ErrorKind::NotFound)), "{kind:?}");
            }
            spot.watch().await.unwrap();
            member.watch().await.unwrap();
            assert_eq!(sealed.look(0, 0, |_: &Word| ()), None);
            sealed.undo().await;
            assert_eq!(log.len(), 0, "a forced end runs nothing that was sealed");
        }
    })
    .await;
}
