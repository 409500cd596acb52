//! JOIN-5: where a Join can be registered, and how many and how large.

use std::sync::Arc;

use turnkeep::prelude::*;
use turnkeep::{Join, defer};

use crate::support::{Log, Signal, within};
use crate::world::*;

fn refused(join: Join) -> ErrorKind {
    let before = format!("{join:?}");
    let refused = defer(join).unwrap_err();
    assert_eq!(format!("{:?}", refused.join), before, "the Join comes back");
    refused.error.kind()
}

/// Tries to defer in every callback of an Actor and a Spot.
struct Eager {
    tries: Log<(&'static str, ErrorKind)>,
}

impl Eager {
    fn attempt(&self, place: &'static str, node: &Node) {
        let actor = node.actor::<Mover>("bystander").find().unwrap();
        self.tries.push((place, refused(actor.join(node.spot::<Wide>("X")))));
    }
}

impl Spot for Eager {
    type Mode = SpotWide;
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.attempt("spot on_create", &turn.node());
        Ok(())
    }
    async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
        turn.attempt("on_actor_join", &turn.node());
        Ok(Admission::Accept)
    }
    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        turn.attempt("on_joined_actor", &turn.node());
        Ok(())
    }
    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        turn.attempt("on_leave_actor", &turn.node());
        Ok(())
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        turn.attempt("spot on_closing", &turn.node());
        Ok(())
    }
}

struct EagerActor(Eager);

#[derive(Message)]
struct Enter;
#[derive(Message)]
struct Leave;

impl Handles<Enter> for EagerActor {
    async fn handle(turn: &mut Turn<'_, Self>, _: Enter) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Eager>("E"));
        turn.defer(join).unwrap();
        Ok(())
    }
}
impl Handles<Leave> for EagerActor {
    async fn handle(turn: &mut Turn<'_, Self>, _: Leave) -> Result<(), Never> {
        let join = turn.join(turn.spot::<Lobby>(&turn.node().entry_id()));
        turn.defer(join).unwrap();
        Ok(())
    }
}

impl Actor for EagerActor {
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        turn.0.attempt("actor on_create", &turn.node());
        Ok(())
    }
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, _: JoinCompleted) -> Result<(), Failure> {
        turn.0.attempt("on_join_completed", &turn.node());
        Ok(())
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        turn.0.attempt("actor on_closing", &turn.node());
        Ok(())
    }
}

#[tokio::test]
async fn join_5_a_defer_in_every_lifecycle_callback_is_invalid() {
    within(async {
        let tries = Log::new();
        let world = World::with(2, |builder| {
            builder
                .spot_with::<Eager>("eager", Options::new())
                .actor_with::<EagerActor>("eager actor", Options::new())
        })
        .await;
        world.wide("X", Manners::default()).await;
        let bystander = world.mover("bystander").await;
        let spot = world.node.spot::<Eager>("E").create_with(Eager { tries: tries.clone() }).await.unwrap();
        let actor = world
            .node
            .actor::<EagerActor>("e")
            .create_with(EagerActor(Eager { tries: tries.clone() }))
            .await
            .unwrap();
        actor.send(Enter).await.unwrap();
        actor.send(Leave).await.unwrap();
        world.node.quiesce().await.unwrap();
        actor.close().await.unwrap();
        spot.close().await.unwrap();
        let tries = tries.take();
        assert!(tries.iter().all(|(_, kind)| *kind == ErrorKind::InvalidOperation), "{tries:?}");
        let mut places: Vec<_> = tries.into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 8, "{places:?}");
        assert_eq!(bystander.place(), Some(world.node.entry_id()));
    })
    .await;
}

#[tokio::test]
async fn join_5_b_defer_in_factories_tasks_and_work_is_invalid() {
    within(async {
        let tries = Log::<ErrorKind>::new();
        let shared: Arc<std::sync::OnceLock<(ActorRef<Mover>, Node)>> = Arc::default();
        let (in_factory, seen) = (shared.clone(), tries.clone());
        let world = World::with(2, |builder| {
            builder.actor_with::<EagerActor>(
                "made by a factory",
                Options::new().factory(move |_| {
                    let (actor, node) = in_factory.get().unwrap();
                    seen.push(refused(actor.join(node.spot::<Wide>("X"))));
                    Ok(EagerActor(Eager { tries: Log::new() }))
                }),
            )
        })
        .await;
        world.wide("X", Manners::default()).await;
        let actor = world.mover("bystander").await;
        let _ = shared.set((actor.clone(), world.node.clone()));
        let made = world.node.actor::<EagerActor>("f").create().await.unwrap();
        assert_eq!(tries.take(), [ErrorKind::InvalidOperation], "in the factory");
        drop(made);

        let join = || actor.join(world.node.spot::<Wide>("X"));
        assert_eq!(refused(join()), ErrorKind::InvalidOperation, "in plain code");
        let (one, two, three, four) = (join(), join(), join(), join());
        let of_node = world.node.spawn(async move { refused(one) }).await.unwrap();
        let of_tokio = tokio::spawn(async move { refused(two) }).await.unwrap();
        let of_cpu = world.node.cpu(move || refused(three)).await.unwrap();
        let of_io = world.node.io(async move { refused(four) }).await.unwrap();
        assert_eq!([of_node, of_tokio, of_cpu, of_io], [ErrorKind::InvalidOperation; 4]);
        assert!(world.story().await.is_empty());
        // The world holds itself through the factory; end it.
        world.node.shutdown().await.unwrap();
    })
    .await;
}

