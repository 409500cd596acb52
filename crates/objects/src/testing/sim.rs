//! A driver that runs nodes on the calling thread, in an order that a seed repeats.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use turnkeep_scheduler::pool::driven::{Claim, Driver, Step, Transcript};

use super::stuck::{Stuck, Why};
use crate::builder::Builder;
use crate::node::{Node, NodeInner};
use crate::shutdown::abandon;

/// How many steps a call may run when nothing else is said.
const STEPS_MAX: u64 = 10_000_000;
/// How often the time may be moved on in a row without anything but the test's own future having run.
const IDLE_JUMPS_MAX: u32 = 100_000;
/// How many of the last events a failing test prints.
const LAST_EVENTS: usize = 12;

/// A thread that drives nodes: everything runs on it, one thing after the other, as a seed says.
///
/// Gates that are ready stand in one queue; which of them goes next, and after how many turns the next one is
/// chosen, comes from a generator that the seed starts. The oldest is passed over at most eight times as often as
/// there are ready ones, and a gate whose slice is over stands behind those that are ready (LANE-10). So the same
/// program with the same seed makes the same turns in every run and every process, and different seeds try
/// different orders: all of them orders that a node with several workers could have taken, but for turns that overlap.
///
/// # Time
///
/// A node of a Sim has a time of its own, at which it starts at zero: timeouts, deadlines and
/// [`within`](super::within) go by it. It is moved on by [`advance`](Self::advance), and by [`run`](Self::run) when
/// nothing is ready: then straight to the next moment that somebody waits for. So an ask whose answer cannot come
/// ends with `DeadlineExceeded`, at once in real time.
///
/// # What it does not repeat
///
/// Whatever comes from outside: other threads, sockets, timers and tasks of another runtime (there is none here, and
/// its timers panic), the machine's clock, hash maps with random keys in the objects under test. CPU and I/O work
/// submitted to the node runs on this thread, in the same order as the rest. Futures that were polled under a Sim
/// belong to its time: let no other executor poll them.
///
/// # Dropping it
///
/// Ends its nodes at once, as dropping their last handle does. When the thread is panicking, prints how to repeat
/// the run and its last events.
pub struct Sim {
    seed: u64,
    steps_max: u64,
    driver: Arc<Driver>,
    nodes: RefCell<Vec<Weak<NodeInner>>>,
    _claim: Claim,
}

