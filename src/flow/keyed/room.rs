//! The number of keys, up to the cap, and of those that have come back.

use crate::sync::{AtomicUsize, Ordering};

/// The number of keys in all shards, at most the cap, and the number of *known* keys among them:
/// those that have come back after they were as new.
///
/// # Orderings
///
/// Relaxed: the numbers order nothing. The number of known keys is changed under the lock of the
/// shard of each, and the result of a comparison may be out of date by the changes of other shards.
/// The modification order of the number of keys decides which of several keys gets
/// the last place. A place is taken before its key is inserted, and given back after its key was
/// removed, so there are never more keys than the cap.
#[derive(Debug)]
pub(super) struct Room {
    keys: AtomicUsize,
    known: AtomicUsize,
    max: usize,
}

impl Room {
    pub(super) fn new(max: usize) -> Self {
        Self { keys: AtomicUsize::new(0), known: AtomicUsize::new(0), max }
    }

    pub(super) const fn max(&self) -> usize {
        self.max
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    pub(super) fn is_full(&self) -> bool {
        self.keys() >= self.max
    }

    /// Takes a place, if one is free. Returns whether it was.
    pub(super) fn take(&self) -> bool {
        let mut keys = self.keys();
        while keys < self.max {
            let (next, order) = (keys + 1, Ordering::Relaxed);
            match self.keys.compare_exchange_weak(keys, next, order, order) {
                Ok(_) => return true,
                Err(found) => keys = found,
            }
        }
        false
    }

    /// Gives a place back.
    pub(super) fn give_back(&self) {
        self.keys.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes that a key has become known.
    pub(super) fn add_known(&self) {
        self.known.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a known key was removed.
    pub(super) fn remove_known(&self) {
        self.known.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether known keys have more than half of the places.
    pub(super) fn is_mostly_known(&self) -> bool {
        self.known.load(Ordering::Relaxed) > self.max / 2
    }
}
