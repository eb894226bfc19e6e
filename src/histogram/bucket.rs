//! The buckets of a histogram, for exports.

use super::latency::LatencyHistogram;

/// One bucket of a [`LatencyHistogram`]: plain data.
///
/// At the histogram's scale, [`index`](Self::index) is the index of the bucket in OpenTelemetry's
/// exponential histogram. In Prometheus's native histogram, whose schema is the scale, the index is
/// higher by one. Prometheus has the schemas from −4 to 8.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistogramBucket {
    /// The index i: the bounds are 2^(i/2^s) and 2^((i+1)/2^s) seconds at scale s.
    pub index: i32,
    /// The lower bound in seconds, which the response times in the bucket exceed, rounded to the
    /// nearest `f64`.
    pub lower: f64,
    /// The upper bound in seconds, which the response times in the bucket do not exceed, rounded to
    /// the nearest `f64`. Infinite for bucket 0 at scale −10.
    pub upper: f64,
    /// The number of response times in the bucket.
    pub count: u64,
}

impl LatencyHistogram {
    /// Returns the buckets that are not empty, by ascending index.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// for millis in [1_000, 1_001, 1_002, 4_000] {
    ///     histogram.record(Duration::from_millis(millis));
    /// }
    /// let buckets: Vec<_> = histogram.buckets().map(|it| (it.index, it.count)).collect();
    /// assert_eq!(buckets, [(-1, 1), (0, 2), (31, 1)]);
    /// assert_eq!(histogram.buckets().last().unwrap().upper, 4.0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = HistogramBucket> {
        self.counts.iter().map(|(index, count)| HistogramBucket {
            index,
            lower: self.bins.lower(index),
            upper: self.bins.lower(index + 1),
            count,
        })
    }
}
