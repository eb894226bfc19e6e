//! The readings of all inbound resources together.
#![expect(clippy::float_cmp, reason = "whole numbers divided by a second or half a second")]

use leaparray::MetricEvent::{Block, Pass, Success};
use leaparray::{Clock, MetricEvent, NodeConfig, TrafficType, WindowConfig};

use super::*;

const HALF: Duration = Duration::from_millis(500);

#[test]
fn reading_has_the_sums_and_rates_of_all_listed_inbound_resources() {
    let (registry, clock) = registry();
    clock.advance(60 * SECOND);
    let (a, b) = (registry.resource("a").unwrap(), registry.resource("b").unwrap());
    let web = a.in_context("web").unwrap();
    let outbound = registry.resource_with("c", TrafficType::Outbound).unwrap();
    a.enter().success();
    web.block_many_at(web.clock().now(), 2);
    outbound.enter().success();
    clock.advance(HALF);
    b.enter().success();
    b.enter().success();
    clock.advance(HALF / 2);

    let inbound = registry.now();
    let short = inbound.short();
    assert_eq!([Pass, Success, Block].map(|event| short.sum(event)), [3, 3, 2]);
    // The window covers 750 ms.
    assert_eq!(short.qps(Pass), 4.0);
    assert_eq!(short.qps_over_interval(Pass), 3.0);
    assert_eq!((short.previous_qps(Block), short.max_qps(Pass)), (Some(4.0), 4.0));
    let buckets: Vec<_> = short.buckets().map(|it| it.totals.sum(Pass)).collect();
    assert_eq!(buckets, [1, 2]);
    assert_eq!(short.totals().rt_count(), 3);

    registry.remove("b");
    assert_eq!(registry.now().short().sum(Pass), 1);
}

/// The peak of all resources together is in one of their buckets. The sum of snapshots has the peak
/// of one resource only.
#[test]
fn highest_rate_of_all_resources_is_that_of_one_bucket() {
    let (registry, clock) = registry();
    let (a, b) = (registry.resource("a").unwrap(), registry.resource("b").unwrap());
    a.enter().success();
    b.enter().success();
    clock.advance(HALF);
    a.enter().success();
    assert_eq!(registry.now().short().max_qps(Success), 4.0);
    assert_eq!(registry.now().inbound().max_success_qps, 2.0);
}

#[test]
fn window_is_that_of_the_registry_whatever_a_resource_has() {
    let (registry, clock) = registry();
    let second = WindowConfig::new(1, SECOND).unwrap();
    let ten_seconds = WindowConfig::new(10, 10 * SECOND).unwrap();
    let own = NodeConfig::new(second, ten_seconds).unwrap();
    let own = registry.resource_with("own", own).unwrap();
    let plain = registry.resource("plain").unwrap();
    own.block();
    plain.block();
    let sums = || {
        let inbound = registry.now();
        (inbound.short().sum(Block), inbound.long().sum(Block))
    };
    assert_eq!(sums(), (2, 2));
    clock.advance(HALF);
    assert_eq!(sums(), (2, 2));
    clock.advance(HALF);
    assert_eq!(sums(), (0, 2));
    clock.advance(20 * SECOND);
    assert_eq!(sums(), (0, 2));
    assert_eq!(own.now().long().sum(Block), 0, "its own window is ten seconds long");
    assert_eq!(registry.now().inbound().long.totals.sum(Block), 1, "the sum of their windows");
}

#[test]
fn rates_are_divided_by_the_time_since_the_registry_was_made() {
    let (registry, clock) = registry();
    registry.resource("a").unwrap().block_many_at(registry.clock().now(), 3);
    clock.advance(HALF);
    assert_eq!(registry.now().long().qps(Block), 6.0);
}

#[test]
fn ledger_has_everything_also_of_resources_that_are_gone() {
    let (registry, clock) = registry();
    let passes = |event: MetricEvent| {
        let ledger = registry.now().long().ledger().map(|it| it.sum(event));
        assert_eq!(ledger.recorded(), registry.lifetime_of(TrafficType::Inbound).sum(event));
        [ledger.in_window, ledger.expired, ledger.late]
    };
    registry.resource("evicted").unwrap().block_many_at(registry.clock().now(), 1);
    registry
        .resource_with("outbound", TrafficType::Outbound)
        .unwrap()
        .block_many_at(registry.clock().now(), 10_000);
    let removed = registry.resource("removed").unwrap();
    removed.block_many_at(removed.clock().now(), 10);
    let kept = registry.resource("kept").unwrap();
    kept.block_many_at(kept.clock().now(), 100);
    assert_eq!(passes(Block), [111, 0, 0]);

    clock.advance(SECOND);
    registry.evict_idle_at(registry.clock().now(), HALF);
    registry.remove("removed");
    assert_eq!(passes(Block), [100, 11, 0]);
    clock.advance(90 * SECOND);
    kept.block_many_at(kept.clock().now(), 1_000);
    kept.block_many_at(Clock::now(&clock).saturating_sub(60 * SECOND), 5);
    assert_eq!(passes(Block), [1_000, 111, 5]);
}
