//! A limiter of the permits of any interval.

use std::cell::Cell;
use std::time::Duration;

use crate::flow::contract::{Account, Ask, Decision, LimitError, Limiter, Passed, Quota, Refusal};
use crate::flow::permits::BucketPermits;
use crate::flow::permits::DirectPasses;
use crate::flow::permits::{FullWindow, PermitWindow, Ration};
use crate::node::Reason;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{Clock, ConfigError, MonotonicClock, Timestamp, WindowConfig};

/// A limiter of at most `limit` permits in any interval of a length: in any second, and not only
/// from one full second to the next. The limit is exact under any race.
///
/// ```
/// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
/// use leaparray::{ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_millis(60_999));
/// let second = Duration::from_secs(1);
/// let limiter = SlidingWindowLimiter::with_clock(second, 100, clock.clone())?;
/// assert!(limiter.try_acquire_many(100).is_admitted());
/// clock.advance(second - Duration::from_millis(1));
/// let refusal = limiter.try_acquire().refusal().expect("they were admitted 999 ms ago");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(62)), "when their bucket leaves");
/// # Ok::<_, leaparray::flow::LimitError>(())
/// ```
///
/// A limiter that reads a rate, compares it, and records a pass has a check-then-act race: several
/// threads may read before any of them records. Here, one atomic word has the newest bucket and the
/// permits of its window, and one compare-exchange decides. A request is never refused if, during
/// the whole call, as many permits are left as it asks for.
///
/// # Threads
///
/// While threads compete for that word, and permits for at least 64 requests are left, the permits
/// are divided among *stripes*, words on cache lines of their own. So decisions scale with threads,
/// and the limit and the promise about refusals stay exact. The stripes are allocated when that
/// first happens: 128 bytes for each of 16, and 128 bytes more. A limiter for which no threads
/// compete never has them. The permits go back into the word when the bucket is over, and with a
/// refund, or a request for more permits than any stripe has.
///
/// # Intervals and buckets
///
/// Permits are counted in buckets, and a request is decided by the sum of a window of n buckets. A
/// permit is free again when the bucket in which it was taken leaves the window, between n − 1 and
/// n bucket lengths later.
///
/// [`new`](Self::new) divides the interval into 50 buckets and takes one more into the window. An
/// interval begins and ends within buckets, so it touches at most 51 of them, and has at most the
/// limit, wherever it begins. A permit is free again one to 1.02 intervals later, so under lasting
/// demand at least 98 % of the rate is admitted. In intervals below 125 µs, which buckets of whole
/// nanoseconds divide less evenly, the share is lower: 96 % from 3 µs on.
///
/// [`of_buckets`](Self::of_buckets) takes the number of buckets and their length from a
/// [`WindowConfig`], as Sentinel's window, so that the limit agrees with the sums of a
/// [`SlidingWindow`](crate::SlidingWindow) or a node. Up to twice the limit may then be admitted
/// within little more than n − 1 bucket lengths, at the end of one bucket and the beginning of
/// another: in half a second with 2 × 500 ms, in 0.9 s with 10 × 100 ms.
///
/// # Timestamps
///
/// The limit holds by the buckets in which permits are counted. A permit counts in one bucket: the
/// bucket of its request's time, or a later one, up to the newest that any request has asked in by
/// then. By the times that callers give, a window can have more. For example, a limiter of 2
/// permits in two buckets admits 2 in bucket 11. A request in bucket 13 then moves the window, and
/// a late request with a time in bucket 12 gets 2 permits, which count in bucket 13.
///
/// # The passes of a node
///
/// Like each limiter, it counts the requests that it has admitted, and no other ones: a node may
/// have several limiters, each for some of its requests. A limiter that is made
/// [`with_node_passes`](Self::with_node_passes) also counts the requests that enter the node
/// without it. Sentinel's default controller corresponds to that.
///
/// The limit is exact if every request enters through this limiter. Requests that enter the node
/// directly are counted when the first request asks in a bucket, of the limiter or of the node,
/// whichever is shorter. So a direct request counts from the next bucket on, or at once if it was
/// recorded before that first request. There are two exceptions. First, for each request that this
/// limiter has admitted and that is not recorded at the time of the count, one direct request may
/// not count in that bucket. Second, if the limiter has admitted a late request, the node has
/// recorded it in an older bucket. Once that bucket has left the window, one direct request does
/// not count for each late request.
///
/// Such a limiter is meant for one node. If it is used with several, the direct requests of the
/// node for which it was asked first in a bucket count for all of them.
///
/// Buckets of the node that begin before the limiter's window are not counted. So the bucket length
/// of the limiter should be a multiple of the bucket length of the node, as in the node's [short
/// window](crate::NodeConfig::short).
///
/// ```
/// use leaparray::flow::{LimiterExt, Reason, SlidingWindowLimiter};
/// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
/// let second = *node.config().short();
/// let limiter =
///     SlidingWindowLimiter::of_buckets_with_clock(second, 2, clock)?.with_node_passes();
/// node.enter().success();
/// limiter.try_enter(&node)?.success();
/// assert!(limiter.enter(&node).is_refused());
/// assert_eq!(node.now().long().sum(MetricEvent::Pass), 2);
/// assert_eq!(node.refusals()[Reason::LimitReached], 1);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Without a node
///
/// ```
/// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
/// use leaparray::{ManualClock, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let config = WindowConfig::new(10, Duration::from_secs(1))?;
/// let limiter = SlidingWindowLimiter::of_buckets_with_clock(config, 100, clock.clone())?;
/// assert!(limiter.try_acquire_many(60).is_admitted());
/// clock.advance(Duration::from_millis(500));
/// let admitted = (0..1_000).filter(|_| limiter.try_acquire().is_admitted()).count();
/// assert_eq!(admitted, 40);
/// let refusal = limiter.try_acquire().refusal().expect("all 100 are taken");
/// assert_eq!(refusal.retry_at(), Some(Timestamp::from_secs(61)), "when the 60 leave");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SlidingWindowLimiter<C = MonotonicClock> {
    limit: AtomicU64,
    /// At most as long as the window.
    interval: Duration,
    window: PermitWindow,
    /// Of the node that this limiter is used with, if it counts them.
    direct: Option<DirectPasses>,
    clock: C,
}

