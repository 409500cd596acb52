//! The driver of a gate: one slice of turns, news in, machines asked, handlers run, the gate given up.
//!
//! Whoever calls [`slice`] has the right to the gate (see [`crate::inbox`]); at the end the right is given up
//! (idle), handed on (a suspended handler's waker, the run queue) or travels with the object (a move). After
//! any of these this thread touches the gate no more.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use turnkeep_machines::budget::Slice;
use turnkeep_machines::gate::Phase;
use turnkeep_machines::pair::{Lane, Pair};
use turnkeep_trace::field::{How, Stage};

use crate::access::{Ending, Fate, Start};
use crate::activation::{About, Act, Polled};
use crate::ambient;
use crate::core::{Core, Item};
use crate::deadline::shielded;
use crate::owner::{Count, Owner};
use crate::pool::driven::What;
use crate::pool::{note_turn, slice_began_ns};
use crate::record::{Record, Refusal};
use crate::sync::atomic::{Ordering, fence};
use crate::ticks;
use crate::trace::{self, Trace};

/// How many reservations may come back before the holder looks for waiters in the midst of a slice.
const LOOK_FOR_WAITERS_EVERY: u32 = 32;

/// What a step of the slice came to.
#[derive(PartialEq, Eq)]
enum Step {
    /// A turn boundary: look at the budget, then for the next turn.
    Boundary,
    /// Nothing is ready.
    Idle,
    /// The right is gone: return and touch nothing.
    Left,
}

/// Runs turns under `gate` until nothing is ready, a handler keeps the gate and waits, or the budget is used
/// up (LANE-10). Tells how many turns there were.
pub(crate) fn slice(gate: Arc<Owner>) -> u64 {
    let mut holder = Holder::enter(&gate);
    let slice = Slice::start(slice_began_ns(), gate.class().budget_ns);
    loop {
        let step = match holder.core().current.take() {
            Some(act) => holder.go_on(act),
            None => holder.next_turn(),
        };
        match step {
            // The clock is worth reading only if there is somebody to stand behind for.
            Step::Boundary if holder.has_more() && is_over(&gate, slice) => {
                holder.stand_behind();
                return holder.ran;
            }
            Step::Boundary => {}
            Step::Idle if holder.go_idle() => return holder.ran,
            Step::Idle => {}
            Step::Left => return holder.ran,
        }
    }
}

/// Whether the budget is used up (LANE-10).
fn is_over(gate: &Owner, slice: Slice) -> bool {
    match gate.class().pool.driver() {
        None => slice.is_over(ticks::now()),
        Some(driver) => driver.ends_slice(slice, ticks::now()),
    }
}

/// Tells the driver of a driven node about a turn; others have nobody to tell.
#[inline]
fn note(owner: &Owner, what: What, about: impl FnOnce() -> &'static str) {
    if let Some(driver) = owner.class().pool.driver() {
        driver.note(what, &owner.identity().name(), about());
    }
}

/// The thread that has the right to a gate, for one slice.
struct Holder<'a> {
    gate: &'a Arc<Owner>,
    /// Polls of handlers in this slice.
    ran: u64,
    /// Turns of this slice, not yet in the node's counters.
    turns: u64,
    /// Records finished in this slice, not yet in the node's counters.
    finished: u64,
}

impl<'a> Holder<'a> {
    /// Takes the gate and what came in: one exchange (GATE-12).
    fn enter(gate: &'a Arc<Owner>) -> Self {
        let mut holder = Self { gate, ran: 0, turns: 0, finished: 0 };
        holder.drain_news();
        if holder.core().current.is_some() {
            gate.wake_word().begin();
        }
        holder
    }

    /// The gate's core. The result must not be kept across anything that may give the right away.
    fn core(&mut self) -> &mut Core {
        core_of(self.gate)
    }

    fn drain(&mut self) {
        drain(self.gate);
    }

    fn drain_news(&mut self) {
        if self.gate.inbox().has_news() {
            self.drain();
        }
    }

    /// Takes the next place of the queue and runs its turn.
    fn next_turn(&mut self) -> Step {
        self.drain_news();
        if self.gate.is_cancelled() && !self.core().ended {
            self.end(self.gate, Refusal::Ended);
        }
        let on_hold = is_on_hold(self.gate);
        match self.core().pick(on_hold) {
            Some(Item::Record(record)) => self.begin(record, self.gate),
            // SAFETY: a member link out of the queue, used once.
            Some(Item::Member(link)) => self.member(unsafe { Owner::from_link(link) }),
            Some(Item::Resume(act)) => self.resume(act),
            None => match take_last(self.gate) {
                Some(last) => self.begin(last, self.gate),
                None => Step::Idle,
            },
        }
    }

