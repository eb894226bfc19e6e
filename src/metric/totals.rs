//! The totals of buckets.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::event::MetricEvent;
use super::event_counts::EventCounts;

/// The totals of one or many [`MetricBucket`](crate::metric::MetricBucket)s: plain data.
///
/// Sums saturate at `u64::MAX`; response times are summed without any bound.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MetricTotals {
    pub(crate) counts: EventCounts,
    /// In nanoseconds, as is `max_rt`.
    pub(crate) min_rt: Option<u64>,
    pub(crate) max_rt: Option<u64>,
    pub(crate) max_concurrency: Option<u64>,
}

impl MetricTotals {
    /// Returns the counts of all events, and the sum of the response times: what can be added and
    /// subtracted.
    ///
    /// ```
    /// use leaparray::MetricEvent;
    /// use leaparray::array::Bucket;
    /// use leaparray::metric::MetricBucket;
    ///
    /// let bucket = MetricBucket::default();
    /// bucket.add(MetricEvent::Pass, 2);
    /// let before = *bucket.total().counts();
    /// bucket.add(MetricEvent::Pass, 3);
    /// let since = bucket.total().counts().saturating_sub(&before);
    /// assert_eq!(since[MetricEvent::Pass], 3);
    /// ```
    #[must_use]
    pub const fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// Returns the sum of the counts of `event`; for [`MetricEvent::Rt`] in nanoseconds, cut at
    /// `u64::MAX`.
    #[must_use]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.counts.rt_nanos.try_into().unwrap_or(u64::MAX),
            event => self.counts[event],
        }
    }

    /// Returns the number of recorded response times.
    #[must_use]
    pub fn rt_count(&self) -> u64 {
        self.counts[MetricEvent::Rt]
    }

    /// Returns the sum of the response times, at most [`Duration::MAX`].
    ///
    /// ```
    /// use leaparray::array::Bucket;
    /// use leaparray::metric::MetricBucket;
    /// use std::time::Duration;
    ///
    /// let bucket = MetricBucket::default();
    /// for millis in [2, 5] {
    ///     bucket.record_rt(Duration::from_millis(millis));
    /// }
    /// assert_eq!(bucket.total().rt_sum(), Duration::from_millis(7));
    /// ```
    #[must_use]
    pub fn rt_sum(&self) -> Duration {
        self.counts.rt_sum()
    }

    /// Returns the share of exceptions in the requests that succeeded or failed, from 0 to 1;
    /// `None` if there is none. Cancelled requests are left out.
    ///
    /// ```
    /// use leaparray::MetricEvent;
    /// use leaparray::array::Bucket;
    /// use leaparray::metric::MetricBucket;
    ///
    /// let bucket = MetricBucket::default();
    /// assert_eq!(bucket.total().failure_ratio(), None);
    /// bucket.add(MetricEvent::Success, 3);
    /// bucket.add(MetricEvent::Exception, 1);
    /// assert_eq!(bucket.total().failure_ratio(), Some(0.25));
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a relative error of some 10⁻¹⁶")]
    pub fn failure_ratio(&self) -> Option<f64> {
        let [success, exception] =
            [MetricEvent::Success, MetricEvent::Exception].map(|event| self.sum(event) as f64);
        let ended = success + exception;
        (ended > 0.0).then(|| exception / ended)
    }

    /// Returns the mean of the response times, rounded down to the nanosecond; `None` if there is
    /// none.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.counts.avg_rt()
    }

    /// Returns the shortest response time; `None` if there is none.
    #[must_use]
    pub fn min_rt(&self) -> Option<Duration> {
        self.min_rt.map(Duration::from_nanos)
    }

    /// Returns the longest response time; `None` if there is none.
    #[must_use]
    pub fn max_rt(&self) -> Option<Duration> {
        self.max_rt.map(Duration::from_nanos)
    }

    /// Returns the highest concurrency; `None` if none was recorded.
    #[must_use]
    pub const fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency
    }
}

impl fmt::Debug for MetricTotals {
    /// Names each event. The response times are durations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut totals = f.debug_struct("MetricTotals");
        self.counts.debug_fields(&mut totals);
        totals.field("min_rt", &self.min_rt()).field("max_rt", &self.max_rt());
        totals.field("max_concurrency", &self.max_concurrency).finish()
    }
}

impl AddAssign<&Self> for MetricTotals {
    fn add_assign(&mut self, other: &Self) {
        self.counts += &other.counts;
        self.min_rt = match (self.min_rt, other.min_rt) {
            (Some(min), Some(other)) => Some(min.min(other)),
            (min, other) => min.or(other),
        };
        self.max_rt = self.max_rt.max(other.max_rt);
        self.max_concurrency = self.max_concurrency.max(other.max_concurrency);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::array::Bucket;
    use crate::metric::MetricBucket;

    fn bucket(event: MetricEvent, rts: [u64; 2], concurrency: u64) -> MetricTotals {
        let bucket = MetricBucket::default();
        bucket.add(event, 5);
        for rt in rts {
            bucket.record_rt(Duration::from_nanos(rt));
        }
        bucket.record_concurrency(concurrency);
        bucket.total()
    }

    #[test]
    fn debug_output_names_the_events() {
        let totals = bucket(MetricEvent::Block, [1_000_000, 2_000_000], 3);
        assert_eq!(
            format!("{totals:?}"),
            "MetricTotals { pass: 0, block: 5, exception: 0, success: 0, rt: 3ms, reserved_pass: 0, cancelled: 0, \
             rt_count: 2, min_rt: Some(1ms), max_rt: Some(2ms), max_concurrency: Some(3) }"
        );
    }

    #[test]
    fn failure_ratio_of_saturated_sums_is_a_half() {
        let mut totals = MetricTotals::default();
        totals.counts[MetricEvent::Success] = u64::MAX;
        assert_eq!(totals.failure_ratio(), Some(0.0));
        totals.counts[MetricEvent::Exception] = u64::MAX;
        assert_eq!(totals.failure_ratio(), Some(0.5));
    }

    #[test]
    fn totals_add_up_and_keep_the_extremes_of_both() {
        let low = bucket(MetricEvent::Pass, [1, 5], 9);
        let high = bucket(MetricEvent::Block, [3, 7], 2);
        for (mut sum, other) in [(low.clone(), &high), (high.clone(), &low)] {
            sum += other;
            let events = [MetricEvent::Pass, MetricEvent::Block, MetricEvent::Success];
            assert_eq!(events.map(|event| sum.sum(event)), [5, 5, 0]);
            assert_eq!(sum.sum(MetricEvent::Rt), 16);
            assert_eq!((sum.rt_count(), sum.avg_rt()), (4, Some(Duration::from_nanos(4))));
            assert_eq!(sum.min_rt(), Some(Duration::from_nanos(1)));
            assert_eq!(sum.max_rt(), Some(Duration::from_nanos(7)));
            assert_eq!(sum.max_concurrency(), Some(9));
        }
        let mut same = low.clone();
        same += &MetricTotals::default();
        assert_eq!(same, low, "nothing added");
        let mut empty = MetricTotals::default();
        empty += &low;
        assert_eq!(empty, low, "added to nothing");
    }
}
