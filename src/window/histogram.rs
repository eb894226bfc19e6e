//! Histograms and quantiles of a window.

use std::cell::Cell;
use std::time::Duration;

use super::SlidingWindow;
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::time::{Clock, Timestamp};

impl<C: Clock> SlidingWindow<C> {
    /// Returns the resolution of the histogram; `None` if the window was made without one.
    #[must_use]
    pub fn histogram_config(&self) -> Option<HistogramConfig> {
        self.array().histogram()
    }

    /// Returns the quantile `q` of the response times in the window now; see
    /// [`quantile_at`](Self::quantile_at).
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        self.quantile_at(self.clock().now(), q)
    }

    /// Returns the quantile `q` of the response times in the window at `now`, from 0, the shortest,
    /// to 1, the longest; `None` if `q` is not in this range, if no response time was recorded, or
    /// if the window was made without a [histogram](Self::with_histogram).
    ///
    /// The result is within the [relative error](HistogramConfig::relative_error) of the response
    /// time with the rank ⌈q · count⌉, and rounded to a nanosecond: see
    /// [`LatencyHistogram::quantile`]. Allocates nothing, once the thread has read a histogram with
    /// as many bins.
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, MonotonicClock, SlidingWindow, Timestamp, WindowConfig,
    /// };
    /// use std::time::Duration;
    ///
    /// let config = WindowConfig::new(10, Duration::from_secs(1))?;
    /// let histogram = HistogramConfig::default();
    /// let window = SlidingWindow::with_histogram(config, histogram, MonotonicClock::new());
    /// let now = Timestamp::from_secs(60);
    /// for millis in 1..=1_000 {
    ///     window.record_success_at(now, Duration::from_millis(millis));
    /// }
    /// let p99 = window.quantile_at(now, 0.99).unwrap().as_secs_f64();
    /// assert!((p99 / 0.990 - 1.0).abs() <= histogram.relative_error());
    /// assert_eq!(window.quantile_at(now, 1.0), Some(Duration::from_secs(1)));
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn quantile_at(&self, now: Timestamp, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles_at(now, [q]);
        quantile
    }

    /// Returns several quantiles of the response times in the window now; see
    /// [`quantiles_at`](Self::quantiles_at).
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> [Option<Duration>; N] {
        self.quantiles_at(self.clock().now(), q)
    }

    /// Returns several quantiles of the response times in the window at `now`. All are of one
    /// moment, and each is as in [`quantile_at`](Self::quantile_at).
    pub fn quantiles_at<const N: usize>(
        &self,
        now: Timestamp,
        q: [f64; N],
    ) -> [Option<Duration>; N] {
        with_scratch(|histogram| {
            let has_histogram = self.histogram_into_at(now, histogram);
            if has_histogram { histogram.quantiles(q) } else { [None; N] }
        })
    }

    /// Returns the histogram of the response times in the window now; see
    /// [`histogram_at`](Self::histogram_at).
    pub fn histogram(&self) -> Option<LatencyHistogram> {
        self.histogram_at(self.clock().now())
    }

    /// Returns the histogram of the response times in the window at `now`; `None` if the window was
    /// made without a [histogram](Self::with_histogram).
    ///
    /// The histogram is of one moment: its count is the number of response times in its bins, its
    /// sum includes no other response time, and its extremes include each of them. A response time
    /// that another thread is recording may be in a bin and not yet in the sum.
    pub fn histogram_at(&self, now: Timestamp) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::new(self.histogram_config()?);
        self.histogram_into_at(now, &mut histogram).then_some(histogram)
    }

    /// Like [`histogram_at`](Self::histogram_at), now, into a histogram whose memory is used again.
    pub fn histogram_into(&self, into: &mut LatencyHistogram) -> bool {
        self.histogram_into_at(self.clock().now(), into)
    }

    /// Like [`histogram_at`](Self::histogram_at), but replaces the contents of `into`, whose memory
    /// is used again. So this allocates nothing, unless there are more bins than `into` has had
    /// before.
    ///
    /// Returns `false`, and leaves `into` as it is, if the window was made without a histogram.
    pub fn histogram_into_at(&self, now: Timestamp, into: &mut LatencyHistogram) -> bool {
        self.array().histogram_into(self.covered(now), into).is_some()
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
    /// assert_eq!(window.histogram_at(Timestamp::from_secs(59)).unwrap().count(), 1);
    /// assert_eq!(window.lifetime_histogram().unwrap().count(), 60);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn lifetime_histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::new(self.histogram_config()?);
        self.lifetime_histogram_into(&mut histogram).then_some(histogram)
    }

    /// Like [`lifetime_histogram`](Self::lifetime_histogram), but replaces the contents of `into`,
    /// whose memory is used again. Returns `false`, and leaves `into` as it is, if the window was
    /// made without a histogram.
    pub fn lifetime_histogram_into(&self, into: &mut LatencyHistogram) -> bool {
        self.array().lifetime_histogram_into(into).is_some()
    }
}

thread_local! {
    /// A histogram that the thread uses again, so that a read of quantiles allocates nothing.
    static SCRATCH: Cell<Option<LatencyHistogram>> = const { Cell::new(None) };
}

/// Calls `read` with a histogram to read into.
pub(crate) fn with_scratch<R>(read: impl FnOnce(&mut LatencyHistogram) -> R) -> R {
    let found = SCRATCH.try_with(Cell::take).ok().flatten();
    let mut histogram = found.unwrap_or_else(|| LatencyHistogram::new(HistogramConfig::default()));
    let result = read(&mut histogram);
    // Fails if the thread is ending.
    let _ = SCRATCH.try_with(|scratch| scratch.set(Some(histogram)));
    result
}
