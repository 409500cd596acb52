//! The dispatch machine of one bus: the small machines of this folder, put together.
//!
//! # Verbs
//!
//! | who asks | verbs |
//! |---|---|
//! | a publication | `open_publication`, `admit`, `reserve`, `close_publication` |
//! | a reservation | `fill`, `abandon` |
//! | a drain | `begin_drain`, `head`, `begin_run`, `take`, `end_slot`, `end_run`, `end_drain` |
//! | a command | `send_command`, `begin_command`, `end_command`, `drop_command` |
//! | retained work | `retain`, `grow`, `let_go`, `begin_chain`, `end_chain` |
//! | payloads and other storage | `take_bytes`, `give_back_bytes` |
//! | the end | `begin_teardown`, `detach`, `end_teardown` |
//!
//! # Invariants
//!
//! * **B1** after a latched fault nothing is admitted, and what was granted can still be filled (FAULT-2, ADM-2).
//! * **B2** each holder of a root is counted once, and released once (ROOT-5).
//! * **B3** a delivery is charged when its frame closes, after its capture's destructor (ROOT-3).
//! * **B4** after a teardown every counter is zero (FAULT-4).
//!
//! # Not here
//!
//! Captures, components, callables: the driver keeps them, and the numbers here say which.

use alloc::vec::Vec;

use super::charge::{Charge, Full, Limits};
use super::drain::{Alive, Hindrance, Phase, Stall};
use super::fault::Latch;
use super::frame::{Frames, Kind};
use super::line::{ALONE, BucketId, Line, Slot, SlotId, Target};
use super::ordinal::{Key, Ordinal, Ordinals};
use super::reservation::Stage;
use super::root::{Freed, Root, Roots};

/// Why nothing was admitted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// A fault is latched.
    Faulted,
    /// The bus is being torn down.
    TearingDown,
    /// A limit would be passed; the caller latches the overflow.
    Full(Full),
}

/// An open publication.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Publication {
    /// Its number.
    pub ordinal: Ordinal,
    bucket: BucketId,
}

/// What a slot is admitted with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arrival {
    /// Whom it is for, as it stands now.
    pub target: Target,
    /// Where the capture is or will be.
    pub payload: u32,
    /// Which subscription it came through.
    pub subscription: u32,
    /// Which use of that subscription's place.
    pub serial: u32,
}

/// The machine of one bus; `F` is what the driver knows of a fault.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dispatch<F> {
    limits: Limits,
    ordinals: Ordinals,
    frames: Frames,
    line: Line,
    roots: Roots,
    charge: Charge,
    latch: Latch<F>,
    phase: Phase,
    stall: Stall,
    /// Components whose access is held.
    accesses: u32,
    /// Retained values alive.
    retained: u32,
    /// Queued commands that hold a root.
    command_roots: u32,
}

