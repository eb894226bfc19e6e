//! Snapshots of several nodes, added up.

use std::ops::AddAssign;

use super::reason::Refusals;
use super::refused_by::RefusedBy;
use super::response::Responses;
use super::snapshot::{NodeSnapshot, WindowSnapshot};
use crate::time::Timestamp;

impl NodeSnapshot {
    /// Returns the snapshot of no node, to which other snapshots are added.
    pub(crate) fn nothing_at(now: Timestamp) -> Self {
        Self {
            timestamp: now,
            concurrency: 0,
            reserved: 0,
            refusals: Refusals::default(),
            refused_by: RefusedBy::default(),
            responses: Responses::default(),
            short: WindowSnapshot::default(),
            long: WindowSnapshot::default(),
            previous: None,
            max_success_qps: 0.0,
        }
    }
}

impl AddAssign<&Self> for NodeSnapshot {
    /// Adds another snapshot, as if one node had recorded the requests of both.
    ///
    /// Counts, response times, requests in flight, reserved and refused permits and responses are
    /// added; the sums saturate. The timestamp is the later of the two. The peaks are lower bounds:
    /// [`max_success_qps`](Self::max_success_qps) and
    /// [`max_concurrency`](crate::MetricTotals::max_concurrency) are the higher of the two, because
    /// it is not known whether both nodes had their peaks at the same time.
    ///
    /// The sum is meaningful for snapshots of nodes of one geometry, taken at one `now`. The time
    /// that a window covers is the longer of the two times. That is right if one node is younger
    /// than the other, but not if its window is shorter. The rate of the sum is then lower than the
    /// sum of the rates, because the younger node's rate is that since it was made.
    ///
    /// ```
    /// use leaparray::{ManualClock, MetricEvent, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let [web, batch] =
    ///     [(); 2].map(|()| ResourceNode::with_clock(NodeConfig::default(), clock.clone()));
    /// clock.advance(Duration::from_millis(60_499));
    /// web.enter().success();
    /// clock.advance(Duration::from_millis(1));
    /// let _in_flight = [web.enter(), batch.enter()];
    /// batch.block();
    ///
    /// let mut both = web.now().snapshot();
    /// both += &batch.now().snapshot();
    /// assert_eq!((both.pass_qps(), both.block_qps(), both.success_qps()), (6.0, 2.0, 2.0));
    /// assert_eq!((both.concurrency, both.short.totals.max_concurrency()), (2, Some(1)));
    /// ```
    fn add_assign(&mut self, other: &Self) {
        // Each field is named, so that a field which is added later is not forgotten here.
        let Self {
            timestamp,
            concurrency,
            reserved,
            refusals,
            refused_by,
            responses,
            short,
            long,
            previous,
            max_success_qps,
        } = other;
        self.refusals += refusals;
        self.refused_by += refused_by;
        self.responses += responses;
        self.timestamp = self.timestamp.max(*timestamp);
        self.concurrency = self.concurrency.saturating_add(*concurrency);
        self.reserved = self.reserved.saturating_add(*reserved);
        self.short += short;
        self.long += long;
        match (&mut self.previous, previous) {
            (Some(sum), Some(previous)) => *sum += previous,
            (sum, previous) => *sum = sum.take().or_else(|| previous.clone()),
        }
        self.max_success_qps = self.max_success_qps.max(*max_success_qps);
    }
}

impl AddAssign<&Self> for WindowSnapshot {
    /// Adds another window: the totals are added, and the times are the longer of the two.
    ///
    /// The quantiles of both together do not follow from the quantiles of each. They stay if one of
    /// the windows has no response time, and are `None` otherwise. To add up quantiles,
    /// [merge](crate::LatencyHistogram::merge) the histograms.
    ///
    /// ```
    /// use leaparray::node::WindowSnapshot;
    /// use std::time::Duration;
    ///
    /// let mut sum = WindowSnapshot::default();
    /// let mut one = WindowSnapshot::default();
    /// one.interval = Duration::from_secs(1);
    /// sum += &one;
    /// assert_eq!(sum, one);
    /// ```
    fn add_assign(&mut self, other: &Self) {
        let Self { covered, interval, totals, quantiles } = other;
        self.quantiles = match (self.totals.rt_count(), totals.rt_count()) {
            (_, 0) => self.quantiles,
            (0, _) => *quantiles,
            _ => None,
        };
        self.covered = self.covered.max(*covered);
        self.interval = self.interval.max(*interval);
        self.totals += totals;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::array::Bucket;
    use crate::histogram::LatencyHistogram;
    use crate::metric::MetricBucket;

    /// A window with one response time, or without any.
    fn window(rt: Option<Duration>) -> WindowSnapshot {
        let (bucket, mut histogram) = (MetricBucket::default(), LatencyHistogram::default());
        if let Some(rt) = rt {
            bucket.record_rt(rt);
            histogram.record(rt);
        }
        WindowSnapshot {
            totals: bucket.total(),
            quantiles: histogram.summary(),
            ..WindowSnapshot::default()
        }
    }

    #[test]
    fn quantiles_stay_only_if_all_response_times_are_in_them() {
        let [some, none] = [Some(Duration::from_millis(3)), None].map(window);
        assert!(some.quantiles.is_some());
        for (mut sum, other) in [(some.clone(), &none), (none.clone(), &some)] {
            sum += other;
            assert_eq!(sum, some);
        }
        let mut sum = some.clone();
        sum += &some;
        assert_eq!((sum.quantiles, sum.totals.rt_count()), (None, 2));
    }

    #[test]
    fn quantiles_are_unknown_if_a_window_with_response_times_has_none() {
        let rt = Some(Duration::from_millis(3));
        let (some, mut unknown) = (window(rt), window(rt));
        unknown.quantiles = None;
        for (mut sum, other) in [(some.clone(), &unknown), (unknown.clone(), &some)] {
            sum += other;
            assert_eq!(sum.quantiles, None);
        }
    }
}
