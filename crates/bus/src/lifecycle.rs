//! The lives of components: registration, the steps between states, retirement.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use turnkeep_machines::bus::life::{Life, NoTransition, State, Trigger};

use crate::component::{
    Cell, Component, ComponentId, ComponentKey, Foreign, Lifecycle, Maintenance, Object, OnFailure, Seam,
};
use crate::context::Context;
use crate::core::{Core, NONE, Request};
use crate::fault::{FailureReport, FaultKind, panic_text};
use crate::log::Entry;

/// Why a component was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A component of that name is registered.
    #[error("a component named {name:?} is registered already; replace or retire it, or use another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A fault is latched, or the bus is being torn down.
    #[error("component {name:?} cannot be registered while the bus is torn down; wait for its end")]
    TearingDown {
        /// The name.
        name: String,
    },
}

/// Why a step in a component's life was refused (COMP-6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LifeError {
    /// The state machine has no such transition.
    #[error(
        "component {name} is {state:?}, and {trigger:?} leads nowhere from there; see the table of states"
    )]
    NoTransition {
        /// The component.
        name: Arc<str>,
        /// Where it is.
        state: State,
        /// What was asked of it.
        trigger: Trigger,
    },
    /// The registration is over.
    #[error("the component is no longer registered; use the key of its new registration")]
    Gone,
}

impl Core {
    pub(crate) fn register(
        &mut self,
        name: &str,
        object: Box<dyn Object>,
        maintenance: Maintenance,
        foreign: bool,
    ) -> Result<ComponentKey, RegisterError> {
        if self.machine.alive().phase == turnkeep_machines::bus::drain::Phase::TearingDown {
            return Err(RegisterError::TearingDown { name: name.into() });
        }
        if self.names.contains_key(name) {
            return Err(RegisterError::NameTaken { name: name.into() });
        }
        let cell = Cell {
            name: name.into(),
            object: Some(object),
            registration: 1,
            life: Life::default(),
            maintenance,
            foreign,
            on_failure: self.on_failure,
            taken: true,
        };
        let index = match self.free_cells.pop() {
            Some(index) => {
                let registration = self.cells[index as usize].registration + 1;
                self.cells[index as usize] = Cell { registration, ..cell };
                index
            }
            None => {
                self.cells.push(cell);
                (self.cells.len() - 1) as u32
            }
        };
        self.names.insert(name.into(), index);
        let registration = self.cells[index as usize].registration;
        self.note_component(index);
        Ok(ComponentKey { index, registration })
    }

    fn note_component(&mut self, index: u32) {
        self.subscriptions.touch();
        let Self { cells, journal, .. } = self;
        let (Some(journal), Some(cell)) = (journal, cells.get(index as usize)) else { return };
        journal.note(|| Entry::Component {
            component: index,
            registration: cell.registration,
            name: cell.name.to_string(),
            maintenance: format!("{:?}", cell.maintenance).to_lowercase(),
        });
    }

    /// Puts another component in the place of one, under the same name; what is queued for the old one is cancelled.
    pub(crate) fn replace(
        &mut self,
        key: ComponentKey,
        object: Box<dyn Object>,
        maintenance: Maintenance,
    ) -> Result<ComponentKey, LifeError> {
        self.cell(key).ok_or(LifeError::Gone)?;
        self.subscriptions.remove_all(key.index);
        self.cancel_timers(key.index);
        let cell = &mut self.cells[key.index as usize];
        cell.registration += 1;
        cell.life = Life::default();
        cell.maintenance = maintenance;
        let registration = cell.registration;
        let old = cell.object.replace(object);
        self.note_component(key.index);
        if let Some(old) = old {
            self.drop_object(key.index, old);
        }
        Ok(ComponentKey { index: key.index, registration })
    }