impl SlidingWindowLimiter {
    /// Creates a limiter of `limit` permits in [any interval](Self#intervals-and-buckets) of that
    /// length, with its own [`MonotonicClock`].
    ///
    /// # Errors
    ///
    /// Returns [`LimitError::NoWindow`] if the interval is zero or too long for a window, and
    /// [`LimitError::TooHigh`] if `limit` is above the maximum of a window with buckets of a 50th
    /// of the interval: 4,194,303 permits in a second.
    ///
    /// ```
    /// use leaparray::flow::SlidingWindowLimiter;
    /// use std::time::Duration;
    ///
    /// let limiter = SlidingWindowLimiter::new(Duration::from_secs(60), 1_000)?;
    /// assert_eq!((limiter.limit(), limiter.interval()), (1_000, Duration::from_secs(60)));
    /// assert!(SlidingWindowLimiter::new(Duration::ZERO, 1_000).is_err());
    /// # Ok::<_, leaparray::flow::LimitError>(())
    /// ```
    pub fn new(interval: Duration, limit: u64) -> Result<Self, LimitError> {
        Self::with_clock(interval, limit, MonotonicClock::new())
    }

    /// Creates a limiter of `limit` permits in any window of that
    /// [geometry](Self#intervals-and-buckets), with its own [`MonotonicClock`].
    ///
    /// # Errors
    ///
    /// Returns [`LimitError::TooHigh`] if `limit` is above [`max_limit`](Self::max_limit).
    pub fn of_buckets(config: WindowConfig, limit: u64) -> Result<Self, LimitError> {
        Self::of_buckets_with_clock(config, limit, MonotonicClock::new())
    }

    /// Returns the highest limit for a [geometry](Self::of_buckets): between an eighth and a
    /// quarter of a permit for each nanosecond of a bucket, rounded down. With buckets of 100 ms,
    /// it is 2²⁴ − 1, about 16 million permits in a window.
    ///
    /// ```
    /// use leaparray::WindowConfig;
    /// use leaparray::flow::SlidingWindowLimiter;
    /// use std::time::Duration;
    ///
    /// let config = WindowConfig::new(10, Duration::from_secs(1))?;
    /// assert_eq!(SlidingWindowLimiter::max_limit(&config), (1 << 24) - 1);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub const fn max_limit(config: &WindowConfig) -> u64 {
        PermitWindow::max_permits(config)
    }
}

