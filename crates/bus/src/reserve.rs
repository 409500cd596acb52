//! Reservations: a place in the queue that is granted before its capture is built.

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use turnkeep_machines::bus::dispatch::Refusal;
use turnkeep_machines::bus::line::SlotId;

use crate::ambient::{Owed, Shared};
use crate::component::{ComponentId, On, method};
use crate::context::Context;
use crate::core::NONE;
use crate::event::Event;
use crate::log::Entry;
use crate::subscription::Call;

/// A granted place for one event and one component. Until it is filled or dropped, nothing behind it is delivered;
/// dropped, it leaves a cancelled slot (ADM-3).
#[must_use = "a reservation that is dropped leaves a cancelled slot"]
pub struct Reservation<E> {
    slot: SlotId,
    admission: u64,
    payload: u32,
    /// Taken when it is filled.
    shared: Option<Arc<Shared>>,
    event: PhantomData<fn(E)>,
}

impl<E> fmt::Debug for Reservation<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").finish_non_exhaustive()
    }
}

impl<E> Drop for Reservation<E> {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.owe(Owed::Abandon(self.slot));
        }
    }
}

/// Why nothing was granted. Nothing was built, and nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The bus has a fault.
    #[error("the bus is faulted; read its report and tear it down")]
    Faulted,
    /// The bus is being torn down.
    #[error("the bus is being torn down; wait for its end")]
    TearingDown,
    /// A limit would be passed; the bus is faulted now.
    #[error("a limit of the bus would be passed, and the bus is faulted; publish less at once or raise it")]
    Overflow,
    /// The registration is over.
    #[error("the component is no longer registered; use the key of its new registration")]
    Gone,
    /// A component of the batch is in use.
    #[error("a component of the batch is in use; try again when its callback has ended")]
    Busy,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Faulted => Self::Faulted,
            Refusal::TearingDown => Self::TearingDown,
            Refusal::Full(_) => Self::Overflow,
        }
    }
}

impl Context<'_> {
    /// Reserves a place for an event of one kind that will own `heap_bytes` beyond its size, for one component.
    ///
    /// # Errors
    ///
    /// A fault, a teardown, a limit, or a component that is gone. A limit faults the bus.
    pub fn reserve<C: On<E>, E: Event>(
        &mut self,
        component: ComponentId<C>,
        heap_bytes: usize,
    ) -> Result<Reservation<E>, Refused> {
        let key = component.key();
        self.core.cell(key).ok_or(Refused::Gone)?;
        let bytes = (size_of::<E>() + heap_bytes) as u64;
        let call = Call::Method(key.index, method::<C, E>);
        let publication = self.core.open(NONE);
        let granted = self.core.admit_post(publication, key.index, call, bytes, TypeId::of::<E>(), true);
        if let Err(refusal) = granted {
            self.core.refuse(publication, NONE, refusal, 1);
        }
        self.core.close(publication);
        let (slot, payload) = granted?;
        let admission = self.core.machine.line().slot(slot).map_or(0, |(slot, _)| slot.key.admission.0);
        let shared = Some(self.core.shared.clone());
        Ok(Reservation { slot, admission, payload, shared, event: PhantomData })
    }

    /// Hands over the capture of a reservation. It is always taken, also after a fault (ADM-2).
    ///
    /// # Panics
    ///
    /// If the reservation is another bus's.
    pub fn fill<E: Event>(&mut self, mut reservation: Reservation<E>, event: E) {
        let own = reservation.shared.as_ref().is_some_and(|shared| shared.bus == self.core.shared.bus);
        assert!(own, "the reservation is another bus's; fill it there");
        reservation.shared = None;
        let kind = self.core.kind::<E>();
        let boxed = self.core.payloads.boxed(kind, event);
        self.core.payloads.put(reservation.payload, boxed);
        self.core.machine.fill(reservation.slot, reservation.payload);
        let admission = reservation.admission;
        self.core.note(|| Entry::Filled { admission });
    }

    /// Reserves a place, builds the event only if it is granted, and hands it over.
    ///
    /// # Errors
    ///
    /// As [`reserve`](Self::reserve); nothing was built then.
    pub fn post_with<C: On<E>, E: Event>(
        &mut self,
        component: ComponentId<C>,
        heap_bytes: usize,
        build: impl FnOnce() -> E,
    ) -> Result<(), Refused> {
        let reservation = self.reserve(component, heap_bytes)?;
        let event = build();
        self.fill(reservation, event);
        Ok(())
    }
}
