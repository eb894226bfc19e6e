//! A limit of the permits of any window.

use std::cell::Cell;
use std::ops::Deref;

use super::permit_window::{Full, PermitWindow, Quota};
use super::{Decision, LimitError, Limiter, Reason, Refusal};
use crate::node::{Entry, ResourceNode};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// Admits at most `limit` permits in any window of n buckets. The limit is exact under any race.
///
/// A limiter that reads a rate, compares it, and records a pass has a check-then-act race: several threads may read before
/// any of them records. Here, one atomic word has the newest bucket and the permits of its window, and one compare-exchange
/// decides. A request is not refused if, from the call to its return, as many permits are left as it asks for.
///
/// A window moves by one bucket at a time. A permit is free again when the bucket in which it was taken leaves the window,
/// between n − 1 and n bucket lengths later. So up to twice the limit may pass within little more than n − 1 bucket lengths,
/// at the end of one bucket and the beginning of another one: in half a second with 2 × 500 ms, in 0.9 s with 10 × 100 ms.
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
    limit: AtomicU64,
    window: PermitWindow,
    clock: C,
}

impl SlidingWindowLimiter {
    /// A limiter with a [`MonotonicClock`] of its own.
    ///
    /// # Errors
    ///
    /// If `limit` is above [`max_limit`](Self::max_limit).
    pub fn new(config: WindowConfig, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(config, limit, MonotonicClock::new())
    }

    /// The highest limit for a geometry: from a quarter to a half of a permit for each nanosecond of a bucket, rounded down.
    /// With buckets of 100 ms, it is 2²⁵ − 1, some 33 million in a window.
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
    /// A limiter that reads `clock`.
    ///
    /// # Errors
    ///
    /// As of [`new`](SlidingWindowLimiter::new).
    pub fn with_clock(config: WindowConfig, limit: u64, clock: C) -> Result<Self, LimitError> {
        PermitWindow::check(&config, limit)?;
        Ok(Self { limit: AtomicU64::new(limit), window: PermitWindow::new(config), clock })
    }

    /// The number of permits in any window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Other threads may ask at the same time. Permits above a lower limit are not taken back: they leave
    /// the window with their buckets.
    ///
    /// # Errors
    ///
    /// As of [`new`](SlidingWindowLimiter::new). The limit is then unchanged.
    ///
    /// ```
    /// use leaparray::flow::{Limiter, SlidingWindowLimiter};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let limiter = SlidingWindowLimiter::new(WindowConfig::new(2, Duration::from_secs(1))?, 1)?;
    /// let now = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(now, 1).is_admitted());
    /// limiter.set_limit(2)?;
    /// assert!(limiter.try_acquire_at(now, 1).is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit: u64) -> Result<(), LimitError> {
        PermitWindow::check(self.config(), limit)?;
        // Relaxed: the limit orders nothing. A decision uses the value that it finds.
        self.limit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// The geometry.
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        self.window.config()
    }

    /// The number of permits that are left.
    pub fn available(&self) -> u64 {
        self.available_at(self.now())
    }

    /// The number of permits that are left at `now`. Requests that enter a node without this limiter are not counted.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.limit().saturating_sub(self.window.permits(now))
    }

    /// Lets a request into a node, or refuses it and counts it there as blocked, by the clock of the node. After Sentinel's
    /// default controller.
    ///
    /// The limit is exact if every request enters through this limiter. Requests that enter the node directly count once they
    /// are recorded, with two exceptions. While requests that this limiter has admitted are not recorded yet, as many direct
    /// ones may not count, so as many too many may pass. If the limiter has admitted a late request, the node has recorded it
    /// in an older bucket; once that bucket has left the window, one direct request does not count for each late one.
    ///
    /// Buckets of the node that begin before the limiter's window are not counted. So the buckets of the limiter should be a
    /// multiple of those of the node, as are those of its [short window](crate::NodeConfig::second).
    ///
    /// ```
    /// use leaparray::flow::SlidingWindowLimiter;
    /// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let limiter = SlidingWindowLimiter::with_clock(*node.config().short(), 2, clock)?;
    /// node.enter().success();
    /// if let Ok((entry, _)) = limiter.enter(&node).into_result() {
    ///     entry.success();
    /// }
    /// assert!(limiter.enter(&node).refusal().is_some());
    /// assert_eq!(node.long_sum(MetricEvent::Pass), 2);
    /// assert_eq!(node.long_sum(MetricEvent::Block), 1);
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    #[inline]
    pub fn enter<N, D>(&self, node: N) -> Decision<Entry<N, D>>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        let now = node.clock().now();
        self.enter_at(node, now)
    }

    /// The same at `now`.
    #[inline]
    pub fn enter_at<N, D>(&self, node: N, now: Timestamp) -> Decision<Entry<N, D>>
    where
        N: Deref<Target = ResourceNode<D>>,
        D: Clock + Clone,
    {
        self.enter_many_at(node, now, 1)
    }

    /// The same at `now`, for a request of `permits` permits.
    #[inline]
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
        let quota = WithNode { limiter: self, node: &*node, read: Cell::new(None) };
        match self.window.take(now, permits, &quota).refusal() {
            None => {
                // Release: pairs with the acquire fence with which a read of the node validates its head. A thread that has
                // seen this pass in the node then finds its permits taken.
                fence(Ordering::Release);
                Decision::Admitted(Entry::enter_many_at(node, now, permits))
            }
            Some(refusal) => {
                node.block_many_at(now, permits);
                Decision::Refused(refusal)
            }
        }
    }
}

