//! ERR-2, ERR-3: failing handlers answer or are counted; a panic stops its object and nothing else.

use std::time::Duration;

use turnkeep::HeapSize;
use turnkeep::prelude::*;

use crate::stage::*;
use crate::support::{Signal, within};

fn is_end(kind: Option<ErrorKind>) -> bool {
    matches!(kind, Some(ErrorKind::Unavailable | ErrorKind::NotFound))
}

#[tokio::test]
async fn err_2_a_failed_request_answers_itself_and_a_failed_send_is_counted() {
    within(async {
        let node = node(2).await;
        let person = node.actor::<Person>("p").create().await.unwrap();
        person.send(Buy(Do::Refuse)).await.unwrap();
        let asks: Vec<_> = (0..10)
            .map(|n| tokio::spawn(person.ask(Buy(if n % 2 == 0 { Do::Refuse } else { Do::Well }))))
            .collect();
        let mut refused = 0;
        for ask in asks {
            match ask.await.unwrap() {
                Err(error) => {
                    assert_eq!(error.into_application(), Some(TooDear(99)));
                    refused += 1;
                }
                Ok(handled) => assert!(handled > 1),
            }
        }
        assert_eq!(refused, 5);
        assert_eq!(node.metrics().failed_sends, 1, "the requests are not counted, they were answered");
        person.send(Buy(Do::Panic)).await.unwrap();
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().failed_sends, 2);
    })
    .await;
}

