//! The slot: every way to end, and in the models every order of the ends.

use std::sync::atomic::AtomicUsize as Count;
use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// Counts its drops in a plain counter, outside what the models explore.
struct Counted(std::sync::Arc<Count>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A waker that counts.
#[derive(Default)]
struct Wakes(Count);

impl Wake for Wakes {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Wakes {
    fn new() -> (std::sync::Arc<Wakes>, Waker) {
        let wakes = std::sync::Arc::new(Wakes::default());
        (wakes.clone(), wakes.into())
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn poll<T: Send + 'static>(wait: &mut Wait<T>, waker: &Waker) -> Option<Outcome<T>> {
    match Pin::new(wait).poll(&mut Context::from_waker(waker)) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// The deadline's end of a slot.
fn expiry<T: Send + 'static>(wait: &Wait<T>) -> Waker {
    wait.slot.as_ref().unwrap().clone().into_waker()
}

#[cfg(not(turnkeep_loom))]
mod plain {
    use super::*;

    #[test]
    fn done_1_completed_before_the_poll_is_done_and_registers_nothing() {
        let (completer, mut wait) = completion();
        assert_eq!(completer.complete(5), Ok(()));
        wait = wait.with_deadline(0);
        assert_eq!(poll(&mut wait, Waker::noop()), Some(Outcome::Done(5)));
        assert!(wait.key.is_none());
        assert_eq!(wait.try_take(), None);
    }

    #[test]
    fn done_1_completion_wakes_the_last_waker_once() {
        let (completer, mut wait) = completion();
        let (old, old_waker) = Wakes::new();
        let (new, new_waker) = Wakes::new();
        assert_eq!(poll(&mut wait, &old_waker), None);
        assert_eq!(poll(&mut wait, &old_waker), None);
        assert_eq!(poll(&mut wait, &new_waker), None);
        assert!(!completer.is_over());
        assert_eq!(completer.complete("x"), Ok(()));
        assert_eq!((old.count(), new.count()), (0, 1));
        assert_eq!(wait.try_take(), Some(Outcome::Done("x")));
    }

    #[test]
    fn done_1_late_completion_gives_the_value_back() {
        let (completer, wait) = completion();
        drop(expiry(&wait));
        expiry(&wait).wake_by_ref();
        assert!(completer.is_over());
        assert_eq!(completer.complete(5), Err(5));
        assert_eq!(wait.wait_blocking(), Outcome::Expired);
    }

    #[test]
    fn done_1_expiry_of_a_decided_slot_does_nothing() {
        let (completer, mut wait) = completion();
        let (expire, copy) = (expiry(&wait), expiry(&wait).clone());
        assert_eq!(completer.complete(5), Ok(()));
        expire.wake();
        assert_eq!(wait.try_take(), Some(Outcome::Done(5)));
        drop(wait);
        copy.wake();
    }

    #[test]
    fn done_1_dropped_completer_ends_the_wait() {
        let (completer, mut wait) = completion::<u8>();
        let (wakes, waker) = Wakes::new();
        assert_eq!(poll(&mut wait, &waker), None);
        drop(completer);
        assert_eq!(wakes.count(), 1);
        assert_eq!(poll(&mut wait, &waker), Some(Outcome::Dropped));
    }

    #[test]
    fn work_3_completer_that_expires_completes_nothing() {
        let (completer, wait) = completion::<u8>();
        assert!(completer.expire());
        assert_eq!(wait.wait_blocking(), Outcome::Expired);
        let (completer, wait) = completion::<u8>();
        drop(wait);
        assert!(!completer.expire());
    }

    #[test]
    fn done_4_dropped_wait_makes_the_completion_late_and_frees_the_waker() {
        let (completer, mut wait) = completion();
        let (wakes, waker) = Wakes::new();
        assert_eq!(poll(&mut wait, &waker), None);
        drop((waker, wait));
        assert_eq!(std::sync::Arc::strong_count(&wakes), 1);
        assert_eq!(completer.complete(7), Err(7));
    }

    #[test]
    fn done_1_value_is_dropped_once_whoever_has_it() {
        let drops = std::sync::Arc::new(Count::new(0));
        let (completer, wait) = completion();
        assert!(completer.complete(Counted(drops.clone())).is_ok());
        drop(wait);
        assert_eq!(drops.load(SeqCst), 1);
        let (completer, wait) = completion();
        drop(wait);
        drop(completer.complete(Counted(drops.clone())));
        assert_eq!(drops.load(SeqCst), 2);
    }

    #[test]
    fn done_1_ended_wait_leaves_no_registration() {
        let far_ns = ticks::after(3_600_000_000_000);
        let pending = |wait: &Wait<u8>| wait.key;
        let (completer, wait) = completion();
        let mut wait = wait.with_deadline(far_ns);
        assert_eq!(pending(&wait), None, "lazily");
        assert_eq!(poll(&mut wait, Waker::noop()), None);
        let key = pending(&wait).unwrap();
        assert_eq!(completer.complete(1), Ok(()));
        assert_eq!(poll(&mut wait, Waker::noop()), Some(Outcome::Done(1)));
        assert!(!Deadlines::global().cancel(key), "cancelled with the outcome");

        let (_completer, wait) = completion();
        let mut wait = wait.with_deadline(far_ns);
        assert_eq!(poll(&mut wait, Waker::noop()), None);
        let key = pending(&wait).unwrap();
        drop(wait);
        assert!(!Deadlines::global().cancel(key), "cancelled with the wait");
    }

    #[test]
    fn done_1_passed_deadline_expires_in_the_first_poll() {
        let (completer, wait) = completion::<u8>();
        let mut wait = wait.with_deadline(1);
        assert_eq!(poll(&mut wait, Waker::noop()), Some(Outcome::Expired));
        assert_eq!(completer.complete(1), Err(1));
    }

    #[test]
    #[should_panic(expected = "polled after it had ended")]
    fn done_1_second_outcome_is_refused() {
        let (completer, mut wait) = completion();
        assert_eq!(completer.complete(5), Ok(()));
        assert!(wait.try_take().is_some());
        let _never = poll(&mut wait, Waker::noop());
    }

    #[test]
    fn done_1_blocking_wait_is_woken_by_another_thread() {
        let (completer, wait) = completion();
        let other = std::thread::spawn(move || completer.complete(11));
        assert_eq!(wait.wait_blocking(), Outcome::Done(11));
        assert_eq!(other.join().unwrap(), Ok(()));
    }

    #[test]
    fn done_1_four_ends_race_and_each_value_is_dropped_once() {
        let drops = std::sync::Arc::new(Count::new(0));
        let rounds = if cfg!(miri) { 20 } else { 2_000 };
        for round in 0..rounds {
            let (completer, mut wait) = completion();
            let expire = expiry(&wait);
            let start = std::sync::Barrier::new(3);
            let value = Counted(drops.clone());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    start.wait();
                    drop(completer.complete(value));
                });
                scope.spawn(|| {
                    start.wait();
                    expire.wake();
                });
                start.wait();
                if round % 2 == 0 {
                    let _outcome = poll(&mut wait, Waker::noop());
                }
                drop(wait);
            });
            assert_eq!(drops.load(SeqCst), round + 1);
        }
    }
}

