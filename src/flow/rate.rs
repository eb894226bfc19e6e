//! How often a permit comes.

use std::fmt;
use std::time::Duration;

use super::RateError;
use crate::time::{Divisor, saturating_nanos};

/// So many permits in an interval, evenly: from one in 584 years to one a nanosecond.
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
    permits: Divisor,
    nanos: Divisor,
}

impl Rate {
    /// `permits` in each `interval`.
    ///
    /// # Errors
    ///
    /// If `permits` or `interval` is zero, `interval` is longer than a
    /// [`Timestamp`](crate::Timestamp) reaches, or a permit takes less than a nanosecond.
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

    /// When `permits`, of which there is one at least, have come since `since`; `None` if time ends before.
    ///
    /// To the nanosecond, rounded up. What is rounded does not add up: from a time that was come to in
    /// this way, the next is counted as from the exact one.
    #[inline]
    pub(crate) fn after(&self, since: u64, permits: u64) -> Option<u64> {
        if self.is_whole() {
            return since.checked_add(permits.checked_mul(self.nanos.value())?);
        }
        self.after_in_parts(since, permits)
    }

    /// Out of line, so that who needs none of it has room in the registers.
    #[inline(never)]
    fn after_in_parts(&self, since: u64, permits: u64) -> Option<u64> {
        // Apart from what `since` tells, so that a processor can do both at once.
        let (nanos, rest) = self.divide(permits)?;
        let up = u64::from(rest > self.rounded(since));
        since.checked_add(nanos.checked_add(up)?)
    }

    /// By how many parts of a nanosecond a time was rounded up, of which there are as many as permits.
    ///
    /// The exact times lie on a grid: the k-th permit of all time comes at k · nanos / permits. `time` is
    /// such a time, rounded up, and perhaps an offset that stays. That makes
    /// (time · permits mod nanos) mod permits. An offset that has come to reach the next time of the grid
    /// is taken for none, once.
    #[inline]
    pub(crate) fn rounded(&self, time: u64) -> u64 {
        let within = u128::from(self.nanos.divide(time).1);
        let past = self.nanos.divide_wide(within * u128::from(self.permits.value())).1;
        self.permits.divide(past).1
    }

    /// How long `permits` take, rounded up; `None` if time ends before.
    #[inline]
    pub(crate) fn duration(&self, permits: u64) -> Option<u64> {
        let (nanos, rest) = self.divide(permits)?;
        nanos.checked_add(u64::from(rest != 0))
    }

    /// How long `permits` take, in nanoseconds and parts of one; `None` if time ends before.
    #[inline]
    fn divide(&self, permits: u64) -> Option<(u64, u64)> {
        let parts = u128::from(permits) * u128::from(self.nanos.value());
        let (nanos, rest) = self.permits.divide_wide(parts);
        Some((u64::try_from(nanos).ok()?, rest))
    }

    /// How many permits come in so many nanoseconds and parts of one, rounded down.
    pub(crate) fn permits_in(&self, nanos: u64, parts: u64) -> u64 {
        let parts = u128::from(nanos) * u128::from(self.permits.value()) + u128::from(parts);
        // At most one a nanosecond.
        u64::try_from(self.nanos.divide_wide(parts).0).unwrap_or(u64::MAX)
    }

    /// How many nanoseconds a permit takes, rounded down.
    pub(crate) const fn whole_nanos(&self) -> u64 {
        self.permits.divide(self.nanos.value()).0
    }

    /// Whether a permit takes a whole number of nanoseconds.
    #[inline]
    pub(crate) const fn is_whole(&self) -> bool {
        self.permits.value() == 1
    }
}

impl fmt::Display for Rate {
    /// In lowest terms: `1 in 100ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.permits.value(), Duration::from_nanos(self.nanos.value()))
    }
}

/// Of two numbers that are not zero, by Euclid.
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
    fn what_is_rounded_does_not_add_up() {
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
    fn a_rate_that_is_none_is_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::new(0, second), Err(RateError::ZeroPermits { interval: second }));
        assert_eq!(Rate::new(5, Duration::ZERO), Err(RateError::ZeroInterval { permits: 5 }));
        let too_fast = RateError::TooFast { permits: 1_000_000_001, interval: second };
        assert_eq!(Rate::new(1_000_000_001, second), Err(too_fast));
        assert!(Rate::new(1_000_000_000, second).is_ok());
        assert!(matches!(Rate::new(1, Duration::MAX), Err(RateError::IntervalTooLong { .. })));
    }
}
