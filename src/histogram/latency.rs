//! A histogram of response times.

use std::time::Duration;

use super::bins::Bins;
use super::config::HistogramConfig;
use super::counts::BinCounts;
use super::layout::MAX_NANOS;
use crate::time::{duration_of, saturating_nanos};

/// The distribution of response times, by base-2 exponential bins: plain data that can be kept,
/// merged and sent.
///
/// At scale s, bin `i` counts the response times in the interval (2^(i/2^s), 2^((i+1)/2^s)]
/// seconds. These are exactly the buckets of OpenTelemetry's [exponential histogram][otel] with
/// scale s and the same index, and of Prometheus's [native histogram][prometheus] with schema s and
/// the index `i + 1`. So an export loses nothing.
///
/// | exact | to within the [relative error](Self::relative_error) |
/// |---|---|
/// | [`count`](Self::count), [`sum`](Self::sum), [`min`](Self::min), [`max`](Self::max), [`mean`](Self::mean), the count of each [bucket](Self::buckets) | [`quantile`](Self::quantile), [`quantiles`](Self::quantiles), [`quantile_as_secs_f64`](Self::quantile_as_secs_f64) |
///
/// A [merge](Self::merge) loses nothing: the result is the histogram of all response times of both.
/// Response times are whole nanoseconds from 0 to 2⁶² (146 years); a longer one counts as 2⁶² ns. A
/// response time of 0 ns is in the bin of 1 ns. Counts saturate at `u64::MAX`. It takes eight bytes
/// for each bin between the shortest and the longest response time: at most 993 bins at scale 4.
///
/// With the feature `serde`, it can be serialized, as the counts of the bins that are not empty,
/// and with [times](crate::reference::serialized_times) that lose no digits.
///
/// [otel]: https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exponentialhistogram
/// [prometheus]: https://prometheus.io/docs/specs/native_histograms/#standard-exponential-schemas
///
/// ```
/// use leaparray::LatencyHistogram;
/// use std::time::Duration;
///
/// let mut histogram = LatencyHistogram::default();
/// for millis in 1..=1_000 {
///     histogram.record(Duration::from_millis(millis));
/// }
/// let [p50, p99] = histogram.quantiles([0.5, 0.99]).map(|it| it.unwrap().as_secs_f64());
/// assert!((p50 / 0.500 - 1.0).abs() <= histogram.relative_error());
/// assert!((p99 / 0.990 - 1.0).abs() <= histogram.relative_error());
/// assert_eq!(histogram.max(), Some(Duration::from_secs(1)));
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct LatencyHistogram {
    pub(super) bins: Bins,
    pub(super) counts: BinCounts,
    /// The sum of the response times.
    pub(super) nanos: u128,
    /// The shortest response time, in the first bin; 0 if there is none.
    pub(super) min: u64,
    /// The longest response time, in the last bin; 0 if there is none.
    pub(super) max: u64,
}

impl LatencyHistogram {
    /// Creates an empty histogram. Allocates nothing.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, LatencyHistogram};
    ///
    /// let histogram = LatencyHistogram::new(HistogramConfig::with_scale(5)?);
    /// assert_eq!((histogram.scale(), histogram.count()), (5, 0));
    /// # Ok::<_, leaparray::histogram::HistogramConfigError>(())
    /// ```
    #[must_use]
    pub const fn new(config: HistogramConfig) -> Self {
        Self::at(config.bins())
    }

    /// Creates an empty histogram with these bins.
    pub(super) const fn at(bins: Bins) -> Self {
        Self { bins, counts: BinCounts::new(), nanos: 0, min: 0, max: 0 }
    }

    /// Adds a response time.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record(Duration::from_millis(3));
    /// assert_eq!((histogram.count(), histogram.sum()), (1, Duration::from_millis(3)));
    /// ```
    pub fn record(&mut self, rt: Duration) {
        self.record_many(rt, 1);
    }

    /// Adds `count` requests with the same response time.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record_many(Duration::from_millis(3), 4);
    /// assert_eq!((histogram.count(), histogram.sum()), (4, Duration::from_millis(12)));
    /// ```
    pub fn record_many(&mut self, rt: Duration, count: u64) {
        if count == 0 {
            return;
        }
        let nanos = saturating_nanos(rt).min(MAX_NANOS);
        let sum = u128::from(nanos).saturating_mul(count.into());
        self.widen(nanos, nanos);
        self.nanos = self.nanos.saturating_add(sum);
        self.counts.add(self.bins.index(nanos), count);
    }

