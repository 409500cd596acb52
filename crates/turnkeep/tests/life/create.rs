//! Creation: where, by whom, once, and not half.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turnkeep::ObjectKind;
use turnkeep::prelude::*;

use crate::stage::*;
use crate::support::{Log, Signal, within};

#[tokio::test]
async fn life_entry_spot_is_one_with_its_own_id_and_is_never_closed() {
    within(async {
        #[derive(Default)]
        struct Porch(u64);
        impl Spot for Porch {
            type Mode = Entry;
        }
        impl Handles<Add> for Porch {
            async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
                turn.0 += add.0;
                Ok(turn.0)
            }
        }
        let (one, other) =
            (builder(1).entry(Porch::default()).start().await.unwrap(), builder(1).start().await.unwrap());
        assert_ne!(one.entry_id(), other.entry_id());
        assert_eq!(one.ids(ObjectKind::Spot), [one.entry_id()]);
        let entry = one.entry::<Porch>().unwrap();
        // Both contexts of it: the Spot itself and an Actor in it, each under its own gate.
        assert_eq!(entry.ask(Add(2)).await.unwrap(), 2);
        let guest = one.actor::<Guest>("g").create().await.unwrap();
        let (hold, held, go) = Hold::new();
        guest.send(hold).await.unwrap();
        held.wait().await;
        assert_eq!(entry.ask(Add(2)).await.unwrap(), 4, "the Actor waits and the Spot goes on");
        go.set();
        assert_eq!(entry.members(), ["g"]);
        guest.close().await.unwrap();
        one.quiesce().await.unwrap();
        assert!(entry.members().is_empty());
        let refused = entry.close().await;
        assert_eq!(
            refused.unwrap_err().kind(),
            ErrorKind::InvalidOperation,
            "the Entry Spot is never closed"
        );
        assert_eq!(entry.destroy().await.unwrap_err().kind(), ErrorKind::InvalidOperation);
        assert_eq!(entry.ask(Add(1)).await.unwrap(), 5);
        assert!(one.actor::<Guest>("h").create().await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn life_actor_created_in_a_spot_handles_its_first_message_there() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let log = Log::new();
            let wide = node.spot::<Wide>("W").create_with(Wide::logged(&log)).await.unwrap();
            let (create, entered, go) = Step::wait();
            let guest = Guest { create, ..Guest::logged(&log) };
            let creation = tokio::spawn(node.actor::<Guest>("g").create_in(guest, &wide));
            entered.wait().await;
            // Sent while it is being made: handled in the Spot, not on the way.
            let early = node.actor::<Guest>("g").find().unwrap();
            early.send(Add(1)).await.unwrap();
            go.set();
            let made = creation.await.unwrap().unwrap();
            assert_eq!(made.place().as_deref(), Some("W"));
            node.quiesce().await.unwrap();
            let story = log.take();
            assert_eq!(story.last().unwrap(), "g add 1 at W", "{story:?}");
            assert_eq!(story.iter().filter(|line| *line == "W joined g").count(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn life_actor_refused_by_its_first_spot_does_not_exist() {
    within(async {
        for workers in [1, 2] {
            let node = node(workers).await;
            let alive = Alive::default();
            let shut = Wide { admits: false, ..Wide::default() };
            let wide = node.spot::<Wide>("W").create_with(shut).await.unwrap();
            for _ in 0..100 {
                let guest = Guest { life: Some(alive.one()), ..Guest::default() };
                let error = node.actor::<Guest>("g").create_in(guest, &wide).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Rejected);
                assert_eq!(node.actor::<Guest>("g").find().unwrap_err().kind(), ErrorKind::NotFound);
            }
            node.quiesce().await.unwrap();
            assert_eq!((alive.count(), node.count(ObjectKind::Actor)), (0, 0));
            assert!(wide.members().is_empty());
            let missing = node.spot::<Wide>("none");
            let error = node.actor::<Guest>("g").create_in(Guest::default(), missing).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert_eq!(node.count(ObjectKind::Actor), 0);
        }
    })
    .await;
}

/// Creates an Actor in the Spot whose gate its turn holds.
#[derive(Message)]
#[message(reply = (Option<ErrorKind>, Option<ErrorKind>))]
struct Invite;
impl Handles<Invite> for Wide {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        _: Invite,
    ) -> Result<(Option<ErrorKind>, Option<ErrorKind>), Never> {
        let me = turn.this_spot();
        let ordinary = turn.actor::<Guest>("one").create_in(Guest::default(), &me).await;
        let call = turn.actor::<Guest>("two").create_in(Guest::default(), &me);
        let yielding = turn.yielding(call).await;
        Ok((ordinary.err().map(|error| error.kind()), yielding.err().map(|error| error.kind())))
    }
}

#[tokio::test]
async fn reent_2_creating_in_the_spot_whose_gate_is_held_is_refused_and_yielding_works() {
    within(async {
        let node = node(2).await;
        let wide = node.spot::<Wide>("W").create().await.unwrap();
        let (ordinary, yielding) = wide.ask(Invite).await.unwrap();
        assert_eq!(ordinary, Some(ErrorKind::InvalidOperation), "it would wait for itself");
        assert_eq!(node.actor::<Guest>("one").find().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(yielding, None);
        assert_eq!(wide.members(), ["two"]);
    })
    .await;
}

async fn failing(workers: usize, step: Step, kind: ErrorKind, text: &str) {
    let node = node(workers).await;
    let alive = Alive::default();
    for _ in 0..200 {
        let state = Wide { create: step.clone(), life: Some(alive.one()), ..Wide::default() };
        let error = node.spot::<Wide>("W").create_with(state).await.unwrap_err();
        assert_eq!(error.kind(), kind, "every attempt is a new one: {error}");
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(node.spot::<Wide>("W").find().unwrap_err().kind(), ErrorKind::NotFound);
        let guest = Guest { create: step.clone(), life: Some(alive.one()), ..Guest::default() };
        assert_eq!(node.actor::<Guest>("g").create_with(guest).await.unwrap_err().kind(), kind);
        assert_eq!(node.actor::<Guest>("g").find().unwrap_err().kind(), ErrorKind::NotFound);
    }
    node.quiesce().await.unwrap();
    assert_eq!(alive.count(), 0);
    assert_eq!((node.count(ObjectKind::Spot), node.count(ObjectKind::Actor)), (1, 0));
    node.spot::<Wide>("W").create().await.unwrap();
}

#[tokio::test]
async fn life_on_create_that_fails_leaves_nothing() {
    within(async {
        for workers in [1, 2] {
            failing(workers, Step::Fail, ErrorKind::Rejected, "the paint was wet").await;
        }
    })
    .await;
}

#[tokio::test]
async fn life_on_create_that_panics_leaves_nothing() {
    within(async {
        for workers in [1, 2] {
            failing(workers, Step::Panic, ErrorKind::InternalFailure, "the roof fell in").await;
        }
    })
    .await;
}

#[tokio::test]
async fn life_factory_that_fails_or_panics_leaves_nothing() {
    within(async {
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = tries.clone();
        let options =
            Options::<Plain>::new().factory(move |id| match counted.fetch_add(1, Ordering::SeqCst) {
                n if n < 50 => Err(Failure::new(format!("no bricks for {id}"))),
                n if n < 100 => panic!("no roof for {id}"),
                _ => Ok(Plain(0)),
            });
        let node = builder(2).spot_with::<Plain>("plain", options).start().await.unwrap();
        for n in 0..100 {
            let error = node.spot::<Plain>("p").get_or_create().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            let wanted = if n < 50 { "no bricks for p" } else { "no roof for p" };
            assert!(error.to_string().contains(wanted), "{error}");
            assert!(node.spot::<Plain>("p").find().is_err());
        }
        let made = node.spot::<Plain>("p").get_or_create().await.unwrap();
        assert_eq!(made.ask(Add(3)).await.unwrap(), 3);
    })
    .await;
}

struct Plain(u64);
impl Spot for Plain {
    type Mode = Instance;
}
impl Handles<Add> for Plain {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        turn.0 += add.0;
        Ok(turn.0)
    }
}

#[tokio::test]
async fn life_instance_spot_is_made_by_its_first_message_once() {
    within(async {
        for workers in [1, 2] {
            let made = Arc::new(AtomicUsize::new(0));
            let counted = made.clone();
            let options = Options::<Plain>::new().factory(move |_| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Plain(0))
            });
            let node = builder(workers).spot_with::<Plain>("plain", options).start().await.unwrap();
            let address = node.spot::<Plain>("p");
            let error = address.ask(Add(1)).await.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::NotFound), "only when the caller says so");
            let asks: Vec<_> = (0..50).map(|_| tokio::spawn(address.ask(Add(1)).or_create())).collect();
            let sends: Vec<_> = (0..50).map(|_| tokio::spawn(address.send(Add(1)).or_create())).collect();
            for ask in asks {
                ask.await.unwrap().unwrap();
            }
            for send in sends {
                send.await.unwrap().unwrap();
            }
            assert_eq!(address.ask(Add(0)).await.unwrap(), 100);
            assert_eq!(made.load(Ordering::SeqCst), 1);
            // Closed and asked at once: a new one is made, nothing is lost.
            let old = address.find().unwrap();
            let closing = tokio::spawn(old.close());
            let again = address.ask(Add(5)).or_create().await.unwrap();
            assert!(again == 5 || again == 105, "{again}");
            closing.await.unwrap().unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn life_first_message_to_an_instance_spot_that_cannot_be_made_is_told() {
    within(async {
        let options = Options::<Plain>::new().factory(|_| Err(Failure::new("no bricks")));
        let node = builder(2).spot_with::<Plain>("plain", options).start().await.unwrap();
        for _ in 0..100 {
            let error =
                node.spot::<Plain>("p").ask(Add(1)).or_create().timeout(Duration::from_secs(20)).await;
            let error = error.unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::Rejected));
            assert!(error.to_string().contains("no bricks"), "{error}");
        }
        node.quiesce().await.unwrap();
        assert_eq!(node.count(ObjectKind::Spot), 1);
    })
    .await;
}

/// Sends to itself and asks another object in on_create, with lanes of one or two.
struct Early {
    log: Log<u64>,
    entered: Signal,
    go: Signal,
    own: Option<ErrorKind>,
}
impl Spot for Early {
    type Mode = SpotWide;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        let (entered, go) = (turn.entered.clone(), turn.go.clone());
        let own = turn.this_spot().send(Add(100)).await;
        turn.own = own.err().map(|error| error.kind());
        entered.set();
        go.wait().await;
        let answer = turn.spot::<Wide>("W").ask(Add(1)).await?;
        turn.log.push(1000 + answer);
        Ok(())
    }
}
impl Handles<Add> for Early {
    async fn handle(turn: &mut Turn<'_, Self>, add: Add) -> Result<u64, Never> {
        turn.log.push(add.0);
        Ok(add.0)
    }
}

