//! The driver with tasks of its own: order, panics, the root, the stop.

use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::pool::Pool;

/// A task that runs a piece of code.
struct Fun<F>(F);

impl<F: Fn() + Send + Sync + 'static> Run for Fun<F> {
    fn run(self: Arc<Self>) -> u64 {
        (self.0)();
        1
    }

    fn name(&self) -> &'static str {
        "fun"
    }
}

fn fun(code: impl Fn() + Send + Sync + 'static) -> Arc<dyn Run> {
    Arc::new(Fun(code))
}

fn run_all(driver: &Driver) {
    while driver.step() != Step::Idle {}
}

/// The order in which ten tasks run.
fn order_of_ten(seed: u64) -> Vec<usize> {
    let (driver, ran) = (Driver::new(seed), Arc::new(Mutex::new(Vec::new())));
    let pool = Pool::driven(driver.clone());
    for number in 0..10 {
        let ran = ran.clone();
        pool.schedule(fun(move || ran.lock().push(number)));
    }
    assert!(!driver.is_idle());
    run_all(&driver);
    let order = ran.lock().clone();
    assert_eq!((order.len(), driver.steps()), (10, 10));
    order
}

#[test]
fn driven_a_seed_says_the_order() {
    assert_eq!(order_of_ten(1), order_of_ten(1));
    assert!((2..20).any(|seed| order_of_ten(seed) != order_of_ten(1)));
}

#[test]
fn driven_what_goes_behind_comes_after_what_is_ready() {
    for seed in 0..50 {
        let (driver, ran) = (Driver::new(seed), Arc::new(Mutex::new(Vec::new())));
        let pool = Pool::driven(driver.clone());
        let task = |number: usize| {
            let ran = ran.clone();
            fun(move || ran.lock().push(number))
        };
        pool.schedule_behind(task(0));
        (1..5).for_each(|number| pool.schedule(task(number)));
        pool.schedule_behind(task(5));
        run_all(&driver);
        let ran = ran.lock();
        let place = |number: usize| ran.iter().position(|other| *other == number);
        assert!((1..5).all(|ready| place(ready) < place(5)), "seed {seed}: {ran:?}");
    }
}

#[test]
fn driven_a_panic_costs_its_slice_only() {
    let driver = Driver::new(1);
    let pool = Pool::driven(driver.clone());
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let ran = ran.clone();
        pool.schedule(fun(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            std::panic::resume_unwind(Box::new("expected"));
        }));
    }
    run_all(&driver);
    assert_eq!(ran.load(Ordering::SeqCst), 3);
    assert!(!driver.is_here());
}

#[test]
fn driven_the_root_is_ready_once_however_often_it_is_woken() {
    let driver = Driver::new(1);
    driver.wake_root();
    driver.wake_root();
    assert_eq!((driver.step(), driver.step()), (Step::Root, Step::Idle));
    driver.wake_root();
    assert_eq!(driver.step(), Step::Root);
}

#[test]
fn driven_a_stop_drops_what_is_ready_and_what_comes_later() {
    let driver = Driver::new(1);
    let pool = Pool::driven(driver.clone());
    let ran = Arc::new(AtomicUsize::new(0));
    let task = || {
        let ran = ran.clone();
        fun(move || {
            ran.fetch_add(1, Ordering::SeqCst);
        })
    };
    let gone: Vec<Weak<dyn Run>> = (0..3)
        .map(|_| {
            let task = task();
            pool.schedule(task.clone());
            Arc::downgrade(&task)
        })
        .collect();
    pool.stop();
    pool.schedule(task());
    pool.schedule_behind(task());
    run_all(&driver);
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(gone.iter().all(|task| task.upgrade().is_none()));
}

#[test]
fn driven_a_thread_counts_as_a_driving_one_while_it_is_claimed() {
    let count = || crate::pool::on_any_worker();
    assert!(!count());
    let (one, other) = (Claim::new(), Claim::new());
    drop(one);
    assert!(count());
    drop(other);
    assert!(!count());
}

#[test]
fn driven_the_transcript_keeps_the_last_events_and_the_print_of_all() {
    let driver = Driver::new(1);
    let note = |number: usize| driver.note(What::Turn, "spot", &format!("a::b::Land<c::D<{number}>, e::F>"));
    note(0);
    let line = driver.transcript().to_string();
    assert!(line.trim_end().ends_with("turn      spot  Land<D<0>, F>"), "{line}");
    (1..TRANSCRIPT_MAX + 10).for_each(note);
    let (one, other) = (driver.transcript(), Driver::new(1).transcript());
    assert_eq!((one.events().count(), one.dropped()), (TRANSCRIPT_MAX, 10));
    assert_ne!(one.fingerprint(), other.fingerprint());
    assert!(one.to_string().starts_with("(10 events before these)"));
}
