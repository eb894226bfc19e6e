//! Reads of a window.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::SlidingWindow;
use super::coverage::per_second;
use crate::array::Ledger;
use crate::metric::{MetricEvent, MetricTotals};
use crate::time::{Clock, Span, Timestamp, run, saturating_nanos};

/// The totals of one bucket of a [`SlidingWindow`]: plain data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct BucketTotals {
    /// The start of the bucket.
    pub start: Timestamp,
    /// The totals of the bucket.
    pub totals: MetricTotals,
}

impl<C: Clock> SlidingWindow<C> {
    /// Returns the sum of `event` over the window now; see [`sum_at`](Self::sum_at).
    #[inline]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.sum_at(self.clock.now(), event)
    }

    /// Returns the sum of `event` over the window at `now`. The sum of [`MetricEvent::Rt`] is in
    /// nanoseconds. Sums saturate at `u64::MAX`.
    #[inline]
    pub fn sum_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.totals(now).sum(event),
            event => self.sums_at(now, [event])[0],
        }
    }

    /// Returns the rate of `event` per second over the window now; see [`qps_at`](Self::qps_at).
    #[inline]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.qps_at(self.clock.now(), event)
    }

    /// Returns the rate of `event` per second over the window at `now`.
    ///
    /// The rate is the sum divided by the time that the window covers: from the start of its oldest
    /// bucket, or from the time at which the window was made if that is later, up to `now`. So at a
    /// steady rate R, the result is R at every `now`: if the time that is covered is T, the sum
    /// differs from R · T by at most 1. A rate that divides by the whole interval, as Sentinel's
    /// does, is too low by up to 1/n with n buckets; it is
    /// [`qps_over_interval_at`](Self::qps_over_interval_at).
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
    /// assert_eq!(window.sum(MetricEvent::Pass), 701);
    /// assert_eq!(window.qps(MetricEvent::Pass).round(), 1_001.0);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[inline]
    pub fn qps_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        if event != MetricEvent::Rt {
            // The steady read already has the age of the bucket, which otherwise takes a division.
            let steady = self.array.steady_sums::<false, 1>(now, self.steady_within, [event]);
            if let Some(([sum], age)) = steady {
                return per_second(sum, self.covered_nanos_at_age(now, age));
            }
        }
        self.other_qps_at(now, event)
    }

    #[inline(never)]
    fn other_qps_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        let sum = match event {
            MetricEvent::Rt => self.totals(now).sum(event),
            event => self.other_sums_at(now, [event])[0],
        };
        per_second(sum, self.covered_nanos(now))
    }

    /// Returns the sum of `event` over the window now, divided by the interval; see
    /// [`qps_over_interval_at`](Self::qps_over_interval_at).
    #[inline]
    pub fn qps_over_interval(&self, event: MetricEvent) -> f64 {
        self.qps_over_interval_at(self.clock.now(), event)
    }

    /// Returns the sum of `event` over the window at `now`, divided by the whole interval, per
    /// second. Sentinel calls this `passQps`, `blockQps` and so on.
    ///
    /// This is the number to compare with a limit on the events of a window. As a rate, it is too
    /// low by up to 1/n with n buckets; see [`qps_at`](Self::qps_at).
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
    /// assert_eq!(window.qps_over_interval(MetricEvent::Pass), 10.0);
    /// assert_eq!(window.qps(MetricEvent::Pass), 40.0);
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    #[inline]
    pub fn qps_over_interval_at(&self, now: Timestamp, event: MetricEvent) -> f64 {
        per_second(self.sum_at(now, event), saturating_nanos(self.config.interval()))
    }

    /// Returns the rate of `event` per second over the last complete bucket; `None` if the array is
    /// too short to keep that bucket.
    pub fn previous_qps(&self, event: MetricEvent) -> Option<f64> {
        self.previous_qps_at(self.clock.now(), event)
    }

    /// Returns the rate of `event` per second over the bucket before the bucket of `now`, which is
    /// the last complete bucket; `None` if the array is too short to keep that bucket, as an array
    /// of a single bucket is.
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
        Some(per_second(sum, self.covered_nanos_of_previous(now)))
    }

    /// Returns the largest sum of `event` in any one bucket of the window now.
    pub fn max_of_single_bucket(&self, event: MetricEvent) -> u64 {
        self.max_of_single_bucket_at(self.clock.now(), event)
    }

    /// Returns the largest sum of `event` in any one bucket of the window at `now`. The sum of
    /// [`MetricEvent::Rt`] is in nanoseconds.
    pub fn max_of_single_bucket_at(&self, now: Timestamp, event: MetricEvent) -> u64 {
        self.samples(now).map(|numbers| self.sum_of(numbers, event)).max().unwrap_or(0)
    }

    /// Returns the sum of the response times over the window now; see
    /// [`rt_sum_at`](Self::rt_sum_at).
    pub fn rt_sum(&self) -> Duration {
        self.rt_sum_at(self.clock.now())
    }

    /// Returns the sum of the response times over the window at `now`; zero if there was none. The
    /// sum of [`MetricEvent::Rt`] is the same in nanoseconds, cut at `u64::MAX`.
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
    /// assert_eq!(window.rt_sum_at(now), Duration::from_millis(7));
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn rt_sum_at(&self, now: Timestamp) -> Duration {
        self.totals(now).rt_sum()
    }

    /// Returns the mean response time over the window now; `None` if there was none.
    #[inline]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.avg_rt_at(self.clock.now())
    }

    /// Returns the mean response time over the window at `now`, rounded down to the nanosecond;
    /// `None` if there was none.
    ///
    /// The mean is never above the maximum. A response time that another thread is recording may be
    /// in the number of response times and not yet in their sum; then the mean is too low. If the
    /// response times of one thread in one bucket add up to more than
    /// [`MetricBucket::CEILING`](crate::MetricBucket::CEILING) nanoseconds, the mean is a lower
    /// bound.
    #[inline]
    pub fn avg_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).avg_rt()
    }

    /// Returns the shortest response time in the window now; `None` if there was none.
    pub fn min_rt(&self) -> Option<Duration> {
        self.min_rt_at(self.clock.now())
    }

    /// Returns the shortest response time in the window at `now`; `None` if there was none.
    pub fn min_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).min_rt()
    }

    /// Returns the longest response time in the window now; `None` if there was none.
    pub fn max_rt(&self) -> Option<Duration> {
        self.max_rt_at(self.clock.now())
    }

    /// Returns the longest response time in the window at `now`; `None` if there was none.
    pub fn max_rt_at(&self, now: Timestamp) -> Option<Duration> {
        self.totals(now).max_rt()
    }

    /// Returns the highest concurrency that was recorded in the window now; `None` if none was
    /// recorded.
    pub fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency_at(self.clock.now())
    }

    /// Returns the highest concurrency that was recorded in the window at `now`; `None` if none was
    /// recorded.
    pub fn max_concurrency_at(&self, now: Timestamp) -> Option<u64> {
        self.totals(now).max_concurrency()
    }

    /// Returns the buckets of the window now, from the oldest to the newest.
    pub fn buckets(&self) -> impl Iterator<Item = BucketTotals> {
        self.buckets_at(self.clock.now())
    }

    /// Returns the buckets of the window at `now`, from the oldest to the newest, including empty
    /// buckets. Their number is the sample count, and smaller only within the first interval after
    /// [`Timestamp::MIN`].
    pub fn buckets_at(&self, now: Timestamp) -> impl Iterator<Item = BucketTotals> {
        self.buckets_conditional(now, |_| true)
    }

    /// Returns the buckets of [`buckets_at`](Self::buckets_at) whose start `predicate` accepts.
    /// Sentinel calls this `valuesConditional`.
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

    /// Returns the totals of all adds, by whether they are in the window now, expired or late; see
    /// [`ledger_at`](Self::ledger_at).
    pub fn ledger(&self) -> Ledger<MetricTotals> {
        self.ledger_at(self.clock.now())
    }

    /// Returns the totals of all adds, by whether they are in the window at `now`, expired or late:
    /// recorded = in the window + expired + late.
    ///
    /// The ledger is coherent: it counts each add once. It includes every add that returned before
    /// the call, and may include adds that other threads make during the call. From call to call,
    /// [`recorded`](Ledger::recorded) never decreases.
    pub fn ledger_at(&self, now: Timestamp) -> Ledger<MetricTotals> {
        self.array.ledger(&self.covered(now))
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
    /// # Ok::<_, leaparray::ConfigError>(())
    /// ```
    pub fn lifetime(&self) -> MetricTotals {
        self.ledger_at(Timestamp::MIN).recorded()
    }

    /// Returns the time that this window covers at `now`.
    pub(crate) fn span(&self, now: Timestamp) -> Span {
        Span::until_now(self.array.config().start_of(*self.covered(now).start()), now)
    }

    /// Returns the bucket of this window that is `age` buckets before the bucket of `now`; `None`
    /// before the beginning of time.
    pub(crate) fn sample(&self, now: Timestamp, age: u64) -> Option<Span> {
        let len = self.buckets_per_sample;
        let config = self.array.config();
        let last = config.bucket_number(now).checked_sub(age * len)?;
        let first = *run(last, len).start();
        Some(Span::of(config.start_of(first), (last - first + 1) * config.bucket_nanos()))
    }

    /// Returns the sums of some events over the newest `len` buckets of this window at `now`, cut
    /// at the beginning of time. There is at least one.
    pub(crate) fn sums_of_newest_at<const K: usize>(
        &self,
        now: Timestamp,
        len: u64,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        if len >= self.config.sample_count() as u64 {
            return self.sums_at(now, events);
        }
        let newest = self.array.config().bucket_number(now);
        self.array.sums(run(newest, len.max(1) * self.buckets_per_sample), events)
    }

    /// Returns the sums of some events over the bucket of this window that is `age` buckets before
    /// the bucket of `now`; `None` before the beginning of time.
    pub(crate) fn sums_of_sample_at<const K: usize>(
        &self,
        now: Timestamp,
        age: u64,
        events: [MetricEvent; K],
    ) -> Option<[u64; K]> {
        let len = self.buckets_per_sample;
        let last = self.array.config().bucket_number(now).checked_sub(age * len)?;
        Some(self.array.sums(run(last, len), events))
    }

    /// Returns the mean response time over the newest `len` buckets of this window at `now`; `None`
    /// if there was none.
    pub(crate) fn avg_rt_of_newest_at(&self, now: Timestamp, len: u64) -> Option<Duration> {
        if len >= self.config.sample_count() as u64 {
            return self.avg_rt_at(now);
        }
        let newest = self.array.config().bucket_number(now);
        self.array.totals(run(newest, len.max(1) * self.buckets_per_sample)).avg_rt()
    }

    /// Returns the numbers of the array's buckets that this window covers at `now`, cut at the
    /// beginning of time.
    pub(super) fn covered(&self, now: Timestamp) -> RangeInclusive<u64> {
        run(self.array.config().bucket_number(now), self.array_len as u64)
    }

    /// Returns the totals of the window at `now`.
    fn totals(&self, now: Timestamp) -> MetricTotals {
        self.array.totals(self.covered(now))
    }

    /// Returns, for each bucket of this window, the numbers of the array's buckets in it, from the
    /// oldest to the newest.
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

    /// Returns the sums of some events over the window at `now`. All sums are of one moment.
    #[inline]
    pub(crate) fn sums_at<const K: usize>(
        &self,
        now: Timestamp,
        events: [MetricEvent; K],
    ) -> [u64; K] {
        match self.array.steady_sums::<false, K>(now, self.steady_within, events) {
            Some((sums, _)) => sums,
            None => self.other_sums_at(now, events),
        }
    }

    #[inline(never)]
    fn other_sums_at<const K: usize>(&self, now: Timestamp, events: [MetricEvent; K]) -> [u64; K] {
        match self.array.steady_sums::<true, K>(now, self.steady_within, events) {
            Some((sums, _)) => sums,
            None => self.array.sums(self.covered(now), events),
        }
    }
}