#[tokio::test]
async fn life_start_with_lanes_of_one_and_two_lets_outside_messages_wait() {
    within(async {
        for records in [1, 2] {
            let lane = Lane { records, bytes: 1 << 16 };
            let options = Options::<Early>::new().application_lane(lane).lifecycle_lane(lane);
            let node = builder(2).spot_with::<Early>("early", options).start().await.unwrap();
            node.spot::<Wide>("W").create().await.unwrap();
            let (log, entered, go) = (Log::new(), Signal::new(), Signal::new());
            let early = Early { log: log.clone(), entered: entered.clone(), go: go.clone(), own: None };
            let creation = tokio::spawn(node.spot::<Early>("E").create_with(early));
            entered.wait().await;
            let found = node.spot::<Early>("E").find().unwrap();
            let mut sends = Vec::new();
            for n in 1..=10 {
                let mut send = Box::pin(found.send(Add(n)));
                // Polled here, so that the order is known.
                match futures_util::poll!(&mut send) {
                    std::task::Poll::Ready(sent) => sent.unwrap(),
                    std::task::Poll::Pending => sends.push(send),
                }
            }
            assert_eq!(
                sends.len(),
                11 - records as usize,
                "the lane is full of its own message and the first"
            );
            go.set();
            for send in sends {
                send.await.unwrap();
            }
            creation.await.unwrap().unwrap();
            node.quiesce().await.unwrap();
            let mut wanted = vec![1001, 100];
            wanted.extend(1..=10);
            assert_eq!(log.take(), wanted, "on_create first, then in order");
        }
    })
    .await;
}

