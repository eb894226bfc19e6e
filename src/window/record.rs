//! Recording in a window.

use std::time::Duration;

use super::SlidingWindow;
use crate::metric::MetricEvent;
use crate::time::{Clock, Timestamp, saturating_nanos};

impl<C: Clock> SlidingWindow<C> {
    /// Adds `count` to `event` now.
    ///
    /// Any `count` is valid. The count of one thread in one bucket saturates at
    /// [`MetricBucket::CEILING`](crate::metric::MetricBucket::CEILING). With [`MetricEvent::Rt`],
    /// `count` is one response time in nanoseconds.
    #[inline]
    pub fn add(&self, event: MetricEvent, count: u64) {
        self.add_at(self.clock.now(), event, count);
    }

    /// Adds `count` to `event` in the bucket of `now`; see [`add`](Self::add) for the bounds of
    /// `count`.
    ///
    /// ```
    /// use leaparray::{MetricEvent, SlidingWindow, Timestamp, WindowConfig};
    /// use std::time::Duration;
    ///
    /// let window = SlidingWindow::new(WindowConfig::new(2, Duration::from_secs(1))?);
    /// let t = Timestamp::from_millis;
    /// window.add_at(t(1_600), MetricEvent::Pass, 1);
    /// // The slot of the bucket of 700 ms has a later bucket by now, so this add is late.
    /// window.add_at(t(700), MetricEvent::Pass, 1);
    /// let ledger = window.at(t(1_600)).ledger();
    /// assert_eq!(ledger.in_window.sum(MetricEvent::Pass), 1);
    /// assert_eq!(ledger.late.sum(MetricEvent::Pass), 1);
    /// # Ok::<_, leaparray::time::ConfigError>(())
    /// ```
    #[inline]
    pub fn add_at(&self, now: Timestamp, event: MetricEvent, count: u64) {
        match event {
            MetricEvent::Rt => self.record_rt_nanos_at(now, count),
            event => self.array().record(now, move |cell, _| cell.writer().add(event, count)),
        }
    }

    /// Records one response time at `now`. A response time above 2⁶² ns (146 years) is recorded as
    /// 2⁶² ns.
    #[inline]
    pub fn record_rt_at(&self, now: Timestamp, rt: Duration) {
        self.record_rt_nanos_at(now, saturating_nanos(rt));
    }

    #[inline]
    fn record_rt_nanos_at(&self, now: Timestamp, nanos: u64) {
        self.array().record_rt(now, nanos, move |cell, _, bin| {
            cell.writer().record_rt_with(nanos, || bin.count());
        });
    }

    /// Records one [`MetricEvent::Success`] and its response time now, in the same bucket.
    #[inline]
    pub fn record_success(&self, rt: Duration) {
        self.record_success_at(self.clock.now(), rt);
    }

    /// Records at `now` one [`MetricEvent::Success`] and its response time, in the same bucket.
    #[inline]
    pub fn record_success_at(&self, now: Timestamp, rt: Duration) {
        self.record_end_at(now, MetricEvent::Success, rt);
    }

    /// Records one [`MetricEvent::Exception`] and its response time now, in the same bucket.
    #[inline]
    pub fn record_exception(&self, rt: Duration) {
        self.record_exception_at(self.clock.now(), rt);
    }

    /// Records at `now` one [`MetricEvent::Exception`] and its response time, in the same bucket.
    #[inline]
    pub fn record_exception_at(&self, now: Timestamp, rt: Duration) {
        self.record_end_at(now, MetricEvent::Exception, rt);
    }

    /// Records that `concurrency` requests were in flight at `now`.
    /// The
    /// [totals](crate::WindowReading::totals) of the window have the highest number.
    #[inline]
    pub fn record_concurrency_at(&self, now: Timestamp, concurrency: u64) {
        self.array().record(now, move |cell, _| cell.writer().record_concurrency(concurrency));
    }

    /// Records at `now` one [`MetricEvent::Success`] and a response time in nanoseconds, in the
    /// same bucket.
    #[inline]
    pub(crate) fn record_success_nanos_at(&self, now: Timestamp, nanos: u64) {
        self.record_end_nanos_at(now, MetricEvent::Success, nanos);
    }

    #[inline]
    fn record_end_at(&self, now: Timestamp, event: MetricEvent, rt: Duration) {
        self.record_end_nanos_at(now, event, saturating_nanos(rt));
    }

    #[inline]
    fn record_end_nanos_at(&self, now: Timestamp, event: MetricEvent, nanos: u64) {
        self.array().record_rt(now, nanos, move |cell, _, bin| {
            cell.writer().increment(event);
            cell.writer().record_rt_with(nanos, || bin.count());
        });
    }
}
