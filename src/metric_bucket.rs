//! The counters of one bucket, and what they read.

use std::ops::AddAssign;
use std::time::Duration;

use crate::bucket::Bucket;
use crate::cell::{CEILING, Counter, Maximum, Minimum};
use crate::event::MetricEvent;
use crate::sync::Ordering;
use crate::timestamp::saturating_nanos;

/// One counter for each [`MetricEvent`], the extremes of the response time, and the highest
/// concurrency; what Sentinel calls `MetricBucket`.
///
/// Counters neither wrap nor lose: each ends at [`MetricBucket::CEILING`], and one that reads it
/// says "at least that".
///
/// ```
/// use leaparray::{Bucket, MetricBucket, MetricEvent};
/// use std::time::Duration;
///
/// let bucket = MetricBucket::default();
/// bucket.add(MetricEvent::Pass, 2);
/// bucket.record_rt(Duration::from_millis(3));
/// bucket.record_rt(Duration::from_millis(5));
/// assert_eq!(bucket.sum(MetricEvent::Pass), 2);
///
/// let totals = bucket.total();
/// assert_eq!(totals.avg_rt(), Some(Duration::from_millis(4)));
/// assert_eq!(totals.min_rt(), Some(Duration::from_millis(3)));
/// ```
#[derive(Debug)]
pub struct MetricBucket {
    events: [Counter; MetricEvent::COUNT],
    rt_count: Counter,
    min_rt: Minimum,
    max_rt: Maximum,
    max_concurrency: Maximum,
}

impl MetricBucket {
    /// Where a counter of one bucket saturates: 2⁶², in nanoseconds 146 years.
    pub const CEILING: u64 = CEILING;

    /// Adds `count` of `event`. A count cannot be negative: a total only grows.
    ///
    /// A count of [`MetricEvent::Rt`] is one response time of so many nanoseconds.
    pub fn add(&self, event: MetricEvent, count: u64) {
        if let MetricEvent::Rt = event {
            self.record_rt_nanos(count);
        } else {
            // Relaxed: a counter orders nothing else. Who must see it is ordered by what told
            // them that the add has returned.
            self.events[event as usize].add(count, Ordering::Relaxed);
        }
    }

    /// Records one response time, at most [`Self::CEILING`] nanoseconds.
    pub fn record_rt(&self, rt: Duration) {
        self.record_rt_nanos(saturating_nanos(rt));
    }

    fn record_rt_nanos(&self, nanos: u64) {
        self.min_rt.record(nanos);
        self.max_rt.record(nanos);
        self.rt_count.add(1, Ordering::Relaxed);
        // Release: pairs with the Acquire in `rt`. Whose sum has this response time has its count
        // and its extremes too, so that no mean is above the maximum.
        self.events[MetricEvent::Rt as usize].add(nanos, Ordering::Release);
    }

    /// Records that `concurrency` requests were under way at once.
    pub fn record_concurrency(&self, concurrency: u64) {
        self.max_concurrency.record(concurrency);
    }

    /// The sum of what was added of `event`: for [`MetricEvent::Rt`] in nanoseconds.
    #[must_use]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        self.events[event as usize].get(Ordering::Relaxed)
    }

    /// The sum of the response times in nanoseconds, and how many there were.
    pub(crate) fn rt(&self) -> (u64, u64) {
        // Acquire: pairs with the Release in `record_rt_nanos`. The sum is read first.
        let nanos = self.events[MetricEvent::Rt as usize].get(Ordering::Acquire);
        (nanos, self.rt_count.get(Ordering::Relaxed))
    }

    /// The shortest response time recorded.
    #[must_use]
    pub fn min_rt(&self) -> Option<Duration> {
        self.min_rt.get().map(Duration::from_nanos)
    }

    /// The longest response time recorded.
    #[must_use]
    pub fn max_rt(&self) -> Option<Duration> {
        self.max_rt.get().map(Duration::from_nanos)
    }

    /// The highest concurrency recorded.
    #[must_use]
    pub fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency.get()
    }
}

impl Default for MetricBucket {
    fn default() -> Self {
        Self {
            events: std::array::from_fn(|_| Counter::new()),
            rt_count: Counter::new(),
            min_rt: Minimum::new(),
            max_rt: Maximum::new(),
            max_concurrency: Maximum::new(),
        }
    }
}

impl Bucket for MetricBucket {
    type Total = MetricTotals;

