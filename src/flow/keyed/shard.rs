//! The tables of a keyed limiter, each behind its lock, with the settings in force.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, TryLockError};

use super::per_key::KeyRule;
use crate::collections::KeyTable;
use crate::sync::{Arc, Mutex, MutexGuard, lock_soon};
use crate::time::Timestamp;

/// The settings in force.
#[derive(Debug)]
pub(super) struct Terms<K, R> {
    /// Of all keys without their own.
    pub(super) all: Limit<R>,
    /// Of keys with their own; `None` if there is none, which a decision then finds without a look
    /// into the map.
    pub(super) own: Option<Arc<HashMap<K, Limit<R>>>>,
}

/// Settings, and the earliest time of a new state under them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit<R> {
    pub(super) rule: R,
    /// The state of a key that is not stored is as new from this time on, or from a later one.
    pub(super) since: Timestamp,
}

impl<K, R> Terms<K, R> {
    /// Returns the settings of a key.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "out of line, the decision goes through memory")]
    pub(super) fn of<Q>(&self, key: &Q) -> &Limit<R>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash,
    {
        if self.own.is_none() { &self.all } else { self.own_of(key).unwrap_or(&self.all) }
    }

    /// Returns the settings that a key has for its own.
    //
    // Out of line: with the hash of the map in it, a decision has too few registers.
    #[cold]
    #[inline(never)]
    pub(super) fn own_of<Q>(&self, key: &Q) -> Option<&Limit<R>>
    where
        K: Borrow<Q> + Eq + Hash,
        Q: ?Sized + Eq + Hash,
    {
        self.own.as_ref()?.get(key)
    }
}

/// The keys of a shard, and the settings by which their states are read and changed.
#[derive(Debug)]
pub(super) struct Table<K, R: KeyRule> {
    pub(super) keys: KeyTable<K, R::State>,
    pub(super) terms: Arc<Terms<K, R>>,
}

/// A table behind its lock, on a cache line of its own.
///
/// A panic in a method of a key or of a limit leaves the table as it was, so a poisoned lock is
/// used as any other.
#[repr(align(64))]
pub(super) struct Shard<K, R: KeyRule>(Mutex<Table<K, R>>);

impl<K, R: KeyRule> Shard<K, R> {
    pub(super) fn new(terms: &Arc<Terms<K, R>>) -> Self {
        Self(Mutex::new(Table { keys: KeyTable::default(), terms: Arc::clone(terms) }))
    }

    /// Locks the table. It is locked for one decision, which takes tens of nanoseconds, so a thread
    /// that finds it locked waits with pauses, and rarely sleeps.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Table<K, R>> {
        lock_soon(&self.0).unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the table, unless it is locked.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Table<K, R>>> {
        match self.0.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The state that keys without a place share, and the settings by which it is read and changed.
#[derive(Debug)]
pub(super) struct Shared<K, R: KeyRule> {
    pub(super) state: R::State,
    pub(super) terms: Arc<Terms<K, R>>,
    /// Whether a key may have taken permits of it.
    pub(super) is_used: bool,
}

/// The hash of a key, in parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyHash(u64);

impl KeyHash {
    pub(super) const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// Returns the number of the key's shard: the high half of the hash, as a fraction of the
    /// shards.
    #[inline]
    pub(super) const fn shard(self, shards: usize) -> usize {
        (((self.0 >> 32) * shards as u64) >> 32) as usize
    }

    /// Returns the tag of the key in its shard: the lowest bits of the hash.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the lowest bits are the tag")]
    pub(super) const fn tag(self) -> u16 {
        self.0 as u16
    }
}