impl Sim {
    /// A driver whose choices come from that seed, without a node.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            steps_max: STEPS_MAX,
            driver: Driver::new(seed),
            nodes: RefCell::default(),
            _claim: Claim::new(),
        }
    }

    /// How many steps one call may run before it is taken for one that never ends; 10 million by default.
    #[must_use]
    pub fn steps_max(mut self, steps: u64) -> Self {
        self.steps_max = steps;
        self
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts a node on this driver, in place of workers; the builder's number of workers means nothing.
    ///
    /// # Panics
    ///
    /// When the node cannot be started, with the error; [`try_node`](Self::try_node) returns it.
    pub fn node(&self, builder: Builder) -> Node {
        match self.try_node(builder) {
            Ok(node) => node,
            Err(error) => panic!("the node cannot be started: {error}"),
        }
    }

    /// As [`node`](Self::node).
    ///
    /// # Errors
    ///
    /// Those of [`Builder::start`], but for threads.
    pub fn try_node(&self, builder: Builder) -> Result<Node, crate::Error> {
        let node = self.run(builder.start_driven(self.driver.clone()))?;
        let mut nodes = self.nodes.borrow_mut();
        nodes.retain(|node| node.strong_count() > 0);
        nodes.push(Arc::downgrade(node.inner()));
        Ok(node)
    }

    /// Polls `future` in its turn among whatever else is ready, until it ends. When nothing is ready, the time is
    /// moved on to the next moment that somebody waits for.
    ///
    /// # Panics
    ///
    /// When it can never end; the text says who waits for what, and [`try_run`](Self::try_run) returns it. In a turn
    /// of a node of this Sim. With the future's own panic.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        match self.try_run(future) {
            Ok(output) => output,
            Err(stuck) => panic!("{stuck}"),
        }
    }

    /// As [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// Why the future cannot end; it is dropped.
    pub fn try_run<F: Future>(&self, future: F) -> Result<F::Output, Stuck> {
        self.check_thread();
        let _entered = self.driver.time().enter();
        let waker = Waker::from(Arc::new(Root(self.driver.clone())));
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(future);
        let mut watch = self.watch();
        self.driver.wake_root();
        loop {
            match self.driver.step() {
                Step::Root => match future.as_mut().poll(&mut cx) {
                    Poll::Ready(output) => return Ok(output),
                    Poll::Pending => {}
                },
                Step::Task => watch.jumps = 0,
                Step::Idle => self.jump(&mut watch)?,
            }
            self.check_steps(&watch)?;
        }
    }

    /// Runs whatever is ready, and what becomes ready by that, until nothing is. The time stands. Returns how many
    /// steps that took.
    ///
    /// # Panics
    ///
    /// When it does not end, with who waits for what. In a turn of a node of this Sim.
    pub fn run_until_idle(&self) -> u64 {
        self.check_thread();
        let _entered = self.driver.time().enter();
        let watch = self.watch();
        while self.driver.step() != Step::Idle {
            if let Err(stuck) = self.check_steps(&watch) {
                panic!("{stuck}");
            }
        }
        self.driver.steps() - watch.from
    }

    /// Moves the time on by `by`, from one moment that somebody waits for to the next, and runs whatever is ready at
    /// each of them, before the first, and after the last.
    ///
    /// # Panics
    ///
    /// As [`run_until_idle`](Self::run_until_idle).
    pub fn advance(&self, by: Duration) {
        self.run_until_idle();
        let time = self.driver.time();
        let goal = time.now().saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX));
        while let Some(next) = time.next().filter(|next| *next <= goal) {
            self.move_to(next);
            self.run_until_idle();
        }
        self.move_to(goal);
        self.run_until_idle();
    }

    /// How far the time has been moved on since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.driver.time().elapsed_ns())
    }

    /// How many steps were made: each is one slice of a gate, of one turn or several, one piece of CPU or I/O work,
    /// or one poll of the test's own future.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.driver.steps()
    }

    /// What ran so far, turn by turn. Printed, it is a line each; its fingerprint compares whole runs.
    #[must_use]
    pub fn log(&self) -> Transcript {
        self.driver.transcript()
    }

    /// Who waits for what, in words: one line for each object with a handler that has begun and not ended.
    #[must_use]
    pub fn waits(&self) -> String {
        super::stuck::waits(&self.live_nodes())
    }

    /// How to repeat this run.
    #[must_use]
    pub fn repeat(&self) -> String {
        format!(
            "to repeat it: Sim::new({0}), or {1}={0} for a test that explores",
            self.seed,
            super::SEED_VARIABLE
        )
    }

    fn watch(&self) -> Watch {
        Watch { from: self.driver.steps(), jumps: 0 }
    }

    fn check_thread(&self) {
        let inside = self.driver.is_here();
        assert!(!inside, "a Sim was run by a turn of its own node; run it from the test, and await in turns");
    }

    /// Nothing is ready: on to the next moment that somebody waits for.
    fn jump(&self, watch: &mut Watch) -> Result<(), Stuck> {
        watch.jumps += 1;
        match self.driver.time().next() {
            Some(next) if watch.jumps <= IDLE_JUMPS_MAX => {
                self.driver.advance_to(next);
                Ok(())
            }
            Some(_) => Err(self.stuck(Why::OnlyTime)),
            None => Err(self.stuck(Why::NothingReady)),
        }
    }

    fn move_to(&self, at_ns: u64) {
        let _entered = self.driver.time().enter();
        self.driver.advance_to(at_ns);
    }

    fn check_steps(&self, watch: &Watch) -> Result<(), Stuck> {
        if self.driver.steps() - watch.from > self.steps_max {
            return Err(self.stuck(Why::Endless));
        }
        Ok(())
    }

    fn stuck(&self, why: Why) -> Stuck {
        Stuck::new(why, self.waits(), self.repeat())
    }

    fn live_nodes(&self) -> Vec<Arc<NodeInner>> {
        self.nodes.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends the nodes; what their objects still hold is dropped in turns, as ever.
    fn end(&self) {
        let _entered = self.driver.time().enter();
        self.live_nodes().iter().for_each(abandon);
        let watch = self.watch();
        while self.driver.step() != Step::Idle && self.check_steps(&watch).is_ok() {}
        self.driver.stop();
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            eprintln!("{}\nthe last of its {} steps:", self.repeat(), log.steps());
            let last: Vec<String> = log.events().rev().take(LAST_EVENTS).map(ToString::to_string).collect();
            last.iter().rev().for_each(|line| eprintln!("{line}"));
        }
        self.end();
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("seed", &self.seed).field("steps", &self.steps()).finish_non_exhaustive()
    }
}

/// What one call has done so far.
struct Watch {
    from: u64,
    /// How often the time was moved on since anything but the test's future ran.
    jumps: u32,
}

/// Wakes the future that the test waits for.
struct Root(Arc<Driver>);

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.0.wake_root();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_root();
    }
}
