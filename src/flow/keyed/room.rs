//! The number of keys, up to the cap.

use crate::sync::{AtomicUsize, Ordering};

/// The number of keys in all shards, at most the cap.
///
/// # Orderings
///
/// Relaxed: the number orders nothing. Its modification order decides which of several keys gets
/// the last place. A place is taken before its key is inserted, and given back after its key was
/// removed, so there are never more keys than the cap.
#[derive(Debug)]
pub(super) struct Room {
    keys: AtomicUsize,
    max: usize,
}

impl Room {
    pub(super) fn new(max: usize) -> Self {
        Self { keys: AtomicUsize::new(0), max }
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
}
