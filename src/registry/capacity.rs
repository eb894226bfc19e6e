//! The number of listed resources, and its maximum.

use crate::sync::{AtomicU64, Ordering};

/// The capacity of a registry, and the number of claims on it. A thread claims room before it lists
/// a resource, and the room is released once the resource is no longer listed. So the number of
/// listed resources never exceeds the capacity.
#[derive(Debug)]
pub(crate) struct Capacity {
    claimed: AtomicU64,
    max: usize,
}

impl Capacity {
    pub(crate) fn new(max: usize) -> Self {
        Self { claimed: AtomicU64::new(0), max }
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn claimed(&self) -> usize {
        let claimed = self.claimed.load(Ordering::Relaxed);
        usize::try_from(claimed).unwrap_or(usize::MAX)
    }

    /// Claims room for one resource; `None` if there is no room.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let max = self.max as u64;
        // Relaxed, here and in `release`: the read-modify-write decides which thread gets the last
        // room, and orders nothing else.
        let claimed = self.claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |claimed| {
            (claimed < max).then_some(claimed + 1)
        });
        claimed.is_ok().then(|| Claim(self))
    }

    /// Releases the room of a resource that is no longer listed.
    pub(crate) fn release(&self) {
        self.claimed.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Claimed room for one resource, released on drop unless it is kept.
#[derive(Debug)]
pub(crate) struct Claim<'a>(&'a Capacity);

impl Claim<'_> {
    /// Keeps the room for a resource that was listed.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}
