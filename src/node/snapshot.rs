//! The readings of a node at one time, as plain data.

use std::time::Duration;

use super::reason::Refusals;
use super::refused_by::RefusedBy;
use super::response::Responses;
use super::{NodeReading, ResourceNode};
use crate::histogram::LatencyQuantiles;
use crate::metric::{MetricEvent, MetricTotals};
use crate::time::{Clock, Span, Timestamp, saturating_nanos};
use crate::window::{Framed, Spread, per_second, with_scratch};

/// The readings of a [`ResourceNode`] at one time: plain data that can be kept, compared and sent.
///
/// A snapshot is coherent: it has no response time without the success or exception of that
/// request. With the feature `serde`, it can be serialized, with
/// [times](crate::reference::serialized_times) that lose no digits.
///
/// ```
/// use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
/// clock.advance(Duration::from_millis(10_497));
/// let [first, _second] = [node.enter(), node.enter()];
/// clock.advance(Duration::from_millis(3));
/// first.success();
///
/// let snapshot = node.now().snapshot();
/// assert_eq!(snapshot.short.covered, Duration::from_millis(500));
/// assert_eq!((snapshot.pass_qps(), snapshot.success_qps()), (4.0, 2.0));
/// assert_eq!(snapshot.avg_rt(), Some(Duration::from_millis(3)));
/// assert_eq!((snapshot.concurrency, snapshot.short.totals.max_concurrency()), (1, Some(2)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NodeSnapshot {
    /// The time of the snapshot.
    pub timestamp: Timestamp,
    /// The number of requests in flight.
    pub concurrency: u64,
    /// The number of reserved permits of the next bucket.
    pub reserved: u64,
    /// The short window.
    pub short: WindowSnapshot,
    /// The long window.
    pub long: WindowSnapshot,
    /// The last complete bucket of the short window; `None` if the long window is too short to keep
    /// it.
    pub previous: Option<WindowSnapshot>,
    /// The refused permits by reason, since the node was made.
    pub refusals: Refusals,
    /// The refused permits by the name of the limiter, since the node was made.
    #[cfg_attr(feature = "serde", serde(default))]
    pub refused_by: RefusedBy,
    /// The responses by class, since the node was made.
    pub responses: Responses,
    /// The highest rate of success in one bucket of the short window, per second. Each sum is
    /// divided by the length of the bucket, although the newest bucket is still filling.
    pub max_success_qps: f64,
}

impl NodeSnapshot {
    /// Returns the rate of `event` per second in the short window.
    #[must_use]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.short.qps(event)
    }

    /// Returns the rate of passes per second in the short window.
    #[must_use]
    pub fn pass_qps(&self) -> f64 {
        self.qps(MetricEvent::Pass)
    }

    /// Returns the rate of blocked requests per second in the short window.
    #[must_use]
    pub fn block_qps(&self) -> f64 {
        self.qps(MetricEvent::Block)
    }

    /// Returns the rate of passed and blocked requests per second in the short window.
    #[must_use]
    pub fn total_qps(&self) -> f64 {
        self.pass_qps() + self.block_qps()
    }

    /// Returns the rate of successes per second in the short window.
    #[must_use]
    pub fn success_qps(&self) -> f64 {
        self.qps(MetricEvent::Success)
    }

    /// Returns the rate of exceptions per second in the short window.
    #[must_use]
    pub fn exception_qps(&self) -> f64 {
        self.qps(MetricEvent::Exception)
    }

    /// Returns the rate of cancelled requests per second in the short window.
    #[must_use]
    pub fn cancelled_qps(&self) -> f64 {
        self.qps(MetricEvent::Cancelled)
    }

    /// Returns the rate of passes with reserved permits per second in the short window.
    #[must_use]
    pub fn reserved_pass_qps(&self) -> f64 {
        self.qps(MetricEvent::ReservedPass)
    }

    /// Returns the rate of passes per second in the last complete bucket; `None` if the bucket is
    /// not kept.
    #[must_use]
    pub fn previous_pass_qps(&self) -> Option<f64> {
        self.previous.as_ref().map(|bucket| bucket.qps(MetricEvent::Pass))
    }

    /// Returns the rate of blocked requests per second in the last complete bucket; `None` if the
    /// bucket is not kept.
    #[must_use]
    pub fn previous_block_qps(&self) -> Option<f64> {
        self.previous.as_ref().map(|bucket| bucket.qps(MetricEvent::Block))
    }

    /// Returns the mean response time of the short window; `None` if no request ended in it.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.short.totals.avg_rt()
    }
}

