//! ERR-1, ERR-4: kinds and texts.

use std::time::Duration;

use turnkeep::prelude::*;

use crate::stage::*;
use crate::support::within;

#[tokio::test]
async fn err_1_a_the_applications_error_is_never_a_runtime_error() {
    within(async {
        let node = node(1).await;
        let room = node.spot::<Room>("r").create().await.unwrap();
        let error = room.ask(Buy(Do::Refuse)).await.unwrap_err();
        assert_eq!(error.kind(), None);
        assert!(error.runtime().is_none());
        assert_eq!(error.into_application(), Some(TooDear(99)));
        assert_eq!(room.ask(Buy(Do::Well)).await.unwrap(), 2, "the object lives on");
        let error = room.ask(Buy(Do::BadReply)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::ProtocolError));
        assert_eq!(error.into_application(), None);
    })
    .await;
}

/// Every situation with its kind and what its text must name.
struct Cases(Vec<(&'static str, ErrorKind, String, Vec<&'static str>)>);

impl Cases {
    fn add(&mut self, case: &'static str, error: &Error, kind: ErrorKind, names: &[&'static str]) {
        assert_eq!(error.kind(), kind, "{case}: {error:?}");
        self.0.push((case, kind, error.to_string(), names.to_vec()));
    }
}

async fn cases() -> Cases {
    use ErrorKind::*;
    let mut cases = Cases(Vec::new());
    let node = node(2).await;
    let room = node.spot::<Room>("market").create().await.unwrap();
    let address = node.spot::<Room>("nobody");
    let run = |error: AskError<Buy>| error.runtime().unwrap().clone();

    let error = address.ask(Buy(Do::Well)).await.unwrap_err();
    cases.add("unknown id", &run(error), NotFound, &["nobody", "ask", "no object of that id", "create it"]);
    let error = address.find().unwrap_err();
    cases.add("find", &error, NotFound, &["nobody", "find", "create it"]);
    let error = node.spot::<Room>("market").create().await.unwrap_err();
    cases.add("create twice", &error, AlreadyExists, &["market", "create", "exists", "get_or_create"]);
    let error = node.spot::<Pool>("market").ask(Buy(Do::Well)).await.unwrap_err();
    cases.add("wrong type", &run(error), TypeMismatch, &["market", "ask", "room", "Pool", "another id"]);
    let error = node.spot::<Bare>("bare").create().await.unwrap_err();
    cases.add("no factory", &error, NotConfigured, &["bare", "create", "factory", "register"]);
    let person = node.actor::<Person>("unwanted");
    let error = person.create_in(Person::default(), &room).await.unwrap_err();
    cases.add("not admitted", &error, Rejected, &["market", "create_in", "does not admit"]);
    let error = room.ask(Buy(Do::Well)).timeout(Duration::ZERO).await.unwrap_err();
    cases.add("no time", &run(error), DeadlineExceeded, &["market", "ask", "no time left", "longer timeout"]);
    let error = room.ask(Buy(Do::Well)).timeout(Duration::MAX).await.unwrap_err();
    cases.add("too much time", &run(error), InvalidOperation, &["market", "ask", "over a year", "shorter"]);
    let error = node.spot::<Room>("").ask(Buy(Do::Well)).await.unwrap_err();
    cases.add("empty id", &run(error), InvalidOperation, &["id", "empty", "1 to 255 bytes"]);
    let long = "x".repeat(256);
    let error = node.spot::<Room>(&long).create().await.unwrap_err();
    cases.add("long id", &error, InvalidOperation, &["id", "256 bytes", "255"]);
    let error = room.send(Blob(vec![0; 1 << 17])).await.unwrap_err();
    assert_eq!(error.message.0.len(), 1 << 17, "the message comes back");
    cases.add("too large", &error.error, CapacityExceeded, &["market", "send", "byte limit", "in parts"]);
    let error = room.ask(Buy(Do::BadReply)).await.unwrap_err();
    cases.add("bad reply", &run(error), ProtocolError, &["market", "reply", "1313", "Joins were dropped"]);

    let (hold, entered, go) = held();
    let holder = tokio::spawn(room.ask(hold));
    entered.wait().await;
    while room.try_send(Buy(Do::Well)).is_ok() {}
    let error = room.try_send(Buy(Do::Well)).unwrap_err();
    assert!(matches!(error.message.0, Do::Well), "the message comes back");
    cases.add(
        "full lane",
        &error.error,
        CapacityExceeded,
        &["market", "try_send", "lane is full", "wait with"],
    );
    let error = room.ask(Buy(Do::Well)).timeout(Duration::from_millis(10)).await.unwrap_err();
    cases.add(
        "room late",
        &run(error),
        DeadlineExceeded,
        &["market", "ask", "lane was full", "longer timeout"],
    );
    go.set();
    holder.await.unwrap().unwrap();
    node.quiesce().await.unwrap();

    let guest = node.actor::<Person>("guest").create_in(Person::default(), &room).await.unwrap();
    let error = room.close().await.unwrap_err();
    cases.add(
        "close with members",
        &error,
        InvalidOperation,
        &["market", "close", "1 Actors", "move or close"],
    );
    guest.close().await.unwrap();
    let error = guest.ask(Buy(Do::Well)).await.unwrap_err();
    cases.add("ended", &run(error), NotFound, &["guest", "ask", "has ended", "create it again"]);
    let error = room.ask(Buy(Do::Panic)).await.unwrap_err();
    let names = &["market", "handle", "Buy", "the till is empty", "create it again"];
    cases.add("panic", &run(error), InternalFailure, names);
    node.shutdown().await.unwrap();
    let error = room.ask(Buy(Do::Well)).await.unwrap_err();
    cases.add("after shutdown", &run(error), ShuttingDown, &["market", "ask", "shuts down", "another node"]);
    let error = node.shutdown().await.unwrap_err();
    cases.add("shutdown twice", &error, ShuttingDown, &["node", "shutdown", "ended already"]);
    cases
}

#[tokio::test]
async fn err_1_b_every_situation_has_its_one_kind() {
    within(async {
        let mut kinds: Vec<_> =
            cases().await.0.into_iter().map(|(_, kind, _, _)| format!("{kind:?}")).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let wanted = [
            "AlreadyExists",
            "CapacityExceeded",
            "DeadlineExceeded",
            "InternalFailure",
            "InvalidOperation",
            "NotConfigured",
            "NotFound",
            "ProtocolError",
            "Rejected",
            "ShuttingDown",
            "TypeMismatch",
        ];
        assert_eq!(kinds, wanted);
    })
    .await;
}

#[tokio::test]
async fn err_4_texts_name_object_operation_cause_and_remedy() {
    within(async {
        for (case, _, text, names) in cases().await.0 {
            for name in names {
                assert!(text.contains(name), "{case}: {text:?} does not say {name:?}");
            }
        }
    })
    .await;
}
