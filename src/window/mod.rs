//! The sliding window: a metric array, a clock, and the geometry of reads.

mod coverage;
mod reading;
mod record;
mod scratch;
mod view;

pub use coverage::Coverage;
pub(crate) use coverage::per_second;
pub(crate) use reading::Spread;
pub use reading::{BucketTotals, WindowReading};
pub(crate) use scratch::with_scratch;
pub(crate) use view::{Frame, Framed, View};

use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::MetricTotals;
use crate::metric_array::SharedArray;
use crate::time::{Clock, MonotonicClock, Timestamp, ViewError, WindowConfig};

/// The metrics of one resource over the last second, or over any other interval.
///
/// Recording and reading are lock-free and take `&self`, so any thread can do both. A read names
/// its time: [`at`](Self::at) returns the [`WindowReading`] at a given time, and [`now`](Self::now)
/// at the time of the clock. Each method that records has two forms: the form with the suffix `_at`
/// takes `now`, and the form without the suffix reads the clock once.
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
/// assert!(window.now().qps(MetricEvent::Pass) >= 1.0);
/// assert_eq!(window.now().totals().max_rt(), Some(Duration::from_micros(250)));
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
///
/// # Accuracy
///
/// Each add is counted exactly once: in the window, as expired, or as late (see
/// [`ledger`](WindowReading::ledger)). At `now`, a window of n buckets covers exactly the buckets
/// `k(now) − n + 1 ..= k(now)`, where `k(t)` is the [number](WindowConfig::bucket_number) of the
/// bucket of the time t. The newest bucket is still filling, so the window covers between (n − 1)/n
/// of the interval and all of it. At a steady rate, a sum is between (n − 1)/n of the events of an
/// interval and all of them. More buckets make the difference smaller. A rate is not affected:
/// [`qps`](WindowReading::qps) divides by the time that the window covers.
//
// In this order: each record reads the array and the clock, and no other field.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct SlidingWindow<C = MonotonicClock> {
    array: SharedArray,
    clock: C,
    frame: Frame,
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
    /// assert_eq!(window.now().sum(MetricEvent::Pass), 7);
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(window.now().sum(MetricEvent::Pass), 0);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn with_clock(config: WindowConfig, clock: C) -> Self {
        let made = clock.now();
        Self::made_at(config, None, clock, made)
    }

    /// Creates a window over a new array that also counts the response times by bins, for
    /// [quantiles](WindowReading::quantile) and [histograms](WindowReading::histogram). The window
    /// reads `clock`.
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
    /// assert_eq!(window.now().totals().avg_rt(), Some(Duration::from_micros(64_750)));
    /// let [p50, p99] = window.now().quantiles([0.5, 0.99]);
    /// assert_eq!(p99, Some(Duration::from_millis(250)));
    /// assert!(p50.unwrap().abs_diff(Duration::from_millis(3)) < Duration::from_micros(66));
    /// # Ok::<_, leaparray::time::ConfigError>(())
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
        let array = SharedArray::new(config, histogram);
        Self { array, frame: Frame::new(config, made), clock }
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
    /// assert_eq!(long.now().sum(MetricEvent::Pass), 6);
    /// assert_eq!(short.now().sum(MetricEvent::Pass), 1);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn view(&self, config: WindowConfig) -> Result<Self, ViewError>
    where
        C: Clone,
    {
        let frame = self.frame_of(config)?;
        Ok(Self { array: self.array.clone(), frame, clock: self.clock.clone() })
    }

    /// Returns the reading of this window at `now`.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let t = Timestamp::from_millis;
    /// window.add_at(t(60_200), MetricEvent::Pass, 3);
    /// assert_eq!(window.at(t(60_900)).sum(MetricEvent::Pass), 3);
    /// assert_eq!(window.at(t(61_000)).sum(MetricEvent::Pass), 0);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[inline]
    pub fn at(&self, now: Timestamp) -> WindowReading<'_> {
        WindowReading::of(self.as_view(), now)
    }

    /// Returns the reading of this window at the time of the clock.
    #[inline]
    pub fn now(&self) -> WindowReading<'_> {
        self.at(self.clock.now())
    }

    /// Returns the totals since the window was made: in the window, expired and late. They never
    /// decrease.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// for second in 0..60 {
    ///     window.add_at(Timestamp::from_secs(second), MetricEvent::Pass, 10);
    /// }
    /// assert_eq!(window.lifetime().sum(MetricEvent::Pass), 600);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn lifetime(&self) -> MetricTotals {
        self.at(Timestamp::MIN).ledger().recorded()
    }

    /// Returns the resolution of the histogram; `None` if the window was made without one.
    #[must_use]
    pub fn histogram_config(&self) -> Option<HistogramConfig> {
        self.array().histogram()
    }

    /// Returns the histogram of all response times since the window was made, as a scraper needs
    /// it: no count is ever taken away. `None` if the window was made without a histogram.
    ///
    /// At rest, its count equals the number of response times in the [lifetime
    /// totals](Self::lifetime).
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, MonotonicClock, SlidingWindow, Timestamp, WindowConfig,
    /// };
    /// use std::time::Duration;
    ///
    /// let config = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let clock = MonotonicClock::new();
    /// let window = SlidingWindow::with_histogram(config, HistogramConfig::default(), clock);
    /// for second in 0..60 {
    ///     window.record_success_at(Timestamp::from_secs(second), Duration::from_millis(20));
    /// }
    /// let last = window.at(Timestamp::from_secs(59)).histogram().unwrap();
    /// assert_eq!(last.count(), 1);
    /// assert_eq!(window.lifetime_histogram().unwrap().count(), 60);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn lifetime_histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::new(self.histogram_config()?);
        self.array().lifetime_histogram_into(&mut histogram).map(|_| histogram)
    }

    /// Returns the time at which the window was made.
    pub(crate) const fn made(&self) -> Timestamp {
        self.frame.made()
    }

    /// Returns the geometry of this window: its interval, and the buckets into which reads divide
    /// it.
    #[must_use]
    pub const fn config(&self) -> &WindowConfig {
        self.frame.config()
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
    pub(crate) const fn array(&self) -> &SharedArray {
        &self.array
    }

    /// Returns the geometry of reads of a [view](Self::view).
    pub(crate) fn frame_of(&self, config: WindowConfig) -> Result<Frame, ViewError> {
        self.frame.view(self.array.config(), config)
    }

    /// Returns the geometries of the array and of reads.
    #[inline]
    pub(crate) fn framed(&self) -> Framed<'_> {
        self.as_view().framed()
    }

    /// Returns the array and the geometry of reads.
    #[inline]
    pub(crate) fn as_view(&self) -> View<'_> {
        View { array: &self.array, frame: &self.frame }
    }
}
