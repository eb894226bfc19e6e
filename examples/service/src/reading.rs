//! A reading of the registry, to be printed.

use std::time::Duration;

use leaparray::histogram::LatencyQuantiles;
use leaparray::node::NodeSnapshot;
use leaparray::registry::{RegistrySnapshot, WatchedLimiter};
use leaparray::{LatencyHistogram, Registry, Timestamp};

/// The snapshots of all resources at one time, and their total.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) since_start: Duration,
    /// Its rows are sorted by name.
    pub(crate) snapshot: RegistrySnapshot,
    /// Of the response times of all resources in the last second.
    second: Option<LatencyQuantiles>,
    /// Of the response times of all resources in the last minute.
    minute: Option<LatencyQuantiles>,
    /// Its memory is used again.
    histogram: LatencyHistogram,
    /// The limiters with their states.
    pub(crate) limiters: Vec<WatchedLimiter>,
}

/// The snapshot of a resource, or of the total, with its name.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) name: &'a str,
    pub(crate) snapshot: &'a NodeSnapshot,
}

/// How a reading is printed.
pub(crate) type Show = fn(&Reading) -> String;

impl Reading {
    /// Reads all resources at `now`. The memory of the last reading is used again.
    pub(crate) fn renew_at(&mut self, now: Timestamp, registry: &Registry, start: Timestamp) {
        registry.at(now).snapshot_into(&mut self.snapshot);
        let Self { histogram, .. } = self;
        let has_all = registry.at(now).short().histogram_into(histogram);
        self.second = has_all.then(|| histogram.summary()).flatten();
        let has_all = registry.at(now).long().histogram_into(histogram);
        self.minute = has_all.then(|| histogram.summary()).flatten();
        self.limiters = registry.watched();
        self.since_start = now.saturating_since(start);
        self.snapshot.resources.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }

    /// The rows of the routes. A route has no contexts, so it has one row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.snapshot.resources.iter().map(|row| Row { name: &row.name, snapshot: &row.snapshot })
    }

    /// The sum of the rows, with the quantiles of all response times: none if some of them are in
    /// no histogram. The quantiles do not follow from those of the rows, but from the merged
    /// histograms. A histogram may have requests that ended after the rows were read.
    pub(crate) fn total(&self) -> NodeSnapshot {
        let mut total = self.snapshot.inbound();
        total.short.quantiles = self.second;
        total.long.quantiles = self.minute;
        total
    }
}

impl<'a> Row<'a> {
    pub(crate) const fn of_total(snapshot: &'a NodeSnapshot) -> Self {
        Self { name: "total", snapshot }
    }
}
