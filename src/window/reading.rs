//! The reading of a window at one time.

use std::fmt;
use std::time::Duration;

use super::coverage::{Coverage, per_second};
use super::scratch::with_scratch;
use super::view::{Framed, View};
use crate::array::Ledger;
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::time::{Span, Timestamp, saturating_nanos};

/// A window at one time: its sums, rates, response times and histograms.
///
/// [`SlidingWindow::at`](crate::SlidingWindow::at) and `now` return the reading of a window;
/// [`NodeReading`](crate::NodeReading) has one for each of the two windows of a node. A reading is
/// a reference and a time, and has no counts of its own: each method reads the counts when it is
/// called. So the results of two calls may differ by what was recorded in between. The results of
/// one call are of one moment: to get several numbers that belong together, call
/// [`totals`](Self::totals) once.
///
/// ```
/// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
/// use std::time::Duration;
///
/// let window = SlidingWindow::new(WindowConfig::new(10, Duration::from_secs(1))?);
/// let now = Timestamp::from_secs(60);
/// for millis in [2, 4] {
///     window.record_success_at(now, Duration::from_millis(millis));
/// }
/// let reading = window.at(now);
/// assert_eq!(reading.sum(MetricEvent::Success), 2);
/// let totals = reading.totals();
/// assert_eq!(totals.avg_rt(), Some(Duration::from_millis(3)));
/// assert_eq!(totals.max_rt(), Some(Duration::from_millis(4)));
/// # Ok::<_, leaparray::time::ConfigError>(())
/// ```
#[derive(Clone, Copy)]
pub struct WindowReading<'a> {
    framed: Framed<'a>,
    counts: ReadFrom<'a>,
    now: Timestamp,
}

/// The place of the counts of a window.
#[derive(Clone, Copy)]
enum ReadFrom<'a> {
    /// One array.
    Array(&'a MetricArray),
    /// Perhaps several arrays.
    Spread(&'a dyn Spread),
}

/// Counts that may be in several arrays, with different geometries.
///
/// A bucket is in a span if it lies entirely within the span.
pub(crate) trait Spread {
    /// Returns the array that has all counts, in the geometry of the reading; `None` if there are
    /// others. A steady read of one array takes a fraction of the time of a read by span.
    fn one_array(&self) -> Option<&MetricArray>;

    /// Returns the sum of `event` over the buckets of the span.
    fn sum_in(&self, span: &Span, event: MetricEvent) -> u64;

    /// Returns the totals of the buckets of the span.
    fn totals_in(&self, span: &Span) -> MetricTotals;

    /// Returns the totals of the buckets of the span, and whether there is a histogram of all
    /// response times in them. If so, replaces the contents of `into` by the histogram, of the same
    /// moment.
    fn totals_and_histogram_in(
        &self,
        span: &Span,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool);

    /// Returns the totals of all counts, by whether they are in the buckets of the span.
    fn ledger_in(&self, span: &Span) -> Ledger<MetricTotals>;
}

/// The totals of one bucket of a window: plain data. Returned by [`WindowReading::buckets`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BucketTotals {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The totals of the bucket.
    pub totals: MetricTotals,
}

impl<'a> WindowReading<'a> {
    /// Creates the reading of a window whose counts are all in one array.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that no reading is made in memory")]
    pub(super) fn of(view: View<'a>, now: Timestamp) -> Self {
        Self { framed: view.framed(), counts: ReadFrom::Array(view.array), now }
    }

    /// Creates the reading of a window whose counts may be in several arrays.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that no reading is made in memory")]
    pub(crate) const fn of_spread(
        framed: Framed<'a>,
        spread: &'a dyn Spread,
        now: Timestamp,
    ) -> Self {
        Self { framed, counts: ReadFrom::Spread(spread), now }
    }

