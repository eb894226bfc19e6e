//! Contexts of a resource, and the sum of all resources.

use std::time::Duration;

use leaparray::MetricEvent::{Block, Cancelled, Exception, Pass, Success};
use leaparray::node::OnDrop;
use leaparray::registry::{RegistryError, ResourceConfig};
use leaparray::{Clock, RegistryConfig, Resource, TrafficType};

use crate::registry::{SECOND, THREADS, registry, registry_of, together};

#[test]
fn contexts_have_nodes_of_their_own_and_one_sum() {
    let (registry, clock) = registry_of(RegistryConfig::default().max_contexts(2));
    clock.advance(SECOND * 60);
    let orders = registry.resource("orders").unwrap();
    clock.advance(SECOND * 60);
    let (web, batch) = (orders.in_context("web").unwrap(), orders.in_context("batch").unwrap());
    assert_eq!((orders.context(), web.context(), web.name()), (None, Some("web"), "orders"));
    let slow = web.enter();
    clock.advance(Duration::from_millis(20));
    slow.success();
    let quick = batch.enter();
    clock.advance(Duration::from_millis(10));
    quick.exception();
    batch.block();
    let _in_flight = [orders.enter(), web.enter()];

    assert_eq!([&orders, &web, &batch].map(|one| one.now().long().sum(Pass)), [1, 2, 1]);
    let sum = orders.total_snapshot(clock.now());
    assert_eq!(sum, batch.total_snapshot(clock.now()), "the same sum through any of them");
    let sums = [Pass, Block, Success].map(|event| sum.short.totals.sum(event));
    assert_eq!(sums, [4, 1, 1]);
    let covered = Duration::from_millis(530);
    assert_eq!(sum.short.covered, covered, "the time of the oldest node");
    assert_eq!((sum.short.interval, sum.long.covered), (SECOND, Duration::from_millis(59_530)));
    assert_eq!(sum.concurrency, 2);
    let totals = &sum.long.totals;
    assert_eq!(totals.avg_rt(), Some(Duration::from_millis(15)));
    assert_eq!(totals.min_rt(), Some(Duration::from_millis(10)));
    assert_eq!(totals.max_rt(), Some(Duration::from_millis(20)));
    assert_eq!(registry.now().inbound(), sum);
    assert_eq!(registry.lifetime().sum(Pass), 4);

    let refused = registry.resource("orders").unwrap().in_context("more").unwrap_err();
    let (resource, context) = ("orders".into(), "more".into());
    assert_eq!(refused, RegistryError::TooManyContexts { max: 2, resource, context });
    assert_eq!(
        refused.to_string(),
        r#"no room for context "more": resource "orders" is limited to 2 contexts"#
    );
    assert_eq!(registry.refused(), 1);
    let again = batch.in_context("web").unwrap();
    assert!(std::ptr::eq(&raw const *again, &raw const *web));
    let outside = again.without_context();
    assert!(std::ptr::eq(&raw const *outside, &raw const *orders));
    assert_eq!(outside.context(), None);
    let contexts: Vec<_> = orders.contexts().map(|one| one.context().map(String::from)).collect();
    assert_eq!(contexts, [Some("web".into()), Some("batch".into())]);
}

#[test]
fn at_most_one_node_for_a_context_and_no_more_than_the_cap_under_any_race() {
    for _ in 0..300 {
        let (registry, _) = registry_of(RegistryConfig::default().max_contexts(3));
        let resource = registry.resource("a").unwrap();
        let found = together(|number| {
            let mut contexts = ["x", "y", "z", "w"];
            contexts.rotate_left(number);
            contexts.map(|name| resource.in_context(name).map(|context| context.block()).is_ok())
        });
        let recorded = found.iter().flatten().filter(|&&ok| ok).count();
        assert_eq!(resource.contexts().count(), 3);
        assert_eq!(recorded, 3 * THREADS, "all threads find the same three contexts");
        assert_eq!(registry.lifetime().sum(Block), recorded as u64);
        assert_eq!(registry.refused(), THREADS as u64);
    }
}

#[test]
fn inbound_sum_is_made_when_it_is_read() {
    let (registry, clock) = registry();
    clock.advance(SECOND);
    let orders = registry.resource("orders").unwrap();
    let database = registry.resource_with("database", TrafficType::Outbound).unwrap();
    let users = registry.resource("users").unwrap();
    let traffic = [&orders, &database, &users].map(Resource::traffic_type);
    assert_eq!(traffic, [TrafficType::Inbound, TrafficType::Outbound, TrafficType::Inbound]);
    for resource in [&orders, &database, &users] {
        resource.enter().success();
    }
    users.in_context("web").unwrap().block();
    let inbound = registry.now().inbound();
    assert_eq!(inbound.long.totals.sum(Success), 2);
    assert_eq!(inbound.long.totals.sum(Block), 1);
    assert_eq!(inbound.timestamp, clock.now());
    let later = registry.at(clock.now().saturating_add(SECOND * 60)).inbound();
    assert_eq!(later.long.totals.sum(Success), 0);
    let of = |traffic| registry.lifetime_of(traffic).sum(Success);
    assert_eq!((of(TrafficType::Inbound), of(TrafficType::Outbound)), (2, 1));
    drop((orders, database, users));
    assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 3);
    assert_eq!((of(TrafficType::Inbound), of(TrafficType::Outbound)), (2, 1));
    assert_eq!(registry.now().inbound().long.totals.sum(Success), 0);
}

#[test]
fn resource_with_ten_thousand_contexts_is_dropped_on_a_small_stack() {
    let run = || {
        let (registry, _clock) = registry_of(RegistryConfig::default().max_contexts(10_000));
        let resource = registry.resource("orders").unwrap();
        for context in 0..10_000 {
            resource.in_context(&context.to_string()).unwrap();
        }
        assert_eq!(resource.contexts().count(), 10_000);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn drop_of_an_entry_follows_the_registry_the_resource_and_its_contexts() {
    let (registry, _) = registry_of(RegistryConfig::default().on_drop(OnDrop::Cancelled));
    let inherited = registry.resource("orders").unwrap();
    let own = ResourceConfig::default().on_drop(OnDrop::Exception);
    let own = registry.resource_with("users", own).unwrap();
    let contexts = [&inherited, &own].map(|resource| resource.in_context("web").unwrap());
    drop([&inherited, &own, &contexts[0], &contexts[1]].map(|resource| resource.enter()));
    let ends = |resource: &Resource<_>| {
        [Cancelled, Exception].map(|event| resource.now().long().sum(event))
    };
    assert_eq!([ends(&inherited), ends(&contexts[0])], [[1, 0]; 2]);
    assert_eq!([ends(&own), ends(&contexts[1])], [[0, 1]; 2]);
}
