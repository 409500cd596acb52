//! Who of the pool's workers sleeps, who keeps watch and who has been called: the code of `sleep.md`.
//!
//! Nothing here knows of queues or tasks. The roster (a lock, taken only when somebody goes to sleep, gets
//! up or is woken) is the truth; the head word is its summary, written only under that lock and read by
//! everyone. The names in brackets below are those of the page.

use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

#[cfg(turnkeep_loom)]
use loom::thread::{Thread, current, park};
#[cfg(not(turnkeep_loom))]
use std::thread::{Thread, current, park, park_timeout};

/// A timed park may end at any moment, so the model gives it no time at all.
#[cfg(turnkeep_loom)]
fn park_timeout(_: Duration) {
    loom::thread::yield_now();
}

/// The most workers that the head word can count.
pub(super) const WORKERS_MAX: usize = COUNT_MASK;

/// Bit 0: some sleeper holds the watch post.
const POST: usize = 1;
/// Bits 1 to 15: workers that are down.
const DOWN_SHIFT: u32 = 1;
/// Bits 16 to 30: workers that were called, or linger, and have not yet answered.
const CALLED_SHIFT: u32 = 16;
const COUNT_MASK: usize = (1 << 15) - 1;

/// How a worker that has just lain down is to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Until news comes.
    Sound,
    /// It holds the watch post: until news comes or the watch period is over.
    Watch,
}

/// What a worker that has got up must still do, so that no push is left to a call it has just answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Owed {
    /// Nothing.
    Nothing,
    /// Look at the shared queue once more and `call` if anything is in it [second look].
    SecondLook,
}

/// The summary in one word.
#[derive(Clone, Copy)]
struct Head(usize);

impl Head {
    fn down(self) -> usize {
        (self.0 >> DOWN_SHIFT) & COUNT_MASK
    }

    fn called(self) -> usize {
        (self.0 >> CALLED_SHIFT) & COUNT_MASK
    }

    /// Somebody sleeps and nobody is on the way.
    fn can_call(self) -> bool {
        self.down() > 0 && self.called() == 0
    }

    /// Somebody sleeps and nobody keeps watch: harmless only as long as nobody has queued work [vacancy].
    fn is_unwatched(self) -> bool {
        self.down() > 0 && self.0 & POST == 0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Awake on its own account.
    Up,
    /// Awake, or about to be, because somebody called it; or looking around as if somebody had.
    Called,
    /// On the roster; asleep, or about to be, or looking around on its watch.
    Down,
}

struct Roster {
    /// Changed by each of the verbs.
    standing: Box<[Standing]>,
    /// Set when the worker first lies down.
    threads: Box<[Option<Thread>]>,
    /// The workers that stand at `Down`, the latest last.
    down: Vec<usize>,
    /// How many stand at `Called`.
    called: usize,
    /// Who keeps watch; always one of `down`.
    post: Option<usize>,
}

impl Roster {
    fn head(&self) -> Head {
        let post = if self.post.is_some() { POST } else { 0 };
        Head(post | self.down.len() << DOWN_SHIFT | self.called << CALLED_SHIFT)
    }

    fn all_down(&self) -> bool {
        self.down.len() == self.standing.len()
    }

    /// Puts `me` on the roster; it may be there already (a watcher that found nothing).
    fn lay(&mut self, me: usize) {
        match self.standing[me] {
            Standing::Down => return,
            Standing::Called => self.called -= 1,
            Standing::Up => {}
        }
        self.standing[me] = Standing::Down;
        self.threads[me].get_or_insert_with(current);
        self.down.push(me);
    }

    /// The watch rule: as long as anybody is awake, one of those who are down keeps watch.
    fn watch_or_sleep(&mut self, me: usize) -> Rest {
        match self.post {
            Some(holder) if holder != me => Rest::Sound,
            _ if self.all_down() => {
                self.post = None;
                Rest::Sound
            }
            _ => {
                self.post = Some(me);
                Rest::Watch
            }
        }
    }

    /// Takes `me` off the roster; true if it answers a call by that.
    fn raise(&mut self, me: usize) -> bool {
        let was = std::mem::replace(&mut self.standing[me], Standing::Up);
        match was {
            Standing::Down => self.down.retain(|&other| other != me),
            Standing::Called => self.called -= 1,
            Standing::Up => {}
        }
        was == Standing::Called
    }

