//! One geometry of a node, with the counts that were recorded under it.

use std::mem;
use std::ops::RangeInclusive;

use super::config::NodeConfig;
use super::reserved::{Permits, Reserved};
use crate::array::{LeapArray, Ledger};
use crate::histogram::LatencyHistogram;
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::SharedArray;
use crate::sync::RacyOnce;
use crate::time::{Clock, Span, Timestamp, WindowConfig};
use crate::window::{Frame, Framed, SlidingWindow};

/// A geometry of a node, with the array of that geometry.
///
/// A generation is kept as long as its node, because a thread that has stalled in the middle of a
/// record may still add to the array. If a geometry is set again, its generation is used again. So
/// a node has one array for each different geometry that it has had.
//
// In this order: each request reads the beginning of the long window.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Generation<C> {
    pub(crate) long: SlidingWindow<C>,
    /// The geometry of reads of the short window.
    short: Frame,
    pub(crate) config: NodeConfig,
    /// The reserved permits of each bucket. Created with the first reservation.
    reserved: RacyOnce<LeapArray<Reserved>>,
}

impl<C: Clock + Clone> Generation<C> {
    /// Creates a generation of a node that was made at `made`.
    pub(crate) fn new(config: NodeConfig, clock: C, made: Timestamp) -> Self {
        let long = SlidingWindow::made_at(*config.long(), config.histogram(), clock, made);
        let short = long.frame_of(*config.short()).expect("checked when the config was made");
        Self { config, short, long, reserved: RacyOnce::new() }
    }

    /// Creates a generation of the same node with another geometry.
    pub(crate) fn with_config(&self, config: NodeConfig) -> Self {
        Self::new(config, self.long.clock().clone(), self.long.made())
    }
}

impl<C> Generation<C> {
    #[inline]
    pub(crate) fn array(&self) -> &SharedArray {
        self.long.array()
    }

    /// Returns the geometry of the short window.
    pub(crate) fn short(&self) -> Framed<'_> {
        Framed::new(self.array().config(), &self.short)
    }

    #[inline]
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.get().is_some()
    }
}

impl<C: Clock> Generation<C> {
    /// Returns the sum of `event` over the buckets of the span.
    pub(crate) fn sum(&self, span: &Span, event: MetricEvent) -> u128 {
        let array = self.long.array();
        span.buckets(array.config()).map_or(0, |numbers| array.sum(numbers, event))
    }

    /// Returns the totals of the buckets of the span.
    pub(crate) fn totals(&self, span: &Span) -> MetricTotals {
        let array = self.long.array();
        span.buckets(array.config()).map(|numbers| array.totals(numbers)).unwrap_or_default()
    }

    /// Returns the totals of the buckets of the span, and whether there is a histogram. If so,
    /// replaces the contents of `into` by the histogram of the same moment.
    pub(crate) fn totals_and_histogram(
        &self,
        span: &Span,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        let array = self.long.array();
        let Some(histogram) = array.histogram() else { return (self.totals(span), false) };
        into.reset(histogram);
        let numbers = span.buckets(array.config());
        let totals = numbers.and_then(|numbers| array.histogram_into(numbers, into));
        (totals.unwrap_or_default(), true)
    }

    /// Returns the totals of all records, without reserved permits, by whether they are in the
    /// buckets of the span.
    pub(crate) fn ledger(&self, span: &Span) -> Ledger<MetricTotals> {
        let numbers = span.buckets(self.array().config());
        let is_empty = numbers.is_none();
        let mut ledger = self.array().ledger(&numbers.unwrap_or(0..=0));
        if is_empty {
            ledger.expired += &mem::take(&mut ledger.in_window);
        }
        ledger
    }

    /// Returns everything that was ever recorded, without reserved permits, and whether there is a
    /// histogram. If so, replaces the contents of `into` by the histogram. The number of response
    /// times is then that of its bins.
    pub(crate) fn lifetime_and_histogram(
        &self,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        match self.array().lifetime_histogram_into(into) {
            Some(mut totals) => {
                // The counts of a cell are read after its bins, so they may have response times
                // that the bins miss.
                totals.counts[MetricEvent::Rt] = into.count();
                (totals, true)
            }
            None => (self.long.lifetime(), false),
        }
    }

    /// Returns the end of the newest bucket in which a thread has recorded, or for which a thread
    /// has asked for a reservation; `None` if there is no such bucket.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let reserved = self.reserved.get().and_then(LeapArray::newest_end);
        self.long.array().newest_end().max(reserved)
    }

    /// Returns the number of reserved permits of the buckets of the span.
    pub(crate) fn reserved_in(&self, span: &Span) -> u64 {
        let Some(array) = self.reserved.get() else { return 0 };
        span.buckets(array.config()).map_or(0, |numbers| permits(array, numbers))
    }

    /// Returns the number of reserved permits of the bucket after the bucket of `now`.
    pub(crate) fn reserved_next(&self, now: Timestamp) -> u64 {
        let Some(array) = self.reserved.get() else { return 0 };
        let next = Timestamp::MAX.as_nanos() - array.config().bucket_nanos();
        // No bucket follows the last bucket of time.
        if now.as_nanos() > next {
            return 0;
        }
        let next = array.config().bucket_number(now) + 1;
        permits(array, next..=next)
    }

    /// Returns the number of permits that were ever reserved.
    pub(crate) fn ever_reserved(&self) -> u64 {
        let ledger = self.reserved.get().map(|array| array.ledger(Timestamp::MIN).recorded());
        ledger.map_or(0, |permits: Permits| permits.0)
    }

    /// Reserves `count` permits of the bucket that starts at `start`, if the bucket then has at
    /// most `max` reserved permits. Returns whether the permits were reserved.
    pub(crate) fn reserve(&self, start: Timestamp, count: u64, max: u64) -> bool {
        let Some(config) = self.reserved_config() else { return false };
        let array = self.reserved.get_or_init(|| LeapArray::new(config));
        // `None` if a later bucket is in the slot: the thread has stalled for as long as the window
        // is.
        array.current_bucket(start).in_time().is_some_and(|wrap| wrap.bucket().take(count, max))
    }

    /// Returns the geometry of the array of reserved permits: one bucket more than the long window,
    /// so that the next bucket does not replace a bucket that is still in the window. `None` if no
    /// window can be that long.
    fn reserved_config(&self) -> Option<WindowConfig> {
        let long = self.config.long();
        let (samples, len) = (long.sample_count() + 1, long.bucket_len());
        let interval = long.interval().saturating_add(len);
        WindowConfig::new(samples, interval).ok()
    }
}

fn permits(array: &LeapArray<Reserved>, numbers: RangeInclusive<u64>) -> u64 {
    let look = |bucket: &Reserved| crate::array::Bucket::total(bucket).0;
    array.fold_over(numbers, 0, look, u64::saturating_add)
}

/// Adds reserved permits to totals, both as passes and as reserved passes.
pub(crate) fn add_reserved(totals: &mut MetricTotals, permits: u64) {
    for event in [MetricEvent::Pass, MetricEvent::ReservedPass] {
        let sum = &mut totals.counts[event];
        *sum = sum.saturating_add(permits);
    }
}