impl<C: Clock> SlidingWindowLimiter<C> {
    /// Creates a limiter of `limit` permits in [any interval](Self#intervals-and-buckets) of that
    /// length, which reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`new`](SlidingWindowLimiter::new).
    pub fn with_clock(interval: Duration, limit: u64, clock: C) -> Result<Self, LimitError> {
        let window = window_of_any(interval).map_err(LimitError::NoWindow)?;
        let limiter = Self::of_buckets_with_clock(window, limit, clock)?;
        Ok(Self { interval, ..limiter })
    }

    /// Creates a limiter of `limit` permits in any window of that
    /// [geometry](Self#intervals-and-buckets), which reads `clock`.
    ///
    /// # Errors
    ///
    /// As for [`of_buckets`](SlidingWindowLimiter::of_buckets).
    pub fn of_buckets_with_clock(
        config: WindowConfig,
        limit: u64,
        clock: C,
    ) -> Result<Self, LimitError> {
        PermitWindow::check(&config, limit)?;
        let (limit, window) = (AtomicU64::new(limit), PermitWindow::new(config));
        Ok(Self { limit, interval: config.interval(), window, direct: None, clock })
    }

    /// Counts also the requests that enter the node without this limiter: see [the passes of a
    /// node](Self#the-passes-of-a-node).
    ///
    /// It is for a limiter [of buckets](SlidingWindowLimiter::of_buckets), whose bucket length is a
    /// multiple of the node's.
    ///
    /// Do not use it for a part of the requests of a node, such as those of one tier: the requests
    /// of the other tiers would count as well. As the limiter of a
    /// [key](crate::flow::keyed::OfKey), it counts none of them: a key has no node of its own.
    ///
    /// # Panics
    ///
    /// Panics if the limiter was made for [any interval](Self#intervals-and-buckets): its buckets
    /// are shorter than those of a node, so that passes would be missed.
    #[must_use]
    pub fn with_node_passes(self) -> Self {
        assert!(
            self.interval == self.config().interval(),
            "a limiter of any interval does not count the passes of a node: make it by `of_buckets`"
        );
        let direct = Some(DirectPasses::new(self.config()));
        Self { direct, ..self }
    }

