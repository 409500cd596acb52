//! One registered timer: its machine, its place in the clock, and the record that its tick becomes.
//!
//! A tick has room of its own, for exactly one record a timer, so a full lane neither refuses nor delays it and a slow
//! owner has one tick pending at most (TIMER-4). In the queue it stands like any other application record.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use turnkeep_machines::timer::{self, Schedule};
use turnkeep_scheduler::deadline::Expire;
use turnkeep_scheduler::owner::Owner;
use turnkeep_scheduler::record::Record;
use turnkeep_scheduler::timeline::{Clock, Key};
use turnkeep_trace::field::TimerId;

use super::TIMERS_MAX;
use crate::directory::in_order;
use crate::id::Id;
use crate::object::object_of;
use crate::trace;

/// What a tick becomes.
pub(crate) trait Ticking: 'static {
    fn record(cell: Arc<Cell>) -> Record;
}

/// A registered timer.
pub(crate) struct Cell {
    me: Weak<Cell>,
    pub(super) name: Id,
    clock: Clock,
    /// The object that registered it.
    of: Weak<Owner>,
    /// The owner whose queue its ticks stand in: that object, or one with a gate of its own.
    runs_in: Weak<Owner>,
    /// Keeps an owner that exists for timers of this name only.
    _own: Option<Arc<Owner>>,
    record: fn(Arc<Cell>) -> Record,
    /// Its number in a trace; 0 for none.
    pub(super) in_trace: TimerId,
    state: Mutex<State>,
}

struct State {
    timer: timer::Timer,
    /// While the clock has it.
    key: Option<Key>,
}

impl Cell {
    pub(super) fn new<W: Ticking>(
        name: Id,
        clock: Clock,
        schedule: Schedule,
        of: &Arc<Owner>,
        runs_in: &Arc<Owner>,
    ) -> Arc<Self> {
        let in_trace = trace::timer_registered(of, &name, &schedule);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            name,
            clock,
            of: Arc::downgrade(of),
            runs_in: Arc::downgrade(runs_in),
            _own: (!Arc::ptr_eq(of, runs_in)).then(|| runs_in.clone()),
            record: W::record,
            in_trace,
            state: Mutex::new(State { timer: timer::Timer::new(schedule), key: None }),
        })
    }

    /// Waits for the next moment, or queues the tick if that has come.
    pub(super) fn arm(self: &Arc<Self>) {
        let mut state = self.state.lock();
        if let Some(due_ns) = state.timer.due_ns().filter(|due_ns| *due_ns > self.clock.now_ns()) {
            // Under the lock, so that a cancellation finds the key; the clock expires nothing while it registers.
            let key = self.clock.register(due_ns, self.clone());
            // A clock moved past the moment just before would not come back to it.
            if self.clock.now_ns() < due_ns || !self.clock.cancel(key) {
                state.key = Some(key);
                return;
            }
        }
        if state.timer.on_due(self.clock.now_ns()) {
            drop(state);
            self.queue_tick();
        }
    }

    fn queue_tick(self: &Arc<Self>) {
        let Some(owner) = self.runs_in.upgrade() else { return self.cancel() };
        if !object_of(&owner).node.is_open() {
            return self.cancel();
        }
        // Room of its own: only an object that has ended refuses it, in a turn of its own.
        let mut record = (self.record)(self.clone());
        trace::tick_queued(&owner, self.in_trace, &mut record);
        let _ = owner.try_submit(record);
    }

    /// The object that registered it, while it is there.
    pub(super) fn of(&self) -> Option<Arc<Owner>> {
        self.of.upgrade()
    }

    /// The turn of a tick begins. `None`: none is to start any more.
    pub(super) fn on_start(&self) -> Option<timer::Tick> {
        let of = self.of.upgrade();
        let mut state = self.state.lock();
        if of.as_ref().is_none_or(|of| of.is_sealed()) {
            state.timer.cancel();
        }
        let now_ns = self.clock.now_ns();
        let tick = state.timer.on_start(now_ns);
        if let (Some(of), Some(tick)) = (of, &tick) {
            // Under the lock: not behind a cancellation that came later.
            trace::tick_began(&of, self.in_trace, tick);
        }
        tick
    }

    /// The handler of a tick has ended.
    pub(super) fn on_end(self: &Arc<Self>) {
        self.state.lock().timer.on_end(self.clock.now_ns());
        if self.state.lock().timer.is_over() {
            self.tell_over();
            self.forget();
        } else {
            self.arm();
        }
    }

    /// Tells a recorder, if there is one, that nothing starts any more.
    fn tell_over(&self) {
        if !self.in_trace.is_none()
            && let Some(of) = self.of.upgrade()
        {
            trace::timer_cancelled(&of, self.in_trace);
        }
    }

    /// A timer that is over leaves its object's table, unless another has its name by now.
    fn forget(self: &Arc<Self>) {
        if let Some(of) = self.of.upgrade() {
            object_of(&of).timers().take_if(self);
        }
    }

    /// No tick starts any more; one that runs goes on.
    pub(crate) fn cancel(&self) {
        let key = {
            let mut state = self.state.lock();
            state.timer.cancel();
            self.tell_over();
            state.key.take()
        };
        if let Some(key) = key {
            self.clock.cancel(key);
        }
    }
}