impl<F> Dispatch<F> {
    /// A machine with nothing in it.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ordinals: Ordinals::default(),
            frames: Frames::default(),
            line: Line::default(),
            roots: Roots::default(),
            charge: Charge::default(),
            latch: Latch::default(),
            phase: Phase::Idle,
            stall: Stall::default(),
            accesses: 0,
            retained: 0,
            command_roots: 0,
        }
    }

    // ---- publications and admission -------------------------------------------------------------------------

    /// Opens a publication: it has its ordinal before anything in it runs (PUB-3).
    #[inline]
    pub fn open_publication(&mut self) -> Publication {
        let ordinal = self.ordinals.take();
        if let Some(root) = self.frames.open(Kind::Publication) {
            self.roots.hold(root);
        }
        Publication { ordinal, bucket: self.line.open(ordinal) }
    }

    /// Ends the publication. Delivers nothing.
    #[inline]
    #[must_use]
    pub fn close_publication(&mut self, publication: Publication) -> Option<Freed> {
        self.line.close(publication.bucket);
        self.close_frame(Kind::Publication)
    }

    /// Admits a slot whose capture is there.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit; nothing has changed then.
    #[inline(always)]
    pub fn admit(&mut self, to: Publication, arrival: Arrival, origin: u32) -> Result<Key, Refusal> {
        self.place(to, arrival, origin, Stage::Ready).map(|(_, key)| key)
    }

    /// Grants a slot whose capture is still to be built (ADM-1).
    ///
    /// # Errors
    ///
    /// As [`admit`](Self::admit).
    pub fn reserve(
        &mut self,
        to: Publication,
        arrival: Arrival,
        origin: u32,
    ) -> Result<(SlotId, Key), Refusal> {
        self.place(to, arrival, origin, Stage::Reserved)
    }

    #[inline(always)]
    fn place(
        &mut self,
        to: Publication,
        arrival: Arrival,
        origin: u32,
        stage: Stage,
    ) -> Result<(SlotId, Key), Refusal> {
        self.accepts()?;
        let growth = self.line.growth();
        self.charge.take(&self.limits, 1, growth).map_err(Refusal::Full)?;
        let root = match self.need_root(origin) {
            Ok(root) => root,
            Err(full) => {
                self.charge.give_back(1, growth);
                return Err(Refusal::Full(full));
            }
        };
        self.roots.hold(root);
        let key = Key { publication: to.ordinal, admission: self.ordinals.take() };
        let Arrival { target, payload, subscription, serial } = arrival;
        let slot = Slot { key, target, root, payload, subscription, serial, at: ALONE, count: 1 };
        Ok((self.line.admit(to.bucket, slot, stage), key))
    }

    /// Admits a row of slots whose capture is there, for the first `count` recipients of a list that the driver keeps
    /// with the capture; how many were admitted, and the key of the first. The rest met a limit.
    ///
    /// # Errors
    ///
    /// As [`admit`](Self::admit), if not even the first was admitted.
    #[inline]
    pub fn admit_row(
        &mut self,
        to: Publication,
        payload: u32,
        count: u32,
        origin: u32,
    ) -> Result<(Key, u32), Refusal> {
        self.accepts()?;
        let growth = self.line.growth();
        let count = count.min(self.limits.units.saturating_sub(self.charge.units()).max(1));
        self.charge.take(&self.limits, count, growth).map_err(Refusal::Full)?;
        let root = match self.need_root(origin) {
            Ok(root) => root,
            Err(full) => {
                self.charge.give_back(count, growth);
                return Err(Refusal::Full(full));
            }
        };
        self.roots.hold_for(root, count);
        let key = Key { publication: to.ordinal, admission: self.ordinals.take_many(count) };
        let target = Target { component: 0, registration: 0, generation: 0, run: 0 };
        let slot = Slot { key, target, root, payload, subscription: 0, serial: 0, at: 0, count };
        self.line.admit(to.bucket, slot, Stage::Ready);
        Ok((key, count))
    }

    /// Whether anything may be admitted.
    ///
    /// # Errors
    ///
    /// A fault is latched, or the bus is being torn down.
    #[inline(always)]
    pub fn accepts(&self) -> Result<(), Refusal> {
        if self.latch.is_set() {
            return Err(Refusal::Faulted);
        }
        if matches!(self.phase, Phase::TearingDown) {
            return Err(Refusal::TearingDown);
        }
        Ok(())
    }

    /// The active root, or a new one for the open frames that have none; with no frame open nobody holds it yet,
    /// so the caller must.
    #[inline(always)]
    fn need_root(&mut self, origin: u32) -> Result<Root, Full> {
        match self.frames.active() {
            Some(root) => Ok(root),
            None => self.make_root(origin),
        }
    }

    #[cold]
    fn make_root(&mut self, origin: u32) -> Result<Root, Full> {
        let growth = self.roots.growth();
        self.charge.take(&self.limits, 0, growth)?;
        let root = self.roots.make(origin);
        let commands = self.frames.counts().commands;
        let adopted = self.frames.adopt(root);
        for _ in 1..adopted {
            self.roots.hold(root);
        }
        if commands > 0 {
            self.roots.charge_command(root);
        }
        Ok(root)
    }

    /// The reservation has its capture, whatever has happened since it was granted (ADM-2).
    pub fn fill(&mut self, slot: SlotId, payload: u32) {
        self.line.fill(slot, payload);
    }

    /// The reservation was dropped.
    pub fn abandon(&mut self, slot: SlotId) {
        self.line.abandon(slot);
    }

    // ---- draining ---------------------------------------------------------------------------------------------

    /// Begins a drain.
    ///
    /// # Errors
    ///
    /// What stands in its way (DRAIN-3).
    pub const fn begin_drain(&mut self) -> Result<(), Hindrance> {
        if let Some(hindrance) = self.alive().hinders_drain() {
            return Err(hindrance);
        }
        self.phase = Phase::Draining;
        Ok(())
    }

    /// Ends the drain.
    pub const fn end_drain(&mut self) {
        self.phase = Phase::Idle;
    }

    /// The head of the line.
    #[inline]
    #[must_use]
    pub fn head(&self) -> Option<(SlotId, &Slot, Stage)> {
        self.line.head()
    }

    /// Whether the root has paid for all the deliveries it may have.
    #[inline]
    #[must_use]
    pub fn is_spent(&self, root: Root) -> bool {
        self.roots.deliveries(root) >= self.limits.deliveries
    }

    /// Takes the head out and opens its frame; what is done until the end runs under its root (KEEP-3).
    pub fn begin_delivery(&mut self) -> Option<Slot> {
        let (id, &slot, _) = self.line.head()?;
        self.begin_run(slot.root);
        self.take(id);
        Some(slot)
    }

    /// Ends the delivery, or the cancellation, of the slot that was taken last; `counts` if its root pays.
    #[must_use]
    pub fn end_delivery(&mut self, counts: bool) -> Option<Freed> {
        if let Some(root) = self.frames.active() {
            self.end_slot(root, counts);
        }
        self.end_run()
    }

    /// Opens the frame for slots of one root that are delivered one after another.
    #[inline]
    pub fn begin_run(&mut self, root: Root) {
        self.roots.hold(root);
        self.frames.open_under(Kind::Delivery, Some(root));
    }

    /// Takes the head out, which [`head`](Self::head) has just shown, inside a run of its root.
    #[inline(always)]
    pub fn take(&mut self, id: SlotId) {
        self.line.take(id);
    }

    /// Ends the slot that was taken last; `counts` if its root pays.
    #[inline(always)]
    pub fn end_slot(&mut self, root: Root, counts: bool) {
        self.roots.settle(root, counts);
        self.charge.give_back(1, 0);
        self.stall.on_progress();
    }

    /// Ends the run; its root may end with it.
    #[inline]
    #[must_use]
    pub fn end_run(&mut self) -> Option<Freed> {
        self.close_frame(Kind::Delivery)
    }

    /// The head is busy; true if that is a fault.
    #[must_use]
    pub const fn on_busy(&mut self, busy: super::drain::Busy) -> bool {
        self.stall.on_busy(busy, self.limits.stalls)
    }

    #[inline]
    fn close_frame(&mut self, kind: Kind) -> Option<Freed> {
        let root = self.frames.close(kind)?;
        self.roots.release(root)
    }

    // ---- commands ---------------------------------------------------------------------------------------------

    /// The root that a command takes along: the active one, or one for the frame it is sent in.
    ///
    /// # Errors
    ///
    /// A root was needed and the limit allows none. The command is to be queued all the same (CMD-6).
    pub fn send_command(&mut self, origin: u32) -> Result<Option<Root>, Full> {
        if self.frames.is_empty() {
            return Ok(None);
        }
        let root = self.need_root(origin)?;
        self.roots.hold(root);
        self.command_roots += 1;
        Ok(Some(root))
    }

    /// Opens the frame of a command.
    ///
    /// # Errors
    ///
    /// Its root has paid for all the commands it may have; nothing has changed (CMD-6).
    pub fn begin_command(&mut self, root: Option<Root>) -> Result<(), Root> {
        if let Some(root) = root {
            if self.roots.commands(root) >= self.limits.commands {
                return Err(root);
            }
            self.roots.charge_command(root);
            self.command_roots -= 1;
        }
        self.frames.open_under(Kind::Command, root);
        Ok(())
    }

    /// Ends the command.
    #[must_use]
    pub fn end_command(&mut self) -> Option<Freed> {
        self.close_frame(Kind::Command)
    }

    /// Opens the frame in which a command is destroyed unhandled (CMD-5); `end_command` ends it.
    pub fn drop_command(&mut self, root: Option<Root>) {
        self.command_roots -= u32::from(root.is_some());
        self.frames.open_under(Kind::Command, root);
    }

    // ---- retained work ----------------------------------------------------------------------------------------

    /// Takes the active root, or a new one, for a value that is kept (KEEP-1).
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit.
    pub fn retain(&mut self, units: u32, bytes: u64, origin: u32) -> Result<Root, Refusal> {
        self.accepts()?;
        self.charge.take(&self.limits, units, bytes).map_err(Refusal::Full)?;
        let root = if self.frames.is_empty() {
            // With no frame around it, the making is the hold.
            self.make_root(origin)
        } else {
            self.need_root(origin).inspect(|&root| self.roots.hold(root))
        };
        match root {
            Ok(root) => {
                self.retained += 1;
                Ok(root)
            }
            Err(full) => {
                self.charge.give_back(units, bytes);
                Err(Refusal::Full(full))
            }
        }
    }

    /// More of the same, under the same root.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit.
    pub fn grow(&mut self, units: u32, bytes: u64) -> Result<(), Refusal> {
        self.accepts()?;
        self.charge.take(&self.limits, units, bytes).map_err(Refusal::Full)
    }

    /// The retained value is gone.
    #[must_use]
    pub fn let_go(&mut self, root: Root, units: u32, bytes: u64) -> Option<Freed> {
        self.charge.give_back(units, bytes);
        self.retained -= 1;
        self.roots.release(root)
    }

    /// Opens a stretch of code under a root; `kind` is `Chain` or `Invocation`.
    pub fn begin_chain(&mut self, kind: Kind, root: Root) {
        self.roots.hold(root);
        self.frames.open_under(kind, Some(root));
    }

    /// Opens a batch of direct invocations under the active root, if there is one.
    pub fn begin_invocation(&mut self) {
        if let Some(root) = self.frames.open(Kind::Invocation) {
            self.roots.hold(root);
        }
    }

    /// Ends it; the root around it is active again.
    #[must_use]
    pub fn end_chain(&mut self, kind: Kind) -> Option<Freed> {
        self.close_frame(kind)
    }

    /// One more holder of a root, for an item in a local channel (ROOT-6).
    pub fn hold(&mut self, root: Root) {
        self.roots.hold(root);
    }

    /// One holder less.
    #[must_use]
    pub fn release(&mut self, root: Root) -> Option<Freed> {
        self.roots.release(root)
    }

    // ---- bytes, access, faults --------------------------------------------------------------------------------

    /// Charges storage that no slot stands for.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit.
    #[inline]
    pub fn take_bytes(&mut self, bytes: u64) -> Result<(), Refusal> {
        self.accepts()?;
        self.charge.take(&self.limits, 0, bytes).map_err(Refusal::Full)
    }

    /// Charges units that no slot stands for.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, or a limit.
    pub fn take_units(&mut self, units: u32, bytes: u64) -> Result<(), Refusal> {
        self.accepts()?;
        self.charge.take(&self.limits, units, bytes).map_err(Refusal::Full)
    }

    /// Gives storage back.
    #[inline]
    pub fn give_back(&mut self, units: u32, bytes: u64) {
        self.charge.give_back(units, bytes);
    }

    /// Access to a component is held from now on.
    pub const fn on_access(&mut self) {
        self.accesses += 1;
    }

    /// Access to a component has been given up.
    pub const fn on_access_end(&mut self) {
        self.accesses -= 1;
    }

    /// Latches a fault; true if it is the first.
    pub fn latch(&mut self, fault: F) -> bool {
        self.latch.latch(fault)
    }

    /// The first fault.
    #[must_use]
    #[inline]
    pub const fn fault(&self) -> Option<&F> {
        self.latch.first()
    }

    /// Faults told so far.
    #[must_use]
    pub const fn faults(&self) -> u64 {
        self.latch.count()
    }

    // ---- the end ------------------------------------------------------------------------------------------------

    /// Begins a teardown.
    ///
    /// # Errors
    ///
    /// What is still alive (FAULT-4). It may be tried again.
    pub const fn begin_teardown(&mut self) -> Result<(), Hindrance> {
        if let Some(hindrance) = self.alive().hinders_teardown() {
            return Err(hindrance);
        }
        self.phase = Phase::TearingDown;
        Ok(())
    }

    /// Takes every slot out, in order; each is then ended with `begin_detached` and `end_delivery`.
    #[must_use]
    pub fn detach(&mut self) -> Vec<Slot> {
        let mut slots = Vec::with_capacity(self.line.len() as usize);
        while let Some(slot) = self.line.take_head() {
            slots.push(slot);
        }
        slots
    }

    /// Opens the frame in which the capture of a detached slot is dropped.
    pub fn begin_detached(&mut self, slot: &Slot) {
        self.begin_run(slot.root);
    }

    /// Ends the teardown: storage is given up and the fault forgotten, so that the bus may be used again.
    pub fn end_teardown(&mut self) {
        let bytes = self.line.shrink() + self.roots.shrink();
        self.charge.give_back(0, bytes);
        self.latch.clear();
        self.phase = Phase::Idle;
    }

    // ---- what can be asked --------------------------------------------------------------------------------------

    /// Everything that is alive beside the line.
    #[must_use]
    pub const fn alive(&self) -> Alive {
        Alive {
            phase: self.phase,
            frames: self.frames.counts(),
            accesses: self.accesses,
            reservations: self.line.reserved(),
            retained: self.retained,
            command_roots: self.command_roots,
        }
    }

    /// The limits.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The slots.
    #[must_use]
    pub const fn line(&self) -> &Line {
        &self.line
    }

    /// The roots.
    #[must_use]
    pub const fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The charge.
    #[must_use]
    pub const fn charge(&self) -> &Charge {
        &self.charge
    }

    /// The root that work is done under now.
    #[must_use]
    pub fn active(&self) -> Option<Root> {
        self.frames.active()
    }

    /// Whether no frame is open: the bus is between two pieces of work.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        self.frames.is_empty()
    }

    /// The newest number of the bus.
    #[must_use]
    pub const fn last_ordinal(&self) -> Ordinal {
        self.ordinals.last()
    }

    /// Why a machine in here is broken, if one is.
    #[must_use]
    pub fn broken(&self) -> Option<&'static str> {
        let machines = [self.frames.broken(), self.line.broken(), self.roots.broken(), self.charge.broken()];
        machines.into_iter().flatten().next()
    }
}