    /// Sets the *lead*: how far ahead of the limiter's clock a given time may be. By default, this
    /// is a second.
    ///
    /// A later time is treated as the time of the clock plus the lead. So one wrong time keeps the
    /// limiter from admitting for at most the lead longer. If the clock goes back, its highest
    /// reading counts. A request for a [node](crate::flow::LimiterExt::enter_at) is bounded by the
    /// clock of the node.
    ///
    /// The clock is read once in each lead. With [`Duration::MAX`], there is no bound and the clock
    /// is not read, as for a simulation whose times are ahead of a clock that stands still.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    /// use leaparray::{ManualClock, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let second = WindowConfig::new(2, Duration::from_secs(1))?;
    /// let limiter = SlidingWindowLimiter::of_buckets_with_clock(second, 5, clock.clone())?
    ///     .with_max_lead(Duration::from_millis(500));
    /// // An hour ahead: the permits are taken at 60.5 s.
    /// assert!(limiter.try_acquire_at(Timestamp::from_secs(3_660), 5).is_admitted());
    /// clock.advance(Duration::from_millis(1_500));
    /// assert!(limiter.try_acquire().is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_max_lead(self, lead: Duration) -> Self {
        Self { window: self.window.with_max_lead(lead), ..self }
    }

    pub(in crate::flow) const fn max_lead(&self) -> Duration {
        self.window.max_lead()
    }

    /// Returns the number of permits in any [interval](Self::interval).
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// [Changes](crate::flow#changes-in-place) the limit. Permits that were taken stay taken, until
    /// their bucket leaves the window.
    ///
    /// # Errors
    ///
    /// As for [`new`](SlidingWindowLimiter::new). Nothing is changed then.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let limiter =
    ///     SlidingWindowLimiter::of_buckets(WindowConfig::new(2, Duration::from_secs(1))?, 1)?;
    /// let now = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(now, 1).is_admitted());
    /// limiter.reconfigure(2)?;
    /// assert!(limiter.try_acquire_at(now, 1).is_admitted());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconfigure(&self, limit: u64) -> Result<(), LimitError> {
        PermitWindow::check(self.config(), limit)?;
        // Relaxed: the limit orders nothing. A decision uses the value that it finds.
        self.limit.store(limit, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the clock.
    pub(in crate::flow) fn into_clock(self) -> C {
        self.clock
    }

    /// Begins an epoch, as a request does that has lost a compare-exchange to another one.
    #[cfg(any(loom, test))]
    pub fn begin_epoch(&self) {
        self.window.begin_epoch_now(self);
    }

    /// Ends the epoch, if there is one.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn end_epoch(&self) {
        self.window.end_epoch_now();
    }

    /// Returns whether an epoch is running.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn is_striped(&self) -> bool {
        self.window.is_striped()
    }

    /// Returns the interval in which the limit holds: for a limiter
    /// [of buckets](SlidingWindowLimiter::of_buckets), the length of its window.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the geometry of the window, which is up to a 50th longer than the
    /// [interval](Self::interval).
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        self.window.config()
    }

    /// Returns the buckets of the window at `now` and the permits that were taken in each, from the
    /// oldest bucket to the newest, including buckets without permits. Their number is the sample
    /// count, and smaller only within the first interval after [`Timestamp::MIN`]. This call
    /// allocates.
    ///
    /// If a request has asked in a bucket after `now`, the window is the one that ends with that
    /// bucket. The reading is of one moment, up to the permits of the newest bucket: if other
    /// threads take permits [from stripes](#threads) during the call, these lie between the numbers
    /// before and after it. The reading is repeated if the word changes, so it is lock-free and not
    /// wait-free. The permits add up to the limit less those that
    /// [remain](crate::flow::LimiterExt::quota_at), or to more than the limit if it was lowered.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let limiter =
    ///     SlidingWindowLimiter::of_buckets(WindowConfig::new(3, Duration::from_secs(3))?, 10)?;
    /// let t = Timestamp::from_secs;
    /// assert!(limiter.try_acquire_at(t(60), 4).is_admitted());
    /// assert!(limiter.try_acquire_at(t(62), 1).is_admitted());
    /// let buckets = limiter.permits_by_bucket_at(t(62));
    /// let permits = buckets.iter().map(|bucket| (bucket.start, bucket.permits));
    /// assert!(permits.eq([(t(60), 4), (t(61), 0), (t(62), 1)]));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn permits_by_bucket_at(&self, now: Timestamp) -> Vec<BucketPermits> {
        self.window.permits_by_bucket(now)
    }
}

/// The number of buckets in an interval. With n, about n/(n + 1) of the rate is admitted.
const BUCKETS: u128 = 50;

/// Returns a window that no interval of that length exceeds: as many buckets as are in the
/// interval, and one more, since an interval may begin and end within a bucket.
pub(in crate::flow) fn window_of_any(interval: Duration) -> Result<WindowConfig, ConfigError> {
    let nanos = interval.as_nanos();
    // Of whole nanoseconds, so the last bucket may reach beyond the interval. At least the shortest
    // bucket that a window can have.
    let bucket = nanos.div_ceil(BUCKETS).max(2);
    match (u32::try_from(nanos.div_ceil(bucket) + 1), u64::try_from(bucket)) {
        (Ok(buckets), Ok(bucket)) if nanos > 0 => {
            let window = Duration::from_nanos(bucket).saturating_mul(buckets);
            // A window that is too long is told by the interval that was asked for.
            WindowConfig::new(buckets as usize, window).map_err(|error| match error {
                ConfigError::IntervalTooLong { max, .. } => {
                    let max = max / buckets * (buckets - 1);
                    ConfigError::IntervalTooLong { interval, max }
                }
                error => error,
            })
        }
        // Too long or too short as it is.
        _ => WindowConfig::new(1, interval),
    }
}