impl Expire for Cell {
    /// In the infrastructure domain: decides and queues, nothing else.
    fn expire(&self) {
        self.state.lock().key = None;
        if let Some(this) = self.me.upgrade() {
            this.arm();
        }
    }
}

/// The timers of one object, by name.
#[derive(Default)]
pub(crate) struct Timers {
    table: Mutex<HashMap<Id, Arc<Cell>>>,
    /// Owners with a gate for one name each, as long as something is left of them: a timer that is registered again
    /// must not run beside the last tick of its predecessor.
    gates: Mutex<HashMap<Id, Weak<Owner>>>,
    /// Ticks that run under gates of their own.
    running: AtomicUsize,
    /// Told when the last of them has ended.
    ended: Notify,
}

impl Timers {
    /// Puts a timer in, in place of one of its name, which is returned.
    pub(super) fn put(&self, cell: Arc<Cell>) -> Result<Option<Arc<Cell>>, ()> {
        let mut table = self.table.lock();
        if table.len() >= TIMERS_MAX && !table.contains_key(&cell.name) {
            return Err(());
        }
        Ok(table.insert(cell.name.clone(), cell))
    }

    /// The gate of a name, made if there is none.
    pub(super) fn gate(&self, name: &Id, make: impl FnOnce() -> Arc<Owner>) -> Arc<Owner> {
        let mut gates = self.gates.lock();
        if let Some(gate) = gates.get(name).and_then(Weak::upgrade) {
            return gate;
        }
        gates.retain(|_, gate| gate.strong_count() > 0);
        let gate = make();
        gates.insert(name.clone(), Arc::downgrade(&gate));
        gate
    }

    fn take_if(&self, cell: &Arc<Cell>) {
        let mut table = self.table.lock();
        let taken = match table.get(&cell.name) {
            Some(found) if Arc::ptr_eq(found, cell) => table.remove(&cell.name),
            _ => None,
        };
        drop(table);
        drop(taken);
    }

    /// Cancels the timer of a name; `false` if there is none.
    pub(crate) fn cancel(&self, name: &str) -> bool {
        let Ok(name) = Id::new(name) else { return false };
        let taken = self.table.lock().remove(&name);
        taken.as_ref().inspect(|cell| cell.cancel()).is_some()
    }

    /// Cancels all: the object closes, or starts again.
    pub(crate) fn cancel_all(&self) {
        let taken = std::mem::take(&mut *self.table.lock());
        taken.values().for_each(|cell| cell.cancel());
    }

    /// The object is gone: ticks that run under gates of their own are cancelled.
    pub(crate) fn end(&self) {
        self.cancel_all();
        let gates = std::mem::take(&mut *self.gates.lock());
        in_order(gates.values().filter_map(Weak::upgrade).collect()).iter().for_each(Owner::cancel);
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.table.lock().is_empty()
    }

    /// The names, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.table.lock().keys().map(|name| name.as_str().to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// A tick begins under a gate of its own.
    pub(super) fn begin_own(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// It has ended.
    pub(super) fn end_own(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ended.notify_waiters();
        }
    }

    /// Waits until no tick runs under a gate of its own.
    pub(crate) async fn own_ticks_end(&self) {
        loop {
            let told = self.ended.notified();
            let mut told = std::pin::pin!(told);
            told.as_mut().enable();
            if self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            told.await;
        }
    }
}