    /// Takes one step, or two: into the state in which the callback runs, and out of it. A component that is out
    /// takes it as soon as it is back.
    pub(crate) fn trigger(&mut self, key: ComponentKey, trigger: Trigger) -> Result<(), LifeError> {
        let cell = self.cell(key).ok_or(LifeError::Gone)?;
        if cell.object.is_none() {
            let (mut trial, name) = (cell.life, cell.name.clone());
            for earlier in self.requests.iter().filter(|request| request.key == key) {
                let _ = trial.on(earlier.trigger).and_then(|_| trial.on(Trigger::Done));
            }
            trial.on(trigger).map_err(|no| no_transition(name, no))?;
            self.requests.push_back(Request { key, trigger });
            return Ok(());
        }
        self.take_step(key, trigger)
    }

    fn take_step(&mut self, key: ComponentKey, trigger: Trigger) -> Result<(), LifeError> {
        let index = key.index as usize;
        let name = self.cells[index].name.clone();
        self.cells[index].life.on(trigger).map_err(|no| no_transition(name, no))?;
        self.note_life(key.index);
        if matches!(trigger, Trigger::Reset | Trigger::Dispose | Trigger::Fault) {
            // What it had set in the life that is over must not reach the next one.
            self.cancel_timers(key.index);
        }
        let lifecycle = match trigger {
            Trigger::Start => Lifecycle::Start,
            Trigger::Stop => Lifecycle::Stop,
            Trigger::Resume => Lifecycle::Resume,
            Trigger::Reset => Lifecycle::Reset,
            Trigger::Degrade => Lifecycle::Degrade,
            Trigger::Dispose => Lifecycle::Dispose,
            Trigger::Fault | Trigger::Done => Lifecycle::Fault,
        };
        let failed = self.run_lifecycle(key, lifecycle);
        let gone = self.cell(key).is_none();
        if gone {
            return Ok(());
        }
        if failed && !matches!(lifecycle, Lifecycle::Fault | Lifecycle::Dispose) {
            return Ok(());
        }
        // The callback may have asked for something else meanwhile, which has then been queued.
        let _ = self.cells[index].life.on(Trigger::Done);
        self.note_life(key.index);
        if lifecycle == Lifecycle::Dispose {
            self.end_registration(key);
        }
        self.serve_requests();
        Ok(())
    }

    /// Runs a lifecycle callback; true if it failed, and what that leads to has been done.
    fn run_lifecycle(&mut self, key: ComponentKey, lifecycle: Lifecycle) -> bool {
        let Some(mut object) = self.cells[key.index as usize].object.take() else { return false };
        let mut ctx = Context::new(self, key.index, NONE);
        let result = catch_unwind(AssertUnwindSafe(|| object.lifecycle(&mut ctx, lifecycle)));
        self.bring_home(key.index, key.registration, object);
        match result {
            Ok(Ok(())) => false,
            Ok(Err(failure)) => {
                let during = format!("{lifecycle:?}").to_lowercase();
                if matches!(lifecycle, Lifecycle::Fault | Lifecycle::Dispose) {
                    let component = self.name(key.index);
                    let (during, text) = (during.into(), failure.to_string());
                    self.report(FailureReport { component, during, text, led_to: OnFailure::Report });
                } else {
                    self.on_failure(key, &during, &failure);
                    if self.cells[key.index as usize].on_failure == OnFailure::Report {
                        return false;
                    }
                    self.serve_requests();
                }
                true
            }
            Err(panic) => {
                let detail = format!("the callback for {lifecycle:?} panicked: {}", panic_text(&*panic));
                self.fault(FaultKind::Panicked, Some(key.index), NONE, None, None, detail);
                true
            }
        }
    }

    fn cancel_timers(&mut self, component: u32) {
        if self.timers.cancel_all(component) > 0 {
            self.note(|| Entry::TimerCancelled { component, name: None });
        }
    }

    fn end_registration(&mut self, key: ComponentKey) {
        self.subscriptions.remove_all(key.index);
        self.cancel_timers(key.index);
        self.endpoints.remove_all(key);
        let cell = &mut self.cells[key.index as usize];
        cell.taken = false;
        let object = cell.object.take();
        let name = cell.name.clone();
        self.names.remove(&*name);
        self.free_cells.push(key.index);
        if let Some(object) = object {
            self.drop_object(key.index, object);
        }
    }

