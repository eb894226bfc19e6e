//! Permits of the bucket that is next.

use std::time::Duration;

use super::ResourceNode;
use crate::metric::MetricEvent;
use crate::time::{Clock, Span, Timestamp};

/// Permits that were taken of the next bucket: to be used when that begins.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the permits are taken, whether or not they are used"]
pub struct Reservation {
    begins: Timestamp,
    wait: Duration,
    permits: u64,
}

impl Reservation {
    /// When the bucket begins.
    #[must_use]
    pub const fn begins(&self) -> Timestamp {
        self.begins
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
    pub fn reserve_next(&self, permits: u64, limit: u64) -> Option<Reservation> {
        self.reserve_next_at(self.clock().now(), permits, limit)
    }

    /// Takes `permits` of the bucket after that of `now`, if the short window that ends with it has
    /// then at most `limit` passes; `None` if not. After Sentinel's `tryOccupyNext`.
    ///
    /// What is taken counts as [`Pass`](MetricEvent::Pass) and as
    /// [`ReservedPass`](MetricEvent::ReservedPass) in that bucket, and until it begins is
    /// [waiting](Self::reserved). It is not given back: who takes permits is expected to
    /// [come](Self::enter_reserved).
    ///
    /// Of one bucket never more is taken than was free, however many race for it. What passes in the
    /// current bucket meanwhile, this may not have seen: who decides on that counts what is
    /// [waiting](Self::reserved) as well. And of those who race across a boundary between buckets, or with
    /// a change of the geometry, neither need see what the other takes.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_millis(60_400));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// node.enter_many(3).success();
    ///
    /// let reservation = node.reserve_next(2, 5).expect("three have passed, of five");
    /// assert_eq!(reservation.wait(), Duration::from_millis(100));
    /// assert!(node.reserve_next(1, 5).is_none());
    /// assert_eq!((node.reserved(), node.qps(MetricEvent::Pass)), (2, 3.0 / 0.5));
    ///
    /// clock.advance(reservation.wait());
    /// let entry = node.enter_reserved(reservation);
    /// assert_eq!((node.reserved(), node.qps(MetricEvent::Pass)), (0, 5.0));
    /// entry.success();
    /// ```
    pub fn reserve_next_at(&self, now: Timestamp, permits: u64, limit: u64) -> Option<Reservation> {
        let generation = self.current();
        let buckets = generation.config.minute();
        let begins = buckets.bucket_start(now).as_nanos().checked_add(buckets.bucket_nanos())?;
        let begins = Timestamp::from_nanos(begins);
        // The window that ends with the next bucket, without that.
        let interval = generation.config.second().interval();
        let start = begins.saturating_add(buckets.bucket_len()).saturating_sub(interval);
        let passed = if start < begins {
            self.sum_between(&Span::until_now(start, now), MetricEvent::Pass)
        } else {
            0
        };
        // What is taken of the next bucket itself, the taking of it sees. What else was taken of times
        // to come: under another geometry, or by who was there already when `now` was late.
        let others = self.generations().filter(|other| !std::ptr::eq(*other, generation));
        let others = others.fold(0_u64, |sum, other| sum.saturating_add(other.reserved_next(now)));
        let later = generation.reserved_next(begins);
        let free = limit.checked_sub(passed)?.checked_sub(others)?.checked_sub(later)?;
        let wait = begins.saturating_since(now);
        generation.reserve(begins, permits, free).then_some(Reservation { begins, wait, permits })
    }

    /// How many permits of the next bucket are taken now.
    pub fn reserved(&self) -> u64 {
        self.reserved_at(self.clock().now())
    }

    /// How many permits of the bucket after that of `now` are taken.
    pub fn reserved_at(&self, now: Timestamp) -> u64 {
        self.generations()
            .fold(0, |sum, generation| sum.saturating_add(generation.reserved_next(now)))
    }
}
