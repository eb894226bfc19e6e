//! The histograms of all inbound resources, merged.

use super::Registry;
use super::config::TrafficType;
use crate::histogram::LatencyHistogram;
use crate::node::ResourceNode;
use crate::time::{Clock, Span, Timestamp};
use crate::window::with_scratch;

impl<C: Clock + Clone> Registry<C> {
    /// Returns the histogram of the response times of all inbound resources in their short windows
    /// now; see [`inbound_short_histogram_into_at`](Self::inbound_short_histogram_into_at).
    pub fn inbound_short_histogram(&self) -> Option<LatencyHistogram> {
        self.inbound_short_histogram_at(self.clock.now())
    }

    /// Returns the histogram of the response times of all inbound resources in their short windows
    /// at `now`; `None` if none of them has a histogram, or if one of these response times is in no
    /// histogram. See [`inbound_short_histogram_into_at`](Self::inbound_short_histogram_into_at).
    pub fn inbound_short_histogram_at(&self, now: Timestamp) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.inbound_short_histogram_into_at(now, &mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of the response times of all listed inbound
    /// resources and their contexts, in the short window at `now`, by default the last second. It
    /// is the [merge](LatencyHistogram::merge) of the histograms of the nodes, at the coarsest of
    /// their scales. Its quantiles are those of all requests, which do not follow from the
    /// quantiles of the resources.
    ///
    /// So the histogram has all response times that the totals of these resources have. Returns
    /// `false`, with any contents in `into`, if no such resource has a
    /// [histogram](crate::NodeConfig::with_histogram), or if a response time in the window is in
    /// none: it was recorded in a resource without a histogram, or before the resource had one. A
    /// resource without a histogram that has no response time in the window does not matter. To get
    /// the histogram of some resources beside others that have none, merge their [own
    /// histograms](crate::ResourceNode::short_histogram_into_at).
    ///
    /// The nodes are read one after the other while threads record, so the histogram may differ by
    /// the newest requests from an [`inbound_snapshot_at`](Self::inbound_snapshot_at) of the same
    /// time. Waits for no other thread. The memory of `into` is used again, so this allocates
    /// nothing, once the thread has read a histogram, unless there are more bins than before or a
    /// node has had several geometries.
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, LatencyHistogram, ManualClock, NodeConfig, Registry, RegistryConfig,
    ///     Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let registry = Registry::with_clock(RegistryConfig::default().node(node), clock.clone());
    /// let (orders, users) =
    ///     (registry.resource("GET /orders")?, registry.resource("GET /users")?);
    /// let entries = [orders.enter(), orders.enter(), users.enter()];
    /// for entry in entries {
    ///     clock.advance(Duration::from_millis(10));
    ///     entry.success();
    /// }
    ///
    /// let mut all = LatencyHistogram::default();
    /// # use leaparray::Clock;
    /// assert!(registry.inbound_short_histogram_into_at(clock.now(), &mut all));
    /// assert_eq!((all.count(), all.max()), (3, Some(Duration::from_millis(30))));
    /// let median = all.quantile(0.5).unwrap().as_secs_f64();
    /// assert!((median / 0.020 - 1.0).abs() <= all.relative_error());
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn inbound_short_histogram_into_at(
        &self,
        now: Timestamp,
        into: &mut LatencyHistogram,
    ) -> bool {
        self.merge_inbound(into, |node| node.short_span(now))
    }

    /// Returns the histogram of the response times of all inbound resources in their long windows
    /// now; see [`inbound_short_histogram_into_at`](Self::inbound_short_histogram_into_at).
    pub fn inbound_long_histogram(&self) -> Option<LatencyHistogram> {
        self.inbound_long_histogram_at(self.clock.now())
    }

    /// Returns the histogram of the response times of all inbound resources in their long windows
    /// at `now`; `None` if none of them has a histogram, or if one of these response times is in no
    /// histogram. See [`inbound_short_histogram_into_at`](Self::inbound_short_histogram_into_at).
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, ManualClock, NodeConfig, Registry, RegistryConfig, Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let registry = Registry::with_clock(RegistryConfig::default().node(node), clock.clone());
    /// for name in ["GET /orders", "GET /users"] {
    ///     registry.resource(name)?.enter().success();
    ///     clock.advance(Duration::from_secs(10));
    /// }
    /// assert_eq!(registry.inbound_long_histogram().unwrap().count(), 2);
    /// assert_eq!(registry.inbound_short_histogram().unwrap().count(), 0);
    /// # Ok::<_, leaparray::RegistryError>(())
    /// ```
    pub fn inbound_long_histogram_at(&self, now: Timestamp) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.inbound_long_histogram_into_at(now, &mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of the response times of all listed inbound
    /// resources and their contexts, in the long window at `now`, as
    /// [`inbound_short_histogram_into_at`](Self::inbound_short_histogram_into_at) does for the
    /// short window.
    pub fn inbound_long_histogram_into_at(
        &self,
        now: Timestamp,
        into: &mut LatencyHistogram,
    ) -> bool {
        self.merge_inbound(into, |node| node.long_span(now))
    }

    /// Merges the histograms of the inbound nodes in the span that `span_of` returns for each, and
    /// returns whether there is a histogram of all their response times.
    fn merge_inbound(
        &self,
        into: &mut LatencyHistogram,
        span_of: impl Fn(&ResourceNode<C>) -> Span,
    ) -> bool {
        let (mut has_histogram, mut is_complete) = (false, true);
        let mut read = |node: &ResourceNode<C>, into: &mut LatencyHistogram| {
            // Both are of one moment. If there were a later read of the totals, it could have a
            // response time that the histogram does not need to have.
            let (totals, has_all) = node.totals_and_histogram(&span_of(node), into);
            is_complete &= has_all || totals.rt_count() == 0;
            has_all
        };
        with_scratch(|of_node| {
            self.names.for_each(|listed| {
                if listed.traffic_type() != TrafficType::Inbound || listed.holders().is_gone() {
                    return;
                }
                for node in listed.nodes() {
                    if !has_histogram {
                        has_histogram = read(node, into);
                    } else if read(node, of_node) && !of_node.is_empty() {
                        add(into, of_node);
                    }
                }
            });
        });
        has_histogram && is_complete
    }
}

/// Adds a histogram to a sum, which keeps its scale only if it has response times.
fn add(sum: &mut LatencyHistogram, of_node: &mut LatencyHistogram) {
    if sum.is_empty() {
        std::mem::swap(sum, of_node);
    } else {
        sum.merge(of_node);
    }
}