#[tokio::test]
async fn life_start_that_fails_tells_everybody_who_waits() {
    within(async {
        for records in [1, 2] {
            let lane = Lane { records, bytes: 1 << 16 };
            let options = Options::<Single>::new().factory(|_| Ok(Single::default())).application_lane(lane);
            let node = Node::builder()
                .workers(2)
                .actor::<Guest>("guest")
                .spot_with::<Single>("single", options)
                .start()
                .await
                .unwrap();
            let (create, entered, go) = Step::wait();
            let state = Single { create, closing: Step::Go, ..Single::default() };
            // Waits, then is destroyed: the creation and all that wait for it end.
            let creation = tokio::spawn(node.spot::<Single>("S").create_with(state));
            entered.wait().await;
            let found = node.spot::<Single>("S").find().unwrap();
            let asks: Vec<_> = (0..10).map(|_| tokio::spawn(found.ask(Add(1)))).collect();
            let waiters: Vec<_> =
                (0..3).map(|_| tokio::spawn(node.spot::<Single>("S").get_or_create())).collect();
            let joiner = tokio::spawn(node.actor::<Guest>("g").create_in(Guest::default(), &found));
            while found.waiting().0 + (records as usize) < 10 || found.queued().1 < 2 {
                tokio::task::yield_now().await;
            }
            found.destroy().await.unwrap();
            assert!(creation.await.unwrap().is_err());
            for ask in asks {
                assert!(ask.await.unwrap().is_err());
            }
            for waiter in waiters {
                // Either told of the end, or it made a new one, as it was asked to.
                let _ = waiter.await.unwrap();
            }
            assert!(joiner.await.unwrap().is_err());
            go.set();
        }
    })
    .await;
}
