//! The core of a bus: its machine, and everything that the machine's numbers stand for.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use turnkeep_machines::bus::charge::Limits;
use turnkeep_machines::bus::dispatch::Dispatch;
use turnkeep_machines::bus::life::Trigger;
use turnkeep_machines::bus::line::{Slot, Target};
use turnkeep_machines::bus::ordinal::Key;
use turnkeep_machines::bus::root::{Freed, Root};
use turnkeep_machines::bus::timer::Timers;

use crate::ambient::{Owed, Shared};
use crate::command::Queue;
use crate::component::{Cell, ComponentKey, Failure, OnFailure};
use crate::endpoint::Endpoints;
use crate::fault::{FailureReport, FaultKind, FaultReport};
use crate::log::{Entry, Journal};
use crate::metrics::{Counts, Metrics};
use crate::payload::Payloads;
use crate::subscription::Subscriptions;
use crate::topic::Topics;

/// Stands for no component, no topic.
pub(crate) const NONE: u32 = u32::MAX;
/// How many failure reports are kept; older ones go, and are still counted.
const FAILURES_MAX: usize = 1024;
/// How many of the latest topics a runaway report looks at.
const TRAIL: usize = 16;

/// A lifecycle step that waits until its component is back from a callback.
pub(crate) struct Request {
    pub(crate) key: ComponentKey,
    pub(crate) trigger: Trigger,
}

/// Everything of one bus.
pub(crate) struct Core {
    pub(crate) machine: Dispatch<FaultReport>,
    pub(crate) cells: Vec<Cell>,
    /// Places of components that have ended.
    pub(crate) free_cells: Vec<u32>,
    pub(crate) names: HashMap<Arc<str>, u32>,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) topics: Topics,
    pub(crate) payloads: Payloads,
    pub(crate) endpoints: Endpoints,
    pub(crate) queues: Vec<Queue>,
    pub(crate) timers: Timers,
    pub(crate) now_ns: u64,
    /// What components share, one value a type.
    pub(crate) resources: Vec<(TypeId, Box<dyn Any + Send>)>,
    pub(crate) journal: Option<Journal>,
    pub(crate) counts: Counts,
    pub(crate) shared: Arc<Shared>,
    pub(crate) on_failure: OnFailure,
    pub(crate) failures: VecDeque<FailureReport>,
    pub(crate) requests: VecDeque<Request>,
    /// The topics of the latest deliveries, round and round.
    pub(crate) trail: [u32; TRAIL],
    /// The number of the newest command.
    pub(crate) commands: u64,
    /// The roots that items in channels hold, each as often as it is held.
    in_channels: Vec<Root>,
}

impl Core {
    pub(crate) fn new(limits: Limits, on_failure: OnFailure, journal: Option<Journal>) -> Self {
        let mut core = Self {
            machine: Dispatch::new(limits),
            cells: Vec::new(),
            free_cells: Vec::new(),
            names: HashMap::new(),
            subscriptions: Subscriptions::default(),
            topics: Topics::default(),
            payloads: Payloads::default(),
            endpoints: Endpoints::default(),
            queues: Vec::new(),
            timers: Timers::default(),
            now_ns: 0,
            resources: Vec::new(),
            journal,
            counts: Counts::default(),
            shared: Arc::new(Shared::new()),
            on_failure,
            failures: VecDeque::new(),
            requests: VecDeque::new(),
            trail: [NONE; TRAIL],
            commands: 0,
            in_channels: Vec::new(),
        };
        core.note(|| Entry::Limits {
            deliveries: limits.deliveries,
            commands: limits.commands,
            firings: limits.firings,
            units: limits.units,
        });
        core
    }

    /// Writes a log entry, if there is a log.
    #[inline]
    pub(crate) fn note(&mut self, entry: impl FnOnce() -> Entry) {
        if let Some(journal) = &mut self.journal {
            journal.note(entry);
        }
    }

    /// The target for a component as it stands now.
    #[inline]
    pub(crate) fn target(&self, component: u32) -> Target {
        target(&self.cells[component as usize], component)
    }

    /// The cell of a component that is still registered under its key.
    pub(crate) fn cell(&self, key: ComponentKey) -> Option<&Cell> {
        let cell = self.cells.get(key.index as usize)?;
        (cell.taken && cell.registration == key.registration).then_some(cell)
    }

    /// The component's name, for reports.
    pub(crate) fn name(&self, component: u32) -> Arc<str> {
        self.cells.get(component as usize).map_or_else(|| "the host".into(), |cell| cell.name.clone())
    }

    /// A root may have ended.
    #[inline]
    pub(crate) fn on_freed(&mut self, freed: Option<Freed>) {
        if let Some(freed) = freed {
            self.counts.on_freed(freed.deliveries);
            self.note(|| Entry::RootFreed {
                root: freed.number,
                deliveries: freed.deliveries,
                commands: freed.commands,
            });
        }
    }

    /// Notes the roots made since `before`.
    pub(crate) fn note_roots(&mut self, before: u64) {
        if self.journal.is_some() && self.machine.roots().made() > before {
            let root = self.machine.roots().made();
            self.note(|| Entry::RootMade { root });
        }
    }

    /// Settles what was left by values that were dropped without a context.
    #[inline]
    pub(crate) fn settle_owed(&mut self) {
        if self.shared.owes() {
            self.settle_each();
        }
    }

