//! The time that a window covers, by which rates are divided.

use std::time::Duration;

use crate::time::{Timestamp, WindowConfig};

/// The time that a window covers: plain data. Returned by
/// [`WindowReading::coverage`](crate::WindowReading::coverage).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The start of the oldest bucket of the window.
    pub start: Timestamp,
    /// The number of buckets of the array that the window covers. It is smaller than the array's
    /// sample count for a [view](crate::SlidingWindow::view) of a shorter interval.
    pub buckets: u64,
    /// The time by which [`qps`](crate::WindowReading::qps) divides.
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

    /// Returns the divisor of rates at `now`, which is `age` nanoseconds after the start of its
    /// bucket of the array.
    #[inline]
    pub(super) fn at_age(&self, now: Timestamp, age: u64) -> u64 {
        let now = now.as_nanos();
        // Less than the interval, and cut at the beginning of time.
        self.before(now, (self.older_nanos + age).min(now))
    }

    /// Returns the part of the `nanos` nanoseconds before `end` during which the window existed, at
    /// least `least_nanos`. If `end` is before the window was made, as in a replay of recorded
    /// times, it is all of them.
    #[inline]
    pub(super) fn before(&self, end: u64, nanos: u64) -> u64 {
        // If `end` is before `made`, the difference wraps around to a number above `end`, and so
        // above `nanos`.
        nanos.min(end.wrapping_sub(self.made.as_nanos())).max(self.least_nanos)
    }
}

/// Returns a sum per second, if it was counted in that many nanoseconds. The relative error is
/// about 10⁻¹⁶, from the rounding of an `f64`.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "that is the error")]
pub(crate) fn per_second(sum: u64, nanos: u64) -> f64 {
    sum as f64 * 1e9 / nanos as f64
}
