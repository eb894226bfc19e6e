//! A reading of the registry, to be printed.

use std::time::Duration;

use leaparray::{NodeSnapshot, Registry, Timestamp};

/// The snapshots of all resources at one time, and their total.
pub(crate) struct Reading {
    pub(crate) since_start: Duration,
    /// Sorted by name.
    pub(crate) resources: Vec<Row>,
    pub(crate) total: Row,
}

/// The snapshot of a resource, or of the total, with its name.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) snapshot: NodeSnapshot,
}

/// How a reading is printed.
pub(crate) type Show = fn(&Reading) -> String;

impl Reading {
    /// Reads all resources, and their total, at `now`, so that every row is of the same second. Requests are recorded
    /// in the meantime, so the total, which is read last, may have a few more of them than the rows.
    pub(crate) fn of(registry: &Registry, start: Timestamp, now: Timestamp) -> Self {
        let row = |name: &str, snapshot| Row { name: name.to_owned(), snapshot };
        let mut resources: Vec<_> = registry
            .iter()
            .map(|resource| row(resource.name(), resource.snapshot_at(now)))
            .collect();
        resources.sort_by(|a, b| a.name.cmp(&b.name));
        Self {
            since_start: now.saturating_since(start),
            resources,
            total: row("total", registry.inbound_snapshot_at(now)),
        }
    }
}
