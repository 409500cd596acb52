//! Components: what a program implements, how the bus keeps one, and the seam for foreign ones.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use turnkeep_machines::bus::drain::Busy;
use turnkeep_machines::bus::life::{Life, State};

use crate::context::Context;
use crate::event::{Arrived, Event};
use crate::timer::Timer;

/// What a callback fails with: any error, or a text.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// In which states a component's maintenance runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Maintenance {
    /// It has none.
    #[default]
    None,
    /// While it is running.
    Running,
    /// In every state from Ready to Faulted.
    Always,
}

impl Maintenance {
    #[inline]
    pub(crate) const fn runs_in(self, state: State) -> bool {
        match self {
            Self::None => false,
            Self::Running => matches!(state, State::Running),
            Self::Always => !matches!(state, State::Disposing | State::Disposed),
        }
    }
}

/// A component of a bus: state with callbacks, reached by the bus alone, one callback at a time (COMP-1).
///
/// A callback that fails faults its component, unless the bus is told otherwise ([`OnFailure`]); one that panics
/// faults the bus. No callback sees ordinals, roots or tickets (COMP-8).
pub trait Component: Send + 'static {
    /// In which states [`maintain`](Self::maintain) runs.
    const MAINTENANCE: Maintenance = Maintenance::None;

    /// Called once when the component starts. Running follows.
    ///
    /// # Errors
    ///
    /// As every callback: whatever the author wants to tell.
    fn on_start(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when it stops.
    ///
    /// # Errors
    ///
    /// As every callback.
    fn on_stop(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when it goes on after a stop or a degradation.
    ///
    /// # Errors
    ///
    /// As every callback.
    fn on_resume(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when it goes back to its beginning.
    ///
    /// # Errors
    ///
    /// As every callback.
    fn on_reset(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when it goes on in a smaller way.
    ///
    /// # Errors
    ///
    /// As every callback.
    fn on_degrade(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called after a callback of it has failed.
    ///
    /// # Errors
    ///
    /// As every callback; it is reported and changes nothing.
    fn on_fault(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called once at its end.
    ///
    /// # Errors
    ///
    /// As every callback; it is reported and changes nothing.
    fn on_dispose(&mut self, _ctx: &mut Context<'_>) -> Result<(), Failure> {
        Ok(())
    }

    /// Called when a timer of the component fires.
    ///
    /// # Errors
    ///
    /// As every callback.
    fn on_timer(&mut self, _ctx: &mut Context<'_>, _timer: &Timer) -> Result<(), Failure> {
        Ok(())
    }

    /// Runs with each queued event, just before the author's callback: indicators, timers, contingent orders. It
    /// follows [`MAINTENANCE`](Self::MAINTENANCE), not the rules for author code, and what it publishes enters the
    /// same queue (COMP-2).
    ///
    /// # Errors
    ///
    /// As every callback; the author's callback does not run then.
    fn maintain(&mut self, _ctx: &mut Context<'_>, _event: &Arrived<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

/// A component that takes events of a kind.
pub trait On<E: Event>: Component {
    /// Takes one event. The cache is as it is now, the event as it was published (COMP-5).
    ///
    /// # Errors
    ///
    /// Whatever the author wants to tell; see [`OnFailure`].
    fn on(&mut self, ctx: &mut Context<'_>, event: &E) -> Result<(), Failure>;
}

/// Which lifecycle callback is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lifecycle {
    /// It starts.
    Start,
    /// It stops.
    Stop,
    /// It goes on.
    Resume,
    /// It goes back to its beginning.
    Reset,
    /// It goes on in a smaller way.
    Degrade,
    /// It has failed.
    Fault,
    /// It ends.
    Dispose,
}

/// A component whose code lives elsewhere: in another language, in a plug-in. The same rules hold for it, and it
/// may say that it cannot be reached now.
pub trait Foreign: Send + 'static {
    /// Who holds the component, if it cannot take a callback now.
    fn busy(&mut self) -> Option<Busy> {
        None
    }

    /// A lifecycle callback.
    ///
    /// # Errors
    ///
    /// Whatever the other side reports.
    fn lifecycle(&mut self, _ctx: &mut Context<'_>, _lifecycle: Lifecycle) -> Result<(), Failure> {
        Ok(())
    }

    /// An event, or a timer as an event of kind [`Timer`].
    ///
    /// # Errors
    ///
    /// Whatever the other side reports.
    fn deliver(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure>;
}

/// What a failed callback leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The component is faulted, the bus goes on.
    #[default]
    FaultComponent,
    /// The bus is faulted.
    HaltBus,
    /// It is reported, and nothing else.
    Report,
}

/// A registered component of a known type.
pub struct ComponentId<C: ?Sized> {
    pub(crate) key: ComponentKey,
    kind: PhantomData<fn(&C)>,
}

impl<C: ?Sized> ComponentId<C> {
    pub(crate) fn new(key: ComponentKey) -> Self {
        Self { key, kind: PhantomData }
    }

    /// The same without the type.
    #[must_use]
    pub fn key(self) -> ComponentKey {
        self.key
    }
}

impl<C: ?Sized> Clone for ComponentId<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: ?Sized> Copy for ComponentId<C> {}

impl<C: ?Sized> fmt::Debug for ComponentId<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl<C: ?Sized> From<ComponentId<C>> for ComponentKey {
    fn from(id: ComponentId<C>) -> Self {
        id.key
    }
}

/// One registration of a component; another registration at its place is another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComponentKey {
    pub(crate) index: u32,
    pub(crate) registration: u32,
}

/// A component as the bus calls it, whatever it is.
pub(crate) trait Object: Any + Send {
    fn lifecycle(&mut self, ctx: &mut Context<'_>, lifecycle: Lifecycle) -> Result<(), Failure>;
    fn maintain(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure>;
    fn on_timer(&mut self, ctx: &mut Context<'_>, timer: &Timer) -> Result<(), Failure>;
    /// An event for a foreign component; a native one is called through its method.
    fn deliver(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure>;
    fn busy(&mut self) -> Option<Busy>;
}

impl<C: Component> Object for C {
    fn lifecycle(&mut self, ctx: &mut Context<'_>, lifecycle: Lifecycle) -> Result<(), Failure> {
        match lifecycle {
            Lifecycle::Start => self.on_start(ctx),
            Lifecycle::Stop => self.on_stop(ctx),
            Lifecycle::Resume => self.on_resume(ctx),
            Lifecycle::Reset => self.on_reset(ctx),
            Lifecycle::Degrade => self.on_degrade(ctx),
            Lifecycle::Fault => self.on_fault(ctx),
            Lifecycle::Dispose => self.on_dispose(ctx),
        }
    }

    fn maintain(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        Component::maintain(self, ctx, event)
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, timer: &Timer) -> Result<(), Failure> {
        Component::on_timer(self, ctx, timer)
    }

    fn deliver(&mut self, _: &mut Context<'_>, _: &Arrived<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn busy(&mut self) -> Option<Busy> {
        None
    }
}

/// The foreign component behind the seam.
pub(crate) struct Seam<F>(pub(crate) F);

impl<F: Foreign> Object for Seam<F> {
    fn lifecycle(&mut self, ctx: &mut Context<'_>, lifecycle: Lifecycle) -> Result<(), Failure> {
        self.0.lifecycle(ctx, lifecycle)
    }

    fn maintain(&mut self, _: &mut Context<'_>, _: &Arrived<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn on_timer(&mut self, ctx: &mut Context<'_>, timer: &Timer) -> Result<(), Failure> {
        self.0.deliver(ctx, &Arrived::new("", Timer::NAME, timer))
    }

    fn deliver(&mut self, ctx: &mut Context<'_>, event: &Arrived<'_>) -> Result<(), Failure> {
        self.0.deliver(ctx, event)
    }

    fn busy(&mut self) -> Option<Busy> {
        self.0.busy()
    }
}

/// The method of a native component for a kind of event, behind one signature.
pub(crate) fn method<C: On<E>, E: Event>(
    object: &mut dyn Object,
    ctx: &mut Context<'_>,
    event: &dyn Any,
) -> Result<(), Failure> {
    let object: &mut dyn Any = object;
    match (object.downcast_mut::<C>(), event.downcast_ref::<E>()) {
        (Some(component), Some(event)) => component.on(ctx, event),
        _ => Err("COMP-4: the component or the event is of another type than its subscription".into()),
    }
}

/// A timer, for the component that it belongs to.
pub(crate) fn timer(object: &mut dyn Object, ctx: &mut Context<'_>, event: &dyn Any) -> Result<(), Failure> {
    match event.downcast_ref::<Timer>() {
        Some(timer) => object.on_timer(ctx, timer),
        None => Ok(()),
    }
}

/// The place of a component in the registry.
pub(crate) struct Cell {
    pub(crate) name: Arc<str>,
    /// Out while a callback runs, or while somebody else has access; gone after the end.
    pub(crate) object: Option<Box<dyn Object>>,
    /// Rises each time the place is given to a component.
    pub(crate) registration: u32,
    pub(crate) life: Life,
    pub(crate) maintenance: Maintenance,
    pub(crate) foreign: bool,
    pub(crate) on_failure: OnFailure,
    /// Whether a component is registered here.
    pub(crate) taken: bool,
}
