//! Completions (DONE): one end a call, cancelled waits, generations of the asker, inherited deadlines.
#![allow(clippy::unwrap_used, unreachable_pub, missing_docs, reason = "a test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{LIMIT, Log, Signal, within};
use turnkeep::prelude::*;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(20);

/// Answers when told, and counts what it has handled.
#[derive(Default)]
struct Desk {
    handled: u64,
}
impl Spot for Desk {
    type Mode = SpotWide;
}

/// Waits for the signal with the gate kept, or not at all; answers its number.
#[derive(Message)]
#[message(reply = u64)]
struct Serve {
    number: u64,
    #[message(no_heap)]
    entered: Signal,
    #[message(no_heap)]
    go: Option<Signal>,
}

impl Serve {
    fn now(number: u64) -> Self {
        Self { number, entered: Signal::new(), go: None }
    }

    fn held(number: u64) -> (Self, Signal, Signal) {
        let (entered, go) = (Signal::new(), Signal::new());
        (Self { number, entered: entered.clone(), go: Some(go.clone()) }, entered, go)
    }
}

#[derive(Message)]
#[message(reply = u64)]
struct Handled;

impl Handles<Serve> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, serve: Serve) -> Result<u64, Never> {
        serve.entered.set();
        if let Some(go) = serve.go {
            go.wait().await;
        }
        turn.handled += 1;
        Ok(serve.number)
    }
}
impl Handles<Handled> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, _: Handled) -> Result<u64, Never> {
        Ok(turn.handled)
    }
}

/// Asks the desk on behalf of its caller.
#[derive(Default)]
struct Clerk {
    answers: Vec<u64>,
}
impl Actor for Clerk {}

#[derive(Message)]
#[message(reply = Result<u64, Option<ErrorKind>>)]
struct AskDesk {
    #[message(no_heap)]
    serve: Serve,
    #[message(no_heap)]
    timeout: Option<Duration>,
    #[message(no_heap)]
    asking: Signal,
}

impl Handles<AskDesk> for Clerk {
    async fn handle(
        turn: &mut Turn<'_, Self>,
        ask: AskDesk,
    ) -> Result<Result<u64, Option<ErrorKind>>, Never> {
        let mut asked = turn.spot::<Desk>("D").ask(ask.serve);
        if let Some(timeout) = ask.timeout {
            asked = asked.timeout(timeout);
        }
        ask.asking.set();
        let answer = asked.await;
        if let Ok(number) = answer {
            turn.answers.push(number);
        }
        Ok(answer.map_err(|error| error.kind()))
    }
}

#[derive(Message)]
#[message(reply = Vec<u64>)]
struct Answers;
impl Handles<Answers> for Clerk {
    async fn handle(turn: &mut Turn<'_, Self>, _: Answers) -> Result<Vec<u64>, Never> {
        Ok(turn.answers.clone())
    }
}

async fn desk(workers: usize) -> (Node, SpotRef<Desk>) {
    let node =
        Node::builder().workers(workers).spot::<Desk>("desk").actor::<Clerk>("clerk").start().await.unwrap();
    let desk = node.spot::<Desk>("D").create().await.unwrap();
    (node, desk)
}

#[tokio::test]
async fn done_1_a_late_answer_is_counted_and_completes_nothing() {
    within(async {
        for workers in [1, 2] {
            let (node, desk) = desk(workers).await;
            let (serve, entered, go) = Serve::held(1);
            let first = tokio::spawn(desk.ask(serve).timeout(SHORT));
            entered.wait().await;
            let error = first.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
            assert_eq!(node.metrics().late, 0);
            let second = tokio::spawn(desk.ask(Serve::now(2)).timeout(LONG));
            go.set();
            assert_eq!(second.await.unwrap().unwrap(), 2, "never the answer to the first");
            assert_eq!(node.metrics().late, 1);
            assert_eq!(desk.ask(Handled).await.unwrap(), 2, "the handler ran to its end");
        }
    })
    .await;
}

#[tokio::test]
async fn done_1_b_an_asker_inside_a_turn_gets_its_own_answer_after_a_late_one() {
    within(async {
        let (node, desk) = desk(2).await;
        let clerk = node.actor::<Clerk>("c").create().await.unwrap();
        let (serve, _, go) = Serve::held(1);
        let asked =
            |serve, timeout| clerk.ask(AskDesk { serve, timeout: Some(timeout), asking: Signal::new() });
        let first = asked(serve, SHORT).await.unwrap();
        assert_eq!(first, Err(Some(ErrorKind::DeadlineExceeded)));
        let second = tokio::spawn(asked(Serve::now(2), LONG));
        go.set();
        assert_eq!(second.await.unwrap().unwrap(), Ok(2));
        assert_eq!(clerk.ask(Answers).await.unwrap(), [2]);
        assert_eq!(node.metrics().late, 1);
        assert_eq!(clerk.queued(), (0, 0), "a late answer is no record of the asker's");
        drop(desk);
    })
    .await;
}

