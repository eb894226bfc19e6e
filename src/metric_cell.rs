//! The counters of one bucket that one thread writes, or those that many share.

use std::time::Duration;

use crate::cell::{Counter, Maximum, Minimum};
use crate::event::MetricEvent;
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
            events: std::array::from_fn(|_| Counter::new()),
            rt_count: Counter::new(),
            min_rt: Minimum::new(),
            max_rt: Maximum::new(),
            max_concurrency: Maximum::new(),
        }
    }
}

impl MetricCell {
    /// Empties all of them, when nobody writes. Relaxed: whoever is to write again, or has read what
    /// this leaves behind, is ordered by the wrap that the cell is in.
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

    /// The sum of the response times in nanoseconds, and how many there were.
    #[inline]
    pub(crate) fn rt(&self) -> (u64, u64) {
        // Acquire, both: pairs with the Releases in `CellWriter::record_rt`. The sum is read first, then
        // the count, and after that what ended in as many response times.
        let nanos = self.events[MetricEvent::Rt as usize].get(Ordering::Acquire);
        (nanos, self.rt_count.get(Ordering::Acquire))
    }

    #[inline]
    pub(crate) fn min_rt(&self) -> Option<Duration> {
        self.min_rt.get().map(Duration::from_nanos)
    }

    #[inline]
    pub(crate) fn max_rt(&self) -> Option<Duration> {
        self.max_rt.get().map(Duration::from_nanos)
    }

    pub(crate) fn max_concurrency(&self) -> Option<u64> {
        self.max_concurrency.get()
    }

    pub(crate) fn total(&self) -> MetricTotals {
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

/// A cell and how this thread may write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellWriter<'a> {
    pub(crate) cell: &'a MetricCell,
    /// Whether no other thread ever writes this cell.
    pub(crate) owned: bool,
}

impl CellWriter<'_> {
    #[inline]
    pub(crate) fn add(self, event: MetricEvent, count: u64) {
        if let MetricEvent::Rt = event {
            self.record_rt(count);
        } else {
            // Relaxed: a counter orders nothing else. Who must see it is ordered by what told
            // them that the add has returned.
            self.count(&self.cell.events[event as usize], count, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn record_rt(self, nanos: u64) {
        let cell = self.cell;
        if self.owned {
            cell.min_rt.record_owned(nanos);
            cell.max_rt.record_owned(nanos);
        } else {
            cell.min_rt.record_shared(nanos);
            cell.max_rt.record_shared(nanos);
        }
        // Release: pairs with the Acquire in `MetricCell::rt`. Whoever counts this response time has the
        // success or the exception that was counted before.
        self.count(&cell.rt_count, 1, Ordering::Release);
        // Release: pairs with the Acquire in `MetricCell::rt`. Whose sum has this response time has
        // its count and its extremes too, so that no mean is above the maximum.
        self.count(&cell.events[MetricEvent::Rt as usize], nanos, Ordering::Release);
    }

    #[inline]
    pub(crate) fn record_concurrency(self, concurrency: u64) {
        if self.owned {
            self.cell.max_concurrency.record_owned(concurrency);
        } else {
            self.cell.max_concurrency.record_shared(concurrency);
        }
    }

    #[inline]
    fn count(self, counter: &Counter, count: u64, order: Ordering) {
        if self.owned {
            counter.add_owned(count, order);
        } else {
            counter.add_shared(count, order);
        }
    }
}