/// Hands its Join to a task that defers it when the handler has ended.
#[derive(Message)]
struct TooLate(#[message(no_heap)] Signal, #[message(no_heap)] Log<ErrorKind>);

impl Handles<TooLate> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, message: TooLate) -> Result<(), Never> {
        let TooLate(go, tries) = message;
        let join = turn.join(turn.spot::<Wide>("X"));
        tokio::spawn(async move {
            go.wait().await;
            tries.push(refused(join));
        });
        Ok(())
    }
}

#[tokio::test]
async fn join_5_c_defer_after_the_handler_is_invalid() {
    within(async {
        let world = World::new(2).await;
        world.wide("X", Manners::default()).await;
        let a = world.mover("a").await;
        let (go, tries) = (Signal::new(), Log::new());
        a.ask(TooLate(go.clone(), tries.clone())).await.unwrap();
        go.set();
        while tries.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(tries.take(), [ErrorKind::InvalidOperation]);
        assert!(world.story().await.is_empty());
    })
    .await;
}

/// Defers so many Joins with requests of so many bytes; answers the number taken and the kind of the refusal.
#[derive(Message)]
#[message(reply = (usize, Option<ErrorKind>))]
struct Many {
    count: usize,
    bytes: usize,
}

impl Handles<Many> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, many: Many) -> Result<(usize, Option<ErrorKind>), Never> {
        for n in 0..many.count {
            let id = if n % 2 == 0 { "X" } else { "Y" };
            // A `Vec` is three words beside what it owns.
            let request = vec![0_u8; many.bytes.saturating_sub(size_of::<Vec<u8>>())];
            let join = turn.join(turn.spot::<Wide>(id));
            let join = if many.bytes > 0 { join.with(request) } else { join };
            if let Err(refused) = turn.defer(join) {
                return Ok((n, Some(refused.error.kind())));
            }
        }
        Ok((many.count, None))
    }
}

async fn many(count: usize, bytes: usize) -> (usize, Option<ErrorKind>, u64) {
    let roomy = turnkeep::Lane { records: 128, bytes: 64 << 20 };
    let world = World::with(2, |builder| builder.lifecycle_lane(roomy)).await;
    world.wide("X", Manners::default()).await;
    world.wide("Y", Manners::default()).await;
    let a = world.mover("a").await;
    let (taken, kind) = a.ask(Many { count, bytes }).await.unwrap();
    world.node.quiesce().await.unwrap();
    (taken, kind, world.node.metrics().joins_accepted)
}

const FULL: Option<ErrorKind> = Some(ErrorKind::CapacityExceeded);

#[tokio::test]
async fn join_5_d_the_65th_join_of_a_handler_is_refused_and_64_run() {
    within(async {
        assert_eq!(many(64, 0).await, (64, None, 64));
        assert_eq!(many(65, 0).await, (64, FULL, 64));
    })
    .await;
}

#[tokio::test]
async fn join_5_f_a_request_over_one_mebibyte_is_refused() {
    within(async {
        assert_eq!(many(1, 1 << 20).await, (1, None, 1));
        assert_eq!(many(1, (1 << 20) + 1).await, (0, FULL, 0));
    })
    .await;
}

#[tokio::test]
async fn join_5_g_requests_over_eight_mebibytes_together_are_refused() {
    within(async {
        assert_eq!(many(8, 1 << 20).await, (8, None, 8));
        assert_eq!(many(9, 1 << 20).await, (8, FULL, 8));
        assert_eq!(many(17, 1 << 19).await, (16, FULL, 16));
    })
    .await;
}

/// Defers with a timeout that is none.
#[derive(Message)]
#[message(reply = Option<ErrorKind>)]
struct Odd(#[message(no_heap)] std::time::Duration);

impl Handles<Odd> for Mover {
    async fn handle(turn: &mut Turn<'_, Self>, odd: Odd) -> Result<Option<ErrorKind>, Never> {
        let join = turn.join(turn.spot::<Wide>("X")).timeout(odd.0);
        Ok(turn.defer(join).err().map(|refused| refused.error.kind()))
    }
}

#[tokio::test]
async fn join_5_h_a_timeout_of_nothing_or_over_a_year_is_refused_at_once() {
    within(async {
        let world = World::new(1).await;
        world.wide("X", Manners::default()).await;
        let a = world.mover("a").await;
        let zero = a.ask(Odd(std::time::Duration::ZERO)).await.unwrap();
        let huge = a.ask(Odd(std::time::Duration::MAX)).await.unwrap();
        assert_eq!(zero, Some(ErrorKind::DeadlineExceeded));
        assert_eq!(huge, Some(ErrorKind::InvalidOperation));
        assert!(world.story().await.is_empty());
    })
    .await;
}
