//! The three kinds of numbers in a bucket: counters, minima and maxima. None of them wraps around.
//!
//! A number is either owned by one thread, which writes it by a plain load and store, or shared and
//! written by read-modify-writes. [`MetricCell`](super::cell::MetricCell) ensures that no number is
//! both.

use crate::sync::stall::{self, Point};
use crate::sync::{AtomicI64, Ordering, const_unless_loom, unmodelled_word};

/// The maximum of every number: 2⁶², some 4.6 · 10¹⁸, or 146 years in nanoseconds.
pub(crate) const CEILING: u64 = 1 << 62;

/// A counter that saturates at [`CEILING`].
#[derive(Debug)]
pub(crate) struct Counter(AtomicI64);

impl Counter {
    /// The bound of one `fetch_add`, which is below it. If 2¹⁵ threads have added and not yet
    /// corrected the counter, it is less than 2⁶² above the ceiling, and so below `i64::MAX`.
    const STEP: u64 = 1 << 47;

    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self(AtomicI64::new(0))
        }
    }

    const_unless_loom! {
        /// Creates a further counter of a cell, which loom models only if a model asks for it.
        pub(crate) fn new_unmodelled() -> Self {
            Self(unmodelled_word(0))
        }
    }

    /// Adds `count`, at most up to the ceiling, as the only thread that writes.
    #[inline]
    pub(crate) fn add_owned(&self, count: u64, order: Ordering) {
        let value = self.0.load(Ordering::Relaxed);
        stall::at(Point::CounterRead);
        // The counter is below 2⁶³ except for a moment, and the second term is at most 2⁶². So a
        // sum that overflows is negative, and as an unsigned number it is above the ceiling as
        // well.
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
        // A counter at `i64::MAX` becomes negative, which reads as the ceiling as well, and the
        // next `add_owned` sets it to the ceiling. By increments alone, it takes a century from
        // there to zero.
        self.0.store(value.wrapping_add(1), order);
    }

    /// Adds `count`, at most up to the ceiling, as one of many threads that write.
    #[inline]
    pub(crate) fn add_shared(&self, count: u64, order: Ordering) {
        if count >= Self::STEP {
            return self.saturate(to_cell(count), order);
        }
        // No load before the add: it would first fetch the line shared, then again exclusive.
        if self.0.fetch_add(to_cell(count), order) >= to_cell(CEILING) {
            // The counter was at its ceiling: subtract the count again.
            self.0.fetch_sub(to_cell(count), Ordering::Relaxed);
        }
    }

    #[cold]
    fn saturate(&self, count: i64, order: Ordering) {
        let _ = self.0.fetch_update(order, Ordering::Relaxed, |value| {
            // Never lowers the value: other threads are about to subtract the excess above the
            // ceiling.
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

    /// Returns the raw value: 2⁶² or more if the counter is at its ceiling.
    #[inline]
    pub(crate) fn get_unbounded(&self, order: Ordering) -> u64 {
        from_cell(self.0.load(order))
    }
}

/// The minimum of the recorded values.
#[derive(Debug)]
pub(crate) struct Minimum(AtomicI64);

impl Minimum {
    const NONE: i64 = i64::MAX;

    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self(unmodelled_word(Self::NONE))
        }
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
        // The load saves the read-modify-write in the common case of no new minimum. A stale value
        // is too large, never too small, so it can only cause a needless read-modify-write.
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

    /// Returns the minimum, or `i64::MAX` if there is none.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        from_cell(self.0.load(Ordering::Relaxed))
    }
}

/// The maximum of the recorded values.
#[derive(Debug)]
pub(crate) struct Maximum(AtomicI64);

impl Maximum {
    const NONE: i64 = -1;

    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self(unmodelled_word(Self::NONE))
        }
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

    /// Returns the maximum plus 1, or 0 if there is none.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        from_cell(self.0.load(Ordering::Relaxed)).wrapping_add(1)
    }
}

#[inline]
fn to_cell(value: u64) -> i64 {
    value.min(CEILING).cast_signed()
}

/// Converts to unsigned: a counter whose last add has overflowed reads as more than the ceiling.
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
        // Later adds, whose sum would overflow.
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