    /// The place of a ready member came up: one record of its own lanes runs (LANE-12).
    fn member(&mut self, member: Arc<Owner>) -> Step {
        drain(&member);
        if member.is_cancelled() && !core_of(&member).ended {
            self.end(&member, Refusal::Ended);
        }
        if self.core().ended {
            trace::member_passed(self.gate, &member);
            return self.place(member);
        }
        let on_hold = is_on_hold(&member);
        match core_of(&member).pick(on_hold) {
            Some(Item::Record(record)) => self.begin(record, &member),
            _ => match take_last(&member) {
                Some(last) => self.begin(last, &member),
                None => {
                    trace::member_passed(self.gate, &member);
                    self.place(member)
                }
            },
        }
    }

    /// Starts the turn of a record of `owner`: the gate's own object, or a member.
    fn begin(&mut self, record: Record, owner: &Arc<Owner>) -> Step {
        if core_of(owner).ended {
            self.finished += 1;
            if !Arc::ptr_eq(owner, self.gate) {
                trace::member_passed(self.gate, owner);
            }
            owner.give_back(record.lane(), record.reserved(), record.number());
            trace::discarded(owner, &record, Refusal::Ended);
            guarded(owner, || record.refuse(owner, Refusal::Ended));
            return self.after(owner, Ending::done());
        }
        let (lane, reserved, number) = (record.lane(), record.reserved(), record.number());
        note(owner, What::Turn, || record.name());
        note_turn(owner.key());
        // What is over is counted before a handler can block the worker.
        self.flush();
        core_of(owner).pair.on_turn(lane);
        let grant = self.core().gate.take();
        trace::turn_begun(self.gate, grant, owner, number, lane);
        self.turns += 1;
        // The block may be exchanged for a larger one when the size of the future is known.
        let block =
            Cell::new(Act::acquire(&About { owner, gate: self.gate, lane, reserved, record: number, grant }));
        let start = AssertUnwindSafe(|| record.start(Start::new(&block)));
        let polled = match ambient::in_turn(block.get(), || catch_unwind(start)) {
            Ok(started) => started.polled,
            Err(panic) => Polled::Panicked(Box::new(panic)),
        };
        self.conclude(block.get(), owner, polled)
    }

    /// The resume record of a yielded handler came up: a turn of its own (YIELD-6).
    fn resume(&mut self, act: Act) -> Step {
        // The block must outlive `begin_resume`, which may give the last count back.
        let number = act.record();
        if !act.begin_resume() {
            trace::resume_gone(self.gate, number);
            return Step::Boundary;
        }
        let owner = act.owner_arc();
        note(&owner, What::Resume, || "");
        core_of(&owner).pair.on_turn(Lane::Application);
        act.grant().set(self.core().gate.take());
        trace::turn_resumed(self.gate, act.grant().get(), &owner, number);
        self.turns += 1;
        self.poll(act, &owner)
    }

    /// The handler that keeps the gate is looked at again.
    fn go_on(&mut self, act: Act) -> Step {
        if !act.take_notified() && !act.owner().is_cancelled() {
            return self.keep_suspended(act);
        }
        let guest;
        let owner = if self.is_own(act) {
            self.gate
        } else {
            guest = act.owner_arc();
            &guest
        };
        note(owner, What::GoOn, || "");
        let resumed = self.core().gate.resume(act.grant().get());
        assert!(resumed, "GATE-9: a handler goes on under the grant it waited with");
        trace::turn_went_on(self.gate, act.grant().get(), act.record());
        self.poll(act, owner)
    }

    /// Whether it is a handler of the gate's own object.
    fn is_own(&self, act: Act) -> bool {
        std::ptr::eq(act.owner(), &raw const **self.gate)
    }

    fn poll(&mut self, act: Act, owner: &Arc<Owner>) -> Step {
        note_turn(owner.key());
        let polled = if owner.is_cancelled() { Polled::Ended(Ending::done()) } else { act.poll() };
        self.conclude(act, owner, polled)
    }

