//! The driver by hand: this thread has the right to a gate, and everything it costs is counted.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use turnkeep_machines::lane::Limits;

use super::*;
use crate::access::{Access, Job, Started};
use crate::counters::Counters;
use crate::owner::{Class, Identity};
use crate::pool::{Pool, PoolConfig};
use crate::record::{Owned, Work};
use crate::sync::counted::cost_of;

#[derive(Default)]
struct Nobody(Arc<AtomicUsize>);

impl Identity for Nobody {
    fn ended(&self, _: Refusal) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn panicked(&self, _: &(dyn Any + Send)) {}
}

/// A gate whose pool has been stopped: whoever makes it ready has the right, and keeps it.
fn gate(claims: bool) -> Arc<Owner> {
    gate_with(claims, Limits::APPLICATION)
}

fn gate_with(claims: bool, application: Limits) -> Arc<Owner> {
    let pool = Pool::start(PoolConfig { workers: 1, ..PoolConfig::default() }, crate::io::handle()).unwrap();
    pool.stop();
    let class = Class {
        limits: [application, Limits::LIFECYCLE],
        budget_ns: u64::MAX,
        shares_gate: !claims,
        claims,
        is_asked: true,
        pool,
        counters: Arc::new(Counters::new()),
        recorder: None,
    };
    Owner::new(Arc::new(class), Box::new(Nobody::default()), None)
}

/// Gives the gate a state by its first record.
struct Make;
impl Work for Make {
    fn start(_: Owned<Self>, mut start: Start<'_>) -> Started {
        start.install(0_u64);
        start.done(Ending::done())
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}

fn made(claims: bool) -> Arc<Owner> {
    let gate = gate(claims);
    gate.try_submit(Record::lifecycle(0, Make)).unwrap();
    slice(gate.clone());
    gate
}

/// Adds one.
struct Add;
impl Work for Add {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<u64, _>(this)
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}
impl Job<u64> for Add {
    async fn run(self, mut access: Access<'_, u64>) -> Ending {
        *access.state_mut() += 1;
        Ending::done()
    }
}

/// Runs a future made from the access.
struct Run<F>(F);
impl<F> Work for Run<F>
where
    F: FnOnce(&mut u64) + Send + 'static,
{
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<u64, _>(this)
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}
impl<F: FnOnce(&mut u64) + Send + 'static> Job<u64> for Run<F> {
    async fn run(self, mut access: Access<'_, u64>) -> Ending {
        (self.0)(access.state_mut());
        Ending::done()
    }
}

fn value(gate: &Arc<Owner>) -> u64 {
    let seen = Arc::new(AtomicU64::new(0));
    let out = seen.clone();
    gate.try_submit(Record::application(0, Run(move |state: &mut u64| out.store(*state, Ordering::SeqCst))))
        .unwrap();
    slice(gate.clone());
    seen.load(Ordering::SeqCst)
}

#[test]
fn gate_12_a_taking_a_free_gate_is_one_exchange_and_no_lock() {
    let gate = made(false);
    gate.try_submit(Record::application(0, Add)).unwrap();
    let (mut holder, exchanges, locks) = cost_of(|| Holder::enter(&gate));
    assert_eq!((exchanges, locks), (1, 0));
    assert!(holder.core().has_work(false));
}

#[test]
fn gate_12_b_running_records_costs_no_exchange_and_no_lock_each() {
    let gate = made(false);
    let cost = |records: u64| {
        for _ in 0..records {
            gate.try_submit(Record::application(0, Add)).unwrap();
        }
        let (turns, exchanges, locks) = cost_of(|| slice(gate.clone()));
        assert_eq!(turns, records);
        (exchanges, locks)
    };
    cost(1);
    let (few, few_locks) = cost(1);
    let (many, many_locks) = cost(1000);
    assert_eq!(few, many, "the exchanges of a slice do not depend on how many records it runs");
    // Take the gate, and give it up.
    assert_eq!(few, 2);
    assert_eq!((few_locks, many_locks), (0, 0));
}

/// A wait that a test ends by hand, and that keeps the waker it was polled with.
#[derive(Clone, Default)]
struct ByHand(Arc<Mutex<(bool, Option<Waker>, u32)>>);

