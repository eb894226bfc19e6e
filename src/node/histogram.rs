//! Histograms and quantiles of a node.

use std::time::Duration;

use super::ResourceNode;
use super::generation::{Generation, add_reserved};
use crate::histogram::{HistogramConfig, LatencyHistogram};
use crate::metric::MetricTotals;
use crate::time::{Clock, Span, Timestamp};
use crate::window::{SlidingWindow, with_scratch};

impl<C: Clock + Clone> ResourceNode<C> {
    /// Returns the quantile `q` of the response times in the short window now; see
    /// [`quantile_at`](Self::quantile_at).
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        self.quantile_at(self.clock().now(), q)
    }

    /// Returns the quantile `q` of the response times in the short window at `now`, by default of
    /// the last second: from 0, the shortest, to 1, the longest. `None` if `q` is not in this
    /// range, if no response time was recorded, if the node has no
    /// [histogram](crate::NodeConfig::with_histogram), or if a response time in the window was
    /// recorded under a [geometry](Self::reconfigure) without one. See
    /// [`SlidingWindow::quantile_at`](crate::SlidingWindow::quantile_at) for the accuracy.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, ManualClock, NodeConfig, ResourceNode, Timestamp};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let node = ResourceNode::with_clock(config, clock.clone());
    /// let entries = [(); 3].map(|()| node.enter());
    /// for entry in entries {
    ///     clock.advance(Duration::from_millis(10));
    ///     entry.success();
    /// }
    /// let median = node.quantile(0.5).unwrap().as_secs_f64();
    /// assert!((median / 0.020 - 1.0).abs() <= HistogramConfig::default().relative_error());
    /// assert_eq!(node.quantile(1.0), Some(Duration::from_millis(30)));
    /// ```
    pub fn quantile_at(&self, now: Timestamp, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles_of(&self.current().short, now, [q]);
        quantile
    }

    /// Returns the quantile `q` of the response times in the long window now, by default of the
    /// last minute; see [`quantile_at`](Self::quantile_at).
    pub fn long_quantile(&self, q: f64) -> Option<Duration> {
        self.long_quantile_at(self.clock().now(), q)
    }

    /// Returns the quantile `q` of the response times in the long window at `now`; see
    /// [`quantile_at`](Self::quantile_at).
    pub fn long_quantile_at(&self, now: Timestamp, q: f64) -> Option<Duration> {
        let [quantile] = self.quantiles_of(&self.current().long, now, [q]);
        quantile
    }

    /// Returns the histogram of the response times in the short window now; see
    /// [`short_histogram_into_at`](Self::short_histogram_into_at).
    pub fn short_histogram(&self) -> Option<LatencyHistogram> {
        self.short_histogram_at(self.clock().now())
    }

    /// Returns the histogram of the response times in the short window at `now`; `None` if the node
    /// has no histogram. See [`short_histogram_into_at`](Self::short_histogram_into_at).
    pub fn short_histogram_at(&self, now: Timestamp) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.short_histogram_into_at(now, &mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of the response times in the short window
    /// at `now`. Its memory is used again, so this allocates nothing, unless there are more bins
    /// than `into` has had before, or the node has had several geometries.
    ///
    /// If the node has had several [geometries](Self::reconfigure), the histogram is the merge of
    /// theirs, at the coarsest scale of those that have response times in the window. Returns
    /// `false`, with any contents in `into`, if the node has no histogram, or if response times in
    /// the window were recorded under a geometry without one.
    pub fn short_histogram_into_at(&self, now: Timestamp, into: &mut LatencyHistogram) -> bool {
        self.totals_and_histogram(&self.short_span(now), into).1
    }

    /// Returns the histogram of the response times in the long window now; see
    /// [`long_histogram_into_at`](Self::long_histogram_into_at).
    pub fn long_histogram(&self) -> Option<LatencyHistogram> {
        self.long_histogram_at(self.clock().now())
    }

    /// Returns the histogram of the response times in the long window at `now`; `None` if the node
    /// has no histogram. See [`long_histogram_into_at`](Self::long_histogram_into_at).
    pub fn long_histogram_at(&self, now: Timestamp) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.long_histogram_into_at(now, &mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of the response times in the long window at
    /// `now`, as [`short_histogram_into_at`](Self::short_histogram_into_at) does for the short
    /// window.
    pub fn long_histogram_into_at(&self, now: Timestamp, into: &mut LatencyHistogram) -> bool {
        self.totals_and_histogram(&self.long_span(now), into).1
    }

    /// Returns the histogram of all response times since the node was made; see
    /// [`lifetime_histogram_into`](Self::lifetime_histogram_into).
    pub fn lifetime_histogram(&self) -> Option<LatencyHistogram> {
        let mut histogram = LatencyHistogram::default();
        self.lifetime_histogram_into(&mut histogram).then_some(histogram)
    }

    /// Replaces the contents of `into` by the histogram of all response times since the node was
    /// made, as a scraper needs it: no count is ever taken away. Returns `false`, with any contents
    /// in `into`, if the node has never had a histogram.
    ///
    /// Several [geometries](Self::reconfigure) are merged. So the scale becomes coarser when the
    /// first response time is recorded under a geometry with a coarser scale. Response times that
    /// were recorded under a geometry without a histogram are left out: then the count is below the
    /// number of response times in the [lifetime totals](Self::lifetime).
    ///
    /// ```
    /// use leaparray::{
    ///     HistogramConfig, LatencyHistogram, ManualClock, NodeConfig, ResourceNode, Timestamp,
    /// };
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new(Timestamp::from_secs(60));
    /// let config = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let node = ResourceNode::with_clock(config, clock.clone());
    /// let mut histogram = LatencyHistogram::default();
    /// for hour in 1..=3 {
    ///     node.enter().success();
    ///     clock.advance(Duration::from_secs(3_600));
    ///     assert!(node.lifetime_histogram_into(&mut histogram));
    ///     assert_eq!(histogram.count(), hour);
    /// }
    /// assert_eq!(node.long_histogram().unwrap().count(), 0);
    /// ```
    pub fn lifetime_histogram_into(&self, into: &mut LatencyHistogram) -> bool {
        self.merge_generations(into, |generation, into| {
            generation.array().lifetime_histogram_into(into).is_some()
        })
    }

    /// Returns the [lifetime totals](Self::lifetime), and whether `into` has the lifetime
    /// histogram, as [`lifetime_histogram_into`](Self::lifetime_histogram_into) returns it. Reads
    /// both in one pass over the node, in little more time than one of them.
    ///
    /// The number of response times in the totals is the count of the histogram, plus the response
    /// times that were recorded under a [geometry](Self::reconfigure) without a histogram.
    ///
    /// ```
    /// use leaparray::{HistogramConfig, LatencyHistogram, NodeConfig, ResourceNode};
    ///
    /// let with_histogram = NodeConfig::default().with_histogram(HistogramConfig::default());
    /// let node = ResourceNode::new(NodeConfig::default());
    /// node.enter().success();
    /// let mut histogram = LatencyHistogram::default();
    /// let (totals, has_histogram) = node.lifetime_with_histogram_into(&mut histogram);
    /// assert_eq!((totals.rt_count(), has_histogram), (1, false));
    ///
    /// node.reconfigure(with_histogram);
    /// node.enter().success();
    /// let (totals, has_histogram) = node.lifetime_with_histogram_into(&mut histogram);
    /// assert_eq!((totals.rt_count(), has_histogram), (2, true));
    /// assert_eq!(histogram.count(), 1);
    /// ```
    pub fn lifetime_with_histogram_into(
        &self,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        let mut totals = MetricTotals::default();
        let has_histogram = self.merge_generations(into, |generation, into| {
            add_reserved(&mut totals, generation.ever_reserved());
            let (of_generation, has_histogram) = generation.lifetime_and_histogram(into);
            totals += &of_generation;
            has_histogram
        });
        (totals, has_histogram)
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

    fn quantiles_of<const N: usize>(
        &self,
        window: &SlidingWindow<C>,
        now: Timestamp,
        q: [f64; N],
    ) -> [Option<Duration>; N] {
        with_scratch(|histogram| match self.totals_and_histogram(&window.span(now), histogram) {
            (_, true) => histogram.quantiles(q),
            (_, false) => [None; N],
        })
    }

    /// Returns the span of the short window at `now`.
    pub(crate) fn short_span(&self, now: Timestamp) -> Span {
        self.current().short.span(now)
    }

    /// Returns the span of the long window at `now`.
    pub(crate) fn long_span(&self, now: Timestamp) -> Span {
        self.current().long.span(now)
    }

    /// Returns whether any geometry has a histogram.
    pub(super) fn has_histogram(&self) -> bool {
        self.generations().any(|generation| generation.array().histogram().is_some())
    }

    /// Returns the totals of the buckets of the span, of all geometries, and whether there is a
    /// histogram of all response times in them. If so, replaces the contents of `into` by the
    /// histogram, of the same moment.
    pub(crate) fn totals_and_histogram(
        &self,
        span: &Span,
        into: &mut LatencyHistogram,
    ) -> (MetricTotals, bool) {
        let (mut totals, mut is_complete) = (MetricTotals::default(), true);
        let has_histogram = self.merge_generations(into, |generation, into| {
            add_reserved(&mut totals, generation.reserved_in(span));
            let (of_generation, has_histogram) = generation.totals_and_histogram(span, into);
            totals += &of_generation;
            is_complete &= has_histogram || of_generation.rt_count() == 0;
            has_histogram
        });
        (totals, has_histogram && is_complete)
    }

    /// Merges the histograms that `read` returns for each generation, if there are any.
    fn merge_generations(
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
