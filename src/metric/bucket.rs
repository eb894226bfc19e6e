//! The counters of one bucket.

use std::time::Duration;

use super::cell::{MetricCell, SharedWriter};
use super::counter::CEILING;
use super::event::MetricEvent;
use super::totals::MetricTotals;
use crate::array::Bucket;
use crate::time::saturating_nanos;

/// One counter for each [`MetricEvent`], the extremes of the response time, and the highest
/// concurrency: Sentinel's `MetricBucket`.
///
/// All threads share its counters, and add by atomic read-modify-writes. A
/// [`SlidingWindow`](crate::SlidingWindow) has a cell for each thread instead, which is cheaper.
///
/// A counter does not wrap around. It saturates at [`MetricBucket::CEILING`]: a sum of that value
/// means at least that value.
///
/// ```
/// use leaparray::MetricEvent;
/// use leaparray::array::Bucket;
/// use leaparray::metric::MetricBucket;
/// use std::time::Duration;
///
/// let bucket = MetricBucket::default();
/// bucket.add(MetricEvent::Pass, 2);
/// bucket.record_rt(Duration::from_millis(3));
/// bucket.record_rt(Duration::from_millis(5));
/// assert_eq!(bucket.sum(MetricEvent::Pass), 2);
///
/// let totals = bucket.total();
/// assert_eq!(totals.avg_rt(), Some(Duration::from_millis(4)));
/// assert_eq!(totals.min_rt(), Some(Duration::from_millis(3)));
/// ```
#[derive(Debug, Default)]
pub struct MetricBucket {
    cell: MetricCell,
}

impl MetricBucket {
    /// The number at which a counter saturates: 2⁶², or 146 years in nanoseconds.
    pub const CEILING: u64 = CEILING;

    /// Adds `count` of `event`. A count cannot be negative, so a total only grows.
    ///
    /// With [`MetricEvent::Rt`], `count` is one response time in nanoseconds.
    pub fn add(&self, event: MetricEvent, count: u64) {
        self.writer().add(event, count);
    }

    /// Records one response time, at most [`Self::CEILING`] nanoseconds.
    pub fn record_rt(&self, rt: Duration) {
        self.writer().record_rt(saturating_nanos(rt));
    }

    /// Records that `concurrency` requests were in flight at once.
    pub fn record_concurrency(&self, concurrency: u64) {
        self.writer().record_concurrency(concurrency);
    }

    const fn writer(&self) -> SharedWriter<'_> {
        // No fence is needed for a thread that was lent the bucket by the thread that has its wrap
        // pinned: each counter is reset after the release fence in `BucketWrap::recycle`, and every
        // add is a read-modify-write, which continues that release sequence. So a read that sees
        // the add also sees that the previous use has ended.
        SharedWriter(&self.cell)
    }

    /// Returns the sum of the counts of `event`; for [`MetricEvent::Rt`] in nanoseconds.
    #[must_use]
    #[inline]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.cell.sum(event)
    }

    /// Returns the shortest recorded response time; `None` if there is none.
    #[must_use]
    pub fn min_rt(&self) -> Option<Duration> {
        self.cell.min_rt()
    }

    /// Returns the longest recorded response time; `None` if there is none.
    #[must_use]
    pub fn max_rt(&self) -> Option<Duration> {
        self.cell.max_rt()
    }

    /// Returns the highest recorded concurrency; `None` if there is none.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<u64> {
        self.cell.max_concurrency()
    }
}

impl Bucket for MetricBucket {
    type Total = MetricTotals;

    fn reset(&self) {
        self.cell.reset();
    }

    fn total(&self) -> MetricTotals {
        self.cell.total()
    }
}