impl<C> SlidingWindowLimiter<C> {
    /// Returns the quota at `now`, as [`quota`](Account::quota) does, for what a response tells
    /// beside a decision. While threads compete for the limit, and until the bucket ends, it has
    /// the permits of other threads by an earlier reading of the same bucket. A thread reads them
    /// anew after 32 permits of its own, so a thread that takes few may be told an old number for
    /// the rest of the bucket: ask [`quota`](Account::quota) there. Otherwise, it is exact.
    ///
    /// An exact reading takes the cache lines of the threads that compete, so it takes longer than
    /// their decisions.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    /// use leaparray::Timestamp;
    /// use std::time::Duration;
    ///
    /// let limiter = SlidingWindowLimiter::new(Duration::from_secs(1), 100)?;
    /// let now = Timestamp::from_secs(60);
    /// assert!(limiter.try_acquire_at(now, 30).is_admitted());
    /// assert_eq!(limiter.recent_quota(now).remaining, 70);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn recent_quota(&self, now: Timestamp) -> Quota {
        self.quota_of(self.window.recent_permits_and_end(now), now)
    }

    /// Returns the quota by the permits of the window at `now`, and the start of the first window
    /// without any of them.
    fn quota_of(&self, (permits, reset): (u64, Option<Timestamp>), now: Timestamp) -> Quota {
        let (limit, config) = (self.limit.load(Ordering::Relaxed), self.window.config());
        let last =
            |it: &DirectPasses| it.last(config.bucket_number(now), config.sample_count() as u64);
        let (direct, reset) = match self.direct.as_ref().and_then(last) {
            // In which of its buckets they were recorded is not known: perhaps in the last one.
            Some((number, direct @ 1..)) => {
                let leave = self.window.leaves_at(number);
                (direct, leave.and_then(|leave| reset.map(|reset| reset.max(leave))))
            }
            _ => (0, reset),
        };
        let remaining = limit.saturating_sub(permits).saturating_sub(direct);
        Quota::new(limit, remaining, reset).with_window(self.interval)
    }
}

impl<C: Clock> Limiter for SlidingWindowLimiter<C> {
    type Permit = ();

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "with both cases in it, it is not inlined otherwise")]
    fn decide(&self, ask: &Ask<'_>) -> Decision {
        match ask.node() {
            Some(node) => self.decide_over(node, ask),
            None => self.window.take(ask.now(), ask.permits(), self, &self.clock),
        }
    }

    /// Returns the decision on a request that does not enter a node. Reads each bucket of the
    /// window, and allocates nothing.
    fn peek(&self, ask: &Ask<'_>) -> Option<Decision> {
        Some(self.window.peek(ask.now(), ask.permits(), self.limit(), &self.clock))
    }

    #[inline]
    fn account(&self) -> &dyn Account {
        self
    }
}

impl<C: Clock> SlidingWindowLimiter<C> {
    /// Decides on a request that enters a node.
    #[inline]
    fn decide_over(&self, node: &dyn Passed, ask: &Ask<'_>) -> Decision {
        let (now, permits) = (ask.now(), ask.permits());
        let Some(direct) = &self.direct else {
            return self.window.take(now, permits, self, &NodeClock(node));
        };
        let ration = WithNode { limiter: self, direct, node, now, counted: Cell::new(None) };
        let decision = self.window.take(now, permits, &ration, &NodeClock(node));
        if decision.is_admitted() {
            // Release: pairs with the acquire fence with which a read of the node validates its
            // head. A thread that has read this request's pass from the node then finds its permits
            // taken.
            fence(Ordering::Release);
        }
        decision
    }
}

