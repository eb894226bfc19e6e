//! The three kinds of numbers in a bucket: counters, minima and maxima. None of them wraps around.
//!
//! A number is either owned by one thread, which writes it by a plain load and store, or shared, and written by
//! read-modify-writes. [`MetricCell`](super::cell::MetricCell) makes sure that no number is both.

use crate::sync::stall::{self, Point};
use crate::sync::{AtomicI64, Ordering, word_beside};

/// The maximum of every number: 2⁶², some 4.6 · 10¹⁸, or 146 years in nanoseconds.
pub(crate) const CEILING: u64 = 1 << 62;

/// A counter that saturates at [`CEILING`].
#[derive(Debug)]
pub(crate) struct Counter(AtomicI64);

impl Counter {
    /// The maximum of one `fetch_add`. If 2¹⁵ threads have added and not yet corrected the counter, it is at most 2⁶² above
    /// the ceiling, and so below `i64::MAX`.
    const STEP: u64 = 1 << 47;

    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(0))
    }

    /// A further counter of a cell, which loom sees only in the models that ask for it.
    pub(crate) fn beside() -> Self {
        Self(word_beside(0))
    }

    /// Adds `count`, at most up to the ceiling, as the only thread that writes.
    #[inline]
    pub(crate) fn add_owned(&self, count: u64, order: Ordering) {
        let value = self.0.load(Ordering::Relaxed);
        stall::at(Point::CounterRead);
        // The counter is below 2⁶³ but for a moment, and the second term is at most 2⁶²: a sum that overflows
        // is negative, and read as unsigned it lies above the ceiling as well.
        let sum = value.wrapping_add(to_cell(count));
        self.0.store(sum, order);
        if sum < 0 {
            self.stay_at_ceiling(order);
        }
    }

    #[cold]
    fn stay_at_ceiling(&self, order: Ordering) {
        self.0.store(to_cell(CEILING), order);
    }

    /// Adds one, as the only thread that writes.
    #[inline]
    pub(crate) fn increment_owned(&self, order: Ordering) {
        let value = self.0.load(Ordering::Relaxed);
        stall::at(Point::CounterRead);
        // A counter that was at its end becomes negative, which reads as the ceiling as well, and the next
        // add returns it there; by increments alone it takes a century from there to zero.
        self.0.store(value.wrapping_add(1), order);
    }

    /// Adds `count`, at most up to the ceiling, as one of many.
    #[inline]
    pub(crate) fn add_shared(&self, count: u64, order: Ordering) {
        if count >= Self::STEP {
            return self.saturate(to_cell(count), order);
        }
        // Not looked at before: that would fetch the line twice, to read it and to write it.
        if self.0.fetch_add(to_cell(count), order) >= to_cell(CEILING) {
            // It was at its end, and is again.
            self.0.fetch_sub(to_cell(count), Ordering::Relaxed);
        }
    }

    #[cold]
    fn saturate(&self, count: i64, order: Ordering) {
        let _ = self.0.fetch_update(order, Ordering::Relaxed, |value| {
            // Never down: what is above the ceiling, others are about to take back.
            Some(value.saturating_add(count).min(to_cell(CEILING)).max(value))
        });
    }

    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self, order: Ordering) -> u64 {
        from_cell(self.0.load(order)).min(CEILING)
    }

    /// The raw value: 2⁶² or more if the counter is at its ceiling.
    #[inline]
    pub(crate) fn get_unbounded(&self, order: Ordering) -> u64 {
        from_cell(self.0.load(order))
    }
}

/// The least of the values recorded.
#[derive(Debug)]
pub(crate) struct Minimum(AtomicI64);

impl Minimum {
    const NONE: i64 = i64::MAX;

    pub(crate) fn new() -> Self {
        Self(word_beside(Self::NONE))
    }