/// Reply and deadline are decided at the same moment, many times: one end each, and the losers add up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_c_reply_against_deadline_ends_each_call_once() {
    const ROUNDS: u64 = 3000;
    within(async {
        let (node, desk) = desk(2).await;
        let (mut answered, mut expired) = (0, 0);
        for round in 0..ROUNDS {
            let wait = Duration::from_micros(900 + round % 200);
            let (serve, _, go) = Serve::held(round);
            let asked = tokio::spawn(desk.ask(serve).timeout(Duration::from_millis(1)));
            let begun = Instant::now();
            while begun.elapsed() < wait {
                tokio::task::yield_now().await;
            }
            go.set();
            match asked.await.unwrap() {
                Ok(number) => {
                    assert_eq!(number, round);
                    answered += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
                    expired += u64::from(matches!(error, AskError::Failed(_)));
                    // One that was refused before it was submitted is not handled either.
                    answered += u64::from(matches!(error, AskError::Refused { .. }));
                }
            }
        }
        node.quiesce().await.unwrap();
        assert_eq!(answered + expired, ROUNDS);
        assert_eq!(node.metrics().late, expired, "every reply that lost is counted");
    })
    .await;
}

/// Reply and destruction of the answering Spot race: one end each, and the Spot is remade every round.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_d_reply_against_destroy_ends_each_call_once() {
    within(async {
        let (node, _) = desk(2).await;
        let (mut answered, mut gone) = (0_u32, 0_u32);
        for round in 0..1000 {
            let spot = node.spot::<Desk>("E").get_or_create().await.unwrap();
            let (serve, entered, go) = Serve::held(round);
            let asked = tokio::spawn(spot.ask(serve));
            entered.wait().await;
            let destroyed = tokio::spawn(spot.destroy());
            go.set();
            match asked.await.unwrap() {
                Ok(number) => {
                    assert_eq!(number, round);
                    answered += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), Some(ErrorKind::Unavailable), "{error:?}");
                    gone += 1;
                }
            }
            destroyed.await.unwrap().unwrap();
        }
        assert_eq!(answered + gone, 1000);
        node.quiesce().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn done_1_e_pending_calls_end_with_the_node() {
    within(async {
        let (node, desk) = desk(1).await;
        let (serve, entered, go) = Serve::held(1);
        let running = tokio::spawn(desk.ask(serve));
        entered.wait().await;
        let queued: Vec<_> = (0..10).map(|n| tokio::spawn(desk.ask(Serve::now(n)))).collect();
        while desk.queued().0 < 11 {
            tokio::task::yield_now().await;
        }
        let report = node.shutdown_within(SHORT).await.unwrap();
        assert!(report.forced);
        assert_eq!(running.await.unwrap().unwrap_err().kind(), Some(ErrorKind::Unavailable));
        for asked in queued {
            assert!(asked.await.unwrap().is_err());
        }
        go.set();
    })
    .await;
}

#[tokio::test]
async fn done_2_a_send_is_over_when_it_is_accepted() {
    within(async {
        for workers in [1, 2] {
            let (_node, desk) = desk(workers).await;
            let (serve, entered, go) = Serve::held(1);
            desk.send(serve).await.unwrap();
            entered.wait().await;
            // Its handler waits; more sends end all the same, in order behind it.
            for n in 0..100 {
                desk.send(Serve::now(n)).await.unwrap();
            }
            assert_eq!(desk.queued().0, 101);
            go.set();
            assert_eq!(desk.ask(Handled).await.unwrap(), 101);
        }
    })
    .await;
}

#[tokio::test]
async fn done_4_a_dropping_an_ask_keeps_the_accepted_work() {
    within(async {
        let (node, desk) = desk(2).await;
        let (serve, entered, go) = Serve::held(1);
        let running = tokio::spawn(desk.ask(serve));
        entered.wait().await;
        let mut queued = Box::pin(desk.ask(Serve::now(2)));
        assert!(futures_util::poll!(&mut queued).is_pending());
        assert_eq!(desk.queued().0, 2);
        drop(queued);
        running.abort();
        assert!(running.await.is_err());
        assert_eq!(desk.queued().0, 2, "accepted work stays");
        go.set();
        node.quiesce().await.unwrap();
        assert_eq!(desk.ask(Handled).await.unwrap(), 2);
        assert_eq!(node.metrics().late, 2, "nobody was there for the answers");
    })
    .await;
}

