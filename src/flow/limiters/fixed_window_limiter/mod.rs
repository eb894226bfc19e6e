//! A limiter of the permits of each interval.

mod interval;

use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, LimitError, Limiter};
use crate::flow::limiters::SlidingWindowLimiter;
use crate::time::{Clock, MonotonicClock, WindowConfig};
pub(in crate::flow) use interval::Interval;

/// A limiter of at most `limit` permits in each interval, such as each full minute.
///
/// The intervals are independent of each other. So up to twice the limit may be admitted within a
/// short time: all permits of one interval at its end, and all permits of the next interval at its
/// beginning. To prevent that, use a [`SlidingWindowLimiter`]. This limiter is a
/// `SlidingWindowLimiter` with a single bucket, and scales with threads [as that
/// does](SlidingWindowLimiter#threads).
///
/// ```
/// use leaparray::Timestamp;
/// use leaparray::flow::{FixedWindowLimiter, LimiterExt};
/// use std::time::Duration;
///
/// let limiter = FixedWindowLimiter::new(Duration::from_secs(60), 100)?;
/// let t = Timestamp::from_secs;
/// assert!(limiter.try_acquire_at(t(59), 100).is_admitted());
/// let refusal = limiter.try_acquire_at(t(59), 1).refusal().expect("all are taken");
/// assert_eq!(refusal.retry_at(), Some(t(60)));
/// assert!(limiter.try_acquire_at(t(60), 100).is_admitted(), "200 within a second");
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
#[derive(Debug)]
pub struct FixedWindowLimiter<C = MonotonicClock>(pub(in crate::flow) SlidingWindowLimiter<C>);

impl FixedWindowLimiter {
    /// Creates a limiter with its own [`MonotonicClock`]. Intervals are counted from the Unix
    /// epoch.
    ///
    /// # Errors
    ///
    /// Returns a [`LimitError`] if `interval` is not valid for a [window](WindowConfig::new) of one
    /// bucket, or if `limit` is above the [maximum](SlidingWindowLimiter::max_limit) for such a
    /// bucket.
    pub fn new(interval: Duration, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(interval, limit, MonotonicClock::new())
    }
}

impl<C: Clock> FixedWindowLimiter<C> {
    /// Creates a limiter that reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](FixedWindowLimiter::new).
    pub fn with_clock(interval: Duration, limit: u64, clock: C) -> Result<Self, LimitError> {
        let config = WindowConfig::new(1, interval).map_err(LimitError::NoWindow)?;
        SlidingWindowLimiter::of_buckets_with_clock(config, limit, clock).map(Self)
    }

    /// Counts also the requests that enter the node without this limiter: see
    /// [`SlidingWindowLimiter`](SlidingWindowLimiter#the-passes-of-a-node).
    ///
    /// ```
    /// use leaparray::flow::{FixedWindowLimiter, LimiterExt};
    /// use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let limiter = FixedWindowLimiter::with_clock(Duration::from_secs(60), 2, clock)?;
    /// let limiter = limiter.with_node_passes();
    /// node.enter().success();
    /// limiter.try_enter(&node)?.success();
    /// assert!(limiter.try_enter(&node).is_err());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_node_passes(self) -> Self {
        Self(self.0.with_node_passes())
    }

    /// Sets the *lead*: how far ahead of the limiter's clock a given time may be. By default, this
    /// is a second.
    ///
    /// A later time is treated as the time of the clock plus the lead. So one wrong time keeps the
    /// limiter from admitting for at most the lead longer. If the clock goes back, its highest
    /// reading counts.
    ///
    /// The clock is read once in each lead. With [`Duration::MAX`], there is no bound and the clock
    /// is not read, as for a simulation whose times are ahead of a clock that stands still.
    ///
    /// ```
    /// use leaparray::flow::{FixedWindowLimiter, LimiterExt};
    /// use leaparray::{ManualClock, Timestamp};
    /// use std::time::Duration;
    ///
    /// let (t, second) = (Timestamp::from_secs, Duration::from_secs(1));
    /// let clock = ManualClock::new(t(60));
    /// let limiter =
    ///     FixedWindowLimiter::with_clock(second, 5, clock.clone())?.with_max_lead(second);
    /// // An hour ahead: the permits of the next second are taken.
    /// assert!(limiter.try_acquire_at(t(3_660), 5).is_admitted());
    /// let remaining = |now| limiter.quota_at(now).unwrap().remaining;
    /// assert_eq!([t(60), t(61), t(62)].map(remaining), [0, 0, 5]);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self(self.0.with_max_lead(lead))
    }

    /// Returns the number of permits in each interval.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.limit()
    }

    /// [Changes](crate::flow#changes-in-place) the limit, from the current interval on. Permits
    /// that were taken in that interval stay taken.
    ///
    /// # Errors
    ///
    /// As for [`new`](FixedWindowLimiter::new). Nothing is changed then.
    pub fn reconfigure(&self, limit: u64) -> Result<(), LimitError> {
        self.0.reconfigure(limit)
    }

    /// Returns the length of an interval.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.0.config().interval()
    }
}

impl<C: Clock> Limiter for FixedWindowLimiter<C> {
    type Permit = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as of the sliding window")]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        self.0.decide(ask)
    }

    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        self.0.peek(ask)
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        &self.0
    }
}
