//! The values that a scrape reads from a registry.

use std::ops::{Deref, DerefMut, Range};
use std::sync::MutexGuard;

use leaparray::flow::Quota;
use leaparray::{
    Clock, LatencyHistogram, MetricTotals, NodeSnapshot, Refusals, Registry, Resource, TrafficType,
};

use crate::bounds::Bounds;
use crate::native::{Native, NativeBuckets};

/// The values that a scrape reads. The next scrape uses the same memory.
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
    /// `None` if the node has no histogram of all of them.
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

    /// Drops the handles to the resources, so that they can be evicted, and keeps the memory.
    fn clear(&mut self) {
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
        let inventory = registry.inventory();
        let mut lifetimes = [inventory.delisted_inbound, inventory.delisted_outbound];
        for resource in inventory.resources {
            let of_traffic = match resource.traffic_type() {
                TrafficType::Outbound => &mut lifetimes[1],
                _ => &mut lifetimes[0],
            };
            for context in resource.contexts() {
                *of_traffic += &self.read_row(context, bounds, &mut histogram).totals;
            }
            *of_traffic += &self.read_row(resource, bounds, &mut histogram).totals;
        }
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

    fn read_row(
        &mut self,
        resource: Resource<C>,
        bounds: &Bounds,
        histogram: &mut LatencyHistogram,
    ) -> &Row<C> {
        let (totals, has_histogram) = resource.lifetime_with_histogram_into(histogram);
        let first = self.buckets.len();
        if has_histogram {
            bounds.append(histogram, &mut self.buckets);
        } else {
            histogram.clear();
            self.buckets.push((f64::INFINITY, 0));
        }
        // Response times that were recorded without a histogram could be of any length.
        let unknown = totals.rt_count().saturating_sub(histogram.count());
        if let Some((_, count)) = self.buckets.last_mut() {
            *count = count.saturating_add(unknown);
        }
        // A native histogram has each response time in a bucket.
        let is_complete = has_histogram && unknown == 0;
        let native = is_complete.then(|| self.native.append(histogram));
        let (sum, count) = (totals.rt_sum().as_secs_f64(), totals.rt_count());
        let response_time = ResponseTime { sum, count, buckets: first..self.buckets.len(), native };
        let (refusals, in_flight) = (resource.refusals(), resource.concurrency());
        self.rows.push(Row { resource, totals, refusals, in_flight, response_time });
        &self.rows[self.rows.len() - 1]
    }
}
