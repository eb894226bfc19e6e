//! The sliding window: a metric array, a clock, and the geometry of reads.

mod coverage;
mod histogram;
mod read;
mod record;

pub use coverage::Coverage;
pub(crate) use coverage::per_second;
pub(crate) use histogram::with_scratch;
pub use read::BucketTotals;

use crate::histogram::HistogramConfig;
use crate::metric_array::MetricArray;
use crate::sync::Arc;
use crate::time::{Clock, MonotonicClock, Timestamp, ViewError, WindowConfig};
use coverage::RateDivisor;

/// The metrics of one resource over the last second, or over any other interval.
///
/// Recording and reading are lock-free and take `&self`, so any thread can do both. Each operation
/// that needs the time has two forms: the form with the suffix `_at` takes `now`, and the form
/// without the suffix reads the clock once. Only [`buckets_conditional`](Self::buckets_conditional)
/// has one form, which takes `now`.
///
/// A window is a handle. Its clones, and its [views](Self::view) of another length, record into and
/// read from the same array. In Sentinel, `ArrayMetric` corresponds to a window, and
/// `SlidingWindowMetric` to a view.
///
/// ```
/// use leaparray::{MetricEvent, SlidingWindow, WindowConfig};
/// use std::time::Duration;
///
/// let window = SlidingWindow::new(WindowConfig::new(10, Duration::from_secs(1))?);
/// window.add(MetricEvent::Pass, 1);
/// window.record_success(Duration::from_micros(250));
/// assert!(window.qps(MetricEvent::Pass) >= 1.0);
/// assert_eq!(window.max_rt(), Some(Duration::from_micros(250)));
/// # Ok::<_, leaparray::ConfigError>(())
/// ```
///
/// # Accuracy
///
/// Each add is counted exactly once: in the window, as expired, or as late (see
/// [`ledger`](Self::ledger)). At `now`, a window of n buckets covers exactly the buckets
/// `k(now) − n + 1 ..= k(now)`, where `k(t)` is the [number](WindowConfig::bucket_number) of the
/// bucket of the time t. The newest bucket is still filling, so the window covers between (n − 1)/n
/// of the interval and all of it. At a steady rate, a sum is between (n − 1)/n of the events of an
/// interval and all of them. More buckets make the difference smaller. A rate is not affected:
/// [`qps`](Self::qps) divides by the time that the window covers.
#[derive(Clone, Debug)]
pub struct SlidingWindow<C = MonotonicClock> {
    array: Arc<MetricArray>,
    clock: C,
    /// The geometry of reads. Equal to the geometry of the array, unless this is a view.
    config: WindowConfig,
    /// The number of buckets of the array in one bucket of this window.
    buckets_per_sample: u64,
    /// The number of buckets of the array that this window covers.
    array_len: usize,
    /// A read less than this number of nanoseconds after the start of the newest bucket may be
    /// [steady](MetricArray::steady_sums). It is the length of a bucket, or 0 for a view that
    /// covers fewer buckets than the array.
    steady_within: u64,
    divisor: RateDivisor,
}

impl SlidingWindow {
    /// Creates a window over a new array, with its own [`MonotonicClock`].
    #[must_use]
    pub fn new(config: WindowConfig) -> Self {
        Self::with_clock(config, MonotonicClock::new())
    }
}

impl<C: Clock> SlidingWindow<C> {
    /// Creates a window over a new array. The window reads `clock`.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(10));
    /// let config = WindowConfig::new(2, Duration::from_secs(1))?;
    /// let window = SlidingWindow::with_clock(config, clock.clone());
    /// window.add(MetricEvent::Pass, 7);
    /// clock.advance(Duration::from_millis(999));
    /// assert_eq!(window.sum(MetricEvent::Pass), 7);
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(window.sum(MetricEvent::Pass), 0);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_clock(config: WindowConfig, clock: C) -> Self {
        let made = clock.now();
        Self::made_at(config, None, clock, made)
    }