    /// Whom to call: the latest that does not keep watch, else the watcher (then nobody else is down).
    fn pick(&mut self) -> Option<usize> {
        let at = self.down.iter().rposition(|&other| Some(other) != self.post);
        let picked = match at {
            Some(at) => self.down.remove(at),
            None => self.down.pop()?,
        };
        if self.post == Some(picked) {
            debug_assert!(self.down.is_empty(), "LANE-14: the watch post was left with sleepers behind it");
            self.post = None;
        }
        self.standing[picked] = Standing::Called;
        self.called += 1;
        Some(picked)
    }
}

/// The sleep protocol of one pool.
pub(super) struct Sleep {
    /// Written only by `publish`, under the roster's lock.
    head: CachePadded<AtomicUsize>,
    /// Per worker: set by whoever calls or appoints it, under the lock; cleared by the worker itself.
    news: Box<[CachePadded<AtomicBool>]>,
    roster: Mutex<Roster>,
}

impl Sleep {
    /// All of the `workers` start awake, on their own account.
    pub(super) fn new(workers: usize) -> Self {
        assert!(workers <= WORKERS_MAX, "DOM-3: more workers than the head word counts");
        Self {
            head: CachePadded::new(AtomicUsize::new(0)),
            news: (0..workers).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            roster: Mutex::new(Roster {
                standing: (0..workers).map(|_| Standing::Up).collect(),
                threads: (0..workers).map(|_| None).collect(),
                down: Vec::with_capacity(workers),
                called: 0,
                post: None,
            }),
        }
    }

    /// How many workers are down; may be out of date at once.
    pub(super) fn down(&self) -> usize {
        self.glance().down()
    }

    /// Whether `call` would wake anybody; may be out of date at once.
    #[inline]
    pub(super) fn can_call(&self) -> bool {
        self.glance().can_call()
    }

    /// For whoever has just pushed to the shared queue: a full fence, then a call unless one is on the way.
    pub(super) fn announce(&self) {
        // Against `lie_down` and `get_up`: either this load sees what they wrote, or they see the push.
        fence(Ordering::SeqCst);
        if self.can_call() {
            self.call();
        }
    }

    /// Wakes one sleeper to look for work, if there is one and nobody else is on the way.
    pub(super) fn call(&self) {
        let mut roster = self.roster.lock();
        if !roster.head().can_call() {
            return;
        }
        let woken = roster.pick().and_then(|picked| self.tell(&roster, picked));
        self.publish(&roster);
        drop(roster);
        unpark(woken);
    }

    /// For a running worker that has queued work: sees to it that a sleeper, if there is one, keeps watch.
    #[inline]
    pub(super) fn fill_post(&self) {
        if self.glance().is_unwatched() {
            self.appoint();
        }
    }

    #[cold]
    fn appoint(&self) {
        let mut roster = self.roster.lock();
        let woken = if roster.post.is_none() { self.appoint_latest(&mut roster) } else { None };
        self.publish(&roster);
        drop(roster);
        unpark(woken);
    }

    /// `me` has nothing to do and, if nobody else is on the way to work already, looks around for a while as if it had
    /// been called: nobody is woken meanwhile for what it will find. It ends with `get_up` or `lie_down`.
    #[must_use]
    pub(super) fn linger(&self, me: usize) -> bool {
        let mut roster = self.roster.lock();
        if roster.called > 0 {
            return false;
        }
        debug_assert_eq!(roster.standing[me], Standing::Up, "LANE-14: only who is awake lingers");
        roster.standing[me] = Standing::Called;
        roster.called += 1;
        self.publish(&roster);
        true
    }

    /// `me` has nothing to do (or was woken for nothing). It must look at the shared queue after this and
    /// before `rest`, and `get_up` again if anything is there.
    #[must_use]
    pub(super) fn lie_down(&self, me: usize) -> Rest {
        let mut roster = self.roster.lock();
        roster.lay(me);
        let rest = roster.watch_or_sleep(me);
        self.publish(&roster);
        drop(roster);
        fence(Ordering::SeqCst);
        rest
    }

    /// Sleeps; true if there was news, false if the watch period is over. May end early on a watch, for
    /// nothing; always ends once `me` was called or appointed.
    pub(super) fn rest(&self, me: usize, rest: Rest, watch: Duration) -> bool {
        while !self.take_news(me) {
            match rest {
                Rest::Sound => park(),
                Rest::Watch => {
                    park_timeout(watch);
                    return self.take_news(me);
                }
            }
        }
        true
    }

    /// `me` has work in hand (or in sight) and leaves the roster; the watch post, if it was its own, goes to
    /// the next sleeper, who is woken for it.
    pub(super) fn get_up(&self, me: usize) -> Owed {
        let mut roster = self.roster.lock();
        let answers = roster.raise(me);
        self.news[me].store(false, Ordering::Relaxed);
        let woken = if roster.post == Some(me) { self.appoint_latest(&mut roster) } else { None };
        self.publish(&roster);
        let last = roster.called == 0;
        drop(roster);
        fence(Ordering::SeqCst);
        unpark(woken);
        if answers && last { Owed::SecondLook } else { Owed::Nothing }
    }

