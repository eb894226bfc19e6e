//! The totals of processes.

use std::ops::AddAssign;
use std::time::Duration;

use leaparray::{MetricEvent, MetricTotals, SecondMetrics};
use serde::{Deserialize, Serialize};

/// Counts of events, and the sum of response times: plain data. The sums saturate.
///
/// ```
/// use leaparray::{NodeConfig, ResourceNode};
/// use leaparray_redis::fleet::FleetTotals;
///
/// let node = ResourceNode::new(NodeConfig::default());
/// node.enter().success();
/// node.block();
/// let mut totals = FleetTotals::from(&node.lifetime());
/// assert_eq!((totals.pass, totals.success, totals.block, totals.rt_count), (1, 1, 1, 1));
/// totals += &totals.clone();
/// assert_eq!(totals.pass, 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FleetTotals {
    /// The number of requests that were let through.
    pub pass: u64,
    /// The number of requests that were refused.
    pub block: u64,
    /// The number of requests that failed.
    pub exception: u64,
    /// The number of requests that succeeded.
    pub success: u64,
    /// The number of requests that were let through on a reserved permit.
    pub reserved_pass: u64,
    /// The number of requests that were cancelled.
    pub cancelled: u64,
    /// The number of response times.
    pub rt_count: u64,
    /// The sum of the response times.
    pub rt_sum: Duration,
}

impl FleetTotals {
    /// Returns what is left if `other` is taken away, and 0 for each count of which `other` has
    /// more.
    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub, Duration::saturating_sub)
    }

    /// Returns the higher one of each count.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        self.zip(other, u64::max, Duration::max)
    }

    /// Returns whether there is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    fn zip(
        &self,
        other: &Self,
        count: impl Fn(u64, u64) -> u64,
        time: impl Fn(Duration, Duration) -> Duration,
    ) -> Self {
        Self {
            pass: count(self.pass, other.pass),
            block: count(self.block, other.block),
            exception: count(self.exception, other.exception),
            success: count(self.success, other.success),
            reserved_pass: count(self.reserved_pass, other.reserved_pass),
            cancelled: count(self.cancelled, other.cancelled),
            rt_count: count(self.rt_count, other.rt_count),
            rt_sum: time(self.rt_sum, other.rt_sum),
        }
    }
}

impl AddAssign<&Self> for FleetTotals {
    fn add_assign(&mut self, other: &Self) {
        *self = self.zip(other, u64::saturating_add, Duration::saturating_add);
    }
}

impl From<&MetricTotals> for FleetTotals {
    fn from(totals: &MetricTotals) -> Self {
        Self {
            pass: totals.sum(MetricEvent::Pass),
            block: totals.sum(MetricEvent::Block),
            exception: totals.sum(MetricEvent::Exception),
            success: totals.sum(MetricEvent::Success),
            reserved_pass: totals.sum(MetricEvent::ReservedPass),
            cancelled: totals.sum(MetricEvent::Cancelled),
            rt_count: totals.rt_count(),
            rt_sum: totals.rt_sum(),
        }
    }
}

impl From<&SecondMetrics> for FleetTotals {
    fn from(metrics: &SecondMetrics) -> Self {
        Self {
            pass: metrics.pass,
            block: metrics.block,
            exception: metrics.exception,
            success: metrics.success,
            reserved_pass: metrics.reserved_pass,
            cancelled: metrics.cancelled,
            rt_count: metrics.rt_count,
            rt_sum: metrics.rt_sum,
        }
    }
}
