//! A rate of permits.

use std::fmt;
use std::time::Duration;

use crate::flow::contract::RateError;
use crate::time::{Divisor, saturating_nanos};

/// A number of permits in an interval, evenly spaced. The slowest rate is one permit in 584 years
/// (`u64::MAX` nanoseconds), and the fastest is one per nanosecond.
///
/// There is no rate of 0. To refuse every request, use a limit of 0
/// ([`SlidingWindowLimiter`](crate::flow::SlidingWindowLimiter),
/// [`ConcurrencyLimiter`](crate::flow::ConcurrencyLimiter)) or a capacity of 0
/// ([`TokenBucket`](crate::flow::TokenBucket)). For the slowest rates, see the edges of the
/// buckets: [`TokenBucket`](crate::flow::TokenBucket#edges),
/// [`LeakyBucket`](crate::flow::LeakyBucket#edges).
///
/// With the feature `serde`, it can be [read from a file](crate::guide::configuration),
/// as `{ permits = 100, per = "1s" }`. It is written in lowest terms.
///
/// ```
/// use leaparray::flow::Rate;
/// use std::time::Duration;
///
/// let rate = Rate::new(10, Duration::from_secs(1))?;
/// assert_eq!(rate, Rate::new(600, Duration::from_secs(60))?);
/// assert_eq!(rate.to_string(), "1 in 100ms");
/// # Ok::<_, leaparray::flow::RateError>(())
/// ```
//
// In lowest terms: `permits` in `nanos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    pub(in crate::flow) permits: Divisor,
    pub(in crate::flow) nanos: Divisor,
}

impl Rate {
    /// Creates a rate of `permits` permits in each `interval`.
    ///
    /// # Errors
    ///
    /// Returns a [`RateError`] if `permits` or `interval` is zero, if `interval` is longer than
    /// `u64::MAX` nanoseconds (the span of a [`Timestamp`](crate::Timestamp)), or if a permit would
    /// take less than a nanosecond.
    pub const fn new(permits: u64, interval: Duration) -> Result<Self, RateError> {
        if permits == 0 {
            return Err(RateError::ZeroPermits { interval });
        }
        if interval.is_zero() {
            return Err(RateError::ZeroInterval { permits });
        }
        if interval.as_nanos() > u64::MAX as u128 {
            let max = Duration::from_nanos(u64::MAX);
            return Err(RateError::IntervalTooLong { interval, max });
        }
        let nanos = saturating_nanos(interval);
        if nanos < permits {
            return Err(RateError::TooFast { permits, interval });
        }
        let divisor = greatest_common_divisor(nanos, permits);
        let (permits, nanos) = (permits / divisor, nanos / divisor);
        Ok(Self { permits: Divisor::new(permits), nanos: Divisor::new(nanos) })
    }

    /// Creates a rate of `permits` permits in each second: [`new`](Self::new) with an interval of a
    /// second.
    ///
    /// ```
    /// use leaparray::flow::Rate;
    ///
    /// assert_eq!(Rate::per_second(10)?, Rate::per_minute(600)?);
    /// # Ok::<_, leaparray::flow::RateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a [`RateError`] if `permits` is zero or more than 10⁹.
    pub const fn per_second(permits: u64) -> Result<Self, RateError> {
        Self::new(permits, Duration::from_secs(1))
    }

    /// Creates a rate of `permits` permits in each minute: [`new`](Self::new) with an interval of a
    /// minute.
    ///
    /// # Errors
    ///
    /// Returns a [`RateError`] if `permits` is zero or more than 6 · 10¹⁰.
    pub const fn per_minute(permits: u64) -> Result<Self, RateError> {
        Self::new(permits, Duration::from_secs(60))
    }

    /// Returns the time at which `permits` permits, at least one, have come since `since`; `None`
    /// if that is after the end of time.
    ///
    /// The time is rounded up to a nanosecond. Rounding errors do not accumulate: if this function
    /// returned `since`, the result is computed from the exact time.
    #[inline]
    pub(crate) fn after(&self, since: u64, permits: u64) -> Option<u64> {
        if self.is_whole() {
            return since.checked_add(permits.checked_mul(self.nanos.value())?);
        }
        self.after_in_parts(since, permits)
    }

    /// Computes [`after`](Self::after) for a permit that does not take a whole number of
    /// nanoseconds. Out of line, so that the caller keeps more values in registers on the other
    /// path.
    #[inline(never)]
    fn after_in_parts(&self, since: u64, permits: u64) -> Option<u64> {
        // Independent of `since`, so that a processor can compute this and `rounded` at the same
        // time.
        let (nanos, rest) = self.divide(permits)?;
        let up = u64::from(rest > self.rounded(since));
        since.checked_add(nanos.checked_add(up)?)
    }

    /// Returns the time after which `permits` permits have come until `until`; `None` if it is
    /// before the beginning of time. The inverse of [`after`](Self::after), rounded up as well.
    pub(crate) fn before(&self, until: u64, permits: u64) -> Option<u64> {
        let parts = u128::from(permits) * u128::from(self.nanos.value());
        let parts = parts.saturating_add(u128::from(self.rounded(until)));
        until.checked_sub(u64::try_from(self.permits.divide_wide(parts).0).ok()?)
    }

    /// Computes [`after`](Self::after) for a time that may be after the end of time.
    pub(crate) fn after_wide(&self, since: u64, permits: u64) -> u128 {
        let parts = u128::from(permits) * u128::from(self.nanos.value());
        let (nanos, rest) = self.permits.divide_wide(parts);
        u128::from(since) + nanos + u128::from(rest > self.rounded(since))
    }