#[cfg(turnkeep_loom)]
mod models {
    use loom::thread::spawn;

    use super::*;

    /// Runs every order, each with a fresh drop counter, and wants exactly one drop at the end.
    fn model(body: impl Fn(Counted) + Send + Sync + 'static) {
        check(loom::model::Builder::new(), body);
    }

    /// The same with at most three preemptions a run, for three ends whose every order takes too long.
    fn model_three_preemptions(body: impl Fn(Counted) + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        check(builder, body);
    }

    fn check(builder: loom::model::Builder, body: impl Fn(Counted) + Send + Sync + 'static) {
        builder.check(move || {
            let drops = std::sync::Arc::new(Count::new(0));
            body(Counted(drops.clone()));
            assert_eq!(drops.load(SeqCst), 1, "the value is dropped once");
        });
    }

    #[test]
    fn loom_done_1_complete_expire_and_poll_have_one_winner() {
        model(|value| {
            let (completer, mut wait) = completion();
            let expire = expiry(&wait);
            let other = spawn(move || expire.wake());
            let one = spawn(move || completer.complete(value).is_ok());
            let outcome = poll(&mut wait, Waker::noop());
            let completed = one.join().unwrap();
            other.join().unwrap();
            match outcome.or_else(|| wait.try_take()) {
                Some(Outcome::Done(_)) => assert!(completed),
                Some(Outcome::Expired) => assert!(!completed),
                _ => unreachable!("both ends ran"),
            }
        });
    }

