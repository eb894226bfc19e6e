//! The readings of all resources at one time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leaparray::MetricEvent::{Pass, Success};
use leaparray::node::NodeSnapshot;
use leaparray::registry::RegistrySnapshot;
use leaparray::{Clock, TrafficType};

use crate::registry::{SECOND, registry, together};

/// The names and contexts of the rows, in the order of the names.
fn rows(snapshot: &RegistrySnapshot) -> Vec<(&str, Option<&str>)> {
    let mut rows: Vec<_> =
        snapshot.resources.iter().map(|row| (&*row.name, row.context.as_deref())).collect();
    // Stable: the rows of one resource keep their order.
    rows.sort_by_key(|row| row.0);
    rows
}

fn sum_of<'a>(
    snapshot: &RegistrySnapshot,
    rows: impl Iterator<Item = &'a NodeSnapshot>,
) -> NodeSnapshot {
    let mut sum = RegistrySnapshot::default().total();
    sum.timestamp = snapshot.timestamp;
    rows.for_each(|row| sum += row);
    sum
}

#[test]
fn snapshot_has_a_row_for_each_resource_and_each_context() {
    let (registry, clock) = registry();
    let orders = registry.resource("orders").unwrap();
    let web = orders.in_context("web").unwrap();
    let batch = orders.in_context("batch").unwrap();
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    orders.enter().success();
    let _in_flight = [web.enter(), batch.enter(), database.enter()];
    database.block();
    clock.advance(SECOND / 4);

    let snapshot = registry.now().snapshot();
    assert_eq!(snapshot.timestamp, clock.now());
    let expected = [("database", None), ("orders", None)];
    let contexts = ["web", "batch"].map(|name| ("orders", Some(name)));
    assert_eq!(rows(&snapshot), [expected, contexts].concat());
    for row in &snapshot.resources {
        let handle = registry.get(&row.name).unwrap();
        let handle = match &row.context {
            Some(context) => handle.in_context(context).unwrap(),
            None => handle,
        };
        assert_eq!(row.snapshot, handle.now().snapshot());
        assert_eq!(row.traffic_type, handle.traffic_type());
    }
    assert_eq!(snapshot.inbound(), registry.now().inbound());
    assert_eq!((snapshot.total().concurrency, snapshot.inbound().concurrency), (3, 2));
    let sum = sum_of(&snapshot, snapshot.resources.iter().map(|row| &row.snapshot));
    assert_eq!(snapshot.total(), sum);

    let later = clock.now().saturating_add(SECOND * 60);
    let later = registry.at(later).snapshot();
    assert!(later.resources.iter().all(|row| row.snapshot.timestamp == later.timestamp));
    assert_eq!(later.total().long.totals.sum(Pass), 0);
}

#[test]
fn snapshot_of_resources_that_are_gone_has_no_rows() {
    let (registry, _) = registry();
    let mut snapshot = registry.now().snapshot();
    assert_eq!((snapshot.resources.len(), snapshot.total().concurrency), (0, 0));
    let held = registry.resource("removed").unwrap();
    registry.resource("evicted").unwrap();
    let kept = registry.resource("kept").unwrap();
    registry.now().snapshot_into(&mut snapshot);
    assert_eq!(rows(&snapshot), [("evicted", None), ("kept", None), ("removed", None)]);
    assert!(registry.remove("removed"));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    held.enter().success();
    kept.enter().success();
    registry.now().snapshot_into(&mut snapshot);
    assert_eq!(rows(&snapshot), [("kept", None)]);
    assert_eq!(snapshot.total().long.totals.sum(Success), 1);
}

/// Ends the other threads when it is dropped, also if an assertion fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A sum that read the nodes once more would have requests that the rows do not have.
#[test]
fn total_agrees_with_its_rows_while_threads_record() {
    let (registry, _) = registry();
    let done = AtomicBool::new(false);
    together(|number| {
        if number > 0 {
            let name = ["orders", "users", "search"][number - 1];
            let resource = registry.resource(name).unwrap();
            while !done.load(Ordering::Relaxed) {
                resource.enter().success();
            }
            return;
        }
        let _end = End(&done);
        let mut snapshot = RegistrySnapshot::default();
        for _ in 0..200 {
            registry.now().snapshot_into(&mut snapshot);
            let rows = || snapshot.resources.iter().map(|row| &row.snapshot);
            let passes = rows().map(|row| row.long.totals.sum(Pass)).sum::<u64>();
            assert_eq!(snapshot.total().long.totals.sum(Pass), passes);
            assert_eq!(snapshot.inbound(), sum_of(&snapshot, rows()));
        }
    });
}
