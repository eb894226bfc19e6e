//! The counters of a thread cell or a bucket, which one thread writes or many threads share.

use std::time::Duration;

use super::counter::{CEILING, Counter, Maximum, Minimum};
use super::counts::Counts;
use super::event::MetricEvent;
use super::totals::MetricTotals;
use crate::sync::{Ordering, const_unless_loom};

/// One counter for each event, the extremes of the response time, and the highest concurrency.
///
/// The fields are in this order so that the numbers that a request usually writes are adjacent.
///
/// # Orderings
///
/// A request writes, in this order, its pass, its end (a success, an exception or a cancellation),
/// the extremes, the number of response times, and their sum. The end, the number and the sum are
/// released. A reader reads them in the opposite order, and acquires. So a response time that is in
/// the sum is in the number and in the extremes, and its end is counted; and an end that is counted
/// has its pass, if the pass was counted in this cell. All else is relaxed: a reader that must find
/// an add is ordered by the event that told it that the add returned.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct MetricCell {
    events: [Counter; MetricEvent::COUNT],
    rt_count: Counter,
    min_rt: Minimum,
    max_rt: Maximum,
    max_concurrency: Maximum,
}

impl Default for MetricCell {
    fn default() -> Self {
        Self::new()
    }
}

impl MetricCell {
    const_unless_loom! {
        pub(crate) fn new() -> Self {
            Self {
                events: [
                    Counter::new(),
                    Counter::new_unmodelled(),
                    Counter::new_unmodelled(),
                    Counter::new_unmodelled(),
                    Counter::new_unmodelled(),
                    Counter::new_unmodelled(),
                    Counter::new_unmodelled()
                ],
                rt_count: Counter::new_unmodelled(),
                min_rt: Minimum::new(),
                max_rt: Maximum::new(),
                max_concurrency: Maximum::new(),
            }
        }
    }

    /// Resets all numbers, while no thread writes. Relaxed: the wrap or the thread cell that
    /// contains the counters orders these stores before later writers, and lets readers of the
    /// previous use discard them.
    pub(crate) fn reset(&self) {
        self.events.iter().for_each(Counter::reset);
        self.rt_count.reset();
        self.min_rt.reset();
        self.max_rt.reset();
        self.max_concurrency.reset();
    }

    #[inline]
    pub(crate) fn sum(&self, event: MetricEvent) -> u64 {
        self.events[event as usize].get(Ordering::Relaxed)
    }

    /// Returns the raw value of the counter: 2⁶² or more if the counter is at its ceiling.
    #[inline]
    pub(crate) fn unbounded_sum(&self, event: MetricEvent) -> u64 {
        self.events[event as usize].get_unbounded(Ordering::Relaxed)
    }

    /// Returns the sum of the response times in nanoseconds, and their number.
    #[inline]
    pub(crate) fn rt(&self) -> (u64, u64) {
        // Acquire, both: pairs with the Releases in `OwnedWriter::record_rt`. The sum is read
        // first, then the count, and then the successes and exceptions.
        let nanos = self.events[MetricEvent::Rt as usize].get(Ordering::Acquire);
        // The count grows by one at a time, so it never reaches the ceiling.
        (nanos, self.rt_count.get_unbounded(Ordering::Acquire))
    }

    pub(crate) fn min_rt(&self) -> Option<Duration> {
        self.min_rt.get().map(Duration::from_nanos)
    }

    pub(crate) fn max_rt(&self) -> Option<Duration> {
        self.max_rt.get().map(Duration::from_nanos)
    }