    #[inline]
    pub(crate) fn record_owned(&self, value: u64) {
        let value = to_cell(value);
        if value < self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_shared(&self, value: u64) {
        let value = to_cell(value);
        // Looking first keeps the common case, no new extreme, free of a read-modify-write. A
        // stale look is too large, never too small: it can only cost one.
        if value < self.0.load(Ordering::Relaxed) {
            self.0.fetch_min(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn reset(&self) {
        self.0.store(Self::NONE, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        let value = self.0.load(Ordering::Relaxed);
        (value != Self::NONE).then(|| from_cell(value))
    }

    /// The least, or `i64::MAX` if there was none.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        from_cell(self.0.load(Ordering::Relaxed))
    }
}

/// The greatest of the values recorded.
#[derive(Debug)]
pub(crate) struct Maximum(AtomicI64);

impl Maximum {
    const NONE: i64 = -1;

    pub(crate) fn new() -> Self {
        Self(word_beside(Self::NONE))
    }

    #[inline]
    pub(crate) fn record_owned(&self, value: u64) {
        let value = to_cell(value);
        if value > self.0.load(Ordering::Relaxed) {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_shared(&self, value: u64) {
        let value = to_cell(value);
        if value > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn reset(&self) {
        self.0.store(Self::NONE, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<u64> {
        self.word().checked_sub(1)
    }

    /// One more than the greatest, or 0 if there was none.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        from_cell(self.0.load(Ordering::Relaxed)).wrapping_add(1)
    }
}

#[inline]
fn to_cell(value: u64) -> i64 {
    value.min(CEILING).cast_signed()
}

/// As unsigned: a counter whose last add has overflowed reads as more than the ceiling.
#[inline]
fn from_cell(value: i64) -> u64 {
    value.cast_unsigned()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn counter_saturates_with_small_and_huge_counts_in_any_order() {
        let counter = Counter::new();
        counter.add_shared(7, Ordering::Relaxed);
        counter.add_shared(u64::MAX, Ordering::Relaxed);
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
        counter.add_shared(1, Ordering::Relaxed);
        counter.add_shared(Counter::STEP, Ordering::Relaxed);
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
    }

    #[test]
    fn steps_that_race_past_the_ceiling_do_not_wrap() {
        let counter = Counter::new();
        counter.saturate(to_cell(CEILING - 1), Ordering::Relaxed);
        // The adds of 2¹⁵ − 1 threads together.
        for _ in 1..1_u32 << 15 {
            counter.0.fetch_add(to_cell(Counter::STEP - 1), Ordering::Relaxed);
        }
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
        // Later adds, more than would fit.
        for _ in 0..1_u32 << 17 {
            counter.add_shared(Counter::STEP - 1, Ordering::Relaxed);
            assert_eq!(counter.get(Ordering::Relaxed), CEILING);
        }
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
        counter.add_shared(u64::MAX, Ordering::Relaxed);
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
    }

    #[test]
    fn small_add_is_taken_back_beside_a_huge_one() {
        let counter = Counter::new();
        counter.add_shared(CEILING, Ordering::Relaxed);
        // The two halves of a small add, with a huge one between them.
        assert_eq!(counter.0.fetch_add(5, Ordering::Relaxed), to_cell(CEILING));
        counter.add_shared(u64::MAX, Ordering::Relaxed);
        counter.0.fetch_sub(5, Ordering::Relaxed);
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
    }

    #[test]
    fn owned_counter_saturates() {
        let counter = Counter::new();
        for count in [7, u64::MAX, u64::MAX, u64::MAX, u64::MAX, 1] {
            counter.add_owned(count, Ordering::Relaxed);
        }
        assert_eq!(counter.get(Ordering::Relaxed), CEILING);
    }

    #[test]
    fn extremes_tell_zero_from_nothing() {
        let (min, max) = (Minimum::new(), Maximum::new());
        assert_eq!((min.get(), max.get()), (None, None));
        min.record_shared(5);
        max.record_owned(0);
        assert_eq!((min.get(), max.get()), (Some(5), Some(0)));
        min.record_owned(0);
        max.record_shared(u64::MAX);
        assert_eq!((min.get(), max.get()), (Some(0), Some(CEILING)));
    }
}