    /// Returns the part of a nanosecond by which a time was rounded up, in units of 1 / permits.
    ///
    /// The exact times are on a grid: the k-th permit of all time comes at k · nanos / permits.
    /// `time` is such a time, rounded up, possibly plus a constant offset. So the part is (time ·
    /// permits mod nanos) mod permits. An offset that reaches the next time of the grid counts as
    /// no offset, once.
    #[inline]
    pub(crate) fn rounded(&self, time: u64) -> u64 {
        let within = u128::from(self.nanos.divide(time).1);
        let past = self.nanos.divide_wide(within * u128::from(self.permits.value())).1;
        self.permits.divide(past).1
    }

    /// Returns the time that `permits` permits take, rounded up; `None` if that is after the end of
    /// time.
    #[inline]
    pub(crate) fn duration(&self, permits: u64) -> Option<u64> {
        let (nanos, rest) = self.divide(permits)?;
        nanos.checked_add(u64::from(rest != 0))
    }

    /// Returns the time that `permits` permits take, in nanoseconds and parts of a nanosecond;
    /// `None` if that is after the end of time.
    #[inline]
    fn divide(&self, permits: u64) -> Option<(u64, u64)> {
        let parts = u128::from(permits) * u128::from(self.nanos.value());
        let (nanos, rest) = self.permits.divide_wide(parts);
        Some((u64::try_from(nanos).ok()?, rest))
    }

    /// Returns the number of permits, rounded down, that come in a time of nanoseconds and parts of
    /// a nanosecond.
    pub(crate) fn permits_in(&self, nanos: u64, parts: u64) -> u64 {
        let parts = u128::from(nanos) * u128::from(self.permits.value()) + u128::from(parts);
        // At most one permit per nanosecond.
        u64::try_from(self.nanos.divide_wide(parts).0).unwrap_or(u64::MAX)
    }

    /// Returns the nanoseconds that a permit takes, rounded down.
    pub(crate) const fn whole_nanos(&self) -> u64 {
        self.permits.divide(self.nanos.value()).0
    }

    /// Returns whether a permit takes a whole number of nanoseconds.
    #[inline]
    pub(crate) const fn is_whole(&self) -> bool {
        self.permits.value() == 1
    }
}

impl fmt::Display for Rate {
    /// Writes the rate in lowest terms: `1 in 100ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.permits.value(), Duration::from_nanos(self.nanos.value()))
    }
}

/// Returns the greatest common divisor of two numbers that are not zero, by Euclid's algorithm.
const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rounding_errors_do_not_accumulate() {
        let second = Duration::from_secs(1);
        for permits in [3, 7, 60, 999_983, 1_000_000, 333_333_333] {
            let rate = Rate::new(permits, second).unwrap();
            let start = 1_540_629_300_123_456_789;
            let mut time = start;
            let steps = permits.min(1_000_000);
            for _ in 0..steps {
                time = rate.after(time, 1).unwrap();
            }
            let exact = start + rate.duration(steps).unwrap();
            assert!(time.abs_diff(exact) <= 1, "{permits}: {time} against {exact}");
        }
    }

    proptest! {
        #[test]
        fn permits_come_one_by_one_or_all_at_once(
            permits in 1..2_000_u64,
            interval in 1..u64::MAX,
            start in 0..1_u64 << 62,
            steps in proptest::collection::vec(1..50_u64, 1..40),
        ) {
            let interval = interval % 100_000_000 + permits;
            let rate = Rate::new(permits, Duration::from_nanos(interval)).unwrap();
            let by_steps = steps.iter().fold(start, |time, &step| rate.after(time, step).unwrap());
            let at_once = rate.after(start, steps.iter().sum()).unwrap();
            prop_assert!(at_once <= by_steps && by_steps <= at_once + 1, "{at_once} {by_steps}");
            let exact = start + rate.duration(steps.iter().sum()).unwrap();
            prop_assert!(at_once <= exact && exact <= at_once + 1, "{at_once} {exact}");
        }
    }

    #[test]
    fn at_the_end_of_time() {
        let rate = |permits| Rate::new(permits, Duration::from_nanos(10)).unwrap();
        for rate in [rate(1), rate(3)] {
            assert_eq!(rate.after(u64::MAX - 1, 1), None);
            assert_eq!(rate.after(0, u64::MAX), None);
            assert_eq!(rate.duration(u64::MAX), None);
            assert!(rate.after(u64::MAX - 10, 1).is_some());
        }
        let slowest = Rate::new(1, Duration::from_nanos(u64::MAX)).unwrap();
        assert_eq!(slowest.after(0, 1), Some(u64::MAX));
    }

    #[test]
    fn invalid_rates_are_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::new(0, second), Err(RateError::ZeroPermits { interval: second }));
        assert_eq!(Rate::new(5, Duration::ZERO), Err(RateError::ZeroInterval { permits: 5 }));
        let too_fast = RateError::TooFast { permits: 1_000_000_001, interval: second };
        assert_eq!(Rate::new(1_000_000_001, second), Err(too_fast));
        assert!(Rate::new(1_000_000_000, second).is_ok());
        assert_eq!(Rate::per_second(1_000_000_001), Err(too_fast));
        assert_eq!(Rate::per_second(1_000_000_000), Rate::per_minute(60_000_000_000));
        assert!(Rate::per_minute(60_000_000_001).is_err() && Rate::per_minute(0).is_err());
        assert!(matches!(Rate::new(1, Duration::MAX), Err(RateError::IntervalTooLong { .. })));
    }
}
