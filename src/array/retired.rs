//! The wraps that have left their slots or are about to, and the indices of free ones.

use super::bucket::Bucket;
use super::guard::BucketGuard;
use super::ring::Ring;
use crate::sync::stall::{self, Point};
use crate::time::Timestamp;

/// The retired wraps of an array: an immutable copy-on-write list.
///
/// A wrap is retired *before* another wrap takes its slot. So at every moment, each wrap in use is
/// in a slot, in this list, or in both, and a reader that reads the slots first and the list last
/// misses no wrap. A thread that has stalled in the middle of a record may still add to a retired
/// wrap. So the wrap stays pending until no thread has it pinned, and only then are its counts
/// added to the total.
pub(crate) struct Retired<B: Bucket> {
    /// The counts of all wraps to which no thread can add any longer.
    reclaimed: B::Total,
    /// The wraps to which a thread may still add.
    pending: Vec<PendingWrap>,
    /// The indices of wraps that can be recycled.
    free: Vec<u32>,
}

/// A wrap that has left its slot, or is about to leave it.
#[derive(Clone, Copy, Debug)]
struct PendingWrap {
    index: u32,
    start: Timestamp,
}

impl<B: Bucket> Retired<B> {
    pub(crate) const fn new(reclaimed: B::Total) -> Self {
        Self { reclaimed, pending: Vec::new(), free: Vec::new() }
    }

    /// Copies `other`, and keeps the allocated memory of this list.
    pub(crate) fn copy(&mut self, other: Option<&Self>) {
        let Some(other) = other else { return *self = Self::new(B::Total::default()) };
        self.reclaimed.clone_from(&other.reclaimed);
        self.pending.clone_from(&other.pending);
        self.free.clone_from(&other.free);
    }

    /// Reclaims the pending wraps to which no thread can add any longer.
    pub(crate) fn reclaim(&mut self, ring: &Ring<B>) {
        let Self { reclaimed, pending, free } = self;
        pending.retain(|wrap| {
            let in_use =
                ring.is_in_slot(wrap.index, wrap.start) || !ring.wrap(wrap.index).is_unpinned();
            if !in_use {
                *reclaimed += &ring.wrap(wrap.index).bucket().total();
                free.push(wrap.index);
            }
            in_use
        });
    }

    /// Adds a wrap, unless another thread has added it already. The caller has the wrap pinned, so
    /// it has not been reclaimed. A start identifies a retired wrap, since no two wraps of one
    /// bucket are ever in its slot.
    pub(crate) fn retire(&mut self, wrap: &BucketGuard<'_, B>) {
        let (index, start) = (wrap.index(), wrap.start());
        if !self.pending.iter().any(|pending| pending.start == start) {
            self.pending.push(PendingWrap { index, start });
        }
    }

    /// Takes a free wrap that no thread has pinned. The wrap belongs to the caller once the list
    /// without it has been swapped in.
    pub(crate) fn take_free(&mut self, ring: &Ring<B>) -> Option<u32> {
        let position = self.free.iter().rposition(|&index| ring.wrap(index).is_unpinned())?;
        Some(self.free.remove(position))
    }

    pub(crate) fn return_free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Returns the total of all retired wraps, except the wraps for whose start `is_counted` holds.
    /// Returns `None` if a pending wrap of this list has been recycled: a newer list has reclaimed
    /// it.
    pub(crate) fn total(
        &self,
        ring: &Ring<B>,
        is_counted: impl Fn(Timestamp) -> bool,
    ) -> Option<B::Total> {
        let mut total = self.reclaimed.clone();
        for pending in self.pending.iter().filter(|pending| !is_counted(pending.start)) {
            stall::at(Point::PendingFound);
            let wrap = ring.pin_index(pending.index);
            stall::at(Point::PendingPinned);
            // Compared while the wrap is pinned: a pinned wrap with this start is not reset.
            if wrap.start() != pending.start {
                return None;
            }
            stall::at(Point::PendingValidated);
            total += &wrap.bucket().total();
        }
        Some(total)
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn free_len(&self) -> usize {
        self.free.len()
    }
}
