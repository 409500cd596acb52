//! The service: its front, its thread, its panics.
#![cfg(not(turnkeep_loom))]

use std::sync::mpsc;

use super::*;
use crate::completion::Outcome;

/// Says its number when it expires.
struct Tell(mpsc::Sender<u64>, u64);

impl Expire for Tell {
    fn expire(&self) {
        let _gone = self.0.send(self.1);
    }
}

struct Panics;

impl Expire for Panics {
    fn expire(&self) {
        std::panic::resume_unwind(Box::new("expected"));
    }
}

const OUTER_BOUND: Duration = Duration::from_secs(30);

#[test]
fn dom_1_deadline_expires_and_never_early() {
    let (told, heard) = mpsc::channel();
    for after_ms in [0, 1, 3, 17, 70] {
        let at_ns = ticks::after(after_ms * 1_000_000);
        Deadlines::global().register(at_ns, Arc::new(Tell(told.clone(), at_ns)));
    }
    for _ in 0..5 {
        let at_ns = heard.recv_timeout(OUTER_BOUND).unwrap();
        assert!(ticks::now() >= at_ns);
    }
}

#[test]
fn dom_1_earlier_deadline_wakes_a_sleeping_clock() {
    let (told, heard) = mpsc::channel();
    let far = Deadlines::global().register(ticks::after(3_600_000_000_000), Arc::new(Tell(told.clone(), 1)));
    Deadlines::global().register(ticks::after(2_000_000), Arc::new(Tell(told, 2)));
    assert_eq!(heard.recv_timeout(OUTER_BOUND), Ok(2));
    assert!(Deadlines::global().cancel(far));
    assert!(heard.recv().is_err(), "cancelled: the target is gone and said nothing");
}

#[test]
fn done_1_cancelled_deadline_never_expires_and_a_stale_key_does_nothing() {
    let service = Deadlines::idle(ticks::now());
    let (told, heard) = mpsc::channel();
    let years_ns = 50 * 365 * 86_400 * 1_000_000_000;
    let first = service.register(ticks::after(years_ns), Arc::new(Tell(told.clone(), 1)));
    assert_eq!(service.pending(), 1);
    assert!(service.cancel(first));
    assert!(!service.cancel(first));
    let second = service.register(u64::MAX, Arc::new(Tell(told, 2)));
    assert!(!service.cancel(first), "another registration in the same place");
    assert_eq!(service.pending(), 1);
    assert!(service.cancel(second));
    assert_eq!(service.pending(), 0);
    assert!(heard.recv().is_err());
}

#[test]
fn dom_1_panicking_target_stops_no_other() {
    let (told, heard) = mpsc::channel();
    let at_ns = ticks::now();
    Deadlines::global().register(at_ns, Arc::new(Panics));
    Deadlines::global().register(at_ns, Arc::new(Tell(told, 9)));
    assert_eq!(heard.recv_timeout(OUTER_BOUND), Ok(9));
}

#[test]
fn dom_1_a_wave_expires_in_bounded_steps() {
    let service = Deadlines::idle(ticks::now());
    let (told, heard) = mpsc::channel();
    for number in 0..1_000 {
        service.register(ticks::now(), Arc::new(Tell(told.clone(), number)));
    }
    let last_ns = ticks::now() + 2 * TICK_NS;
    while ticks::now() < last_ns {
        std::thread::yield_now();
    }
    service.expire_due(&mut Vec::new());
    assert_eq!((heard.try_iter().count(), service.pending()), (1_000, 0));
}

#[test]
fn done_1_wait_expires_through_the_service() {
    let (_completer, wait) = completion::<()>();
    assert_eq!(wait.with_deadline(ticks::after(2_000_000)).wait_blocking(), Outcome::Expired);
}

#[test]
fn dom_1_sleep_ends_and_not_early() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let at_ns = ticks::after(5_000_000);
    runtime.block_on(sleep_until(at_ns));
    assert!(ticks::now() >= at_ns);
    runtime.block_on(sleep_until(0));
}

/// Counts how often it expires.
#[derive(Default)]
struct Once(std::sync::atomic::AtomicUsize);

impl Expire for Once {
    fn expire(&self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn done_1_each_registration_expires_or_is_cancelled_once() {
    let service = Deadlines::global();
    let worker = |number: u64| {
        let mut unsure = Vec::new();
        for round in 0..3_000 {
            let target = Arc::new(Once::default());
            let key = service.register(ticks::after((round * 7 + number) % 3 * 400_000), target.clone());
            let cancelled = round % 2 == 0 && service.cancel(key);
            unsure.push((target, cancelled));
        }
        unsure
    };
    let ended = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|number| scope.spawn(move || worker(number))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    for (target, cancelled) in ended {
        // The service's reference goes with the end of the registration.
        while Arc::strong_count(&target) > 1 {
            std::thread::yield_now();
        }
        assert_eq!(target.0.load(std::sync::atomic::Ordering::SeqCst), usize::from(!cancelled));
    }
}