    /// Creates a window over a new array that also counts the response times by bins, for
    /// [quantiles](Self::quantile) and [histograms](Self::histogram). The window reads `clock`.
    ///
    /// Its [views](Self::view) have the same histogram, over their own length. A record of a
    /// response time also increments the counter of its bin. [`HistogramConfig::max_bytes`] tells
    /// the memory that the histogram can take at most.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, ManualClock, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(10));
    /// let config = WindowConfig::new(2, Duration::from_secs(1))?;
    /// let window = SlidingWindow::with_histogram(config, HistogramConfig::default(), clock);
    /// for millis in [3, 3, 3, 250] {
    ///     window.record_success(Duration::from_millis(millis));
    /// }
    /// assert_eq!(window.avg_rt(), Some(Duration::from_micros(64_750)));
    /// let [p50, p99] = window.quantiles([0.5, 0.99]);
    /// assert_eq!(p99, Some(Duration::from_millis(250)));
    /// assert!(p50.unwrap().abs_diff(Duration::from_millis(3)) < Duration::from_micros(66));
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_histogram(config: WindowConfig, histogram: HistogramConfig, clock: C) -> Self {
        let made = clock.now();
        Self::made_at(config, Some(histogram), clock, made)
    }

    /// Creates a window as if it had been made at the time `made`.
    pub(crate) fn made_at(
        config: WindowConfig,
        histogram: Option<HistogramConfig>,
        clock: C,
        made: Timestamp,
    ) -> Self {
        let array = Arc::new(MetricArray::new(config, histogram));
        Self {
            array,
            clock,
            config,
            buckets_per_sample: 1,
            array_len: config.sample_count(),
            steady_within: config.bucket_nanos(),
            divisor: RateDivisor::new(made, &config, config.sample_count()),
        }
    }

    /// Returns a window of another length over the same array. Each of the two windows reads what
    /// the other one records.
    ///
    /// The view ends with the current bucket of the array, so it moves with every bucket of the
    /// array. The buckets of the view are counted back from there.
    ///
    /// # Errors
    ///
    /// Returns a [`ViewError`] unless the view's interval divides the array's interval, and the
    /// view's bucket length is a multiple of the array's bucket length.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(100));
    /// let long = WindowConfig::new(120, Duration::from_secs(60))?;
    /// let long = SlidingWindow::with_clock(long, clock.clone());
    /// let short = long.view(WindowConfig::new(2, Duration::from_secs(1))?)?;
    /// long.add(MetricEvent::Pass, 5);
    /// clock.advance(Duration::from_secs(30));
    /// short.add(MetricEvent::Pass, 1);
    /// assert_eq!(long.sum(MetricEvent::Pass), 6);
    /// assert_eq!(short.sum(MetricEvent::Pass), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self, config: WindowConfig) -> Result<Self, ViewError>
    where
        C: Clone,
    {
        let buckets_per_sample = config.buckets_per_sample(self.array.config())?;
        // Does not overflow: the product divides the sample count of the array.
        let array_len = config.sample_count() * usize::try_from(buckets_per_sample).unwrap_or(1);
        let divisor = self.divisor.of_view(self.array.config(), array_len);
        let covers_all = array_len == self.array.config().sample_count();
        let steady_within = if covers_all { self.array.config().bucket_nanos() } else { 0 };
        let view = self.clone();
        Ok(Self { config, buckets_per_sample, array_len, steady_within, divisor, ..view })
    }

    /// Returns the time at which the window was made.
    pub(crate) const fn made(&self) -> Timestamp {
        self.divisor.made
    }

    /// Returns the geometry of this window: its interval, and the buckets into which reads divide
    /// it.
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        &self.config
    }

    /// Returns the clock that this window reads.
    #[must_use]
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<C> SlidingWindow<C> {
    /// Returns the array that this window records into and reads from.
    #[inline]
    pub(crate) fn array(&self) -> &MetricArray {
        &self.array
    }
}
