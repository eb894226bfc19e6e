//! A bucket of numbers: their sum and their count.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::AddAssign;

use super::Rolling;
use crate::array::Bucket;
use crate::sync::{AtomicU64, Ordering};

/// A number that a [`SumBucket`] can add up: `u64`, `i64` or `f64`.
pub trait Number: Copy + Debug + Default + Send + Sync + sealed::Bits {}

impl Number for u64 {}
impl Number for i64 {}
impl Number for f64 {}

mod sealed {
    /// A number of 64 bits. No bit of zero is set.
    pub trait Bits {
        fn to_word(self) -> u64;
        fn from_word(word: u64) -> Self;
        #[must_use]
        fn plus(self, other: Self) -> Self;
    }

    impl Bits for u64 {
        fn to_word(self) -> u64 {
            self
        }

        fn from_word(word: u64) -> Self {
            word
        }

        fn plus(self, other: Self) -> Self {
            self.saturating_add(other)
        }
    }

    impl Bits for i64 {
        fn to_word(self) -> u64 {
            self.cast_unsigned()
        }

        fn from_word(word: u64) -> Self {
            word.cast_signed()
        }

        fn plus(self, other: Self) -> Self {
            self.saturating_add(other)
        }
    }

    impl Bits for f64 {
        fn to_word(self) -> u64 {
            self.to_bits()
        }

        fn from_word(word: u64) -> Self {
            Self::from_bits(word)
        }

        fn plus(self, other: Self) -> Self {
            self + other
        }
    }
}

/// The bucket of a [`RollingWindow`](super::RollingWindow) of numbers: their sum and their count.
///
/// ```
/// use leaparray::array::Bucket;
/// use leaparray::rolling_window::{Rolling, SumBucket};
///
/// let bucket = SumBucket::<i64>::default();
/// (-7_i64).add_to(&bucket);
/// 3_i64.add_to(&bucket);
/// assert_eq!((bucket.total().sum, bucket.total().count), (-4, 2));
/// ```
//
// Orderings: an add changes the sum, and then releases the count. A total acquires the count before
// it reads the sum, so each value that is counted is in the sum.
#[derive(Debug)]
pub struct SumBucket<T> {
    /// The bits of the sum.
    sum: AtomicU64,
    count: AtomicU64,
    of: PhantomData<T>,
}

impl<T> Default for SumBucket<T> {
    fn default() -> Self {
        Self { sum: AtomicU64::new(0), count: AtomicU64::new(0), of: PhantomData }
    }
}

impl<T: Number> SumBucket<T> {
    fn add(&self, value: T) {
        // Relaxed: the sum orders nothing, and its modification order decides.
        let mut word = self.sum.load(Ordering::Relaxed);
        loop {
            let sum = T::from_word(word).plus(value).to_word();
            let swapped =
                self.sum.compare_exchange_weak(word, sum, Ordering::Relaxed, Ordering::Relaxed);
            match swapped {
                Ok(_) => break,
                Err(found) => word = found,
            }
        }
        // Release: pairs with the Acquire in `total`. A value that is in the count is in the sum.
        self.count.fetch_add(1, Ordering::Release);
    }
}

impl<T: Number> Bucket for SumBucket<T> {
    type Total = Sum<T>;

    fn total(&self) -> Sum<T> {
        // Acquire: pairs with the Release in `add` of every value in the count, which is read
        // first.
        let count = self.count.load(Ordering::Acquire);
        Sum { sum: T::from_word(self.sum.load(Ordering::Relaxed)), count }
    }

    fn reset(&self) {
        // Relaxed: the wrap orders the adds of the next use, and the readers of this use.
        self.sum.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
    }
}

/// The total of [`SumBucket`]s: plain data.
///
/// A value that is added during a read may be in the sum and not in the count. A value in the count
/// is always in the sum. So a mean of `u64`s is never too low because of a missing value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sum<T> {
    /// The sum of the values. Sums of integers saturate at both ends.
    pub sum: T,
    /// The number of values.
    pub count: u64,
}

impl<T: Number> AddAssign<&Self> for Sum<T> {
    fn add_assign(&mut self, other: &Self) {
        self.sum = self.sum.plus(other.sum);
        self.count = self.count.saturating_add(other.count);
    }
}

/// Sums saturate at `u64::MAX`.
impl Rolling for u64 {
    type Bucket = SumBucket<Self>;

    fn add_to(self, bucket: &SumBucket<Self>) {
        bucket.add(self);
    }
}

/// Sums saturate at both ends of the range. Later values are added to the saturated sum.
impl Rolling for i64 {
    type Bucket = SumBucket<Self>;

    fn add_to(self, bucket: &SumBucket<Self>) {
        bucket.add(self);
    }
}

/// Each addition rounds, in the order of the adds. If a value is not a number, the sum of its
/// bucket is not a number.
impl Rolling for f64 {
    type Bucket = SumBucket<Self>;

    fn add_to(self, bucket: &SumBucket<Self>) {
        bucket.add(self);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sum_of<T: Number + Rolling<Bucket = SumBucket<T>>>(
        values: impl IntoIterator<Item = T>,
    ) -> T {
        let bucket = SumBucket::default();
        values.into_iter().for_each(|value| value.add_to(&bucket));
        bucket.total().sum
    }

    #[test]
    fn integers_saturate_and_do_not_wrap() {
        assert_eq!(sum_of([u64::MAX - 1, 1, 1]), u64::MAX);
        assert_eq!(sum_of([i64::MAX, 1]), i64::MAX);
        assert_eq!(sum_of([i64::MIN, -1, 1]), i64::MIN + 1);
        let mut total = Sum { sum: u64::MAX, count: u64::MAX };
        total += &Sum { sum: 1, count: 1 };
        assert_eq!(total, Sum { sum: u64::MAX, count: u64::MAX });
    }

    #[test]
    fn floats_are_added_and_emptied() {
        assert!((sum_of([0.5, -2.25, 1e-3]) + 1.749).abs() < 1e-12);
        assert!(sum_of([1.0, f64::NAN]).is_nan());
        let bucket = SumBucket::<f64>::default();
        f64::NAN.add_to(&bucket);
        bucket.reset();
        assert_eq!(bucket.total(), Sum::default());
    }
}
