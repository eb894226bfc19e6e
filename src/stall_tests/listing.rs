//! Tests of a thread that evicts or removes a resource, and is stopped before it takes the name out
//! of the map.

use std::sync::Arc;
use std::time::Duration;

use super::threads::{Led, watched};
use crate::histogram::HistogramConfig;
use crate::metric::MetricEvent::Pass;
use crate::node::NodeConfig;
use crate::registry::{Registry, RegistryConfig, RegistryCursor, Visited};
use crate::sync::stall::Point;
use crate::time::{Clock, ManualClock, Timestamp};

type Model = Arc<Registry<ManualClock>>;

/// Starts a thread that removes the resource, and stops it before it takes the name out of the map.
fn stopped_in_removal(registry: &Model) -> Led<()> {
    let mut stopped = Led::start({
        let registry = registry.clone();
        move |leash| {
            leash.put_on();
            assert!(registry.remove("orders"));
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::Gone);
    stopped
}

/// Creates a registry with room for one resource, which is listed and has one pass.
fn registry() -> Model {
    registry_of(NodeConfig::default())
}

fn registry_of(node: NodeConfig) -> Model {
    let config = RegistryConfig::default().max_resources(1).node(node);
    let registry = Arc::new(Registry::with_clock(config, ManualClock::new(Timestamp::MIN)));
    registry.resource("orders").unwrap().enter().success();
    registry
}

/// Stops a thread in `act` when the resource is gone and its name is still in the map. Another
/// thread then does not find the resource, and lists the name anew.
fn list_beside(act: impl FnOnce(&Model) + Send + 'static) {
    let registry = registry();
    let mut stopped = Led::start({
        let registry = registry.clone();
        move |leash| {
            leash.put_on();
            act(&registry);
        }
    });
    assert!(stopped.lead(0));
    stopped.lead_to(Point::Gone);
    let other = registry.clone();
    let anew = watched("a thread that looks the name up", move || {
        assert!(other.get("orders").is_none());
        assert_eq!(other.len(), 1, "a thread that looks a name up takes nothing out of the map");
        let anew = other.resource("orders").unwrap();
        assert_eq!(anew.now().long().sum(Pass), 0, "it is another resource");
        anew
    });
    let anew = anew.result();
    stopped.finish();
    assert!(
        registry
            .get("orders")
            .is_some_and(|found| std::ptr::eq(&raw const *found, &raw const *anew))
    );
    assert_eq!((registry.len(), registry.refused()), (1, 0));
    assert_eq!(registry.lifetime().sum(Pass), 1);
}

#[test]
fn name_of_an_evicted_resource_is_listed_anew_beside_the_thread_that_evicts() {
    list_beside(|registry| {
        assert_eq!(registry.evict_idle_at(registry.clock().now(), Duration::ZERO), 1);
    });
}

#[test]
fn name_of_a_removed_resource_is_listed_anew_beside_the_thread_that_removes() {
    list_beside(|registry| assert!(registry.remove("orders")));
}

#[test]
fn removed_resource_is_reclaimed_after_a_look_up_has_found_it_gone() {
    let registry = registry();
    let held = registry.resource("orders").unwrap();
    let stopped = stopped_in_removal(&registry);
    assert!(registry.get("orders").is_none(), "the name is in the map, and the resource is gone");
    stopped.finish();
    let kept = || registry.delisted().with_holders().count();
    assert_eq!(kept(), 1);
    drop(held);
    assert_eq!(registry.lifetime().sum(Pass), 1);
    assert_eq!(kept(), 0);
}

#[test]
fn resource_that_is_gone_is_in_no_snapshot_although_its_name_is_in_the_map() {
    let registry = registry();
    let stopped = stopped_in_removal(&registry);
    assert_eq!(registry.len(), 1, "the name is in the map");
    assert!(registry.now().snapshot().resources.is_empty());
    stopped.finish();
}

#[test]
fn response_times_of_a_resource_that_is_gone_are_in_no_inbound_histogram() {
    let registry = registry_of(NodeConfig::default().with_histogram(HistogramConfig::default()));
    assert!(registry.now().long().histogram().is_some());
    let stopped = stopped_in_removal(&registry);
    assert_eq!(registry.len(), 1, "the name is in the map");
    assert_eq!(registry.now().long().histogram(), None);
    stopped.finish();
}

#[test]
fn second_of_a_resource_that_is_gone_is_delivered_once_although_its_name_is_in_the_map() {
    let registry = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    let stopped = stopped_in_removal(&registry);
    registry.clock().set(Timestamp::from_secs(1));
    let seconds = registry.now().poll_seconds(&cursor);
    assert_eq!(seconds.iter().map(|second| second.metrics.counts[Pass]).collect::<Vec<_>>(), [1]);
    stopped.finish();
    assert!(registry.now().poll_seconds(&cursor).is_empty());
}

#[test]
fn resource_that_is_gone_is_not_visited_although_its_name_is_in_the_map() {
    let registry = registry();
    let cursor = RegistryCursor::new();
    registry.now().poll_seconds(&cursor);
    let stopped = stopped_in_removal(&registry);
    registry.clock().set(Timestamp::from_secs(1));
    let mut delisted = 0;
    registry.at(Timestamp::from_secs(1)).visit_seconds(&cursor, |visited| match visited {
        Visited::Seconds(_) => {}
        Visited::Delisted(_) => delisted += 1,
        other => panic!("{other:?}"),
    });
    assert_eq!((registry.len(), delisted), (1, 1), "the name is in the map");
    stopped.finish();
}