    /// Wakes everyone who is down, for good: the caller has made sure that they will not lie down again.
    pub(super) fn rouse_all(&self) {
        let roster = self.roster.lock();
        let woken: Vec<_> = roster.down.iter().map(|&other| self.tell(&roster, other)).collect();
        drop(roster);
        woken.into_iter().for_each(unpark);
    }

    /// Gives the watch post to the latest sleeper, or to nobody if there is none.
    fn appoint_latest(&self, roster: &mut Roster) -> Option<Thread> {
        roster.post = roster.down.last().copied();
        roster.post.and_then(|holder| self.tell(roster, holder))
    }

    /// Leaves news for `other`; whom to unpark once the lock is free.
    fn tell(&self, roster: &Roster, other: usize) -> Option<Thread> {
        self.news[other].store(true, Ordering::Release);
        roster.threads[other].clone()
    }

    fn take_news(&self, me: usize) -> bool {
        let news = &self.news[me];
        news.load(Ordering::Relaxed) && news.swap(false, Ordering::Acquire)
    }

    fn glance(&self) -> Head {
        Head(self.head.load(Ordering::Relaxed))
    }

    /// Keeps the summary in step; an unchanged word is not written, so that readers keep their copy.
    fn publish(&self, roster: &Roster) {
        let head = roster.head().0;
        if self.head.load(Ordering::Relaxed) != head {
            self.head.store(head, Ordering::Release);
        }
    }
}

fn unpark(thread: Option<Thread>) {
    if let Some(thread) = thread {
        thread.unpark();
    }
}

#[cfg(test)]
#[cfg(turnkeep_loom)]
#[path = "sleep_loom.rs"]
mod loom_tests;

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests {
    use super::*;

    /// All workers lie down, from the first to the last; the first, which kept watch, then resigns.
    fn all_down(workers: usize) -> Sleep {
        let sleep = Sleep::new(workers);
        for me in 0..workers {
            let watches = me == 0 && workers > 1;
            assert_eq!(sleep.lie_down(me), if watches { Rest::Watch } else { Rest::Sound });
        }
        assert_eq!(sleep.lie_down(0), Rest::Sound);
        sleep
    }

    fn has_news(sleep: &Sleep) -> Vec<usize> {
        (0..sleep.news.len()).filter(|&me| sleep.news[me].load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn lane_14_sleep_a_sleeping_pool_keeps_no_watch_until_work_is_queued() {
        let sleep = all_down(3);
        sleep.announce();
        assert_eq!(has_news(&sleep), [2]);
        assert_eq!(sleep.get_up(2), Owed::SecondLook);
        assert!(sleep.glance().is_unwatched());
        sleep.fill_post();
        assert_eq!(has_news(&sleep), [1]);
        assert!(!sleep.glance().is_unwatched());
    }

    #[test]
    fn lane_14_sleep_the_watcher_is_the_last_to_be_called() {
        let sleep = all_down(3);
        sleep.call();
        let _ = sleep.get_up(2);
        sleep.fill_post();
        assert!(sleep.take_news(1));
        sleep.call();
        assert_eq!(has_news(&sleep), [0]);
        let _ = sleep.get_up(0);
        assert!(!sleep.glance().is_unwatched());
        sleep.call();
        assert_eq!(has_news(&sleep), [1]);
        assert_eq!(sleep.down(), 0);
    }

    #[test]
    fn lane_14_sleep_a_watcher_that_gets_up_hands_the_watch_on() {
        let sleep = Sleep::new(3);
        assert_eq!(sleep.lie_down(0), Rest::Watch);
        assert_eq!(sleep.lie_down(1), Rest::Sound);
        assert_eq!(sleep.get_up(0), Owed::Nothing);
        assert_eq!(has_news(&sleep), [1]);
        assert!(sleep.take_news(1));
        assert_eq!(sleep.lie_down(1), Rest::Watch);
    }

    #[test]
    fn lane_14_sleep_nobody_is_called_while_one_lingers() {
        let sleep = Sleep::new(3);
        let _ = (sleep.lie_down(1), sleep.lie_down(2));
        assert!(sleep.linger(0));
        sleep.announce();
        assert!(has_news(&sleep).is_empty());
        assert_eq!(sleep.get_up(0), Owed::SecondLook, "what it leaves behind needs somebody else");
        sleep.announce();
        assert_eq!(has_news(&sleep), [2]);
        assert!(!sleep.linger(0), "one is on the way");
    }

    #[test]
    fn lane_14_sleep_one_call_at_a_time() {
        let sleep = all_down(3);
        sleep.announce();
        sleep.announce();
        assert_eq!(has_news(&sleep), [2]);
        assert_eq!(sleep.lie_down(2), Rest::Sound, "called for nothing, and all are down again");
        sleep.announce();
        assert_eq!(sleep.down(), 2);
    }
}
