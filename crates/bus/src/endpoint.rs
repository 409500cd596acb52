//! Endpoints: one handler an address, called at once, outside publications and the callback queue.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::ambient;
use crate::component::{ComponentId, ComponentKey, Failure, On, method};
use crate::context::Context;
use crate::core::{Core, NONE};
use crate::event::Event;
use crate::fault::{FaultKind, panic_text};
use crate::log::Entry;
use crate::subscription::Method;

/// The most requests that wait for an answer.
pub const REQUESTS_MAX: usize = 65_536;

/// The id that joins an answer to its request. It is used once (RAW-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Correlation(u64);

/// Why a message did not reach a handler, or was not handled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// Nobody is at that address.
    #[error("there is no endpoint {address:?}; register one first, or look at the spelling")]
    UnknownAddress {
        /// The address.
        address: String,
    },
    /// The endpoint takes another kind of message.
    #[error("endpoint {address:?} takes {takes}, not {sent}; send what it takes")]
    Kind {
        /// The address.
        address: String,
        /// What it takes.
        takes: &'static str,
        /// What was sent.
        sent: &'static str,
    },
    /// The component behind it is in a callback.
    #[error("endpoint {address:?} belongs to {component}, which is in use; send when its callback has ended")]
    Busy {
        /// The address.
        address: String,
        /// The component.
        component: Arc<str>,
    },
    /// Its handler has failed; that was dealt with as a failed callback is.
    #[error("the handler of endpoint {address:?} failed: {text}")]
    Failed {
        /// The address.
        address: String,
        /// What its error says.
        text: String,
    },
    /// Its handler has panicked; the bus is faulted.
    #[error("the handler of endpoint {address:?} panicked, and the bus is faulted")]
    Panicked {
        /// The address.
        address: String,
    },
    /// The id is of no request that waits for an answer.
    #[error("request {id:?} waits for no answer; an id is used once")]
    UnknownId {
        /// The id.
        id: Correlation,
    },
    /// [`REQUESTS_MAX`] requests wait.
    #[error("{REQUESTS_MAX} requests wait for answers already; answer some first")]
    TooMany,
    /// The address is taken.
    #[error("endpoint {address:?} has a handler already; an address has one")]
    AddressTaken {
        /// The address.
        address: String,
    },
}

