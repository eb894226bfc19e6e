//! The state of a limit, for the headers of a response.

use std::time::Duration;

use super::refusal::ceil_seconds;
use crate::time::Timestamp;

/// The state of a limit at one time: the numbers of the HTTP headers `RateLimit-Limit`,
/// `RateLimit-Remaining` and `RateLimit-Reset`. Plain data.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{FixedWindowLimiter, Limiter};
/// use std::time::Duration;
///
/// let limiter = FixedWindowLimiter::new(Duration::from_secs(60), 100)?;
/// let now = Timestamp::from_millis(75_500);
/// assert!(limiter.try_acquire_at(now, 30).is_admitted());
/// let quota = limiter.quota_at(now).expect("a window has one");
/// assert_eq!((quota.limit, quota.remaining), (100, 70));
/// assert_eq!(quota.reset_after(now), Some(Duration::from_secs(45)), "rounded up");
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// The number of permits that can be taken at once when all remain.
    pub limit: u64,
    /// The number of permits that can be taken now.
    pub remaining: u64,
    /// The time from which the whole limit can be taken, if no more permits are taken until then.
    /// It is not later than the time of the reading if the whole limit remains, and `None` if it is
    /// not known, or after the end of time.
    pub reset: Option<Timestamp>,
}

impl Quota {
    /// Creates a quota, for a [`Limiter`](super::Limiter) of your own.
    #[must_use]
    pub const fn new(limit: u64, remaining: u64, reset: Option<Timestamp>) -> Self {
        Self { limit, remaining, reset }
    }

    /// Returns whether the whole limit remains at `now`.
    pub(super) fn is_whole_at(&self, now: Timestamp) -> bool {
        self.remaining == self.limit && self.reset.is_some_and(|reset| reset <= now)
    }

    /// Returns the time from `now` until the whole limit remains, rounded up to whole seconds;
    /// `None` if it is not known.
    #[must_use]
    pub fn reset_after(&self, now: Timestamp) -> Option<Duration> {
        Some(ceil_seconds(self.reset?.saturating_since(now)))
    }
}
