//! The scenarios, one code for all peers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::peer::{Goal, ORDER, Peer, step_back};

/// How many messages a sender sends before it lets others go first: one that never does would fill a
/// thousand lanes before anybody could empty them.
const SENDS_A_POLL: u64 = 128;

/// What is measured.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Messages of one round.
    pub(crate) messages: u64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// So many senders to so many objects, round robin, each turn working so many nanoseconds.
    Send { senders: u64, objects: u64, work_ns: u64 },
    /// So many askers of one object, each waiting for its reply before it asks again.
    Ask { askers: u64 },
    /// One asker on a thread that is none of the peer's.
    AskOutside,
    /// A number passed round so many objects.
    Relay { objects: u64 },
}

const fn send(name: &'static str, messages: u64, senders: u64, objects: u64, work_ns: u64) -> Scenario {
    Scenario { name, messages, kind: Kind::Send { senders, objects, work_ns } }
}

pub(crate) const SCENARIOS: &[Scenario] = &[
    send("1 sender, 1 object", 500_000, 1, 1, 0),
    send("2 senders, 1 object", 500_000, 2, 1, 0),
    send("1 sender, 1000 objects", 500_000, 1, 1_000, 0),
    send("1 sender, 100000 objects", 500_000, 1, 100_000, 0),
    send("1 sender, 1000 objects, 2 us a turn", 50_000, 1, 1_000, 2_000),
    Scenario { name: "ask, one at a time", messages: 200_000, kind: Kind::Ask { askers: 1 } },
    Scenario { name: "ask, 64 in flight", messages: 400_000, kind: Kind::Ask { askers: 64 } },
    Scenario { name: "ask from outside", messages: 2_000, kind: Kind::AskOutside },
    Scenario { name: "ping-pong", messages: 200_000, kind: Kind::Relay { objects: 2 } },
    Scenario { name: "ring of 1000", messages: 400_000, kind: Kind::Relay { objects: 1_000 } },
];

/// A scenario set up for a peer.
pub(crate) struct Bench<P: Peer> {
    messages: u64,
    kind: Kind,
    goal: Arc<Goal>,
    counters: Arc<[P::Counter]>,
    relays: Vec<P::Relay>,
    /// Last, so that objects go before their runtime.
    peer: P,
}

impl<P: Peer> Bench<P> {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let (peer, goal) = (P::start(), Goal::new());
        let (counters, work_ns, relays) = match scenario.kind {
            Kind::Send { objects, work_ns, .. } => (objects, work_ns, 0),
            Kind::Ask { .. } | Kind::AskOutside => (1, 0, 0),
            Kind::Relay { objects } => (0, 0, objects),
        };
        Self {
            messages: scenario.messages,
            kind: scenario.kind,
            counters: peer.counters(counters as usize, Duration::from_nanos(work_ns), &goal).into(),
            relays: peer.relays(relays as usize, &goal),
            goal,
            peer,
        }
    }

    /// The time of so many rounds.
    pub(crate) fn rounds(&self, rounds: u64) -> Duration {
        (0..rounds).map(|_| self.round()).sum()
    }

    fn round(&self) -> Duration {
        match self.kind {
            Kind::Send { senders, .. } => self.sends(senders),
            Kind::Ask { askers } => self.asks(askers),
            Kind::AskOutside => self.asks_outside(&mut Vec::new()),
            Kind::Relay { .. } => self.hops(),
        }
    }

    /// Lets every counter report after `messages`, before the clock runs.
    fn order(&self, messages: u64) {
        let (done, wait) = std::sync::mpsc::channel();
        let counters = self.counters.clone();
        self.peer.spawn(async move {
            for counter in &*counters {
                P::ask(counter, ORDER | messages).await;
            }
            let _ = done.send(());
        });
        wait.recv().unwrap();
    }

    fn sends(&self, senders: u64) -> Duration {
        let (messages, objects) = (self.messages, self.counters.len() as u64);
        assert_eq!(messages % (objects * senders), 0, "every object gets as many");
        self.order(messages / objects);
        let each = messages / senders;
        let (took, sum) = self.goal.round(messages, || {
            for sender in 0..senders {
                let counters = self.counters.clone();
                self.peer.spawn(async move {
                    let mut left = SENDS_A_POLL;
                    let numbers = sender * each..(sender + 1) * each;
                    for (number, counter) in numbers.zip(counters.iter().cycle()) {
                        P::send(counter, number).await;
                        left -= 1;
                        if left == 0 {
                            left = SENDS_A_POLL;
                            step_back().await;
                        }
                    }
                });
            }
        });
        assert_eq!(sum, sum_below(messages), "{}: messages are missing", P::NAME);
        took
    }

    fn asks(&self, askers: u64) -> Duration {
        self.order(self.messages);
        let each = self.messages / askers;
        let (took, sum) = self.goal.round(self.messages, || {
            for asker in 0..askers {
                let counters = self.counters.clone();
                self.peer.spawn(async move {
                    let mut last = 0;
                    for number in asker * each..(asker + 1) * each {
                        let total = P::ask(&counters[0], number).await;
                        assert!(total >= last + number || total < last, "a reply is missing");
                        last = total;
                    }
                });
            }
        });
        assert_eq!(sum, sum_below(self.messages), "{}: asks are missing", P::NAME);
        took
    }

    fn asks_outside(&self, latencies: &mut Vec<Duration>) -> Duration {
        self.order(self.messages);
        let outside = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (took, sum) = self.goal.round(self.messages, || {
            outside.block_on(async {
                for number in 0..self.messages {
                    let start = Instant::now();
                    P::ask(&self.counters[0], number).await;
                    latencies.push(start.elapsed());
                }
            });
        });
        assert_eq!(sum, sum_below(self.messages), "{}: asks are missing", P::NAME);
        took
    }

    fn hops(&self) -> Duration {
        let first = self.relays[0].clone();
        let hops = self.messages;
        let (took, _) = self.goal.round(1, || {
            self.peer.spawn(async move { P::hop(&first, hops).await });
        });
        took
    }

    /// The latency of each of the scenario's asks, one at a time.
    fn asks_inside(&self) -> Vec<Duration> {
        let (told, latencies) = std::sync::mpsc::channel();
        let (counters, messages) = (self.counters.clone(), self.messages);
        self.peer.spawn(async move {
            let mut latencies = Vec::with_capacity(messages as usize);
            for number in 0..messages {
                let start = Instant::now();
                P::ask(&counters[0], number).await;
                latencies.push(start.elapsed());
            }
            let _ = told.send(latencies);
        });
        latencies.recv().unwrap()
    }
}

fn sum_below(messages: u64) -> u64 {
    messages * (messages - 1) / 2
}

/// Prints the percentiles of asks one at a time, from a task of the peer's and from a thread outside.
pub(crate) fn latencies<P: Peer>() {
    let inside = Scenario { name: "inside", messages: 300_000, kind: Kind::Ask { askers: 1 } };
    print_percentiles::<P>("inside ", Bench::<P>::new(&inside).asks_inside());
    let outside = Scenario { name: "outside", messages: 10_000, kind: Kind::AskOutside };
    let mut latencies = Vec::new();
    Bench::<P>::new(&outside).asks_outside(&mut latencies);
    print_percentiles::<P>("outside", latencies);
}

fn print_percentiles<P: Peer>(place: &str, mut latencies: Vec<Duration>) {
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    println!(
        "ask latency {place} {:<10} p50 {:>8.2} us   p99 {:>8.2} us   p99.9 {:>8.2} us",
        P::NAME,
        at(0.5),
        at(0.99),
        at(0.999),
    );
}
