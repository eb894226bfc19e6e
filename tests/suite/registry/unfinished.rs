//! The totals of evicted and removed resources that no second delivers yet.

use std::time::Duration;

use fastrand::Rng;
use leaparray::MetricEvent::{Block, Pass};
use leaparray::registry::{RegistryCursor, Visit, Visited};
use leaparray::{Clock, ManualClock, MetricTotals, Outcome, Registry, Resource, Timestamp};

use crate::registry::{NOON, SECOND, registry};

type Tested = Registry<ManualClock>;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The passed and blocked requests that a visit has found.
struct Found {
    visit: Visit,
    /// In the delivered seconds.
    delivered: u64,
    /// In the lifetimes of the visited nodes.
    lifetime: u64,
    /// In the second of now and in later seconds of the visited nodes.
    unfinished: u64,
}

fn requests(totals: &MetricTotals) -> u64 {
    totals.sum(Pass) + totals.sum(Block)
}

fn visit(registry: &Tested, cursor: &RegistryCursor) -> Found {
    let (mut delivered, mut lifetime, mut unfinished) = (0, 0, 0);
    let now = registry.clock().now();
    let visit = registry.at(now).visit_seconds(cursor, |visited| match visited {
        Visited::Node(visited) => {
            lifetime += requests(&visited.node.lifetime());
            unfinished += requests(&visited.node.at(now).unfinished());
        }
        Visited::Second(second) => delivered += second.counts[Pass] + second.counts[Block],
        Visited::Delisted(second) => {
            delivered += second.metrics.counts[Pass] + second.metrics.counts[Block];
        }
        _ => {}
    });
    Found { visit, delivered, lifetime, unfinished }
}

impl Found {
    fn all(&self) -> u64 {
        self.lifetime + requests(&self.visit.delisted)
    }

    fn all_unfinished(&self) -> u64 {
        self.unfinished + requests(&self.visit.unfinished)
    }
}

#[test]
fn evicted_resource_is_unfinished_until_its_second_is_delivered() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    visit(&registry, &cursor);
    registry.resource("orders").unwrap().block_many_at(registry.clock().now(), 3);
    clock.advance(SECOND + millis(300));
    {
        let orders = registry.resource("orders").unwrap().in_context("web").unwrap();
        let entries = [(); 4].map(|()| orders.enter());
        clock.advance(millis(50));
        orders.block_many_at(orders.clock().now(), 7);
        let outcomes = [Outcome::Success, Outcome::Success, Outcome::Exception, Outcome::Cancelled];
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            entry.end_with(outcome);
        }
    }
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    let found = visit(&registry, &cursor);
    assert_eq!((found.delivered, requests(&found.visit.delisted)), (3, 14));
    assert_eq!(requests(&found.visit.unfinished), 11);
    clock.advance(SECOND);
    let found = visit(&registry, &cursor);
    assert_eq!(found.visit.unfinished, MetricTotals::default());
    assert_eq!((found.delivered, requests(&found.visit.delisted)), (11, 14));
}

#[test]
fn unfinished_totals_are_complete() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    visit(&registry, &cursor);
    clock.advance(SECOND);
    let record = |resource: &Resource<ManualClock>| {
        let entries = [(); 4].map(|()| resource.enter());
        clock.advance(millis(50));
        resource.block_many_at(resource.clock().now(), 7);
        let outcomes = [Outcome::Success, Outcome::Success, Outcome::Exception, Outcome::Cancelled];
        for (entry, outcome) in entries.into_iter().zip(outcomes) {
            entry.end_with(outcome);
        }
        assert!(resource.reserve_next_at(resource.clock().now(), 5, 1_000).is_some());
    };
    record(&registry.resource("evicted").unwrap());
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    // Each of them is in one second.
    let Visit { delisted, unfinished, .. } = visit(&registry, &cursor).visit;
    assert_eq!((unfinished.rt_count(), unfinished.max_concurrency()), (3, Some(4)));
    assert_eq!(unfinished, delisted);

    let removed = registry.resource("removed").unwrap();
    record(&removed);
    record(&removed.in_context("web").unwrap());
    assert!(registry.remove("removed"));
    let Visit { delisted, unfinished, .. } = visit(&registry, &cursor).visit;
    assert_eq!(unfinished.rt_count(), 9);
    assert_eq!(unfinished, delisted);
    // Without its handle, it is reclaimed, and its seconds are kept.
    drop(removed);
    assert_eq!(visit(&registry, &cursor).visit.unfinished, delisted);
}

