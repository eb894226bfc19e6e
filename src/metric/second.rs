//! The metrics of one second.

use std::ops::AddAssign;
use std::time::Duration;

use super::{MetricEvent, MetricTotals};
use crate::histogram::LatencyHistogram;
use crate::time::{Timestamp, duration_of, saturating_nanos};

/// The metrics of one resource in one second: plain data, an item of Sentinel's metric log.
///
/// Create it by [`SecondMetrics::new`] and set the fields: later versions may have more fields.
/// Metrics of several processes, resources or seconds can be added up by `+=` without loss: they
/// have the exact sum of the response times and their number, and not only the mean.
///
/// ```
/// use leaparray::{SecondMetrics, Timestamp};
/// use std::time::Duration;
///
/// let mut metrics = SecondMetrics::new(Timestamp::from_secs(1_564_382_218));
/// metrics.pass = 4;
/// metrics.success = 3;
/// (metrics.rt_sum, metrics.rt_count) = (Duration::from_millis(75), 3);
/// assert_eq!((metrics.pass, metrics.block), (4, 0));
/// assert_eq!(metrics.avg_rt(), Some(Duration::from_millis(25)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SecondMetrics {
    /// The start of the second.
    pub second: Timestamp,
    /// The number of requests that were let through.
    pub pass: u64,
    /// The number of requests that were refused.
    pub block: u64,
    /// The number of requests that were let through and succeeded.
    pub success: u64,
    /// The number of requests that were let through and failed.
    pub exception: u64,
    /// The number of requests that were let through on a reserved permit.
    pub reserved_pass: u64,
    /// The number of requests that were let through and cancelled.
    pub cancelled: u64,
    /// The sum of the response times, exact to the nanosecond, at most [`Duration::MAX`].
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time::sum"))]
    pub rt_sum: Duration,
    /// The number of recorded response times.
    pub rt_count: u64,
    /// The shortest response time; `None` if it is not known, or no response time was recorded.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::time::serde_time::option"))]
    pub min_rt: Option<Duration>,
    /// The longest response time; `None` if it is not known, or no response time was recorded.
    #[cfg_attr(feature = "serde", serde(default, with = "crate::time::serde_time::option"))]
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
    /// use leaparray::{SecondMetrics, Timestamp};
    ///
    /// let metrics = SecondMetrics::new(Timestamp::from_secs(60));
    /// assert_eq!(metrics.second, Timestamp::from_secs(60));
    /// assert_eq!((metrics.pass, metrics.avg_rt()), (0, None));
    /// ```
    #[must_use]
    pub fn new(second: Timestamp) -> Self {
        Self { second, ..Self::default() }
    }

    /// Returns the mean response time, rounded down to the nanosecond; `None` if no response time
    /// was recorded.
    ///
    /// ```
    /// use leaparray::SecondMetrics;
    /// use std::time::Duration;
    ///
    /// let mut metrics = SecondMetrics::default();
    /// assert_eq!(metrics.avg_rt(), None);
    /// (metrics.rt_sum, metrics.rt_count) = (Duration::from_nanos(11), 3);
    /// assert_eq!(metrics.avg_rt(), Some(Duration::from_nanos(3)));
    /// ```
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.rt_sum.as_nanos().checked_div(self.rt_count.into()).map(duration_of)
    }

    /// Returns the counts as totals.
    pub(crate) fn totals(&self) -> MetricTotals {
        let rt_nanos = self.rt_sum.as_nanos();
        MetricTotals {
            events: MetricEvent::EVENTS.map(|event| match event {
                MetricEvent::Pass => self.pass,
                MetricEvent::Block => self.block,
                MetricEvent::Success => self.success,
                MetricEvent::Exception => self.exception,
                MetricEvent::Rt => rt_nanos.try_into().unwrap_or(u64::MAX),
                MetricEvent::ReservedPass => self.reserved_pass,
                MetricEvent::Cancelled => self.cancelled,
            }),
            rt_nanos,
            rt_count: self.rt_count,
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
    /// use leaparray::{SecondMetrics, Timestamp};
    /// use std::time::Duration;
    ///
    /// let mut one = SecondMetrics::new(Timestamp::from_secs(60));
    /// (one.success, one.rt_sum, one.rt_count) = (1, Duration::from_millis(5), 1);
    /// let mut other = SecondMetrics::new(Timestamp::from_secs(60));
    /// (other.success, other.rt_sum, other.rt_count) = (3, Duration::from_millis(45), 3);
    /// one += &other;
    /// assert_eq!(one.success, 4);
    /// // The mean of the two means would be 10 ms.
    /// assert_eq!(one.avg_rt(), Some(Duration::from_micros(12_500)));
    /// ```
    fn add_assign(&mut self, other: &Self) {
        // Each field is named, so that a field which is added later is not forgotten here.
        let Self {
            second,
            pass,
            block,
            success,
            exception,
            reserved_pass,
            cancelled,
            rt_sum,
            rt_count,
            min_rt,
            max_rt,
            concurrency,
            histogram,
        } = other;
        self.histogram = match (self.histogram.take(), histogram) {
            (Some(mut sum), Some(histogram)) => {
                sum.merge(histogram);
                Some(sum)
            }
            (sum @ Some(_), None) if *rt_count == 0 => sum,
            (None, histogram @ Some(_)) if self.rt_count == 0 => histogram.clone(),
            _ => None,
        };
        self.second = self.second.min(*second);
        for (sum, count) in [
            (&mut self.pass, pass),
            (&mut self.block, block),
            (&mut self.success, success),
            (&mut self.exception, exception),
            (&mut self.reserved_pass, reserved_pass),
            (&mut self.cancelled, cancelled),
            (&mut self.rt_count, rt_count),
        ] {
            *sum = sum.saturating_add(*count);
        }
        self.rt_sum = self.rt_sum.saturating_add(*rt_sum);
        self.min_rt = [self.min_rt, *min_rt].into_iter().flatten().min();
        self.max_rt = self.max_rt.max(*max_rt);
        self.concurrency = self.concurrency.max(*concurrency);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Metrics with a different value in each field.
    fn metrics(second: u64, n: u64) -> SecondMetrics {
        SecondMetrics {
            second: Timestamp::from_secs(second),
            pass: n,
            block: 10 * n,
            success: 100 * n,
            exception: 1_000 * n,
            reserved_pass: 10_000 * n,
            cancelled: 100_000 * n,
            rt_sum: Duration::new(1 << 40, 999_999_999),
            rt_count: 1_000_000 * n,
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
        let expected = SecondMetrics {
            rt_sum: Duration::new((2 << 40) + 1, 999_999_998),
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
        let without = |rt_count| SecondMetrics { rt_count, histogram: None, ..metrics(60, 1) };
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

    #[test]
    fn sums_saturate() {
        let mut most = SecondMetrics::default();
        (most.pass, most.rt_count, most.rt_sum) = (u64::MAX - 1, u64::MAX, Duration::MAX);
        let other = most.clone();
        most += &other;
        assert_eq!((most.pass, most.rt_count, most.rt_sum), (u64::MAX, u64::MAX, Duration::MAX));
        assert_eq!(most.avg_rt(), Some(Duration::from_secs(1)), "rounded down");
    }

    #[test]
    fn mean_may_be_longer_than_a_timestamp() {
        let mut metrics = SecondMetrics::default();
        (metrics.rt_sum, metrics.rt_count) = (Duration::MAX, 1);
        assert_eq!(metrics.avg_rt(), Some(Duration::MAX));
    }
}
