//! The directory of a node: which id is which object now. Look-ups lock one shard for a moment.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap};
use parking_lot::RwLock;
use turnkeep_scheduler::owner::Owner;

use crate::id::{Id, ObjectKind};
use crate::object::{Object, object_of};

const SHARDS: usize = 64;

type Shard = RwLock<HashMap<(ObjectKind, Id), Arc<Owner>>>;

/// Ids to objects.
pub(crate) struct Directory {
    hasher: DefaultHashBuilder,
    shards: Box<[Shard]>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| RwLock::new(HashMap::new())).collect(),
        }
    }

    fn shard(&self, kind: ObjectKind, id: &Id) -> &Shard {
        let hash = self.hasher.hash_one((kind, id));
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    /// The object of that id now.
    pub(crate) fn find(&self, kind: ObjectKind, id: &Id) -> Option<Arc<Owner>> {
        let key = (kind, id.clone());
        self.shard(kind, id).read().get(&key).cloned()
    }

    /// Puts a new object in, if the id is free and `claim` confirms it; `born` runs before anybody can find it.
    /// The error is the object that has the id, or none if the claim was refused.
    pub(crate) fn insert(
        &self,
        kind: ObjectKind,
        id: &Id,
        claim: impl FnOnce() -> bool,
        make: impl FnOnce() -> Arc<Owner>,
        born: impl FnOnce(&Arc<Owner>),
    ) -> Result<Arc<Owner>, Option<Arc<Owner>>> {
        let mut shard = self.shard(kind, id).write();
        let key = (kind, id.clone());
        if let Some(existing) = shard.get(&key) {
            return Err(Some(existing.clone()));
        }
        if !claim() {
            return Err(None);
        }
        let owner = make();
        born(&owner);
        shard.insert(key, owner.clone());
        Ok(owner)
    }

    /// Takes an object out, if the id is still this very one.
    /// `release` runs before anybody can take the id again.
    pub(crate) fn remove(&self, object: &Object, release: impl FnOnce()) -> Option<Arc<Owner>> {
        let key = (object.kind, object.id.clone());
        let mut shard = self.shard(object.kind, &object.id).write();
        let same = shard.get(&key).is_some_and(|owner| object_of(owner).generation == object.generation);
        if !same {
            return None;
        }
        release();
        shard.remove(&key)
    }

    /// Every object of a kind, as of one moment a shard.
    pub(crate) fn all(&self, kind: ObjectKind) -> Vec<Arc<Owner>> {
        let of_shard = |shard: &Shard| -> Vec<Arc<Owner>> {
            shard.read().iter().filter(|((of, _), _)| *of == kind).map(|(_, owner)| owner.clone()).collect()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// How many objects of a kind there are.
    pub(crate) fn count(&self, kind: ObjectKind) -> usize {
        self.shards.iter().map(|shard| shard.read().keys().filter(|(of, _)| *of == kind).count()).sum()
    }
}
