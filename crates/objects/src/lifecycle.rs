//! The turn of a lifecycle callback: state and calls, but no yield and no defer.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use turnkeep_scheduler::access::Access;

use crate::actor::{Actor, Handler};
use crate::context::context;
use crate::error::Error;
use crate::id::{Generation, ObjectKind};
use crate::node::Node;
use crate::object::{Object, object_of};
use crate::refs::{ActorAddress, ActorRef, HandlerAddress, SpotAddress, SpotRef};
use crate::spot::{SharesGate, Spot};
use crate::timer::{OnOwnTick, OnTick, Timer};
use crate::work::{Work, cpu_work, io_work};

/// The turn of a lifecycle callback of `T`; with `P`, of a member of a Spot of type `P`.
///
/// It derefs to the state and may wait for other objects with the gate kept. It has no `yielding` and no
/// `defer` (YIELD-1, JOIN-5).
pub struct Lifecycle<'t, T, P = ()> {
    access: Access<'t, T>,
    _place: PhantomData<fn() -> P>,
}

impl<'t, T: Any + Send> Lifecycle<'t, T> {
    pub(crate) fn new(access: Access<'t, T>) -> Self {
        Self { access, _place: PhantomData }
    }
}

context!(Lifecycle);
