//! Ordinary waits in every context that has a handler or a callback (GATE-14).

use std::future::Future;
use std::pin::pin;

use turnkeep::prelude::*;
use turnkeep::{HandlerAddress, SpotAddress};

use crate::support::{Log, Signal, within};

/// Writes down who asked, and answers only once the asker was seen to wait.
struct Answers(Log<String>);
impl Spot for Answers {
    type Mode = Instance;
}

#[derive(Message)]
struct Tell(String, #[message(no_heap)] Signal);

impl Handles<Tell> for Answers {
    async fn handle(turn: &mut Turn<'_, Self>, tell: Tell) -> Result<(), Never> {
        turn.0.push(tell.0);
        tell.1.wait().await;
        Ok(())
    }
}

/// An ordinary wait that is truly pending.
async fn waits(answers: SpotAddress<Answers>, context: &str) {
    let asked = Signal::new();
    let mut ask = pin!(answers.ask(Tell(context.to_owned(), asked.clone())));
    let answer = std::future::poll_fn(|cx| {
        let polled = ask.as_mut().poll(cx);
        if polled.is_pending() {
            asked.set();
        }
        polled
    });
    answer.await.unwrap();
}

#[derive(Message)]
#[message(reply = u64)]
struct Wait;

#[derive(Message)]
struct Move(&'static str);

macro_rules! spots {
    ($($name:ident: $mode:ty;)+) => {$(
        #[derive(Default)]
        struct $name(u64);
        impl Spot for $name {
            type Mode = $mode;
            async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
                waits(turn.spot("answers"), concat!(stringify!($name), " on_create")).await;
                turn.0 += 1;
                Ok(())
            }
            async fn on_actor_join(turn: &mut Lifecycle<'_, Self>, _: &Joining) -> Result<Admission, Failure> {
                waits(turn.spot("answers"), concat!(stringify!($name), " on_actor_join")).await;
                turn.0 += 1;
                Ok(Admission::Accept)
            }
            async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
                waits(turn.spot("answers"), concat!(stringify!($name), " on_joined_actor")).await;
                turn.0 += 1;
                Ok(())
            }
            async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
                waits(turn.spot("answers"), concat!(stringify!($name), " on_leave_actor")).await;
                turn.0 += 1;
                Ok(())
            }
            async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
                waits(turn.spot("answers"), concat!(stringify!($name), " on_closing")).await;
                turn.0 += 1;
                Ok(())
            }
        }
        impl Handles<Wait> for $name {
            async fn handle(turn: &mut Turn<'_, Self>, _: Wait) -> Result<u64, Never> {
                waits(turn.spot("answers"), concat!(stringify!($name), " handler")).await;
                turn.0 += 1;
                Ok(turn.0)
            }
        }
    )+};
}
spots! {
    Shared: SpotWide;
    Apart: PerActor;
    Alone: Instance;
}

#[derive(Default)]
struct Guest(u64);

impl Actor for Guest {
    async fn on_create(turn: &mut Lifecycle<'_, Self>) -> Result<(), Failure> {
        waits(turn.spot("answers"), "Guest on_create").await;
        Ok(())
    }
    async fn on_join_completed(turn: &mut Lifecycle<'_, Self>, done: JoinCompleted) -> Result<(), Failure> {
        assert!(done.is_accepted());
        waits(turn.spot("answers"), &format!("Guest on_join_completed {}", done.target())).await;
        turn.0 += 1;
        Ok(())
    }
    async fn on_closing(turn: &mut Lifecycle<'_, Self>, _: Closing) -> Result<(), Failure> {
        waits(turn.spot("answers"), "Guest on_closing").await;
        Ok(())
    }
}

impl Handles<Wait> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, _: Wait) -> Result<u64, Never> {
        let answers = turn.spot("answers");
        match turn.within::<Shared>() {
            Some(mut turn) => {
                waits(answers, "Guest handler within Shared").await;
                turn.spot_state().0 += 1;
            }
            None => waits(answers, &format!("Guest handler in {}", turn.place().unwrap())).await,
        }
        Ok(turn.0)
    }
}
impl Handles<Move> for Guest {
    async fn handle(turn: &mut Turn<'_, Self>, to: Move) -> Result<(), Never> {
        let join = match to.0 {
            "shared" => turn.join(turn.spot::<Shared>("shared")),
            _ => turn.join(turn.spot::<Apart>("apart")),
        };
        turn.defer(join).unwrap();
        Ok(())
    }
}

