//! The state of a limit, for the headers of a response.

use std::time::Duration;

use crate::flow::contract::refusal::ceil_seconds;
use crate::time::Timestamp;

/// The state of a limit at one time, for the HTTP headers `RateLimit-Policy` and `RateLimit`. Plain
/// data.
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{FixedWindowLimiter, LimiterExt};
/// use std::time::Duration;
///
/// let limiter = FixedWindowLimiter::new(Duration::from_secs(60), 100)?;
/// let now = Timestamp::from_millis(75_500);
/// assert!(limiter.try_acquire_at(now, 30).is_admitted());
/// let quota = limiter.quota_at(now).expect("a window has one");
/// assert_eq!((quota.limit, quota.remaining), (100, 70));
/// assert_eq!(quota.window, Some(Duration::from_secs(60)));
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
    /// The time for which the limit is given: the length of the window, or the time in which an
    /// empty bucket fills up. `None` if there is none, as for permits that are held.
    pub window: Option<Duration>,
    /// The unit of the limit.
    pub unit: QuotaUnit,
    /// The name of the limit, if it was [named](crate::flow::LimiterExt::named).
    pub name: Option<&'static str>,
}

/// The unit of a [`Quota`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaUnit {
    /// Requests that were admitted. Their permits come back with the time.
    #[default]
    Requests,
    /// A cost of requests, in a unit of the program: see
    /// [`CostLimiter`](crate::flow::settle::CostLimiter).
    Cost,
    /// Requests in flight. Their permits come back when they end.
    InFlight,
}

impl Quota {
    /// Creates a quota of [requests](QuotaUnit::Requests) without a window and a name, for a
    /// [`Limiter`](crate::flow::Limiter) of your own.
    ///
    /// ```
    /// use leaparray::flow::{Quota, QuotaUnit};
    /// use std::time::Duration;
    ///
    /// let hour = Quota::new(1_000, 20, None).with_window(Duration::from_secs(3_600));
    /// assert_eq!(hour.window, Some(Duration::from_secs(3_600)));
    /// assert_eq!(hour.unit, QuotaUnit::Requests);
    /// let busy = Quota::new(8, 0, None).with_unit(QuotaUnit::InFlight).with_name("reports");
    /// assert_eq!((busy.window, busy.name), (None, Some("reports")));
    /// ```
    #[must_use]
    pub const fn new(limit: u64, remaining: u64, reset: Option<Timestamp>) -> Self {
        let unit = QuotaUnit::Requests;
        Self { limit, remaining, reset, window: None, unit, name: None }
    }

    /// Returns this quota with a window.
    #[must_use]
    pub const fn with_window(self, window: Duration) -> Self {
        Self { window: Some(window), ..self }
    }

    /// Returns this quota with another unit.
    #[must_use]
    pub const fn with_unit(self, unit: QuotaUnit) -> Self {
        Self { unit, ..self }
    }

    /// Returns this quota with a name.
    #[must_use]
    pub const fn with_name(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Returns whether the whole limit remains at `now`.
    pub(in crate::flow) fn is_whole_at(&self, now: Timestamp) -> bool {
        self.remaining == self.limit && self.reset.is_some_and(|reset| reset <= now)
    }

    /// Returns the time from `now` until the whole limit remains, rounded up to whole seconds;
    /// `None` if it is not known.
    #[must_use]
    pub fn reset_after(&self, now: Timestamp) -> Option<Duration> {
        Some(ceil_seconds(self.reset?.saturating_since(now)))
    }
}