impl<C: Clock> Account for SlidingWindowLimiter<C> {
    #[inline]
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Gives permits back that were taken in the bucket of `now`, while no request has asked in a
    /// later bucket. After that, they leave the window with their bucket, and the result is
    /// `false`. The result is also `false` for a stale `now`, whose permits were taken in a later
    /// bucket, and for each time from the earliest to the latest one that was further ahead of the
    /// clock than the [lead](SlidingWindowLimiter::with_max_lead): its permits may have been taken
    /// in an earlier bucket.
    ///
    /// Give permits back only of a request that has not entered a node. The pass of an entered
    /// request stays in the window of its node. From the next count of the passes on, it counts as
    /// one that did not go through the limiter, so nothing becomes free over that node.
    ///
    /// ```
    /// use leaparray::flow::{LimiterExt, SlidingWindowLimiter};
    /// use leaparray::{Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let limiter =
    ///     SlidingWindowLimiter::of_buckets(WindowConfig::new(2, Duration::from_secs(2))?, 10)?;
    /// let (t, at_once) = (Timestamp::from_secs, Duration::ZERO);
    /// assert!(limiter.try_acquire_at(t(60), 6).is_admitted());
    /// assert!(limiter.refund_at(t(60), 2, at_once));
    /// assert!(limiter.try_acquire_at(t(61), 6).is_admitted());
    /// assert!(!limiter.refund_at(t(60), 4, at_once), "they leave the window at 62 s");
    /// assert_eq!([t(61), t(62)].map(|now| limiter.quota_at(now).unwrap().remaining), [0, 4]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    fn refund(&self, ask: &Ask<'_>, _wait: Duration) -> bool {
        self.window.give_back(ask.now(), ask.permits())
    }

    /// Returns the limit, the permits that are left in the window, and the time from which the
    /// window has no permits. The [passes of a node](Self::with_node_passes) that were counted last
    /// are not left, until the window in which they may be is over.
    fn quota(&self, now: Timestamp) -> Option<Quota> {
        Some(self.quota_of(self.window.permits_and_end(now), now))
    }

    /// Returns whether the window at `now` has no permits, and no request was decided in a later
    /// bucket. `now` is bounded as for a request.
    fn is_as_new(&self, now: Timestamp) -> bool {
        self.window.is_as_new(self.window.bounded(now, &self.clock))
    }
}

impl<C> Ration for SlidingWindowLimiter<C> {
    #[inline]
    fn limit(&self, _window: &PermitWindow, _number: u64) -> Option<u64> {
        Some(self.limit.load(Ordering::Relaxed))
    }

    #[inline]
    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal {
        let limit = self.limit.load(Ordering::Relaxed);
        if full.permits > limit {
            return Refusal::never();
        }
        let needed = full.taken + full.permits;
        // At least one: the limit may have been raised since.
        let excess = if needed <= limit + 1 { 1 } else { needed - limit };
        window.refuse_until(full.number, excess)
    }
}

/// The ration of a limiter that counts the passes of a node. Requests that enter the node directly
/// count as well.
struct WithNode<'a, C> {
    limiter: &'a SlidingWindowLimiter<C>,
    direct: &'a DirectPasses,
    node: &'a dyn Passed,
    now: Timestamp,
    /// The direct passes that this thread has counted, and the bucket. This request is decided by
    /// them, even if other threads count again.
    counted: Cell<Option<(u64, u64)>>,
}

/// The clock of a node.
struct NodeClock<'a>(&'a dyn Passed);

impl Clock for NodeClock<'_> {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

impl<C> WithNode<'_, C> {
    #[cold]
    fn count(&self, number: u64) {
        let window = &self.limiter.window;
        // A time that is too far ahead does not keep the count until then.
        let now = window.bounded(self.now, &NodeClock(self.node));
        let passes = self.direct.count(window, self.node, number, now);
        self.counted.set(passes.map(|passes| (number, passes)));
    }
}

impl<C: Clock> Ration for WithNode<'_, C> {
    #[inline]
    fn limit(&self, _window: &PermitWindow, number: u64) -> Option<u64> {
        let own = self.counted.get().filter(|&(counted, _)| counted == number);
        let known = own.map(|(_, passes)| passes);
        let Some(direct) = known.or_else(|| self.direct.get(number, self.now)) else {
            self.count(number);
            return None;
        };
        Some(self.limiter.limit().saturating_sub(direct))
    }

    fn refuse(&self, window: &PermitWindow, full: &FullWindow) -> Refusal {
        // The time at which direct requests leave the window is not known. The start of the next
        // bucket is the earliest possible time.
        match full.excess(self.limiter.limit()) {
            0 => Refusal::until(Reason::LimitReached, window.begins(full.number + 1)),
            _ => self.limiter.refuse(window, full),
        }
    }
}