struct Desk(&'static str);
impl Handler for Desk {}
impl Handles<Wait> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, _: Wait) -> Result<u64, Never> {
        let name = turn.0;
        waits(turn.spot("answers"), name).await;
        Ok(1)
    }
}

async fn all_contexts(workers: usize) -> Vec<String> {
    let log = Log::new();
    let of_answers = log.clone();
    let node = Node::builder()
        .workers(workers)
        .spot_with("answers", Options::new().factory(move |_| Ok(Answers(of_answers.clone()))))
        .spot::<Shared>("shared")
        .spot::<Apart>("apart")
        .spot::<Alone>("alone")
        .actor::<Guest>("guest")
        .handler("h", Desk("node handler"))
        .channel("c", Desk("channel handler"))
        .start()
        .await
        .unwrap();
    node.spot::<Answers>("answers").create().await.unwrap();
    let shared = node.spot::<Shared>("shared").create().await.unwrap();
    let apart = node.spot::<Apart>("apart").create().await.unwrap();
    let alone = node.spot::<Alone>("alone").create().await.unwrap();
    shared.ask(Wait).await.unwrap();
    apart.ask(Wait).await.unwrap();
    alone.ask(Wait).await.unwrap();
    let (handler, channel): (HandlerAddress<Desk>, HandlerAddress<Desk>) =
        (node.handler("h"), node.channel("c"));
    handler.ask(Wait).await.unwrap();
    channel.ask(Wait).await.unwrap();
    let guest = node.actor::<Guest>("g").create().await.unwrap();
    for place in ["shared", "apart"] {
        guest.send(Move(place)).await.unwrap();
        guest.ask(Wait).await.unwrap();
    }
    guest.close().await.unwrap();
    let answers = node.spot("answers");
    node.spawn(async move { waits(answers, "task").await }).await.unwrap();
    shared.close().await.unwrap();
    apart.close().await.unwrap();
    alone.close().await.unwrap();
    node.quiesce().await.unwrap();
    let mut waited = log.take();
    waited.sort();
    waited
}

#[tokio::test]
async fn gate_14_ordinary_waits_work_in_handlers_callbacks_and_tasks_of_every_kind() {
    within(async {
        let mut wanted: Vec<String> = ["Shared", "Apart"]
            .iter()
            .flat_map(|spot| {
                ["on_create", "on_actor_join", "on_joined_actor", "on_leave_actor", "on_closing", "handler"]
                    .map(|context| format!("{spot} {context}"))
            })
            .collect();
        wanted.extend(["on_create", "on_closing", "handler"].map(|context| format!("Alone {context}")));
        wanted.extend(
            [
                "Guest on_create",
                "Guest on_join_completed shared",
                "Guest on_join_completed apart",
                "Guest on_closing",
                "Guest handler within Shared",
                "Guest handler in apart",
                "node handler",
                "channel handler",
                "task",
            ]
            .map(str::to_owned),
        );
        wanted.sort();
        for workers in [1, 2, 8] {
            assert_eq!(all_contexts(workers).await, wanted, "{workers} workers");
        }
    })
    .await;
}

#[tokio::test]
async fn gate_14_the_entry_spots_handlers_and_callbacks_wait_ordinarily_too() {
    within(async {
        let log = Log::new();
        let of_answers = log.clone();
        let node = Node::builder()
            .workers(2)
            .entry(Waiting::default())
            .spot_with("answers", Options::new().factory(move |_| Ok(Answers(of_answers.clone()))))
            .actor::<Guest>("guest")
            .start()
            .await
            .unwrap();
        node.spot::<Answers>("answers").create().await.unwrap();
        let entry = node.entry::<Waiting>().unwrap();
        entry.ask(Wait).await.unwrap();
        let guest = node.actor::<Guest>("g").create().await.unwrap();
        guest.ask(Wait).await.unwrap();
        guest.close().await.unwrap();
        node.quiesce().await.unwrap();
        let mut waited = log.take();
        waited.retain(|context| !context.starts_with("Guest"));
        assert_eq!(waited, ["Entry handler", "Entry on_leave_actor"]);
    })
    .await;
}

/// An Entry Spot that waits once its node has started.
#[derive(Default)]
struct Waiting(u64);
impl Spot for Waiting {
    type Mode = Entry;
    async fn on_leave_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        waits(turn.spot("answers"), "Entry on_leave_actor").await;
        Ok(())
    }
}
impl Handles<Wait> for Waiting {
    async fn handle(turn: &mut Turn<'_, Self>, _: Wait) -> Result<u64, Never> {
        waits(turn.spot("answers"), "Entry handler").await;
        turn.0 += 1;
        Ok(turn.0)
    }
}
