//! The counts of a cell, a row or a part of a ledger, as plain words.

use super::event::MetricEvent;
use super::event_counts::EventCounts;
use super::totals::MetricTotals;

/// The words of [`MetricTotals`], in a form that is cheap to add, to store and to load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// The word of `Rt` is the low half of the sum of the response times in nanoseconds.
    pub(crate) events: [u64; MetricEvent::COUNT],
    pub(crate) rt_nanos_high: u64,
    pub(crate) rt_count: u64,
    /// [`Self::NO_MINIMUM`] if there is none.
    pub(crate) min_rt: u64,
    /// The maximum plus 1, or 0 if there is none. The same applies to `max_concurrency`.
    pub(crate) max_rt: u64,
    pub(crate) max_concurrency: u64,
}

impl Counts {
    /// A number above every response time: a response time is at most 2⁶².
    pub(crate) const NO_MINIMUM: u64 = i64::MAX.cast_unsigned();

    pub(crate) const ZERO: Self = Self {
        events: [0; MetricEvent::COUNT],
        rt_nanos_high: 0,
        rt_count: 0,
        min_rt: Self::NO_MINIMUM,
        max_rt: 0,
        max_concurrency: 0,
    };

    /// Adds other counts. Events saturate; response times are summed without a bound.
    #[inline]
    pub(crate) fn add(&mut self, other: &Self) {
        const RT: usize = MetricEvent::Rt as usize;
        let (low, carry) = self.events[RT].overflowing_add(other.events[RT]);
        for (sum, count) in self.events.iter_mut().zip(other.events) {
            *sum = sum.saturating_add(count);
        }
        self.events[RT] = low;
        self.rt_nanos_high += other.rt_nanos_high + u64::from(carry);
        self.rt_count = self.rt_count.saturating_add(other.rt_count);
        self.min_rt = self.min_rt.min(other.min_rt);
        self.max_rt = self.max_rt.max(other.max_rt);
        self.max_concurrency = self.max_concurrency.max(other.max_concurrency);
    }

    pub(crate) fn totals(&self) -> MetricTotals {
        const RT: usize = MetricEvent::Rt as usize;
        let mut counts = self.events;
        counts[RT] = self.rt_count;
        let rt_nanos = u128::from(self.rt_nanos_high) << 64 | u128::from(self.events[RT]);
        MetricTotals {
            counts: EventCounts { counts, rt_nanos },
            min_rt: Some(self.min_rt).filter(|&min| min != Self::NO_MINIMUM),
            max_rt: self.max_rt.checked_sub(1),
            max_concurrency: self.max_concurrency.checked_sub(1),
        }
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self::ZERO
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn totals_of_a_wide_sum_equal_totals_that_were_added_up() {
        let mut half = Counts::ZERO;
        half.events[MetricEvent::Rt as usize] = 1 << 63;
        let mut sum = half;
        sum.add(&half);
        let mut added = half.totals();
        added += &half.totals();
        assert_eq!(sum.totals(), added);
        assert_eq!(sum.totals().sum(MetricEvent::Rt), u64::MAX);
    }
}
