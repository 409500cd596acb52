//! Where a call goes: one life of an object, or whoever has an id when the call is made.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;

use turnkeep_scheduler::owner::Owner;

use crate::error::{Error, ErrorKind};
use crate::id::{Id, ObjectKind};
use crate::node::NodeInner;
use crate::object::object_of;

/// The address of whoever has an id.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) node: Arc<NodeInner>,
    pub(crate) kind: ObjectKind,
    /// The id, or why it is none.
    pub(crate) id: Result<Id, Error>,
    pub(crate) type_id: TypeId,
    pub(crate) rust_type: &'static str,
}

impl Address {
    pub(crate) fn new<T: 'static>(node: &Arc<NodeInner>, kind: ObjectKind, id: &str) -> Self {
        Self {
            node: node.clone(),
            kind,
            id: Id::new(id),
            type_id: TypeId::of::<T>(),
            rust_type: std::any::type_name::<T>(),
        }
    }

    /// The object that has the id now.
    pub(crate) fn resolve(&self, operation: &str) -> Result<Arc<Owner>, Error> {
        let id = self.id.clone()?;
        match self.node.directory.find(self.kind, &id) {
            Some(owner) => self.check_type(&owner, operation).map(|()| owner),
            None if !self.node.types.contains_key(&(self.kind, self.type_id)) => {
                let text = format!("its type {} is not registered with the node", self.rust_type);
                Err(Error::new(ErrorKind::NotConfigured, self, operation, &text))
            }
            None => {
                let text =
                    "there is no object of that id; create it first (an Instance Spot: `.or_create()`)";
                Err(Error::new(ErrorKind::NotFound, self, operation, text))
            }
        }
    }

    /// Whether an object is of the type this address is for.
    pub(crate) fn check_type(&self, owner: &Owner, operation: &str) -> Result<(), Error> {
        let object = object_of(owner);
        if (object.hooks.type_id)() == self.type_id {
            return Ok(());
        }
        let text = format!(
            "the object of that id is a {} and not a {}; use that type, or another id",
            object.info.name, self.rust_type
        );
        Err(Error::new(ErrorKind::TypeMismatch, self, operation, &text))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Ok(id) => write!(f, "{} {id}", self.kind),
            Err(_) => write!(f, "{} with a bad id", self.kind),
        }
    }
}

/// Where a call goes.
#[derive(Clone)]
pub(crate) enum Destination {
    /// One life of an object.
    Owner(Arc<Owner>),
    /// Whoever has the id.
    Address(Address),
}

impl Destination {
    /// The object. Nothing is counted for a reference: its owner stays where it is.
    pub(crate) fn resolve(&self, operation: &str) -> Result<Resolved<'_>, Error> {
        match self {
            Self::Owner(owner) => Ok(Resolved::Here(owner)),
            Self::Address(address) => address.resolve(operation).map(Resolved::Found),
        }
    }

    /// Whoever has the id, also if this was one life of it.
    pub(crate) fn by_id<T: 'static>(&self) -> Self {
        let Self::Owner(owner) = self else { return self.clone() };
        let object = object_of(owner);
        Self::Address(Address::new::<T>(&object.node, object.kind, object.id.as_str()))
    }

    /// Why the id is none, if it is none.
    pub(crate) fn bad_id(&self) -> Option<Error> {
        match self {
            Self::Owner(_) => None,
            Self::Address(address) => address.id.as_ref().err().cloned(),
        }
    }

    pub(crate) fn node(&self) -> &Arc<NodeInner> {
        match self {
            Self::Owner(owner) => &object_of(owner).node,
            Self::Address(address) => &address.node,
        }
    }
}

/// The object a call goes to.
pub(crate) enum Resolved<'a> {
    /// The destination's own.
    Here(&'a Arc<Owner>),
    /// Whoever had the id.
    Found(Arc<Owner>),
}

impl Resolved<'_> {
    pub(crate) fn into_owner(self) -> Arc<Owner> {
        match self {
            Self::Here(owner) => owner.clone(),
            Self::Found(owner) => owner,
        }
    }
}

impl std::ops::Deref for Resolved<'_> {
    type Target = Arc<Owner>;

    fn deref(&self) -> &Arc<Owner> {
        match self {
            Self::Here(owner) => owner,
            Self::Found(owner) => owner,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => object_of(owner).fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
