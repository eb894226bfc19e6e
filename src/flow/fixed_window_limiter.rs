//! At most so many in each interval.

use std::time::Duration;

use super::{Decision, LimitError, Limiter, SlidingWindowLimiter};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// Admits at most `limit` permits in each interval, such as each full minute: the plain counter.
///
/// Between the intervals it forgets. So twice the limit may pass within one interval's time, at the edge of
/// two: all of one at its end, all of the next at its beginning. Where that matters, take a
/// [`SlidingWindowLimiter`], of which this is the one with a single bucket.
///
/// ```
/// use leaparray::flow::{FixedWindowLimiter, Limiter};
/// use leaparray::Timestamp;
/// use std::time::Duration;
///
/// let limiter = FixedWindowLimiter::new(Duration::from_secs(60), 100)?;
/// let t = Timestamp::from_secs;
/// assert!(limiter.try_acquire_at(t(59), 100).is_admitted());
/// let refusal = limiter.try_acquire_at(t(59), 1).refusal().expect("all are taken");
/// assert_eq!(refusal.retry_at, Some(t(60)));
/// assert!(limiter.try_acquire_at(t(60), 100).is_admitted(), "200 within a second");
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
#[derive(Debug)]
pub struct FixedWindowLimiter<C = MonotonicClock>(SlidingWindowLimiter<C>);

impl FixedWindowLimiter {
    /// A limiter with a precise clock of its own. Its intervals follow each other from the beginning of
    /// time, the Unix epoch.
    ///
    /// # Errors
    ///
    /// If `interval` makes no [window](WindowConfig::new), or `limit` is above what there can be
    /// [with that bucket](SlidingWindowLimiter::max_limit).
    pub fn new(interval: Duration, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(interval, limit, MonotonicClock::new())
    }
}

impl<C: Clock> FixedWindowLimiter<C> {
    /// A limiter that reads the given clock.
    ///
    /// # Errors
    ///
    /// As of [`new`](FixedWindowLimiter::new).
    pub fn with_clock(interval: Duration, limit: u64, clock: C) -> Result<Self, LimitError> {
        let config = WindowConfig::new(1, interval).map_err(LimitError::NoWindow)?;
        SlidingWindowLimiter::with_clock(config, limit, clock).map(Self)
    }

    /// How many permits there are in each interval.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// Changes the limit, while others ask, from this interval on.
    ///
    /// # Errors
    ///
    /// As of [`new`](FixedWindowLimiter::new); the limit is then as it was.
    pub fn set_limit(&self, limit: u64) -> Result<(), LimitError> {
        self.0.set_limit(limit)
    }

    /// How long an interval is.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.0.config().interval()
    }

    /// How many permits are free.
    pub fn available(&self) -> u64 {
        self.0.available()
    }

    /// How many permits are free at `now`.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.0.available_at(now)
    }
}

impl<C: Clock> Limiter for FixedWindowLimiter<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        self.0.try_acquire_at(now, permits)
    }
}
