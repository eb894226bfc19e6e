//! The time that a window covers, by which rates are divided.

use std::time::Duration;

use super::SlidingWindow;
use crate::time::{Clock, Timestamp, WindowConfig};

/// The time that a [`SlidingWindow`] covers at some `now`: plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The start of the oldest bucket of the window.
    pub start: Timestamp,
    /// The number of buckets of the array that the window covers. It is smaller than the array's
    /// sample count for a [view](SlidingWindow::view) of a shorter interval.
    pub buckets: u64,
    /// The time by which [`qps_at`](SlidingWindow::qps_at) divides.
    pub covered: Duration,
}

/// The divisor of the rates of a window, as far as it does not depend on `now`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateDivisor {
    /// The time at which the window was made.
    pub(super) made: Timestamp,
    /// The length of the window without its newest bucket, in nanoseconds.
    older_nanos: u64,
    /// The least divisor, in nanoseconds: a tenth of a bucket of the array.
    least_nanos: u64,
}

impl RateDivisor {
    pub(super) fn new(made: Timestamp, array: &WindowConfig, array_len: usize) -> Self {
        let bucket = array.bucket_nanos();
        // Does not overflow: it is less than the interval of the array.
        let older_nanos = bucket * (array_len as u64 - 1);
        Self { made, older_nanos, least_nanos: (bucket / 10).max(1) }
    }

    /// Returns the divisor of a view over the same array.
    pub(super) fn of_view(&self, array: &WindowConfig, array_len: usize) -> Self {
        Self::new(self.made, array, array_len)
    }

    /// Returns the part of the `nanos` nanoseconds before `end` during which the window existed, at
    /// least `least_nanos`. If `end` is before the window was made, as in a replay of recorded
    /// times, it is all of them.
    #[inline]
    fn before(&self, end: u64, nanos: u64) -> u64 {
        // If `end` is before `made`, the difference wraps around to a number above `end`, and so
        // above `nanos`.
        nanos.min(end.wrapping_sub(self.made.as_nanos())).max(self.least_nanos)
    }
}

impl<C: Clock> SlidingWindow<C> {
    /// Returns the time that this window covers now; see [`coverage_at`](Self::coverage_at).
    pub fn coverage(&self) -> Coverage {
        self.coverage_at(self.clock().now())
    }

    /// Returns the time that this window covers at `now`: the start of its oldest bucket, the
    /// number of buckets of the array in it, and the divisor of its rates.
    ///
    /// ```
    /// use leaparray::{ManualClock, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let minute = WindowConfig::new(120, Duration::from_secs(60))?;
    /// let minute = SlidingWindow::with_clock(minute, ManualClock::new(Timestamp::MIN));
    /// let second = minute.view(WindowConfig::new(1, Duration::from_secs(1))?)?;
    /// let coverage = second.coverage_at(Timestamp::from_millis(100_200));
    /// assert_eq!(coverage.buckets, 2);
    /// assert_eq!(coverage.start, Timestamp::from_millis(99_500));
    /// assert_eq!(coverage.covered, Duration::from_millis(700));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn coverage_at(&self, now: Timestamp) -> Coverage {
        let numbers = self.covered(now);
        Coverage {
            start: self.array().config().start_of(*numbers.start()),
            buckets: numbers.end() - numbers.start() + 1,
            covered: Duration::from_nanos(self.covered_nanos(now)),
        }
    }

    /// Returns the divisor of rates at `now`, in nanoseconds.
    #[inline]
    pub(crate) fn covered_nanos(&self, now: Timestamp) -> u64 {
        self.covered_nanos_at_age(now, self.array().config().bucket_and_age(now).1)
    }

    /// Returns the divisor of rates at `now`, which is `age` nanoseconds after the start of its
    /// bucket of the array.
    #[inline]
    pub(super) fn covered_nanos_at_age(&self, now: Timestamp, age: u64) -> u64 {
        let now = now.as_nanos();
        // Less than the interval, and cut at the beginning of time.
        let covered = (self.divisor.older_nanos + age).min(now);
        self.divisor.before(now, covered)
    }

    /// Returns the divisor of the rate in the last complete bucket of this window at `now`, in
    /// nanoseconds.
    pub(crate) fn covered_nanos_of_previous(&self, now: Timestamp) -> u64 {
        let array = self.array().config();
        // The current bucket of this window ends with the bucket of `now`, and so begins this
        // number of buckets later.
        let begins = (array.bucket_number(now) + 1).saturating_sub(self.buckets_per_sample);
        let end = array.start_of(begins).as_nanos();
        self.divisor.before(end, self.config().bucket_nanos().min(end))
    }
}

/// Returns a sum per second, if it was counted in that many nanoseconds. The relative error is
/// about 10⁻¹⁶, from the rounding of an `f64`.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "that is the error")]
pub(crate) fn per_second(sum: u64, nanos: u64) -> f64 {
    sum as f64 * 1e9 / nanos as f64
}
