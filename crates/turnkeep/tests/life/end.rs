//! Closing, destroying, generations, and what stays of an object: nothing.

use std::time::Duration;

use turnkeep::ObjectKind;
use turnkeep::prelude::*;

use crate::stage::*;
use crate::support::{Log, Signal, within};

#[tokio::test]
async fn life_close_handles_what_was_accepted_and_runs_on_closing_once() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let log = Log::new();
            let wide = node.spot::<Wide>("W").create_with(Wide::logged(&log)).await.unwrap();
            let (hold, held, go) = Hold::new();
            wide.send(hold).await.unwrap();
            held.wait().await;
            for n in 1..=5 {
                wide.send(Add(n)).await.unwrap();
            }
            let closing = tokio::spawn(wide.close());
            while wide.queued().1 == 0 {
                tokio::task::yield_now().await;
            }
            go.set();
            closing.await.unwrap().unwrap();
            let story = log.take();
            let wanted =
                ["W created", "W add 1", "W add 2", "W add 3", "W add 4", "W add 5", "W closing Requested 0"];
            assert_eq!(story, wanted);
            assert!(wide.has_ended());
            assert_eq!(wide.ask(Add(1)).await.unwrap_err().kind(), Some(ErrorKind::NotFound));
            assert_eq!(wide.close().await.unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!(wide.destroy().await.unwrap_err().kind(), ErrorKind::NotFound);
            assert_eq!((wide.queued(), wide.reserved_bytes(), wide.waiting()), ((0, 0), (0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn life_close_ends_the_wait_of_a_yielding_handler_and_waits_for_its_end() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("W").create().await.unwrap();
        let (entered, go) = (Signal::new(), Signal::new());
        let resting = tokio::spawn(wide.ask(Rest(entered.clone(), go.clone())));
        entered.wait().await;
        wide.close().await.unwrap();
        assert_eq!(resting.await.unwrap().unwrap(), 1, "it went on without its answer");
        go.set();
    })
    .await;
}

#[tokio::test]
async fn life_close_with_members_is_refused_and_changes_nothing() {
    within(async {
        let node = node(2).await;
        let log = Log::new();
        let wide = node.spot::<Wide>("W").create_with(Wide::logged(&log)).await.unwrap();
        let single = node.spot::<Single>("S").create().await.unwrap();
        let one = node.actor::<Guest>("one").create_in(Guest::default(), &wide).await.unwrap();
        let two = node.actor::<Guest>("two").create_in(Guest::default(), &single).await.unwrap();
        for _ in 0..3 {
            let error = wide.close().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOperation);
            assert_eq!(single.close().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
        }
        assert_eq!(wide.ask(Add(1)).await.unwrap(), 1);
        assert_eq!(one.ask(Add(1)).await.unwrap(), 1);
        one.close().await.unwrap();
        two.destroy().await.unwrap();
        wide.close().await.unwrap();
        single.close().await.unwrap();
        let story = log.take();
        assert_eq!(story[story.len() - 2..], ["W left one", "W closing Requested 0"]);
    })
    .await;
}

#[tokio::test]
async fn life_on_closing_that_fails_is_told_and_the_object_is_gone_all_the_same() {
    within(async {
        for step in [Step::Fail, Step::Panic] {
            let node = node(2).await;
            let state = Wide { closing: step.clone(), ..Wide::default() };
            let wide = node.spot::<Wide>("W").create_with(state).await.unwrap();
            assert_eq!(wide.close().await.unwrap_err().kind(), ErrorKind::InternalFailure);
            for _ in 0..3 {
                assert_eq!(wide.close().await.unwrap_err().kind(), ErrorKind::NotFound);
            }
            assert!(node.spot::<Wide>("W").find().is_err());
            let guest = Guest { closing: step, ..Guest::default() };
            let guest = node.actor::<Guest>("g").create_with(guest).await.unwrap();
            assert_eq!(guest.close().await.unwrap_err().kind(), ErrorKind::InternalFailure);
            assert_eq!(guest.place(), None);
        }
    })
    .await;
}

#[tokio::test]
async fn life_an_object_asks_for_its_own_close_and_does_not_wait_for_it() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("W").create().await.unwrap();
        let (close, destroy, requested) = wide.ask(EndSelf).await.unwrap();
        let invalid = Some(ErrorKind::InvalidOperation);
        assert_eq!((close, destroy, requested), (invalid, invalid, true));
        node.quiesce().await.unwrap();
        assert!(wide.has_ended());
    })
    .await;
}

