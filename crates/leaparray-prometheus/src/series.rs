//! The counts of resources over evictions and removals. A counter must not decrease, so a resource
//! that is listed again continues the counts of the one before.

use std::collections::HashMap;
use std::fmt;

use leaparray::{
    Clock, LatencyHistogram, MetricTotals, Refusals, Resource, ResourceId, TrafficType,
};

use crate::bounds::Bounds;

/// The series of all nodes: of the resources and of their contexts.
#[derive(Default)]
pub(crate) struct AllSeries {
    /// The number of scrapes.
    scrapes: u64,
    listed: HashMap<ResourceId, Series>,
    delisted: HashMap<Labels, Delisted>,
    /// The maximum number of nodes whose counts are kept after they were delisted.
    max_delisted: usize,
}

/// The counts of a node at the last scrape.
struct Series {
    labels: Labels,
    of_node: Counts,
    /// The counts of former nodes with the same labels.
    before: Option<Box<Counts>>,
    /// The number of the scrape that found the node last.
    scrape: u64,
}

struct Delisted {
    counts: Counts,
    /// The number of the scrape that no longer found the node.
    scrape: u64,
}

/// The labels of a node.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Labels {
    resource: Box<str>,
    context: Option<Box<str>>,
    is_outbound: bool,
}

/// Everything that is counted and never decreases.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    pub(crate) totals: MetricTotals,
    pub(crate) refusals: Refusals,
    /// The counts of the classic buckets. Empty unless there is a histogram.
    pub(crate) buckets: Vec<u64>,
    /// The response times that were recorded in a histogram. If the geometry was changed, this is
    /// the merge of several histograms, whose bins become wider: the buckets do not follow from it.
    pub(crate) histogram: LatencyHistogram,
}

impl AllSeries {
    /// Begins a scrape that has found these nodes. The counts of all others are kept for nodes with
    /// the same labels.
    pub(crate) fn begin<'a, C: 'a>(&mut self, nodes: impl Iterator<Item = &'a Resource<C>>) {
        self.scrapes += 1;
        let scrape = self.scrapes;
        for node in nodes {
            if let Some(series) = self.listed.get_mut(&node.id()) {
                series.scrape = scrape;
            }
        }
        for (_, series) in self.listed.extract_if(|_, series| series.scrape != scrape) {
            let mut counts = series.of_node;
            counts.add(series.before.as_deref());
            self.delisted.insert(series.labels, Delisted { counts, scrape });
        }
    }

    /// Ends a scrape, after all nodes were read. Forgets the counts of the nodes that were delisted
    /// first: those of at most `max` nodes are kept, or of the largest number of nodes in a scrape,
    /// if that is larger.
    pub(crate) fn end(&mut self, max: usize) {
        self.max_delisted = self.max_delisted.max(self.listed.len()).max(max);
        let excess = self.delisted.len().saturating_sub(self.max_delisted);
        if excess == 0 {
            return;
        }
        let mut scrapes: Vec<_> = self.delisted.values().map(|delisted| delisted.scrape).collect();
        let (_, &mut last, _) = scrapes.select_nth_unstable(excess - 1);
        // Of several that were delisted at the same time, some may be kept.
        let mut of_last = excess - scrapes.iter().filter(|&&scrape| scrape < last).count();
        self.delisted.retain(|_, delisted| {
            if delisted.scrape == last && of_last > 0 {
                of_last -= 1;
                return false;
            }
            delisted.scrape >= last
        });
    }

    /// Reads the counts of a node, and calls `take` with the counts of the node and the counts of
    /// its series.
    pub(crate) fn read<C: Clock + Clone, T>(
        &mut self,
        node: &Resource<C>,
        bounds: &Bounds,
        take: impl FnOnce(&Counts, &Counts) -> T,
    ) -> T {
        let Self { scrapes, listed, delisted, .. } = self;
        let series = listed.entry(node.id()).or_insert_with(|| {
            let labels = Labels::of(node);
            let before = delisted.remove(&labels).map(|delisted| Box::new(delisted.counts));
            Series { labels, of_node: Counts::default(), before, scrape: *scrapes }
        });
        series.of_node.read(node, bounds);
        match &series.before {
            None => take(&series.of_node, &series.of_node),
            Some(before) => {
                let mut counts = series.of_node.clone();
                counts.add(Some(before));
                take(&series.of_node, &counts)
            }
        }
    }
}

impl Labels {
    fn of<C>(node: &Resource<C>) -> Self {
        Self {
            resource: node.name().into(),
            context: node.context().map(Into::into),
            is_outbound: node.traffic_type() == TrafficType::Outbound,
        }
    }
}

impl Counts {
    /// Returns whether there are buckets.
    pub(crate) fn has_histogram(&self) -> bool {
        !self.buckets.is_empty()
    }

    /// Replaces the counts by those of a node. The memory is used again.
    fn read<C: Clock + Clone>(&mut self, node: &Resource<C>, bounds: &Bounds) {
        self.totals = MetricTotals::default();
        self.buckets.clear();
        self.histogram.clear();
        node.for_each_lifetime_histogram(|totals, histogram| {
            self.totals += totals;
            if let Some(histogram) = histogram {
                bounds.add(histogram, &mut self.buckets);
                self.merge(histogram);
            }
        });
        self.refusals = node.refusals();
    }

    fn add(&mut self, before: Option<&Self>) {
        let Some(before) = before else { return };
        self.totals += &before.totals;
        self.refusals += &before.refusals;
        if before.has_histogram() {
            self.buckets.resize(before.buckets.len(), 0);
        }
        for (sum, count) in self.buckets.iter_mut().zip(&before.buckets) {
            *sum = sum.saturating_add(*count);
        }
        self.merge(&before.histogram);
    }

    fn merge(&mut self, histogram: &LatencyHistogram) {
        // An empty histogram does not decide on the scale.
        if self.histogram.is_empty() {
            self.histogram.clone_from(histogram);
        } else if !histogram.is_empty() {
            self.histogram.merge(histogram);
        }
    }
}

impl fmt::Debug for AllSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllSeries")
            .field("scrapes", &self.scrapes)
            .field("listed", &self.listed.len())
            .field("delisted", &self.delisted.len())
            .field("max_delisted", &self.max_delisted)
            .finish()
    }
}
