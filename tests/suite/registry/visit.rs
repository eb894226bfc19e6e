//! One pass over all nodes and their seconds: the seconds of a poll, and the lifetime totals.

use std::collections::HashSet;
use std::time::Duration;

use fastrand::Rng;
use leaparray::MetricEvent::{Block, Pass};
use leaparray::metric::SecondMetrics;
use leaparray::registry::{RegistryCursor, ResourceSecond, Visited, VisitedNode};
use leaparray::{
    Clock, Entry, HistogramConfig, ManualClock, NodeConfig, Outcome, Registry, RegistryConfig,
    Resource, TrafficType,
};

use crate::registry::{SECOND, registry, registry_of};

type Tested = Registry<ManualClock>;

/// The names of a node, and whether it is outbound.
type Names = (String, Option<String>, bool);

/// A second of a node.
type Row = (Names, SecondMetrics);

/// The results of a visit.
#[derive(Default)]
struct Found {
    seconds: Vec<Row>,
    in_flight: u64,
    passes: u64,
}

fn names_of(node: &VisitedNode<'_, ManualClock>) -> Names {
    let is_outbound = node.traffic_type == TrafficType::Outbound;
    (node.name.to_string(), node.context.map(ToString::to_string), is_outbound)
}

fn row(second: &ResourceSecond) -> Row {
    let is_outbound = second.traffic_type == TrafficType::Outbound;
    let context = second.context.as_ref().map(ToString::to_string);
    ((second.name.to_string(), context, is_outbound), second.metrics.clone())
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (a.1.second, &a.0).cmp(&(b.1.second, &b.0)));
    rows
}

fn visit(registry: &Tested, cursor: &RegistryCursor) -> Found {
    let (mut found, mut ids, mut current) = (Found::default(), HashSet::new(), None);
    let mut range = None;
    let visit =
        registry.at(registry.clock().now()).visit_seconds(cursor, |visited| match visited {
            Visited::Seconds(seconds) => {
                assert!(ids.is_empty() && range.is_none(), "the numbers come first, and once");
                range = Some(seconds);
            }
            Visited::Node(node) => {
                assert!(ids.insert(node.id), "{} is visited once", node.name);
                found.in_flight += node.node.concurrency();
                found.passes += node.node.lifetime().sum(Pass);
                current = Some(names_of(&node));
            }
            Visited::Second(metrics) => {
                found
                    .seconds
                    .push((current.clone().expect("its node comes first"), metrics.clone()));
            }
            Visited::Delisted(second) => found.seconds.push(row(second)),
            _ => unreachable!("these are all"),
        });
    assert_eq!(range, Some(visit.seconds));
    found.passes += visit.delisted.sum(Pass);
    found.seconds = sorted(found.seconds);
    found
}

/// Makes one random step of requests, contexts, evictions and removals.
fn step(
    registry: &Tested,
    random: &mut Rng,
    in_flight: &mut Vec<Entry<Resource<ManualClock>, ManualClock>>,
) {
    let name = ["a", "b", "c"][random.usize(..3)];
    let traffic = [TrafficType::Inbound, TrafficType::Outbound][random.usize(..2)];
    match random.u32(..10) {
        0 => drop(registry.evict_idle_at(registry.clock().now(), Duration::ZERO)),
        1 => drop(registry.remove(name)),
        2 => registry.clock().advance(Duration::from_millis(random.u64(..700))),
        3 | 4 if !in_flight.is_empty() => {
            in_flight.swap_remove(random.usize(..in_flight.len())).end_with(Outcome::Success);
        }
        kind => {
            let mut resource = registry.resource_with(name, traffic).unwrap();
            if kind % 2 == 0 {
                resource = resource.in_context("web").unwrap();
            }
            in_flight.push(Entry::enter(resource));
        }
    }
}

#[test]
fn visit_finds_the_seconds_of_a_poll_and_the_lifetime_totals() {
    let node = NodeConfig::default().with_histogram(HistogramConfig::default());
    for seed in 0..30 {
        let (registry, clock) = registry_of(RegistryConfig::default().node(node));
        let (polled, visited) = (RegistryCursor::new(), RegistryCursor::new());
        // From now on, seconds are kept for both.
        registry.now().poll_seconds(&polled);
        visit(&registry, &visited);
        let (mut random, mut in_flight) = (Rng::with_seed(seed), Vec::new());
        for _ in 0..300 {
            step(&registry, &mut random, &mut in_flight);
            if random.u32(..8) == 0 {
                let expected = registry.now().poll_seconds(&polled);
                let found = visit(&registry, &visited);
                assert_eq!(found.seconds, sorted(expected.iter().map(row).collect()), "{seed}");
                assert_eq!(found.passes, registry.lifetime().sum(Pass), "{seed}");
                assert!(found.in_flight <= in_flight.len() as u64);
            }
        }
        clock.advance(SECOND);
        in_flight.clear();
        assert_eq!(visit(&registry, &visited).in_flight, 0);
    }
}

#[test]
fn second_of_a_relisted_resource_includes_the_one_before() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    visit(&registry, &cursor);
    for _ in 0..3 {
        registry.resource("orders").unwrap().block_many_at(registry.clock().now(), 2);
        assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    }
    registry.resource("orders").unwrap().block();
    registry.resource("gone").unwrap().block();
    assert!(registry.remove("gone"));
    clock.advance(SECOND);
    let found = visit(&registry, &cursor);
    let blocked: Vec<_> =
        found.seconds.iter().map(|((name, ..), it)| (name.as_str(), it.counts[Block])).collect();
    assert_eq!(blocked, [("gone", 1), ("orders", 7)]);
    assert_eq!(visit(&registry, &cursor).seconds, [], "each second once");
}

#[test]
fn idle_node_is_visited_with_its_requests_in_flight() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    let orders = registry.resource("orders").unwrap();
    let _in_flight = orders.enter();
    clock.advance(SECOND);
    assert_eq!(visit(&registry, &cursor).seconds.len(), 1);
    clock.advance(SECOND);
    let found = visit(&registry, &cursor);
    assert_eq!((found.seconds.len(), found.in_flight), (0, 1));
}