    #[cold]
    fn settle_each(&mut self) {
        for owed in self.shared.take() {
            match owed {
                Owed::Abandon(slot) => {
                    let admission = self.machine.line().slot(slot).map(|(slot, _)| slot.key.admission.0);
                    self.machine.abandon(slot);
                    if let Some(admission) = admission {
                        self.note(|| Entry::Abandoned { admission });
                    }
                }
                Owed::LetGo(root, units, bytes) => {
                    let freed = self.machine.let_go(root, units, bytes);
                    self.on_freed(freed);
                }
                Owed::GiveBack(units, bytes) => self.machine.give_back(units, bytes),
                Owed::Hold(root, epoch) if epoch == self.shared.epoch() => {
                    self.machine.hold(root);
                    self.in_channels.push(root);
                }
                Owed::Release(root, epoch) if epoch == self.shared.epoch() => self.release_in_channel(root),
                // The teardown in between has let it go.
                Owed::Hold(..) | Owed::Release(..) => {}
            }
        }
    }

    fn release_in_channel(&mut self, root: Root) {
        if let Some(at) = self.in_channels.iter().position(|held| *held == root) {
            self.in_channels.swap_remove(at);
            let freed = self.machine.release(root);
            self.on_freed(freed);
        }
    }

    /// Gives up everything that is queued (FAULT-4). The machine has begun the teardown.
    pub(crate) fn tear_down(&mut self) {
        self.note(|| Entry::TeardownBegan);
        self.shared.begin_teardown();
        self.drop_slots();
        while let Some(&root) = self.in_channels.last() {
            self.release_in_channel(root);
        }
        self.machine.end_teardown();
        self.shared.end_teardown();
        let metrics = self.metrics();
        let (units, bytes, roots) = (metrics.units, metrics.bytes, metrics.roots_alive);
        self.note(|| Entry::TeardownEnded { units, bytes, roots });
    }

    /// Latches a fault that came up at a slot.
    #[cold]
    pub(crate) fn fault_at(&mut self, kind: FaultKind, slot: &Slot, topic: u32, detail: String) {
        let component = Some(slot.target.component).filter(|_| kind != FaultKind::Overflow);
        self.fault(kind, component, topic, Some(slot.key), Some(slot.root), detail);
    }

    /// Latches a fault.
    #[cold]
    pub(crate) fn fault(
        &mut self,
        kind: FaultKind,
        component: Option<u32>,
        topic: u32,
        key: Option<Key>,
        root: Option<Root>,
        detail: String,
    ) {
        let component = component.filter(|&component| component != NONE).map(|at| self.name(at));
        self.fault_named(kind, component, topic, key, root, detail);
    }

    /// Latches a fault in the work of whoever has that name.
    #[cold]
    pub(crate) fn fault_named(
        &mut self,
        kind: FaultKind,
        component: Option<Arc<str>>,
        topic: u32,
        key: Option<Key>,
        root: Option<Root>,
        detail: String,
    ) {
        let root = root.or_else(|| self.machine.active());
        let roots = self.machine.roots();
        let origin = root.map(|root| roots.origin(root)).and_then(|origin| self.topics.name(origin)).cloned();
        let report = FaultReport {
            kind,
            component,
            topic: self.topics.name(topic).cloned(),
            publication: key.map(|key| key.publication.0),
            admission: key.map(|key| key.admission.0),
            root: root.map(|root| roots.number(root)),
            origin,
            deliveries: root.map_or(0, |root| roots.deliveries(root)),
            depth: self.machine.line().len(),
            detail,
        };
        let (kind, detail) = (format!("{kind:?}"), report.detail.clone());
        let first = self.machine.latch(report);
        self.note(|| Entry::Fault { kind, first, detail });
    }

    /// What a failed callback leads to.
    #[cold]
    pub(crate) fn on_failure(&mut self, key: ComponentKey, during: &str, failure: &Failure) {
        let component = key.index;
        let Some(cell) = self.cells.get(component as usize) else { return };
        // A registration that is over has nothing left to fault, and its successor has not failed.
        let over = !cell.taken || cell.registration != key.registration;
        let led_to = if over { OnFailure::Report } else { cell.on_failure };
        let text = failure.to_string();
        self.report(FailureReport {
            component: cell.name.clone(),
            during: during.into(),
            text: text.clone(),
            led_to,
        });
        match led_to {
            OnFailure::FaultComponent => self.requests.push_back(Request { key, trigger: Trigger::Fault }),
            OnFailure::HaltBus => {
                let detail = format!("a callback failed: {text}");
                let topic = self.topics.find(during).unwrap_or(NONE);
                self.fault(FaultKind::Failed, Some(component), topic, None, None, detail);
            }
            OnFailure::Report => {}
        }
    }

    pub(crate) fn report(&mut self, report: FailureReport) {
        self.counts.failures += 1;
        if self.failures.len() == FAILURES_MAX {
            self.failures.pop_front();
        }
        self.failures.push_back(report);
    }

    /// Which topics the latest deliveries went round in.
    pub(crate) fn repeating(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for name in self.trail.iter().filter_map(|&topic| self.topics.name(topic)) {
            if !names.contains(&&**name) {
                names.push(name);
            }
        }
        names.sort_unstable();
        names.join(", ")
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let (machine, counts) = (&self.machine, &self.counts);
        Metrics {
            depth: machine.line().len(),
            units: machine.charge().units(),
            bytes: machine.charge().bytes(),
            publications: counts.publications,
            deliveries: counts.deliveries,
            cancelled: counts.cancelled,
            refused: counts.refused,
            faults: machine.faults(),
            failures: counts.failures,
            commands: counts.commands,
            timers: counts.timers,
            roots: machine.roots().made(),
            roots_alive: machine.roots().alive(),
            chains: counts.chains,
            max_chain: counts.max_chain,
        }
    }
}

/// The target for a component as it stands in its cell.
#[inline(always)]
pub(crate) fn target(cell: &Cell, component: u32) -> Target {
    Target {
        component,
        registration: cell.registration,
        generation: cell.life.generation(),
        run: cell.life.run(),
    }
}