    /// A poll is over: the handler ended, keeps the gate, or yields it.
    fn conclude(&mut self, act: Act, owner: &Arc<Owner>, polled: Polled) -> Step {
        self.ran += 1;
        match polled {
            Polled::Ended(ending) => self.ended(act, owner, ending),
            Polled::Panicked(panic) => {
                report(owner, *panic);
                let ending = owner.identity().after_panic(owner);
                self.ended(act, owner, ending)
            }
            Polled::Kept => self.suspend(act, owner),
            Polled::Released => self.release(act, owner),
        }
    }

    fn ended(&mut self, act: Act, owner: &Arc<Owner>, ending: Ending) -> Step {
        if let Some(panic) = act.drop_future() {
            report(owner, panic);
        }
        owner.delist(act);
        owner.give_back(act.lane(), act.reserved().replace(0), act.record());
        trace::turn_stopped(self.gate, act.grant().get(), act.record(), How::Ended);
        act.finish();
        self.finished += 1;
        self.core().gate.give_up();
        debug_assert!(!matches!(self.core().gate.phase(), Phase::Broken(_)), "{:?}", self.core().gate);
        self.after(owner, ending)
    }

    /// The turn of `owner` is over; what becomes of the object.
    fn after(&mut self, owner: &Arc<Owner>, ending: Ending) -> Step {
        if std::mem::take(&mut core_of(owner).claimed) {
            trace::claim_released(owner);
        }
        if owner.is_cancelled() && !core_of(owner).ended {
            self.end(owner, Refusal::Ended);
        }
        if let Some(fate) = ending.into_fate()
            && let Some(step) = self.fulfil(owner, fate)
        {
            return step;
        }
        if !Arc::ptr_eq(owner, self.gate) {
            return self.place(owner.clone());
        }
        if self.core().returned >= LOOK_FOR_WAITERS_EVERY {
            self.look_for_waiters();
        }
        Step::Boundary
    }

    /// What a turn has decided about its object. `Some`: there is no more to do here.
    #[cold]
    fn fulfil(&mut self, owner: &Arc<Owner>, fate: Fate) -> Option<Step> {
        match fate {
            Fate::Seal { last } | Fate::Arrive { first: last, .. } | Fate::Restart { first: last }
                if core_of(owner).ended =>
            {
                guarded(owner, || last.refuse(owner, Refusal::Ended));
            }
            Fate::Seal { mut last } => {
                if owner.class().shares_gate {
                    owner.standing().close();
                }
                owner.seal(Refusal::Ended);
                owner.wake_yields();
                owner.class().counters.add(Count::Accepted as usize, 1);
                trace::staged(owner, &mut last, Stage::Last);
                core_of(owner).last = Some(last);
            }
            Fate::End { why } => {
                if !core_of(owner).ended {
                    self.end(owner, why);
                }
            }
            Fate::Restart { first } => self.restart(owner, first),
            Fate::Arrive { host, first } => {
                owner.class().counters.add(Count::Accepted as usize, 1);
                return Some(self.depart(owner, host, first));
            }
        }
        None
    }

    /// Puts a member that has had its turn behind what is in the gate's queue, or lets it go idle (LANE-12).
    fn place(&mut self, member: Arc<Owner>) -> Step {
        if self.core().ended || core_of(&member).ended {
            // Its Spot is gone, or it is: from now on it is run by itself.
            member.set_host(None);
            member.schedule();
            return Step::Boundary;
        }
        loop {
            member.serve_lines();
            if member.inbox().has_news() {
                drain(&member);
            }
            // A cancellation may have come in with the news just taken: then its place is where it ends.
            let work = core_of(&member).has_work(is_on_hold(&member));
            if work || member.is_cancelled() || is_to_end(&member) {
                self.drain_news();
                trace::member_placed(self.gate, &member);
                let link = member.into_link();
                self.core().push_place(link);
                return Step::Boundary;
            }
            if member.inbox().release() {
                return Step::Boundary;
            }
        }
    }

    /// The object moves: it is made ready where it arrives, and this thread has no more to do with it.
    fn depart(&mut self, owner: &Arc<Owner>, host: Option<Arc<Owner>>, mut first: Record) -> Step {
        let own_gate = Arc::ptr_eq(owner, self.gate);
        if own_gate {
            self.flush();
        }
        owner.serve_lines();
        let core = core_of(owner);
        core.pair = Pair::default();
        trace::staged(owner, &mut first, Stage::Arrival);
        trace::moved(owner, host.as_deref());
        core.arrival = Some(first);
        owner.set_host(host);
        owner.make_ready();
        if own_gate { Step::Left } else { Step::Boundary }
    }

