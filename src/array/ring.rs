//! The slots, and the wraps that are swapped in and out of them.

use std::ops::RangeInclusive;

use super::bucket::Bucket;
use super::guard::BucketGuard;
use super::wrap::{BucketWrap, UNUSED};
use crate::collections::Pool;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Timestamp, WindowConfig};

/// A slot holds the index of a wrap. The index is swapped atomically; the wrap stays where it is.
///
/// # Orderings
///
/// A load acquires and a swap releases: who sees an index in a slot sees the start that the wrap was
/// given before, and its empty counters.
pub(crate) struct Ring<B> {
    config: WindowConfig,
    slots: Box<[AtomicU32]>,
    pool: Pool<BucketWrap<B>>,
    /// How many wraps have been made, or are being made.
    made: AtomicU32,
}

/// What is in a slot that was never filled.
const EMPTY: u32 = u32::MAX;

impl<B: Bucket> Ring<B> {
    /// How many wraps a ring needs beyond its slots while nobody stalls: one that is retired, and a
    /// few that are in the hands of others.
    const SPARE: usize = 4;

    pub(crate) fn new(config: WindowConfig) -> Self {
        let samples = config.sample_count();
        Self {
            config,
            slots: (0..samples).map(|_| AtomicU32::new(EMPTY)).collect(),
            pool: Pool::with_capacity(samples + Self::SPARE),
            made: AtomicU32::new(0),
        }
    }

    /// The wrap of that index.
    #[inline]
    pub(crate) fn wrap(&self, index: u32) -> &BucketWrap<B> {
        self.pool.get(index)
    }

    /// The wrap in that slot, held.
    pub(crate) fn pin(&self, slot: usize) -> Option<BucketGuard<'_, B>> {
        let slot = &self.slots[slot];
        let mut index = slot.load(Ordering::Acquire);
        while index != EMPTY {
            stall::at(Point::IndexRead);
            let wrap = self.pin_index(index);
            stall::at(Point::Pinned);
            // Only now: what is in a slot and held stays what it is.
            let found = slot.load(Ordering::Acquire);
            if found == index {
                return Some(wrap);
            }
            index = found;
        }
        None
    }

    /// The wrap of that index, held; what it is used for is for the caller to look at after this.
    pub(crate) fn pin_index(&self, index: u32) -> BucketGuard<'_, B> {
        BucketGuard::pin(self.pool.get(index), index)
    }

    /// What is in each of the slots, held.
    pub(crate) fn pin_all(&self) -> impl Iterator<Item = Option<BucketGuard<'_, B>>> {
        (0..self.slots.len()).map(|slot| self.pin(slot))
    }

    /// Whether the wrap of that index is in the slot of its start.
    pub(crate) fn is_in_slot(&self, index: u32, start: Timestamp) -> bool {
        // Acquire: what its successor's rotator did before the swap comes first.
        self.slots[self.config.slot(start)].load(Ordering::Acquire) == index
    }

    /// Puts the wrap of index `fresh` in, if the slot still holds the very wrap that was `observed`.
    ///
    /// There is no ABA: while `observed` is held, its index stands for nothing else, and a slot that
    /// was filled is never empty again.
    pub(crate) fn swap(
        &self,
        slot: usize,
        observed: Option<&BucketGuard<'_, B>>,
        fresh: u32,
    ) -> bool {
        let slot = &self.slots[slot];
        let index = observed.map_or(EMPTY, BucketGuard::index);
        stall::at(Point::Fresh);
        // Release: pairs with every Acquire of a slot. This thread has acquired the index that it has observed.
        let swapped = slot.compare_exchange(index, fresh, Ordering::Release, Ordering::Relaxed);
        if let (Ok(_), Some(observed)) = (swapped, observed) {
            stall::at(Point::Swapped);
            observed.mark_replaced();
        }
        swapped.is_ok()
    }

    /// How many wraps there are.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// The index of a new wrap of that start.
    pub(crate) fn make(&self, start: Timestamp) -> u32 {
        // Relaxed: all there is to it is that no two get the same.
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        stall::at(Point::IndexTaken);
        let is_recycled = self.pool.make(index, BucketWrap::unused).recycle(start);
        debug_assert!(is_recycled, "nobody knows of it");
        index
    }

    /// Folds what `look` finds in the buckets of these numbers, those that are there, in any order. They
    /// may be more than the ring has.
    #[inline]
    pub(crate) fn fold<R, T>(
        &self,
        numbers: RangeInclusive<u64>,
        init: T,
        look: impl Fn(&B) -> R,
        add: impl FnMut(T, R) -> T,
    ) -> T {
        let (first, last) = numbers.into_inner();
        let len = last - first + 1;
        let [start, end] = [first, last].map(|number| self.config.start_of(number).as_nanos());
        // At the beginning of time a wrap that is not in use looks like one of the window's.
        if 2 * len > self.slots.len() as u64 && start > UNUSED {
            self.fold_wraps(start..=end, init, look, add)
        } else if len > self.slots.len() as u64 {
            self.fold_from_the_beginning(end, init, look, add)
        } else {
            self.fold_slots(self.config.slot_of(first), start, len, init, look, add)
        }
    }

    /// Looks into the slot of bucket 0, and at all wraps for those after it.
    #[cold]
    fn fold_from_the_beginning<R, T>(
        &self,
        end: u64,
        init: T,
        look: impl Fn(&B) -> R,
        mut add: impl FnMut(T, R) -> T,
    ) -> T {
        let folded = self.fold_slots(0, 0, 1, init, &look, &mut add);
        self.fold_wraps(self.config.bucket_nanos()..=end, folded, look, add)
    }

    /// Looks into `len` slots.
    #[inline]
    fn fold_slots<R, T>(
        &self,
        mut slot: usize,
        mut start: u64,
        len: u64,
        init: T,
        look: impl Fn(&B) -> R,
        mut add: impl FnMut(T, R) -> T,
    ) -> T {
        let mut folded = init;
        for _ in 0..len {
            // Acquire: pairs with the Release in `swap`.
            let index = self.slots[slot].load(Ordering::Acquire);
            if index != EMPTY {
                if let Some(found) = self.wrap(index).read(start..=start, &look) {
                    folded = add(folded, found);
                }
            }
            // Counted on: a division for each would cost as much as its look. The start wraps after
            // the last bucket of all time, and is not used any more.
            slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
            start = start.wrapping_add(self.config.bucket_nanos());
        }
        folded
    }

    /// Looks at all wraps that there are, side by side as they lie: of those in their slots, each
    /// start is one bucket's.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "out of line, a rate over two buckets takes a third longer"
    )]
    fn fold_wraps<R, T>(
        &self,
        starts: RangeInclusive<u64>,
        init: T,
        look: impl Fn(&B) -> R,
        mut add: impl FnMut(T, R) -> T,
    ) -> T {
        self.pool.fold(init, |folded, wrap| match wrap.read(starts.clone(), &look) {
            Some(found) => add(folded, found),
            None => folded,
        })
    }
}
