//! The usual quantiles of a histogram.

use std::time::Duration;

use super::latency::LatencyHistogram;

/// The quantiles 0.5, 0.9, 0.99 and 0.999 of response times: plain data, from
/// [`LatencyHistogram::summary`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LatencyQuantiles {
    /// The median: half of the response times do not exceed it.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub p50: Duration,
    /// The quantile 0.9.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub p90: Duration,
    /// The quantile 0.99.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub p99: Duration,
    /// The quantile 0.999.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub p999: Duration,
}

impl LatencyHistogram {
    /// Returns the quantiles 0.5, 0.9, 0.99 and 0.999, each as [`quantile`](Self::quantile) returns
    /// it; `None` if there is no response time.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// assert_eq!(histogram.summary(), None);
    /// histogram.record_many(Duration::from_millis(2), 98);
    /// histogram.record_many(Duration::from_millis(800), 2);
    /// let summary = histogram.summary().unwrap();
    /// assert!(summary.p90 < Duration::from_millis(3));
    /// assert!(summary.p99 > Duration::from_millis(780));
    /// assert_eq!(summary.p999, Duration::from_millis(800), "the highest rank is exact");
    /// ```
    #[must_use]
    pub fn summary(&self) -> Option<LatencyQuantiles> {
        let [p50, p90, p99, p999] = self.quantiles([0.5, 0.9, 0.99, 0.999]);
        Some(LatencyQuantiles { p50: p50?, p90: p90?, p99: p99?, p999: p999? })
    }
}