#[tokio::test]
async fn life_generations_tell_lives_apart() {
    within(async {
        let node = node(2).await;
        let address = node.spot::<Wide>("W");
        let old = address.create().await.unwrap();
        assert_eq!(old.ask(Add(5)).await.unwrap(), 5);
        old.close().await.unwrap();
        let new = address.create().await.unwrap();
        assert!(new.generation() > old.generation());
        assert_ne!(new, old);
        // By id: the new one. By the old reference: nobody, whatever is tried.
        assert_eq!(address.ask(Add(1)).await.unwrap(), 1);
        assert_eq!(old.ask(Add(1)).await.unwrap_err().kind(), Some(ErrorKind::NotFound));
        assert_eq!(old.send(Add(1)).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(old.try_send(Add(1)).unwrap_err().message.0, 1);
        assert_eq!(old.close().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(old.destroy().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(old.request_close().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(address.ask(Add(1)).await.unwrap(), 2, "the new one has noticed nothing");

        let address = node.actor::<Guest>("g");
        let old = address.create().await.unwrap();
        old.destroy().await.unwrap();
        let new = address.create().await.unwrap();
        assert_eq!(old.destroy().await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(old.place(), None);
        assert_eq!(new.place(), Some(node.entry_id()));
        assert_eq!(address.ask(Add(1)).await.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn life_an_id_belongs_to_one_type_until_it_is_free() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("x").create().await.unwrap();
        assert_eq!(node.spot::<Single>("x").find().unwrap_err().kind(), ErrorKind::TypeMismatch);
        let error = node.spot::<Single>("x").get_or_create().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TypeMismatch);
        // Actors have names of their own.
        node.actor::<Guest>("x").create().await.unwrap();
        wide.close().await.unwrap();
        node.spot::<Single>("x").get_or_create().await.unwrap();
        assert_eq!(node.spot::<Wide>("x").find().unwrap_err().kind(), ErrorKind::TypeMismatch);
    })
    .await;
}

#[tokio::test]
async fn life_destroy_cancels_an_ordinary_wait_and_refuses_the_queue() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let alive = Alive::default();
            let log = Log::new();
            let state = Wide { life: Some(alive.one()), ..Wide::logged(&log) };
            let wide = node.spot::<Wide>("W").create_with(state).await.unwrap();
            let (hold, held, go) = Hold::new();
            let waiting = tokio::spawn(wide.ask(hold));
            held.wait().await;
            let queued: Vec<_> = (0..5).map(|_| tokio::spawn(wide.ask(Add(1)))).collect();
            while wide.queued().0 < 6 {
                tokio::task::yield_now().await;
            }
            wide.destroy().await.unwrap();
            assert_eq!(waiting.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
            for ask in queued {
                let kind = ask.await.unwrap().unwrap_err().kind();
                assert!(matches!(kind, Some(ErrorKind::NotFound | ErrorKind::Unavailable)), "{kind:?}");
            }
            go.set();
            node.quiesce().await.unwrap();
            assert_eq!(log.take(), ["W created"], "no handler and no on_closing ran");
            assert_eq!((alive.count(), wide.queued(), wide.reserved_bytes()), (0, (0, 0), (0, 0)));
        }
    })
    .await;
}

#[tokio::test]
async fn life_destroy_cancels_yielding_waits() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let alive = Alive::default();
            let state = Wide { life: Some(alive.one()), ..Wide::default() };
            let wide = node.spot::<Wide>("W").create_with(state).await.unwrap();
            let mut waits = Vec::new();
            for _ in 0..5 {
                let (entered, go) = (Signal::new(), Signal::new());
                waits.push((tokio::spawn(wide.ask(Rest(entered.clone(), go.clone()))), go));
                entered.wait().await;
            }
            wide.destroy().await.unwrap();
            for (waiting, go) in waits {
                assert_eq!(waiting.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
                go.set();
            }
            node.quiesce().await.unwrap();
            assert_eq!(alive.count(), 0);
        }
    })
    .await;
}

#[tokio::test]
async fn life_members_of_a_destroyed_spot_go_on_in_the_entry_spot() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let wide = node.spot::<Wide>("W").create().await.unwrap();
            let mut guests = Vec::new();
            for n in 0..10 {
                let address = node.actor::<Guest>(&format!("g{n}"));
                guests.push(address.create_in(Guest::default(), &wide).await.unwrap());
            }
            let (hold, held, go) = Hold::new();
            let first = tokio::spawn(guests[0].ask(hold));
            held.wait().await;
            let queued: Vec<_> = guests.iter().map(|guest| tokio::spawn(guest.ask(Add(1)))).collect();
            let destroyed = tokio::spawn(wide.destroy());
            tokio::task::yield_now().await;
            go.set();
            first.await.unwrap().unwrap();
            destroyed.await.unwrap().unwrap();
            for ask in queued {
                assert_eq!(ask.await.unwrap().unwrap(), 1);
            }
            for guest in &guests {
                assert_eq!(guest.place(), Some(node.entry_id()));
                assert_eq!(guest.ask(Add(1)).await.unwrap(), 2);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn life_objects_that_keep_references_to_themselves_are_freed() {
    within(async {
        let alive = Alive::default();
        let node = node(2).await;
        for n in 0..100 {
            let id = format!("n{n}");
            let state = Wide { life: Some(alive.one()), ..Wide::default() };
            let wide = node.spot::<Wide>(&id).create_with(state).await.unwrap();
            wide.send(KeepSelf).await.unwrap();
            let guest = Guest { life: Some(alive.one()), ..Guest::default() };
            let guest = node.actor::<Guest>(&id).create_in(guest, &wide).await.unwrap();
            guest.send(KeepSelf).await.unwrap();
            if n % 2 == 0 {
                guest.close().await.unwrap();
                wide.close().await.unwrap();
            }
        }
        node.quiesce().await.unwrap();
        assert_eq!(alive.count(), 100);
        assert_eq!(node.count(ObjectKind::Spot), 51);
        drop(node);
        let begun = std::time::Instant::now();
        while alive.count() > 0 && begun.elapsed() < Duration::from_secs(20) {
            tokio::task::yield_now().await;
        }
        assert_eq!(alive.count(), 0, "a node whose last handle is gone ends, with all its objects");
    })
    .await;
}
