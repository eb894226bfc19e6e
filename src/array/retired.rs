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
    settled: B::Total,
    /// The wraps that somebody may still add to.
    open: Vec<OpenWrap>,
    /// The indices of wraps that can be used again.
    unused: Vec<u32>,
}

/// A wrap that has left its slot, or is about to.
#[derive(Clone, Copy, Debug)]
struct OpenWrap {
    index: u32,
    start: Timestamp,
}

impl<B: Bucket> Retired<B> {
    pub(crate) const fn new(settled: B::Total) -> Self {
        Self { settled, open: Vec::new(), unused: Vec::new() }
    }

    /// Makes this the same as `other`, in the memory that it has.
    pub(crate) fn copy(&mut self, other: Option<&Self>) {
        let Some(other) = other else { return *self = Self::new(B::Total::default()) };
        self.settled.clone_from(&other.settled);
        self.open.clone_from(&other.open);
        self.unused.clone_from(&other.unused);
    }

    /// Adds up the wraps that nobody can add to any more.
    pub(crate) fn settle(&mut self, ring: &Ring<B>) {
        let Self { settled, open, unused } = self;
        open.retain(|wrap| {
            let held = ring.has(wrap.index, wrap.start) || !ring.wrap(wrap.index).is_free();
            if !held {
                *settled += &ring.wrap(wrap.index).bucket().total();
                unused.push(wrap.index);
            }
            held
        });
    }

    /// Adds a wrap that the caller holds, so that it has not been settled, unless another thread
    /// has: starts identify wraps, since each bucket number has one at most.
    pub(crate) fn retire(&mut self, wrap: &BucketGuard<'_, B>) {
        let (index, start) = (wrap.index(), wrap.start());
        if !self.open.iter().any(|open| open.start == start) {
            self.open.push(OpenWrap { index, start });
        }
    }

    /// A wrap to use again, which nobody holds. It is the caller's once the list without it has been
    /// swapped in.
    pub(crate) fn take_unused(&mut self, ring: &Ring<B>) -> Option<u32> {
        let free = self.unused.iter().rposition(|&index| ring.wrap(index).is_free())?;
        Some(self.unused.remove(free))
    }

    pub(crate) fn give_back(&mut self, index: u32) {
        self.unused.push(index);
    }

    /// What all of them add up to, but for those that `is_counted` elsewhere; `None` if a wrap that
    /// was open is in use again, after newer lists have settled it and given it away.
    pub(crate) fn total(
        &self,
        ring: &Ring<B>,
        is_counted: impl Fn(Timestamp) -> bool,
    ) -> Option<B::Total> {
        let mut total = self.settled.clone();
        for open in self.open.iter().filter(|open| !is_counted(open.start)) {
            stall::at(Point::OpenFound);
            let wrap = ring.hold_index(open.index);
            stall::at(Point::OpenHeld);
            // Only now that it is held: it cannot be emptied while this is its start.
            if wrap.start() != open.start {
                return None;
            }
            stall::at(Point::OpenKnown);
            total += &wrap.bucket().total();
        }
        Some(total)
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn open_len(&self) -> usize {
        self.open.len()
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn unused_len(&self) -> usize {
        self.unused.len()
    }
}