type Handler = Arc<dyn Fn(&mut Context<'_>, &dyn Any) + Send + Sync>;

#[derive(Clone)]
enum Call {
    Raw(Arc<str>, Handler),
    Component(ComponentKey, Method),
}

#[derive(Clone)]
struct Endpoint {
    kind: TypeId,
    kind_name: &'static str,
    call: Call,
}

/// The endpoints of one bus, and the requests that wait.
#[derive(Default)]
pub(crate) struct Endpoints {
    addresses: BTreeMap<Arc<str>, Endpoint>,
    /// Where the answer to each request goes.
    waiting: BTreeMap<u64, Arc<str>>,
    /// The newest request.
    last: u64,
}

impl Endpoints {
    pub(crate) fn remove_all(&mut self, key: ComponentKey) {
        self.addresses
            .retain(|_, endpoint| !matches!(&endpoint.call, Call::Component(own, _) if *own == key));
    }
}

impl Context<'_> {
    /// Gives a component an address for messages of one kind.
    ///
    /// # Errors
    ///
    /// The address is taken.
    pub fn endpoint<C: On<M>, M: Event>(
        &mut self,
        address: &str,
        component: ComponentId<C>,
    ) -> Result<(), SendError> {
        self.add_endpoint::<M>(address, Call::Component(component.key, method::<C, M>))
    }

    /// Gives a raw callable an address for messages of one kind.
    ///
    /// # Errors
    ///
    /// The address is taken.
    pub fn endpoint_raw<M: Event>(
        &mut self,
        address: &str,
        handler: impl Fn(&mut Context<'_>, &M) + Send + Sync + 'static,
    ) -> Result<(), SendError> {
        let handler: Handler = Arc::new(move |ctx, message: &dyn Any| {
            if let Some(message) = message.downcast_ref() {
                handler(ctx, message);
            }
        });
        self.add_endpoint::<M>(address, Call::Raw(address.into(), handler))
    }

    fn add_endpoint<M: Event>(&mut self, address: &str, call: Call) -> Result<(), SendError> {
        let addresses = &mut self.core.endpoints.addresses;
        if addresses.contains_key(address) {
            return Err(SendError::AddressTaken { address: address.into() });
        }
        addresses.insert(address.into(), Endpoint { kind: TypeId::of::<M>(), kind_name: M::NAME, call });
        Ok(())
    }

    /// Ends an endpoint; whether there was one.
    pub fn remove_endpoint(&mut self, address: &str) -> bool {
        self.core.endpoints.addresses.remove(address).is_some()
    }

    /// Has the handler of an address take a message now, before this call returns. No publication is opened, and
    /// queued callbacks have no part in it (RAW-2).
    ///
    /// # Errors
    ///
    /// Nobody is there, it takes another kind, it is in use, or it failed.
    pub fn send<M: Event>(&mut self, address: &str, message: &M) -> Result<(), SendError> {
        let addresses = &self.core.endpoints.addresses;
        let Some(endpoint) = addresses.get(address).cloned() else {
            return Err(SendError::UnknownAddress { address: address.into() });
        };
        if endpoint.kind != TypeId::of::<M>() {
            let (takes, sent) = (endpoint.kind_name, M::NAME);
            return Err(SendError::Kind { address: address.into(), takes, sent });
        }
        self.core.note(|| Entry::Endpoint { address: address.into() });
        match endpoint.call {
            Call::Raw(name, handler) => self.core.send_raw(address, name, &handler, message),
            Call::Component(key, method) => self.core.send_to(address, key, method, message),
        }
    }

    /// Sends a message that wants an answer, made with the id of the request. The answer goes to the endpoint
    /// `reply_to`.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), or too many requests wait. The id is void then.
    pub fn request<M: Event>(
        &mut self,
        address: &str,
        reply_to: &str,
        message: impl FnOnce(Correlation) -> M,
    ) -> Result<Correlation, SendError> {
        let endpoints = &mut self.core.endpoints;
        if !endpoints.addresses.contains_key(reply_to) {
            return Err(SendError::UnknownAddress { address: reply_to.into() });
        }
        if endpoints.waiting.len() >= REQUESTS_MAX {
            return Err(SendError::TooMany);
        }
        endpoints.last += 1;
        let id = endpoints.last;
        endpoints.waiting.insert(id, reply_to.into());
        let sent = self.send(address, &message(Correlation(id)));
        sent.inspect_err(|_| {
            self.core.endpoints.waiting.remove(&id);
        })?;
        Ok(Correlation(id))
    }

    /// Answers a request, once.
    ///
    /// # Errors
    ///
    /// The id is of no request that waits, or as [`send`](Self::send) for the endpoint of the answer.
    pub fn respond<M: Event>(&mut self, id: Correlation, answer: &M) -> Result<(), SendError> {
        let reply_to = self.core.endpoints.waiting.remove(&id.0).ok_or(SendError::UnknownId { id })?;
        self.send(&reply_to, answer)
    }
}

impl Core {
    fn send_raw(
        &mut self,
        address: &str,
        name: Arc<str>,
        handler: &Handler,
        message: &dyn Any,
    ) -> Result<(), SendError> {
        let around = ambient::enter(self.shared.bus, self.machine.active());
        let mut ctx = Context::new(self, NONE, NONE);
        let result = catch_unwind(AssertUnwindSafe(|| handler(&mut ctx, message)));
        drop(around);
        result.map_err(|panic| {
            let detail = format!("the handler of an endpoint panicked: {}", panic_text(&*panic));
            self.fault_named(FaultKind::Panicked, Some(name), NONE, None, None, detail);
            SendError::Panicked { address: address.into() }
        })
    }

    fn send_to(
        &mut self,
        address: &str,
        key: ComponentKey,
        method: Method,
        message: &dyn Any,
    ) -> Result<(), SendError> {
        let Some(cell) = self.cell(key) else {
            return Err(SendError::UnknownAddress { address: address.into() });
        };
        let component = cell.name.clone();
        let taken = self.cells[key.index as usize].object.take();
        let mut object = taken.ok_or_else(|| SendError::Busy { address: address.into(), component })?;
        let mut ctx = Context::new(self, key.index, NONE);
        let result = catch_unwind(AssertUnwindSafe(|| method(object.as_mut(), &mut ctx, message)));
        self.bring_home(key.index, key.registration, object);
        let result = self.end_send(address, key, result);
        // Inside other work, what was asked for meanwhile is done when that work has ended.
        if self.machine.is_outside() {
            self.serve_requests();
        }
        result
    }

    fn end_send(
        &mut self,
        address: &str,
        key: ComponentKey,
        result: Result<Result<(), Failure>, Box<dyn Any + Send>>,
    ) -> Result<(), SendError> {
        match result {
            Ok(Ok(())) => Ok(()),
            Ok(Err(failure)) => {
                self.on_failure(key, address, &failure);
                Err(SendError::Failed { address: address.into(), text: failure.to_string() })
            }
            Err(panic) => {
                let detail = format!("the handler of an endpoint panicked: {}", panic_text(&*panic));
                self.fault(FaultKind::Panicked, Some(key.index), NONE, None, None, detail);
                Err(SendError::Panicked { address: address.into() })
            }
        }
    }
}