#[test]
fn removed_resource_whose_handle_records_is_unfinished() {
    let (registry, clock) = registry();
    let cursor = RegistryCursor::new();
    visit(&registry, &cursor);
    let orders = registry.resource("orders").unwrap();
    orders.block();
    assert!(registry.remove("orders"));
    orders.block_many_at(orders.clock().now(), 10);
    let found = visit(&registry, &cursor);
    assert_eq!((found.delivered, requests(&found.visit.unfinished)), (0, 11));
    clock.advance(SECOND);
    orders.block_many_at(orders.clock().now(), 100);
    let found = visit(&registry, &cursor);
    assert_eq!((found.delivered, requests(&found.visit.unfinished)), (11, 100));
    orders.block_many_at(NOON, 1_000);
    orders.block_many_at(clock.now().saturating_add(SECOND), 10_000);
    let found = visit(&registry, &cursor);
    assert_eq!(requests(&found.visit.unfinished), 10_100);
    assert_eq!(requests(&found.visit.delisted), 11_111);
    clock.advance(SECOND);
    assert_eq!(requests(&visit(&registry, &cursor).visit.unfinished), 10_000);
    clock.advance(SECOND);
    let found = visit(&registry, &cursor);
    assert_eq!((found.delivered, requests(&found.visit.unfinished)), (10_000, 0));
}

#[test]
fn first_visit_has_the_resources_with_handles() {
    let (registry, clock) = registry();
    registry.resource("evicted").unwrap().block();
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    let removed = registry.resource("removed").unwrap();
    removed.block_many_at(removed.clock().now(), 10);
    assert!(registry.remove("removed"));
    let cursor = RegistryCursor::new();
    let found = visit(&registry, &cursor);
    assert_eq!(requests(&found.visit.delisted), 11);
    assert_eq!(requests(&found.visit.unfinished), 10);
    // The cursor of another reader is known: the seconds are kept for it.
    registry.resource("evicted").unwrap().block_many_at(registry.clock().now(), 100);
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    let other = RegistryCursor::new();
    assert_eq!(requests(&visit(&registry, &other).visit.unfinished), 110);
    clock.advance(SECOND);
    assert_eq!(visit(&registry, &other).delivered, 110);
}

/// Makes one random step, and returns the number of the counts that came after their second was
/// delivered. The seconds before the number `first` were delivered.
fn step(
    registry: &Tested,
    random: &mut Rng,
    handles: &mut Vec<Resource<ManualClock>>,
    first: u64,
) -> u64 {
    let now = registry.clock().now();
    let record = |resource: &Resource<ManualClock>, at: Timestamp, count| {
        resource.block_many_at(at, count);
        if at.as_secs() < first { count } else { 0 }
    };
    let count = random.u64(1..100);
    match random.u32(..16) {
        0 => drop(registry.evict_idle_at(registry.clock().now(), Duration::ZERO)),
        1 => drop(registry.remove(["a", "b", "c"][random.usize(..3)])),
        2 => registry.clock().advance(millis(random.u64(..700))),
        3 | 4 if !handles.is_empty() => {
            handles.swap_remove(random.usize(..handles.len()));
        }
        kind => {
            let mut resource = registry.resource(["a", "b", "c"][random.usize(..3)]).unwrap();
            if random.bool() {
                resource = resource.in_context("web").unwrap();
            }
            if random.u32(..4) == 0 {
                handles.push(resource.clone());
            }
            // Also a removed one.
            if random.bool() && !handles.is_empty() {
                resource = handles[random.usize(..handles.len())].clone();
            }
            return match kind {
                5 => record(&resource, now.saturating_add(millis(random.u64(..1_500))), count),
                6 | 7 => record(&resource, now.saturating_sub(millis(random.u64(..3_000))), count),
                8 => {
                    let _reserved =
                        resource.reserve_next_at(resource.clock().now(), count, 1_000_000);
                    0
                }
                _ => record(&resource, now, count),
            };
        }
    }
    0
}

/// Each count is in a delivered second, unfinished, or late.
#[test]
fn counts_of_a_registry_are_delivered_unfinished_or_late() {
    let (mut with_late, mut with_unfinished) = (0, 0);
    for seed in 0..40 {
        let (registry, _) = registry();
        let (cursor, slower) = (RegistryCursor::new(), RegistryCursor::new());
        // From now on, seconds are kept for both.
        registry.now().poll_seconds(&slower);
        let mut delivered = visit(&registry, &cursor).delivered;
        let (mut random, mut handles) = (Rng::with_seed(seed), Vec::new());
        let (mut late, mut first) = (0, registry.clock().now().as_secs());
        for _ in 0..500 {
            late += step(&registry, &mut random, &mut handles, first);
            if random.u32(..6) == 0 {
                let found = visit(&registry, &cursor);
                delivered += found.delivered;
                first = found.visit.seconds.end;
                let all = delivered + found.all_unfinished() + late;
                assert_eq!(all, found.all(), "seed {seed}");
                assert_eq!(found.all(), requests(&registry.lifetime()));
                with_unfinished += u32::from(requests(&found.visit.unfinished) > 0);
            }
            if random.u32(..40) == 0 {
                registry.now().poll_seconds(&slower);
            }
        }
        registry.clock().advance(3 * SECOND);
        let found = visit(&registry, &cursor);
        delivered += found.delivered;
        assert_eq!(found.all_unfinished(), 0);
        assert_eq!(delivered + late, found.all(), "seed {seed}");
        with_late += u32::from(late > 0);
    }
    assert!(with_late > 30 && with_unfinished > 300, "{with_late} and {with_unfinished}");
}
