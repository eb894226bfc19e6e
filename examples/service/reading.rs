//! A reading of the registry, to be printed.

use std::time::Duration;

use leaparray::{NodeSnapshot, Registry, RegistrySnapshot, Timestamp};

/// The snapshots of all resources at one time, and their total.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) since_start: Duration,
    /// Its rows are sorted by name.
    pub(crate) snapshot: RegistrySnapshot,
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
    /// Reads all resources now. The memory of the last reading is used again.
    pub(crate) fn renew(&mut self, registry: &Registry, start: Timestamp) {
        registry.snapshot_into(&mut self.snapshot);
        self.since_start = self.snapshot.timestamp.saturating_since(start);
        self.snapshot.resources.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }

    /// The rows of the routes. A route has no contexts, so it has one row.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.snapshot.resources.iter().map(|row| Row { name: &row.name, snapshot: &row.snapshot })
    }

    /// The sum of the rows.
    pub(crate) fn total(&self) -> NodeSnapshot {
        self.snapshot.inbound()
    }
}

impl<'a> Row<'a> {
    pub(crate) const fn of_total(snapshot: &'a NodeSnapshot) -> Self {
        Self { name: "total", snapshot }
    }
}
