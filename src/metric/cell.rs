//! Counters, which one thread writes or many share.

use std::time::Duration;

use super::counter::{CEILING, Counter, Maximum, Minimum};
use super::counts::Counts;
use super::event::MetricEvent;
use super::totals::MetricTotals;
use crate::sync::Ordering;

/// One counter for each event, the extremes of the response time, and the highest concurrency.
///
/// In this order, so that what a request usually writes is side by side.
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
        Self {
            events: std::array::from_fn(|event| match event {
                0 => Counter::new(),
                _ => Counter::beside(),
            }),
            rt_count: Counter::beside(),
            min_rt: Minimum::new(),
            max_rt: Maximum::new(),
            max_concurrency: Maximum::new(),
        }
    }
}

impl MetricCell {
    /// Zeroes all of them, while no thread writes. Relaxed: a later writer, and a reader of what this
    /// leaves behind, are ordered by the wrap or by the thread cell that the counters are in.
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

    /// The raw value of the counter: 2⁶² or more if that is at its ceiling.
    #[inline]
    pub(crate) fn unbounded_sum(&self, event: MetricEvent) -> u64 {
        self.events[event as usize].get_unbounded(Ordering::Relaxed)
    }

    /// The sum of the response times in nanoseconds, and how many there were.
    #[inline]
    pub(crate) fn rt(&self) -> (u64, u64) {
        // Acquire, both: pairs with the Releases in `OwnedWriter::record_rt`. The sum is read first, then
        // the count, and after that the successes and exceptions.
        let nanos = self.events[MetricEvent::Rt as usize].get(Ordering::Acquire);
        // It counts in ones, and so never comes to the ceiling.
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
        // Acquire: pairs with the Release in `order_of`. The ends are read before the passes, so that no
        // request is read to have ended here and not to have entered here before.
        let [success, exception] = [MetricEvent::Success, MetricEvent::Exception]
            .map(|event| self.events[event as usize].get(Ordering::Acquire));
        let events = MetricEvent::ALL.map(|event| match event {
            MetricEvent::Rt => rt_nanos,
            MetricEvent::Success => success,
            MetricEvent::Exception => exception,
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

    pub(crate) fn total(&self) -> MetricTotals {
        self.counts().totals()
    }
}

/// The ordering in which an event is counted.
#[inline]
const fn order_of(event: MetricEvent) -> Ordering {
    match event {
        // Pairs with the Acquire in `MetricCell::counts`. A reader that counts the end of a request in this
        // cell counts its pass in this cell.
        MetricEvent::Success | MetricEvent::Exception => Ordering::Release,
        // These counters order nothing. A reader that must see the add is ordered by the event that told it
        // that the add has returned.
        _ => Ordering::Relaxed,
    }
}

/// Writes a cell that no other thread writes, with plain loads and stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedWriter<'a>(pub(crate) &'a MetricCell);

impl OwnedWriter<'_> {
    #[inline]
    pub(crate) fn add(self, event: MetricEvent, count: u64) {
        if let MetricEvent::Rt = event {
            self.record_rt(count);
        } else {
            self.0.events[event as usize].add_owned(count, order_of(event));
        }
    }

    /// Adds one event, which is not a response time.
    #[inline]
    pub(crate) fn increment(self, event: MetricEvent) {
        self.0.events[event as usize].increment_owned(order_of(event));
    }

    #[inline]
    pub(crate) fn record_rt(self, nanos: u64) {
        let (cell, nanos) = (self.0, nanos.min(CEILING));
        cell.min_rt.record_owned(nanos);
        cell.max_rt.record_owned(nanos);
        // Release: pairs with the Acquire in `MetricCell::rt`. A reader that counts this response time
        // has the success or the exception that was counted before.
        cell.rt_count.increment_owned(Ordering::Release);
        // Release: pairs with the Acquire in `MetricCell::rt`. A reader whose sum has this response
        // time has its count and its extremes too, so that no mean is above the maximum.
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
