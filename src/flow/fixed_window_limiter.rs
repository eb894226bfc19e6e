//! A limit of the permits of each interval.

use std::time::Duration;

use super::{Decision, LimitError, Limiter, SlidingWindowLimiter};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// Admits at most `limit` permits in each interval, such as each full minute.
///
/// The intervals are independent of each other. So up to twice the limit may pass within the length of one interval: all
/// permits of one interval at its end, and all of the next at its beginning. If that matters, use a
/// [`SlidingWindowLimiter`]; this limiter is one of those with a single bucket.
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
    /// A limiter with a [`MonotonicClock`] of its own. Intervals are counted from the Unix epoch.
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
    /// A limiter that reads `clock`.
    ///
    /// # Errors
    ///
    /// As of [`new`](FixedWindowLimiter::new).
    pub fn with_clock(interval: Duration, limit: u64, clock: C) -> Result<Self, LimitError> {
        let config = WindowConfig::new(1, interval).map_err(LimitError::NoWindow)?;
        SlidingWindowLimiter::with_clock(config, limit, clock).map(Self)
    }

    /// The number of permits in each interval.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// Changes the limit, from this interval on. Other threads may ask at the same time.
    ///
    /// # Errors
    ///
    /// As of [`new`](FixedWindowLimiter::new). The limit is then unchanged.
    pub fn set_limit(&self, limit: u64) -> Result<(), LimitError> {
        self.0.set_limit(limit)
    }

    /// The length of an interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.0.config().interval()
    }

    /// The number of permits that are left.
    pub fn available(&self) -> u64 {
        self.0.available()
    }

    /// The number of permits that are left at `now`.
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
