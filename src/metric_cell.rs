//! Counters, which one thread writes or many share.

use std::time::Duration;

use crate::cell::{CEILING, Counter, Maximum, Minimum};
use crate::event::MetricEvent;
use crate::metric_array::Counts;
use crate::metric_totals::MetricTotals;
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
        self.events[event as usize].get_unbounded()
    }

    /// The sum of the response times in nanoseconds, and how many there were.
    #[inline]
    pub(crate) fn rt(&self) -> (u64, u64) {
        // Acquire, both: pairs with the Releases in `OwnedWriter::record_rt`. The sum is read first, then
        // the count, and after that what ended in as many response times.
        let nanos = self.events[MetricEvent::Rt as usize].get(Ordering::Acquire);
        (nanos, self.rt_count.get(Ordering::Acquire))
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
        let mut events = MetricEvent::ALL.map(|event| match event {
            MetricEvent::Rt => 0,
            event => self.sum(event),
        });
        events[MetricEvent::Rt as usize] = rt_nanos;
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

/// Writes a cell that no other thread writes, with plain loads and stores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnedWriter<'a>(pub(crate) &'a MetricCell);

impl OwnedWriter<'_> {
    #[inline]
    pub(crate) fn add(self, event: MetricEvent, count: u64) {
        if let MetricEvent::Rt = event {
            self.record_rt(count);
        } else {
            // Relaxed: a counter orders nothing else. A reader that must see the add is ordered by
            // what told it that the add has returned.
            self.0.events[event as usize].add_owned(count, Ordering::Relaxed);
        }
    }

    /// Adds one event, which is not a response time.
    #[inline]
    pub(crate) fn increment(self, event: MetricEvent) {
        self.0.events[event as usize].increment_owned(Ordering::Relaxed);
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
            self.0.events[event as usize].add_shared(count, Ordering::Relaxed);
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
