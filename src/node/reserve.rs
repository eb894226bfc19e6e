//! Permits of the next bucket, reserved before it begins.

use std::time::Duration;

use super::{NodeReading, ResourceNode};
use crate::metric::MetricEvent;
use crate::time::{Clock, Span, Timestamp};
use crate::window::Spread;

/// Permits of the next bucket, for use when that bucket begins. Returned by
/// [`ResourceNode::reserve_next_at`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the permits stay reserved, whether or not they are used"]
pub struct Reservation {
    begins: Timestamp,
    wait: Duration,
    permits: u64,
}

impl Reservation {
    /// Returns the start of the bucket.
    #[must_use]
    pub const fn begins(&self) -> Timestamp {
        self.begins
    }

    /// Returns the time from the reservation to the start of the bucket. It is at most the length
    /// of a bucket.
    #[must_use]
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// Returns the number of permits.
    #[must_use]
    pub const fn permits(&self) -> u64 {
        self.permits
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// Reserves `permits` of the bucket after the bucket of `now`, if the short window that ends
    /// with that bucket then has at most `limit` passes. Otherwise returns `None`. Sentinel calls
    /// this `tryOccupyNext`.
    ///
    /// There is no next bucket, and the result is `None`, at the end of time, and if the long
    /// window with one bucket more would exceed the maximum sample count or interval of a
    /// [`WindowConfig`](crate::WindowConfig).
    ///
    /// The permits count as [`Pass`](MetricEvent::Pass) and as
    /// [`ReservedPass`](MetricEvent::ReservedPass) in that bucket. Until it begins,
    /// [`reserved`](NodeReading::reserved) counts them. A reservation cannot be returned: the
    /// caller should [enter](crate::Entry::enter_reserved_at) with it.
    ///
    /// Threads that race for one bucket never reserve more than remains of the limit. Requests that
    /// pass in the current bucket during the call may be missed, so a caller that admits such
    /// requests has to count [`reserved`](NodeReading::reserved) as well. Two threads that race
    /// across a boundary between buckets, or with a change of the geometry, may miss each other's
    /// permits.
    ///
    /// ```
    /// use leaparray::{
    ///     Clock, Entry, ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_millis(60_400));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// Entry::enter_many_at(&node, clock.now(), 3).success();
    ///
    /// let now = clock.now();
    /// let reservation = node.reserve_next_at(now, 2, 5).expect("three have passed, of five");
    /// assert_eq!(reservation.wait(), Duration::from_millis(100));
    /// assert!(node.reserve_next_at(now, 1, 5).is_none());
    /// assert_eq!((node.now().reserved(), node.now().short().sum(MetricEvent::Pass)), (2, 3));
    ///
    /// clock.advance(reservation.wait());
    /// let entry = Entry::enter_reserved_at(&node, node.clock().now(), reservation);
    /// assert_eq!((node.now().reserved(), node.now().short().sum(MetricEvent::Pass)), (0, 5));
    /// entry.success();
    /// ```
    pub fn reserve_next_at(&self, now: Timestamp, permits: u64, limit: u64) -> Option<Reservation> {
        let generation = self.current();
        let buckets = generation.config.long();
        let begins = buckets.bucket_start(now).as_nanos().checked_add(buckets.bucket_nanos())?;
        let begins = Timestamp::from_nanos(begins);
        // The short window that ends with the next bucket starts here.
        let interval = generation.config.short().interval();
        let start = begins.saturating_add(buckets.bucket_len()).saturating_sub(interval);
        let passed = if start < begins {
            self.sum_in(&Span::until_now(start, now), MetricEvent::Pass)
        } else {
            0
        };
        // `reserve` counts the permits of the next bucket itself. Other permits are reserved under
        // another geometry, or in a later bucket by a thread with a later `now`.
        let others = self.generations().filter(|other| !std::ptr::eq(*other, generation));
        let others = others.fold(0_u64, |sum, other| sum.saturating_add(other.reserved_next(now)));
        let later = generation.reserved_next(begins);
        let remaining = limit.checked_sub(passed)?.checked_sub(others)?.checked_sub(later)?;
        let wait = begins.saturating_since(now);
        generation.reserve(begins, permits, remaining).then_some(Reservation {
            begins,
            wait,
            permits,
        })
    }
}

impl<C: Clock + Clone> NodeReading<'_, C> {
    /// Returns the number of [reserved](ResourceNode::reserve_next_at) permits of the bucket after
    /// the bucket of `now`.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.node
            .generations()
            .fold(0, |sum, generation| sum.saturating_add(generation.reserved_next(self.now)))
    }
}
