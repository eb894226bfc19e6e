//! One look at the registry: what there is to show.

use std::time::Duration;

use leaparray::{NodeSnapshot, Registry, Timestamp};

/// All resources as they were at one moment, and their total.
pub(crate) struct Reading {
    pub(crate) since_start: Duration,
    /// By name.
    pub(crate) resources: Vec<Row>,
    pub(crate) total: Row,
}

/// What one name had.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) snapshot: NodeSnapshot,
}

/// How a reading is printed.
pub(crate) type Show = fn(&Reading) -> String;

impl Reading {
    /// One `now` for the whole of it: every row is of the same second. Recording goes on meanwhile, so
    /// that the total, read last, may have some more than the rows.
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