/// The totals of one window, and the time over which they were recorded: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WindowSnapshot {
    /// The time that the window covers, by which rates are divided: its complete buckets and the
    /// elapsed part of the newest bucket, without the time before the node was made. It is at least
    /// a tenth of a bucket of the long window.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub covered: Duration,
    /// The interval of the window, or the length of the bucket for [`NodeSnapshot::previous`].
    #[cfg_attr(feature = "serde", serde(with = "crate::time::serde_time"))]
    pub interval: Duration,
    /// The totals of the window.
    pub totals: MetricTotals,
    /// The quantiles of the response times; `None` if the node has no histogram, if the window has
    /// no response time, or if one of them was recorded under a
    /// [geometry](ResourceNode::reconfigure) without a histogram. So they are the quantiles of all
    /// response times in [`totals`](Self::totals).
    pub quantiles: Option<LatencyQuantiles>,
}

impl WindowSnapshot {
    /// Returns the rate of `event` per second: the sum divided by the time that the window covers.
    /// It is 0 if the sum is 0, even if that time is zero, as in a default snapshot.
    #[must_use]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.sum_over(event, self.covered)
    }

    /// Returns the sum of `event` divided by the interval of the window, per second: the number to
    /// compare with a limit. It is 0 if the sum is 0.
    #[must_use]
    pub fn qps_over_interval(&self, event: MetricEvent) -> f64 {
        self.sum_over(event, self.interval)
    }

    fn sum_over(&self, event: MetricEvent, time: Duration) -> f64 {
        let sum = self.totals.sum(event);
        if sum == 0 { 0.0 } else { per_second(sum, saturating_nanos(time)) }
    }
}

impl<C: Clock + Clone> NodeReading<'_, C> {
    /// Returns all readings of the node. Allocates nothing, once the thread has read a histogram
    /// with as many bins, unless a node with a histogram has had several geometries, or limiters
    /// with names have refused.
    #[must_use]
    pub fn snapshot(&self) -> NodeSnapshot {
        let Self { node, generation, now } = *self;
        let (short, long) = (generation.short(), generation.long.framed());
        let readings = |covered, interval, span: Option<Span>| {
            let (totals, quantiles) =
                span.map_or_else(Default::default, |span| node.totals_and_quantiles(&span));
            WindowSnapshot { covered: Duration::from_nanos(covered), interval, totals, quantiles }
        };
        let window = |framed: Framed<'_>| {
            let span = framed.span(now);
            readings(framed.covered_nanos(now), framed.config().interval(), Some(span))
        };
        let len = short.config().bucket_len();
        let previous = || readings(short.covered_nanos_of_previous(now), len, short.sample(now, 1));
        NodeSnapshot {
            timestamp: now,
            concurrency: node.concurrency(),
            reserved: self.reserved(),
            refusals: node.refusals(),
            refused_by: node.refused_by(),
            responses: node.responses(),
            short: window(short),
            long: window(long),
            previous: short.keeps_previous().then(previous),
            max_success_qps: self.short().max_qps(MetricEvent::Success),
        }
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    fn totals_and_quantiles(&self, span: &Span) -> (MetricTotals, Option<LatencyQuantiles>) {
        if !self.has_histogram() {
            return (self.totals_in(span), None);
        }
        with_scratch(|histogram| {
            let (totals, has_all) = self.totals_and_histogram_in(span, histogram);
            (totals, has_all.then(|| histogram.summary()).flatten())
        })
    }
}
