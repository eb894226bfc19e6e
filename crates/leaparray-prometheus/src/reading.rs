//! The values that a scrape reads from a registry.

use std::mem;
use std::ops::{Deref, Range};
use std::sync::{Mutex, PoisonError};

use leaparray::node::{NodeSnapshot, Refusals, RefusedBy, Responses};
use leaparray::registry::{SeriesCounts, SeriesKey, SeriesReader, WatchedLimiter};
use leaparray::{Clock, LatencyHistogram, MetricTotals, Registry, TrafficType};

use crate::bounds::Bounds;
use crate::native::{Native, NativeBuckets};

/// The values that a scrape reads.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) rows: Vec<Row>,
    /// The buckets of all rows: upper bounds and counts.
    buckets: Vec<(f64, u64)>,
    native: NativeBuckets,
    /// Whether a row has a histogram. Then the response times of all are native histograms:
    /// Prometheus takes all histograms of a family for what the first one is.
    pub(crate) is_native: bool,
    /// For each row, if windows are chosen.
    snapshots: Vec<NodeSnapshot>,
    /// The lifetime totals of the registry, by direction.
    pub(crate) lifetime: [(TrafficType, MetricTotals); 2],
    pub(crate) resources: usize,
    pub(crate) refused: u64,
    pub(crate) watched: Vec<WatchedLimiter>,
}

/// A listed resource, or a context of one.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) key: SeriesKey,
    pub(crate) totals: MetricTotals,
    pub(crate) refusals: Refusals,
    pub(crate) refused_by: RefusedBy,
    pub(crate) responses: Responses,
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
    pub(crate) native: Native,
}

/// The memory of a reading, which the next scrape reuses. Scrapes beside each other have memory of
/// their own: one that is written to a slow client does not hold up another.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Reading>);

/// A reading for one scrape. Its memory is kept when this is dropped.
pub(crate) struct Scrape<'a> {
    reading: Reading,
    spare: &'a Spare,
}

impl Spare {
    /// Returns a reading that `read` fills.
    pub(crate) fn read(&self, read: impl FnOnce(&mut Reading)) -> Scrape<'_> {
        let mut reading = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        read(&mut reading);
        Scrape { reading, spare: self }
    }
}

impl Deref for Scrape<'_> {
    type Target = Reading;

    fn deref(&self) -> &Reading {
        &self.reading
    }
}

impl Drop for Scrape<'_> {
    fn drop(&mut self) {
        self.reading.clear();
        let reading = mem::take(&mut self.reading);
        *self.spare.0.lock().unwrap_or_else(PoisonError::into_inner) = reading;
    }
}

impl Reading {
    pub(crate) fn buckets(&self, of: &ResponseTime) -> &[(f64, u64)] {
        &self.buckets[of.buckets.clone()]
    }

    pub(crate) const fn native_buckets(&self) -> &NativeBuckets {
        &self.native
    }

    /// Returns each row with its windows, if they were read.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&Row, &NodeSnapshot)> {
        self.rows.iter().zip(&self.snapshots)
    }

    /// Keeps the memory.
    fn clear(&mut self) {
        self.rows.clear();
        self.buckets.clear();
        self.native.clear();
        self.is_native = false;
        self.snapshots.clear();
        self.watched.clear();
    }

    /// Reads all resources of a registry, the windows at one time. A resource that is listed no
    /// longer has no samples. If it is listed again, they go on.
    pub(crate) fn read<C: Clock + Clone>(
        &mut self,
        registry: &Registry<C>,
        series: &mut SeriesReader<C>,
        bounds: &Bounds,
        windows: bool,
    ) {
        let now = registry.clock().now();
        let Self { rows, buckets, native, is_native, snapshots, lifetime, .. } = self;
        let reading = series.read(registry);
        for series in &reading {
            let Some(resource) = series.resource() else { continue };
            let counts = series.counts();
            let histogram = counts.histogram();
            // Only `prometheus-client` has native histograms.
            *is_native |= histogram.is_some() && cfg!(feature = "prometheus-client");
            rows.push(Row {
                key: series.key().clone(),
                totals: counts.totals.clone(),
                refusals: counts.refusals,
                refused_by: counts.refused_by.clone(),
                responses: counts.responses,
                in_flight: series.in_flight(),
                response_time: ResponseTime::of(
                    counts,
                    histogram.as_deref(),
                    bounds,
                    buckets,
                    native,
                ),
            });
            if windows {
                snapshots.push(resource.at(now).snapshot());
            }
        }
        *lifetime = [TrafficType::Inbound, TrafficType::Outbound]
            .map(|traffic| (traffic, reading.lifetime(traffic)));
        self.resources = registry.len();
        self.refused = registry.refused();
    }
}

impl ResponseTime {
    /// Appends the buckets of a series.
    fn of(
        counts: &SeriesCounts,
        histogram: Option<&LatencyHistogram>,
        bounds: &Bounds,
        buckets: &mut Vec<(f64, u64)>,
        native: &mut NativeBuckets,
    ) -> Self {
        let first = buckets.len();
        buckets.extend(bounds.pairs(counts.histograms()));
        // Response times that were recorded without a histogram are in the infinite bucket only:
        // they may be of any length.
        let unknown = counts.rt_count_without_histogram();
        if let Some((_, count)) = buckets.last_mut() {
            *count = count.saturating_add(unknown);
        }
        let native = if cfg!(feature = "prometheus-client") {
            native.append(histogram, unknown)
        } else {
            Native::default()
        };
        let (sum, count) = (counts.totals.rt_sum().as_secs_f64(), counts.totals.rt_count());
        Self { sum, count, buckets: first..buckets.len(), native }
    }
}
