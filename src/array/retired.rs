//! What the slots of an array have held before.

use super::bucket::Bucket;
use super::guard::BucketGuard;
use super::ring::Ring;
use crate::sync::stall::{self, Point};
use crate::time::Timestamp;

/// The retired wraps of an array: an immutable value that is swapped as a whole.
///
/// A wrap is retired *before* another one takes its slot, so that at every moment each wrap in use
/// is in a slot, or here, or both, and a reader that looks at the slots first and here last has
/// missed nothing. Who stalled while recording may still add to a retired wrap, so it stays readable
/// until nobody holds it, and only then is it added up.
pub(crate) struct Retired<B: Bucket> {
    /// The final counts of the wraps that nobody can add to any more.
    reclaimed: B::Total,
    /// The wraps that somebody may still add to.
    pending: Vec<PendingWrap>,
    /// The indices of wraps that can be used again.
    free: Vec<u32>,
}

/// A wrap that has left its slot, or is about to.
#[derive(Clone, Copy, Debug)]
struct PendingWrap {
    index: u32,
    start: Timestamp,
}

impl<B: Bucket> Retired<B> {
    pub(crate) const fn new(reclaimed: B::Total) -> Self {
        Self { reclaimed, pending: Vec::new(), free: Vec::new() }
    }

    /// Makes this the same as `other`, in the memory that it has.
    pub(crate) fn copy(&mut self, other: Option<&Self>) {
        let Some(other) = other else { return *self = Self::new(B::Total::default()) };
        self.reclaimed.clone_from(&other.reclaimed);
        self.pending.clone_from(&other.pending);
        self.free.clone_from(&other.free);
    }

    /// Adds up the wraps that nobody can add to any more.
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

    /// Adds a wrap that the caller holds, so that it has not been reclaimed, unless another thread
    /// has: starts identify wraps, since each bucket number has one at most.
    pub(crate) fn retire(&mut self, wrap: &BucketGuard<'_, B>) {
        let (index, start) = (wrap.index(), wrap.start());
        if !self.pending.iter().any(|pending| pending.start == start) {
            self.pending.push(PendingWrap { index, start });
        }
    }

    /// A wrap to use again, which nobody holds. It is the caller's once the list without it has been
    /// swapped in.
    pub(crate) fn take_free(&mut self, ring: &Ring<B>) -> Option<u32> {
        let position = self.free.iter().rposition(|&index| ring.wrap(index).is_unpinned())?;
        Some(self.free.remove(position))
    }

    pub(crate) fn return_free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// What all of them add up to, but for those that `is_counted` elsewhere; `None` if a wrap that
    /// was open is in use again, after newer lists have reclaimed it and given it away.
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
            // Only now that it is held: it cannot be emptied while this is its start.
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
