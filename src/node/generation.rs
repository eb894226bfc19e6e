//! What was recorded under one geometry.

use std::ops::RangeInclusive;

use super::config::NodeConfig;
use super::reserved::{Permits, Reserved};
use crate::array::LeapArray;
use crate::metric::{MetricEvent, MetricTotals};
use crate::metric_array::MetricArray;
use crate::sync::Lazy;
use crate::time::{Clock, Span, Timestamp, WindowConfig};
use crate::window::SlidingWindow;

/// A geometry that a node has had, with the array that goes with it.
///
/// Kept for as long as the node is: a thread that has stopped in the middle of a record may still add
/// to it. A geometry that comes back finds its array again, so that there are as many as there were
/// different ones.
#[derive(Debug)]
pub(crate) struct Generation<C> {
    pub(crate) config: NodeConfig,
    pub(crate) second: SlidingWindow<C>,
    pub(crate) minute: SlidingWindow<C>,
    /// Made when a permit is first taken from the future.
    reserved: Lazy<LeapArray<Reserved>>,
}

impl<C: Clock + Clone> Generation<C> {
    /// Of a node that was made then.
    pub(crate) fn new(config: NodeConfig, clock: C, made: Timestamp) -> Self {
        let minute = SlidingWindow::made_at(*config.minute(), clock, made);
        let second = minute.view(*config.second()).expect("checked when the config was made");
        Self { config, second, minute, reserved: Lazy::new() }
    }

    /// One of another geometry, for the same node.
    pub(crate) fn with_config(&self, config: NodeConfig) -> Self {
        Self::new(config, self.minute.clock().clone(), self.minute.made())
    }
}

impl<C> Generation<C> {
    #[inline]
    pub(crate) fn array(&self) -> &MetricArray {
        self.minute.array()
    }

    #[inline]
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.get().is_some()
    }
}

impl<C: Clock> Generation<C> {
    /// The sum of `event` over the buckets of the span.
    pub(crate) fn sum(&self, span: &Span, event: MetricEvent) -> u128 {
        let array = self.minute.array();
        span.buckets(array.config()).map_or(0, |numbers| array.sum(numbers, event))
    }

    /// What is in the buckets of the span.
    pub(crate) fn totals(&self, span: &Span) -> MetricTotals {
        let array = self.minute.array();
        span.buckets(array.config()).map(|numbers| array.totals(numbers)).unwrap_or_default()
    }

    /// The end of the newest bucket that was recorded or reserved in; `None` if none ever was.
    pub(crate) fn newest_end(&self) -> Option<Timestamp> {
        let reserved = self.reserved.get().and_then(LeapArray::newest_end);
        self.minute.array().newest_end().max(reserved)
    }

    /// How many permits of buckets in the span were taken before their time.
    pub(crate) fn reserved_in(&self, span: &Span) -> u64 {
        let Some(array) = self.reserved.get() else { return 0 };
        span.buckets(array.config()).map_or(0, |numbers| permits(array, numbers))
    }

    /// How many permits are taken of buckets after that of `now`.
    pub(crate) fn reserved_next(&self, now: Timestamp) -> u64 {
        let Some(array) = self.reserved.get() else { return 0 };
        let next = Timestamp::MAX.as_nanos() - array.config().bucket_nanos();
        // The last bucket of all has none after it.
        if now.as_nanos() > next {
            return 0;
        }
        let next = array.config().bucket_number(now) + 1;
        permits(array, next..=next)
    }

    /// How many permits were ever taken before their time.
    pub(crate) fn ever_reserved(&self) -> u64 {
        let account = self.reserved.get().map(|array| array.account(Timestamp::MIN).recorded());
        account.map_or(0, |permits: Permits| permits.0)
    }

    /// Takes `count` permits of the bucket that starts at `start`, if with those taken of it before
    /// they are at most `free`.
    pub(crate) fn reserve(&self, start: Timestamp, count: u64, free: u64) -> bool {
        let Some(config) = self.reserved_config() else { return false };
        let array = self.reserved.get_or_make(|| LeapArray::new(config));
        // Late is who has slept for as long as the window is.
        array.current_bucket(start).in_time().is_some_and(|wrap| wrap.bucket().take(count, free))
    }

    /// The minute's geometry and room for the bucket that is next, so that what is taken of that does
    /// not take the place of what is still in the window.
    /// `None` if there is no room: no window is that long.
    fn reserved_config(&self) -> Option<WindowConfig> {
        let minute = self.config.minute();
        let (samples, len) = (minute.sample_count() + 1, minute.bucket_len());
        let interval = minute.interval().saturating_add(len);
        WindowConfig::new(samples, interval).ok()
    }
}

fn permits(array: &LeapArray<Reserved>, numbers: RangeInclusive<u64>) -> u64 {
    let look = |bucket: &Reserved| crate::array::Bucket::total(bucket).0;
    array.fold_over(numbers, 0, look, u64::saturating_add)
}

/// Adds what was reserved: a permit that was taken before its time passes in its bucket.
pub(crate) fn add_reserved(totals: &mut MetricTotals, permits: u64) {
    for event in [MetricEvent::Pass, MetricEvent::ReservedPass] {
        let sum = &mut totals.events[event as usize];
        *sum = sum.saturating_add(permits);
    }
}