#[tokio::test]
async fn err_3_a_panic_answers_its_caller_and_the_queue() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let room = node.spot::<Room>("r").create().await.unwrap();
            let go = Signal::new();
            let failing = tokio::spawn(room.ask(Buy(Do::PanicAfterAWait(go.clone()))));
            while room.queued().0 < 1 {
                tokio::task::yield_now().await;
            }
            // Two in the lane, two that wait for room.
            let queued: Vec<_> = (0..4).map(|_| tokio::spawn(room.ask(Buy(Do::Well)))).collect();
            while room.queued().0 < 3 || room.waiting().0 < 2 {
                tokio::task::yield_now().await;
            }
            go.set();
            let error = failing.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
            let mut given_back = 0;
            for ask in queued {
                let error = ask.await.unwrap().unwrap_err();
                assert!(is_end(error.kind()), "{error:?}");
                given_back += usize::from(error.into_message().is_some());
            }
            assert_eq!(given_back, 2, "those who waited for room get their message back");
            node.quiesce().await.unwrap();
            assert!(room.has_ended());
            assert_eq!(node.metrics().panics, 1);
            assert_eq!((room.queued(), room.waiting()), ((0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_b_a_panic_after_a_yield_stops_the_object_and_ends_other_waits() {
    within(async {
        let node = node(2).await;
        let room = node.spot::<Room>("r").create().await.unwrap();
        let (entered, go) = (Signal::new(), Signal::new());
        let waiting = tokio::spawn(room.ask(Buy(Do::Yield(entered.clone(), go.clone()))));
        entered.wait().await;
        let error = room.ask(Buy(Do::PanicAfterAYield)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        // The other handler waited: it is dropped with its object, and its caller is told.
        let error = waiting.await.unwrap().unwrap_err();
        assert!(is_end(error.kind()), "{error:?}");
        go.set();
        node.quiesce().await.unwrap();
        assert!(room.has_ended());
    })
    .await;
}

#[tokio::test]
async fn err_3_c_workers_and_other_objects_go_on_after_many_panics() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let mut people = Vec::new();
            for n in 0..200 {
                people.push(node.actor::<Person>(&format!("p{n}")).create().await.unwrap());
            }
            for round in 0..20 {
                for (n, person) in people.iter().enumerate() {
                    let message = if n % 25 == 0 && round == 9 { Do::Panic } else { Do::Well };
                    let _ = person.send(Buy(message)).await;
                }
            }
            node.quiesce().await.unwrap();
            assert_eq!(node.metrics().panics, 8);
            for (n, person) in people.iter().enumerate() {
                let answer = person.ask(Buy(Do::Well)).await;
                if n % 25 == 0 {
                    assert!(is_end(answer.unwrap_err().kind()));
                } else {
                    assert_eq!(answer.unwrap(), 21);
                }
            }
            assert_eq!(node.workers(), workers);
            // Created again, the object is new.
            let again = node.actor::<Person>("p0").create().await.unwrap();
            assert!(again.generation() > people[0].generation());
            assert_eq!(again.ask(Buy(Do::Well)).await.unwrap(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn err_3_d_a_panicking_member_leaves_its_spot_and_its_fellows_alone() {
    within(async {
        let node = node(2).await;
        let room = node.spot::<Room>("r").create().await.unwrap();
        let mut members = Vec::new();
        for id in ["a", "b"] {
            members.push(node.actor::<Person>(id).create_in(Person::default(), &room).await.unwrap());
        }
        let error = members[0].ask(Buy(Do::Panic)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        assert_eq!(members[1].ask(Buy(Do::Well)).await.unwrap(), 1);
        assert_eq!(room.ask(Buy(Do::Well)).await.unwrap(), 1);
        node.quiesce().await.unwrap();
        assert_eq!(room.members(), ["b"]);
        assert_eq!(members[0].place(), None);
    })
    .await;
}

/// A value that panics when it is dropped, unless that happens during a panic.
struct Mine(bool);
impl Drop for Mine {
    fn drop(&mut self) {
        if self.0 && !std::thread::panicking() {
            panic!("a mine went off");
        }
    }
}

#[derive(Message)]
#[message(reply = u64)]
struct Carry(#[message(no_heap)] Option<Mine>);

/// Its state goes off when the object ends.
struct Armed(#[allow(dead_code)] Mine);
impl Actor for Armed {}
impl Handles<Carry> for Armed {
    async fn handle(_: &mut Turn<'_, Self>, carry: Carry) -> Result<u64, Never> {
        drop(carry.0); // here, inside the handler
        Ok(1)
    }
}
#[derive(Message)]
#[message(reply = u64)]
struct Count;
impl Handles<Count> for Armed {
    async fn handle(_: &mut Turn<'_, Self>, _: Count) -> Result<u64, Never> {
        Ok(1)
    }
}

/// A message whose weight cannot be told.
struct Heavy;
impl HeapSize for Heavy {
    fn heap_bytes(&self) -> u64 {
        panic!("too heavy")
    }
}
impl Message for Heavy {
    type Reply = ();
    type Error = Never;
}
impl Handles<Heavy> for Armed {
    async fn handle(_: &mut Turn<'_, Self>, _: Heavy) -> Result<(), Never> {
        Ok(())
    }
}

#[tokio::test]
async fn err_3_e_destructors_that_panic_take_down_no_worker() {
    within(async {
        let builder = Node::builder().workers(1).actor_with::<Armed>("armed", Options::new());
        let node = builder.start().await.unwrap();
        let one = node.actor::<Armed>("one").create_with(Armed(Mine(false))).await.unwrap();
        let error = one.ask(Carry(Some(Mine(true)))).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::InternalFailure));
        // The state of an object that is destroyed, and messages that are refused with it.
        let two = node.actor::<Armed>("two").create_with(Armed(Mine(true))).await.unwrap();
        two.destroy().await.unwrap();
        let three = node.actor::<Armed>("three").create_with(Armed(Mine(true))).await.unwrap();
        three.close().await.unwrap();
        // The only worker is alive.
        let last = node.actor::<Armed>("last").create_with(Armed(Mine(false))).await.unwrap();
        assert_eq!(last.ask(Count).await.unwrap(), 1);
        // A weight that panics is the caller's own panic, and harms nobody else.
        let caller = last.clone();
        assert!(tokio::spawn(async move { caller.ask(Heavy).await }).await.is_err());
        assert_eq!(last.ask(Count).await.unwrap(), 1);
        node.quiesce().await.unwrap();
        assert_eq!(last.queued(), (0, 0));
        assert!(!node.shutdown_within(Duration::from_secs(20)).await.unwrap().forced);
    })
    .await;
}

#[tokio::test]
async fn err_3_f_a_task_that_panics_tells_its_waiter_and_takes_down_no_worker() {
    within(async {
        let node = node(1).await;
        let error = node.spawn(async { panic!("no task") }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure);
        assert!(error.to_string().contains("no task"), "{error}");
        let error = node.cpu(|| panic!("no work")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure);
        let error = node.io(async { panic!("no wait") }).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalFailure);
        assert_eq!(node.spawn(async { 5 }).await.unwrap(), 5);
        assert_eq!(node.cpu(|| 6).await.unwrap(), 6);
        assert_eq!(node.io(async { 7 }).await.unwrap(), 7);
    })
    .await;
}
