//! What a scrape reads of a registry.

use std::ops::Range;

use leaparray::flow::Quota;
use leaparray::{
    Clock, LatencyHistogram, MetricTotals, NodeSnapshot, Refusals, Registry, Resource, TrafficType,
};

use crate::bounds::Bounds;
use crate::native::{Native, NativeBuckets};

/// What a scrape reads. Its memory is used again by the next scrape.
#[derive(Debug)]
pub(crate) struct Reading<C> {
    pub(crate) rows: Vec<Row<C>>,
    /// The buckets of all rows: upper bounds and counts.
    buckets: Vec<(f64, u64)>,
    native: NativeBuckets,
    /// For each row, if windows are chosen.
    snapshots: Vec<NodeSnapshot>,
    /// The lifetime totals of the registry, by direction.
    pub(crate) lifetime: [(TrafficType, MetricTotals); 2],
    pub(crate) resources: usize,
    pub(crate) refused: u64,
    pub(crate) limits: Vec<(String, Quota)>,
    pub(crate) breakers: Vec<(String, f64)>,
}

/// A resource, or a context of one.
#[derive(Debug)]
pub(crate) struct Row<C> {
    pub(crate) resource: Resource<C>,
    pub(crate) totals: MetricTotals,
    pub(crate) refusals: Refusals,
    pub(crate) in_flight: u64,
    pub(crate) response_time: ResponseTime,
}

/// The response times since the node was made.
#[derive(Clone, Debug)]
pub(crate) struct ResponseTime {
    /// In seconds.
    pub(crate) sum: f64,
    pub(crate) count: u64,
    buckets: Range<usize>,
    /// `None` if the node has no histogram.
    pub(crate) native: Option<Native>,
}

impl<C> Default for Reading<C> {
    fn default() -> Self {
        let none = MetricTotals::default;
        Self {
            rows: Vec::new(),
            buckets: Vec::new(),
            native: NativeBuckets::default(),
            snapshots: Vec::new(),
            lifetime: [(TrafficType::Inbound, none()), (TrafficType::Outbound, none())],
            resources: 0,
            refused: 0,
            limits: Vec::new(),
            breakers: Vec::new(),
        }
    }
}

impl<C> Reading<C> {
    pub(crate) fn buckets(&self, of: &ResponseTime) -> &[(f64, u64)] {
        &self.buckets[of.buckets.clone()]
    }

    pub(crate) const fn native_buckets(&self) -> &NativeBuckets {
        &self.native
    }

    /// Returns each row with its windows, if they were read.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&Row<C>, &NodeSnapshot)> {
        self.rows.iter().zip(&self.snapshots)
    }

    /// Lets go of the resources, so that they can be evicted, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.buckets.clear();
        self.native.clear();
        self.snapshots.clear();
        self.limits.clear();
        self.breakers.clear();
    }
}

impl<C: Clock + Clone> Reading<C> {
    /// Reads all resources of a registry, the windows at one time.
    pub(crate) fn read(&mut self, registry: &Registry<C>, bounds: &Bounds, windows: bool) {
        let now = registry.clock().now();
        let mut histogram = LatencyHistogram::default();
        for resource in registry {
            for context in resource.contexts() {
                self.read_row(context, bounds, &mut histogram);
            }
            self.read_row(resource, bounds, &mut histogram);
        }
        if windows {
            let snapshots = self.rows.iter().map(|row| row.resource.snapshot_at(now));
            self.snapshots.extend(snapshots);
        }
        for (traffic, totals) in &mut self.lifetime {
            *totals = registry.lifetime_of(*traffic);
        }
        self.resources = registry.len();
        self.refused = registry.refused();
    }

    fn read_row(
        &mut self,
        resource: Resource<C>,
        bounds: &Bounds,
        histogram: &mut LatencyHistogram,
    ) {
        let totals = resource.lifetime();
        let first = self.buckets.len();
        let (sum, count, native) = if resource.lifetime_histogram_into(histogram) {
            bounds.append(histogram, &mut self.buckets);
            (histogram.sum(), histogram.count(), Some(self.native.append(histogram)))
        } else {
            self.buckets.push((f64::INFINITY, totals.rt_count()));
            (totals.rt_sum(), totals.rt_count(), None)
        };
        let buckets = first..self.buckets.len();
        let response_time = ResponseTime { sum: sum.as_secs_f64(), count, buckets, native };
        let (refusals, in_flight) = (resource.refusals(), resource.concurrency());
        self.rows.push(Row { resource, totals, refusals, in_flight, response_time });
    }
}
