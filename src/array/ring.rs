//! The slots, and the wraps in them.

use std::ops::RangeInclusive;

use super::bucket::Bucket;
use super::guard::BucketGuard;
use super::wrap::{BucketWrap, UNUSED};
use crate::collections::Pool;
use crate::sync::stall::{self, Point};
use crate::sync::{AtomicU32, Ordering};
use crate::time::{Timestamp, WindowConfig};

/// The slots of an array. A slot has the index of a wrap in the pool, or [`EMPTY`]. The index is
/// swapped atomically; the wrap does not move.
///
/// # Orderings
///
/// A load of a slot acquires, and a swap releases: a thread that sees an index sees the start of
/// the wrap, and its empty counters.
pub(crate) struct Ring<B> {
    config: WindowConfig,
    slots: Box<[AtomicU32]>,
    pool: Pool<BucketWrap<B>>,
    /// The number of wraps that have been made or are being made.
    made: AtomicU32,
}

/// The index in a slot that was never filled.
const EMPTY: u32 = u32::MAX;

impl<B: Bucket> Ring<B> {
    /// The number of wraps beyond one for each slot for which the pool has room from the start: one
    /// retired wrap, and a few that are pinned or being recycled. If threads stall, the pool grows.
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

    /// Returns the wrap with that index.
    #[inline]
    pub(crate) fn wrap(&self, index: u32) -> &BucketWrap<B> {
        self.pool.get(index)
    }

    /// Pins the wrap in a slot. Returns `None` if the slot is empty.
    pub(crate) fn pin(&self, slot: usize) -> Option<BucketGuard<'_, B>> {
        let slot = &self.slots[slot];
        let mut index = slot.load(Ordering::Acquire);
        while index != EMPTY {
            stall::at(Point::IndexRead);
            let wrap = self.pin_index(index);
            stall::at(Point::Pinned);
            // Validated while pinned: a pinned wrap that is in its slot is not recycled.
            let found = slot.load(Ordering::Acquire);
            if found == index {
                return Some(wrap);
            }
            index = found;
        }
        None
    }

    /// Pins the wrap with that index. The caller then validates for which bucket the wrap is used.
    pub(crate) fn pin_index(&self, index: u32) -> BucketGuard<'_, B> {
        BucketGuard::pin(self.pool.get(index), index)
    }

    /// Pins the wraps in all slots, one after the other.
    pub(crate) fn pin_all(&self) -> impl Iterator<Item = Option<BucketGuard<'_, B>>> {
        (0..self.slots.len()).map(|slot| self.pin(slot))
    }

    /// Returns whether the wrap with that index is in the slot of its start.
    pub(crate) fn is_in_slot(&self, index: u32, start: Timestamp) -> bool {
        // Acquire: if another wrap is in the slot, everything that its rotator did before the swap
        // is visible.
        self.slots[self.config.slot(start)].load(Ordering::Acquire) == index
    }

    /// Puts the wrap with index `fresh` into the slot, if the slot still has the wrap `observed`.
    ///
    /// There is no ABA: while `observed` is pinned, its index refers to no other bucket, and a slot
    /// that was filled never becomes empty again.
    pub(crate) fn swap(
        &self,
        slot: usize,
        observed: Option<&BucketGuard<'_, B>>,
        fresh: u32,
    ) -> bool {
        let slot = &self.slots[slot];
        let index = observed.map_or(EMPTY, BucketGuard::index);
        stall::at(Point::Fresh);
        // Release: pairs with every Acquire of a slot. This thread has already acquired the index
        // that it replaces.
        let swapped = slot.compare_exchange(index, fresh, Ordering::Release, Ordering::Relaxed);
        if let (Ok(_), Some(observed)) = (swapped, observed) {
            stall::at(Point::Swapped);
            observed.mark_replaced();
        }
        swapped.is_ok()
    }

    /// Returns the number of wraps.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn len(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Makes a new wrap with that start, and returns its index.
    pub(crate) fn make(&self, start: Timestamp) -> u32 {
        // Relaxed: the add gives each thread a different index, and orders nothing.
        let index = self.made.fetch_add(1, Ordering::Relaxed);
        stall::at(Point::IndexTaken);
        let is_recycled = self.pool.make(index, BucketWrap::unused).recycle(start);
        debug_assert!(is_recycled, "no other thread has the index");
        index
    }

    /// Folds the results of `look` on the buckets with these numbers, in any order. There may be
    /// more numbers than slots.
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
        // `UNUSED`, the start of a wrap that was never used or is being recycled, is in the first
        // bucket of all time.
        if 2 * len > self.slots.len() as u64 && start > UNUSED {
            self.fold_wraps(start..=end, init, look, add)
        } else if len > self.slots.len() as u64 {
            self.fold_from_the_beginning(end, init, look, add)
        } else {
            self.fold_slots(self.config.slot_of(first), start, len, init, look, add)
        }
    }

    /// Reads bucket 0 by its slot, and the buckets after it by visiting all wraps.
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

    /// Reads `len` buckets by their slots.
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
            if index != EMPTY
                && let Some(found) = self.wrap(index).read(start..=start, &look)
            {
                folded = add(folded, found);
            }
            // Incremented: a division for each slot would take as long as the read. After the last
            // bucket of all time, the start wraps around and is no longer used.
            slot = if slot + 1 == self.slots.len() { 0 } else { slot + 1 };
            start = start.wrapping_add(self.config.bucket_nanos());
        }
        folded
    }

    /// Reads the buckets by visiting all wraps, in the order of memory. Among the wraps in slots, a
    /// start identifies one bucket.
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
