//! Counters only grow.

use std::sync::Arc;
use std::time::Duration;

use leaparray_prometheus::RegistryCollector;

use crate::{Samples, registry, succeed};

#[test]
fn resource_that_is_listed_again_begins_at_zero_and_the_registry_does_not() {
    let registry = registry();
    let scrape = || Samples::scrape(RegistryCollector::new(Arc::clone(&registry)));
    for _ in 0..5 {
        succeed(&registry, "orders", 10);
    }
    let before = scrape();
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle(Duration::from_secs(60)), 1);
    let evicted = scrape();
    succeed(&registry, "orders", 10);
    let again = scrape();

    let of_registry =
        |samples: &Samples| samples.number("leaparray_registry_success", &[("kind", "inbound")]);
    assert_eq!([&before, &evicted, &again].map(of_registry), [5.0, 5.0, 6.0]);
    assert_eq!(before.of_resource("leaparray_success", "orders"), 5.0);
    assert_eq!(again.of_resource("leaparray_success", "orders"), 1.0);
    assert!(evicted.0.keys().all(|(family, _)| family != "leaparray_success"));
}

#[test]
fn scrape_leaves_no_handle_behind() {
    let registry = registry();
    succeed(&registry, "orders", 10);
    let collector = Arc::new(RegistryCollector::new(Arc::clone(&registry)));
    for _ in 0..2 {
        assert!(!prometheus::core::Collector::collect(&*collector).is_empty());
    }
    registry.clock().advance(Duration::from_secs(3_600));
    assert_eq!(registry.evict_idle(Duration::from_secs(60)), 1);
}