    /// Returns the sum of `event` over the window. The sum of [`MetricEvent::Rt`] is in
    /// nanoseconds. Sums saturate at `u64::MAX`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that no reading is made in memory")]
    #[must_use]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        match self.counts() {
            Ok(view) => view.sum(self.now, event),
            Err(spread) => sum_of_spread(spread, self.framed, self.now, event),
        }
    }

    /// Returns the rate of `event` per second over the window.
    ///
    /// The rate is the sum divided by the time that the window covers: from the start of its oldest
    /// bucket, or from the time at which the window was made if that is later, up to `now`. So at a
    /// steady rate R, the result is R at every `now`: if the time that is covered is T, the sum
    /// differs from R · T by at most 1. A rate that divides by the whole interval, as Sentinel's
    /// does, is too low by up to 1/n with n buckets; it is
    /// [`qps_over_interval`](Self::qps_over_interval).
    ///
    /// The divisor is at least a tenth of a bucket of the array: one event is at most ten events in
    /// each bucket length. It would be shorter just after the window was made and, if the array has
    /// one bucket, just after each start of a bucket. There, the rate is noisy, and lower than R.
    ///
    /// If `now` is before the window was made, as in a replay of recorded times, the divisor starts
    /// with the oldest bucket. The sum includes what was recorded with a later time in the bucket
    /// of `now`.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = WindowConfig::new(2, Duration::from_secs(1))?;
    /// let window = SlidingWindow::with_clock(config, clock.clone());
    /// for _ in 0..3_200 {
    ///     clock.advance(Duration::from_millis(1));
    ///     window.add(MetricEvent::Pass, 1);
    /// }
    /// // The window covers 700 ms, with an event at each end.
    /// assert_eq!(window.now().sum(MetricEvent::Pass), 701);
    /// assert_eq!(window.now().qps(MetricEvent::Pass).round(), 1_001.0);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that no reading is made in memory")]
    #[must_use]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        match self.counts() {
            Ok(view) => view.qps(self.now, event),
            Err(spread) => {
                let sum = sum_of_spread(spread, self.framed, self.now, event);
                per_second(sum, self.framed.covered_nanos(self.now))
            }
        }
    }

    /// Returns the sum of `event` over the window, divided by the whole interval, per second.
    /// Sentinel calls this `passQps`, `blockQps` and so on.
    ///
    /// This is the number to compare with a limit on the events of a window. As a rate, it is too
    /// low by up to 1/n with n buckets; see [`qps`](Self::qps).
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = WindowConfig::new(2, Duration::from_secs(1))?;
    /// let window = SlidingWindow::with_clock(config, clock.clone());
    /// window.add(MetricEvent::Pass, 10);
    /// clock.advance(Duration::from_millis(250));
    /// assert_eq!(window.now().qps_over_interval(MetricEvent::Pass), 10.0);
    /// assert_eq!(window.now().qps(MetricEvent::Pass), 40.0);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn qps_over_interval(&self, event: MetricEvent) -> f64 {
        per_second(self.sum(event), saturating_nanos(self.framed.config().interval()))
    }

    /// Returns the rate of `event` per second over the last complete bucket, which is the one
    /// before the bucket of `now`; `None` if the array is too short to keep that bucket, as an
    /// array of a single bucket is.
    ///
    /// If the window was made during that bucket, the divisor is the rest of the bucket, at least a
    /// tenth of a bucket of the array.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// window.add_at(Timestamp::from_millis(700), MetricEvent::Pass, 30);
    /// let reading = window.at(Timestamp::from_millis(1_200));
    /// assert_eq!(reading.previous_qps(MetricEvent::Pass), Some(60.0));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn previous_qps(&self, event: MetricEvent) -> Option<f64> {
        let sum = || self.sum_of_sample(1, event).unwrap_or(0);
        let nanos = || self.framed.covered_nanos_of_previous(self.now);
        self.framed.keeps_previous().then(|| per_second(sum(), nanos()))
    }

    /// Returns the largest sum of `event` in any one bucket of the window. The sum of
    /// [`MetricEvent::Rt`] is in nanoseconds.
    #[must_use]
    pub fn max_of_single_bucket(&self, event: MetricEvent) -> u64 {
        let ages = 0..self.framed.len();
        ages.map_while(|age| self.sum_of_sample(age, event)).max().unwrap_or(0)
    }

    /// Returns the highest rate of `event` per second in any one bucket of the window. For
    /// successes, Sentinel calls this `maxSuccessQps`.
    ///
    /// Each sum is divided by the length of a bucket. The newest bucket is still filling, and its
    /// sum is divided by the whole length as well. Divided by the elapsed part, the first events of
    /// a bucket would be the maximum.
    #[must_use]
    pub fn max_qps(&self, event: MetricEvent) -> f64 {
        per_second(self.max_of_single_bucket(event), self.framed.config().bucket_nanos())
    }

    /// Returns the totals of the window: the sum of each event; the sum, the mean and the extremes
    /// of the response times; and the highest concurrency. All are of one moment.
    ///
    /// The mean is never above the maximum. A response time that another thread is recording may be
    /// in the number of response times and not yet in their sum; then the mean is too low. If the
    /// response times of one thread in one bucket add up to more than
    /// [`MetricBucket::CEILING`](crate::metric::MetricBucket::CEILING) nanoseconds, the mean is a
    /// lower bound.
    ///
    /// ```
    /// use leaparray::{SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let now = Timestamp::from_secs(60);
    /// for millis in [2, 5] {
    ///     window.record_success_at(now, Duration::from_millis(millis));
    /// }
    /// let totals = window.at(now).totals();
    /// assert_eq!(totals.rt_sum(), Duration::from_millis(7));
    /// assert_eq!(totals.min_rt(), Some(Duration::from_millis(2)));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn totals(&self) -> MetricTotals {
        match self.counts() {
            Ok(view) => view.totals(self.now),
            Err(spread) => spread.totals_in(&self.span()),
        }
    }

    /// Returns the buckets of the window, from the oldest to the newest, including empty buckets.
    /// Their number is the sample count, and smaller only within the first interval after
    /// [`Timestamp::MIN`]. Each bucket is read when the iterator returns it. Sentinel calls this
    /// `values`.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(4, Duration::from_secs(4))?);
    /// let t = Timestamp::from_secs;
    /// for second in 60..64 {
    ///     window.add_at(t(second), MetricEvent::Pass, second);
    /// }
    /// let complete = window.at(t(63)).buckets().filter(|bucket| bucket.start < t(63));
    /// let passes = complete.map(|bucket| bucket.totals.sum(MetricEvent::Pass));
    /// assert!(passes.eq([60, 61, 62]));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = BucketTotals> + use<'a> {
        let reading = *self;
        (0..self.framed.len()).rev().filter_map(move |age| reading.bucket(age))
    }

    /// Returns the quantile `q` of the response times in the window, from 0, the shortest, to 1,
    /// the longest; `None` if `q` is not in this range, if no response time was recorded, or if
    /// there is no [histogram](Self::histogram_into).
    ///
    /// The result is within the [relative error](crate::HistogramConfig::relative_error) of the
    /// response time with the rank ⌈q · count⌉, and rounded to a nanosecond: see
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
    /// let p99 = window.at(now).quantile(0.99).unwrap().as_secs_f64();
    /// assert!((p99 / 0.990 - 1.0).abs() <= histogram.relative_error());
    /// assert_eq!(window.at(now).quantile(1.0), Some(Duration::from_secs(1)));
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles([q]);
        quantile
    }

    /// Returns several quantiles of the response times in the window. All are of one moment, and
    /// each is as in [`quantile`](Self::quantile).
    #[must_use]
    pub fn quantiles<const N: usize>(&self, q: [f64; N]) -> [Option<Duration>; N] {
        with_scratch(|histogram| {
            if self.histogram_into(histogram) { histogram.quantiles(q) } else { [None; N] }
        })
    }

    /// Returns the histogram of the response times in the window; `None` if there is none. See
    /// [`histogram_into`](Self::histogram_into).
    #[must_use]
    pub fn histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.histogram_into(&mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of the response times in the window. Its
    /// memory is used again, so this allocates nothing, unless there are more bins than `into` has
    /// had before, or a node has had several geometries.
    ///
    /// The histogram is of one moment: its count is the number of response times in its bins, its
    /// sum includes no other response time, and its extremes include each of them. A response time
    /// that another thread is recording may be in a bin and not yet in the sum.
    ///
    /// If a node has had several [geometries](crate::ResourceNode::reconfigure), the histogram is
    /// the merge of theirs, at the coarsest scale of those that have response times in the window.
    ///
    /// Returns `false`, with any contents in `into`, if the window was made without a
    /// [histogram](crate::SlidingWindow::with_histogram), if the node has
    /// [none](crate::NodeConfig::with_histogram), or if response times in the window were recorded
    /// under a geometry without one.
    pub fn histogram_into(&self, into: &mut LatencyHistogram) -> bool {
        match self.counts() {
            Ok(view) => view.array.histogram_into(self.framed.covered(self.now), into).is_some(),
            Err(spread) => spread.totals_and_histogram_in(&self.span(), into).1,
        }
    }

    /// Returns the totals of everything that was ever recorded, by whether it is in the window,
    /// expired or late: recorded = in the window + expired + late.
    ///
    /// The ledger is coherent: it counts each add once. It includes every add that returned before
    /// the call, and may include adds that other threads make during the call. From call to call,
    /// [`recorded`](Ledger::recorded) never decreases. The reserved permits of a node always count
    /// as in the window.
    #[must_use]
    pub fn ledger(&self) -> Ledger<MetricTotals> {
        match self.counts() {
            Ok(view) => view.array.ledger(&self.framed.covered(self.now)),
            Err(spread) => spread.ledger_in(&self.span()),
        }
    }

    /// Returns the time that the window covers: the start of its oldest bucket, the number of
    /// buckets of the array in it, and the divisor of its rates.
    ///
    /// ```
    /// use leaparray::{ManualClock, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let minute = WindowConfig::new(120, Duration::from_secs(60))?;
    /// let minute = SlidingWindow::with_clock(minute, ManualClock::new(Timestamp::MIN));
    /// let second = minute.view(WindowConfig::new(1, Duration::from_secs(1))?)?;
    /// let coverage = second.at(Timestamp::from_millis(100_200)).coverage();
    /// assert_eq!(coverage.buckets, 2);
    /// assert_eq!(coverage.start, Timestamp::from_millis(99_500));
    /// assert_eq!(coverage.covered, Duration::from_millis(700));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let numbers = self.framed.covered(self.now);
        Coverage {
            start: self.span().start(),
            buckets: numbers.end() - numbers.start() + 1,
            covered: Duration::from_nanos(self.framed.covered_nanos(self.now)),
        }
    }

    /// Returns the array that has all counts, or else the counts by span.
    ///
    /// For each read, and not once for the reading: a count that is recorded in another array after
    /// the reading was made is in each read that begins later.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that no reading is made in memory")]
    fn counts(&self) -> Result<View<'a>, &'a dyn Spread> {
        let array = match self.counts {
            ReadFrom::Array(array) => array,
            ReadFrom::Spread(spread) => spread.one_array().ok_or(spread)?,
        };
        Ok(self.framed.view_of(array))
    }

    fn span(&self) -> Span {
        self.framed.span(self.now)
    }

    /// Returns the sum of `event` over the bucket that is `age` buckets before the bucket of `now`;
    /// `None` before the beginning of time.
    fn sum_of_sample(&self, age: u64, event: MetricEvent) -> Option<u64> {
        match self.counts() {
            Ok(view) => view.sum_of_sample(self.now, age, event),
            Err(spread) => Some(spread.sum_in(&self.framed.sample(self.now, age)?, event)),
        }
    }

    /// Returns the bucket that is `age` buckets before the bucket of `now`; `None` before the
    /// beginning of time.
    fn bucket(&self, age: u64) -> Option<BucketTotals> {
        let (start, totals) = match self.counts() {
            Ok(view) => view.totals_of_sample(self.now, age)?,
            Err(spread) => {
                let span = self.framed.sample(self.now, age)?;
                (span.start(), spread.totals_in(&span))
            }
        };
        Some(BucketTotals { start, totals })
    }
}

/// Returns the sum of `event` over a window whose counts are in several arrays. Apart from the
/// methods that call it, which are small enough to be inlined without it.
#[inline(never)]
fn sum_of_spread(
    spread: &dyn Spread,
    framed: Framed<'_>,
    now: Timestamp,
    event: MetricEvent,
) -> u64 {
    spread.sum_in(&framed.span(now), event)
}

impl fmt::Debug for WindowReading<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WindowReading")
            .field("now", &self.now)
            .field("config", self.framed.config())
            .finish_non_exhaustive()
    }
}
