//! Reads of an array: the geometry, and the reads that it selects.

use std::ops::RangeInclusive;

use super::coverage::{RateDivisor, per_second};
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::time::{Span, Timestamp, ViewError, WindowConfig, run};

/// The geometry of reads, as far as it does not follow from the geometry of the array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The geometry of reads. Equal to the geometry of the array, unless the window is a view.
    config: WindowConfig,
    /// The number of buckets of the array in one bucket of the window.
    buckets_per_sample: u64,
    /// The number of buckets of the array that the window covers.
    array_len: usize,
    /// A read less than this number of nanoseconds after the start of the newest bucket may be
    /// [steady](MetricArray::steady_sums). It is the length of a bucket, or 0 for a view that
    /// covers fewer buckets than the array.
    steady_within: u64,
    divisor: RateDivisor,
}

/// Two geometries: that of an array, and that of reads of it. They tell which buckets of the array
/// the window covers at a time, and by which time its rates are divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed<'a> {
    array: &'a WindowConfig,
    frame: &'a Frame,
}

/// An array, and the geometry of reads of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(super) array: &'a MetricArray,
    pub(super) frame: &'a Frame,
}

impl Frame {
    /// Creates the geometry of a window that covers a whole array, made at the time `made`.
    pub(crate) fn new(config: WindowConfig, made: Timestamp) -> Self {
        Self {
            config,
            buckets_per_sample: 1,
            array_len: config.sample_count(),
            steady_within: config.bucket_nanos(),
            divisor: RateDivisor::new(made, &config, config.sample_count()),
        }
    }

    /// Returns another geometry of reads of the same array.
    pub(crate) fn view(
        &self,
        array: &WindowConfig,
        config: WindowConfig,
    ) -> Result<Self, ViewError> {
        let buckets_per_sample = config.buckets_per_sample(array)?;
        // Does not overflow: the product divides the sample count of the array.
        let array_len = config.sample_count() * usize::try_from(buckets_per_sample).unwrap_or(1);
        let covers_all = array_len == array.sample_count();
        let steady_within = if covers_all { array.bucket_nanos() } else { 0 };
        let divisor = RateDivisor::new(self.made(), array, array_len);
        Ok(Self { config, buckets_per_sample, array_len, steady_within, divisor })
    }

    pub(crate) const fn config(&self) -> &WindowConfig {
        &self.config
    }

    pub(super) const fn made(&self) -> Timestamp {
        self.divisor.made
    }
}

impl<'a> Framed<'a> {
    pub(crate) const fn new(array: &'a WindowConfig, frame: &'a Frame) -> Self {
        Self { array, frame }
    }

    /// Returns the view of an array of this geometry.
    #[inline]
    pub(super) const fn view_of(self, array: &'a MetricArray) -> View<'a> {
        View { array, frame: self.frame }
    }

    /// Returns the geometry of reads.
    pub(crate) const fn config(self) -> &'a WindowConfig {
        &self.frame.config
    }

    /// Returns the number of buckets of the window.
    pub(super) const fn len(self) -> u64 {
        self.frame.config.sample_count() as u64
    }

    /// Returns the time that the window covers at `now`.
    pub(crate) fn span(self, now: Timestamp) -> Span {
        Span::until_now(self.array.start_of(*self.covered(now).start()), now)
    }

    /// Returns the numbers of the array's buckets that the window covers at `now`, cut at the
    /// beginning of time.
    pub(super) fn covered(self, now: Timestamp) -> RangeInclusive<u64> {
        self.newest(now, self.frame.array_len as u64)
    }

    /// Returns the numbers of the array's newest `len` buckets at `now`, cut at the beginning of
    /// time.
    fn newest(self, now: Timestamp, len: u64) -> RangeInclusive<u64> {
        run(self.array.bucket_number(now), len)
    }

    /// Returns the numbers of the array's buckets in the bucket of the window that is `age` buckets
    /// before the bucket of `now`; `None` before the beginning of time.
    fn numbers_of_sample(self, now: Timestamp, age: u64) -> Option<RangeInclusive<u64>> {
        let len = self.frame.buckets_per_sample;
        let last = self.array.bucket_number(now).checked_sub(age * len)?;
        Some(run(last, len))
    }

    /// Returns the bucket of the window that is `age` buckets before the bucket of `now`; `None`
    /// before the beginning of time.
    pub(crate) fn sample(self, now: Timestamp, age: u64) -> Option<Span> {
        let numbers = self.numbers_of_sample(now, age)?;
        let (first, last) = numbers.into_inner();
        let array = self.array;
        Some(Span::of(array.start_of(first), (last - first + 1) * array.bucket_nanos()))
    }

