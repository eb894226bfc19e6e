//! The lifetime histograms of a node.

use super::ResourceNode;
use super::generation::{Generation, add_reserved};
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::MetricTotals;
use crate::time::Clock;
use crate::window::with_scratch;

impl<C: Clock + Clone> ResourceNode<C> {
    /// Returns the histogram of all response times since the node was made, as a scraper needs it:
    /// no count is ever taken away; `None` if the node has never had a histogram.
    ///
    /// Several [geometries](Self::reconfigure) are merged. So the scale becomes coarser when the
    /// first response time is recorded under a geometry with a coarser scale. Response times that
    /// were recorded under a geometry without a histogram are left out: then the count is below the
    /// number of response times in the [lifetime totals](Self::lifetime).
    ///
    /// ```
    /// use leaparray::{HistogramConfig, ManualClock, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let node = ResourceNode::with_clock(config, clock.clone());
    /// for hour in 1..=3 {
    ///     node.enter().success();
    ///     clock.advance(Duration::from_secs(3_600));
    ///     assert_eq!(node.lifetime_histogram().unwrap().count(), hour);
    /// }
    /// assert_eq!(node.now().long().histogram().unwrap().count(), 0);
    /// ```
    pub fn lifetime_histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        let has_histogram = self.merge_generations(&mut histogram, |generation, into| {
            generation.array().lifetime_histogram_into(into).is_some()
        });
        has_histogram.then_some(histogram)
    }

    /// Calls `visit` with the lifetime totals of each [geometry](Self::reconfigure) that the node
    /// has had, in the order in which they were first set, and with the lifetime histogram of those
    /// that have one. The totals add up to the [lifetime totals](Self::lifetime), and the
    /// histograms merge to the [lifetime histogram](Self::lifetime_histogram).
    ///
    /// Each histogram has the scale of its geometry, so a response time stays in its bin for ever.
    /// An exporter that sorts the bins into classes of its own needs this: no class ever loses a
    /// count. In the merged histogram, bins become wider when a coarser geometry is set, and a bin
    /// may then be on the other side of a limit between two classes. The number of response times
    /// in the totals is the count of the histogram, if there is one.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, NodeConfig, ResourceNode};
    ///
    /// let [fine, coarse] = [5, 3].map(|scale| HistogramConfig::with_scale(scale).unwrap());
    /// let plain = NodeConfig::default();
    /// let node = ResourceNode::new(plain.with_histogram(fine));
    /// for config in [plain.with_histogram(fine), plain, plain.with_histogram(coarse)] {
    ///     node.reconfigure(config);
    ///     node.enter().success();
    /// }
    /// let mut scales = Vec::new();
    /// node.for_each_lifetime_histogram(|totals, histogram| {
    ///     assert_eq!(totals.rt_count(), 1);
    ///     scales.push(histogram.map(|it| it.scale()));
    /// });
    /// assert_eq!(scales, [Some(5), None, Some(3)]);
    /// assert_eq!(node.lifetime_histogram().map(|it| it.scale()), Some(3));
    /// ```
    pub fn for_each_lifetime_histogram(
        &self,
        mut visit: impl FnMut(&MetricTotals, Option<&LatencyHistogram>),
    ) {
        with_scratch(|histogram| {
            for generation in self.generations() {
                let (mut totals, has_histogram) = generation.lifetime_and_histogram(histogram);
                add_reserved(&mut totals, generation.ever_reserved());
                visit(&totals, has_histogram.then_some(&*histogram));
            }
        });
    }

    /// Returns whether any geometry has a histogram.
    pub(super) fn has_histogram(&self) -> bool {
        self.generations().any(|generation| generation.array().histogram().is_some())
    }

    /// Merges the histograms that `read` returns for each generation, if there are any.
    pub(super) fn merge_generations(
        &self,
        into: &mut LatencyHistogram,
        mut read: impl FnMut(&Generation<C>, &mut LatencyHistogram) -> bool,
    ) -> bool {
        let mut has_histogram = false;
        for generation in self.generations() {
            if !has_histogram {
                has_histogram = read(generation, into);
                continue;
            }
            let mut more = LatencyHistogram::new(HistogramConfig::default());
            if read(generation, &mut more) && !more.is_empty() {
                if into.is_empty() {
                    *into = more;
                } else {
                    into.merge(&more);
                }
            }
        }
        has_histogram
    }
}
