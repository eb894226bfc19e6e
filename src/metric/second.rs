//! The metrics of one second.

use std::ops::AddAssign;
use std::time::Duration;

use super::{EventCounts, MetricEvent, MetricTotals};
use crate::histogram::LatencyHistogram;
use crate::time::{Timestamp, saturating_nanos};

/// The metrics of one resource in one second: plain data, an item of Sentinel's metric log.
///
/// Create it by [`SecondMetrics::new`] and set the fields: later versions may have more fields.
/// Metrics of several processes, resources or seconds can be added up by `+=` without loss: they
/// have the exact sum of the response times and their number, and not only the mean.
///
/// ```
/// use leaparray::MetricEvent::{Block, Pass, Rt, Success};
/// use leaparray::{EventCounts, Timestamp};
/// use leaparray::metric::SecondMetrics;
/// use std::time::Duration;
///
/// let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
/// metrics.counts = EventCounts::from([(Pass, 4), (Success, 3), (Rt, 3)]);
/// metrics.counts.set_rt_sum(Duration::from_millis(75));
/// assert_eq!((metrics.counts[Pass], metrics.counts[Block]), (4, 0));
/// assert_eq!(metrics.avg_rt(), Some(Duration::from_millis(25)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecondMetrics {
    /// The start of the second.
    pub second: Timestamp,
    /// The count of each event, and the sum of the response times, exact to the nanosecond.
    pub counts: EventCounts,
    /// The shortest response time; `None` if it is not known, or no response time was recorded.
    pub min_rt: Option<Duration>,
    /// The longest response time; `None` if it is not known, or no response time was recorded.
    pub max_rt: Option<Duration>,
    /// The highest number of requests in flight.
    pub concurrency: u64,
    /// The distribution of the response times; `None` if it is not known. A line of Sentinel's
    /// metric log leaves it out.
    pub histogram: Option<LatencyHistogram>,
}

impl SecondMetrics {
    /// Creates the metrics of the second that begins at `second`, without any event.
    ///
    /// ```
    /// use leaparray::Timestamp;
    /// use leaparray::metric::SecondMetrics;
    ///
    /// let metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// assert_eq!(metrics.second, Timestamp::from_secs(60));
    /// assert!(metrics.counts.is_zero());
    /// ```
    #[must_use]
    pub fn new(second: Timestamp) -> Self {
        Self { second, ..Self::default() }
    }

    /// Returns the mean response time, rounded down to the nanosecond; `None` if no response time
    /// was recorded.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.counts.avg_rt()
    }

    /// Returns the counts as totals.
    pub(crate) fn totals(&self) -> MetricTotals {
        MetricTotals {
            counts: self.counts,
            min_rt: self.min_rt.map(saturating_nanos),
            max_rt: self.max_rt.map(saturating_nanos),
            // A request in flight counts itself, so a recorded concurrency is above 0.
            max_concurrency: (self.concurrency > 0).then_some(self.concurrency),
        }
    }
}

