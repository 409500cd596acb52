//! The directory of a node: which id is which object now. Look-ups lock one shard for a moment.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;
use turnkeep_scheduler::owner::Owner;

use crate::id::{Id, ObjectKind};
use crate::object::{Object, object_of};

const SHARDS: usize = 64;

/// Objects by the hash of their own kind and id: an entry is one pointer.
type Shard = RwLock<HashTable<Arc<Owner>>>;

/// Ids to objects.
pub(crate) struct Directory {
    hasher: DefaultHashBuilder,
    shards: Box<[Shard]>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            shards: (0..SHARDS).map(|_| RwLock::new(HashTable::new())).collect(),
        }
    }

    fn hash(&self, kind: ObjectKind, id: &Id) -> u64 {
        self.hasher.hash_one((kind, id))
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    fn hash_of(&self, owner: &Owner) -> u64 {
        let object = object_of(owner);
        self.hash(object.kind, &object.id)
    }

    /// The object of that id now.
    pub(crate) fn find(&self, kind: ObjectKind, id: &Id) -> Option<Arc<Owner>> {
        let hash = self.hash(kind, id);
        self.shard(hash).read().find(hash, |owner| is(owner, kind, id)).cloned()
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
        let hash = self.hash(kind, id);
        let mut shard = self.shard(hash).write();
        if let Some(existing) = shard.find(hash, |owner| is(owner, kind, id)) {
            return Err(Some(existing.clone()));
        }
        if !claim() {
            return Err(None);
        }
        let owner = make();
        born(&owner);
        shard.insert_unique(hash, owner.clone(), |owner| self.hash_of(owner));
        Ok(owner)
    }

    /// Takes an object out, if the id is still this very one.
    /// `release` runs before anybody can take the id again.
    pub(crate) fn remove(&self, object: &Object, release: impl FnOnce()) -> Option<Arc<Owner>> {
        let hash = self.hash(object.kind, &object.id);
        let mut shard = self.shard(hash).write();
        let this = |owner: &Arc<Owner>| std::ptr::eq(object_of(owner), object);
        let entry = shard.find_entry(hash, this).ok()?;
        release();
        Some(entry.remove().0)
    }

    /// Every object of a kind, as of one moment a shard, in the order in which they were made.
    pub(crate) fn all(&self, kind: ObjectKind) -> Vec<Arc<Owner>> {
        let of_shard = |shard: &Shard| -> Vec<Arc<Owner>> {
            shard.read().iter().filter(|owner| object_of(owner).kind == kind).cloned().collect()
        };
        in_order(self.shards.iter().flat_map(of_shard).collect())
    }

    /// How many objects of a kind there are.
    pub(crate) fn count(&self, kind: ObjectKind) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().iter().filter(|owner| object_of(owner).kind == kind).count())
            .sum()
    }
}

/// Owners in the order in which they were made: an order that shows depends on no hash and no address.
pub(crate) fn in_order(mut owners: Vec<Arc<Owner>>) -> Vec<Arc<Owner>> {
    owners.sort_unstable_by_key(|owner| object_of(owner).generation.0);
    owners
}

fn is(owner: &Owner, kind: ObjectKind, id: &Id) -> bool {
    let object = object_of(owner);
    object.kind == kind && object.id == *id
}
