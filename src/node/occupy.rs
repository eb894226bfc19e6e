//! Permits of the bucket that is next.

use std::time::Duration;

use super::{Entry, ResourceNode};
use crate::clock::Clock;
use crate::event::MetricEvent;
use crate::span::Span;
use crate::timestamp::Timestamp;

/// Permits that were taken of the next bucket: to be used when that begins.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the permits are taken, whether or not they are used"]
pub struct Occupied {
    from: Timestamp,
    wait: Duration,
    permits: u64,
}

impl Occupied {
    /// When the bucket begins.
    #[must_use]
    pub const fn from(&self) -> Timestamp {
        self.from
    }

    /// How long that is from the `now` at which they were taken: at most a bucket.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// How many they are.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// Takes `permits` of the next bucket now.
    pub fn try_occupy_next(&self, permits: u64, limit: u64) -> Option<Occupied> {
        self.try_occupy_next_at(self.clock().now(), permits, limit)
    }

    /// Takes `permits` of the bucket after that of `now`, if the short window that ends with it has
    /// then at most `limit` passes; `None` if not. After Sentinel's `tryOccupyNext`.
    ///
    /// What is taken counts as [`Pass`](MetricEvent::Pass) and as
    /// [`OccupiedPass`](MetricEvent::OccupiedPass) in that bucket, and until it begins is
    /// [waiting](Self::waiting). It is not given back: who takes permits is expected to
    /// [come](Self::enter_occupied).
    ///
    /// Never too much is taken, however many race for it. What passes in the current bucket meanwhile,
    /// this may not have seen: who decides on that counts what is [waiting](Self::waiting) as well.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_millis(60_400));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// node.enter_many(3).success();
    ///
    /// let occupied = node.try_occupy_next(2, 5).expect("three have passed, of five");
    /// assert_eq!(occupied.wait(), Duration::from_millis(100));
    /// assert!(node.try_occupy_next(1, 5).is_none());
    /// assert_eq!((node.waiting(), node.qps(MetricEvent::Pass)), (2, 3.0 / 0.5));
    ///
    /// clock.advance(occupied.wait());
    /// let entry = node.enter_occupied(occupied);
    /// assert_eq!((node.waiting(), node.qps(MetricEvent::Pass)), (0, 5.0));
    /// entry.success();
    /// ```
    pub fn try_occupy_next_at(&self, now: Timestamp, permits: u64, limit: u64) -> Option<Occupied> {
        let generation = self.current();
        let buckets = generation.config.minute();
        let from = buckets.bucket_start(now).as_nanos().checked_add(buckets.bucket_nanos())?;
        let from = Timestamp::from_nanos(from);
        // The window that ends with the next bucket, without that.
        let interval = generation.config.second().interval();
        let start = from.saturating_add(buckets.bucket_len()).saturating_sub(interval);
        let free = if start < from {
            limit.checked_sub(self.sum_between(&Span::until_now(start, now), MetricEvent::Pass))?
        } else {
            limit
        };
        let wait = from.saturating_since(now);
        generation.borrow(from, permits, free).then_some(Occupied { from, wait, permits })
    }

    /// How many permits of the next bucket are taken now.
    pub fn waiting(&self) -> u64 {
        self.waiting_at(self.clock().now())
    }

    /// How many permits of the bucket after that of `now` are taken.
    pub fn waiting_at(&self, now: Timestamp) -> u64 {
        self.generations().fold(0, |sum, generation| sum.saturating_add(generation.waiting(now)))
    }

    /// Lets a request in whose permits were taken before: counts one more under way, and no pass.
    pub fn enter_occupied(&self, occupied: Occupied) -> Entry<&Self, C> {
        self.enter_occupied_at(self.clock().now(), occupied)
    }

    /// The same at `now`.
    #[expect(clippy::needless_pass_by_value, reason = "the permits are used once")]
    pub fn enter_occupied_at(&self, now: Timestamp, occupied: Occupied) -> Entry<&Self, C> {
        self.count_in(now, 0);
        Entry::of(self, now, occupied.permits)
    }
}