impl AddAssign<&Self> for SecondMetrics {
    /// Adds the metrics of another process, resource or second.
    ///
    /// Counts, and the sums and numbers of response times, are added; the results saturate. The
    /// second is the earlier of the two, at which the summed time begins.
    /// [`concurrency`](Self::concurrency) is the higher of the two, a lower bound: it is not known
    /// whether both had their maxima at the same time. The maximum of both together is at most the
    /// sum of their maxima. A shortest or longest response time that is `None` is left out.
    ///
    /// Histograms are [merged](LatencyHistogram::merge). If one of the two is `None`, the other
    /// stays if all response times are in it, because the metrics without a histogram have none.
    /// Otherwise, the distribution of all of them is not known, and the histogram is `None`.
    ///
    /// ```
    /// use leaparray::MetricEvent::{Rt, Success};
    /// use leaparray::{EventCounts, Timestamp};
    /// use leaparray::metric::SecondMetrics;
    /// use std::time::Duration;
    ///
    /// let of = |requests, millis| {
    ///     let mut metrics = SecondMetrics::new(Timestamp::from_secs(60));
    ///     metrics.counts = EventCounts::from([(Success, requests), (Rt, requests)]);
    ///     metrics.counts.set_rt_sum(Duration::from_millis(millis));
    ///     metrics
    /// };
    /// let mut one = of(1, 5);
    /// one += &of(3, 45);
    /// assert_eq!(one.counts[Success], 4);
    /// // The mean of the two means would be 10 ms.
    /// assert_eq!(one.avg_rt(), Some(Duration::from_micros(12_500)));
    /// ```
    fn add_assign(&mut self, other: &Self) {
        // Each field is named, so that a field which is added later is not forgotten here.
        let Self { second, counts, min_rt, max_rt, concurrency, histogram } = other;
        match (&mut self.histogram, histogram) {
            (Some(sum), Some(histogram)) => sum.merge(histogram),
            (Some(_), None) if counts[MetricEvent::Rt] == 0 => {}
            (None, Some(_)) if self.counts[MetricEvent::Rt] == 0 => {
                self.histogram.clone_from(histogram);
            }
            _ => self.histogram = None,
        }
        self.second = self.second.min(*second);
        self.counts += counts;
        self.min_rt = match (self.min_rt, *min_rt) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.max_rt = self.max_rt.max(*max_rt);
        self.concurrency = self.concurrency.max(*concurrency);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Metrics with a different value in each field.
    fn metrics(second: u64, n: u64) -> SecondMetrics {
        let events = MetricEvent::EVENTS.map(|event| (event, n * 10_u64.pow(event as u32)));
        let mut counts = EventCounts::from(events);
        counts.set_rt_sum(Duration::new(1 << 40, 999_999_999));
        SecondMetrics {
            second: Timestamp::from_secs(second),
            counts,
            min_rt: Some(Duration::from_nanos(n)),
            max_rt: Some(Duration::from_secs(n)),
            concurrency: 7 * n,
            histogram: Some(histogram(&[n, 3 * n])),
        }
    }

    fn histogram(nanos: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for &nanos in nanos {
            histogram.record(Duration::from_nanos(nanos));
        }
        histogram
    }

    #[test]
    fn metrics_add_up_to_the_nanosecond_and_keep_the_extremes_of_both() {
        let (low, high) = (metrics(61, 1), metrics(60, 2));
        let mut counts = metrics(60, 3).counts;
        counts.set_rt_sum(Duration::new((2 << 40) + 1, 999_999_998));
        let expected = SecondMetrics {
            counts,
            min_rt: low.min_rt,
            max_rt: high.max_rt,
            concurrency: 14,
            histogram: Some(histogram(&[1, 3, 2, 6])),
            ..metrics(60, 3)
        };
        for (mut sum, other) in [(low.clone(), &high), (high.clone(), &low)] {
            sum += other;
            assert_eq!(sum, expected);
        }
        let mut same = low.clone();
        same += &SecondMetrics::new(low.second);
        assert_eq!(same, low, "nothing added");
        let mut empty = SecondMetrics::new(low.second);
        empty += &low;
        assert_eq!(empty, low, "added to nothing");
    }

    #[test]
    fn distribution_is_known_if_that_of_each_response_time_is() {
        let known = metrics(60, 1);
        let without = |rt_count| {
            let mut metrics = SecondMetrics { histogram: None, ..metrics(60, 1) };
            metrics.counts[MetricEvent::Rt] = rt_count;
            metrics
        };
        for (rt_count, expected) in [(0, known.histogram.clone()), (1, None)] {
            for (mut sum, other) in
                [(known.clone(), without(rt_count)), (without(rt_count), known.clone())]
            {
                sum += &other;
                assert_eq!(
                    sum.histogram, expected,
                    "{rt_count} response times without a histogram"
                );
            }
        }
        let mut sum = without(3);
        sum += &without(0);
        assert_eq!(sum.histogram, None);
    }
}
