//! At most so many in any window.

use std::cell::Cell;
use std::ops::Deref;

use super::permit_window::{Full, PermitWindow};
use super::{Decision, LimitError, Limiter, Reason, Refusal};
use crate::clock::{Clock, MonotonicClock};
use crate::geometry::WindowConfig;
use crate::node::{Entry, ResourceNode};
use crate::timestamp::Timestamp;

/// Admits at most `limit` permits in any window of n buckets: exactly, however many race for the last.
///
/// What the plain way does, to read the rate, compare it and record a pass, is three steps: those who
/// read before any of them has recorded all pass. Here one atomic word has the newest bucket and the
/// permits of its window, and one compare-exchange decides. Nobody is refused while as many permits were
/// free as were asked for, all the time from the call to its return.
///
/// A window is as long as its buckets together, and moves on by one of them: a permit comes back when the
/// bucket that it was taken in leaves the window, which is between n − 1 and n bucket lengths later.
///
/// ```
/// use leaparray::flow::{Limiter, SlidingWindowLimiter};
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let config = WindowConfig::new(10, Duration::from_secs(1))?;
/// let limiter = SlidingWindowLimiter::with_clock(config, 100, clock.clone())?;
/// assert!(limiter.try_acquire_many(60).is_admitted());
/// clock.advance(Duration::from_millis(500));
/// let admitted = (0..1_000).filter(|_| limiter.try_acquire().is_admitted()).count();
/// assert_eq!(admitted, 40);
/// let refusal = limiter.try_acquire().refusal().expect("all 100 are taken");
/// assert_eq!(refusal.retry_at, Some(Timestamp::from_secs(61)), "when the 60 leave");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SlidingWindowLimiter<C = MonotonicClock> {
    limit: u64,
    window: PermitWindow,
    clock: C,
}

impl SlidingWindowLimiter {
    /// A limiter with a precise clock of its own.
    ///
    /// # Errors
    ///
    /// If `limit` is above [`max_limit`](Self::max_limit).
    pub fn new(config: WindowConfig, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(config, limit, MonotonicClock::new())
    }

    /// The highest limit that there can be with that geometry: between a quarter and a half of a permit for
    /// each nanosecond of a bucket. With buckets of 100 ms it is 2²⁵ − 1, some 33 million in a window.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::flow::SlidingWindowLimiter;
    /// use std::time::Duration;
    ///
    /// let config = WindowConfig::new(10, Duration::from_secs(1))?;
    /// assert_eq!(SlidingWindowLimiter::max_limit(&config), (1 << 25) - 1);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn max_limit(config: &WindowConfig) -> u64 {
        PermitWindow::max_permits(config)
    }
}

impl<C: Clock> SlidingWindowLimiter<C> {
    /// A limiter that reads the given clock.
    ///
    /// # Errors
    ///
    /// As of [`new`](SlidingWindowLimiter::new).
    pub fn with_clock(config: WindowConfig, limit: u64, clock: C) -> Result<Self, LimitError> {
        let max = PermitWindow::max_permits(&config);
        if limit > max {
            let bucket_len = config.bucket_len();
            return Err(LimitError::TooHigh { limit, max, bucket_len });
        }
        Ok(Self { limit, window: PermitWindow::new(config), clock })
    }

    /// How many permits there are in any window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The geometry.
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        self.window.config()
    }

    /// How many permits are free.
    pub fn available(&self) -> u64 {
        self.available_at(self.now())
    }

    /// How many permits are free at `now`.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.limit - self.window.permits(now)
    }

    /// Lets a request into a resource, or refuses and counts it there: what Sentinel's default controller
    /// does, at the node's time.
    ///
    /// The limit holds exactly for all that enter by this limiter. What passes the node beside it counts as
    /// well, as far as it is recorded when the decision is made. For that the limiter's buckets had best be
    /// the node's: its [short window](crate::NodeConfig::second) is a geometry to take.
    ///
    /// ```
    /// use leaparray::flow::SlidingWindowLimiter;
    /// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let limiter = SlidingWindowLimiter::with_clock(*node.config().second(), 2, clock)?;
    /// node.enter().success();
    /// if let Ok((entry, _)) = limiter.enter(&node).into_result() {
    ///     entry.success();
    /// }
    /// assert!(limiter.enter(&node).refusal().is_some());
    /// assert_eq!(node.minute_sum(MetricEvent::Pass), 2);
    /// assert_eq!(node.minute_sum(MetricEvent::Block), 1);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    pub fn enter<N, D>(&self, node: N) -> Decision<Entry<N, D>>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        let now = node.clock().now();
        self.enter_many_at(node, now, 1)
    }

    /// The same at `now`, for so many permits.
    pub fn enter_many_at<N, D>(
        &self,
        node: N,
        now: Timestamp,
        permits: u64,
    ) -> Decision<Entry<N, D>>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        // Looked at once for a window: each look takes cache lines from those who record, and makes it
        // likelier to be overtaken by them before the permits are taken.
        let seen = Cell::new(None);
        let free = |number, taken: u64| {
            let (_, passed) = seen
                .get()
                .filter(|&(of, _)| of == number)
                .unwrap_or_else(|| (number, node.passed_since(self.window.oldest(number), now)));
            seen.set(Some((number, passed)));
            self.limit.saturating_sub(taken.max(passed))
        };
        match self.window.take(now, permits, free, |_, _, _| {}) {
            Ok(()) => Decision::Admitted(Entry::enter_many_at(node, now, permits)),
            Err(full) => {
                node.block_many_at(now, permits);
                // When something leaves that came beside it is not known.
                Decision::Refused(self.refuse(permits, || self.window.begins(full.number + 1)))
            }
        }
    }

    fn refuse(&self, permits: u64, retry_at: impl FnOnce() -> Timestamp) -> Refusal {
        if permits > self.limit {
            return Refusal::never();
        }
        Refusal::new(Reason::LimitReached, Some(retry_at()))
    }
}

impl<C: Clock> Limiter for SlidingWindowLimiter<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        let free = |_, taken| self.limit - taken;
        match self.window.take(now, permits, free, |_, _, _| {}) {
            Ok(()) => Decision::Admitted(()),
            Err(Full { number, missing }) => {
                let retry_at = || self.window.leave_at(number, missing);
                Decision::Refused(self.refuse(permits, retry_at))
            }
        }
    }
}