    #[test]
    fn loom_done_1_complete_expire_and_drop_of_the_wait_have_one_winner() {
        model_three_preemptions(|value| {
            let (completer, wait) = completion();
            let expire = expiry(&wait);
            let one = spawn(move || completer.complete(value).err().map(drop));
            let other = spawn(move || expire.wake());
            drop(wait);
            one.join().unwrap();
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_done_1_polled_wait_dropped_while_completing() {
        model(|value| {
            let (completer, mut wait) = completion();
            assert!(poll(&mut wait, Waker::noop()).is_none());
            let one = spawn(move || completer.complete(value).err().map(drop));
            drop(wait);
            one.join().unwrap();
        });
    }

    #[test]
    fn loom_done_1_waker_replaced_while_completing_is_woken_or_sees_it() {
        model(|value| {
            let (completer, mut wait) = completion();
            let (_old, old_waker) = Wakes::new();
            let (new, new_waker) = Wakes::new();
            assert!(poll(&mut wait, &old_waker).is_none());
            let one = spawn(move || completer.complete(value).is_ok());
            let outcome = poll(&mut wait, &new_waker);
            assert!(one.join().unwrap());
            assert!(outcome.is_some() || new.count() == 1, "a pending poll's waker is woken");
        });
    }

    #[test]
    fn loom_done_1_waker_replaced_while_completing_and_expiring() {
        model_three_preemptions(|value| {
            let (completer, mut wait) = completion();
            let (_old, old_waker) = Wakes::new();
            let (new, new_waker) = Wakes::new();
            assert!(poll(&mut wait, &old_waker).is_none());
            let expire = expiry(&wait);
            let one = spawn(move || completer.complete(value).err().map(drop));
            let other = spawn(move || expire.wake());
            let outcome = poll(&mut wait, &new_waker);
            one.join().unwrap();
            other.join().unwrap();
            assert!(outcome.is_some() || new.count() == 1, "a pending poll's waker is woken once");
            drop(outcome.or_else(|| wait.try_take()).expect("both ends ran"));
        });
    }

    #[test]
    fn loom_done_1_completer_dropped_while_polled_is_seen_or_wakes() {
        loom::model(|| {
            let (completer, mut wait) = completion::<u8>();
            let (wakes, waker) = Wakes::new();
            let one = spawn(move || drop(completer));
            let outcome = poll(&mut wait, &waker);
            one.join().unwrap();
            assert!(outcome.is_some() || wakes.count() == 1);
            assert_eq!(outcome.or_else(|| wait.try_take()), Some(Outcome::Dropped));
        });
    }

    #[test]
    fn loom_done_1_completer_dropped_while_the_wait_is_dropped() {
        loom::model(|| {
            let (completer, mut wait) = completion::<u8>();
            assert!(poll(&mut wait, Waker::noop()).is_none());
            let one = spawn(move || drop(completer));
            drop(wait);
            one.join().unwrap();
        });
    }
}