impl ByHand {
    fn end(&self) -> Waker {
        let mut inner = self.0.lock().unwrap();
        inner.0 = true;
        inner.1.clone().unwrap()
    }
    fn polls(&self) -> u32 {
        self.0.lock().unwrap().2
    }
}

impl Future for ByHand {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut inner = self.0.lock().unwrap();
        inner.2 += 1;
        if inner.0 {
            return Poll::Ready(());
        }
        inner.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Waits with the gate kept or given up, then adds a hundred.
struct WaitThenAdd {
    wait: ByHand,
    released: bool,
}
impl Work for WaitThenAdd {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.run::<u64, _>(this)
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}
impl Job<u64> for WaitThenAdd {
    async fn run(self, mut access: Access<'_, u64>) -> Ending {
        if self.released {
            access.released(self.wait).await;
        } else {
            self.wait.await;
        }
        *access.state_mut() += 100;
        Ending::done()
    }
}

#[test]
fn gate_7_a_kept_gate_lets_nothing_start_until_the_wait_has_ended() {
    let gate = made(false);
    let wait = ByHand::default();
    gate.try_submit(Record::application(0, WaitThenAdd { wait: wait.clone(), released: false })).unwrap();
    gate.try_submit(Record::application(0, Add)).unwrap();
    slice(gate.clone());
    assert_eq!(gate.in_use(Lane::Application).records, 2, "both are unfinished");
    wait.end().wake();
    slice(gate.clone());
    assert_eq!(value(&gate), 101);
}

#[test]
fn yield_4_a_given_up_gate_lets_the_next_record_run() {
    let gate = made(false);
    let wait = ByHand::default();
    gate.try_submit(Record::application(0, WaitThenAdd { wait: wait.clone(), released: true })).unwrap();
    gate.try_submit(Record::application(0, Add)).unwrap();
    slice(gate.clone());
    assert_eq!(value(&gate), 1, "the record behind ran, the handler still waits");
    wait.end().wake();
    slice(gate.clone());
    assert_eq!(value(&gate), 101);
}

#[test]
fn yield_5_an_owner_that_claims_runs_nothing_of_its_own_meanwhile() {
    let gate = made(true);
    let wait = ByHand::default();
    gate.try_submit(Record::application(0, WaitThenAdd { wait: wait.clone(), released: true })).unwrap();
    gate.try_submit(Record::application(0, Add)).unwrap();
    slice(gate.clone());
    assert_eq!(gate.in_use(Lane::Application).records, 2);
    wait.end().wake();
    slice(gate.clone());
    assert_eq!(value(&gate), 101);
}

#[test]
fn gate_9_a_wake_for_a_handler_that_is_over_polls_nobody() {
    for released in [false, true] {
        let gate = made(false);
        let first = ByHand::default();
        gate.try_submit(Record::application(0, WaitThenAdd { wait: first.clone(), released })).unwrap();
        slice(gate.clone());
        let stale = first.end();
        stale.wake_by_ref();
        slice(gate.clone());
        let second = ByHand::default();
        gate.try_submit(Record::application(0, WaitThenAdd { wait: second.clone(), released })).unwrap();
        slice(gate.clone());
        let polls = second.polls();
        for _ in 0..10 {
            stale.wake_by_ref();
        }
        assert_eq!(second.polls(), polls);
        second.end().wake();
        slice(gate.clone());
        assert_eq!(value(&gate), 200, "released: {released}");
    }
}

#[test]
fn yield_10_a_cancelled_object_drops_its_waiting_handlers_and_refuses_the_rest() {
    for released in [false, true] {
        let refused = Arc::new(AtomicUsize::new(0));
        struct Refusable(Arc<AtomicUsize>);
        impl Work for Refusable {
            fn start(_: Owned<Self>, start: Start<'_>) -> Started {
                start.done(Ending::done())
            }
            fn refuse(self, _: &Owner, why: Refusal) {
                assert_eq!(why, Refusal::Ended);
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let gate = made(true);
        let wait = ByHand::default();
        let alive = Arc::downgrade(&wait.0);
        gate.try_submit(Record::application(0, WaitThenAdd { wait, released })).unwrap();
        gate.try_submit(Record::application(0, Refusable(refused.clone()))).unwrap();
        slice(gate.clone());
        assert!(alive.upgrade().is_some());
        gate.cancel();
        slice(gate.clone());
        assert!(alive.upgrade().is_none(), "the handler was dropped, released: {released}");
        assert_eq!(refused.load(Ordering::SeqCst), 1);
        assert!(gate.try_submit(Record::application(0, Refusable(refused.clone()))).is_err());
        assert_eq!(gate.in_use(Lane::Application).records, 0);
    }
}

#[test]
fn lane_3_a_panicking_handler_gives_its_reservation_back() {
    let gate = made(false);
    gate.try_submit(Record::application(100, Run(|_: &mut u64| panic!("on purpose")))).unwrap();
    slice(gate.clone());
    assert_eq!(gate.in_use(Lane::Application).bytes, 0);
    assert!(gate.is_sealed(), "a panic past the layer above stops the object");
}

/// A future too large for a standard block, and one that wants more alignment than blocks have.
#[test]
fn gate_1_large_and_over_aligned_futures_run_where_they_fit() {
    #[repr(align(256))]
    struct Aligned(u8);

    struct Large;
    impl Work for Large {
        fn start(work: Owned<Self>, start: Start<'_>) -> Started {
            let this = work.into_inner();
            start.run::<u64, _>(this)
        }
        fn refuse(self, _: &Owner, _: Refusal) {}
    }
    impl Job<u64> for Large {
        async fn run(self, mut access: Access<'_, u64>) -> Ending {
            let large = [7_u8; 100_000];
            let aligned = Aligned(3);
            assert_eq!(std::ptr::from_ref(&aligned).addr() % 256, 0);
            let mut turns = 0;
            std::future::poll_fn(|cx| {
                turns += 1;
                cx.waker().wake_by_ref();
                if turns < 3 { Poll::Pending } else { Poll::Ready(()) }
            })
            .await;
            *access.state_mut() += u64::from(large[99_999]) + u64::from(aligned.0);
            Ending::done()
        }
    }
    let gate = made(false);
    gate.try_submit(Record::application(0, Large)).unwrap();
    for _ in 0..3 {
        slice(gate.clone());
    }
    assert_eq!(value(&gate), 10);
}

#[test]
fn lane_6_a_wait_that_was_served_takes_nobody_else_out_of_a_later_line() {
    let gate = gate_with(false, Limits::new(1, 10_000).unwrap());
    gate.try_submit(Record::lifecycle(0, Make)).unwrap();
    slice(gate.clone());
    gate.try_submit(Record::application(0, Add)).unwrap();
    let served = gate.submit_or_wait(Record::application(0, Add)).unwrap().expect("the lane is full");
    slice(gate.clone());
    assert_eq!(gate.waiters(Lane::Application), 0, "the first wait was served, the line is gone");
    gate.try_submit(Record::application(0, Add)).unwrap();
    let waiting = gate.submit_or_wait(Record::application(0, Add)).unwrap().expect("the lane is full");
    drop(served);
    assert_eq!(gate.waiters(Lane::Application), 1, "the second wait stands in a line of its own");
    slice(gate.clone());
    assert_eq!(waiting.wait_blocking().map_err(|_| "refused"), Ok(()));
    assert_eq!(value(&gate), 4);
}

/// Seals its owner.
struct Close(Arc<Mutex<Vec<&'static str>>>);
impl Work for Close {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        start.done(Ending::seal(Record::unmetered(Note("last", this.0))))
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}

/// Says that it ran, or was refused.
struct Note(&'static str, Arc<Mutex<Vec<&'static str>>>);
impl Work for Note {
    fn start(work: Owned<Self>, start: Start<'_>) -> Started {
        let this = work.into_inner();
        this.1.lock().unwrap().push(this.0);
        let ending = if this.0 == "last" { Ending::end(Refusal::Ended) } else { Ending::done() };
        start.done(ending)
    }
    fn refuse(self, _: &Owner, _: Refusal) {
        self.1.lock().unwrap().push("refused");
    }
}

#[test]
fn lane_7_b_a_close_waits_for_an_admission_between_its_decision_and_its_append() {
    let gate = made(false);
    let log = Arc::new(Mutex::new(Vec::new()));
    let record = Record::application(0, Note("late", log.clone()));
    gate.admit_only(&record).unwrap();
    gate.try_submit(Record::lifecycle(0, Close(log.clone()))).unwrap();
    slice(gate.clone());
    assert!(gate.is_sealed());
    assert_eq!(*log.lock().unwrap(), [""; 0], "the last record waits");
    gate.accept(record, false);
    slice(gate.clone());
    assert_eq!(*log.lock().unwrap(), ["late", "last"]);
}

#[test]
fn lane_7_c_an_owner_that_is_handed_over_is_settled_when_all_is_appended() {
    let gate = made(false);
    let log = Arc::new(Mutex::new(Vec::new()));
    let record = Record::application(0, Note("late", log.clone()));
    gate.admit_only(&record).unwrap();
    gate.hand_over();
    slice(gate.clone());
    assert!(!gate.is_settled(false), "one is under way");
    assert!(matches!(gate.try_submit(Record::application(0, Add)), Err((Refusal::HandedOver, _))));
    gate.accept(record, false);
    slice(gate.clone());
    assert!(gate.is_settled(false));
    assert_eq!(log.lock().unwrap().len(), 0, "nothing runs meanwhile");
    gate.take_back();
    slice(gate.clone());
    assert_eq!(*log.lock().unwrap(), ["late"]);
    gate.try_submit(Record::application(0, Add)).unwrap();
    slice(gate.clone());
    assert_eq!(value(&gate), 1);
}

#[test]
fn lane_7_d_an_undo_opens_no_owner_that_was_sealed_for_good() {
    let gate = made(false);
    gate.hand_over();
    gate.seal(Refusal::Ended);
    gate.take_back();
    slice(gate.clone());
    assert!(matches!(gate.try_submit(Record::application(0, Add)), Err((Refusal::Ended, _))));
}

#[test]
fn yield_9_a_handed_over_gate_lets_resumes_pass_its_own_records() {
    let gate = made(false);
    let wait = ByHand::default();
    gate.try_submit(Record::application(0, WaitThenAdd { wait: wait.clone(), released: true })).unwrap();
    slice(gate.clone());
    let log = Arc::new(Mutex::new(Vec::new()));
    gate.try_submit(Record::lifecycle(0, Note("lifecycle", log.clone()))).unwrap();
    for name in ["one", "two", "three"] {
        gate.try_submit(Record::application(0, Note(name, log.clone()))).unwrap();
    }
    gate.hand_over();
    wait.end().wake();
    slice(gate.clone());
    assert_eq!(gate.suspended(), 0, "the handler ended");
    assert!(gate.is_settled(false));
    assert_eq!(*log.lock().unwrap(), ["lifecycle"]);
    gate.take_back();
    slice(gate.clone());
    assert_eq!(*log.lock().unwrap(), ["lifecycle", "one", "two", "three"]);
}

/// Loses its state, and gets another.
struct Restart;
impl Work for Restart {
    fn start(_: Owned<Self>, start: Start<'_>) -> Started {
        start.done(Ending::restart(Record::unmetered(Make)))
    }
    fn refuse(self, _: &Owner, _: Refusal) {}
}

#[test]
fn err_3_a_restart_drops_waiting_handlers_and_keeps_the_queue() {
    for claims in [false, true] {
        let gate = made(claims);
        let wait = ByHand::default();
        if !claims {
            gate.try_submit(Record::application(0, WaitThenAdd { wait: wait.clone(), released: true }))
                .unwrap();
        }
        gate.try_submit(Record::application(0, Add)).unwrap();
        gate.try_submit(Record::application(0, Restart)).unwrap();
        gate.try_submit(Record::application(0, Add)).unwrap();
        gate.try_submit(Record::application(0, Add)).unwrap();
        slice(gate.clone());
        assert_eq!(gate.suspended(), 0);
        if !claims {
            // The waker of a dropped handler is anybody's, and wakes nobody.
            wait.end().wake();
        }
        slice(gate.clone());
        assert_eq!(value(&gate), 2, "the two behind it, on a new state");
        assert_eq!(gate.in_use(Lane::Application).records, 0);
    }
}