    pub(crate) fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency.get()
    }

    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        let (rt_nanos, rt_count) = self.rt();
        // Acquire: pairs with the Release in `order_of`. The ends are read before the passes: if a
        // request has passed in this cell and its end is read, its pass is read as well.
        let [success, exception, cancelled] =
            [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
                .map(|event| self.events[event as usize].get(Ordering::Acquire));
        let events = MetricEvent::EVENTS.map(|event| match event {
            MetricEvent::Rt => rt_nanos,
            MetricEvent::Success => success,
            MetricEvent::Exception => exception,
            MetricEvent::Cancelled => cancelled,
            event => self.sum(event),
        });
        Counts {
            events,
            rt_nanos_high: 0,
            rt_count,
            min_rt: self.min_rt.word(),
            max_rt: self.max_rt.word(),
            max_concurrency: self.max_concurrency.word(),
        }
    }

    /// Returns the counts, for the owner only. A counter may be above its ceiling.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "otherwise the counts are copied")]
    pub(crate) fn owned_counts(&self) -> Counts {
        // Relaxed: the owner itself has written them, or has acquired the cell after that.
        let get = |event| self.unbounded_sum(event);
        Counts {
            events: MetricEvent::EVENTS.map(get),
            rt_nanos_high: 0,
            rt_count: self.rt_count.get_unbounded(Ordering::Relaxed),
            min_rt: self.min_rt.word(),
            max_rt: self.max_rt.word(),
            max_concurrency: self.max_concurrency.word(),
        }
    }

    pub(crate) fn total(&self) -> MetricTotals {
        self.counts().totals()
    }
}

/// Returns the ordering with which an event is counted.
#[inline]
const fn order_of(event: MetricEvent) -> Ordering {
    match event {
        // Pairs with the Acquire in `MetricCell::counts`. A reader that counts the end of a request
        // in this cell also counts its pass in this cell.
        MetricEvent::Success | MetricEvent::Exception | MetricEvent::Cancelled => Ordering::Release,
        // These counters order nothing. A reader that must see an add is ordered after it by the
        // event from which the reader knows that the add has returned.
        _ => Ordering::Relaxed,
    }
}

/// Writes a cell that no other thread writes, with plain loads and stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedWriter<'a>(pub(crate) &'a MetricCell);

impl OwnedWriter<'_> {
    #[inline]
    pub(crate) fn add(self, event: MetricEvent, count: u64) {
        match (event, count) {
            (MetricEvent::Rt, _) => self.record_rt(count),
            // The usual count, and often a constant.
            (_, 1) => self.increment(event),
            _ => self.0.events[event as usize].add_owned(count, order_of(event)),
        }
    }

    /// Adds one event, which is not a response time.
    #[inline]
    pub(crate) fn increment(self, event: MetricEvent) {
        self.0.events[event as usize].increment_owned(order_of(event));
    }

    #[inline]
    pub(crate) fn record_rt(self, nanos: u64) {
        self.record_rt_with(nanos, || {});
    }

    /// Records a response time, and calls `count` between its extremes and its sum.
    #[inline]
    pub(crate) fn record_rt_with(self, nanos: u64, count: impl FnOnce()) {
        let (cell, nanos) = (self.0, nanos.min(CEILING));
        cell.min_rt.record_owned(nanos);
        cell.max_rt.record_owned(nanos);
        // Release: pairs with the Acquire in `MetricCell::rt`. A reader that counts this response
        // time also counts the success or the exception that was counted before it.
        cell.rt_count.increment_owned(Ordering::Release);
        count();
        // Release: pairs with the Acquire in `MetricCell::rt`. A reader whose sum includes this
        // response time also has its count and its extremes, so no mean is above the maximum.
        cell.events[MetricEvent::Rt as usize].add_owned(nanos, Ordering::Release);
    }

    #[inline]
    pub(crate) fn record_concurrency(self, concurrency: u64) {
        self.0.max_concurrency.record_owned(concurrency);
    }
}

/// Writes a cell that many threads write, with read-modify-writes in the same order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedWriter<'a>(pub(crate) &'a MetricCell);

impl SharedWriter<'_> {
    pub(crate) fn add(self, event: MetricEvent, count: u64) {
        if let MetricEvent::Rt = event {
            self.record_rt(count);
        } else {
            self.0.events[event as usize].add_shared(count, order_of(event));
        }
    }

    pub(crate) fn record_rt(self, nanos: u64) {
        let cell = self.0;
        cell.min_rt.record_shared(nanos);
        cell.max_rt.record_shared(nanos);
        cell.rt_count.add_shared(1, Ordering::Release);
        cell.events[MetricEvent::Rt as usize].add_shared(nanos, Ordering::Release);
    }

    pub(crate) fn record_concurrency(self, concurrency: u64) {
        self.0.max_concurrency.record_shared(concurrency);
    }
}