    /// Returns the divisor of rates at `now`, in nanoseconds.
    #[inline]
    pub(crate) fn covered_nanos(self, now: Timestamp) -> u64 {
        self.frame.divisor.at_age(now, self.array.bucket_and_age(now).1)
    }

    /// Returns the divisor of the rate in the last complete bucket of the window at `now`, in
    /// nanoseconds.
    pub(crate) fn covered_nanos_of_previous(self, now: Timestamp) -> u64 {
        let array = self.array;
        // The current bucket of the window ends with the bucket of `now`, and so begins this number
        // of buckets later.
        let begins = (array.bucket_number(now) + 1).saturating_sub(self.frame.buckets_per_sample);
        let end = array.start_of(begins).as_nanos();
        self.frame.divisor.before(end, self.frame.config.bucket_nanos().min(end))
    }

    /// Returns whether the array keeps the last complete bucket of the window.
    pub(crate) fn keeps_previous(self) -> bool {
        2 * self.frame.buckets_per_sample <= self.array.sample_count() as u64
    }
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn framed(self) -> Framed<'a> {
        Framed { array: self.array.config(), frame: self.frame }
    }

    /// Returns the totals of the window at `now`.
    pub(super) fn totals(self, now: Timestamp) -> MetricTotals {
        self.array.totals(self.framed().covered(now))
    }

    /// Returns the start and the totals of the bucket of the window that is `age` buckets before
    /// the bucket of `now`; `None` before the beginning of time.
    pub(super) fn totals_of_sample(
        self,
        now: Timestamp,
        age: u64,
    ) -> Option<(Timestamp, MetricTotals)> {
        let numbers = self.framed().numbers_of_sample(now, age)?;
        Some((self.array.config().start_of(*numbers.start()), self.array.totals(numbers)))
    }

    /// Returns the sum of `event` over the window at `now`.
    #[inline]
    pub(super) fn sum(self, now: Timestamp, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.totals(now).sum(event),
            event => self.sums(now, [event])[0],
        }
    }

    /// Returns the rate of `event` per second over the window at `now`.
    #[inline]
    pub(super) fn qps(self, now: Timestamp, event: MetricEvent) -> f64 {
        if event != MetricEvent::Rt {
            // The steady read already has the age of the bucket, which otherwise takes a division.
            let steady = self.array.steady_sums::<false, 1>(now, self.frame.steady_within, [event]);
            if let Some(([sum], age)) = steady {
                return per_second(sum, self.frame.divisor.at_age(now, age));
            }
        }
        self.other_qps(now, event)
    }

    #[inline(never)]
    fn other_qps(self, now: Timestamp, event: MetricEvent) -> f64 {
        if event != MetricEvent::Rt {
            let steady = self.array.steady_sums::<true, 1>(now, self.frame.steady_within, [event]);
            if let Some(([sum], age)) = steady {
                return per_second(sum, self.frame.divisor.at_age(now, age));
            }
        }
        let sum = match event {
            MetricEvent::Rt => self.totals(now).sum(event),
            event => self.array.sums(self.framed().covered(now), [event])[0],
        };
        per_second(sum, self.framed().covered_nanos(now))
    }

    /// Returns the sum of `event` over the bucket of the window that is `age` buckets before the
    /// bucket of `now`; `None` before the beginning of time.
    pub(super) fn sum_of_sample(self, now: Timestamp, age: u64, event: MetricEvent) -> Option<u64> {
        match event {
            MetricEvent::Rt => self.totals_of_sample(now, age).map(|(_, totals)| totals.sum(event)),
            event => self.sums_of_sample(now, age, [event]).map(|[sum]| sum),
        }
    }

    /// Returns the sums of some events over the bucket of the window that is `age` buckets before
    /// the bucket of `now`; `None` before the beginning of time.
    pub(crate) fn sums_of_sample<const K: usize>(
        self,
        now: Timestamp,
        age: u64,
        events: [MetricEvent; K],
    ) -> Option<[u64; K]> {
        Some(self.array.sums(self.framed().numbers_of_sample(now, age)?, events))
    }

    /// Returns the sums of some events over the window at `now`. All sums are of one moment.
    #[inline]
    pub(crate) fn sums<const K: usize>(self, now: Timestamp, events: [MetricEvent; K]) -> [u64; K] {
        match self.array.steady_sums::<false, K>(now, self.frame.steady_within, events) {
            Some((sums, _)) => sums,
            None => self.other_sums(now, events),
        }
    }

    #[inline(never)]
    fn other_sums<const K: usize>(self, now: Timestamp, events: [MetricEvent; K]) -> [u64; K] {
        match self.array.steady_sums::<true, K>(now, self.frame.steady_within, events) {
            Some((sums, _)) => sums,
            None => self.array.sums(self.framed().covered(now), events),
        }
    }
}
