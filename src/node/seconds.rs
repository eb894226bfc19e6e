//! The last minute by the second, each delivered once.

use super::ResourceNode;
use super::config::NANOS_PER_SEC;
use crate::metric::{MetricEvent, MetricTotals, SecondMetrics};
use crate::sync::{AtomicU64, Ordering};
use crate::time::{Clock, Span, Timestamp};

/// How far the seconds of a node have been delivered: what a reader keeps from poll to poll.
///
/// Threads that poll with the same cursor share the seconds; each is delivered to one of them. It goes with
/// one node: what one node has delivered, another has not.
#[derive(Debug)]
pub struct SecondsCursor {
    /// The number of the first second that has not been delivered.
    next: AtomicU64,
    missed: AtomicU64,
}

impl SecondsCursor {
    /// Of a reader that wants whatever the node still has.
    #[must_use]
    pub fn new() -> Self {
        Self { next: AtomicU64::new(0), missed: AtomicU64::new(0) }
    }

    /// How many seconds left the long window between two polls, and were not delivered.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The seconds from `oldest` up to, not including, `current` that are the caller's to deliver.
    fn advance(&self, oldest: u64, current: u64) -> std::ops::Range<u64> {
        // One read-modify-write: of those who poll at once, each gets what is new to it. Relaxed: the
        // counts are ordered by the wraps that they are in.
        let next = self.next.fetch_max(current, Ordering::Relaxed);
        // In a window of less than a second none is whole.
        let oldest = oldest.min(current);
        if next > 0 && next < oldest {
            self.missed.fetch_add(oldest - next, Ordering::Relaxed);
        }
        next.max(oldest)..current
    }
}

impl Default for SecondsCursor {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// The seconds that are over and that were not delivered by that cursor before.
    pub fn poll_seconds(&self, cursor: &SecondsCursor) -> impl Iterator<Item = SecondMetrics> {
        self.poll_seconds_at(self.clock().now(), cursor)
    }

    /// The seconds that are over at `now`, lie in the long window, and were not delivered by that cursor
    /// before; those in which nothing happened are left out. After Sentinel's `metrics`.
    ///
    /// The long window should be of two seconds at least, and polled before they have left it: one second
    /// is whole in a shorter one for a moment only.
    ///
    /// A second is delivered once, as it is when it is taken from the iterator: what a thread that was
    /// held up adds to it after that is in the totals, but in no item. Those that are not taken are not
    /// delivered again.
    ///
    /// ```
    /// use leaparray::{ManualClock, NodeConfig, ResourceNode, SecondsCursor, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
    /// let cursor = SecondsCursor::new();
    /// node.enter().success();
    /// assert_eq!(node.poll_seconds(&cursor).count(), 0, "the second is not over");
    ///
    /// clock.advance(Duration::from_secs(1));
    /// node.block();
    /// let seconds: Vec<_> = node.poll_seconds(&cursor).collect();
    /// assert_eq!(seconds.len(), 1);
    /// assert_eq!(seconds[0].second, Timestamp::from_secs(60));
    /// assert_eq!((seconds[0].pass, seconds[0].success, seconds[0].block), (1, 1, 0));
    /// assert_eq!(node.poll_seconds(&cursor).count(), 0, "it was delivered");
    /// ```
    pub fn poll_seconds_at(
        &self,
        now: Timestamp,
        cursor: &SecondsCursor,
    ) -> impl Iterator<Item = SecondMetrics> {
        let oldest = self.windows().1.span(now).start().as_nanos().div_ceil(NANOS_PER_SEC);
        let seconds = cursor.advance(oldest, now.as_nanos() / NANOS_PER_SEC);
        seconds.filter_map(|second| {
            let start = Timestamp::from_secs(second);
            let totals = self.totals_between(&Span::of(start, NANOS_PER_SEC));
            (totals != MetricTotals::default()).then(|| item(start, &totals))
        })
    }
}

fn item(second: Timestamp, totals: &MetricTotals) -> SecondMetrics {
    SecondMetrics {
        second,
        pass: totals.sum(MetricEvent::Pass),
        block: totals.sum(MetricEvent::Block),
        success: totals.sum(MetricEvent::Success),
        exception: totals.sum(MetricEvent::Exception),
        reserved_pass: totals.sum(MetricEvent::ReservedPass),
        avg_rt: totals.avg_rt(),
        concurrency: totals.max_concurrency().unwrap_or(0),
    }
}