    /// The handler waits and keeps the gate (GATE-7).
    fn suspend(&mut self, act: Act, owner: &Arc<Owner>) -> Step {
        self.core().gate.suspend();
        trace::turn_stopped(self.gate, act.grant().get(), act.record(), How::Kept);
        act.set_since(slice_began_ns());
        owner.list(act);
        if !Arc::ptr_eq(owner, self.gate) {
            owner.serve_lines();
        }
        self.keep_suspended(act)
    }

    fn keep_suspended(&mut self, act: Act) -> Step {
        self.look_for_waiters();
        self.flush();
        self.core().current = Some(act);
        loop {
            if act.is_notified() || act.owner().is_cancelled() {
                // Queued again, never polled in place: a handler that wakes itself takes its turn like others.
                self.gate.schedule();
                return Step::Left;
            }
            if self.gate.wake_word().suspend() {
                return Step::Left;
            }
            self.gate.wake_word().begin();
        }
    }

    /// The handler yields: the gate is free for the next turn, its resume will come as a record (YIELD-4).
    fn release(&mut self, act: Act, owner: &Arc<Owner>) -> Step {
        self.core().gate.give_up();
        // Before a wake-up can queue the handler.
        trace::turn_stopped(self.gate, act.grant().get(), act.record(), How::Yielded);
        act.set_since(slice_began_ns());
        if owner.class().claims {
            core_of(owner).claimed = true;
            trace::claim_taken(owner, act.record());
        }
        let cancelled = owner.list(act);
        owner.serve_lines();
        // Against who ends yields: see `standing`.
        fence(Ordering::SeqCst);
        if !act.release_gate() {
            self.drain_news();
            trace::resume_queued(self.gate, act.record());
            self.queue_resume(act);
        } else if cancelled || act.is_newly_cut() {
            act.wake();
        }
        Step::Boundary
    }

    fn queue_resume(&mut self, act: Act) {
        let claims = self.gate.class().claims;
        let trace = Trace::of(self.gate);
        self.core().sort(std::iter::once(act.link()), claims, trace);
    }

    /// Ends an object: waiting handlers first, then what is queued, then the state (see [`crate::access`]).
    fn end(&mut self, owner: &Arc<Owner>, why: Refusal) {
        owner.seal(why);
        self.drop_suspended(owner);
        let core = core_of(owner);
        core.ended = true;
        trace::ended(owner, why);
        let own: Vec<Record> = core.take_own_records();
        for record in own {
            self.finished += 1;
            owner.give_back(record.lane(), record.reserved(), record.number());
            trace::discarded(owner, &record, why);
            guarded(owner, || record.refuse(owner, why));
        }
        drop_state(owner);
        guarded(owner, || owner.identity().ended(why));
    }

    /// Takes an object's state away and lets `first` make another; what is queued stays (ERR-3).
    fn restart(&mut self, owner: &Arc<Owner>, mut first: Record) {
        self.drop_suspended(owner);
        drop_state(owner);
        trace::staged(owner, &mut first, Stage::Arrival);
        owner.class().counters.add(Count::Accepted as usize, 1);
        let before = core_of(owner).arrival.replace(first);
        debug_assert!(before.is_none(), "an arrival is an object's first turn where it is");
    }

    /// Drops the waiting handlers of an object, in no order.
    fn drop_suspended(&mut self, owner: &Arc<Owner>) {
        while let Some(act) = owner.any_suspended() {
            if let Some(panic) = act.drop_future() {
                report(owner, panic);
            }
            owner.delist(act);
            owner.give_back(act.lane(), act.reserved().replace(0), act.record());
            trace::cancelled(owner, act.record());
            act.finish();
            self.finished += 1;
        }
        let core = core_of(owner);
        if std::mem::take(&mut core.claimed) {
            trace::claim_released(owner);
        }
        core.forget_resume();
    }

    /// Whether there is anything left to do here.
    fn has_more(&mut self) -> bool {
        self.drain_news();
        let on_hold = is_on_hold(self.gate);
        self.core().has_work(on_hold)
    }