#[tokio::test]
async fn done_4_b_a_call_that_is_never_polled_does_nothing() {
    within(async {
        let (node, desk) = desk(1).await;
        let accepted = node.metrics().accepted;
        drop(desk.ask(Serve::now(1)));
        drop(desk.send(Serve::now(1)));
        drop(node.spot::<Desk>("never").create());
        assert_eq!(node.metrics().accepted, accepted);
        assert_eq!(node.spot::<Desk>("never").find().unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn done_4_c_dropping_a_creation_keeps_what_was_begun() {
    within(async {
        let (node, _) = desk(1).await;
        let mut creation = Box::pin(node.spot::<Desk>("begun").create());
        let first = futures_util::poll!(&mut creation);
        drop(creation);
        assert!(first.is_pending() || first.is_ready());
        let found = node.spot::<Desk>("begun").find().unwrap();
        assert_eq!(found.ask(Serve::now(3)).await.unwrap(), 3);
    })
    .await;
}

#[tokio::test]
async fn done_5_a_the_completion_of_a_closed_asker_reaches_nobody() {
    within(async {
        for workers in [1, 2] {
            let (node, desk) = desk(workers).await;
            let clerk = node.actor::<Clerk>("c").create().await.unwrap();
            let (serve, entered, go) = Serve::held(7);
            let asking = Signal::new();
            clerk.send(AskDesk { serve, timeout: None, asking: asking.clone() }).await.unwrap();
            entered.wait().await;
            clerk.destroy().await.unwrap();
            let again = node.actor::<Clerk>("c").create().await.unwrap();
            assert!(again.generation() > clerk.generation());
            // The new one asks and waits, too, while the answer to the old one comes.
            let (other, _, other_go) = Serve::held(8);
            let asking = Signal::new();
            let waiting = AskDesk { serve: other, timeout: None, asking: asking.clone() };
            let waiting = tokio::spawn(again.ask(waiting));
            asking.wait().await;
            go.set();
            other_go.set();
            assert_eq!(waiting.await.unwrap().unwrap(), Ok(8));
            assert_eq!(again.ask(Answers).await.unwrap(), [8]);
            assert_eq!(node.metrics().late, 1);
            assert_eq!(desk.ask(Handled).await.unwrap(), 2);
        }
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "polled after it had ended")]
async fn done_6_a_an_ask_that_has_ended_cannot_be_used_again() {
    let (_node, desk) = desk(1).await;
    let mut asked = desk.ask(Serve::now(1));
    assert_eq!((&mut asked).await.unwrap(), 1);
    let _ = (&mut asked).await;
}

#[tokio::test]
#[should_panic(expected = "polled after it had ended")]
async fn done_6_b_a_creation_that_has_ended_cannot_be_used_again() {
    let (node, _desk) = desk(1).await;
    let mut creation = node.spot::<Desk>("once").create();
    (&mut creation).await.unwrap();
    let _ = (&mut creation).await;
}

/// Answers how much time its request has left.
#[derive(Message)]
#[message(reply = Option<Duration>)]
struct TimeLeft;
impl Handles<TimeLeft> for Desk {
    async fn handle(turn: &mut Turn<'_, Self>, _: TimeLeft) -> Result<Option<Duration>, Never> {
        Ok(turn.time_left())
    }
}

/// Asks the desk for what is left there, with a timeout of its own or none.
#[derive(Message)]
#[message(reply = Option<Duration>)]
struct Relay(#[message(no_heap)] Option<Duration>);
impl Handles<Relay> for Clerk {
    async fn handle(turn: &mut Turn<'_, Self>, relay: Relay) -> Result<Option<Duration>, Never> {
        let ask = turn.spot::<Desk>("D").ask(TimeLeft);
        let ask = match relay.0 {
            Some(timeout) => ask.timeout(timeout),
            None => ask,
        };
        Ok(ask.await.unwrap())
    }
}

#[tokio::test]
async fn done_7_a_a_call_in_a_turn_inherits_what_is_left() {
    within(async {
        let (node, _desk) = desk(2).await;
        let clerk = node.actor::<Clerk>("c").create().await.unwrap();
        let left = async |outer: u64, inner: Option<u64>| {
            let relay = Relay(inner.map(Duration::from_secs));
            clerk.ask(relay).timeout(Duration::from_secs(outer)).await.unwrap().unwrap()
        };
        let ten = left(10, None).await;
        assert!(ten <= Duration::from_secs(10) && ten > Duration::from_secs(5), "{ten:?}");
        let still_ten = left(10, Some(1000)).await;
        assert!(still_ten <= Duration::from_secs(10), "a longer one is cut: {still_ten:?}");
        let shorter = left(1000, Some(10)).await;
        assert!(shorter <= Duration::from_secs(10) && shorter > Duration::from_secs(5), "{shorter:?}");
        let default = left(1000, None).await;
        assert!(default <= Duration::from_secs(30) && default > Duration::from_secs(20), "{default:?}");
    })
    .await;
}

#[tokio::test]
async fn done_7_b_the_inner_call_ends_with_the_outer_deadline() {
    within(async {
        let (node, _desk) = desk(2).await;
        let clerk = node.actor::<Clerk>("c").create().await.unwrap();
        let (serve, entered, go) = Serve::held(1);
        let begun = Instant::now();
        let outer = clerk.ask(AskDesk { serve, timeout: Some(LIMIT), asking: Signal::new() });
        let outer = tokio::spawn(outer.timeout(Duration::from_millis(100)));
        entered.wait().await;
        // Both deadlines are the same moment: the outer wait expires, or the handler answers first that its own
        // did. Either way the end is that deadline's.
        let told = match outer.await.unwrap() {
            Ok(answered) => answered.unwrap_err(),
            Err(error) => error.kind(),
        };
        assert_eq!(told, Some(ErrorKind::DeadlineExceeded));
        // The clerk's own wait is over too, although the desk has not answered: it can be asked again.
        assert_eq!(clerk.ask(Answers).await.unwrap(), Vec::<u64>::new());
        assert!(begun.elapsed() < Duration::from_secs(20));
        go.set();
    })
    .await;
}

/// Tries work and creation in a turn whose request has no time left.
#[derive(Message)]
#[message(reply = ())]
struct Linger(#[message(no_heap)] Log<Option<ErrorKind>>);
impl Handles<Linger> for Clerk {
    async fn handle(turn: &mut Turn<'_, Self>, linger: Linger) -> Result<(), Never> {
        // The wait for I/O ends with the request.
        let io = turn.io(std::future::pending::<()>()).await;
        linger.0.push(io.err().map(|error| error.kind()));
        let cpu = turn.cpu(|| 1).await;
        linger.0.push(cpu.err().map(|error| error.kind()));
        let create = turn.spot::<Desk>("new").create().await;
        linger.0.push(create.err().map(|error| error.kind()));
        let ask = turn.spot::<Desk>("D").ask(Handled).await;
        linger.0.push(ask.err().and_then(|error| error.kind()));
        Ok(())
    }
}

#[tokio::test]
async fn done_7_c_work_and_creation_inherit_too_and_nothing_is_submitted_without_time() {
    within(async {
        let (node, _desk) = desk(2).await;
        let clerk = node.actor::<Clerk>("c").create().await.unwrap();
        let log = Log::new();
        let error = clerk.ask(Linger(log.clone())).timeout(Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(error.kind(), Some(ErrorKind::DeadlineExceeded));
        node.quiesce().await.unwrap();
        assert_eq!(log.take(), [Some(ErrorKind::DeadlineExceeded); 4]);
        assert_eq!(node.spot::<Desk>("new").find().unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn done_7_d_a_turn_of_a_send_has_no_deadline() {
    #[derive(Message)]
    struct Look(#[message(no_heap)] Log<Option<Duration>>);
    impl Handles<Look> for Desk {
        async fn handle(turn: &mut Turn<'_, Self>, look: Look) -> Result<(), Never> {
            look.0.push(turn.time_left());
            Ok(())
        }
    }
    within(async {
        let (node, desk) = desk(1).await;
        let log = Log::new();
        desk.send(Look(log.clone())).await.unwrap();
        node.quiesce().await.unwrap();
        assert_eq!(log.take(), [None]);
    })
    .await;
}

/// Many calls that end in every way at once: none hangs, and what is left is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn done_1_f_a_thousand_calls_at_once_end_once_each() {
    within(async {
        let (node, desk) = desk(2).await;
        let (serve, entered, go) = Serve::held(0);
        desk.send(serve).await.unwrap();
        entered.wait().await;
        let ended = Arc::new(AtomicU64::new(0));
        let calls: Vec<_> = (0..1000_u64)
            .map(|n| {
                let (desk, ended) = (desk.clone(), ended.clone());
                tokio::spawn(async move {
                    let timeout = if n % 2 == 0 { SHORT } else { LONG };
                    let answer = desk.ask(Serve::now(n)).timeout(timeout).await;
                    ended.fetch_add(1, Ordering::SeqCst);
                    answer.is_ok()
                })
            })
            .collect();
        while ended.load(Ordering::SeqCst) < 500 {
            tokio::task::yield_now().await;
        }
        go.set();
        let mut well = 0;
        for call in calls {
            well += u64::from(call.await.unwrap());
        }
        assert_eq!((ended.load(Ordering::SeqCst), well), (1000, 500));
        node.quiesce().await.unwrap();
        assert_eq!(node.metrics().late, 500);
        assert_eq!((desk.queued(), desk.reserved_bytes(), desk.waiting()), ((0, 0), (0, 0), (0, 0)));
    })
    .await;
}