    fn total(&self) -> MetricTotals {
        let (rt_nanos, rt_count) = self.rt();
        MetricTotals {
            events: MetricEvent::ALL.map(|event| self.sum(event)),
            rt_nanos: rt_nanos.into(),
            rt_count,
            min_rt: self.min_rt(),
            max_rt: self.max_rt(),
            max_concurrency: self.max_concurrency(),
        }
    }
}

/// What one or many [`MetricBucket`]s add up to: plain data.
///
/// Sums saturate at `u64::MAX`; response times are summed without any bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricTotals {
    /// The slot of `Rt` is not read: `rt_nanos` has it without a bound.
    events: [u64; MetricEvent::COUNT],
    rt_nanos: u128,
    rt_count: u64,
    min_rt: Option<Duration>,
    max_rt: Option<Duration>,
    max_concurrency: Option<u64>,
}

impl MetricTotals {
    /// The sum of what was added of `event`: for [`MetricEvent::Rt`] in nanoseconds, cut at
    /// `u64::MAX`.
    #[must_use]
    pub fn sum(&self, event: MetricEvent) -> u64 {
        match event {
            MetricEvent::Rt => self.rt_nanos.try_into().unwrap_or(u64::MAX),
            _ => self.events[event as usize],
        }
    }

    /// How many response times were recorded.
    #[must_use]
    pub const fn rt_count(&self) -> u64 {
        self.rt_count
    }

    /// The mean of the response times, rounded down to the nanosecond; `None` if there was none.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        mean(self.rt_nanos, self.rt_count)
    }

    /// The shortest response time; `None` if there was none.
    #[must_use]
    pub const fn min_rt(&self) -> Option<Duration> {
        self.min_rt
    }

    /// The longest response time; `None` if there was none.
    #[must_use]
    pub const fn max_rt(&self) -> Option<Duration> {
        self.max_rt
    }

    /// The highest concurrency; `None` if none was recorded.
    #[must_use]
    pub const fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency
    }
}

impl AddAssign<&Self> for MetricTotals {
    fn add_assign(&mut self, other: &Self) {
        for (sum, count) in self.events.iter_mut().zip(other.events) {
            *sum = sum.saturating_add(count);
        }
        self.rt_nanos = self.rt_nanos.saturating_add(other.rt_nanos);
        self.rt_count = self.rt_count.saturating_add(other.rt_count);
        self.min_rt = self.min_rt.into_iter().chain(other.min_rt).min();
        self.max_rt = self.max_rt.max(other.max_rt);
        self.max_concurrency = self.max_concurrency.max(other.max_concurrency);
    }
}

/// The mean of response times that sum to `nanos`.
///
/// A mean of 2⁶² ns at most per response time fits a `u64`; the cut is for totals made by hand.
pub(crate) fn mean(nanos: u128, count: u64) -> Option<Duration> {
    let mean = nanos.checked_div(count.into())?;
    Some(Duration::from_nanos(mean.try_into().unwrap_or(u64::MAX)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn bucket(event: MetricEvent, rts: [u64; 2], concurrency: u64) -> MetricTotals {
        let bucket = MetricBucket::default();
        bucket.add(event, 5);
        for rt in rts {
            bucket.record_rt(Duration::from_nanos(rt));
        }
        bucket.record_concurrency(concurrency);
        bucket.total()
    }

    #[test]
    fn totals_add_up_and_keep_the_extremes_of_both() {
        let low = bucket(MetricEvent::Pass, [1, 5], 9);
        let high = bucket(MetricEvent::Block, [3, 7], 2);
        for (mut sum, other) in [(low.clone(), &high), (high.clone(), &low)] {
            sum += other;
            assert_eq!(MetricEvent::ALL.map(|event| sum.sum(event)), [5, 5, 0, 0, 16, 0]);
            assert_eq!((sum.rt_count(), sum.avg_rt()), (4, Some(Duration::from_nanos(4))));
            assert_eq!(sum.min_rt(), Some(Duration::from_nanos(1)));
            assert_eq!(sum.max_rt(), Some(Duration::from_nanos(7)));
            assert_eq!(sum.max_concurrency(), Some(9));
        }
        let mut same = low.clone();
        same += &MetricTotals::default();
        assert_eq!(same, low, "nothing added");
        let mut empty = MetricTotals::default();
        empty += &low;
        assert_eq!(empty, low, "added to nothing");
    }
}
