//! What a node was at one moment, as plain data.

use std::time::Duration;

use super::ResourceNode;
use crate::metric::{MetricEvent, MetricTotals};
use crate::time::{Clock, Timestamp};
use crate::window::per_second;

/// What a [`ResourceNode`] was when it was looked at: plain data, to be kept, compared or sent.
///
/// Coherent: no response time is in it without its success or exception. With the feature `serde` it
/// can be serialized, times as nanoseconds.
///
/// ```
/// use leaparray::{ManualClock, NodeConfig, ResourceNode, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Timestamp::from_secs(60));
/// let node = ResourceNode::with_clock(NodeConfig::default(), clock.clone());
/// clock.advance(Duration::from_secs(10));
/// let [first, _second] = [node.enter(), node.enter()];
/// clock.advance(Duration::from_millis(3));
/// first.success();
///
/// let snapshot = node.snapshot();
/// assert_eq!((snapshot.pass_qps(), snapshot.success_qps()), (2.0, 1.0));
/// assert_eq!(snapshot.avg_rt(), Some(Duration::from_millis(3)));
/// assert_eq!((snapshot.concurrency, snapshot.second.totals.max_concurrency()), (1, Some(2)));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NodeSnapshot {
    /// When it was looked at.
    pub timestamp: Timestamp,
    /// How many requests were under way.
    pub concurrency: u64,
    /// How many permits of the next bucket were taken.
    pub reserved: u64,
    /// The short window.
    pub second: WindowSnapshot,
    /// The long window.
    pub minute: WindowSnapshot,
    /// The last bucket of the short window that was complete; `None` if the long one does not keep it.
    pub previous: Option<WindowSnapshot>,
    /// The highest rate of success in one bucket of the short window, per second.
    pub max_success_qps: f64,
}

impl NodeSnapshot {
    /// The rate of `event` per second in the short window.
    #[must_use]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        self.second.qps(event)
    }

    /// The rate of passes per second.
    #[must_use]
    pub fn pass_qps(&self) -> f64 {
        self.qps(MetricEvent::Pass)
    }

    /// The rate of refusals per second.
    #[must_use]
    pub fn block_qps(&self) -> f64 {
        self.qps(MetricEvent::Block)
    }

    /// The rate of passes and refusals per second.
    #[must_use]
    pub fn total_qps(&self) -> f64 {
        self.pass_qps() + self.block_qps()
    }

    /// The rate of successes per second.
    #[must_use]
    pub fn success_qps(&self) -> f64 {
        self.qps(MetricEvent::Success)
    }

    /// The rate of exceptions per second.
    #[must_use]
    pub fn exception_qps(&self) -> f64 {
        self.qps(MetricEvent::Exception)
    }

    /// The rate of passes per second whose permits were taken before their time.
    #[must_use]
    pub fn reserved_pass_qps(&self) -> f64 {
        self.qps(MetricEvent::ReservedPass)
    }

    /// The rate of passes per second in the last complete bucket; `None` if it is not kept.
    #[must_use]
    pub fn previous_pass_qps(&self) -> Option<f64> {
        self.previous.as_ref().map(|bucket| bucket.qps(MetricEvent::Pass))
    }

    /// The rate of refusals per second in the last complete bucket; `None` if it is not kept.
    #[must_use]
    pub fn previous_block_qps(&self) -> Option<f64> {
        self.previous.as_ref().map(|bucket| bucket.qps(MetricEvent::Block))
    }

    /// The mean response time of the short window; `None` if nothing ended in it.
    #[must_use]
    pub fn avg_rt(&self) -> Option<Duration> {
        self.second.totals.avg_rt()
    }
}

/// What one window held, and for how long it has been one: plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct WindowSnapshot {
    /// What rates are divided by: the interval, or how much of it the node has been there for.
    #[cfg_attr(
        feature = "serde",
        serde(with = "crate::time::serde_nanos", rename = "length_nanos")
    )]
    pub length: Duration,
    /// What was recorded.
    pub totals: MetricTotals,
}

impl WindowSnapshot {
    /// The rate of `event` per second; 0 in a window of no length, which only a default one has.
    #[must_use]
    pub fn qps(&self, event: MetricEvent) -> f64 {
        let sum = self.totals.sum(event);
        if sum == 0 { 0.0 } else { per_second(sum, self.length.as_secs_f64()) }
    }
}

impl<C: Clock + Clone> ResourceNode<C> {
    /// What this node is now.
    pub fn snapshot(&self) -> NodeSnapshot {
        self.snapshot_at(self.clock().now())
    }

    /// What this node is at `now`. Takes no memory but what it returns.
    pub fn snapshot_at(&self, now: Timestamp) -> NodeSnapshot {
        let (second, minute) = self.windows();
        let window = |window: &crate::window::SlidingWindow<C>| WindowSnapshot {
            length: Duration::from_secs_f64(window.observed_secs(now)),
            totals: self.totals_between(&window.span(now)),
        };
        let len = second.config().bucket_len();
        let previous = || WindowSnapshot {
            length: len,
            totals: second.sample(now, 1).map(|it| self.totals_between(&it)).unwrap_or_default(),
        };
        let is_kept = len.saturating_mul(2) <= minute.config().interval();
        NodeSnapshot {
            timestamp: now,
            concurrency: self.concurrency(),
            reserved: self.reserved_at(now),
            second: window(second),
            minute: window(minute),
            previous: is_kept.then(previous),
            max_success_qps: self.max_qps_of(second, now, MetricEvent::Success),
        }
    }
}
