//! Readings of a window.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::SlidingWindow;
use crate::array::Ledger;
use crate::metric::{MetricEvent, MetricTotals};
use crate::time::{Clock, Span, Timestamp, run};

/// The totals of one bucket of a [`SlidingWindow`]: plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BucketTotals {
    /// The start of the bucket.
    pub start: Timestamp,
    /// Its totals.
    pub totals: MetricTotals,
}

impl<C: Clock> SlidingWindow<C> {
    /// The sum of `event` over the window now.
    #[inline]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.sum_at(self.clock.now(), event)
    }

    /// The sum of `event` over the window at `now`: for [`MetricEvent::Rt`] in nanoseconds. It
    /// saturates at `u64::MAX`.
    #[inline]
    pub fn sum_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.totals(now).sum(event),
            event => self.sums_at(now, [event])[0],
        }
    }

    /// The rate of `event` per second over the window now.
    #[inline]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.qps_at(self.clock.now(), event)
    }

    /// The rate of `event` per second over the window at `now`.
    ///
    /// The divisor is the interval. If the window is younger, it is the time from the start of the bucket in which the
    /// window was made to the end of the current one. So the rate of a new window is not too low, to within a bucket.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = WindowConfig::new(10, Duration::from_secs(10))?;
    /// let window = SlidingWindow::with_clock(config, clock.clone());
    /// for _ in 0..3 {
    ///     window.add(MetricEvent::Pass, 50);
    ///     assert_eq!(window.qps(MetricEvent::Pass), 50.0);
    ///     clock.advance(Duration::from_secs(1));
    /// }
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[inline]
    pub fn qps_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        per_second(self.sum_at(now, event), self.observed_secs(now))
    }

    /// The rate of `event` per second over the bucket before the current one; `None` if the array is
    /// too short to keep it.
    pub fn previous_qps(&self, event: MetricEvent) -> Option<f64> {
        self.previous_qps_at(self.clock.now(), event)
    }

    /// The rate of `event` per second over the bucket before the one of `now`, the last complete one; `None` if the array is
    /// too short to keep it, as an array of one bucket is.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// window.add_at(Timestamp::from_millis(700), MetricEvent::Pass, 30);
    /// let previous = window.previous_qps_at(Timestamp::from_millis(1_200), MetricEvent::Pass);
    /// assert_eq!(previous, Some(60.0));
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn previous_qps_at(&self, now: Timestamp, event: MetricEvent) -> Option<f64> {
        let len = self.buckets_per_sample;
        if 2 * len > self.array.config().sample_count() as u64 {
            return None;
        }
        let newest = self.array.config().bucket_number(now);
        let sum = newest.checked_sub(len).map_or(0, |last| self.sum_of(run(last, len), event));
        Some(per_second(sum, self.config.bucket_len().as_secs_f64()))
    }

    /// The largest sum of `event` in any one bucket of the window now.
    pub fn max_of_single_bucket(&self, event: MetricEvent) -> u64 {
        self.max_of_single_bucket_at(self.clock.now(), event)
    }

    /// The largest sum of `event` in any one bucket of the window at `now`.
    pub fn max_of_single_bucket_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        self.samples(now).map(|numbers| self.sum_of(numbers, event)).max().unwrap_or(0)
    }

    /// The mean response time over the window now; `None` if there was none.
    #[inline]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.avg_rt_at(self.clock.now())
    }

    /// The mean response time over the window at `now`, rounded down to the nanosecond; `None` if
    /// there was none.
    ///
    /// The mean is never above the maximum. While a thread records a response time, the sum may lack it, so the mean may be
    /// too low. If the response times of one thread in one bucket add up to more than
    /// [`MetricBucket::CEILING`](crate::MetricBucket::CEILING), the mean is a lower bound.
    #[inline]
    pub fn avg_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).avg_rt()
    }

    /// The shortest response time over the window now; `None` if there was none.
    pub fn min_rt(&self) -> Option<Duration> {
        self.min_rt_at(self.clock.now())
    }

    /// The shortest response time over the window at `now`; `None` if there was none.
    pub fn min_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).min_rt()
    }

    /// The longest response time over the window now; `None` if there was none.
    pub fn max_rt(&self) -> Option<Duration> {
        self.max_rt_at(self.clock.now())
    }

    /// The longest response time over the window at `now`; `None` if there was none.
    pub fn max_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).max_rt()
    }

    /// The highest concurrency that was recorded in the window now; `None` if none was.
    pub fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency_at(self.clock.now())
    }

    /// The highest concurrency that was recorded in the window at `now`; `None` if none was.
    pub fn max_concurrency_at(&self, now: Timestamp) -> Option<u64> {
        self.totals(now).max_concurrency()
    }

    /// The buckets of the window now, from the oldest to the newest.
    pub fn buckets(&self) -> impl Iterator<Item = BucketTotals> {
        self.buckets_at(self.clock.now())
    }

    /// The buckets of the window at `now`, from the oldest to the newest, including empty ones. There are fewer than the
    /// sample count only at the beginning of time.
    pub fn buckets_at(&self, now: Timestamp) -> impl Iterator<Item = BucketTotals> {
        self.buckets_conditional(now, |_| true)
    }

    /// The buckets of [`buckets_at`](Self::buckets_at) whose start `predicate` accepts: Sentinel's `valuesConditional`.
    ///
    /// The predicate is called once for each bucket, before the bucket is read.
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
    /// let complete = window.buckets_conditional(t(63), |start| start < t(63));
    /// let passes = complete.map(|bucket| bucket.totals.sum(MetricEvent::Pass));
    /// assert!(passes.eq([60, 61, 62]));
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn buckets_conditional(
        &self,
        now: Timestamp,
        mut predicate: impl FnMut(Timestamp) -> bool,
    ) -> impl Iterator<Item = BucketTotals> {
        let start_of =
            |numbers: &RangeInclusive<u64>| self.array.config().start_of(*numbers.start());
        self.samples(now).filter(move |numbers| predicate(start_of(numbers))).map(move |numbers| {
            BucketTotals { start: start_of(&numbers), totals: self.array.totals(numbers) }
        })
    }

    /// All counts, by whether the window covers them now.
    pub fn ledger(&self) -> Ledger<MetricTotals> {
        self.ledger_at(self.clock.now())
    }

    /// All counts, by whether the window at `now` covers them: recorded = in the window + expired + late.
    ///
    /// The ledger is coherent: it has each add once. It has every add that returned before the call, and may have adds
    /// that other threads make at the same time. From call to call, [`recorded`](Ledger::recorded) only grows.
    pub fn ledger_at(&self, now: Timestamp) -> Ledger<MetricTotals> {
        self.array.ledger(&self.covered(now))
    }

    /// The totals since the window was made: in the window, expired and late. They only grow.
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
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn lifetime(&self) -> MetricTotals {
        self.ledger_at(Timestamp::MIN).recorded()
    }

    /// The time that this window covers at `now`.
    pub(crate) fn span(&self, now: Timestamp) -> Span {
        Span::until_now(self.array.config().start_of(*self.covered(now).start()), now)
    }

    /// The bucket of this window that is `age` buckets before the one of `now`; `None` before the beginning of time.
    pub(crate) fn sample(&self, now: Timestamp, age: u64) -> Option<Span> {
        let len = self.buckets_per_sample;
        let config = self.array.config();
        let last = config.bucket_number(now).checked_sub(age * len)?;
        let first = *run(last, len).start();
        Some(Span::of(config.start_of(first), (last - first + 1) * config.bucket_nanos()))
    }

    /// The array's buckets that this window covers at `now`, cut at the beginning of time.
    fn covered(&self, now: Timestamp) -> RangeInclusive<u64> {
        run(self.array.config().bucket_number(now), self.array_len as u64)
    }

    /// The totals of the window at `now`.
    fn totals(&self, now: Timestamp) -> MetricTotals {
        self.array.totals(self.covered(now))
    }

    /// The buckets of the array in each bucket of this window, from the oldest to the newest.
    fn samples(&self, now: Timestamp) -> impl Iterator<Item = RangeInclusive<u64>> {
        let len = self.buckets_per_sample;
        let newest = self.array.config().bucket_number(now);
        let ages = (0..self.config.sample_count() as u64).rev();
        ages.filter_map(move |age| Some(run(newest.checked_sub(age * len)?, len)))
    }

    #[inline]
    fn sum_of(&self, numbers: RangeInclusive<u64>, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.array.totals(numbers).sum(event),
            event => self.array.sums(numbers, [event])[0],
        }
    }

    /// The sums of some events over the window at `now`, of one moment.
    #[inline]
    pub(crate) fn sums_at<const K: usize>(
        &self,
        now: Timestamp,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        match self.array.steady_sums::<false, K>(now, self.steady_within, events) {
            Some(sums) => sums,
            None => self.other_sums_at(now, events),
        }
    }

    #[inline(never)]
    fn other_sums_at<const K: usize>(&self, now: Timestamp, events: [MetricEvent; K]) -> [u64; K] {
        match self.array.steady_sums::<true, K>(now, self.steady_within, events) {
            Some(sums) => sums,
            None => self.array.sums(self.covered(now), events),
        }
    }

    /// The seconds of the interval up to the end of the bucket of `now` during which this window has existed. For a `now`
    /// before the window was made, as when recorded times are played back, the whole interval.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "buckets of a window, at most 2²⁰")]
    pub(crate) fn observed_secs(&self, now: Timestamp) -> f64 {
        let age = now.as_nanos().checked_sub(self.made.as_nanos());
        let Some(age) = age.filter(|&age| age < self.whole_at) else { return self.interval_secs };
        let array = self.array.config();
        let buckets = 1 + age / array.bucket_nanos();
        array.bucket_len().as_secs_f64() * buckets as f64
    }
}

/// A rate; its relative error is that of an `f64`, some 10⁻¹⁶.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "that is the error")]
pub(crate) fn per_second(sum: u64, secs: f64) -> f64 {
    sum as f64 / secs
}
