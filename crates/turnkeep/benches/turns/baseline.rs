//! What one would write by hand on tokio: a task an object, a bounded channel, oneshot replies.
//!
//! `Plain` sends a plain enum. `Boxed` sends a boxed function that returns a boxed future, which is what an
//! interface for handlers of any message and any `await` comes to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use crate::peer::{BOUND, Count, Goal, Peer, WORKERS};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(std::env::var("TURNS_WORKERS").map_or(WORKERS, |n| n.parse().unwrap()))
        .build()
        .unwrap()
}

/// The state of a relay; `S` is what reaches the next one.
pub(crate) struct Relay<S> {
    next: Option<S>,
    hops: u64,
    goal: Arc<Goal>,
}

/// Makes `count` channels and, of each, a task that `run` makes of the receiver and the state.
fn tasks<M: Send + 'static, T, F>(
    runtime: &Runtime,
    states: impl IntoIterator<Item = T>,
    run: impl Fn(mpsc::Receiver<M>, T) -> F,
) -> Vec<mpsc::Sender<M>>
where
    F: Future<Output = ()> + Send + 'static,
{
    let make = |state| {
        let (sender, receiver) = mpsc::channel(BOUND);
        runtime.spawn(run(receiver, state));
        sender
    };
    states.into_iter().map(make).collect()
}

pub(crate) struct Plain(Runtime);

pub(crate) enum Add {
    Send(u64),
    Ask(u64, oneshot::Sender<u64>),
}

pub(crate) enum Pass {
    Link(mpsc::Sender<Pass>),
    Hop(u64),
}

async fn count(mut inbox: mpsc::Receiver<Add>, mut state: Count) {
    while let Some(add) = inbox.recv().await {
        match add {
            Add::Send(number) => {
                state.take(number);
            }
            Add::Ask(number, answer) => {
                let _ = answer.send(state.take(number));
            }
        }
    }
}

async fn relay(mut inbox: mpsc::Receiver<Pass>, mut state: Relay<mpsc::Sender<Pass>>) {
    while let Some(pass) = inbox.recv().await {
        match pass {
            Pass::Link(next) => state.next = Some(next),
            Pass::Hop(hops) => {
                state.hops += 1;
                if hops == 1 {
                    state.goal.report(1, 0);
                } else if let Some(next) = &state.next {
                    next.send(Pass::Hop(hops - 1)).await.unwrap();
                }
            }
        }
    }
}

impl Peer for Plain {
    const NAME: &'static str = "tokio";
    type Counter = mpsc::Sender<Add>;
    type Relay = mpsc::Sender<Pass>;

    fn start() -> Self {
        Self(runtime())
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        drop(self.0.spawn(task));
    }

    fn counters(&self, number: usize, work: Duration, goal: &Arc<Goal>) -> Vec<mpsc::Sender<Add>> {
        tasks(&self.0, (0..number).map(|_| Count::new(work, goal.clone())), count)
    }

    fn relays(&self, number: usize, goal: &Arc<Goal>) -> Vec<mpsc::Sender<Pass>> {
        let states = (0..number).map(|_| Relay { next: None, hops: 0, goal: goal.clone() });
        let relays = tasks(&self.0, states, relay);
        for n in 0..number {
            relays[n].blocking_send(Pass::Link(relays[(n + 1) % number].clone())).unwrap();
        }
        relays
    }

    async fn send(counter: &mpsc::Sender<Add>, number: u64) {
        counter.send(Add::Send(number)).await.unwrap();
    }

    async fn ask(counter: &mpsc::Sender<Add>, number: u64) -> u64 {
        let (answer, reply) = oneshot::channel();
        counter.send(Add::Ask(number, answer)).await.unwrap();
        reply.await.unwrap()
    }

    async fn hop(relay: &mpsc::Sender<Pass>, hops: u64) {
        relay.send(Pass::Hop(hops)).await.unwrap();
    }
}

pub(crate) struct Boxed(Runtime);

type Handling<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
type Handler<T> = Box<dyn for<'a> FnOnce(&'a mut T) -> Handling<'a> + Send>;

/// Reaches an object of `Boxed`.
pub(crate) struct Handle<T>(mpsc::Sender<Handler<T>>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

async fn handle<T>(mut inbox: mpsc::Receiver<Handler<T>>, mut state: T) {
    while let Some(handler) = inbox.recv().await {
        handler(&mut state).await;
    }
}

impl<T> Handle<T> {
    async fn send(&self, handler: impl for<'a> FnOnce(&'a mut T) -> Handling<'a> + Send + 'static) {
        assert!(self.0.send(Box::new(handler)).await.is_ok(), "its task lives");
    }
}

pub(crate) struct BoxedRelay(Relay<Handle<BoxedRelay>>);

impl BoxedRelay {
    fn on_hop(&mut self, hops: u64) -> Handling<'_> {
        Box::pin(async move {
            self.0.hops += 1;
            if hops == 1 {
                self.0.goal.report(1, 0);
            } else if let Some(next) = &self.0.next {
                next.send(move |relay| relay.on_hop(hops - 1)).await;
            }
        })
    }
}

impl Peer for Boxed {
    const NAME: &'static str = "tokio_fut";
    type Counter = Handle<Count>;
    type Relay = Handle<BoxedRelay>;

    fn start() -> Self {
        Self(runtime())
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) {
        drop(self.0.spawn(task));
    }

    fn counters(&self, number: usize, work: Duration, goal: &Arc<Goal>) -> Vec<Handle<Count>> {
        let states = (0..number).map(|_| Count::new(work, goal.clone()));
        tasks(&self.0, states, handle).into_iter().map(Handle).collect()
    }

    fn relays(&self, number: usize, goal: &Arc<Goal>) -> Vec<Handle<BoxedRelay>> {
        let states = (0..number).map(|_| BoxedRelay(Relay { next: None, hops: 0, goal: goal.clone() }));
        let relays: Vec<_> = tasks(&self.0, states, handle).into_iter().map(Handle).collect();
        for n in 0..number {
            let next = relays[(n + 1) % number].clone();
            let link: Handler<BoxedRelay> = Box::new(move |relay| {
                Box::pin(async move {
                    relay.0.next = Some(next);
                })
            });
            assert!(relays[n].0.blocking_send(link).is_ok(), "its task lives");
        }
        relays
    }

    async fn send(counter: &Handle<Count>, number: u64) {
        let add = move |count: &mut Count| {
            count.take(number);
        };
        counter.send(move |count| Box::pin(async move { add(count) })).await;
    }

    async fn ask(counter: &Handle<Count>, number: u64) -> u64 {
        let (answer, reply) = oneshot::channel();
        let add = move |count: &mut Count| {
            let _ = answer.send(count.take(number));
        };
        counter.send(move |count| Box::pin(async move { add(count) })).await;
        reply.await.unwrap()
    }

    async fn hop(relay: &Handle<BoxedRelay>, hops: u64) {
        relay.send(move |relay| relay.on_hop(hops)).await;
    }
}
