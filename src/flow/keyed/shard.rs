//! One of the tables of a keyed limiter, behind its lock.

use std::sync::{PoisonError, TryLockError};

use crate::collections::KeyTable;
use crate::sync::{Mutex, MutexGuard, lock_soon};

/// A table behind its lock, on a cache line of its own.
///
/// A panic in a method of a key or of a limit leaves the table as it was, so a poisoned lock is
/// used as any other.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard<K, V>(Mutex<KeyTable<K, V>>);

impl<K, V> Shard<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(KeyTable::default()))
    }

    /// Locks the table. It is locked for one decision, which takes tens of nanoseconds, so a thread
    /// that finds it locked spins a little before it sleeps.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, KeyTable<K, V>> {
        lock_soon(&self.0).unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the table, unless it is locked.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, KeyTable<K, V>>> {
        match self.0.try_lock() {
            Ok(table) => Some(table),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
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
