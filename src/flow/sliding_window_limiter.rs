//! At most so many in any window.

use std::cell::Cell;
use std::ops::Deref;

use super::permit_window::{Full, PermitWindow, Quota};
use super::{Decision, LimitError, Limiter, Reason, Refusal};
use crate::node::{Entry, ResourceNode};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{Clock, MonotonicClock, Timestamp, WindowConfig};

/// Admits at most `limit` permits in any window of n buckets: exactly, however many race for the last.
///
/// What the plain way does, to read the rate, compare it and record a pass, is three steps: those who
/// read before any of them has recorded all pass. Here one atomic word has the newest bucket and the
/// permits of its window, and one compare-exchange decides. Nobody is refused while as many permits were
/// free as were asked for, all the time from the call to its return.
///
/// A window is as long as its buckets together, and moves on by one of them: a permit comes back when the
/// bucket that it was taken in leaves the window, which is between n − 1 and n bucket lengths later. So within
/// a little more than n − 1 bucket lengths up to twice the limit may pass, at the end of one bucket and the
/// beginning of another: in half a second with 2 × 500 ms, in 0.9 s with 10 × 100 ms.
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
    /// A limiter with a precise clock of its own.
    ///
    /// # Errors
    ///
    /// If `limit` is above [`max_limit`](Self::max_limit).
    pub fn new(config: WindowConfig, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(config, limit, MonotonicClock::new())
    }

    /// The highest limit that there can be with that geometry: from a quarter to a half of a permit for each
    /// nanosecond of a bucket, rounded down. With buckets of 100 ms it is 2²⁵ − 1, some 33 million in a window.
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
        PermitWindow::check(&config, limit)?;
        Ok(Self { limit: AtomicU64::new(limit), window: PermitWindow::new(config), clock })
    }

    /// How many permits there are in any window.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit, while others ask. What is above a lower one is not taken back: it leaves with its
    /// buckets.
    ///
    /// # Errors
    ///
    /// As of [`new`](SlidingWindowLimiter::new); the limit is then as it was.
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
        // Relaxed: the value is all there is. A decision goes by the one that it finds.
        self.limit.store(limit, Ordering::Relaxed);
        Ok(())
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

    /// How many permits are free at `now`: of those that this limiter hands out, whatever passes a node
    /// beside it.
    pub fn available_at(&self, now: Timestamp) -> u64 {
        self.limit().saturating_sub(self.window.permits(now))
    }

    /// Lets a request into a resource, or refuses and counts it there: what Sentinel's default controller
    /// does, at the node's time.
    ///
    /// The limit holds exactly if all enter by this limiter. What passes the node beside it counts as well, as
    /// far as it is recorded, and more of it than there are requests that this limiter has admitted and that
    /// are just being recorded: so many too many may pass. Of those that it has admitted late, the node has
    /// recorded the pass in an older bucket, and while that has left the window already, as many that came
    /// beside do not count.
    ///
    /// Buckets of the node that begin before the limiter's window are not seen at all. So have the limiter's
    /// be a multiple of the node's, such as its [short window](crate::NodeConfig::second).
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

    /// The same at `now`, for so many permits.
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
        let quota = WithNode { limiter: self, node: &*node, look: Cell::new(None) };
        match self.window.take(now, permits, &quota).refusal() {
            None => {
                // Release: pairs with the fence between a reader's counters and its second look
                // (`BucketWrap::read`). Who has seen the pass that is recorded now finds its permits taken.
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
    fn free(&self, _number: u64, taken: u64) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed).saturating_sub(taken))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal {
        let limit = self.limit.load(Ordering::Relaxed);
        if full.permits > limit {
            return Refusal::never();
        }
        // One at least: the limit may have been raised meanwhile.
        let excess = full.excess(limit).max(1);
        Refusal::new(Reason::LimitReached, window.leave_at(full.number, excess))
    }
}

/// What passes a node beside its limiter counts as well.
struct WithNode<'a, C, D> {
    limiter: &'a SlidingWindowLimiter<C>,
    node: &'a ResourceNode<D>,
    look: Cell<Option<Look>>,
}

/// What was seen of a node.
#[derive(Clone, Copy)]
struct Look {
    /// The bucket with which the window ends.
    number: u64,
    passed: u64,
    /// How many of the window were taken here, as of the first decision after the look.
    taken: Option<u64>,
}

impl<C: Clock, D: Clock + Clone> Quota for WithNode<'_, C, D> {
    /// The node is looked at once for a window, and only where that can decide: each look takes cache lines
    /// from those who record, and makes it likelier to be overtaken by them. And it is looked at before the
    /// permits are: of what was taken here all that has been recorded by then is among them, so that nothing
    /// counts twice.
    fn free(&self, number: u64, taken: u64) -> Option<u64> {
        if taken >= self.limiter.limit() {
            return Some(0);
        }
        let Some(look) = self.look.get().filter(|look| look.number == number) else {
            let window = &self.limiter.window;
            // Who was held up looks as far as those who were not.
            let until = window.last_moment(number);
            let passed = self.node.passed_since(window.oldest(number), until);
            self.look.set(Some(Look { number, passed, taken: None }));
            return None;
        };
        let first = look.taken.unwrap_or(taken);
        self.look.set(Some(Look { taken: Some(first), ..look }));
        let beside = look.passed.saturating_sub(first);
        Some(self.limiter.limit().saturating_sub(taken.saturating_add(beside)))
    }

    fn refuse(&self, window: &PermitWindow, full: &Full) -> Refusal {
        // When something leaves that came beside is not known: it is at the next bucket at the earliest.
        match full.excess(self.limiter.limit()) {
            0 => Refusal::new(Reason::LimitReached, window.begins(full.number + 1)),
            _ => self.limiter.refuse(window, full),
        }
    }
}