    /// Includes a shortest and a longest response time in the extremes. Call it before their counts
    /// are added.
    pub(super) fn widen(&mut self, min: u64, max: u64) {
        let is_empty = self.is_empty();
        self.min = if is_empty { min } else { self.min.min(min) };
        self.max = self.max.max(max);
    }

    /// Returns the scale: the one of its configuration, or a coarser one after
    /// [`downscaled`](Self::downscaled) or [`merge`](Self::merge). From −10 to
    /// [`HistogramConfig::MAX_SCALE`].
    #[must_use]
    pub const fn scale(&self) -> i8 {
        self.bins.scale()
    }

    /// Returns the largest relative error of a quantile: (γ − 1) / (γ + 1), where γ = 2^(2^−scale)
    /// is the upper bound of a bin divided by its lower bound.
    #[must_use]
    pub fn relative_error(&self) -> f64 {
        self.bins.relative_error()
    }

    /// Returns whether no response time was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.ends().is_none()
    }

    /// Returns the number of response times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.sum()
    }

    /// Returns the sum of the response times, exact to the nanosecond, at most [`Duration::MAX`].
    #[must_use]
    pub fn sum(&self) -> Duration {
        duration_of(self.nanos)
    }

    /// Returns the shortest response time, exact to the nanosecond; `None` if there is none.
    #[must_use]
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.min))
    }

    /// Returns the longest response time, exact to the nanosecond; `None` if there is none.
    #[must_use]
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.max))
    }

    /// Returns the mean of the response times, rounded down to the nanosecond; `None` if there is
    /// none.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// assert_eq!(histogram.mean(), None);
    /// histogram.record(Duration::from_nanos(3));
    /// histogram.record_many(Duration::from_nanos(4), 2);
    /// assert_eq!(histogram.mean(), Some(Duration::from_nanos(3)));
    /// ```
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        self.nanos.checked_div(self.count().into()).map(duration_of)
    }

    /// Removes all response times. Keeps the scale and the memory.
    ///
    /// ```
    /// use leaparray::LatencyHistogram;
    /// use std::time::Duration;
    ///
    /// let mut histogram = LatencyHistogram::default();
    /// histogram.record(Duration::from_millis(3));
    /// histogram.clear();
    /// assert_eq!(histogram, LatencyHistogram::default());
    /// ```
    pub fn clear(&mut self) {
        self.counts.clear();
        (self.nanos, self.min, self.max) = (0, 0, 0);
    }

    /// Removes all response times, and sets the scale. Keeps the memory.
    pub(crate) fn reset(&mut self, config: HistogramConfig) {
        self.clear();
        self.bins = config.bins();
    }

    /// Replaces the contents by the counts of the bins from the position `first` on. Keeps the
    /// memory, and allocates nothing if it has held as many bins before.
    ///
    /// An extreme that is `None`, or is not in the first or last bin that is not empty, is replaced
    /// by the bound of that bin.
    pub(crate) fn set(
        &mut self,
        config: HistogramConfig,
        first: usize,
        counts: &[u64],
        rt_nanos: u128,
        min_nanos: Option<u64>,
        max_nanos: Option<u64>,
    ) {
        self.reset(config);
        self.counts.replace(config.layout().index(first), counts);
        if let Some((low, high)) = self.counts.ends() {
            self.nanos = rt_nanos;
            let bins = self.bins;
            let in_bin = |nanos: Option<u64>, index| {
                nanos.filter(|&it| it <= MAX_NANOS && bins.index(it) == index)
            };
            self.min = in_bin(min_nanos, low).unwrap_or_else(|| bins.first(low));
            self.max = in_bin(max_nanos, high).unwrap_or_else(|| bins.last(high));
        }
    }
}

impl Clone for LatencyHistogram {
    fn clone(&self) -> Self {
        Self { counts: self.counts.clone(), ..*self }
    }

    /// Replaces the contents. The memory is used again, so this allocates nothing, unless `source`
    /// has more bins than `self` has had before.
    fn clone_from(&mut self, source: &Self) {
        // Each field is named, so that a field which is added later is not forgotten here.
        let Self { bins, counts, nanos, min, max } = source;
        self.counts.clone_from(counts);
        (self.bins, self.nanos, self.min, self.max) = (*bins, *nanos, *min, *max);
    }
}

impl Default for LatencyHistogram {
    /// Returns an empty histogram of scale 4.
    fn default() -> Self {
        Self::new(HistogramConfig::default())
    }
}
