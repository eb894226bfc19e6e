//! The calls of the last epochs.

use std::time::Duration;

use super::algorithm::EpochCalls;
use super::range::float;
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::MetricEvent;
use crate::node::Outcome;
use crate::time::{Clock, Timestamp, WindowConfig, saturating_nanos};
use crate::window::SlidingWindow;

/// The calls of the last epochs, each counted in the epoch in which it began: a window whose time
/// is the number of the epoch.
#[derive(Debug)]
pub(super) struct Epochs {
    last: SlidingWindow<NoClock>,
    /// The same, for one epoch.
    one: SlidingWindow<NoClock>,
    /// The times after which the calls of an epoch were cancelled.
    cancelled: SlidingWindow<NoClock>,
    one_cancelled: SlidingWindow<NoClock>,
}

/// The memory for the times of the calls of an epoch.
#[derive(Debug, Default)]
pub(super) struct EpochTimes {
    ended: LatencyHistogram,
    cancelled: LatencyHistogram,
}

/// An epoch, except for its calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    pub(super) limit: u64,
    pub(super) peak: u64,
    /// The permits that were taken and given back in it.
    pub(super) permits: u64,
    pub(super) returned: u64,
}

impl Epochs {
    /// The number of epochs whose calls are kept. A call that ends later is counted as late.
    const KEPT: u32 = 4;
    /// Counts the permits of calls beyond one for each.
    const MORE_PERMITS: MetricEvent = MetricEvent::ReservedPass;
    /// The length of an epoch in the window: the shortest bucket.
    const UNIT: Duration = Duration::from_nanos(2);

    pub(super) fn new() -> Self {
        let of = |epochs: u32| {
            WindowConfig::new(epochs as usize, Self::UNIT * epochs).expect("whole nanoseconds")
        };
        let kept = of(Self::KEPT);
        let histogram = Some(HistogramConfig::default());
        let [last, cancelled] =
            [(); 2].map(|()| SlidingWindow::made_at(kept, histogram, NoClock, Timestamp::MIN));
        let [one, one_cancelled] =
            [&last, &cancelled].map(|it| it.view(of(1)).expect("it divides the window"));
        Self { last, one, cancelled, one_cancelled }
    }

    #[inline]
    pub(super) fn begin(&self, epoch: u64, permits: u64) {
        self.last.add_at(time_of(epoch), MetricEvent::Pass, 1);
        if permits > 1 {
            self.last.add_at(time_of(epoch), Self::MORE_PERMITS, permits - 1);
        }
    }

    #[inline]
    pub(super) fn end(&self, epoch: u64, outcome: Outcome, response_time: Duration) {
        let epoch = time_of(epoch);
        match outcome {
            Outcome::Success => {
                self.last.record_success_nanos_at(epoch, saturating_nanos(response_time));
            }
            Outcome::Exception => self.last.add_at(epoch, MetricEvent::Exception, 1),
            Outcome::Cancelled => {
                self.cancelled.record_success_nanos_at(epoch, saturating_nanos(response_time));
                // In the window of its beginning, so that a reader never finds more cancelled calls
                // than begun ones.
                self.last.add_at(epoch, MetricEvent::Cancelled, 1);
            }
        }
    }

    /// Returns the number of measured calls that have begun in an epoch, including cancelled calls.
    pub(super) fn begun(&self, epoch: u64) -> u64 {
        self.one.at(time_of(epoch)).sum(MetricEvent::Pass)
    }

    /// Returns the mean permits of these calls, at least 1.
    pub(super) fn mean_permits(&self, epoch: u64) -> f64 {
        let more = self.one.at(time_of(epoch)).sum(Self::MORE_PERMITS);
        1.0 + float(more) / float(self.begun(epoch).max(1))
    }

    /// Returns how many calls have begun in a second of an epoch, measured or not.
    pub(super) fn rate(&self, epoch: u64, past: Past) -> f64 {
        let calls = float(past.permits) / self.mean_permits(epoch);
        // An epoch lasts at least a millisecond.
        calls / past.end.saturating_since(past.start).as_secs_f64().max(1e-3)
    }

    /// Returns whether at least one in `of` measured calls of an epoch has ended, apart from
    /// cancelled calls.
    pub(super) fn has_ended(&self, epoch: u64, of: u64) -> bool {
        // Each call is counted as begun before it is counted as ended, so the ends are read first.
        let [success, exceptions, cancelled] =
            [MetricEvent::Success, MetricEvent::Exception, MetricEvent::Cancelled]
                .map(|event| self.one.at(time_of(epoch)).sum(event));
        of * (success + exceptions) >= self.begun(epoch).saturating_sub(cancelled)
    }

    /// Returns the calls of an epoch. Their times are read into `times`.
    pub(super) fn calls<'a>(
        &self,
        epoch: u64,
        past: Past,
        now: Timestamp,
        times: &'a mut EpochTimes,
    ) -> EpochCalls<'a> {
        let at = time_of(epoch);
        // Each call is counted as begun before it is counted as ended, so the ends are read first.
        self.one.at(at).histogram_into(&mut times.ended);
        self.one_cancelled.at(at).histogram_into(&mut times.cancelled);
        let [exceptions, cancelled] = [MetricEvent::Exception, MetricEvent::Cancelled]
            .map(|event| self.one.at(at).sum(event));
        let begun = self.begun(epoch).saturating_sub(cancelled);
        let mean_permits = self.mean_permits(epoch);
        let Past { start, end, limit, peak: peak_in_flight, permits, returned } = past;
        EpochCalls {
            now,
            start,
            end,
            limit,
            peak_in_flight,
            begun,
            mean_permits,
            permits,
            returned,
            exceptions,
            response_times: &times.ended,
            cancelled: &times.cancelled,
        }
    }
}

#[inline]
const fn time_of(epoch: u64) -> Timestamp {
    Timestamp::from_nanos(epoch * 2)
}

/// The clock of a window that is always given the number of an epoch.
#[derive(Clone, Copy, Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Timestamp {
        Timestamp::MIN
    }
}
