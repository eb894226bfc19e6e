//! The values that a scrape reads from a registry.

use std::ops::{Deref, DerefMut, Range};
use std::sync::MutexGuard;

use leaparray::flow::{CircuitState, Quota};
use leaparray::{Clock, MetricTotals, NodeSnapshot, Refusals, Registry, Resource, TrafficType};

use crate::bounds::Bounds;
use crate::native::{Native, NativeBuckets};
use crate::series::{AllSeries, Counts};

/// The values that a scrape reads. The next scrape reuses the memory of the rows and the buckets.
#[derive(Debug)]
pub(crate) struct Reading<C> {
    pub(crate) rows: Vec<Row<C>>,
    /// The buckets of all rows: upper bounds and counts.
    buckets: Vec<(f64, u64)>,
    native: NativeBuckets,
    series: AllSeries,
    /// For each row, if windows are chosen.
    snapshots: Vec<NodeSnapshot>,
    /// The lifetime totals of the registry, by direction.
    pub(crate) lifetime: [(TrafficType, MetricTotals); 2],
    pub(crate) resources: usize,
    pub(crate) refused: u64,
    pub(crate) limits: Vec<(String, Quota)>,
    pub(crate) breakers: Vec<(String, f64)>,
    pub(crate) circuits: Vec<(String, CircuitState)>,
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

/// The response times of a series.
#[derive(Clone, Debug)]
pub(crate) struct ResponseTime {
    /// In seconds.
    pub(crate) sum: f64,
    pub(crate) count: u64,
    buckets: Range<usize>,
    /// `None` unless the histogram of the node has all response times.
    pub(crate) native: Option<Native>,
}

/// A reading under its lock, for one scrape. It is cleared when this is dropped.
pub(crate) struct Scrape<'a, C>(pub(crate) MutexGuard<'a, Reading<C>>);

impl<C> Deref for Scrape<'_, C> {
    type Target = Reading<C>;

    fn deref(&self) -> &Reading<C> {
        &self.0
    }
}

impl<C> DerefMut for Scrape<'_, C> {
    fn deref_mut(&mut self) -> &mut Reading<C> {
        &mut self.0
    }
}

impl<C> Drop for Scrape<'_, C> {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl<C> Default for Reading<C> {
    fn default() -> Self {
        let none = MetricTotals::default;
        Self {
            rows: Vec::new(),
            buckets: Vec::new(),
            native: NativeBuckets::default(),
            series: AllSeries::default(),
            snapshots: Vec::new(),
            lifetime: [(TrafficType::Inbound, none()), (TrafficType::Outbound, none())],
            resources: 0,
            refused: 0,
            limits: Vec::new(),
            breakers: Vec::new(),
            circuits: Vec::new(),
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

    /// Drops the handles to the resources, so that they can be evicted, and keeps the memory and
    /// the series.
    fn clear(&mut self) {
        self.rows.clear();
        self.buckets.clear();
        self.native.clear();
        self.snapshots.clear();
        self.limits.clear();
        self.breakers.clear();
        self.circuits.clear();
    }
}

impl<C: Clock + Clone> Reading<C> {
    /// Reads all resources of a registry, the windows at one time.
    pub(crate) fn read(&mut self, registry: &Registry<C>, bounds: &Bounds, windows: bool) {
        let now = registry.clock().now();
        let inventory = registry.inventory();
        let mut nodes = Vec::with_capacity(inventory.resources.len());
        for resource in inventory.resources {
            nodes.extend(resource.contexts());
            nodes.push(resource);
        }
        self.series.begin(nodes.iter());
        let mut lifetimes = [inventory.delisted_inbound, inventory.delisted_outbound];
        for node in nodes {
            let of_traffic = match node.traffic_type() {
                TrafficType::Outbound => &mut lifetimes[1],
                _ => &mut lifetimes[0],
            };
            self.read_row(node, bounds, of_traffic);
        }
        self.series.end(registry.max_resources());
        for ((_, lifetime), read) in self.lifetime.iter_mut().zip(lifetimes) {
            *lifetime = read;
        }
        if windows {
            let snapshots = self.rows.iter().map(|row| row.resource.snapshot_at(now));
            self.snapshots.extend(snapshots);
        }
        self.resources = registry.len();
        self.refused = registry.refused();
    }

    /// Adds a row, and adds the totals of the node to the totals of its direction.
    fn read_row(&mut self, resource: Resource<C>, bounds: &Bounds, of_traffic: &mut MetricTotals) {
        let Self { rows, buckets, native, series, .. } = self;
        let (totals, refusals, response_time) =
            series.read(&resource, bounds, |of_node, counts| {
                *of_traffic += &of_node.totals;
                let response_time = ResponseTime::of(counts, bounds, buckets, native);
                (counts.totals.clone(), counts.refusals, response_time)
            });
        let in_flight = resource.concurrency();
        rows.push(Row { resource, totals, refusals, in_flight, response_time });
    }
}

impl ResponseTime {
    /// Appends the buckets of a series.
    fn of(
        counts: &Counts,
        bounds: &Bounds,
        buckets: &mut Vec<(f64, u64)>,
        native: &mut NativeBuckets,
    ) -> Self {
        let Counts { totals, histogram, .. } = counts;
        let first = buckets.len();
        buckets.extend(bounds.pairs(&counts.buckets));
        // Response times that were recorded without a histogram are in the infinite bucket only:
        // they may be of any length.
        let unknown = totals.rt_count().saturating_sub(histogram.count());
        if let Some((_, count)) = buckets.last_mut() {
            *count = count.saturating_add(unknown);
        }
        // A native histogram has each response time in a bucket. Only `prometheus-client` reads it.
        let is_complete = counts.has_histogram() && unknown == 0;
        let is_native = is_complete && cfg!(feature = "prometheus-client");
        let native = is_native.then(|| native.append(histogram));
        let (sum, count) = (totals.rt_sum().as_secs_f64(), totals.rt_count());
        Self { sum, count, buckets: first..buckets.len(), native }
    }
}