    /// The budget is used up: others first.
    fn stand_behind(&mut self) {
        self.look_for_waiters();
        self.flush();
        trace::stood_behind(self.gate);
        self.gate.class().pool.schedule_behind(self.gate.clone());
    }

    /// Nothing is ready: gives the gate up. `false` if something came in meanwhile.
    fn go_idle(&mut self) -> bool {
        self.look_for_waiters();
        self.flush();
        self.gate.inbox().release()
    }

    fn look_for_waiters(&mut self) {
        self.gate.serve_lines();
    }

    /// Puts what this slice counted into the node's counters.
    fn flush(&mut self) {
        let counters = &self.gate.class().counters;
        for (which, count) in [(Count::Turns, &mut self.turns), (Count::Finished, &mut self.finished)] {
            if *count != 0 {
                counters.add(which as usize, std::mem::take(count));
            }
        }
    }
}

/// The core of an owner this thread holds.
#[expect(clippy::mut_from_ref, reason = "the right to the owner is what makes the reference unique")]
fn core_of(owner: &Owner) -> &mut Core {
    // SAFETY: called only by the thread that has the right to `owner` (its own gate's holder, or the holder of
    // the gate it is a member of while it is not idle), and the result is not kept across another call.
    owner.core().with_mut(|core| unsafe { &mut *core })
}

/// Takes the application records of an owner out, for a turn that holds the gate it is under.
pub(crate) fn take_records(of: &Owner, gate: &Owner) -> Vec<Record> {
    assert_eq!(of.gate_key(), gate.key(), "the records of an owner belong to the holder of its gate");
    core_of(of).take_application()
}

/// Puts them back.
pub(crate) fn put_records(of: &Owner, gate: &Owner, records: Vec<Record>) {
    assert_eq!(of.gate_key(), gate.key(), "the records of an owner belong to the holder of its gate");
    core_of(of).put_application(records);
}

/// Whether application records of the owner may not start. While it is handed over nothing else may stand behind
/// them: what ends its handlers goes on.
fn is_on_hold(owner: &Owner) -> bool {
    let on_hold = owner.is_on_hold();
    if on_hold && owner.standing().is_handing() {
        core_of(owner).others_first();
    }
    on_hold
}

/// Takes what came in for `owner` and sorts it into its places.
fn drain(owner: &Arc<Owner>) {
    let links = owner.inbox().take().in_order();
    if core_of(owner).sort(links, owner.class().claims, Trace::of(owner)) {
        owner.control_seen();
    }
    if owner.standing().is_handing() && is_all_appended(owner) {
        owner.standing().settle();
    }
}

/// Whether no admission is under way between its decision and its place in the inbox (LANE-7).
fn is_all_appended(owner: &Arc<Owner>) -> bool {
    let appended = core_of(owner).appended;
    let lanes = [Lane::Application, Lane::Lifecycle];
    lanes.iter().all(|lane| owner.under_way(*lane, appended[*lane as usize]) == 0)
}

/// Drops an object's state.
fn drop_state(owner: &Arc<Owner>) {
    // SAFETY: this thread holds the gate and no handler of the object is left.
    let state = owner.state().with_mut(|slot| unsafe { (*slot).take() });
    guarded(owner, || drop(state));
}

/// The last record of a sealed owner, once everything accepted has been handled.
fn take_last(owner: &Arc<Owner>) -> Option<Record> {
    if !is_to_end(owner) {
        return None;
    }
    core_of(owner).last.take()
}

fn is_to_end(owner: &Arc<Owner>) -> bool {
    let core = core_of(owner);
    core.last.is_some()
        && !core.claimed
        && !core.has_work(false)
        && is_all_appended(owner)
        && owner.any_suspended().is_none()
}

/// Runs a little code of the layer above whose panic must not reach the driver.
fn guarded(owner: &Arc<Owner>, run: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
        report(owner, panic);
    }
}

/// Counts and reports a panic. Neither the report nor the drop of the payload, whose destructor is user code, can
/// unwind from here.
fn report(owner: &Arc<Owner>, panic: Box<dyn Any + Send>) {
    owner.class().counters.add(Count::Panics as usize, 1);
    shielded(|| owner.identity().panicked(&*panic));
    shielded(|| drop(panic));
}

#[cfg(test)]
#[cfg(not(turnkeep_loom))]
mod tests;