    /// Takes the steps that waited for their components to come back.
    pub(crate) fn serve_requests(&mut self) {
        for _ in 0..self.requests.len() {
            let Some(Request { key, trigger }) = self.requests.pop_front() else { return };
            match self.cell(key) {
                None => {}
                Some(cell) if cell.object.is_none() => self.requests.push_back(Request { key, trigger }),
                // It was possible when it was asked for; what has happened since has made it pointless.
                Some(_) => drop(self.take_step(key, trigger)),
            }
        }
    }

    fn note_life(&mut self, index: u32) {
        self.subscriptions.touch();
        let Self { cells, journal, .. } = self;
        let (Some(journal), Some(cell)) = (journal, cells.get(index as usize)) else { return };
        journal.note(|| Entry::Life {
            component: index,
            registration: cell.registration,
            state: format!("{:?}", cell.life.state()).to_lowercase(),
            generation: cell.life.generation(),
            run: cell.life.run(),
        });
    }
}

fn no_transition(name: Arc<str>, no: NoTransition) -> LifeError {
    LifeError::NoTransition { name, state: no.state, trigger: no.trigger }
}

impl Context<'_> {
    /// Registers a component; it is Ready, and takes no events until it is started.
    ///
    /// # Errors
    ///
    /// The name is taken, or the bus is being torn down.
    pub fn register<C: Component>(
        &mut self,
        name: &str,
        component: C,
    ) -> Result<ComponentId<C>, RegisterError> {
        self.core.register(name, Box::new(component), C::MAINTENANCE, false).map(ComponentId::new)
    }

    /// Registers a component whose code lives elsewhere.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub fn register_foreign<F: Foreign>(
        &mut self,
        name: &str,
        component: F,
    ) -> Result<ComponentKey, RegisterError> {
        self.core.register(name, Box::new(Seam(component)), Maintenance::None, true)
    }

    /// Puts another component in the place of one. What is queued for the old one is cancelled; subscriptions and
    /// timers end with it (COMP-4).
    ///
    /// # Errors
    ///
    /// The component is no longer registered.
    pub fn replace<C: Component>(
        &mut self,
        old: impl Into<ComponentKey>,
        component: C,
    ) -> Result<ComponentId<C>, LifeError> {
        self.core.replace(old.into(), Box::new(component), C::MAINTENANCE).map(ComponentId::new)
    }

    /// Says what a failed callback of a component leads to (COMP-7).
    ///
    /// # Errors
    ///
    /// The component is no longer registered.
    pub fn on_failure(
        &mut self,
        component: impl Into<ComponentKey>,
        reaction: OnFailure,
    ) -> Result<(), LifeError> {
        let key = component.into();
        self.core.cell(key).ok_or(LifeError::Gone)?;
        self.core.cells[key.index as usize].on_failure = reaction;
        Ok(())
    }

    /// Starts a component. As every step, it is taken at once, or, for a component that is in a callback, right
    /// after it.
    ///
    /// # Errors
    ///
    /// The state has no such transition, or the registration is over.
    pub fn start(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Start)
    }

    /// Stops a component: it takes no events until it is resumed, and those of before never reach its author.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn stop(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Stop)
    }

    /// Resumes a component.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn resume(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Resume)
    }

    /// Takes a component back to its beginning, in a new generation.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn reset(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Reset)
    }

    /// Lets a component go on in a smaller way of its own.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn degrade(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Degrade)
    }

    /// Faults a component, as a failed callback of it would.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn fault(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Fault)
    }

    /// Retires a stopped, faulted or never started component: its registration, subscriptions, timers and endpoints
    /// end.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn retire(&mut self, component: impl Into<ComponentKey>) -> Result<(), LifeError> {
        self.core.trigger(component.into(), Trigger::Dispose)
    }

    /// The state of a component; none if it is no longer registered.
    #[must_use]
    pub fn state(&self, component: impl Into<ComponentKey>) -> Option<State> {
        self.core.cell(component.into()).map(|cell| cell.life.state())
    }
}
