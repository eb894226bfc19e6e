//! A record, which can be made in a window, in a bucket, and in the oracle.

use std::time::Duration;

use leaparray::metric::MetricBucket;
use leaparray::{Clock, MetricEvent, SlidingWindow, Timestamp};

use super::oracle::Recorded;

/// A record. Response times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Record {
    Count(MetricEvent, u64),
    Rt(u64),
    Success(u64),
    Exception(u64),
    Concurrency(u64),
}

impl Record {
    /// Divides the numbers, so that the sum of all records of a case is below the ceiling of a
    /// counter.
    pub(super) const fn below_ceiling(self) -> Self {
        const BITS: u32 = 9;
        match self {
            Self::Count(event, count) if count >= 256 => Self::Count(event, count >> BITS),
            Self::Rt(nanos) if nanos >= 256 => Self::Rt(nanos >> BITS),
            Self::Success(nanos) if nanos >= 256 => Self::Success(nanos >> BITS),
            Self::Exception(nanos) if nanos >= 256 => Self::Exception(nanos >> BITS),
            _ => self,
        }
    }

    pub(super) fn in_window<C: Clock>(self, window: &SlidingWindow<C>) {
        match self {
            Self::Count(event, count) => window.add(event, count),
            Self::Rt(nanos) => window.record_rt_at(window.clock().now(), rt(nanos)),
            Self::Success(nanos) => window.record_success(rt(nanos)),
            Self::Exception(nanos) => window.record_exception(rt(nanos)),
            Self::Concurrency(concurrency) => {
                window.record_concurrency_at(window.clock().now(), concurrency);
            }
        }
    }

    pub(super) fn in_window_at<C: Clock>(self, window: &SlidingWindow<C>, now: Timestamp) {
        match self {
            Self::Count(event, count) => window.add_at(now, event, count),
            Self::Rt(nanos) => window.record_rt_at(now, rt(nanos)),
            Self::Success(nanos) => window.record_success_at(now, rt(nanos)),
            Self::Exception(nanos) => window.record_exception_at(now, rt(nanos)),
            Self::Concurrency(concurrency) => window.record_concurrency_at(now, concurrency),
        }
    }

    pub(super) fn in_bucket(self, bucket: &MetricBucket) {
        let end = |event, nanos| {
            bucket.add(event, 1);
            bucket.record_rt(rt(nanos));
        };
        match self {
            Self::Count(event, count) => bucket.add(event, count),
            Self::Rt(nanos) => bucket.record_rt(rt(nanos)),
            Self::Success(nanos) => end(MetricEvent::Success, nanos),
            Self::Exception(nanos) => end(MetricEvent::Exception, nanos),
            Self::Concurrency(concurrency) => bucket.record_concurrency(concurrency),
        }
    }

    pub(super) fn in_oracle(self, recorded: &mut Recorded) {
        let mut count = |event, count| recorded.counts.push((event, count));
        match self {
            Self::Count(event, number) => count(event, number),
            Self::Rt(nanos) => count(MetricEvent::Rt, nanos),
            Self::Success(nanos) => {
                count(MetricEvent::Success, 1);
                count(MetricEvent::Rt, nanos);
            }
            Self::Exception(nanos) => {
                count(MetricEvent::Exception, 1);
                count(MetricEvent::Rt, nanos);
            }
            Self::Concurrency(concurrency) => recorded.concurrencies.push(concurrency),
        }
    }
}

/// `u64::MAX` stands for a response time that is longer than a `u64` of nanoseconds.
fn rt(nanos: u64) -> Duration {
    if nanos == u64::MAX { Duration::MAX } else { Duration::from_nanos(nanos) }
}