impl<C: Clock> Limiter for SlidingWindowLimiter<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    fn try_acquire_at(&self, now: Timestamp, permits: u64) -> Decision {
        self.window.take(now, permits, self)
    }
}

impl<C> Quota for SlidingWindowLimiter<C> {
    #[inline]
    fn remaining(&self, _number: u64, taken: u64) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed).saturating_sub(taken))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal {
        let limit = self.limit.load(Ordering::Relaxed);
        if full.permits > limit {
            return Refusal::never();
        }
        // At least one: the limit may have been raised since.
        let excess = full.excess(limit).max(1);
        Refusal::new(Reason::LimitReached, window.leave_at(full.number, excess))
    }
}

/// The quota of a limiter with a node: requests that enter the node directly count as well.
struct WithNode<'a, C, D> {
    limiter: &'a SlidingWindowLimiter<C>,
    node: &'a ResourceNode<D>,
    read: Cell<Option<NodeRead>>,
}

/// A read of the node.
#[derive(Clone, Copy)]
struct NodeRead {
    /// The bucket with which the window ends.
    number: u64,
    passed: u64,
    /// The permits of the window that were taken of the limiter, at the first decision after the read.
    taken: Option<u64>,
}

impl<C: Clock, D: Clock + Clone> Quota for WithNode<'_, C, D> {
    /// The node is read once for each window, and only if it can decide: each read takes cache lines from recording threads,
    /// and makes this thread more likely to lose the race. It is read before the permits: every pass that it finds of a
    /// request of this limiter is then among the permits that were taken, so no request counts twice.
    fn remaining(&self, number: u64, taken: u64) -> Option<u64> {
        if taken >= self.limiter.limit() {
            return Some(0);
        }
        let Some(read) = self.read.get().filter(|read| read.number == number) else {
            let window = &self.limiter.window;
            // Up to the end of the newest bucket, also for a thread with a stale `now`.
            let until = window.last_moment(number);
            let passed = self.node.passed_since(window.oldest(number), until);
            self.read.set(Some(NodeRead { number, passed, taken: None }));
            return None;
        };
        let first = read.taken.unwrap_or(taken);
        self.read.set(Some(NodeRead { taken: Some(first), ..read }));
        let beside = read.passed.saturating_sub(first);
        Some(self.limiter.limit().saturating_sub(taken.saturating_add(beside)))
    }

    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal {
        // The time at which direct requests leave the window is not known: it is the next bucket at the earliest.
        match full.excess(self.limiter.limit()) {
            0 => Refusal::new(Reason::LimitReached, window.begins(full.number + 1)),
            _ => self.limiter.refuse(window, full),
        }
    }
}
